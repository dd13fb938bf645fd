"""Shapes and views of NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided as _as_strided

from ferro.cpu.kernels.strided_copy import contiguous
from ferro.native.thresholds import SMALL

__all__ = ["as_strided", "as_strided_add", "as_strided_put", "as_strided_read", "bit_view", "contiguous", "diagonal",
           "expand", "geometry", "memory_bytes", "memory_of", "narrow", "new_zeros", "ones_like", "permute", "reshape", "select", "split",
           "squeeze", "storage_bytes", "transpose", "unbind", "unsqueeze", "windows", "windows_add", "zeros_like"]  # fmt: skip

ALL = slice(None)


# -- views -------------------------------------------------------------------------------------------------------------


def reshape(x: Any, shape: tuple) -> Any:
    """x with another shape: a view where possible."""
    if x.size >= SMALL and not x.flags.c_contiguous and not may_be_viewed(x, shape):
        x = contiguous(x)
    return x.reshape(shape)


def may_be_viewed(x: Any, shape: tuple) -> bool:
    """Whether an array without dimensions of size 0 has another shape without being copied; one size may be -1."""
    runs: list[tuple[int, int]] = []  # of dimensions that are one in memory: the size and the stride of that
    for n, step in zip(x.shape, x.strides, strict=True):
        if n > 1 and runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        elif n > 1:
            runs.append((n, step))
    sizes, left, known = [n for n, _ in reversed(runs)], 1, math.prod(shape)
    if known != x.size and (known >= 0 or x.size % known):
        return True  # (NumPy has the error)
    for n in shape:
        n = x.size // -known if n < 0 else n
        left = sizes.pop() if left == 1 and n > 1 else left
        if left % n:
            return False
        left //= n
    return True


def permute(x: Any, dims: tuple) -> Any:
    """x with its dimensions in the order `dims`."""
    return x.transpose(dims)


def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """x with two of its dimensions exchanged."""
    return x.swapaxes(dim0, dim1)


# What these are on arrays (but not on NumPy's scalars, which come up in gradients): a call less.
reshape.method, permute.method, transpose.method = np.ndarray.reshape, np.ndarray.transpose, np.ndarray.swapaxes  # type: ignore[attr-defined]


def expand(x: Any, shape: tuple) -> Any:
    """x broadcast to `shape` without a copy (writing into the result is for the caller to refuse): numpy.broadcast_to, faster."""
    if x.size == 1:
        return np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
    flags = _WRITABLE if x.flags.writeable else None
    return np.nditer(x, _BROADCAST, flags, None, "C", "safe", None, shape).itviews[0]


_BROADCAST: Any = ["multi_index", "zerosize_ok", "reduce_ok"]
_WRITABLE: Any = [["readwrite"]]


def strided(x: Any, shape: tuple, strides: tuple, start: int = 0) -> Any:
    """The memory that begins `start` bytes after the first element of x, under another shape and strides (in bytes)."""
    if x.flags.forc:
        return np.ndarray(shape, x.dtype, x, start, strides)  # ten times faster than NumPy's as_strided
    if start:
        raise ValueError("as_strided: the storage of the tensor is not one block of memory")
    return _as_strided(x, shape, strides)


def unsqueeze(x: Any, dim: int) -> Any:
    """x with a dimension of size 1 inserted before `dim`."""
    return x[_INSERT[dim if dim >= 0 else dim + x.ndim + 1]]


_INSERT = [(ALL,) * d + (None, ...) for d in range(65)]


def squeeze(x: Any, dim: Any) -> Any:
    """x without those of the dimensions `dim` (a number or a tuple) whose size is 1."""
    try:
        return x.squeeze(dim)
    except ValueError:  # one of them is no dimension of size 1
        n = x.ndim
        dims = (dim,) if isinstance(dim, int) else dim
        return x.squeeze(tuple([d for d in dims if -n <= d < n and x.shape[d] == 1]))


def select(x: Any, dim: int, index: int) -> Any:
    """The slice of x at `index` along `dim`, without that dimension."""
    if not dim:
        return x[index, ...]
    return x[(ALL,) * (dim if dim >= 0 else dim + x.ndim) + (index, ...)]


def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    """`length` elements of x along `dim` from `start` on."""
    if not dim:
        return x[start : start + length]
    return x[(ALL,) * (dim if dim >= 0 else dim + x.ndim) + (slice(start, start + length), ...)]


def split(x: Any, lengths: tuple, dim: int) -> tuple:
    """Consecutive parts of x along `dim`, of the given lengths."""
    before = (ALL,) * dim
    parts = []
    start = 0
    for n in lengths:
        stop = start + n
        if dim == 0:
            parts.append(x[start:stop])
        elif dim == 1:  # (as a constant index half as dear as any other)
            parts.append(x[:, start:stop])
        else:
            parts.append(x[(*before, slice(start, stop))])
        start = stop
    return tuple(parts)


def unbind(x: Any, dim: int) -> tuple:
    """All slices of x along `dim`, without that dimension."""
    if x.ndim == 1:
        return tuple([x[i, ...] for i in range(len(x))])  # iterating would give numbers
    if dim:
        x = x.transpose((dim, *range(dim), *range(dim + 1, x.ndim)))
    return tuple([x[i] for i in range(len(x))])


def diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of the matrices in dim1 and dim2, as the last dimension: a writable view."""
    rows, columns = x.shape[dim1], x.shape[dim2]
    n = min(rows, columns) if not offset else max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    if x.ndim == 2 and n and x.flags.forc:
        a, b = x.strides
        start = 0 if not offset else -offset * x.strides[dim1] if offset < 0 else offset * x.strides[dim2]
        return np.ndarray((n,), x.dtype, x, start, (a + b,))
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape = (*[x.shape[d] for d in rest], n)
    strides = (*[x.strides[d] for d in rest], x.strides[dim1] + x.strides[dim2])
    if x.flags.forc and 0 not in shape:
        return strided(x, shape, strides, max(-offset, 0) * x.strides[dim1] + max(offset, 0) * x.strides[dim2])
    corner = [ALL] * x.ndim
    corner[dim1] = slice(max(-offset, 0), None) if n else slice(0)
    corner[dim2] = slice(max(offset, 0), None) if n else slice(0)
    y = x[tuple(corner)]
    return _as_strided(y, shape, strides) if n else y.reshape(shape)


