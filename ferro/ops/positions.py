"""Where the extrema of a tensor are: argmax and argmin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import without_gradient
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.extrema import TIED, need_elements
from ferro.ops.reductions import renamed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["argmax", "argmin"]


def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The position of the largest element along `dim`, or in the flattened tensor: the first of several, or the first
    nan.

    - `input` (Tensor): any shape, real
    - `dim` (int, default None): the dimension; None: the flattened tensor
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is int64. IndexError for no elements and a `dim` out of range. Not differentiable.

    Example::

        >>> import ferro
        >>> ferro.argmax(ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
        tensor([1, 0])
    """
    return _position("argmax", input, dim, keepdim, out, names)


def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The position of the smallest element along `dim`, or in the flattened tensor: the first of several, or the first
    nan.

    - `input` (Tensor): any shape, real
    - `dim` (int, default None): the dimension; None: the flattened tensor
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is int64. IndexError for no elements and a `dim` out of range. Not differentiable.

    Example::

        >>> import ferro
        >>> ferro.argmin(ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
        tensor([0, 1])
    """
    return _position("argmin", input, dim, keepdim, out, names)


def _position(name: str, input: Any, dim: Any, keepdim: bool, out: Any, names: dict) -> Any:
    if names:
        dim, keepdim = renamed(name, names, dim, keepdim)
    a = need_tensor(name, "input", input)._data
    if a.dtype.kind in "bc":
        raise RuntimeError(
            f"{name}(): does not support {'complex' if a.dtype.kind == 'c' else 'bool'} input, but only numbers with an order"
        )
    d = None if dim is None else one_dim(name, a.ndim, dim)
    if a.size == 0:
        if d is None:
            raise IndexError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0 (shape {list(a.shape)})"
            )
        need_elements(name, a.shape, d)
    return into(name, out, without_gradient(name, getattr(xp_of(a), name)(a, d, keepdim), input))


_WHERE = [
    Sample(Arg()),
    Sample(Arg(3, 4)),
    Sample(Arg(3, 4), 0),
    Sample(Arg(3, 4), -1, True),
    Sample(Arg(3, 4), None, True),
    Sample(TIED),
    Sample(TIED, 1),
    Sample(Arg(values=[1.0, float("nan"), 3.0]), 0),
    Sample(Arg(4, dtype="int64")),
]
declare("argmax", _WHERE, differentiable=False)
declare("argmin", _WHERE, differentiable=False)


class PositionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    argmax = argmax
    argmin = argmin
