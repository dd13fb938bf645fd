"""Masks: elements filled, read or written where a boolean tensor is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, unlike
from ferro.core.base import bump
from ferro.core.dtypes import META_NAMES, check_number, type_name
from ferro.core.inplace import record_write, refuse_overlap
from ferro.core.layout import DENSE
from ferro.core.looped import by_slices
from ferro.core.op import LINEAR, Op
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample
from ferro.core.writes import unrecorded
from ferro.ops.expanding import EXPAND, broadcast_shapes
from ferro.ops.filling import filler
from ferro.ops.index_arguments import bools, on_expanded, written

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["masked_fill", "masked_scatter", "masked_select"]

_PLAIN, _BOOL = (np.dtype(np.float32), np.dtype(np.float64)), np.dtype(np.bool_)
MASK = [[True, False, True], [False, False, True]]


def _boolean(name: str, mask: Any) -> Any:
    if need_tensor(name, "mask", mask)._data.dtype.kind != "b":
        said = (
            "expected BoolTensor for mask"
            if name == "masked_select"
            else f"{name.rstrip('_')}_ only supports boolean masks"
        )
        found = META_NAMES[mask.dtype] if name.startswith("masked_fill") else type_name(mask.dtype)
        raise RuntimeError(f"{name}: {said}, but got mask with dtype {found} ({mask.dtype})")
    return mask


def _expanded(name: str, x: Any, shape: tuple) -> Any:
    return x if x._data.shape == shape else unary(EXPAND, x, (shape,))


def _common(name: str, *tensors: Any) -> tuple:
    shape = tensors[0]._data.shape
    for x in tensors:
        if x._data.shape != shape:
            break
    else:
        return shape
    try:
        return tuple(broadcast_shapes(*[x._data.shape for x in tensors]))
    except RuntimeError:
        raise unlike(name, [x._data.shape for x in tensors]) from None


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """The tensor with one value (a number or a 0-d tensor) where the mask, broadcast, is true.

    Example::

        >>> import ferro
        >>> scores = ferro.zeros(2, 2)
        >>> scores.masked_fill(ferro.tensor([[False, True], [False, False]]), -ferro.inf)
        tensor([[0., -inf],
                [0., 0.]])
    """
    _common("masked_fill", input, _boolean("masked_fill", mask))
    return apply(MASKED_FILL, (input, mask, filler("masked_fill", input, value)))


MASKED_FILL = Op(
    "masked_fill",
    lambda xp, x, mask, value: xp.masked_fill(x, mask, value),
    kind=LINEAR,
    x=lambda xp, g, mask: xp.masked_fill(g, mask, 0.0),
    value=lambda xp, g, mask: xp.masked_fill(g, ~mask, 0.0),
    complex=True,
    samples=[
        Sample(Arg(2, 3), bools(MASK), 1.5),
        Sample(Arg(2, 3), bools([True, False, True]), Arg()),
        Sample(Arg(3), bools(MASK), -1),
        Sample(Arg(), bools(True), Arg()),
    ],
    layout=DENSE,
)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Writes one value where the mask, broadcast, is true."""
    a, b = self._data, need_tensor("masked_fill_", "mask", mask)._data
    floats = type(value) in (int, float) and backend.is_numpy(a) and a.dtype in _PLAIN and b.dtype is _BOOL
    if floats and backend.is_numpy(b) and a.shape == b.shape and a.flags.c_contiguous and unrecorded(self):
        check_number("masked_fill_", value, a.dtype)
        write_filled(backend.xp_of(a), a, b, value)
        bump(self, "masked_fill_")
        return self
    if _common("masked_fill_", self, _boolean("masked_fill_", mask)) != self._data.shape:
        raise RuntimeError(
            f"masked_fill_: the mask of shape {list(mask._data.shape)} cannot be broadcast to the tensor's {list(self._data.shape)}"
        )
    refuse_overlap("masked_fill_", self, (mask,))
    given = filler("masked_fill_", self, value)
    return record_write(self, "masked_fill_", MASKED_FILL, (mask, given), (), write_filled, FILLED_EXPANDED)


def write_filled(xp: Any, x: Any, mask: Any, value: Any) -> None:
    """What writes one value where the mask is true."""
    xp.masked_fill_(x, mask, value)


