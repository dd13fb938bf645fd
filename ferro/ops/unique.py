"""The distinct elements of a tensor: unique and unique_consecutive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

from ferro.core.arguments import need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.reductions import need_real

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["unique", "unique_consecutive"]


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or slices along `dim`, in ascending order; every nan is one of its own.

    - `input` (Tensor): any shape
    - `sorted` (bool, default True): no effect: the elements are always in order
    - `return_inverse` (bool, default False): gives the number of each element of the input among them, too
    - `return_counts` (bool, default False): gives how often each appears, too
    - `dim` (int, default None): the dimension of the slices; None: elements

    A tensor, or a tuple of two or three. IndexError for a `dim` out of range. Not differentiable.

    Example::

        >>> import ferro
        >>> ferro.tensor([3, 1, 3]).unique(return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    a = _checked("unique", input, dim)
    found = xp_of(a).unique(a) if dim is None else xp_of(a).unique_dim(a, one_dim("unique", a.ndim, dim))
    return _requested(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or slices along `dim`, that differ from the one before.

    - `input` (Tensor): any shape
    - `return_inverse` (bool, default False): gives the number of each element of the input among them, too
    - `return_counts` (bool, default False): gives how long each run is, too
    - `dim` (int, default None): the dimension of the slices; None: elements

    A tensor, or a tuple of two or three. IndexError for a `dim` out of range. Not differentiable.

    Example::

        >>> import ferro
        >>> ferro.unique_consecutive(ferro.tensor([1, 1, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    a = _checked("unique_consecutive", input, dim)
    d = None if dim is None else one_dim("unique_consecutive", a.ndim, dim)
    return _requested(xp_of(a).unique_consecutive(a, d), return_inverse, return_counts)


def _checked(name: str, input: Any, dim: Any) -> Any:
    a = need_tensor(name, "input", input)._data
    need_real(name, input)
    if dim is not None:
        d = one_dim(name, a.ndim, dim)
        if any(s == 0 and k != d for k, s in enumerate(a.shape)) and a.shape[d]:
            raise RuntimeError(
                f"{name}: There are 0 sized dimensions, and they aren't selected, so {name} cannot "
                f"be applied to shape "
                f"{list(a.shape)} along {d}"
            )
    return a


def _requested(found: tuple, inverse: bool, counts: bool) -> Any:
    wanted = [wrap(f) for f, want in zip(found, (True, inverse, counts), strict=True) if want]
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


_UNIQUE = [
    Sample(Arg(8, dtype="int64")),
    Sample(Arg(2, 5, dtype="int64"), return_inverse=True, return_counts=True),
    Sample(Arg(values=[1.0, math.nan, 1.0])),
    Sample(Arg(0)),
    Sample(Arg(dtype="int64"), return_inverse=True),
    Sample(Arg(5, 2, dtype="int64", low=0, high=2), return_inverse=True, return_counts=True, dim=0),
    Sample(Arg(2, 5, dtype="bool"), dim=1),
]
declare("unique", _UNIQUE, differentiable=False)
declare("unique_consecutive", _UNIQUE, differentiable=False)


class UniqueMethods:
    """Methods of Tensor."""

    __slots__ = ()
    unique = unique
    unique_consecutive = unique_consecutive
