"""Batching rules of views, of shapes, of joining and of functions along dimensions: the dimensions move by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.batched.array import Batched, aligned, batch, by, fronted, has, top
from ferro.batched.rules import QUIET, SHARING, call, declare, each, rule
from ferro.cpu.shape import strided

# -- views -------------------------------------------------------------------------------------------------------------

_VIEWS = """reshape permute transpose expand unsqueeze squeeze select narrow split unbind diagonal windows bit_view real imag
    as_strided slice_get as_complex view_as_complex view_as_real"""
SHARING.update(_VIEWS.split())
declare(
    narrow="x d - -",
    split="x - d",
    unbind="x d",
    select="x d -",
    reshape="x s",
    view_as_complex="e",
    view_as_real="e",
    as_complex="e",
    new_zeros="x s",
    zeros_like="x",
    ones_like="x",
)


@rule("permute")
def _permute(f: Any, level: Any, x: Any, dims: tuple) -> Any:
    n = x.ndim
    return batch(f(x.physical, (0, *[d % n + 1 for d in dims])), level)


@rule("transpose")
def _transpose(f: Any, level: Any, x: Any, dim0: int, dim1: int) -> Any:
    n = x.ndim
    return batch(f(x.physical, dim0 % n + 1, dim1 % n + 1), level) if n else x


@rule("expand")
def _expand(f: Any, level: Any, x: Any, shape: tuple) -> Any:
    return batch(f(aligned(x, level, len(shape)), (level.size, *shape)), level)


@rule("unsqueeze")
def _unsqueeze(f: Any, level: Any, x: Any, dim: int) -> Any:
    return batch(f(x.physical, dim % (x.ndim + 1) + 1), level)


@rule("squeeze")
def _squeeze(f: Any, level: Any, x: Any, dim: Any) -> Any:
    n = x.ndim
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return batch(f(x.physical, tuple([d % n + 1 for d in dims if -n <= d < n and x.shape[d] == 1])), level)


@rule("slice_get")
def _slice_get(f: Any, level: Any, x: Any, key: tuple) -> Any:
    return x[key]


@rule("bit_view")
def _bit_view(f: Any, level: Any, x: Any, dtype: Any) -> Any:
    p = x.physical
    if not x.ndim and np.dtype(dtype).itemsize != x.itemsize:
        return f(x.reshape((1,)), dtype)
    return batch(f(p, dtype), level)


@rule("windows")
def _windows(f: Any, level: Any, x: Any, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return batch(by(np.broadcast_to, x.physical[:, None], (level.size, size)), level)
    if type(x.physical) is Batched:  # the batch of an outer level comes to lie in front
        return NotImplemented
    return batch(f(x.physical, dim % x.ndim + 1, size, step), level)


@rule("as_strided")
def _as_strided(f: Any, level: Any, x: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    p = x.physical
    if type(p) is np.ndarray and x.geometry() == source and p.size:
        item = p.dtype.itemsize
        start = (offset - source[2]) * item
        return batch(strided(p, (level.size, *size), (p.strides[0], *[s * item for s in stride]), start), level)
    return call_read(x, size, stride, offset, source)


def call_read(x: Any, *args: Any) -> Any:
    """`as_strided` of what is laid out otherwise: a copy."""
    return call("as_strided_read", x, *args)


QUIET.update(("as_strided_read", "as_strided_add", "as_strided_put", "windows_add"))

# -- joining -----------------------------------------------------------------------------------------------------------


@rule("cat stack block_diag")
def _joined(f: Any, level: Any, xs: Any, *dim: int) -> Any:
    if not dim:
        return NotImplemented
    return batch(f(tuple([fronted(x, level) for x in xs]), dim[0] + 1 if dim[0] >= 0 else dim[0]), level)


declare(flip="x D", repeat_interleave="x - d", roll="x - D", rot90="x - D", tril="x -", triu="x -")


@rule("repeat")
def _repeat(f: Any, level: Any, x: Any, times: tuple) -> Any:
    return batch(f(aligned(x, level, len(times)), (1, *times)), level)


@rule("constant_pad")
def _constant_pad(f: Any, level: Any, x: Any, pads: tuple, value: Any) -> Any:
    return NotImplemented if top((value,)) else batch(f(x.physical, ((0, 0), *pads), value), level)


@rule("diagonal")
def _diagonal(f: Any, level: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    n = x.ndim
    return batch(f(x.physical, offset, dim1 % n + 1, dim2 % n + 1), level)


@rule("diag_embed")
def _diag_embed(f: Any, level: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    n = x.ndim + 1
    return batch(f(x.physical, offset, dim1 % n + 1, dim2 % n + 1), level)


# -- along dimensions --------------------------------------------------------------------------------------------------

declare(
    **each("x D -", "all amax amin aminmax any logsumexp mean nansum sum"),
    count_nonzero="x D",
    var="x D - -",
    std="x D - -",
    var_mean="x D - -",
    std_mean="x D - -",
    vector_norm="x - D -",
    tie_weights="x x D -",
)
declare(
    **each("x d -", "max_dim min_dim median_dim nanmedian_dim mode sort argsort"), kthvalue="x - d -", topk="x - d -"
)
declare(**each("x d", "cummax cummin cumprod cumsum cumsum_vjp logcumsumexp log_softmax softmax"))
declare(
    cumprod_others="x x x d",
    softmax_vjp="x x d",
    log_softmax_vjp="x x d",
    picked_sum="x d x",
    value_gather="x d x -",
    value_scatter="x s d x -",
    affine_scan="x x d -",
    shift="x - d -",
)
declare(windows_add="x s d - -")
declare(fft_bins="x d - -", fft_c2c="x D - -", fft_c2r="x D - - -", fft_r2c="x D - -")


@rule("prod argmax argmin")
def _reduced(f: Any, level: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    n = x.ndim
    if dim is not None and n:
        return batch(f(x.physical, dim % n + 1, keepdim), level)
    found = f(x.physical.reshape((level.size, x.size)), 1, False)
    return batch(found.reshape((level.size, *(1,) * n)) if keepdim else found, level)


@rule("prod_others")
def _prod_others(f: Any, level: Any, x: Any, dim: int | None) -> Any:
    n = x.ndim
    if dim is not None and n:
        return batch(f(x.physical, dim % n + 1), level)
    p = x.physical
    return batch(f(p.reshape((level.size, x.size)), 1).reshape(p.shape), level)


@rule("median nanmedian")
def _median(f: Any, level: Any, x: Any) -> Any:
    return batch(call(f"{f.args[0]}_dim", x.physical.reshape((level.size, x.size)), 1, False)[0], level)


@rule("cross")
def _cross(f: Any, level: Any, x: Any, y: Any, dim: int) -> Any:
    n = max(x.ndim, y.ndim)
    return batch(f(*[aligned(v, level, n) for v in (x, y)], dim % n + 1), level)


@rule("searchsorted")
def _searchsorted(f: Any, level: Any, boundaries: Any, x: Any, right: bool) -> Any:
    if not has(boundaries, level) and boundaries.ndim == 1:
        return batch(f(boundaries, x.physical, right), level)
    return (
        NotImplemented
        if not (boundaries.ndim and x.ndim == boundaries.ndim)
        else batch(f(fronted(boundaries, level), fronted(x, level), right), level)
    )
