"""Whether all or any elements hold, and how many."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.arguments import many_dims, need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import without_gradient, wrap
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.reductions import renamed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["all", "any", "count_nonzero"]


def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """Whether all elements over the dimensions `dim` are non-zero.

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is bool, or uint8 for uint8; True over no elements. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[True, True], [True, False]]).all(dim=1)
        tensor([ True, False])
    """
    if names:
        dim, keepdim = renamed("all", names, dim, keepdim)
    return _logical("all", input, dim, keepdim, out)


def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """Whether any element over the dimensions `dim` is non-zero.

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is bool, or uint8 for uint8; False over no elements. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[False, True], [False, False]]).any(dim=1)
        tensor([ True, False])
    """
    if names:
        dim, keepdim = renamed("any", names, dim, keepdim)
    return _logical("any", input, dim, keepdim, out)


def _logical(name: str, input: Any, dim: Any, keepdim: bool, out: Any) -> Any:
    a = need_tensor(name, "input", input)._data
    # an empty tuple is no dimension here: every element stands for itself
    dims = many_dims(name, a.ndim, dim, empty_is_all=False)
    result = getattr(xp_of(a), name)(a, dims, keepdim)
    if dtypes.uint8.np in (a.dtype, None if out is None else need_tensor(name, "out", out)._data.dtype):
        result = result.astype(np.bool_ if out is not None and out._data.dtype is np.dtype(np.bool_) else np.uint8)
    return into(name, out, wrap(result))


def count_nonzero(input: Tensor, dim: Any = None, **names: Any) -> Tensor:
    """How many elements over the dimensions `dim` are not zero (int64).

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions, which the result does not have; None: all
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.count_nonzero(ferro.tensor([[0, 5], [6, 7]]), dim=0)
        tensor([1, 2])
    """
    if names:
        dim, _ = renamed("count_nonzero", names, dim, False)
    a = input._data
    count = xp_of(a).count_nonzero(a, many_dims("count_nonzero", a.ndim, dim))
    return without_gradient("count_nonzero", count, input)


_LOGIC = [
    Sample(Arg(3, 4, dtype="bool")),
    Sample(Arg(3, 4, dtype="bool"), 0),
    Sample(Arg(3, 4, dtype="int64"), 1, True),
    Sample(Arg(values=[0.0, math.nan])),
    Sample(Arg(0, 2), 0),
    Sample(Arg(dtype="uint8", values=[3, 0])),
]
declare("all", [*_LOGIC, Sample(Arg(2, 3, 4, dtype="bool"), (0, 2))], differentiable=False, complex=True)
declare("any", [*_LOGIC, Sample(Arg(2, 3, 4, dtype="bool"), (0, 2))], differentiable=False, complex=True)
declare(
    "count_nonzero",
    [*[s for s in _LOGIC if True not in s.args], Sample(Arg(2, 3, 4, dtype="int64"), (0, 2))],
    differentiable=False,
    complex=True,
)


class TruthMethods:
    """Methods of Tensor."""

    __slots__ = ()
    all = all
    any = any
    count_nonzero = count_nonzero
