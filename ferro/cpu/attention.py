"""Attention of NumPy arrays and its backward; 16-bit inputs are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.kernels import attention as heads
from ferro.cpu.kernels.common import SMALL, split
from ferro.cpu.products import matmul
from ferro.cpu.softmax import softmax, softmax_vjp
from ferro.cpu.thresholds import PRODUCT_GRAIN
from ferro.native.readiness import get, ready

__all__ = ["attention", "attention_vjp"]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype in HALF else x


# Note [Attention by tiles]
#     Large attention without a mask of its own is computed in tiles of some rows of one head: a product, softmax in
#     place, a product, so that scores stay in the cache; causal tiles leave out the columns that no row attends to.

ROWS = 128  # of a tile
HEADS = 4  # from which backward gives whole heads to threads


def _are_large(*arrays: Any) -> bool:
    """Whether arrays (..., rows, columns), q and k the first of them, are alike in front and large enough for kernels."""
    q, k = arrays[:2]
    if any(a.shape[:-2] != q.shape[:-2] or a.dtype != q.dtype or a.dtype not in _REAL for a in arrays):
        return False
    return math.prod(q.shape[:-1]) * k.shape[-2] >= SMALL and 0 not in q.shape + k.shape + arrays[2].shape


def _heads(*arrays: Any) -> list | None:
    """The arrays with the leading dimensions flattened; None while there are no kernels."""
    if not ready(_KERNELS, arrays[0].dtype):
        return None
    return [np.ascontiguousarray(a).reshape(-1, *a.shape[-2:]) for a in arrays]


_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_KERNELS = ("scaled_softmax", "scaled_softmax_vjp")


def _tiled(q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple:
    """softmax(scale q kᵀ) v and the softmax, of (head, row, column): see Note [Attention by tiles]."""
    heads, rows, width = q.shape
    columns, tiles = k.shape[1], -(-rows // ROWS)
    p, out = np.empty((heads, rows, columns), q.dtype), np.empty((heads, rows, v.shape[2]), q.dtype)
    normalise = get("scaled_softmax")

    def run(start: int, stop: int) -> None:
        for tile in range(start, stop):
            h, i = tile // tiles, tile % tiles * ROWS
            own, end = slice(i, min(i + ROWS, rows)), min(i + ROWS, columns) if causal else columns
            np.matmul(q[h, own], k[h, :end].T, out=p[h, own, :end])
            normalise(p[h, own], scale, i, causal)
            np.matmul(p[h, own, :end], v[h, :end], out=out[h, own])

    split(heads * tiles, PRODUCT_GRAIN // (min(rows, ROWS) * columns * (width + v.shape[2])) + 1, run)
    return out, p


def _tiled_vjp(g: Any, q: Any, k: Any, v: Any, p: Any, scale: float, causal: bool) -> tuple:
    """The backward of `_tiled` by q, k and v."""
    heads, rows, width = q.shape
    columns = k.shape[1]
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    vjp = get("scaled_softmax_vjp")

    def run(start: int, stop: int) -> None:
        ds = np.zeros((min(rows, ROWS), columns), q.dtype)
        for h in range(start, stop):
            for i in range(0, rows, ROWS):
                own, end = slice(i, min(i + ROWS, rows)), min(i + ROWS, columns) if causal else columns
                d = ds[: min(ROWS, rows - i)]
                d[:, end:] = 0
                np.matmul(g[h, own], v[h, :end].T, out=d[:, :end])
                vjp(d, p[h, own], scale)
                np.matmul(d[:, :end], k[h, :end], out=dq[h, own])
                dk[h, :end] += d[:, :end].T @ q[h, own]
                dv[h, :end] += p[h, own, :end].T @ g[h, own]

    split(heads, PRODUCT_GRAIN // (rows * columns * (width + v.shape[2])) + 1, run)
    return dq, dk, dv


def attention(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple:
    """softmax(scale q kᵀ + mask) v, and the softmax; 0 in rows that may attend to nothing."""
    dtype, q, k, v = q.dtype, _wide(q), _wide(k), _wide(v)
    if mask is None and _are_large(q, k, v):
        if heads.usable(q.dtype):
            out, p = heads.attend(q, k, v, scale, causal)
            return out.astype(dtype, copy=False), p
        tiles = _heads(q, k, v)
        if tiles is not None:
            qs, ks, vs = tiles
            out, p = _tiled(qs, ks, vs, scale, causal)
            out = out.reshape(*q.shape[:-1], v.shape[-1]).astype(dtype, copy=False)
            return out, p.reshape(*q.shape[:-1], k.shape[-2])
    scores = matmul(q * np.asarray(scale, q.dtype), np.swapaxes(k, -2, -1))
    dead = None
    if causal:
        np.copyto(scores, -np.inf, where=~np.tri(*scores.shape[-2:], dtype=bool))
    elif mask is not None:
        shape = np.broadcast_shapes(scores.shape, mask.shape)
        if shape != scores.shape:
            scores = np.broadcast_to(scores, shape).copy()
        if mask.dtype.kind == "b":
            np.copyto(scores, -np.inf, where=~mask)
            dead = ~mask.any(-1)
        else:
            scores += _wide(mask)
            dead = (mask == -np.inf).all(-1)
    with np.errstate(invalid="ignore"):  # rows that may attend to nothing are nan for now
        p = softmax(scores, scores.ndim - 1)
    if dead is not None and dead.any():
        p = np.where(dead[..., None], 0, p)
    return matmul(p, v).astype(dtype, copy=False), p


def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, p: Any, scale: float, causal: bool, needs: tuple) -> tuple:
    """The backward of attention by q, k, v and a mask that was added (None where `needs` says so)."""
    g, factor = _wide(g), np.asarray(scale, p.dtype)
    if mask is None and all(needs[:3]) and math.prod(p.shape[:-2]) >= HEADS:
        wide = _wide(q), _wide(k), _wide(v), g, p
        if _are_large(*wide):
            if heads.usable(p.dtype):
                return *heads.attend_vjp(g, *wide[:3], p, scale, causal), None
            tiles = _heads(*wide)
            if tiles is not None:
                qs, ks, vs, gs, ps = tiles
                found = _tiled_vjp(gs, qs, ks, vs, ps, scale, causal)
                return *[d.reshape(x.shape) for d, x in zip(found, (q, k, v), strict=True)], None
    dv = matmul(np.swapaxes(p, -2, -1), g) if needs[2] else None
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, dv, None
    ds = softmax_vjp(matmul(g, np.swapaxes(_wide(v), -2, -1)), p, p.ndim - 1)
    dq = matmul(ds, _wide(k)) * factor if needs[0] else None
    dk = matmul(np.swapaxes(ds, -2, -1), _wide(q)) * factor if needs[1] else None
    return dq, dk, dv, ds if needs[3] else None
