"""Reductions, scans and normalisations of the elements that a mask leaves (torch.masked)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend, dtypes
from ferro.core.arguments import many_dims, need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.requirements import perhaps, require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops import exponential, extrema, masks, norms, positions, reductions, scans, selection
from ferro.ops import logsumexp as _logsumexp
from ferro.ops import softmax as _softmax
from ferro.ops.choices import maximum
from ferro.ops.reductions import cast

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]  # fmt: skip

LOW, HIGH = "the least number", "the greatest number"

# Note [Masks]
# An element counts where the mask is true (numpy.ma has it the other way round).  The mask is broadcast to the
# input, never the input to the mask; other dtypes than bool are read as "not zero"; no mask means that all count.
# What does not count is replaced by the neutral element of the operation before anything is computed, and gets the
# gradient 0, whatever it is: an inf or nan behind the mask reaches neither the result nor a derivative of any order.


def _mask(name: str, x: Any, mask: Any) -> np.ndarray | None:
    """The mask as a boolean array of the shape of `x`."""
    a = need_tensor(f"masked.{name}", "input", x)._data
    if mask is None:
        return None
    m = need_tensor(f"masked.{name}", "mask", mask)._data
    if m.ndim > a.ndim:
        raise IndexError(
            f"masked.{name}: expected a mask that can be broadcast to the input, got one with {m.ndim} "
            f"dimensions for an input with {a.ndim}"
        )
    try:
        return xp_of(m).expand(m != 0, a.shape)
    except ValueError:
        raise RuntimeError(
            f"masked.{name}: the mask of shape {list(m.shape)} cannot be broadcast to the input of "
            f"shape {list(a.shape)}"
        ) from None


def _filled(name: str, x: Any, mask: Any, neutral: Any) -> Any:
    """The input with the neutral element where the mask is false."""
    m = _mask(name, x, mask)
    return x if m is None else masks.masked_fill(x, wrap(~m), _number(name, x._data.dtype, neutral))


def _number(name: str, dtype: Any, neutral: Any) -> Any:
    """The neutral element in a dtype."""
    if not isinstance(neutral, str):
        return neutral
    if dtype.kind == "i" or dtype == np.uint8:
        return int(np.iinfo(dtype).min if neutral is LOW else np.iinfo(dtype).max)
    if dtypes.FROM_NUMPY[dtype].is_floating_point or (dtype.kind == "c" and name == "logsumexp"):
        return -np.inf if neutral is LOW else np.inf
    raise RuntimeError(f"masked.{name}: tensors of dtype {dtypes.FROM_NUMPY[dtype]} have no {neutral[4:]}")


def _dtype(x: Any, dtype: Any) -> Any:
    """The NumPy dtype of the result: the given one, else that of the input."""
    return x._data.dtype if dtype is None else dtypes.to_numpy(dtype)


# -- sums and products -------------------------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The sum over the dimensions `dim` (all by default) of the elements where the mask is true; 0 where there are none.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1.0, 2.0], [float("nan"), 3.0]])
        >>> ferro.masked.sum(x, 1, mask=x == x)
        tensor([3., 3.])
    """
    return reductions.sum(_filled("sum", input, mask, 0), dim, bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The product over the dimensions `dim` of the elements where the mask is true; 1 where there are none."""
    result = reductions.summable(_filled("prod", input, mask, 1), dtype)
    for d in reversed(many_dims("masked.prod", input._data.ndim, dim)):
        result = reductions.prod(result, d, bool(keepdim))
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The sums of the elements up to each one along `dim`, those where the mask is false counting as 0."""
    result = scans.cumsum(_filled("cumsum", input, mask, 0), dim, dtype=dtype)
    return cast(result, _dtype(input, dtype))


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The products of the elements up to each one along `dim`, those where the mask is false counting as 1."""
    result = scans.cumprod(_filled("cumprod", input, mask, 1), dim, dtype=dtype)
    return cast(result, _dtype(input, dtype))


# -- extrema and order -------------------------------------------------------------------------------------------------


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The largest element where the mask is true; ties share the gradient; -inf (of integers, the least) if none is."""
    x = _filled("amax", input, mask, LOW)
    return cast(extrema.amax(x, many_dims("masked.amax", x._data.ndim, dim), bool(keepdim)), _dtype(input, dtype))


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest element where the mask is true; ties share the gradient; inf (of integers, the greatest) if none is."""
    x = _filled("amin", input, mask, HIGH)
    return cast(extrema.amin(x, many_dims("masked.amin", x._data.ndim, dim), bool(keepdim)), _dtype(input, dtype))


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest element is among those where the mask is true; in the dtype of the input, as in PyTorch."""
    return cast(positions.argmax(_filled("argmax", input, mask, LOW), dim, bool(keepdim)), _dtype(input, dtype))


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest element is among those where the mask is true; in the dtype of the input, as in PyTorch."""
    return cast(positions.argmin(_filled("argmin", input, mask, HIGH), dim, bool(keepdim)), _dtype(input, dtype))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The median along `dim` of the elements where the mask is true (the lower of two); nan if none is.

    Integers are compared as the default dtype and come back in `dtype`; ValueError if for one of them no element counts.
    """
    dim = one_dim("masked.median", need_tensor("masked.median", "input", input)._data.ndim, dim)
    floating = dtypes.FROM_NUMPY[input._data.dtype].is_floating_point
    x = input if floating else cast(input, dtypes.float32.np)
    result = selection.nanmedian(_filled("median", x, mask, np.nan), dim, keepdim).values
    if floating:
        return result
    words = "masked.median: the mask leaves no element for one of the results, and only a floating dtype has nan"
    known = ~xp_of(result._data).isnan(result._data)
    require(known, ValueError, f"{words}; got an input of dtype {input.dtype}")
    return cast(result, _dtype(input, dtype))


# -- moments -----------------------------------------------------------------------------------------------------------


def _counts(name: str, x: Any, mask: Any, dims: tuple) -> tuple:
    """The input with 0 where the mask is false, the mask, and how many elements count (dimensions kept)."""
    m = _mask(name, x, mask)
    if m is None:
        return x, None, np.full(reductions.kept(x._data.shape, dims), reductions.count(x._data.shape, dims), np.int64)
    return _filled(name, x, mask, 0), m, as_array(m.sum(axis=dims, keepdims=True, dtype=np.int64))


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The mean over the dimensions `dim` of the elements where the mask is true; nan where there are none."""
    need_tensor("masked.mean", "input", input)
    want = dtypes.FROM_NUMPY[_dtype(input, dtype)]
    if want.category < 2:
        raise ValueError(
            f"masked.mean: the {'input' if dtype is None else 'dtype'} must be floating point or complex, got {want}; "
            "give dtype=, e.g. ferro.float32"
        )
    dims = many_dims("masked.mean", input._data.ndim, dim)
    x, _, count = _counts("mean", input, mask, dims)
    total = reductions.sum(x, dims, bool(keepdim), dtype=want)
    return total / wrap(backend.beside(total._data, count.reshape(total._data.shape)))


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over the dimensions `dim` of the n elements where the mask is true: sum |x - mean|^2 / (n - correction).

    `unbiased` True (the default) means the correction 1, False 0.  The divisor is at least 0: nan where n is the
    correction, and where no element counts.  The result of complex numbers is complex, as in PyTorch.
    """
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of the variance (see :func:`var`); its gradient is 0 where it is 0."""
    square = _variance("std", input, dim, unbiased, correction, keepdim, dtype, mask)
    zero = square._data == 0
    if not perhaps(zero):
        return exponential.sqrt(square)
    return masks.masked_fill(exponential.sqrt(masks.masked_fill(square, wrap(zero), 1)), wrap(zero), 0)


def _variance(name: str, x: Any, dim: Any, unbiased: Any, correction: Any, keepdim: Any, dtype: Any, mask: Any) -> Any:
    if unbiased is not None and correction is not None:
        raise AssertionError(f"masked.{name}: give unbiased={unbiased} or correction={correction}, not both")
    if correction is None:
        correction = 0.0 if unbiased is False else 1.0
    dims = many_dims(f"masked.{name}", need_tensor(f"masked.{name}", "input", x)._data.ndim, dim)
    want = dtypes.FROM_NUMPY[_dtype(x, dtype)]
    if dtype is None and want.category < 2:
        want = dtypes.float32
    computed = want if want.category >= 2 else dtypes.float32
    filled, m, count = _counts(name, x, mask, dims)
    average = reductions.sum(filled, dims, True, dtype=want) / wrap(backend.beside(filled._data, count))
    away = filled - average
    total = reductions.sum(
        away * away.conj() if m is None else masks.masked_fill(away * away.conj(), wrap(~m), 0),
        dims,
        bool(keepdim),
        dtype=computed,
    )
    count = backend.beside(total._data, count)
    divisor = backend.xp_of(count).clamp(count - correction, 0, None).astype(computed.to_real().np)
    return cast(total / wrap(divisor.reshape(total._data.shape)), want.np)


# -- norms, exponentials -----------------------------------------------------------------------------------------------


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of order `ord` of the elements where the mask is true: see :func:`ferro.linalg.vector_norm`.

    The others count as 0 (for ord -inf as inf), so that a negative order gives 0 where the mask is false somewhere.
    """
    ord = 2.0 if ord is None else ord
    x = _filled("norm", input, mask, HIGH if ord == -np.inf else 0)
    dims = many_dims("masked.norm", x._data.ndim, dim)
    return norms.vector_norm(x, ord, dims, bool(keepdim), dtype=dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The elements divided by their norm along `dim` (by `eps` if that is larger); 0 where the mask is false."""
    x = _filled("normalize", input, mask, 0)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return x / maximum(size, wrap(np.asarray(eps, size._data.dtype)))


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """log sum exp(x) over the dimensions `dim` of the elements where the mask is true; -inf where there are none."""
    x = _filled("logsumexp", input, mask, LOW)
    dims = many_dims("masked.logsumexp", x._data.ndim, dim)
    return cast(_logsumexp.logsumexp(x, dims, keepdim), _dtype(input, dtype))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(x) + exp(y)), each operand counting as -inf where its own mask is false."""
    x = _filled("logaddexp", input, input_mask, LOW)
    y = _filled("logaddexp", other, other_mask, LOW)
    return cast(exponential.logaddexp(x, y), _dtype(input, dtype))


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """exp(x) / sum exp(x) along `dim` over the elements where the mask is true; 0 for the others, nan where all are."""
    return _softmax.softmax(_filled("softmax", input, mask, LOW), dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of :func:`softmax`; -inf where the mask is false."""
    return _softmax.log_softmax(_filled("log_softmax", input, mask, LOW), dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of -x over the elements where the mask is true."""
    return _softmax.softmin(_filled("softmin", input, mask, HIGH), dim, dtype=dtype)


# -- samples -----------------------------------------------------------------------------------------------------------

_M23 = [[True, False, True], [True, True, False]]


def _bools(values: Any) -> Arg:
    return Arg(values=values, dtype="bool")


def _reduced(**given: Any) -> list[Sample]:
    """Calls of a reduction: shapes, dimensions, masks of smaller shape."""
    kw: dict = {"complex": given.pop("complex", True)}
    return [
        Sample(Arg(), mask=_bools(True), **given, **kw),
        Sample(Arg(2, 3), mask=_bools(_M23), **given, **kw),
        Sample(Arg(2, 3), 1, mask=_bools(_M23), **given, **kw),
        Sample(Arg(2, 3), (0, -1), keepdim=True, mask=_bools([True, False, True]), **given, **kw),
        Sample(Arg(4, 2, 3), (0, 2), mask=_bools([[True], [True]]), **given, **kw),
        Sample(Arg(2, 3), 0, **given, **kw),
    ]


_ALONG = [
    Sample(Arg(2, 3), 1, mask=_bools(_M23)),
    Sample(Arg(2, 3), 0, mask=_bools([[True], [True]])),
    Sample(Arg(3), -1, mask=_bools([True, False, True])),
    Sample(Arg(2, 3), 1),
]
_INTEGER = Sample(Arg(2, 3, dtype="int32"), 1, mask=_bools(_M23))
_WHOLE = Sample(Arg(2, 3), 1, mask=_bools([[True, True, False], [False, False, False]]), smooth=False)

declare("masked.sum", [*_reduced(), _INTEGER, _WHOLE], complex=True)
declare("masked.prod", [*_reduced(), _INTEGER, _WHOLE], complex=True)
declare("masked.cumsum", [*_ALONG, _INTEGER], complex=True)
declare("masked.cumprod", [*_ALONG, _INTEGER], complex=True)
declare("masked.amax", [*_reduced(), _INTEGER, _WHOLE])
declare("masked.amin", [*_reduced(), _INTEGER, _WHOLE])
declare("masked.argmax", [*_ALONG, _INTEGER], differentiable=False, why="an index is constant between ties")
declare("masked.argmin", [*_ALONG, _INTEGER], differentiable=False, why="an index is constant between ties")
declare("masked.median", [*_ALONG, _INTEGER])
declare("masked.mean", _reduced(), complex=True)
declare("masked.var", [*_reduced()[1:], *_reduced(correction=0.5)[1:], *_reduced(unbiased=False)], complex=True)
declare("masked.std", [*_reduced()[1:4], *_reduced(correction=0.5)[1:3]], complex=True)
declare(
    "masked.norm",
    [Sample(Arg(2, 3), p, 1, mask=_bools(_M23)) for p in (2, 1, 3.5, np.inf, -np.inf, 0)]
    + [Sample(Arg(2, 3), mask=_bools([True, False, True]))],
)
declare("masked.normalize", [Sample(Arg(2, 3), p, 1, mask=_bools(_M23)) for p in (2, 1, 3.5)], complex=True)
declare("masked.logsumexp", [*_reduced(complex=False)])
declare(
    "masked.logaddexp",
    [
        Sample(Arg(2, 3), Arg(2, 3), input_mask=_bools(_M23), other_mask=_bools([False, True, True])),
        Sample(Arg(2, 3), Arg(3), input_mask=_bools([[True], [True]])),
        Sample(Arg(3), Arg(3)),
    ],
)
declare("masked.softmax", _ALONG)
declare("masked.log_softmax", [Sample(*s.args, smooth="mask" not in s.kwargs, **s.kwargs) for s in _ALONG])
declare("masked.softmin", _ALONG)
