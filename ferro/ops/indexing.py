"""Indexing: x[key] and x[key] = value with everything PyTorch accepts, and what is read or written by one index or mask.

Note [Keys].  Integers, slices, None and Ellipsis alone give a view.  A key with tensors, lists or masks is taken in two
steps, as in PyTorch: its other parts first, as a view; then the tensors, as one integer tensor ``index`` whose
slices index[0], index[1], ... belong to the dimensions `dims` of that view.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro import cpu
from ferro.core import dtypes
from ferro.core.apply import apply, constant
from ferro.core.arguments import into, need_tensor, one_dim
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import overwrite, record_write
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.parts import SLICE
from ferro.ops.shape import RESHAPE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["argwhere", "fill", "index_add", "index_copy", "index_fill", "index_put", "index_put_", "index_select",
           "nonzero", "nonzero_static", "put", "take"]  # fmt: skip

ALL = slice(None)
INT32, INT64 = dtypes.int32.np, dtypes.int64.np


# -- x[key] ------------------------------------------------------------------------------------------------------------


def getitem(self: Tensor, key: Any) -> Tensor:
    """x[key]: a view for integers, slices, None and Ellipsis; a copy where tensors, lists or masks take part."""
    x, index, dims = locate(self, key)
    return x if index is None else apply(INDEX, (x, index), (dims,))


INDEX = Op("index", lambda xp, x, index, /, dims: xp.index_get(x, index, dims), kind=LINEAR,
           x=lambda xp, g, x_shape, index, dims: xp.index_put_at(xp.new_zeros(g, x_shape), index, g, dims, True))  # fmt: skip

declare("Tensor.__getitem__", [
    Sample(Arg(3, 4), 1), Sample(Arg(3, 4), (slice(None), -1)), Sample(Arg(3, 4), (slice(0, 3, 2), None)), Sample(Arg(3, 4), (Ellipsis, 2)),
    Sample(Arg(), (None,)), Sample(Arg(), Ellipsis), Sample(Arg(3, 4), Arg(values=[2, 0, 2], dtype="int64")),
    Sample(Arg(3, 4), (slice(None), Arg(values=[[1, -1], [1, 3]], dtype="int64"))), Sample(Arg(2, 3, 4), ([0, 1, 1], slice(None), [2, 2, 0])),
    Sample(Arg(2, 3, 4), (0, slice(None), [2, 2, 0])), Sample(Arg(3, 4), Arg(values=[True, False, True], dtype="bool")),
    Sample(Arg(2, 2), Arg(values=[[True, False], [True, True]], dtype="bool")), Sample(Arg(3), (True, None, [1, 1])),
], method=True, complex=True)  # fmt: skip


def locate(x: Any, key: Any) -> tuple:
    """The view that the plain part of a key names, and the index of the rest with its dimensions (None, () without)."""
    shape = x._data.shape
    if type(key) is int:
        if not shape:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")
        if not -shape[0] <= key < shape[0]:
            raise IndexError(f"index {key} is out of bounds for dimension 0 with size {shape[0]}")
        return apply(SLICE, (x,), ((key, ...),)), None, ()
    parts = key if type(key) is tuple else (key,)
    plain, advanced = _parse(shape, parts)
    if not advanced:
        return apply(SLICE, (x,), (plain,)), None, ()
    if any(p is not ALL for p in plain[:-1]):
        x = apply(SLICE, (x,), (plain,))
    return x, *_stacked(x._data.shape, advanced)


def _parse(shape: tuple, parts: tuple) -> tuple[tuple, list]:
    """The key of the plain part, with one Ellipsis at its end, and pairs (dimension of the plain result, array)."""
    used = sum(_consumes(p) for p in parts)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    plain: list = []
    advanced: list = []
    d = kept = 0  # dimensions of x passed over, dimensions of the plain result made
    seen = False
    for p in parts:
        if p is None:
            plain.append(None)
            kept += 1
        elif p is Ellipsis:
            if seen:
                raise IndexError("an index can only have a single ellipsis ('...')")
            seen = True
            n = len(shape) - used
            plain += [ALL] * n
            d, kept = d + n, kept + n
        elif type(p) is slice:
            plain.append(_slice(p, d, shape[d]))
            d, kept = d + 1, kept + 1
        else:
            found = _element(p)
            if type(found) is int:
                if not -shape[d] <= found < shape[d]:
                    raise IndexError(f"index {found} is out of bounds for dimension {d} with size {shape[d]}")
                plain.append(found)
                d += 1
            elif type(found) is bool:
                plain.append(None)
                advanced.append((kept, np.zeros(int(found), np.int64)))
                kept += 1
            elif found.dtype.kind == "b":
                advanced += [(kept + i, a) for i, a in enumerate(_mask_index(found, shape, d))]
                plain += [ALL] * found.ndim
                d, kept = d + found.ndim, kept + found.ndim
            else:
                advanced.append((kept, found))
                plain.append(ALL)
                d, kept = d + 1, kept + 1
    plain.append(...)
    return tuple(plain), advanced


def _consumes(p: Any) -> int:
    """How many dimensions one part of a key takes."""
    if p is None or p is Ellipsis or p is True or p is False:
        return 0
    if isinstance(p, (slice, int)):
        return 1
    data = p._data if isinstance(p, TensorBase) else p if isinstance(p, (np.ndarray, np.generic)) else _element(p)
    return data.ndim if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind == "b" else 0 if isinstance(data, bool) else 1


def _slice(s: slice, d: int, size: int) -> slice:
    """A slice of plain integers; steps must be positive."""
    start, stop, step = [None if v is None else _integer(v, "slice indices") for v in (s.start, s.stop, s.step)]
    if step is not None and step <= 0:
        raise ValueError(f"step must be greater than zero, got {step} for dimension {d}; use flip() to reverse")
    return ALL if (start, stop, step) == (None, None, None) else slice(*slice(start, stop, step).indices(size))


def _integer(v: Any, what: str) -> int:
    try:
        return int(v._data) if isinstance(v, TensorBase) and v._data.size == 1 and v._data.dtype.kind in "iu" else operator.index(v)  # type: ignore[attr-defined]
    except TypeError:
        raise TypeError(f"{what} must be integers or None or have an __index__ method, got {type(v).__name__}") from None


def _element(p: Any) -> Any:
    """One part of a key that is neither None, Ellipsis nor a slice: an int, a bool, an integer array or a boolean array."""
    if isinstance(p, bool):
        return p
    if isinstance(p, TensorBase):
        p = p._data
    elif isinstance(p, (list, tuple, range)):
        p = _from_sequence(p)
    if isinstance(p, (np.ndarray, np.generic)):
        if p.dtype.char in "B?":  # unsigned bytes are masks, as they were before there were booleans
            return bool(p) if not p.ndim else np.asarray(p, np.bool_)
        if p.dtype.kind not in "iu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors, got "
                             f"{dtypes.FROM_NUMPY.get(p.dtype, p.dtype)}")  # fmt: skip
        return int(p) if not p.ndim else np.asarray(p, np.int64)
    try:
        return operator.index(p)
    except TypeError:
        raise TypeError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                        f"(got {type(p).__name__})") from None  # fmt: skip


def _from_sequence(p: Any) -> Any:
    found = np.array([_unwrapped(q) for q in p]) if len(p) else np.zeros(0, np.int64)
    if found.dtype == object:
        raise TypeError(f"a list in an index must hold integers or booleans, got {p!r}")
    return found


def _unwrapped(q: Any) -> Any:
    if isinstance(q, TensorBase):
        return q._data
    return [_unwrapped(r) for r in q] if isinstance(q, (list, tuple)) else q


def _mask_index(mask: Any, shape: tuple, d: int) -> tuple:
    """The positions where a mask is true, one array for each of its dimensions."""
    if shape[d : d + mask.ndim] != mask.shape:
        where = next(i for i in range(mask.ndim) if shape[d + i : d + i + 1] != mask.shape[i : i + 1])
        raise IndexError(f"The shape of the mask {list(mask.shape)} at index {where} does not match the shape of the indexed tensor "
                         f"{list(shape)} at index {d + where}")  # fmt: skip
    return mask.nonzero()


def _stacked(shape: tuple, advanced: list) -> tuple:
    """The arrays of a key as one tensor of indices, broadcast to one shape and checked, with their dimensions."""
    dims = tuple([d for d, _ in advanced])
    arrays = [a for _, a in advanced]
    for d, a in advanced:
        in_bounds("index", a, shape[d], d, negative=True)
    if len(arrays) == 1:
        return wrap(arrays[0][None]), dims
    try:
        return wrap(np.stack(np.broadcast_arrays(*arrays))), dims
    except ValueError:
        raise IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes "
                         f"{', '.join(str(list(a.shape)) for a in arrays)}") from None  # fmt: skip


def in_bounds(name: str, index: Any, size: int, dim: int, negative: bool = False, error: type = IndexError) -> None:
    """Raises unless all of `index` is in [0, size), or in [-size, size) with `negative`."""
    if not index.size:
        return
    low, high = int(index.min()), int(index.max())
    if low < (-size if negative else 0) or high >= size:
        bad = low if low < (-size if negative else 0) else high
        raise error(f"{name}: index {bad} is out of bounds for dimension {dim} with size {size}")


def apart(name: str, out: Any, *inputs: Any) -> None:
    """Refuses an `out=` that shares memory with an input."""
    if any(out is x or np.may_share_memory(need_tensor(name, "out", out)._data, x._data) for x in inputs):
        raise RuntimeError(f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                           "location. Please clone() the tensor before performing the operation.")  # fmt: skip


def written(name: str, out: Any, result: Any, *inputs: Any) -> Any:
    """The result, written into `out=` (if given), which must not share memory with the inputs and must have its dtype."""
    if out is None:
        return result
    apart(name, out, *inputs)
    if out._data.dtype is not result._data.dtype:
        raise RuntimeError(f"{name}: Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead")
    return into(name, out, result)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """x[key] = value: writes, recorded, into the memory of x; the value is broadcast and cast."""
    x, index, dims = locate(self, key)
    if x is self and index is None:
        x = apply(SLICE, (x,), ((...,),))
    if not isinstance(value, TensorBase):
        value = wrap(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else number("__setitem__", value, x)
    shape = x._data.shape if index is None else _result_shape(x._data.shape, index._data.shape[1:], dims)
    have = value._data.shape  # type: ignore[attr-defined]
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    if have != value._data.shape:  # type: ignore[attr-defined]
        value = apply(RESHAPE, (value,), (have,))
    if len(have) > len(shape) or any(h not in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False)):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(shape)}")
    if index is None:
        overwrite(x, "__setitem__", COPY, value)
        return
    if value._data.dtype is not x._data.dtype:
        if value._data.ndim:
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {x.dtype} for the destination and "
                               f"{value.dtype} for the source.")  # type: ignore[attr-defined]  # fmt: skip
        value = value.to(x.dtype)  # type: ignore[attr-defined]
    record_write(x, "__setitem__", INDEX_PUT, (index, value), (dims, False), cpu.index_put_)


def _result_shape(shape: tuple, index_shape: tuple, dims: tuple) -> tuple:
    """The shape of a tensor indexed by indices in `dims`: in their place if they are neighbours, else in front."""
    first = dims[0] if dims == tuple(range(dims[0], dims[0] + len(dims))) else 0
    rest = [s for d, s in enumerate(shape) if d not in dims]
    return (*rest[:first], *index_shape, *rest[first:])


def number(name: str, value: Any, like: Any) -> Any:
    """A Python number as a 0-d tensor of the dtype of another."""
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"{name}: can't assign a {type(value).__name__} to a {like.dtype} tensor")
    if isinstance(value, complex) and like._data.dtype.kind != "c":
        raise RuntimeError(f"{name}: value cannot be converted to type {like.dtype} without overflow: {value}")
    return constant(value, like._data.dtype)


INDEX_PUT = Op("index_put", lambda xp, x, index, value, /, dims, accumulate: xp.index_put_at(x, index, value, dims, accumulate), kind=LINEAR,
               x=lambda xp, g, index, value_shape, dims, accumulate: g if accumulate else xp.index_put_at(
                   g, index, xp.new_zeros(g, ()), dims, False),
               value=lambda xp, g, index, dims: xp.index_get(g, index, dims))  # fmt: skip


def index_get(x: Tensor, index: Tensor, dims: tuple) -> Tensor:
    """x indexed by index[0], index[1], ... in the dimensions `dims`."""
    return apply(INDEX, (x, index), (dims,))


def index_put_at(x: Tensor, index: Tensor, value: Tensor, dims: tuple, accumulate: bool) -> Tensor:
    """x with `value` written (or added) to what index_get() reads."""
    return apply(INDEX_PUT, (x, index, value), (dims, accumulate))


def _index_put_arguments(name: str, x: Any, indices: Any, values: Any, accumulate: bool) -> tuple:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    if x._data.dtype is not need_tensor(name, "values", values)._data.dtype:
        raise RuntimeError(f"{name}: Index put requires the source and destination dtypes match, got {x.dtype} for the destination and "
                           f"{values.dtype} for the source.")  # fmt: skip
    parts = tuple([ALL if i is None else need_tensor(name, "indices", i)._data for i in indices])
    _, advanced = _parse(x._data.shape, tuple([p[None] if isinstance(p, np.ndarray) and not p.ndim else p for p in parts]))
    index, dims = _stacked(x._data.shape, advanced)
    shape = _result_shape(x._data.shape, index._data.shape[1:], dims)
    have = values._data.shape
    if len(have) > len(shape) or any(h not in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False)):
        raise RuntimeError(f"{name}: shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result of shape {list(shape)}")
    return (index, values), (dims, bool(accumulate))


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of the tensor with `values` written (or added, where several meet in the order of the index) to input[indices]."""
    others, params = _index_put_arguments("index_put", input, indices, values, accumulate)
    return apply(INDEX_PUT, (input, *others), params)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """In-place version of :func:`index_put`."""
    others, params = _index_put_arguments("index_put_", self, indices, values, accumulate)
    return record_write(self, "index_put_", INDEX_PUT, others, params, cpu.index_put_)


