"""Layouts and memory formats, as PyTorch names them.  Dense tensors are strided."""

from __future__ import annotations

from math import prod
from typing import Any

from ferro.core.backend import HOST, SERVING
from ferro.core.naming import called
from ferro.cpu import layouts
from ferro.cpu.layouts import BATCHES, CHANNELS, DENSE, FIRST, IMAGES, ITERATED
from ferro.cpu.shape import geometry, over, reach, storage_bytes
from ferro.cpu.structure import filled

# Rules for the `layout` of an Op, and where the elements of an array of any backend lie in its storage.
__all__ = ["BATCHES", "CHANNELS", "DENSE", "FIRST", "IMAGES", "ITERATED", "arranged", "channels_last", "channels_last_3d",
           "contiguous_format", "filled", "geometry", "has_memory", "joined", "layout", "memory_format", "memory_order", "moved", "over",
           "preserve_format", "reach", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "steps", "storage_bytes",
           "strided", "title"]  # fmt: skip


class Named:
    """A constant with a name, such as ``ferro.strided`` or ``ferro.channels_last``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return called(self.name)

    def __reduce__(self) -> str:
        return self.name


class layout(Named):
    """A layout: `strided`, `sparse_coo`, ..."""

    __slots__ = ()


class memory_format(Named):
    """A memory format: `contiguous_format`, `channels_last`, ..."""

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")  # of no tensor here
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def title(layout: Named) -> str:
    """A layout as PyTorch's messages name it: Strided, Sparse, SparseCsr, SparseCsc."""
    return "".join([part.capitalize() for part in layout.name.removesuffix("_coo").split("_")])


def memory_order(name: str, ndim: int, memory_format: Any) -> tuple[int, ...] | None:
    """The dimensions from the slowest to the fastest in a memory format; None for C order."""
    if memory_format not in (channels_last, channels_last_3d):
        return None
    n = 4 if memory_format is channels_last else 5
    if ndim != n:
        raise RuntimeError(f"{name}: required rank {n} tensor to use {memory_format} format, got {ndim} dimensions")
    return (0, *range(2, n), 1)


def steps(name: str, shape: tuple, memory_format: Any = None) -> tuple[int, ...]:
    """The strides, in elements, of a tensor without gaps in a memory format (C order unless another is given)."""
    order = memory_order(name, len(shape), memory_format) or range(len(shape))
    found = [0] * len(shape)
    for k, d in enumerate(order):
        found[d] = prod([max(shape[e], 1) for e in order[k + 1 :]])
    return tuple(found)


def has_memory(array: Any) -> bool:
    """Whether the elements of an array lie in memory as its strides say: of NumPy's, or a device's."""
    return type(array) is HOST or type(array) in SERVING


def moved(x: Any, strides: tuple) -> Any:
    """The array if its elements lie by these strides (in bytes), else a copy; of a backend that copies so, any other as it is."""
    if type(x) is HOST:
        return layouts.moved(x, strides)
    move = getattr(SERVING.get(type(x)), "moved", None)
    return x if move is None else move(x, strides)


def joined(out: Any, arrays: Any) -> Any:
    """Arrays that lie one behind the other: channels last if all have them there, else in C order."""
    if type(out) is HOST:
        return layouts.joined(out, arrays)
    if type(out) in SERVING and all(layouts.has_channels_last(a) for a in arrays):
        return moved(out, layouts.strides_in(layouts.channels_last_order(out.ndim), out.shape, out.itemsize))
    return out


def arranged(name: str, data: Any, like: Any, memory_format: Any = None) -> Any:
    """The content of `data` in the order in memory of a format; without one, or to preserve it, in that of the array `like`."""
    preserved = memory_format is None or memory_format is preserve_format
    if memory_format is contiguous_format or not has_memory(like) or (preserved and like.flags.c_contiguous):
        return data
    if preserved:
        return moved(data, layouts.preserved(like, data.itemsize))
    order = memory_order(name, data.ndim, memory_format) or range(data.ndim)
    return moved(data, layouts.strides_in(order, data.shape, data.itemsize))
