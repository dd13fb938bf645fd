"""Reductions and scans of the array-API standard, and products that it has outside of linalg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro._public import ferro
from ferro.array_api._promotion import promoted

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def dims(x: Tensor, axis: Any) -> tuple[int, ...]:
    """The dimensions that an argument `axis` stands for, all if it is None."""
    return tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def _wide(x: Tensor, dtype: Any) -> Any:
    """The dtype of a sum or product: unsigned integers are added up as uint64, signed ones as int64."""
    if dtype is not None:
        return dtype
    return (
        x.dtype
        if x.dtype.category >= 2
        else ferro.uint64
        if x.dtype.category == 1 and not x.dtype.is_signed
        else ferro.int64
    )


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along some dimensions."""
    x = x.to(_wide(x, dtype))
    axes = dims(x, axis)
    return ferro.sum(x, axes, keepdims, dtype=x.dtype) if axes else x.clone()


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product along some dimensions."""
    x = x.to(_wide(x, dtype), copy=True)
    for a in sorted((a % x.ndim for a in dims(x, axis)), reverse=True):
        x = ferro.prod(x, a, keepdims, dtype=x.dtype)
    return x


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean along some dimensions."""
    axes = dims(x, axis)
    return ferro.mean(x, axes, keepdims) if axes else x.clone()


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest elements along some dimensions."""
    axes = dims(x, axis)
    return ferro.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest elements along some dimensions."""
    axes = dims(x, axis)
    return ferro.amin(x, axes, keepdims) if axes else x.clone()


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along some dimensions."""
    axes = dims(x, axis)
    return ferro.var(x, axes, correction=correction, keepdim=keepdims) if axes else x - x


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along some dimensions."""
    return ferro.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along some dimensions are true."""
    axes = dims(x, axis)
    return ferro.all(x.bool(), axes, keepdims) if axes else x.bool().clone()


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element along some dimensions is true."""
    axes = dims(x, axis)
    return ferro.any(x.bool(), axes, keepdims) if axes else x.bool().clone()


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements along some dimensions are not 0."""
    return sum((x != 0).long(), axis=axis, keepdims=keepdims)


def _place(find: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    found = find(x, axis, keepdims if axis is not None else False)
    return found.reshape((1,) * x.ndim) if keepdims and axis is None else found


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element, along a dimension or among all."""
    return _place(ferro.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element, along a dimension or among all."""
    return _place(ferro.argmin, x, axis, keepdims)


def _cumulative(scan: Any, begin: int, x: Tensor, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"axis must be given for an array of {x.ndim} dimensions")
        axis = 0
    x = x.to(_wide(x, dtype))
    found = scan(x, axis, dtype=x.dtype)
    if not include_initial:
        return found
    shape = list(x.shape)
    shape[axis] = 1
    return ferro.cat([ferro.full(shape, begin, dtype=x.dtype), found], axis)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements so far; include_initial: with a 0 in front."""
    return _cumulative(ferro.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the elements so far; include_initial: with a 1 in front."""
    return _cumulative(ferro.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours, n times."""
    return ferro.diff(x, n, axis, prepend, append)


# -- products -------------------------------------------------------------------------------------------------------------


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product."""
    return ferro.matmul(*promoted(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products along some dimensions of each array."""
    return ferro.tensordot(*promoted(x1, x2), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of conj(x1) x2 along a dimension."""
    x1, x2 = promoted(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: dimension {axis} has {x1.shape[axis]} and {x2.shape[axis]} elements")
    return ferro.linalg.vecdot(x1, x2, dim=axis)
