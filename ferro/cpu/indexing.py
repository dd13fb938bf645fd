"""Reading and writing elements of NumPy arrays by index.

Note [Duplicates].  Where an index names a place twice, sums are taken in the order of the index: NumPy's ``add.at`` and
the kernels both do so, hence results depend neither on the path taken nor on threads.  Functions whose names end in
an underscore change their first argument; the others copy it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, places, sides
from ferro.cpu.kernels import gather_scatter
from ferro.cpu.kernels.common import SMALL, has_kernel, is_half
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.strided_copy import assign, contiguous, zeros
from ferro.cpu.thresholds import COPY_LEAST, GRAIN, INDEX_LEAST

__all__ = ["diagonal_put", "finds_wrong_places", "gather", "gather_spread", "index_add", "index_add_", "index_copy", "index_copy_",
           "index_fill", "index_fill_", "index_get", "index_put_", "index_put_at", "index_select", "index_spread", "is_within",
           "prod_once", "put", "put_", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
           "select_spread", "slice_get", "slice_place", "slice_put", "take"]  # fmt: skip

ALL = slice(None)


def is_within(index: Any, low: int, high: int) -> bool:
    """Whether all integers of an index lie in [low, high)."""
    if 0 in index.strides:  # expanded: to look at every number once is enough
        index = index[tuple([slice(None) if stride else slice(1) for stride in index.strides])]
    return int(index.min()) >= low and int(index.max()) < high if low else gather_scatter.within(index, high)


# -- basic indexing ----------------------------------------------------------------------------------------------------


slice_get = operator.getitem  # the view x[key] for a key of integers, slices, None and one Ellipsis


def slice_put(x: Any, src: Any, key: tuple) -> Any:
    """x with src at x[key]."""
    out = contiguous(x)
    if out.size < COPY_LEAST:
        out[key] = src
    else:
        assign((out[key], src))
    return out


def slice_place(g: Any, shape: tuple, key: tuple) -> Any:
    """Zeros of `shape` with g at [key]: the transpose of `slice_get`."""
    out = zeros(shape, g.dtype)
    if g.size < COPY_LEAST:
        out[key] = g
    else:
        assign((out[key], g))
    return out


def diagonal_put(x: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    """x with src on a diagonal."""
    out = contiguous(x)
    i = np.arange(src.shape[-1])
    np.moveaxis(out, (dim1, dim2), (-2, -1))[..., i + max(-offset, 0), i + max(offset, 0)] = src
    return out


# -- an index of the same number of dimensions ---------------------------------------------------------------------------


def _mesh(dim: int, index: Any) -> tuple:
    """The key under which NumPy finds what gather finds along `dim`."""
    n = index.ndim
    _need_places(index.shape[dim], dim, index)
    return tuple(
        [index if d == dim else np.arange(s).reshape((s,) + (1,) * (n - d - 1)) for d, s in enumerate(index.shape)]
    )


def _places(shape: tuple, dim: int, index: Any) -> Any:
    """The flat numbers, in a C-ordered array of `shape`, of the elements that `index` names along `dim`."""
    n, step, places = index.ndim, 1, None
    if index.size and (index.min() < 0 or index.max() >= shape[dim]):  # another row, in the flat array
        raise IndexError(f"an index is out of bounds for dimension {dim} with size {shape[dim]}")
    for d in reversed(range(n)):
        part = index if d == dim else np.arange(index.shape[d]).reshape((-1,) + (1,) * (n - d - 1))
        part = part * step if step != 1 else part
        places = part if places is None else places + part
        step *= shape[d]
    return places


def finds_wrong_places(x: Any, dim: int, index: Any) -> bool:
    """Whether gather, scatter and scatter_add refuse an index out of bounds with an IndexError."""
    return x.ndim > 0


def _need_places(size: int, dim: int, index: Any) -> None:
    """IndexError for numbers below 0, which NumPy takes for places from the end (it refuses those that are too large)."""
    if index.size and index.min() < 0:
        raise IndexError(f"index {index.min()} is out of bounds for dimension {dim} with size {size}")


def _places_along(make: Make) -> Iterator[tuple]:
    """An array, a dimension, an index that names other places for each element or the same for all."""
    for rows in (*sides(math.ceil(SMALL / 20)), GRAIN // 20):
        for dim in (0, 1):
            for some in (slice(None), slice(1)):
                index = places(make, (rows, 20)[dim], rows, 20)
                yield make(rows, 20), dim, np.broadcast_to(index[(slice(None),) * (1 - dim) + (some,)], index.shape)


@entry("", "jit_places.entries")
@by_kernels("gather gather_rows take", _places_along)
def gather(x: Any, dim: int, index: Any) -> Any:
    """x[..., index[...], ...]: along `dim` the element that `index` names, elsewhere the same position."""
    if not x.ndim or not index.ndim:
        return x.reshape(-1)[index]
    if x.ndim == 1 or (x.ndim == 2 and index.size < SMALL):
        _need_places(x.shape[dim], dim, index)
        if x.ndim == 1:
            return x[index]
        return x[index, np.arange(index.shape[1])] if dim == 0 else x[np.arange(index.shape[0])[:, None], index]
    if gather_scatter.fits(x, dim, index):
        line = gather_scatter.line(x, dim, index)
        found = None if line is None else gather_scatter.take(x, dim, line)
        return gather_scatter.gather(x, dim, index) if found is None else found
    if x.flags.c_contiguous:
        return x.reshape(-1)[_places(x.shape, dim, index)]
    return x[_mesh(dim, index)]


_MOST_KEYS = 32  # arrays that `ufunc.at` takes as indices; NumPy 2.5 ends the process where there are more


def _combine(ufunc: Any, out: Any, dim: int, index: Any, src: Any) -> None:
    """out[index] = ufunc(out[index], src) for one element after the other."""
    if not index.size:
        return
    if out.ndim == 0:
        out, index, src = out.reshape(1), index.reshape(-1), np.broadcast_to(src, index.shape).reshape(-1)
    if is_half(out):  # sums are taken in single precision and rounded once
        wide = out.astype(np.float32)
        _combine(ufunc, wide, dim, index, src.astype(np.float32))
        out[...] = wide
    elif ufunc is np.add and gather_scatter.fits(out, dim, index):
        line = gather_scatter.line(out, dim, index)
        if line is None:
            gather_scatter.write("scatter_add", out, dim, index, src)
        else:
            gather_scatter.add_slices(out, dim, line, np.broadcast_to(src, index.shape))
    elif out.flags.c_contiguous and (index.size >= INDEX_LEAST or out.ndim > _MOST_KEYS):
        ufunc.at(out.reshape(-1), _places(out.shape, dim, index).reshape(-1), np.ascontiguousarray(src).reshape(-1))
    elif out.ndim > _MOST_KEYS:
        whole = np.ascontiguousarray(out)
        _combine(ufunc, whole, dim, index, src)
        out[...] = whole
    else:
        ufunc.at(out, _mesh(dim, index), src)


@by_kernels(
    "scatter_add scatter_add_rows add_slices",
    lambda make: ((*given, make(*given[0].shape)) for given in _places_along(make)),
)
def scatter_add_(out: Any, dim: int, index: Any, src: Any) -> Any:
    """Adds src to the elements of `out` that `index` names along `dim`."""
    _combine(np.add, out, dim, index, src)
    return out


@entry("", "jit_places.entries")
def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x plus src at the elements that `index` names along `dim`."""
    return scatter_add_(contiguous(x), dim, index, src)


