"""Items: x[key] and x[key] = value with everything that PyTorch accepts as a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import SERVING
from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, bump, wrap
from ferro.core.inplace import overwrite, record_write, refuse_overlap
from ferro.core.layout import FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.core.writes import assigned, unrecorded
from ferro.ops.expanding import explain_expand
from ferro.ops.filling import COPY, fits, number
from ferro.ops.index_arguments import INT64, bools, ints, on_expanded
from ferro.ops.keys import (
    ALL,
    _at_a_glance,
    _check_bounds,
    _element,
    _located,
    _mask_of,
    _parsed,
    _stacked,
    _unpacked,
    _whole_dimensions,
    plain_key,
)
from ferro.ops.masks import FILLED_EXPANDED, MASKED_FILL, MASKED_SELECT, write_filled
from ferro.ops.shape import RESHAPE
from ferro.ops.slices import SLICE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["index_put", "index_put_"]


# -- x[key] ------------------------------------------------------------------------------------------------------------


def getitem(self: Tensor, key: Any) -> Tensor:
    """x[key]: a view for integers, slices, None and Ellipsis; a copy where tensors, lists or masks take part."""
    kind = type(key)
    if kind is int:
        key, quick = (key,), (key, ...)
    else:
        if kind is not tuple:
            key = _unpacked(key) if kind is list else (key,)
        quick = _at_a_glance(key)
    if quick is not None:
        try:
            return viewed(SLICE, self, (quick,))
        except IndexError:  # NumPy's, which `plain_key` puts into words; any other comes again from the same call below
            pass
    index = key[0] if len(key) == 1 else None
    if isinstance(index, TensorBase) and index._data.dtype is INT64 and index._data.ndim and self._data.ndim:
        x, index, dims = self, *_stacked([(0, index)])
    elif several := _whole_dimensions(self._data.ndim, key):
        x, index, dims = self, *_stacked(several)
    else:
        plain = plain_key(self._data.shape, key)
        if plain is not None:
            return viewed(SLICE, self, (plain,))
        mask = _mask_of(self, key)
        if mask is not None:
            return apply(MASKED_SELECT, (self, _beside(self, mask)))
        x, index, dims = _located(self, key)
    if index is None:
        return x
    _check_there(x, index, dims)
    try:
        return apply(INDEX, (x, _beside(x, index)), (dims,))
    except IndexError:
        _check_bounds("index", x._data.shape, index._data, dims)
        raise


def _check_there(x: Any, index: Any, dims: tuple) -> None:
    """IndexError for an index out of bounds on a device, where it would mean other places."""
    if type(x._data) in SERVING:
        _check_bounds("index", x._data.shape, index._data, dims)


def _beside(x: Any, index: Any) -> Any:
    """An index, brought to the device of x if it lies on the processor's, as in PyTorch."""
    given = backend.beside(x._data, index._data)
    return index if given is index._data else wrap(given)


INDEX = Op(
    "index",
    lambda xp, x, index, /, dims: xp.index_get(x, index, dims),
    kind=LINEAR,
    x=lambda xp, g, x_shape, index, dims: xp.index_spread(g, x_shape, index, dims),
)

