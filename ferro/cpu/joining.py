"""Joining, repeating, turning and padding NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu import layouts
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.strided_copy import assign, contiguous, join, triangle
from ferro.cpu.thresholds import COPY_CHUNK, COPY_LEAST, TRIANGLE_KEPT
from ferro.native.thresholds import SMALL

__all__ = ["block_diag", "cat", "constant_pad", "diag_embed", "flip", "pad_index", "repeat", "repeat_interleave",
           "roll", "rot90", "stack", "tril", "triu"]  # fmt: skip

ALL, BACK = slice(None), slice(None, None, -1)


@entry("", "jit_joining.entries")
def cat(xs: Any, dim: int) -> Any:
    """The arrays one behind the other along a dimension."""
    first = xs[0]
    if first.size * len(xs) < COPY_LEAST or not _agree(xs, dim):
        out = np.concatenate(xs, dim)
        return out if out.flags.c_contiguous else layouts.joined(out, xs)
    if not first.flags.c_contiguous:
        return layouts.joined(np.concatenate(xs, dim), xs)
    dim %= first.ndim
    out = np.empty((*first.shape[:dim], sum([x.shape[dim] for x in xs]), *first.shape[dim + 1 :]), first.dtype)
    if join(out, xs, dim):
        return out
    before = (ALL,) * dim
    stop, pairs = 0, []
    for x in xs:
        start, stop = stop, stop + x.shape[dim]
        pairs.append((out[(*before, slice(start, stop))], x))
    assign(*pairs)
    return out


def _agree(xs: Any, dim: int) -> bool:
    """Whether arrays have one dtype, and sizes that differ in a dimension alone."""
    first = xs[0]
    n, dtype, sizes = first.ndim, first.dtype, list(first.shape)
    for x in xs:
        if not n or x.ndim != n or x.dtype is not dtype:
            return False
        sizes[dim] = x.shape[dim]
        if x.shape != tuple(sizes):
            return False
    return True


@entry("", "jit_joining.entries")
def stack(xs: Any, dim: int) -> Any:
    """The arrays, of one shape and dtype, one behind the other along a new dimension."""
    first = xs[0]
    before = (ALL,) * dim
    if first.size * len(xs) < COPY_LEAST or not first.ndim:
        out = np.concatenate([x[(*before, None)] for x in xs], dim) if dim else np.array(xs)
        return out if out.flags.c_contiguous else np.ascontiguousarray(out)
    out = np.empty((*first.shape[:dim], len(xs), *first.shape[dim:]), first.dtype)
    if not join(out, xs, dim):
        assign(*[(out[(*before, i, ...)], x) for i, x in enumerate(xs)])
    return out


def block_diag(xs: Any) -> Any:
    """The matrices as blocks on the diagonal of one that is 0 elsewhere."""
    out = np.zeros((sum(x.shape[0] for x in xs), sum(x.shape[1] for x in xs)), xs[0].dtype)
    i = j = 0
    for x in xs:
        out[i : i + x.shape[0], j : j + x.shape[1]] = x
        i, j = i + x.shape[0], j + x.shape[1]
    return out


@entry("", "jit_moved.entries")
def flip(x: Any, dims: tuple) -> Any:
    """x in reverse order along `dims`, as a copy."""
    return contiguous(x[tuple([BACK if d in dims else ALL for d in range(x.ndim)])] if x.ndim else x)


@entry("", "jit_moved.entries")
def roll(x: Any, shifts: tuple, dims: tuple) -> Any:
    """x shifted along `dims`; what leaves at one end comes in at the other."""
    if x.size < COPY_LEAST:
        return np.roll(x, shifts, dims)
    out = np.empty(x.shape, x.dtype)
    pairs = [(out, x)]
    for d in set(dims):
        n = x.shape[d]
        by = sum([s for s, k in zip(shifts, dims, strict=True) if k == d]) % n
        before = (ALL,) * d
        ends = [(slice(by, None), slice(0, n - by)), (slice(0, by), slice(n - by, None))]
        pairs = [(a[(*before, to)], b[(*before, at)]) for a, b in pairs for to, at in ends]
    assign(*pairs)
    return out


def rot90(x: Any, k: int, dims: tuple) -> Any:
    """x turned k times by 90 degrees from the first towards the second of `dims`: a copy, in memory laid as PyTorch's."""
    a, b = dims
    k %= 4
    if k % 2:
        return flip(x, (b if k == 1 else a,)).swapaxes(a, b)
    return flip(x, dims) if k else contiguous(x)


