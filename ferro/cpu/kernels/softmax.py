"""softmax, log-softmax and logsumexp of NumPy arrays, and their derivatives.

A row of nothing but -inf has the softmax nan and the logsumexp -inf, as in PyTorch.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, has_kernel, in_float32, is_half, share_rows

TILE = 256  # columns that a kernel takes together
NARROW = 8  # fewer columns than this are turned into rows


def _along(name: str, dim: int, grain: int, *arrays: np.ndarray) -> np.ndarray:
    """The kernel of that name over the elements that lie along `dim`; the result is C-contiguous."""
    x = arrays[-1]
    dim %= x.ndim
    length, after = x.shape[dim], math.prod(x.shape[dim + 1 :])
    if after >= NARROW:
        blocks = [contiguous(a, x.dtype).reshape(-1, length, after) for a in arrays]
        out = np.empty(x.shape, x.dtype)
        _by_tiles(name, grain, *blocks, out.reshape(blocks[0].shape))
        return out
    if dim != x.ndim - 1:
        arrays = tuple([contiguous(np.moveaxis(a, dim, -1), x.dtype) for a in arrays])
    out = np.empty(arrays[-1].shape, x.dtype)
    rows = [contiguous(a, x.dtype).reshape(-1, length) for a in arrays]
    share_rows(name, len(rows[0]), -(-grain // length), (*rows, out.reshape(-1, length)))
    return out if dim == x.ndim - 1 else np.ascontiguousarray(np.moveaxis(out, -1, dim))


def _by_tiles(name: str, grain: int, *blocks: np.ndarray) -> None:
    """The kernel of that name for columns, over (before, along, after) arrays, the last one being its result."""
    before, length, after = blocks[0].shape
    tiles = before * -(-after // TILE)
    first = len(blocks)  # the place of a chunk's first tile among the arguments; all arrays are given whole
    args = (*blocks[:-1], TILE, 0, tiles, blocks[-1])
    share_rows(name + "_columns", tiles, -(-grain // (length * min(after, TILE))), args, -1, first)


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """exp(x) over its sum along `dim`."""
    if x.ndim and has_kernel(x, "softmax", "softmax_columns"):
        return _along("softmax", dim, GRAIN, x)
    if x.size == 0 or x.ndim == 0:
        return np.ones_like(x) * (x - x + 1)
    if is_half(x):
        return in_float32(softmax, x, dim)
    return _softmax(x, dim)


@np.errstate(all="ignore")
def _softmax(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x - np.maximum.reduce(x, dim, keepdims=True))
    return e / np.add.reduce(e, dim, keepdims=True)


def softmax_vjp(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """The backward of softmax, from its result."""
    if out.ndim == 0:
        return g * 0
    if has_kernel(out, "softmax_vjp", "softmax_vjp_columns"):
        return _along("softmax_vjp", dim, 2 * GRAIN, g, out)
    if is_half(out):
        return in_float32(softmax_vjp, g, out, dim)
    product = g * out
    return product - out * np.add.reduce(product, dim, keepdims=True)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """x minus its logsumexp along `dim`."""
    if x.ndim and has_kernel(x, "log_softmax", "log_softmax_columns"):
        return _along("log_softmax", dim, GRAIN, x)
    if x.size == 0 or x.ndim == 0:
        return x - x
    if is_half(x):
        return in_float32(log_softmax, x, dim)
    return _log_softmax(x, dim)


@np.errstate(all="ignore")
def _log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    shifted = x - np.maximum.reduce(x, dim, keepdims=True)
    return shifted - np.log(np.add.reduce(np.exp(shifted), dim, keepdims=True))


def log_softmax_vjp(g: np.ndarray, out: np.ndarray, dim: int) -> np.ndarray:
    """The backward of log_softmax, from its result."""
    if out.ndim == 0:
        return g * 0
    if has_kernel(out, "log_softmax_vjp", "log_softmax_vjp_columns"):
        return _along("log_softmax_vjp", dim, GRAIN, g, out)
    if is_half(out):
        return in_float32(log_softmax_vjp, g, out, dim)
    return g - np.exp(out) * np.add.reduce(g, dim, keepdims=True)


@np.errstate(all="ignore")
def logsumexp(x: np.ndarray, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The logarithm of the sum of exp(x) over `dims`, without overflow; -inf for a sum of nothing."""
    if dims and has_kernel(x, "logsumexp", "logsumexp_columns"):
        return _logsumexp_kernel(x, dims, keepdim)
    if is_half(x):
        return in_float32(logsumexp, x, dims, keepdim)
    top = np.maximum.reduce(np.real(x), dims, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top).astype(top.dtype)  # infinity - infinity must not arise
    out = np.log(np.add.reduce(np.exp(x - top), dims, keepdims=True)) + top
    return np.asarray(out if keepdim else np.squeeze(out, dims))


def _logsumexp_kernel(x: np.ndarray, dims: tuple[int, ...], keepdim: bool) -> np.ndarray:
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    left = [1 if dim in dims else n for dim, n in enumerate(x.shape) if keepdim or dim not in dims]
    before, after = math.prod(x.shape[: dims[0]]), math.prod(x.shape[dims[-1] + 1 :])
    if after >= NARROW and x.flags.c_contiguous and dims[-1] - dims[0] + 1 == len(dims):
        out = np.empty((before, after), x.dtype)
        _by_tiles("logsumexp", GRAIN, x.reshape(before, -1, after), out)
        return out.reshape(left)
    rows = contiguous(x.transpose(*kept, *dims)).reshape(-1, math.prod([x.shape[dim] for dim in dims]))
    out = np.empty(rows.shape[0], x.dtype)
    share_rows("logsumexp", len(rows), -(-GRAIN // max(rows.shape[1], 1)), (rows, out))
    return out.reshape(left)