declare("index_put", [Sample(Arg(4), (Arg(values=[0, 2], dtype="int64"),), Arg(2)),
                      Sample(Arg(3, 2), (Arg(values=[0, 0, 2], dtype="int64"),), Arg(3, 2), True),
                      Sample(Arg(3, 4), (Arg(values=[0, 1], dtype="int64"), Arg(values=[1, 3], dtype="int64")), Arg()),
                      Sample(Arg(2, 2), (Arg(values=[[True, False], [True, True]], dtype="bool"),), Arg(3), accumulate=True)], complex=True)  # fmt: skip


# -- one index of one dimension ----------------------------------------------------------------------------------------


def _index_of(name: str, x: Any, dim: int, index: Any, types: tuple = (INT64, INT32)) -> tuple[int, Any]:
    """The dimension and the checked index (int64, of one dimension) of the index_* family."""
    d = one_dim(name, x._data.ndim, dim)
    data = need_tensor(name, "index", index)._data
    if data.dtype not in types:
        wanted = " or ".join(t.name for t in types)
        raise (RuntimeError if INT32 in types else IndexError)(f"{name}(): Expected dtype {wanted} for index, got {index.dtype}")
    if data.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got shape {list(data.shape)}")
    if data.dtype != INT64 or not data.ndim:
        index = wrap(data.astype(np.int64).reshape(-1))
    in_bounds(f"{name}()", index._data, x._data.shape[d] if x._data.ndim else 1, d)
    return d, index


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices along `dim` that a vector of positions names, as a copy."""
    d, index = _index_of("index_select", input, dim, index)
    if not input._data.ndim:
        if index._data.size != 1:
            raise IndexError(f"index_select(): Index to scalar can have only 1 value, got {index._data.size} value(s)")
        result = apply(RESHAPE, (index_select(apply(RESHAPE, (input,), ((1,),)), 0, index),), ((),))
    else:
        result = apply(INDEX_SELECT, (input, index), (d,))
    return written("index_select", out, result, input, index)


INDEX_SELECT = Op("index_select", lambda xp, x, index, /, dim: xp.index_select(x, dim, index), kind=LINEAR,
                  x=lambda xp, g, x_shape, index, dim: xp.index_add(xp.new_zeros(g, x_shape), dim, index, g), complex=True,
                  samples=[Sample(Arg(3, 4), 0, Arg(values=[2, 0, 2], dtype="int64")), Sample(Arg(3, 4), -1, Arg(values=[1], dtype="int64")),
                           Sample(Arg(3), 0, Arg(0, dtype="int64")), Sample(Arg(), 0, Arg(values=[0], dtype="int64"))])  # fmt: skip


def source_arguments(name: str, x: Any, dim: int, index: Any, source: Any, types: tuple = (INT64, INT32)) -> tuple:
    """Checked arguments of index_add and index_copy: ((index, source), dimension), the source with x's dimensions."""
    d, index = _index_of(name, x, dim, index, types)
    n = index._data.size
    if x._data.dtype is not need_tensor(name, "source", source)._data.dtype:
        raise RuntimeError(f"{name}(): self ({x.dtype}) and source ({source.dtype}) must have the same scalar type")
    have, want = source._data.shape, x._data.shape
    if not want:
        if source._data.size != n or (n != 1 and name.startswith("index_copy")):
            raise IndexError(f"{name}(): a tensor without dimensions takes a source with one element per index, got shape {list(have)}")
        return (index, apply(RESHAPE, (source,), ((n,),))), d
    if not have and n == 1 and want[d : d + 1] and len(want) == 1:
        return (index, apply(RESHAPE, (source,), ((1,),))), d
    if len(have) != len(want):
        raise IndexError(f"{name}(): When source and destination are not scalars, their dimensionality must match. Source dimensionality "
                         f"({len(have)}), destination dimensionality ({len(want)})")  # fmt: skip
    if have[d] != n:
        raise IndexError(f"{name}(): Number of indices ({n}) should be equal to source.size(dim) ({have[d]})")
    if have[:d] != want[:d] or have[d + 1 :] != want[d + 1 :]:
        raise RuntimeError(f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                           f"{list(want[:d] + want[d + 1 :])} at dimension {d} and source slice shape: {list(have[:d] + have[d + 1 :])}.")  # fmt: skip
    return (index, source), d


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """A copy with alpha times the slices of `source` along `dim` added, in order, to the slices that `index` names."""
    others, d = source_arguments("index_add", input, dim, index, source)
    result = apply(INDEX_ADD, (input, others[0], _scaled("index_add", input, others[1], alpha)), (d,))
    return into("index_add", out, result)