def prod_once(x: Any, several: Any) -> Any:
    """x: of arrays no further derivative is asked."""
    return x


def gather_spread(g: Any, shape: tuple, dim: int, index: Any) -> Any:
    """Zeros of `shape` to which g is added where `gather` reads: its transpose."""
    return scatter_add_(zeros(shape, g.dtype), dim, index, g)


def _places_once(make: Make) -> Iterator[tuple]:
    for x, dim, _ in _places_along(make):  # (which of several writes stays is nobody's promise)
        yield x, dim, np.argsort(make(*x.shape), dim), make(*x.shape)


@by_kernels("scatter scatter_rows", _places_once)
def scatter_(out: Any, dim: int, index: Any, src: Any) -> Any:
    """Writes src (an array like the index, or a number) to the elements of `out` that `index` names along `dim`."""
    if out.ndim == 0:
        if index.size:
            out[...] = np.asarray(src).reshape(-1)[-1]
    elif isinstance(src, np.ndarray) and src.ndim and gather_scatter.fits(out, dim, index):
        gather_scatter.write("scatter", out, dim, index, src)
    else:
        out[_mesh(dim, index)] = src
    return out


@entry("", "jit_places.entries")
def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x with src at the elements that `index` names along `dim`."""
    return scatter_(contiguous(x), dim, index, src)


def scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Combines src ("prod", "amax", "amin") into the elements of x that `index` names, or into nothing there."""
    ufunc = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    out = contiguous(x)
    if not include_self:
        scatter_(out, dim, index, _neutral(reduce, x.dtype))
    _combine(ufunc, out, dim, index, src)
    return out