def repeat(x: Any, times: tuple) -> Any:
    """x repeated `times` along its dimensions (as many as `times` has)."""
    lead = len(times) - x.ndim
    shape = (1,) * lead + x.shape
    pairs = [n for t, s in zip(times, shape, strict=True) for n in (t, s)]
    ones = [n for s in shape for n in (1, s)]
    final = tuple([t * s for t, s in zip(times, shape, strict=True)])
    return contiguous(np.broadcast_to(x.reshape(ones), pairs)).reshape(final)


@entry("", "jit_moved.entries")
def repeat_interleave(x: Any, times: int, dim: int) -> Any:
    """x with every slice along a dimension so many times in its place."""
    before, after = x.shape[: dim + 1], x.shape[dim + 1 :]
    wide = np.broadcast_to(x.reshape(*before, 1, *after), (*before, times, *after))
    return contiguous(wide).reshape(*before[:-1], times * before[-1], *after)


def _matrices(make: Make) -> Iterator[tuple]:
    for n in (*sides(math.ceil(SMALL / 60)), 4 * COPY_CHUNK // 60):
        yield make(3, n, 20), -2
        yield make(3, 20, n), 1


@entry("", "jit_moved.entries")
@by_kernels("triangle", _matrices)
def tril(x: Any, diagonal: int) -> Any:
    """x with zeros above the diagonal of its last two dimensions."""
    m, n = x.shape[-2:]
    diagonal = max(-m, min(diagonal, n))
    found = triangle(x, diagonal, True)
    return _cleared(x, diagonal, True) if found is None else found


@entry("", "jit_moved.entries")
@by_kernels("triangle", _matrices)
def triu(x: Any, diagonal: int) -> Any:
    """x with zeros below the diagonal of its last two dimensions."""
    m, n = x.shape[-2:]
    diagonal = max(-m, min(diagonal, n))
    found = triangle(x, diagonal, False)
    return _cleared(x, diagonal - 1, False) if found is None else found


def _cleared(x: Any, diagonal: int, above: bool) -> Any:
    """A copy with zeros above a diagonal, or up to it."""
    out = np.array(x, order="C")
    m, n = x.shape[-2:]
    mask = _triangle(m, n, diagonal, above) if m * n <= TRIANGLE_KEPT else _triangle.__wrapped__(m, n, diagonal, above)
    np.copyto(out, 0, where=mask, casting="unsafe")
    return out


@lru_cache(maxsize=128)
def _triangle(m: int, n: int, diagonal: int, above: bool) -> Any:
    """The mask of what lies above a diagonal, or up to it."""
    return np.tri(m, n, diagonal, bool) != above


def diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The last dimension of x on a diagonal of new matrices in the dimensions dim1 and dim2."""
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.ascontiguousarray(np.moveaxis(out, (-2, -1), (dim1, dim2)))


@entry("", "jit_moved.entries")
def constant_pad(x: Any, pads: tuple, value: Any) -> Any:
    """x with `pads` (before, after) elements of one value around every dimension; negative ones cut off."""
    shape = tuple([s + a + b for s, (a, b) in zip(x.shape, pads, strict=True)])
    inner = tuple([slice(max(a, 0), s - max(b, 0)) for s, (a, b) in zip(shape, pads, strict=True)])
    kept = tuple([slice(max(-a, 0), s - max(-b, 0)) for s, (a, b) in zip(x.shape, pads, strict=True)])
    if 0 in shape:
        return np.empty(shape, x.dtype)
    out = np.empty(shape, x.dtype)
    pairs = [(out[inner], x[kept])]
    for d, part in enumerate(inner):  # only the edges are filled
        before = inner[:d]
        if part.start:
            pairs.append((out[(*before, slice(0, part.start))], value))
        if part.stop < shape[d]:
            pairs.append((out[(*before, slice(part.stop, None))], value))
    assign(*pairs)
    return out


def pad_index(size: int, before: int, after: int, mode: str) -> Any:
    """For every position of a padded dimension, the position it is filled from: not to be written to."""
    whole = _pad_index if size + before + after <= TRIANGLE_KEPT else _pad_index.__wrapped__
    return whole(size, before, after, mode)


@lru_cache(maxsize=128)
def _pad_index(size: int, before: int, after: int, mode: str) -> Any:
    i = np.arange(-before, size + after)
    if mode == "replicate":
        return i.clip(0, size - 1)
    if mode == "circular":  # negative amounts cut off first; what remains goes round
        first, last = max(-before, 0), size - max(-after, 0)
        return (i - first) % (last - first) + first
    return size - 1 - abs(size - 1 - abs(i))