def _scaled(name: str, x: Any, source: Any, alpha: Any) -> Any:
    if isinstance(alpha, float) and x._data.dtype.kind in "biu":
        raise RuntimeError(f"{name}(): For integral input tensors, argument alpha must not be a floating point number, got {alpha}")
    return source if alpha == 1 and alpha is not True else source * alpha


INDEX_ADD = Op("index_add", lambda xp, x, index, source, /, dim: xp.index_add(x, dim, index, source), kind=LINEAR,
               x=lambda xp, g: g,
               source=lambda xp, g, source_shape, index, dim: _rows(xp, g, source_shape, index, dim), complex=True,
               samples=[Sample(Arg(3, 2), 0, Arg(values=[2, 0, 2], dtype="int64"), Arg(3, 2)),
                        Sample(Arg(2, 3), 1, Arg(values=[1, 1], dtype="int64"), Arg(2, 2), alpha=2), Sample(Arg(3), 0, Arg(0, dtype="int64"), Arg(0))])  # fmt: skip


def _rows(xp: Any, g: Any, source_shape: tuple, index: Any, dim: int) -> Any:
    """The gradient of the source of an index_* operation."""
    if len(g.shape):
        return xp.index_select(g, dim, index)
    return xp.expand(xp.reshape(g, (1,)), source_shape)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with the slices of `source` along `dim` in the places that `index` names."""
    others, d = source_arguments("index_copy", input, dim, index, source, (INT64,))
    result = apply(INDEX_COPY, (input, *others), (d,))
    return into("index_copy", out, result)


INDEX_COPY = Op("index_copy", lambda xp, x, index, source, /, dim: xp.index_copy(x, dim, index, source), kind=LINEAR,
                x=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0.0),
                source=lambda xp, g, source_shape, index, dim: _rows(xp, g, source_shape, index, dim), complex=True,
                samples=[Sample(Arg(3, 2), 0, Arg(values=[2, 0], dtype="int64"), Arg(2, 2)),
                         Sample(Arg(2, 3), -1, Arg(values=[1], dtype="int64"), Arg(2, 1))])  # fmt: skip


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with one value (a number or a 0-d tensor) in the slices along `dim` that `index` names."""
    others, d = _index_fill_arguments("index_fill", input, dim, index, value)
    return apply(INDEX_FILL, (input, *others), (d,))


