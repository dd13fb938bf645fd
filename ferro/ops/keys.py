"""What a key of x[key] means: slices, positions and masks, as an index of arrays.

Note [Keys].  Integers, slices, None and Ellipsis alone give a view.  A key with tensors, lists or masks is taken in two
steps, as in PyTorch: its other parts first, as a view; then the tensors, as one integer tensor ``index`` whose
slices index[0], index[1], ... belong to the dimensions `dims` of that view.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase, version_of, wrap
from ferro.core.views import viewed
from ferro.ops.index_arguments import INT64, in_bounds
from ferro.ops.slices import SLICE

ALL = slice(None)


def _unpacked(key: list) -> tuple:
    """A list as a key: short ones that hold more than numbers are taken for tuples, as PyTorch does."""
    odd = any(p is None or p is Ellipsis or isinstance(p, (list, tuple, slice, TensorBase)) for p in key)
    return tuple(key) if odd and len(key) < 32 else (key,)


def _mask_of(x: Any, key: tuple) -> Any:
    """The mask, if a key is one boolean tensor of the shape of x; a copy, for the user may change it before backward."""
    p = key[0] if len(key) == 1 else None
    if isinstance(p, TensorBase) and p._data.dtype.kind == "b" and p._data.shape == x._data.shape != ():
        return wrap(p._data.copy())
    return None


def _at_a_glance(parts: tuple) -> tuple | None:
    """The key of a view with one Ellipsis, if it holds nothing that needs a closer look than NumPy's own."""
    seen = False
    for p in parts:
        kind = type(p)
        if kind is slice:
            if (
                ((i := p.start) is None or type(i) is int)
                and ((i := p.stop) is None or type(i) is int)
                and p.step is None
            ):
                continue
            return None
        if kind is int or p is None:
            continue
        if p is not Ellipsis or seen:
            return None
        seen = True
    return parts if seen else (*parts, ...)


def plain_key(shape: tuple, parts: tuple) -> tuple | None:
    """The key of a view, checked, with one Ellipsis; None if it has parts other than integers, slices, None, Ellipsis."""
    n, d, key, seen = len(shape), 0, [], False
    for p in parts:
        kind = type(p)
        if kind is int:
            if d >= n:
                raise _too_many(n)
            if not -shape[d] <= p < shape[d]:
                raise IndexError(f"index {p} is out of bounds for dimension {d} with size {shape[d]}")
            d += 1
        elif kind is slice:
            if d >= n:
                raise _too_many(n)
            if (
                type(p.start) not in _BOUNDS
                or type(p.stop) not in _BOUNDS
                or (p.step is not None and (type(p.step) is not int or p.step <= 0))
            ):
                p = _slice(p, d)
            d += 1
        elif p is Ellipsis:
            if seen:
                continue  # as in PyTorch, the first one takes all dimensions
            seen = True
            d = n - sum(1 for q in parts if type(q) is int or type(q) is slice) + d
        elif p is not None:
            return None
        key.append(p)
    if d > n:
        raise _too_many(n)
    return tuple(key) if seen else (*key, ...)


_BOUNDS = (int, type(None))


def _too_many(n: int) -> IndexError:
    if not n:
        return IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")
    return IndexError(f"too many indices for tensor of dimension {n}")


def _slice(s: slice, d: int) -> slice:
    """A slice whose bounds are Python integers; steps must be positive."""
    start, stop, step = [None if v is None else _integer(v) for v in (s.start, s.stop, s.step)]
    if step is not None and step <= 0:
        wrong = "slice step cannot be zero" if step == 0 else "step must be greater than zero"
        raise ValueError(f"{wrong}, got {step} for dimension {d}; use flip() to reverse")
    return slice(start, stop, step)


def _integer(v: Any) -> int:
    given: Any = v
    if isinstance(v, TensorBase) and v._data.size == 1 and v._data.dtype.kind in "iu":
        given = v._data.item()
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(
            f"slice indices must be integers or None or have an __index__ method, got {type(v).__name__}"
        ) from None


def _located(x: Any, key: tuple) -> tuple:
    """The view that the plain part of a key names, and the index of the rest with its dimensions (None, () without)."""
    first: Any = key[0] if len(key) == 1 else None
    if isinstance(first, TensorBase) and first._data.dtype == INT64 and first._data.ndim and x._data.ndim:
        return x, *_stacked([(0, first)])
    several = _whole_dimensions(x._data.ndim, key)
    if several:
        return x, *_stacked(several)
    plain, advanced = _parsed(x._data.shape, [_element(p) for p in key])
    if any(p is not ALL for p in plain) or not advanced:
        x = viewed(SLICE, x, ((*plain, ...),))
    return x, *(_stacked(advanced) if advanced else (None, ()))


