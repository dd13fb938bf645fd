"""Attention by kernels of our own, where there is the tile of jit_tile.py: see jit_attention.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels.gemm import begin
from ferro.cpu.kernels.tiles import ROWS
from ferro.cpu.thresholds import ATTENTION_SCORES, PRODUCT_CHUNK
from ferro.native.workers import run_rows

_CAUSAL_ROWS = 60  # of a block: the fewer, the more of the columns behind them is left out


def _plan(arrays: tuple[np.ndarray, ...], q: np.ndarray, k: np.ndarray, causal: bool) -> tuple[list[np.ndarray], tuple]:
    """The arrays as the kernel reads them, and its plan, which begins with the rows of a block."""
    four = []
    for x in arrays:
        if x.strides[-1] != x.itemsize or not x.flags.aligned:
            x = np.ascontiguousarray(x)
        four.append(x.reshape(-1, *x.shape[-3:]) if x.ndim > 4 else x[(None,) * (4 - x.ndim)])
    block = _CAUSAL_ROWS if causal else max(_CAUSAL_ROWS, ATTENTION_SCORES // k.shape[-2] // ROWS * ROWS)
    steps = [step for x in four for step in x.strides[:3]]
    return [begin(x) for x in four], (block, four[0].shape[1], q.shape[-1], *steps)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """softmax(scale q kᵀ) v and the softmax, for arrays (..., rows, columns) that are not empty, of one shape before that."""
    rows, columns, depth = q.shape[-2], k.shape[-2], v.shape[-1]
    heads = math.prod(q.shape[:-2])
    p, out = np.empty((heads, rows, columns), q.dtype), np.empty((heads, rows, depth), q.dtype)
    begins, plan = _plan((q, k, v), q, k, causal)
    blocks = heads * -(-rows // plan[0])
    work = heads * rows * columns * (q.shape[-1] + depth)
    run_rows(
        "attend", min(work // PRODUCT_CHUNK, blocks), blocks, (0, blocks, *begins, p, out, scale, causal, plan), -1, 0
    )
    return out.reshape(*q.shape[:-1], depth), p.reshape(*q.shape[:-1], columns)


def attend_vjp(g: Any, q: Any, k: Any, v: Any, p: Any, scale: float, causal: bool) -> tuple:
    """The backward of `attend` by q, k and v."""
    rows, columns, depth = q.shape[-2], k.shape[-2], v.shape[-1]
    heads = math.prod(q.shape[:-2])
    grads = [np.empty((heads, *x.shape[-2:]), p.dtype) for x in (q, k, v)]
    begins, plan = _plan((g, q, k, v), q, k, causal)
    weights = np.ascontiguousarray(p).reshape(heads, rows, columns)
    work = 2 * heads * rows * columns * (q.shape[-1] + depth)
    args = (0, heads, *begins, weights, *grads, scale, causal, plan)
    run_rows("attend_vjp", min(work // PRODUCT_CHUNK, heads), heads, args, -1, 0)
    return tuple([d.reshape(x.shape) for d, x in zip(grads, (q, k, v), strict=True)])