def _index_fill_arguments(name: str, x: Any, dim: int, index: Any, value: Any) -> tuple:
    d = one_dim(name, x._data.ndim, dim)
    data = need_tensor(name, "index", index)._data
    if data.dtype != INT64:
        raise IndexError(f"{name}(): Expected dtype int64 for index, got {index.dtype}")
    if data.ndim > 1:
        raise IndexError(f"{name}(): Index has to be a vector/scalar, got shape {list(data.shape)}")
    in_bounds(f"{name}()", data, x._data.shape[d] if x._data.ndim else 1, d, negative=True)
    return (index if data.ndim else apply(RESHAPE, (index,), ((1,),)), filler(name, x, value)), d


def filler(name: str, x: Any, value: Any) -> Any:
    """The value of a fill: a number, or a tensor without dimensions, as a 0-d tensor of the dtype of x."""
    if not isinstance(value, TensorBase):
        return number(name, value, x)
    if value._data.ndim:  # type: ignore[attr-defined]
        raise RuntimeError(f"{name} only supports a 0-dimensional value tensor, but got tensor with {value._data.ndim} dimension(s).")  # type: ignore[attr-defined]
    if value._data.dtype.kind == "c" and x._data.dtype.kind != "c":  # type: ignore[attr-defined]
        raise RuntimeError(f"{name}: value of dtype {value.dtype} cannot be converted to {x.dtype} without losing its imaginary part")  # type: ignore[attr-defined]
    return value.to(x.dtype)  # type: ignore[attr-defined]


