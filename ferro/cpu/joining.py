"""Joining, repeating, turning and padding NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["block_diag", "cat", "constant_pad", "diag_embed", "flip", "pad_index", "repeat", "roll", "rot90", "stack",
           "tril", "triu"]  # fmt: skip

ALL = slice(None)


def cat(xs: Any, dim: int) -> Any:
    """The arrays one behind the other along `dim`."""
    return np.concatenate(xs, dim)


def stack(xs: Any, dim: int) -> Any:
    """The arrays one behind the other along a new dimension."""
    key = (ALL,) * dim + (None, ...)
    return np.concatenate([x[key] for x in xs], dim)


def block_diag(xs: Any) -> Any:
    """The matrices as blocks on the diagonal of one that is 0 elsewhere."""
    out = np.zeros((sum(x.shape[0] for x in xs), sum(x.shape[1] for x in xs)), xs[0].dtype)
    i = j = 0
    for x in xs:
        out[i : i + x.shape[0], j : j + x.shape[1]] = x
        i, j = i + x.shape[0], j + x.shape[1]
    return out


def flip(x: Any, dims: tuple) -> Any:
    """x in reverse order along `dims`, as a copy."""
    turned = slice(None, None, -1)
    return x[tuple([turned if d in dims else ALL for d in range(x.ndim)])].copy() if x.ndim else x.copy()


def roll(x: Any, shifts: tuple, dims: tuple) -> Any:
    """x shifted along `dims`; what leaves at one end comes in at the other."""
    return np.roll(x, shifts, dims)


def rot90(x: Any, k: int, dims: tuple) -> Any:
    """x turned k times by 90 degrees from the first towards the second of `dims`, as a copy."""
    return np.rot90(x, k, dims).copy()


def repeat(x: Any, times: tuple) -> Any:
    """x repeated `times` along its dimensions (as many as `times` has)."""
    lead = len(times) - x.ndim
    shape = (1,) * lead + x.shape
    pairs = [n for t, s in zip(times, shape, strict=True) for n in (t, s)]
    ones = [n for s in shape for n in (1, s)]
    final = tuple([t * s for t, s in zip(times, shape, strict=True)])
    return np.array(np.broadcast_to(x.reshape(ones), pairs), order="C").reshape(final)


def tril(x: Any, diagonal: int) -> Any:
    """x with zeros above the diagonal of its last two dimensions."""
    return np.where(np.tri(x.shape[-2], x.shape[-1], diagonal, bool), x, np.zeros((), x.dtype))


def triu(x: Any, diagonal: int) -> Any:
    """x with zeros below the diagonal of its last two dimensions."""
    return np.where(np.tri(x.shape[-2], x.shape[-1], diagonal - 1, bool), np.zeros((), x.dtype), x)


def diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The last dimension of x on a diagonal of new matrices in the dimensions dim1 and dim2."""
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def constant_pad(x: Any, pads: tuple, value: Any) -> Any:
    """x with `pads` (before, after) elements of one value around every dimension; negative ones cut off."""
    shape = tuple([s + a + b for s, (a, b) in zip(x.shape, pads, strict=True)])
    inner = tuple([slice(max(a, 0), s - max(b, 0)) for s, (a, b) in zip(shape, pads, strict=True)])
    kept = tuple([slice(max(-a, 0), s - max(-b, 0)) for s, (a, b) in zip(x.shape, pads, strict=True)])
    if 0 in shape:
        return np.empty(shape, x.dtype)
    out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    out[inner] = x[kept]
    return out


def pad_index(size: int, before: int, after: int, mode: str) -> Any:
    """For every position of a padded dimension, the position it is filled from."""
    i = np.arange(-before, size + after)
    if mode == "replicate":
        return i.clip(0, size - 1)
    if mode == "circular":  # negative amounts cut off first; what remains goes round
        first, last = max(-before, 0), size - max(-after, 0)
        return (i - first) % (last - first) + first
    return size - 1 - abs(size - 1 - abs(i))
