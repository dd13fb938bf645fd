"""The whole tensor overwritten, with another tensor or with one value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, constant
from ferro.core.base import TensorBase, bump
from ferro.core.inplace import overwrite, unrecorded
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fill", "fill_", "zero_"]


def number(name: str, value: Any, like: Any) -> Any:
    """A Python number as a 0-d tensor of the dtype of another."""
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"{name}: can't assign a {type(value).__name__} to a {like.dtype} tensor")
    if isinstance(value, complex) and like._data.dtype.kind != "c":
        raise RuntimeError(f"{name}: value cannot be converted to type {like.dtype} without overflow: {value}")
    return constant(value, like._data.dtype)


def filler(name: str, x: Any, value: Any) -> Any:
    """The value of a fill: a number, or a tensor without dimensions, as a 0-d tensor of the dtype of x."""
    if not isinstance(value, TensorBase):
        return number(name, value, x)
    if value._data.ndim:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {value._data.ndim} dimension(s)."
        )  # type: ignore[attr-defined]
    if value._data.dtype.kind == "c" and x._data.dtype.kind != "c":  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name}: value of dtype {value.dtype} cannot be converted to {x.dtype} without losing its imaginary part"
        )  # type: ignore[attr-defined]
    return value.to(x.dtype)  # type: ignore[attr-defined]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes `src`, broadcast and cast, into the tensor; gradients flow to `src`."""
    if not isinstance(src, TensorBase):
        src = number("copy_", src, self)
    have, want = src._data.shape, self._data.shape  # type: ignore[attr-defined]
    if len(have) > len(want) or any(h not in (1, s) for h, s in zip(have[::-1], want[::-1], strict=False)):
        raise RuntimeError(
            f"copy_: the size {list(have)} of src cannot be broadcast to the size {list(want)} of the tensor"
        )
    return overwrite(self, "copy_", COPY, src)


COPY = Op("copy", lambda xp, x, src: xp.expand(xp.cast(src, x.dtype) if src.dtype != x.dtype else src, x.shape), kind=LINEAR,
          x=lambda xp, g: xp.zeros_like(g),
          src=lambda xp, g: g)  # the engine sums what was broadcast  # fmt: skip


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` whose elements all have one value, a number or a 0-d tensor."""
    return apply(FILL, (input, filler("fill", input, value)))


FILL = Op("fill", lambda xp, x, value: xp.contiguous(xp.expand(value, x.shape)), kind=LINEAR,
          x=lambda xp, g: xp.zeros_like(g),
          value=lambda xp, g: g, samples=[Sample(Arg(2, 3), 1.5), Sample(Arg(2, 3), Arg()), Sample(Arg(), 2)], complex=True)  # fmt: skip


def fill_(self: Tensor, value: Any) -> Tensor:
    """Gives every element one value, a number or a 0-d tensor."""
    return overwrite(self, "fill_", COPY, filler("fill_", self, value))


def zero_(self: Tensor) -> Tensor:
    """Sets every element to 0."""
    if not unrecorded(self):
        return overwrite(self, "zero_", COPY, constant(0, self._data.dtype))
    self._data.fill(0)
    bump(self, "zero_")
    return self


class FillingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    copy_, fill_, zero_ = copy_, fill_, zero_