INDEX_FILL = Op("index_fill", lambda xp, x, index, value, /, dim: xp.index_fill(x, dim, index, value), kind=LINEAR,
                x=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0.0),
                value=lambda xp, g, index, dim: g - xp.index_fill(g, dim, index, 0.0), complex=True,
                samples=[Sample(Arg(3, 2), 0, Arg(values=[2, 0], dtype="int64"), 1.5), Sample(Arg(2, 3), 1, Arg(values=[2], dtype="int64"), Arg()),
                         Sample(Arg(), 0, Arg(values=[0], dtype="int64"), 2.0)])  # fmt: skip


# -- flat positions ----------------------------------------------------------------------------------------------------


def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements, counted in C order, that `index` names, in the shape of the index."""
    if need_tensor("take", "index", index)._data.dtype != INT64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype}")
    in_bounds("take()", index._data, input._data.size, 0, negative=True)
    return written("take", out, apply(TAKE, (input, index)), input, index)


TAKE = Op("take", lambda xp, x, index: xp.take(x, index), kind=LINEAR,
          x=lambda xp, g, x_shape, index: xp.put(xp.new_zeros(g, x_shape), index, g, True), complex=True,
          samples=[Sample(Arg(2, 3), Arg(values=[4, 0, -1, 4], dtype="int64")), Sample(Arg(3), Arg(values=[[1], [2]], dtype="int64")),
                   Sample(Arg(2), Arg(values=1, dtype="int64"))])  # fmt: skip


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `source` written (or added, in order) to the elements, counted in C order, that `index` names."""
    return apply(PUT, (input, *_put_arguments("put", input, index, source)), (bool(accumulate),))


