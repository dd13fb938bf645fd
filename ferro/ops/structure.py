"""Operations that the tape itself needs: cast, clone, and the history of a base that was written through a view."""

from __future__ import annotations

from typing import Any

from ferro.core import dtypes, worlds
from ferro.core.apply import apply
from ferro.core.inplace import replay, write_view
from ferro.core.op import LINEAR, Op

__all__ = ["clone"]

CAST = worlds.CAST = Op("to_copy", lambda xp, x, /, dtype: xp.cast(x, dtype), kind=LINEAR, x=lambda xp, g: g)

CLONE = Op("clone", lambda xp, x: xp.copy(x), kind=LINEAR, x=lambda xp, g: g)

VIEW_ZERO = Op("view_zero", lambda xp, x, /, steps: write_view(x, 0, steps), kind=LINEAR,
               x=lambda xp, g, steps: zero_through(xp, g, steps))  # fmt: skip

COPY_SLICES = worlds.COPY_SLICES = Op(
    "copy_slices", lambda xp, base, value, /, steps: base, kind=LINEAR,
    base=lambda xp, g, steps: zero_through(xp, g, steps),
    value=lambda xp, g, steps: replay(xp, g, steps))  # fmt: skip

VIEW_PUT = worlds.VIEW_PUT = Op(
    "view_put", lambda xp, base, value, /, steps: write_view(base, value, steps), kind=LINEAR,
    base=lambda xp, g, steps: zero_through(xp, g, steps),
    value=lambda xp, g, steps: replay(xp, g, steps))  # fmt: skip


def zero_through(xp: Any, g: Any, steps: tuple) -> Any:
    """`g` with zeros where the view described by `steps` lies."""
    return apply(VIEW_ZERO, (g,), (steps,)) if xp is worlds.functional else write_view(g, 0, steps)


def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy of the tensor; gradients flow through it unchanged."""
    return apply(CLONE, (input,))


def to(self: Any, *args: Any, dtype: Any = None, copy: bool = False, **ignored: Any) -> Any:
    """The tensor as another dtype (or like another tensor); itself if nothing changes."""
    for a in args:
        if isinstance(a, dtypes.dtype):
            dtype = a
        elif hasattr(a, "_data"):
            dtype = a.dtype
    if dtype is None or dtype.np is self._data.dtype:
        return clone(self) if copy else self
    return apply(CAST, (self,), (dtype.np,))


class StructureMethods:
    """Methods of Tensor."""

    __slots__ = ()
    clone = clone
    to = to