def _whole_dimensions(ndim: int, key: tuple) -> list | None:
    """Pairs (dimension, index tensor) of a key of nothing but indices and whole dimensions (":"); None for any other."""
    found: list = []
    for d, p in enumerate(key):
        if isinstance(p, TensorBase):
            if p._data.dtype is not INT64 or not p._data.ndim:
                return None
            found.append((d, p))
        elif type(p) is not slice or not (p.start is p.stop is p.step is None):
            return None
    return found if len(key) <= ndim else None


def _parsed(shape: tuple, parts: list) -> tuple[list, list]:
    """The plain part of a key (ALL where a tensor indexes), and pairs (dimension of the plain result, index tensor)."""
    used = sum(
        1 if type(p) in (int, slice) else 0 if p is None or p is Ellipsis or type(p) is bool else _consumed(p)
        for p in parts
    )
    if used > len(shape):
        raise _too_many(len(shape))
    plain: list = []
    advanced: list = []
    seen = False
    d = 0  # dimensions of x passed over; those of the plain result are the parts of `plain` that are no integers
    for p in parts:
        kept = sum(1 for q in plain if type(q) is not int)
        if p is None:
            plain.append(None)
        elif p is Ellipsis:
            left = 0 if seen else len(shape) - used
            plain += [ALL] * left
            d, seen = d + left, True
        elif type(p) is slice or type(p) is int:
            if type(p) is int and not -shape[d] <= p < shape[d]:
                raise IndexError(f"index {p} is out of bounds for dimension {d} with size {shape[d]}")
            plain.append(_slice(p, d) if type(p) is slice else p)
            d += 1
        elif type(p) is bool:
            plain.append(None)
            advanced.append((kept, wrap(np.zeros(int(p), np.int64))))
        elif p._data.dtype.kind == "b":
            advanced += [(kept + i, wrap(a)) for i, a in enumerate(_mask_index(p._data, shape, d))]
            plain += [ALL] * p._data.ndim
            d += p._data.ndim
        else:
            advanced.append((kept, p))
            plain.append(ALL)
            d += 1
    return plain, advanced


def _consumed(p: Any) -> int:
    """How many dimensions a tensor in a key takes."""
    return p._data.ndim if p._data.dtype.kind == "b" else 1


def _element(p: Any) -> Any:
    """One part of a key as None, Ellipsis, a slice, an int, a bool, or a tensor of int64 or bool with dimensions."""
    if p is None or p is Ellipsis or type(p) in (slice, int, bool):
        return p
    if isinstance(p, TensorBase):
        given: Any = p
    elif isinstance(p, (np.ndarray, np.generic)):
        given = wrap(np.array(p))
    elif isinstance(p, (list, tuple, range)):
        given = wrap(_from_sequence(p))
    else:
        try:
            return operator.index(p)
        except TypeError:
            raise (TypeError if isinstance(p, str) else IndexError)(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(p).__name__})"
            ) from None
    data = given._data
    if data.dtype.char in "B?":  # unsigned bytes are masks, as they were before there were booleans
        if data.dtype.char == "B":
            warnings.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                stacklevel=4,
            )
        return bool(data) if not data.ndim else given if data.dtype.char == "?" else wrap(data != 0)
    if data.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {given.dtype}")
    return (
        int(data)
        if not data.ndim and type(data) is np.ndarray
        else given
        if data.dtype == INT64
        else wrap(data.astype(np.int64))
    )


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
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {where} does not match the shape of the indexed tensor "
            f"{list(shape)} at index {d + where}"
        )
    return mask.nonzero()


def _stacked(advanced: list) -> tuple:
    """The index tensors of a key as one, broadcast to one shape, with their dimensions."""
    if len(advanced) == 1:
        ((d, t),) = advanced
        index = wrap(t._data[None])
        index._counter = t._counter or version_of(t)  # the memory is the user's, who may change it
        return index, (d,)
    dims = tuple([d for d, _ in advanced])
    arrays = [t._data for _, t in advanced]
    try:
        shape = (
            arrays[0].shape if len({a.shape for a in arrays}) == 1 else np.broadcast_shapes(*[a.shape for a in arrays])
        )
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{', '.join(str(list(a.shape)) for a in arrays)}"
        ) from None
    return wrap(_stack(arrays, shape)), dims


def _stack(arrays: list, shape: tuple) -> Any:
    """Arrays, broadcast to one shape, one behind the other; what lies on a device takes the others along."""
    some = next((a for a in arrays if type(a) in backend.DEVICES), arrays[0])
    xp = backend.xp_of(some)
    arrays = [backend.beside(some, a) for a in arrays]
    return xp.stack([a if a.shape == shape else xp.expand(a, shape) for a in arrays], 0)


def _check_bounds(name: str, shape: tuple, index: Any, dims: tuple) -> None:
    """Raises if an index of a key is out of bounds."""
    for d, i in zip(dims, index, strict=True):
        in_bounds(name, i, shape[d], d, negative=True)
