"""The whole tensor overwritten, with another tensor or with one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import C_NAMES, check_number
from ferro.core.inplace import overwrite
from ferro.core.layout import FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.operands import constant
from ferro.core.samples import Arg, Sample
from ferro.core.writes import WHOLE, assigned, filled
from ferro.ops.structure import to

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fill", "fill_", "zero_"]


def beside(like: Any, t: Any) -> Any:
    """A number as a 0-d tensor, on the device of `like`."""
    a = backend.beside(like._data, t._data)
    return t if a is t._data else wrap(a)


def number(name: str, value: Any, like: Any) -> Any:
    """A Python number as a 0-d tensor of the dtype of another."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"{name}: can't assign a {type(value).__name__} to a {like.dtype} tensor")
    if isinstance(value, complex) and like._data.dtype.kind != "c":
        raise RuntimeError(f"{name}: value cannot be converted to type {C_NAMES[like.dtype]} without overflow: {value}")
    if value:
        check_number(name, value, like._data.dtype)
    return beside(like, constant(value, like._data.dtype))


def filler(name: str, x: Any, value: Any) -> Any:
    """The value of a fill: a number, or a tensor without dimensions, as a 0-d tensor of the dtype of x."""
    if not isinstance(value, TensorBase):
        return number(name, value, x)
    given: Any = value
    if given._data.ndim:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {given._data.ndim} dimension(s)."
        )
    if given._data.dtype.kind == "c" and x._data.dtype.kind != "c":
        raise RuntimeError(
            f"{name}: value cannot be converted to type {C_NAMES[x.dtype]} without overflow: it is {given.dtype}, and would "
            "lose its imaginary part"
        )
    return given.to(x.dtype)


def fits(have: tuple, shape: tuple) -> bool:
    """Whether an array of the shape `have` can be broadcast to `shape`."""
    if have == shape:
        return True
    return len(have) <= len(shape) and all(h in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False))


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes `src`, broadcast and cast, into the tensor; gradients flow to `src`.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2, 2)
        >>> x.copy_(ferro.tensor([1, 2]))
        tensor([[1., 2.],
                [1., 2.]])
    """
    if not isinstance(src, TensorBase):
        src = number("copy_", src, self)
    elif src._data.shape == self._data.shape and assigned(self, WHOLE, src, "copy_") is not None:
        return self
    elif backend.DEVICES:
        src = to(src, self.device)
    have, want = src._data.shape, self._data.shape
    if not fits(have, want):
        raise RuntimeError(
            f"copy_: the size {list(have)} of src cannot be broadcast to the size {list(want)} of the tensor"
        )
    return overwrite(self, "copy_", COPY, src)


COPY = Op(
    "copy",
    lambda xp, x, src: xp.expand(xp.cast(src, x.dtype) if src.dtype != x.dtype else src, x.shape),
    kind=LINEAR,
    x=lambda xp, g: xp.zeros_like(g),
    src=lambda xp, g: g,
)  # the engine sums what was broadcast
COPY.backward_name = "CopyBackwards"  # as in PyTorch


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` whose elements all have one value, a number or a 0-d tensor."""
    return apply(FILL, (input, filler("fill", input, value)))


FILL = Op(
    "fill",
    lambda xp, x, value: xp.contiguous(xp.expand(value, x.shape)),
    kind=LINEAR,
    x=lambda xp, g: xp.zeros_like(g),
    value=lambda xp, g: g,
    samples=[Sample(Arg(2, 3), 1.5), Sample(Arg(2, 3), Arg()), Sample(Arg(), 2)],
    complex=True,
    layout=FIRST,
)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Gives every element one value, a number or a 0-d tensor."""
    if type(value) is float and filled(self, value, "fill_") is not None:
        return self
    given = filler("fill_", self, value)
    if assigned(self, WHOLE, given, "fill_") is not None:
        return self
    return overwrite(self, "fill_", COPY, given, constant=not isinstance(value, TensorBase))


def zero_(self: Tensor) -> Tensor:
    """Sets every element to 0."""
    if filled(self, 0.0, "zero_") is not None:
        return self
    zero = constant(0, self._data.dtype)
    return overwrite(self, "zero_", COPY, zero, constant=True) if assigned(self, WHOLE, zero, "zero_") is None else self


class FillingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    copy_, fill_, zero_ = copy_, fill_, zero_
