"""Shape: views and copies of a tensor under another shape or order of dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import sizes
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["reshape"]


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape (one size may be -1): a view where strides allow, else a copy."""
    new_shape = sizes("reshape", shape)
    return apply(RESHAPE, (input,), (infer("reshape", input._data.shape, new_shape),))


RESHAPE = Op("reshape", lambda xp, x, /, shape: xp.reshape(x, shape), kind=LINEAR, view=True,
             x=lambda xp, g, x_shape: xp.reshape(g, x_shape),
             samples=[Sample(Arg(2, 6), (3, 4)), Sample(Arg(2, 3), (-1,)), Sample(Arg(), (1, 1)), Sample(Arg(0, 2), (2, 0))],
             complex=True)  # fmt: skip


def infer(name: str, have: tuple, shape: tuple) -> tuple:
    """`shape` with its -1 worked out; RuntimeError if the number of elements does not fit."""
    total = 1
    for s in have:
        total *= s
    known = 1
    for s in shape:
        if s < -1:
            raise RuntimeError(f"{name}: invalid shape dimension {s}")
        known *= s if s != -1 else 1
    if shape.count(-1) > 1:
        raise RuntimeError(f"{name}: only one dimension can be inferred, got {list(shape)}")
    if -1 in shape:
        if known == 0 or total % known:
            raise RuntimeError(f"{name}: shape {list(shape)} is invalid for input of size {total} (shape {list(have)})")
        return tuple([total // known if s == -1 else s for s in shape])
    if known != total:
        raise RuntimeError(f"{name}: shape {list(shape)} is invalid for input of size {total} (shape {list(have)})")
    return shape


def expand(input: Tensor, *shape: Any) -> Tensor:
    """The tensor with dimensions of size 1 repeated to `shape` without a copy; -1 keeps a size."""
    wanted = sizes("expand", shape)
    have = input._data.shape
    lead = len(wanted) - len(have)
    full = tuple([have[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(wanted)])
    if lead < 0 or any(h not in (1, s) for h, s in zip(have, full[lead:], strict=True)):
        raise RuntimeError(f"expand: the expanded size {list(wanted)} does not fit the tensor of shape {list(have)}: "
                           "only dimensions of size 1 can be expanded")  # fmt: skip
    return apply(EXPAND, (input,), (full,))


EXPAND = Op("expand", lambda xp, x, /, shape: xp.expand(x, shape), kind=LINEAR, view=True,
            x=lambda xp, g: g)  # the engine sums what was repeated  # fmt: skip


class ShapeMethods:
    """Methods of Tensor."""

    __slots__ = ()
    reshape = reshape
    expand = expand