declare(
    "Tensor.__getitem__",
    [
        Sample(Arg(3, 4), 1),
        Sample(Arg(3, 4), (slice(None), -1)),
        Sample(Arg(3, 4), (slice(0, 3, 2), None)),
        Sample(Arg(3, 4), (Ellipsis, 2)),
        Sample(Arg(), (None,)),
        Sample(Arg(), Ellipsis),
        Sample(Arg(3, 4), ints([2, 0, 2])),
        Sample(Arg(3, 4), (slice(None), ints([[1, -1], [1, 3]]))),
        Sample(Arg(2, 3, 4), ([0, 1, 1], slice(None), [2, 2, 0])),
        Sample(Arg(2, 3, 4), (0, slice(None), [2, 2, 0])),
        Sample(Arg(3, 4), bools([True, False, True])),
        Sample(Arg(2, 2), bools([[True, False], [True, True]])),
        Sample(Arg(3), (True, None, [1, 1])),
    ],
    method=True,
    complex=True,
)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """x[key] = value: writes, recorded, into the memory of x; the value is broadcast and cast."""
    if isinstance(value, TensorBase):
        quick = (key, ...) if type(key) is int else _at_a_glance(key if type(key) is tuple else (key,))
        if quick is not None and assigned(self, quick, value) is not None:
            return
    if type(key) is not tuple:
        key = _unpacked(key) if type(key) is list else (key,)
    plain = plain_key(self._data.shape, key)
    if plain is not None and type(value) in (int, float, bool) and unrecorded(self):
        self._data[plain] = value
        bump(self, "__setitem__")
        return
    given = _as_value(self, value)
    mask = None if plain is not None or given._data.ndim else _mask_of(self, key)
    if mask is not None:
        given = given if given._data.dtype is self._data.dtype else given.to(self.dtype)
        record_write(self, "__setitem__", MASKED_FILL, (_beside(self, mask), given), (), write_filled, FILLED_EXPANDED)
        return
    x, index, dims = (viewed(SLICE, self, (plain,)), None, ()) if plain is not None else _located(self, key)
    if index is None:
        given = _without_ones(given, x._data.shape, indexed=False)
        if given._counter is x._counter is not None and given._data.shape != x._data.shape:
            given = given.expand(x._data.shape)  # a part of what is written, written everywhere: no overlap to refuse
        overwrite(x, "__setitem__", COPY, given)
        return
    given = _without_ones(given, _result_shape(x._data.shape, index._data.shape[1:], dims))
    if given._data.dtype is not x._data.dtype:
        if given._data.ndim:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {dtypes.type_name(x.dtype)} for the destination and "
                f"{dtypes.type_name(given.dtype)} for the source."
            )
        given = given.to(x.dtype)
    _check_there(x, index, dims)
    try:
        refuse_overlap("__setitem__", x, (index, given), itself=True)
        record_write(x, "__setitem__", INDEX_PUT, (_beside(x, index), given), (dims, False), _write_put, PUT_EXPANDED)
    except IndexError:
        _check_bounds("index", x._data.shape, index._data, dims)
        raise


def _as_value(x: Any, value: Any) -> Any:
    """What is assigned to items of x, as a tensor."""
    if isinstance(value, TensorBase):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return wrap(dtypes.own(np.asarray(value)))
    return number("__setitem__", value, x)


def _without_ones(value: Any, shape: tuple, indexed: bool = True) -> Any:
    """The value without leading dimensions of size 1 that `shape` has not; RuntimeError if it cannot be broadcast."""
    have = value._data.shape
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    if not fits(have, shape):
        if not indexed:
            explain_expand("__setitem__", have, shape)
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(shape)}"
        )
    return value if have == value._data.shape else viewed(RESHAPE, value, (have,))


def _result_shape(shape: tuple, index_shape: tuple, dims: tuple) -> tuple:
    """The shape of a tensor indexed by indices in `dims`: in their place if they are neighbours, else in front."""
    if dims == (0,):
        return (*index_shape, *shape[1:])
    first = dims[0] if dims == tuple(range(dims[0], dims[0] + len(dims))) else 0
    rest = [s for d, s in enumerate(shape) if d not in dims]
    return (*rest[:first], *index_shape, *rest[first:])


INDEX_PUT = Op(
    "index_put",
    lambda xp, x, index, value, /, dims, accumulate: xp.index_put_at(x, index, value, dims, accumulate),
    kind=LINEAR,
    x=lambda xp, g, index, value_shape, dims, accumulate: (
        g if accumulate else xp.index_put_at(g, index, xp.new_zeros(g, ()), dims, False)
    ),
    value=lambda xp, g, index, dims: xp.index_get(g, index, dims),
    layout=FIRST,
)


def index_get(x: Tensor, index: Tensor, dims: tuple) -> Tensor:
    """x indexed by index[0], index[1], ... in the dimensions `dims`."""
    return apply(INDEX, (x, index), (dims,))


def index_put_at(x: Tensor, index: Tensor, value: Tensor, dims: tuple, accumulate: bool) -> Tensor:
    """x with `value` written (or added) to what index_get() reads."""
    return apply(INDEX_PUT, (x, index, value), (dims, accumulate))


def index_spread(g: Tensor, shape: tuple, index: Tensor, dims: tuple) -> Tensor:
    """Zeros of `shape` to which g is added where index_get() reads: its transpose."""
    return index_put_at(backend.functional.new_zeros(g, shape), index, g, dims, True)