def _put_arguments(name: str, x: Any, index: Any, source: Any) -> tuple:
    if need_tensor(name, "index", index)._data.dtype != INT64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {index.dtype}")
    if need_tensor(name, "source", source)._data.dtype is not x._data.dtype:
        raise RuntimeError(f"{name}(): self and source expected to have the same dtype, but got self.dtype = {x.dtype} and source.dtype = {source.dtype}")
    if source._data.size != index._data.size:
        raise RuntimeError(f"{name}(): Expected source and index to have the same number of elements, but got source.numel() = "
                           f"{source._data.size}, index.numel() = {index._data.size}")  # fmt: skip
    in_bounds(f"{name}()", index._data, x._data.size, 0, negative=True)
    return index, source


PUT = Op("put", lambda xp, x, index, source, /, accumulate: xp.put(x, index, source, accumulate), kind=LINEAR,
         x=lambda xp, g, index, accumulate: g if accumulate else xp.put(g, index, xp.new_zeros(g, index.shape), False),
         source=lambda xp, g, index, source_shape: xp.reshape(xp.take(g, index), source_shape), complex=True,
         samples=[Sample(Arg(2, 3), Arg(values=[4, 0, -1], dtype="int64"), Arg(3)), Sample(Arg(3), Arg(values=[[1], [1]], dtype="int64"), Arg(2), True)])  # fmt: skip