def _neutral(reduce: str, dtype: Any) -> Any:
    if reduce == "prod":
        return 1
    low = reduce == "amax"
    if dtype.kind == "b":
        return not low
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if low else np.iinfo(dtype).max
    return -np.inf if low else np.inf


# -- an index of one dimension -----------------------------------------------------------------------------------------


def _slices(make: Make) -> Iterator[tuple]:
    for x, dim, index in _places_along(make):
        yield x, dim, np.ascontiguousarray(index.take(0, 1 - dim))
    yield make(2, SMALL), 1, places(make, SMALL, SMALL)


@entry("", "jit_places.entries")
@by_kernels("take gather_rows", _slices)
def index_select(x: Any, dim: int, index: Any) -> Any:
    """The slices of x along `dim` that `index` names; IndexError where one is not in [0, x.shape[dim])."""
    found = gather_scatter.take(x, dim, index)
    if found is None:
        if not gather_scatter.within(index, x.shape[dim]):  # NumPy takes negative numbers for places from the end
            raise IndexError("index_select: the index is out of bounds")
        found = x.take(index, dim)
    return found


def _spread(dim: int, index: Any, like: Any) -> Any:
    """An index of one dimension as one for `like`, all of whose dimensions it has."""
    return np.broadcast_to(index.reshape((-1,) + (1,) * (like.ndim - dim - 1)), like.shape)


@by_kernels("add_slices scatter_add_rows", lambda make: ((*given, make(*given[0].shape)) for given in _slices(make)))
def index_add_(out: Any, dim: int, index: Any, src: Any) -> Any:
    """Adds the slices of src along `dim` to those of `out` that `index` names."""
    if has_kernel(src, "add_slices", "scatter_add_rows") and src.dtype is out.dtype and out.flags.c_contiguous:
        gather_scatter.add_slices(out, dim, index, src.copy() if np.may_share_memory(out, src) else src)
    elif src.size < INDEX_LEAST and out.ndim and not is_half(out):
        np.add.at(out, (ALL,) * dim + (index,), src)  # type: ignore[arg-type]
    else:
        _combine(np.add, out, dim, index if out.ndim <= 1 else _spread(dim, index, src), src)
    return out


def index_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x plus the slices of src along `dim` at the slices that `index` names."""
    return index_add_(contiguous(x), dim, index, src)


def select_spread(g: Any, shape: tuple, dim: int, index: Any) -> Any:
    """Zeros of `shape` to which g is added where `index_select` reads: its transpose."""
    return index_add_(zeros(shape, g.dtype), dim, index, g)


def index_copy_(out: Any, dim: int, index: Any, src: Any) -> Any:
    """Writes the slices of src along `dim` to those of `out` that `index` names."""
    if out.ndim:
        out[(ALL,) * dim + (index, ...)] = src
    else:
        out[...] = src.reshape(())
    return out


def index_copy(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x with the slices of src along `dim` at the slices that `index` names."""
    return index_copy_(contiguous(x), dim, index, src)


def index_fill_(out: Any, dim: int, index: Any, value: Any) -> Any:
    """Writes one value to the slices of `out` along `dim` that `index` names."""
    if out.ndim:
        out[(ALL,) * dim + (index, ...)] = value
    elif index.size:
        out[...] = value
    return out