def _index_put_arguments(name: str, x: Any, indices: Any, values: Any, accumulate: bool) -> tuple:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    if x._data.dtype is not need_tensor(name, "values", values)._data.dtype:
        ours, theirs = dtypes.type_name(x.dtype), dtypes.type_name(values.dtype)
        raise RuntimeError(
            f"{name}: Index put requires the source and destination dtypes match, got {ours} for the destination and "
            f"{theirs} for the source."
        )
    for i in indices:
        if i is not None and need_tensor(name, "indices", i)._data.dtype.kind not in "biu":
            raise IndexError(f"{name}: tensors used as indices must be long, int, byte or bool tensors, got {i.dtype}")
    parts = [ALL if i is None else viewed(RESHAPE, i, ((1,),)) if not i._data.ndim else i for i in indices]
    _, advanced = _parsed(x._data.shape, [_element(p) for p in parts])
    if not advanced:
        raise RuntimeError(
            f"{name}: shape mismatch: value tensor of shape {list(values._data.shape)} cannot be broadcast to indexing "
            f"result of shape {list(x._data.shape)}: there is no index"
        )
    index, dims = _stacked(advanced)
    _check_bounds(name, x._data.shape, index._data, dims)
    shape = _result_shape(x._data.shape, index._data.shape[1:], dims)
    have = values._data.shape
    if not fits(have, shape):
        raise RuntimeError(
            f"{name}: shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(shape)}"
        )
    return (_beside(x, index), values), (dims, bool(accumulate))


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of the tensor with `values` written to input[indices].

    - `input` (Tensor): any shape
    - `indices` (tuple of Tensors): int64 or bool, as between brackets; None for a whole dimension
    - `values` (Tensor): in a shape that broadcasts to that of input[indices], in the dtype of `input`
    - `accumulate` (bool, default False): adds instead, several values for one place too, in the order of the index

    The result has the shape of `input`. IndexError for an index out of range, RuntimeError for values of another dtype.

    Example::

        >>> import ferro
        >>> ferro.index_put(ferro.zeros(3), (ferro.tensor([0, 0]),), ferro.tensor([1.0, 2.0]), accumulate=True)
        tensor([3., 0., 0.])
    """
    others, params = _index_put_arguments("index_put", input, indices, values, accumulate)
    return apply(INDEX_PUT, (input, *others), params)


def _write_put(xp: Any, *args: Any) -> None:
    xp.index_put_(*args)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes `values` to self[indices], in place: see :func:`index_put`.

    - `self` (Tensor): any shape, changed and returned
    - `indices` (tuple of Tensors): int64 or bool, as between brackets
    - `values` (Tensor): in a shape that broadcasts to that of self[indices], in the tensor's dtype
    - `accumulate` (bool, default False): adds instead, several values for one place too

    IndexError for an index out of range, RuntimeError for values of another dtype.

    Example::

        >>> import ferro
        >>> ferro.zeros(3).index_put_((ferro.tensor([0, 2]),), ferro.tensor([5.0, 6.0]))
        tensor([5., 0., 6.])
    """
    others, params = _index_put_arguments("index_put_", self, indices, values, accumulate)
    refuse_overlap("index_put_", self, others, itself=True)
    return record_write(self, "index_put_", INDEX_PUT, others, params, _write_put, PUT_EXPANDED)


PUT_EXPANDED = on_expanded("index_put_", "tensor[indices] = tensor")


declare(
    "index_put",
    [
        Sample(Arg(4), (ints([0, 2]),), Arg(2)),
        Sample(Arg(3, 2), (ints([0, 0, 2]),), Arg(3, 2), True),
        Sample(Arg(3, 4), (ints([0, 1]), ints([1, 3])), Arg()),
        Sample(Arg(2, 2), (bools([[True, False], [True, True]]),), Arg(3), accumulate=True),
    ],
    complex=True,
)


class ItemMethods:
    """Methods of Tensor."""

    __slots__ = ()
    __getitem__, __setitem__ = getitem, setitem

    def __delitem__(self, key: Any) -> None:
        """Refused: a tensor keeps all its elements."""
        raise TypeError("Tensor does not support deleting items")

    index_put, index_put_ = index_put, index_put_
