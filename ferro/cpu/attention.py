"""Attention of NumPy arrays and its backward; 16-bit inputs are computed in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels import attention as heads
from ferro.cpu.kernels.common import SMALL, widened
from ferro.cpu.kernels.tiles import DTYPES
from ferro.cpu.products import matmul
from ferro.cpu.softmax import softmax, softmax_vjp
from ferro.cpu.thresholds import ATTENTION_SCORES, PRODUCT_CHUNK
from ferro.native.readiness import ready

__all__ = ["attention", "attention_vjp"]


HEADS = 4  # from which backward gives whole heads to the kernel
_KERNELS = kernels("jit_attention.attend attend_vjp", here=bool(DTYPES))


def _has_kernel(*arrays: Any) -> bool:
    """Whether arrays (..., rows, columns), q and k the first of them, are alike in front and large enough for kernels."""
    q, k = arrays[:2]
    if q.dtype not in DTYPES or any(a.shape[:-2] != q.shape[:-2] or a.dtype != q.dtype for a in arrays):
        return False
    large = math.prod(q.shape[:-1]) * k.shape[-2] >= SMALL and 0 not in q.shape + k.shape + arrays[2].shape
    return large and ready(_KERNELS, q.dtype)


def _examples(make: Make) -> Iterator[tuple]:
    """Heads of which the scores, a block of them, and the multiplications are around thresholds."""
    one = [(1, n, n, 8, 5) for n in sides(SMALL, 2)]
    one += [(HEADS, n, n, 8, 5) for n in (*sides(ATTENTION_SCORES, 2), *sides(2 * PRODUCT_CHUNK // (13 * HEADS), 2))]
    for count, rows, columns, width, depth in (*one, (HEADS, 61, 130, 16, 20), (HEADS - 1, 130, 61, 16, 20)):
        for causal in (False, True):
            q, k, v = make(count, rows, width), make(count, columns, width), make(count, columns, depth)
            yield q, k, v, None, 0.7, causal


def _examples_vjp(make: Make) -> Iterator[tuple]:
    for q, k, v, mask, scale, causal in _examples(make):
        p = abs(make(*q.shape[:-1], k.shape[-2]))  # any numbers do for weights
        if causal:
            p *= np.tri(*p.shape[-2:], dtype=p.dtype)
        yield make(*q.shape[:-1], v.shape[-1]), q, k, v, mask, p, scale, causal, (True, True, True, False)


@by_kernels("attend", _examples)
def attention(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple:
    """softmax(scale q kᵀ + mask) v, and the softmax; 0 in rows that may attend to nothing."""
    dtype, q, k, v = q.dtype, widened(q), widened(k), widened(v)
    if mask is None and _has_kernel(q, k, v):
        out, p = heads.attend(q, k, v, scale, causal)
        return out.astype(dtype, copy=False), p
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
            scores += widened(mask)
            dead = (mask == -np.inf).all(-1)
    with np.errstate(invalid="ignore"):  # rows that may attend to nothing are nan for now
        p = softmax(scores, scores.ndim - 1)
    if dead is not None and dead.any():
        p = np.where(dead[..., None], 0, p)
    return matmul(p, v).astype(dtype, copy=False), p


@by_kernels("attend_vjp", _examples_vjp)
def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, p: Any, scale: float, causal: bool, needs: tuple) -> tuple:
    """The backward of attention by q, k, v and a mask that was added (None where `needs` says so)."""
    g, factor = widened(g), np.asarray(scale, p.dtype)
    if mask is None and all(needs[:3]) and math.prod(p.shape[:-2]) >= HEADS:
        wide = widened(q), widened(k), widened(v)
        if _has_kernel(*wide, g, p):
            return *heads.attend_vjp(g, *wide, p, scale, causal), None
    dv = matmul(np.swapaxes(p, -2, -1), g) if needs[2] else None
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, dv, None
    ds = softmax_vjp(matmul(g, np.swapaxes(widened(v), -2, -1)), p, p.ndim - 1)
    dq = matmul(ds, widened(k)) * factor if needs[0] else None
    dk = matmul(np.swapaxes(ds, -2, -1), widened(q)) * factor if needs[1] else None
    return dq, dk, dv, ds if needs[3] else None