def windows(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows of `size` elements along `dim`, `step` apart; the window is the last dimension."""
    if x.ndim == 0:
        return _as_strided(x, (size,), (0,))
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return strided(x, shape, strides) if 0 not in shape else _as_strided(x, shape, strides)


def windows_add(g: Any, shape: tuple, dim: int, size: int, step: int) -> Any:
    """The transpose of `windows`: what overlaps in windows is added, in the order of the positions in the window."""
    out = np.zeros(shape, g.dtype)
    if not shape:
        out[...] = g.reshape(-1)[:1].sum() if size else 0
        return out
    count = g.shape[dim]
    before = (ALL,) * dim
    if count and step >= 8 and size >= 16:
        rows = _rows_add(g, dim, size, step)
        n = min(rows.shape[dim], shape[dim])  # the rows end where a last whole step would
        out[(*before, slice(0, n))] = rows[(*before, slice(0, n))]
        return out
    for k in range(size if count else 0):
        out[(*before, slice(k, k + (count - 1) * step + 1, step))] += g[..., k]
    return out


def _rows_add(g: Any, dim: int, size: int, step: int) -> Any:
    """windows_add by pieces of `step` elements, few long additions in the same order: piece c of window t is row t + c."""
    count, pieces, rest = g.shape[dim], -(-size // step), g.shape[dim + 1 : -1]
    before = (ALL,) * dim
    rows = np.zeros((*g.shape[:dim], count + pieces - 1, *rest, step), g.dtype)
    for c in range(pieces):
        piece = g[..., c * step : (c + 1) * step]
        rows[(*before, slice(c, c + count), ..., slice(0, piece.shape[-1]))] += piece
    return np.moveaxis(rows, -1, dim + 1).reshape((*g.shape[:dim], (count + pieces - 1) * step, *rest))


def bit_view(x: Any, dtype: Any) -> Any:
    """The bits of x read as another dtype; the last dimension grows or shrinks with the size of an element."""
    return x.view(dtype)


# -- strides over the storage ------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Functions of arrays of another backend, by which it is known where they lie in its memory: those of this file, and `over`."""

    geometry: Callable
    storage_bytes: Callable
    memory_of: Callable
    memory_bytes: Callable
    over: Callable


GEOMETRIES: dict[type, Places] = {}  # by the type of arrays


def memory_of(x: Any) -> Any:
    """The array that owns the memory x lies in, or the outermost that is known."""
    if type(x) in GEOMETRIES:
        return GEOMETRIES[type(x)].memory_of(x)
    while True:
        base = x.base
        if not isinstance(base, np.ndarray):  # NumPy's as_strided hides the array in an object of its own
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            return x
        x = base


def _address(x: Any) -> int:
    return x.__array_interface__["data"][0]


def geometry(x: Any) -> tuple[tuple, tuple, int]:
    """Shape, strides and offset in the storage of x, counted in elements."""
    if type(x) in GEOMETRIES:
        return GEOMETRIES[type(x)].geometry(x)
    if type(x) is not np.ndarray and hasattr(x, "geometry"):  # an array of another backend
        return x.geometry()
    return x.shape, strides_of(x), (_address(x) - _address(memory_of(x))) // x.dtype.itemsize


def strides_of(x: Any) -> tuple:
    """The strides that PyTorch gives an array, counted in elements."""
    size = x.dtype.itemsize
    strides = [s // size for s in x.strides]
    if not x.size or 0 in strides:
        # A new empty array has, in PyTorch, the strides that it would have if no size were 0; a new dimension of size 1
        # steps over all that lies behind it.  NumPy gives both the stride 0.
        step = 1
        for d in range(x.ndim - 1, -1, -1):
            if strides[d] == 0 and (not x.size or x.shape[d] == 1):
                strides[d] = step
            step = strides[d] * max(x.shape[d], 1)
    return tuple(strides)


def storage_bytes(x: Any) -> int:
    """The number of bytes of the storage of x."""
    if type(x) in GEOMETRIES:
        return GEOMETRIES[type(x)].storage_bytes(x)
    if type(x) is not np.ndarray and hasattr(x, "storage_bytes"):
        return x.storage_bytes()
    root = memory_of(x)
    return np.lib.array_utils.byte_bounds(root)[1] - _address(root) if root.size else 0


def memory_bytes(root: Any) -> Any:
    """All bytes of the memory of an array that owns it, as an array that shares them."""
    if type(root) in GEOMETRIES:
        return GEOMETRIES[type(root)].memory_bytes(root)
    if root.flags.forc:
        return np.ndarray((root.nbytes,), np.uint8, root)
    first = root[(slice(0, 1),) * root.ndim].reshape(1).view(np.uint8)
    return _as_strided(first, (storage_bytes(root),), (1,))


def over(held: Any, shape: tuple, dtype: Any, start: int, strides: tuple) -> Any:
    """The array of a dtype, a shape and strides (in bytes) that looks at bytes from the one numbered `start` on."""
    if type(held) in GEOMETRIES:
        return GEOMETRIES[type(held)].over(held, shape, dtype, start, strides)
    return np.ndarray(shape, dtype, held, start, strides)


def reach(size: tuple, stride: tuple, offset: int) -> int:
    """The number of elements that a storage must have for this view of it."""
    if 0 in size:
        return 0
    return offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1


def as_strided(x: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    """The view (size, stride, offset) of the storage of x, whose own geometry was `source` when the view was made.

    An array with another geometry (a gradient, for example) is read as if it were laid out like `source`.
    """
    if geometry(x) != source:
        return as_strided_read(x, size, stride, offset, source)
    if 0 in size:
        stride = tuple([s * x.itemsize for s in stride])
        return strided(x[:0] if x.ndim else x[None][:0], size, stride)
    item = x.dtype.itemsize
    return strided(memory_of(x).view(x.dtype), size, tuple([s * item for s in stride]), offset * item)


def _places(size: tuple, stride: tuple, offset: int) -> Any:
    """The number in the storage of every element of the view."""
    places = np.full(size, offset, np.int64)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * s).reshape((n,) + (1,) * (len(size) - d - 1))
    return places


def as_strided_read(x: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    """`as_strided` of an array laid out like `source`, by copying; places outside of x hold 0."""
    places = _places(*source)
    held = np.zeros(max(reach(size, stride, offset), reach(*source)), x.dtype)
    np.add.at(held, places.reshape(-1), np.ascontiguousarray(x).reshape(-1))
    if x.size > 1 and 0 in source[1]:  # several elements of x lie at one place: their mean
        held = held / np.maximum(np.bincount(places.reshape(-1), minlength=len(held)), 1).astype(x.real.dtype)
    return held[_places(size, stride, offset)]


def as_strided_add(g: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    """The transpose of `as_strided`: adds what g holds at a place of the storage, in the order of g."""
    places = _places(*source)
    held = np.zeros(max(reach(size, stride, offset), reach(*source)), g.dtype)
    np.add.at(held, _places(size, stride, offset).reshape(-1), np.ascontiguousarray(g).reshape(-1))
    if 0 in source[1]:
        held = held / np.maximum(np.bincount(places.reshape(-1), minlength=len(held)), 1).astype(g.real.dtype)
    return held[places]


def as_strided_put(x: Any, src: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    """x, laid out like `source`, with src written to the view (size, stride, offset) of its storage."""
    places = _places(*source)
    held = np.zeros(max(reach(size, stride, offset), reach(*source)), x.dtype)
    held[places] = x
    held[_places(size, stride, offset)] = src
    return held[places]


# -- constants like an array -------------------------------------------------------------------------------------------


def new_zeros(x: Any, shape: tuple) -> Any:
    """Zeros of the dtype of x."""
    return np.zeros(shape, x.dtype)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape and dtype of x."""
    return np.zeros(x.shape, x.dtype)


def ones_like(x: Any) -> Any:
    """Ones of the shape and dtype of x."""
    return np.ones(x.shape, x.dtype)
