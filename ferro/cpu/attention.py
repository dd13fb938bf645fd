"""Attention of NumPy arrays and its backward; 16-bit inputs are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.softmax import softmax, softmax_vjp
from ferro.cpu.blocks import HALF
from ferro.cpu.products import matmul

__all__ = ["attention", "attention_vjp"]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype in HALF else x


def attention(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple:
    """softmax(scale q kᵀ + mask) v, and the softmax; 0 in rows that may attend to nothing."""
    dtype, q, k, v = q.dtype, _wide(q), _wide(k), _wide(v)
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
    p = softmax(scores, scores.ndim - 1)
    if dead is not None and dead.any():
        p = np.where(dead[..., None], 0, p)
    return matmul(p, v).astype(dtype, copy=False), p


def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, p: Any, scale: float, causal: bool, needs: tuple) -> tuple:
    """The backward of attention by q, k, v and a mask that was added (None where `needs` says so)."""
    g, factor = _wide(g), np.asarray(scale, p.dtype)
    dv = matmul(np.swapaxes(p, -2, -1), g) if needs[2] else None
    if not (needs[0] or needs[1] or needs[3]):
        return None, None, dv, None
    ds = softmax_vjp(matmul(g, np.swapaxes(_wide(v), -2, -1)), p, p.ndim - 1)
    dq = matmul(ds, _wide(k)) * factor if needs[0] else None
    dk = matmul(np.swapaxes(ds, -2, -1), _wide(q)) * factor if needs[1] else None
    return dq, dk, dv, ds if needs[3] else None
