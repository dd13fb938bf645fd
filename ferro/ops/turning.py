"""Tensors turned round: flipped, rolled, rotated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import one_dim, sizes
from ferro.core.layout import DENSE, FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.shape import reshape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["flip", "fliplr", "flipud", "roll", "rot90"]


def flip(input: Tensor, *given: Any, dims: Any = None) -> Tensor:
    """A copy with the elements in reverse order along the dimensions `dims`.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]]).flip(1)
        tensor([[2, 1],
                [4, 3]])
    """
    wanted = [one_dim("flip", input._data.ndim, d) for d in sizes("flip", given or (dims,))]
    if len(set(wanted)) != len(wanted):
        raise RuntimeError(
            f"flip: dim {min(d for d in wanted if wanted.count(d) > 1)} appears multiple times in the list of dims {wanted}"
        )
    return unary(FLIP, input, (tuple(wanted),))


FLIP = Op(
    "flip",
    lambda xp, x, /, dims: xp.flip(x, dims),
    kind=LINEAR,
    x=lambda xp, g, dims: xp.flip(g, dims),
    complex=True,
    samples=[
        Sample(Arg(2, 3), (0,)),
        Sample(Arg(2, 3), [0, -1]),
        Sample(Arg(2), ()),
        Sample(Arg(), ()),
        Sample(Arg(0, 2), (0,)),
    ],
    layout=FIRST,
)


def fliplr(input: Tensor) -> Tensor:
    """A copy with the second dimension in reverse order."""
    if input._data.ndim < 2:
        raise RuntimeError("fliplr: Input must be >= 2-d.")
    return flip(input, (1,))


def flipud(input: Tensor) -> Tensor:
    """A copy with the first dimension in reverse order."""
    if input._data.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d.")
    return flip(input, (0,))


declare("fliplr", [Sample(Arg(2, 3))], complex=True)
declare("flipud", [Sample(Arg(2, 3)), Sample(Arg(3))], complex=True)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements shifted along `dims` (in C order over all, if None); what leaves at one end comes in at the other.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2, 3, 4]).roll(1)
        tensor([4, 1, 2, 3])
    """
    by = sizes("roll", (shifts,))
    along = () if dims is None else sizes("roll", (dims,))
    if not by:
        raise RuntimeError("roll: `shifts` required")
    if dims is None or not along:
        if len(by) != 1:
            raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(by)}, dims:0")
        return reshape(apply(ROLL, (reshape(input, (input._data.size,)),), (by, (0,))), input._data.shape)
    if len(by) != len(along):
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    if not input._data.ndim:
        raise IndexError(f"roll: Dimension specified as {along[0]} but tensor has no dimensions")
    return unary(ROLL, input, (by, tuple([one_dim("roll", input._data.ndim, d) for d in along])))


ROLL = Op(
    "roll",
    lambda xp, x, /, shifts, dims: xp.roll(x, shifts, dims),
    kind=LINEAR,
    x=lambda xp, g, shifts, dims: xp.roll(g, tuple([-s for s in shifts]), dims),
    samples=[
        Sample(Arg(2, 3), 1),
        Sample(Arg(2, 3), 1, 1),
        Sample(Arg(4), -6, 0),
        Sample(Arg(3, 4), (1, -2), (0, 1)),
        Sample(Arg(0, 2), 1, 0),
    ],
    complex=True,
    layout=DENSE,
)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The tensor turned k times by 90 degrees in the plane of two dimensions, from the first towards the second.

    - `input` (Tensor): of two or more dimensions
    - `k` (int, default 1): how often; negative ones turn the other way
    - `dims` (pair of ints, default (0, 1)): the dimensions

    RuntimeError for fewer dimensions or equal ones.

    Example::

        >>> import ferro
        >>> ferro.rot90(ferro.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    plane = tuple(dims)
    n = input._data.ndim
    if len(plane) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(plane)}")
    if n < 2:
        raise RuntimeError(f"rot90: expected total dims >= 2, but got total dims = {n}")
    where = tuple([one_dim("rot90", n, d) for d in plane])
    if where[0] == where[1]:
        raise RuntimeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}"
        )
    return unary(ROT90, input, (k % 4, where))


ROT90 = Op(
    "rot90",
    lambda xp, x, /, k, dims: xp.rot90(x, k, dims),
    kind=LINEAR,
    x=lambda xp, g, k, dims: xp.rot90(g, -k, dims),
    samples=[
        Sample(Arg(2, 3)),
        Sample(Arg(2, 3), 2),
        Sample(Arg(2, 3), -1, (1, 0)),
        Sample(Arg(2, 3, 2), 3, (0, 2)),
        Sample(Arg(2, 2), 4),
    ],
    complex=True,
)


class TurningMethods:
    """Methods of Tensor."""

    __slots__ = ()
    flip, fliplr, flipud = flip, fliplr, flipud
    roll, rot90 = roll, rot90
