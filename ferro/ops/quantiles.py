"""Quantiles: elements of a rank, and numbers between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.requirements import perhaps, require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.order import distinct, sort
from ferro.ops.reductions import renamed
from ferro.ops.selection import WITH_NAN

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["nanquantile", "quantile"]


ROUNDINGS = ("linear", "lower", "higher", "midpoint", "nearest")


@in_full_precision
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
    **names: Any,
) -> Tensor:
    """The q-quantiles along `dim` (of all by default): the element of rank q (n - 1), between two by `interpolation`.

    A one-dimensional `q` adds a first dimension to the result.  nan where an element is nan.

    - `input` (Tensor): any shape, float32 or float64
    - `q` (float or Tensor): in [0, 1]; a tensor of one dimension adds a first dimension to the result
    - `dim` (int, default None): the dimension; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `interpolation` (str, default "linear"): "linear", "lower", "higher", "midpoint" or "nearest": what is taken
      between two elements
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for a q out of range, other dtypes and no elements, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.quantile(ferro.tensor([0.0, 1.0, 2.0, 10.0]), ferro.tensor([0.0, 0.5, 1.0]))
        tensor([ 0.0000,  1.5000, 10.0000])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, out, names)


@in_full_precision
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
    **names: Any,
) -> Tensor:
    """The :func:`quantile` of the elements that are not nan; nan if all are.

    - `input` (Tensor): any shape, float32 or float64
    - `q` (float or Tensor): in [0, 1]; a tensor of one dimension adds a first dimension to the result
    - `dim` (int, default None): the dimension; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `interpolation` (str, default "linear"): "linear", "lower", "higher", "midpoint" or "nearest": what is taken
      between two elements
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for a q out of range, other dtypes and no elements, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.nanquantile(ferro.tensor([0.0, 1.0, 2.0, 10.0]), ferro.tensor([0.0, 0.5, 1.0]))
        tensor([ 0.0000,  1.5000, 10.0000])
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, out, names)


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, out: Any, names: dict) -> Any:
    if names:
        dim, keepdim = renamed(name, names, dim, keepdim)
    q = _check_quantile(name, input, q, interpolation)
    if out is not None and need_tensor(name, "out", out).dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: quantile() out tensor must be same dtype as the input tensor: {out.dtype} is not {input.dtype}"
        )
    a, fn = input._data, backend.functional
    many = q._data.ndim == 1
    d = a.ndim if dim is None else one_dim(name, a.ndim, dim)
    x = fn.reshape(input, (-1,)) if dim is None or a.ndim == 0 else fn.movedim(input, d, -1)
    if x._data.shape[-1] == 0 or a.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty, got shape {list(a.shape)}")
    ordered = sort(x, -1)[0]
    ranks = _ranks(name, ordered._data, q, interpolation)
    result = _between(fn, ordered, ranks, interpolation)
    if many:
        result = fn.movedim(result, -1, 0)
    else:
        result = fn.squeeze(result, -1)
    if keepdim:
        lead = result._data.shape[:1] if many else ()
        rest = (1,) * a.ndim if dim is None else tuple([1 if k == d else s for k, s in enumerate(a.shape)])
        result = fn.reshape(result, lead + rest)
    return into(name, out, result)


def _check_quantile(name: str, input: Any, q: Any, interpolation: str) -> Any:
    """`q` as a tensor, after all arguments were looked at."""
    d = need_tensor(name, "input", input)._data.dtype
    if d not in (dtypes.float32.np, dtypes.float64.np):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {dtypes.FROM_NUMPY[d]}")
    if interpolation not in ROUNDINGS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, TensorBase):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return wrap(backend.beside(input._data, np.asarray(q, d)))
    if q._data.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got shape {list(q._data.shape)}")
    if q._data.dtype is not d:
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor: {dtypes.FROM_NUMPY[q._data.dtype]} is not "
            f"{input.dtype}"
        )
    inside = (q._data >= 0) & (q._data <= 1)
    require(inside, RuntimeError, f"{name}() q values must be in the range [0, 1]")
    return q


def _ranks(name: str, ordered: Any, q: Any, interpolation: str) -> Any:
    """The ranks, in general not whole, of the quantiles in rows sorted with nan last: shape (..., number of q)."""
    n = ordered.shape[-1]
    xp = xp_of(ordered)
    q = backend.functional.reshape(q, (-1,))
    if name == "quantile":
        nans = xp.isnan(ordered[..., -1:])
        last = backend.beside(ordered, np.full(nans.shape, n - 1, ordered.dtype))
    else:
        last = xp.clamp((~xp.isnan(ordered)).sum(-1, keepdims=True) - 1, 0, None).astype(ordered.dtype)
        nans = last < 0  # nowhere
    ranks = q * wrap(last)
    if perhaps(nans):
        ranks = backend.functional.where(wrap(nans), float(n - 1), ranks)
    if interpolation in ("lower", "higher", "nearest"):
        a = ranks._data
        return wrap(
            xp.floor(a) if interpolation == "lower" else xp.ceil(a) if interpolation == "higher" else xp.round(a, 0)
        )
    return ranks


def _between(fn: Any, ordered: Any, ranks: Any, interpolation: str) -> Any:
    """The elements of rank `ranks` of sorted rows, between two of them as told."""
    below = xp_of(ranks._data).floor(ranks._data)
    low = fn.gather(ordered, -1, wrap(below.astype(np.int64)))
    if interpolation not in ("linear", "midpoint"):
        return low
    high = fn.gather(ordered, -1, wrap(xp_of(ranks._data).ceil(ranks._data).astype(np.int64)))
    return fn.lerp(low, high, 0.5 if interpolation == "midpoint" else ranks - wrap(below))


_QUANTILES = [
    Sample(distinct(5), 0.3),
    Sample(distinct(3, 4), Arg(values=[0.1, 0.5], grad=False), 1),
    Sample(distinct(3, 4), 0.25, 0, True),
    Sample(distinct(3, 4), Arg(values=[0.1, 0.5], grad=False), keepdim=True),
    Sample(Arg(), 0.5),
    *[Sample(distinct(6), 0.37, interpolation=name) for name in ROUNDINGS],
]
declare("quantile", _QUANTILES)
declare("nanquantile", [*_QUANTILES, Sample(WITH_NAN, 0.6, 1, smooth=False)])


class QuantileMethods:
    """Methods of Tensor."""

    __slots__ = ()
    nanquantile = nanquantile
    quantile = quantile
