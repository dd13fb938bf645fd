"""Expanding: elements repeated without a copy, shapes broadcast, and the sums that undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor, unlike
from ferro.core.base import TensorBase
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.size import Size
from ferro.core.views import viewed
from ferro.ops.shape import _sizes, reshape, unsqueeze

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "broadcast_to"]


def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """The tensor with dimensions of size 1 repeated to the given sizes, without a copy; -1 keeps a size.

    Extra sizes add leading dimensions.  Several elements share one place in memory: clone() before writing.

    - `input` (Tensor): any shape
    - `*sizes` (ints): numbers, or one tuple of them; -1 keeps a size
    - `size` (ints, default None): the same by name
    - `implicit` (bool, default False): no effect

    RuntimeError for sizes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return _expand("expand", input, _sizes("expand", sizes or (size,)))


def _expand(name: str, x: Any, wanted: tuple) -> Tensor:
    full = wanted
    for s in wanted:
        if s < 0:
            full = _kept_sizes(name, x._data.shape, wanted)
            break
    try:
        return viewed(EXPAND, x, (full,))
    except (ValueError, RuntimeError):  # (of arrays of a device in words about the shapes)
        explain_expand(name, x._data.shape, wanted)
        raise


def _kept_sizes(name: str, have: tuple, wanted: tuple) -> tuple:
    """The wanted sizes, -1 replaced by what the shape `have` has in its place."""
    lead = len(wanted) - len(have)
    full = tuple([have[i - lead] if s == -1 and i >= lead >= 0 else s for i, s in enumerate(wanted)])
    if min(full) < 0 <= lead:
        explain_expand(name, have, wanted)
    return full


def explain_expand(name: str, have: tuple, wanted: tuple) -> None:
    """Says why an array of the shape `have` cannot be expanded."""
    lead = len(wanted) - len(have)
    if lead < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(have)}); got {list(wanted)} for shape {list(have)}"
        )
    for d in range(len(wanted) - 1, -1, -1):
        if d < lead and wanted[d] < 0:
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({wanted[d]}) isn't allowed in a leading, non-existing dimension {d}"
            )
        if d >= lead and wanted[d] != -1 and (have[d - lead] not in (1, wanted[d]) or wanted[d] < 0):
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({wanted[d]}) must match the existing size ({have[d - lead]}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(have)}"
            )


EXPAND = Op(
    "expand", lambda xp, x, /, shape: xp.expand(x, shape), kind=LINEAR, view=True, x=lambda xp, g: g
)  # the engine sums what was repeated


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor expanded to the shape of `other`."""
    return _expand("expand_as", self, need_tensor("expand_as", "other", other)._data.shape)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """The tensor expanded to the shape `size`."""
    return _expand("broadcast_to", input, _sizes("broadcast_to", (size,)))


declare(
    "broadcast_to",
    [
        Sample(Arg(3), (2, 3)),
        Sample(Arg(2, 1), (2, 3)),
        Sample(Arg(), (2, 2)),
        Sample(Arg(2, 1), (-1, 3)),
        Sample(Arg(1, 2), (0, 2)),
    ],
    complex=True,
)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that expanding `size` to the tensor's shape would repeat."""
    wanted, have = _sizes("sum_to_size", size), self._data.shape
    lead = len(have) - len(wanted)
    if lead < 0 or any(w not in (1, h) for w, h in zip(wanted, have[lead:], strict=True)):
        raise RuntimeError(f"sum_to_size: size {{{list(wanted)}}} is not expandable to size {{{list(have)}}}.")
    dims = tuple(range(lead)) + tuple([lead + i for i, w in enumerate(wanted) if w == 1 and have[lead + i] != 1])
    return reshape(self.sum(dims) if dims else self, wanted)


declare(
    "Tensor.sum_to_size",
    [Sample(Arg(2, 3), 3), Sample(Arg(2, 3), (2, 1)), Sample(Arg(2, 3), 2, 3), Sample(Arg(2, 3), ())],
    method=True,
    complex=True,
)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes (or ints, for one dimension) have after broadcasting."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    n = max([len(s) for s in given], default=0)
    result = [1] * n
    for shape in given:
        for i, s in enumerate(shape, n - len(shape)):
            if s < 0:
                raise ValueError(
                    f"broadcast_shapes: Attempting to broadcast a dimension with negative length! Got {list(shape)}"
                )
            if s not in (1, result[i]):
                if result[i] != 1:
                    at = f"Mismatching argument at index {given.index(shape)} had {shape}; but expected shape should be broadcastable to "
                    shown = ", ".join(str(list(s)) for s in given)
                    raise RuntimeError(
                        f"broadcast_shapes: Attempting to broadcast a dimension of length {s} at {i - n}! {at}{result}: Shape "
                        f"mismatch: objects cannot be broadcast to a single shape, got {shown}"
                    )
                result[i] = s
    return Size(result)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shapes = [need_tensor("broadcast_tensors", "tensors", x)._data.shape for x in tensors]
    try:
        shape = broadcast_shapes(*shapes)
    except RuntimeError:
        raise unlike("broadcast_tensors", shapes) from None
    return tuple([x if x._data.shape == shape else viewed(EXPAND, x, (tuple(shape),)) for x in tensors])


declare("broadcast_tensors", [Sample(Arg(3), Arg(2, 1)), Sample(Arg(), Arg(2)), Sample(Arg(2, 3))], complex=True)


def atleast_1d(*tensors: Any) -> Any:
    """A tensor of at least one dimension; several tensors give a tuple."""
    return _at_least("atleast_1d", tensors, lambda x: reshape(x, (1,)) if x._data.ndim == 0 else x)


def atleast_2d(*tensors: Any) -> Any:
    """A tensor of at least two dimensions, new ones in front; several tensors give a tuple."""
    return _at_least("atleast_2d", tensors, _two)


def _two(x: Any) -> Tensor:
    return reshape(x, (1, 1)) if x._data.ndim == 0 else unsqueeze(x, 0) if x._data.ndim == 1 else x


def atleast_3d(*tensors: Any) -> Any:
    """A tensor of at least three dimensions: (n,) becomes (1, n, 1) and (n, m) becomes (n, m, 1); several give a tuple."""
    return _at_least("atleast_3d", tensors, lambda x: x if x._data.ndim >= 3 else unsqueeze(_two(x), 2))


def _at_least(name: str, tensors: tuple, function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return function(tensors[0])
    if len(tensors) == 1:
        tensors = tuple(tensors[0])
    return tuple([function(need_tensor(name, "tensors", x)) for x in tensors])


for _function in (atleast_1d, atleast_2d, atleast_3d):
    declare(
        _function.__name__,
        [Sample(Arg()), Sample(Arg(3)), Sample(Arg(2, 3)), Sample(Arg(), Arg(2)), Sample([Arg(2), Arg(1, 2)])],
        complex=True,
    )


class ExpandingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    expand, expand_as = expand, expand_as
    sum_to_size = sum_to_size

    def broadcast_to(self: Any, *size: Any) -> Tensor:
        """The tensor expanded to a shape: see :func:`ferro.broadcast_to`."""
        return _expand("broadcast_to", self, _sizes("broadcast_to", size))