# -- positions of what is not zero -------------------------------------------------------------------------------------


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not 0: a row for each, or (as_tuple) a tensor for each dimension."""
    x = input._data
    if as_tuple:
        return tuple([wrap(i.astype(np.int64, copy=False)) for i in (x.reshape(1) if not x.ndim else x).nonzero()])
    return into("nonzero", out, wrap(cpu.nonzero(x)))


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of nonzero(), filled up with rows of `fill_value`."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = cpu.nonzero(input._data)[:size]
    result = np.full((size, input._data.ndim), fill_value, np.int64)
    result[: len(found)] = found
    return into("nonzero_static", out, wrap(result))


def argwhere(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0, a row for each."""
    return wrap(cpu.nonzero(input._data))


for _function in (nonzero, argwhere):
    declare(_function.__name__, [Sample(Arg(values=[[1.0, 0.0], [0.0, 2.0]])), Sample(Arg(values=3.0)), Sample(Arg(0, 2)),
                                 Sample(Arg(values=[True, False], dtype="bool"))], differentiable=False, complex=True)  # fmt: skip


# -- the whole tensor --------------------------------------------------------------------------------------------------


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes `src`, broadcast and cast, into the tensor; gradients flow to `src`."""
    if not isinstance(src, TensorBase):
        raise TypeError(f"copy_(): argument 'src' must be Tensor, not {type(src).__name__}")
    have, want = src._data.shape, self._data.shape  # type: ignore[attr-defined]
    if len(have) > len(want) or any(h not in (1, s) for h, s in zip(have[::-1], want[::-1], strict=False)):
        raise RuntimeError(f"copy_: the size {list(have)} of src cannot be broadcast to the size {list(want)} of the tensor")
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
    return overwrite(self, "zero_", COPY, constant(0, self._data.dtype))


def _written(function: Any, op: Op, arguments: Any, write: Any) -> Any:
    """The in-place method of an operation that writes only at an index."""
    name = f"{function.__name__}_"

    def method(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        others, params = arguments(name, self, *args, **kwargs)
        return record_write(self, name, op, others, params, write)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of :func:`{function.__name__}`."
    return method


def _add_arguments(name: str, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> tuple:
    (index, source), d = source_arguments(name, x, dim, index, source)
    return (index, _scaled(name, x, source, alpha)), (d,)


def _copy_arguments(name: str, x: Any, dim: int, index: Any, source: Any) -> tuple:
    others, d = source_arguments(name, x, dim, index, source, (INT64,))
    return others, (d,)


def _fill_arguments(name: str, x: Any, dim: int, index: Any, value: Any) -> tuple:
    others, d = _index_fill_arguments(name, x, dim, index, value)
    return others, (d,)


def _place_arguments(name: str, x: Any, index: Any, source: Any, accumulate: bool = False) -> tuple:
    return _put_arguments(name, x, index, source), (bool(accumulate),)


class IndexingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    __getitem__, __setitem__ = getitem, setitem
    argwhere, index_add, index_copy, index_fill, index_put = argwhere, index_add, index_copy, index_fill, index_put
    index_select, nonzero, nonzero_static, put, take = index_select, nonzero, nonzero_static, put, take
    copy_, fill_, zero_, index_put_ = copy_, fill_, zero_, index_put_
    index_add_ = _written(index_add, INDEX_ADD, _add_arguments, lambda x, i, s, d: cpu.index_add_(x, d, i, s))
    index_copy_ = _written(index_copy, INDEX_COPY, _copy_arguments, lambda x, i, s, d: cpu.index_copy_(x, d, i, s))
    index_fill_ = _written(index_fill, INDEX_FILL, _fill_arguments, lambda x, i, v, d: cpu.index_fill_(x, d, i, v))
    put_ = _written(put, PUT, _place_arguments, cpu.put_)