def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """x with one value in the slices along `dim` that `index` names."""
    return index_fill_(contiguous(x), dim, index, value)


# -- flat numbers ------------------------------------------------------------------------------------------------------


def take(x: Any, index: Any) -> Any:
    """The elements of x, counted in C order, that `index` names."""
    return x.take(index)


def put_(out: Any, index: Any, src: Any, accumulate: bool) -> Any:
    """Writes (or adds) src to the elements of `out`, counted in C order, that `index` names."""
    places, values = index.reshape(-1), np.ascontiguousarray(src).reshape(-1)
    if not out.flags.c_contiguous:
        out[...] = put_(contiguous(out), index, src, accumulate)
    elif accumulate:
        places = np.where(places < 0, places + out.size, places)
        _combine(np.add, out.reshape(-1), 0, places, values)
    else:
        out.reshape(-1)[places] = values
    return out


def put(x: Any, index: Any, src: Any, accumulate: bool) -> Any:
    """x with src written (or added) to the elements, counted in C order, that `index` names."""
    return put_(contiguous(x), index, src, accumulate)


# -- several indices at once -------------------------------------------------------------------------------------------


def _key(index: Any, dims: tuple) -> tuple:
    """The NumPy key of the indices index[0], index[1], ... of the dimensions `dims`."""
    if len(dims) == 1:
        return (ALL,) * dims[0] + (index[0],)
    key = [ALL] * (dims[-1] + 1)
    for d, i in zip(dims, index, strict=True):
        key[d] = i
    return tuple(key)


@entry("", "jit_places.entries")
def index_get(x: Any, index: Any, dims: tuple) -> Any:
    """x indexed by index[0], index[1], ... in the dimensions `dims`."""
    if len(dims) == 1:
        return x.take(index[0], dims[0])
    return x[_key(index, dims)]


def index_put_(out: Any, index: Any, value: Any, dims: tuple, accumulate: bool) -> Any:
    """Writes (or adds) `value`, broadcast, to what `index_get` reads."""
    if not accumulate:
        out[_key(index, dims)] = value
    elif max(value.size, index.size) < INDEX_LEAST and len(dims) <= _MOST_KEYS and not is_half(out):
        np.add.at(out, _key(index, dims), value)
    elif len(dims) == 1 and dims[0] and out.size:
        lead, rest = out.shape[: dims[0]], out.shape[dims[0] + 1 :]
        places = index[0].reshape(-1) % out.shape[dims[0]]
        values = np.broadcast_to(value, (*lead, *index.shape[1:], *rest)).reshape(*lead, places.size, *rest)
        index_add_(out, dims[0], places, values)
    elif dims == tuple(range(len(dims))) and out.flags.c_contiguous and index.size and out.size:
        lead, rest = out.shape[: len(dims)], out.shape[len(dims) :]
        rows = (
            index[0].reshape(-1) % lead[0]
            if len(dims) == 1
            else np.ravel_multi_index(tuple(index), lead, mode="wrap").reshape(-1)
        )
        values = np.broadcast_to(value, index.shape[1:] + rest).reshape(-1, *rest)
        index_add_(out.reshape(-1, *rest), 0, rows, values)
    elif is_half(out):
        out[...] = index_put_(out.astype(np.float32), index, value.astype(np.float32), dims, True)
    elif len(dims) > _MOST_KEYS:
        raise IndexError(
            f"index_put: {len(dims)} indices and accumulate=True, where NumPy takes {_MOST_KEYS}; a contiguous tensor may have more"
        )
    else:
        np.add.at(out, _key(index, dims), value)
    return out


def index_spread(g: Any, shape: tuple, index: Any, dims: tuple) -> Any:
    """Zeros of `shape` to which g is added where `index_get` reads: its transpose."""
    return index_put_(zeros(shape, g.dtype), index, g, dims, True)


def index_put_at(x: Any, index: Any, value: Any, dims: tuple, accumulate: bool) -> Any:
    """x with `value` written (or added) to what `index_get` reads."""
    return index_put_(contiguous(x), index, value, dims, accumulate)