FILLED_EXPANDED = on_expanded("masked_fill_", "tensor[mask] = scalar")


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where the mask is true (both broadcast), in C order, in one dimension.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1, 2], [3, 4]])
        >>> ferro.masked_select(x, x > 1)
        tensor([2, 3, 4])
    """
    shape = _common("masked_select", input, _boolean("masked_select", mask))
    result = apply(MASKED_SELECT, (_expanded("masked_select", input, shape), _expanded("masked_select", mask, shape)))
    return written("masked_select", out, result, input, mask)


MASKED_SELECT = Op(
    "masked_select",
    lambda xp, x, mask: xp.masked_select(x, mask),
    kind=LINEAR,
    x=lambda xp, g, x_shape, mask: xp.masked_spread(g, x_shape, mask),
    complex=True,
    samples=[
        Sample(Arg(2, 3), bools(MASK)),
        Sample(Arg(3), bools(MASK)),
        Sample(Arg(2, 3), bools([[True], [False]])),
        Sample(Arg(), bools(True)),
    ],
)


def masked_spread(g: Tensor, shape: tuple, mask: Tensor) -> Tensor:
    """The transpose of masked_select()."""
    return masked_scatter(backend.functional.new_zeros(g, shape), mask, g)


@by_slices
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The tensor with the first elements of `source`, in order, where the mask is true."""
    shape = _common("masked_scatter", input, _boolean("masked_scatter", mask))
    mask = _expanded("masked_scatter", mask, shape)
    _enough("masked_scatter", input, mask, source)
    return apply(MASKED_SCATTER, (_expanded("masked_scatter", input, shape), mask, source))


def _enough(name: str, x: Any, mask: Any, source: Any) -> None:
    if need_tensor(name, "source", source)._data.dtype is not x._data.dtype:
        raise RuntimeError(
            f"{name}: expected self and source to have same dtypes but got{type_name(x.dtype)} and {type_name(source.dtype)}"
        )
    true, size = mask._data.sum(), source._data.size
    few = f"{name}: Number of elements of source < number of ones in mask: {size}"
    require(true <= size, RuntimeError, few, lambda: f" < {plain(true).max()}")  # (of the slice that has most)


def _unscattered(xp: Any, g: Any, mask: Any, source_shape: tuple) -> Any:
    """The gradient of the source: what lies under the mask, then zeros for elements that were not used."""
    used = xp.masked_select(g, mask)
    total = 1
    for s in source_shape:
        total *= s
    rest = total - used.shape[0]
    return xp.reshape(xp.cat([used, xp.new_zeros(g, (rest,))], 0) if rest else used, source_shape)


MASKED_SCATTER = Op(
    "masked_scatter",
    lambda xp, x, mask, source: xp.masked_scatter(x, mask, source),
    kind=LINEAR,
    x=lambda xp, g, mask: xp.masked_fill(g, mask, 0.0),
    source=lambda xp, g, mask, source_shape: _unscattered(xp, g, mask, source_shape),
    complex=True,
    samples=[
        Sample(Arg(2, 3), bools(MASK), Arg(3)),
        Sample(Arg(2, 3), bools([True, False, True]), Arg(2, 3)),
        Sample(Arg(3), bools([False, False, False]), Arg(1)),
    ],
    layout=DENSE,
)


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Writes the first elements of `source`, in order, where the mask, broadcast, is true."""
    shape = self._data.shape
    if _common("masked_scatter_", self, _boolean("masked_scatter_", mask)) != shape:
        raise RuntimeError(
            f"masked_scatter_: the mask of shape {list(mask._data.shape)} cannot be broadcast to the tensor's {list(shape)}"
        )
    mask = _expanded("masked_scatter_", mask, shape)
    _enough("masked_scatter_", self, mask, source)
    refuse_overlap("masked_scatter_", self, (mask,))
    return record_write(
        self, "masked_scatter_", MASKED_SCATTER, (mask, source), (), lambda xp, *args: xp.masked_scatter_(*args)
    )


class MaskMethods:
    """Methods of Tensor."""

    __slots__ = ()
    masked_fill, masked_scatter, masked_select = masked_fill, masked_scatter, masked_select
    masked_fill_, masked_scatter_ = masked_fill_, masked_scatter_
