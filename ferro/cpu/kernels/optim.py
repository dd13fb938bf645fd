"""Optimiser steps on NumPy arrays: parameter and state of one shape, changed in place."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import GRAIN, has_kernel, is_half, split, widened


def _flat(*arrays: np.ndarray | None) -> list[np.ndarray] | None:
    """The arrays as rows sharing their memory, None as an empty one; None if they do not all lie alike in memory."""
    x = arrays[0]
    assert x is not None
    order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
    rows = []
    for a in arrays:
        if a is None:
            rows.append(np.empty(0, x.dtype))
            continue
        moved = a.transpose(order)
        if a.dtype != x.dtype or not (moved.flags.c_contiguous and moved.flags.aligned):
            return None
        rows.append(moved.reshape(-1))
    return rows


def _write_back(pairs: list[tuple[np.ndarray | None, np.ndarray | None]]) -> None:
    for target, result in pairs:
        if target is not None and result is not None:
            target[...] = result.astype(target.dtype)


def sgd_step(
    param: np.ndarray,
    grad: np.ndarray,
    buffer: np.ndarray | None,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> None:
    """p ← p - lr b,  b ← momentum b + (1 - dampening) g, at first g;  with nesterov p ← p - lr (g + momentum b).

    Without a buffer p ← p - lr g. In all of them g has weight_decay p added, and its sign changed to maximise.
    """
    rest = lr, momentum, dampening, weight_decay, nesterov, maximize, first
    if is_half(param):
        p, b = widened(param), widened(buffer)
        sgd_step(p, widened(grad), b, *rest)
        _write_back([(param, p), (buffer, b)])
        return
    sign = -1.0 if maximize else 1.0
    rows = _flat(param, grad, buffer) if has_kernel(param) else None
    if rows is not None:
        run = get("sgd_step")
        p, g, b = rows
        numbers = float(lr), float(momentum), 1.0 - dampening, float(weight_decay), nesterov, sign, first
        split(p.size, 2 * GRAIN, lambda i, j: run(p[i:j], g[i:j], b[i:j], *numbers))
        return
    d = grad * sign
    if weight_decay:
        d = d + param * weight_decay
    if buffer is not None:
        buffer[...] = d if first else buffer * momentum + d * (1 - dampening)
        d = d + buffer * momentum if nesterov else buffer
    param -= d * lr


def adam_step(
    param: np.ndarray,
    grad: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    largest: np.ndarray | None,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """p ← p - lr m̂ / (√v̂ + eps) with running means m of g and v of g², corrected for their start at 0.

    `step` counts from 1. With `largest` (amsgrad) the largest v so far takes the place of v. Weight decay is added to g,
    or, if decoupled (AdamW), p is first multiplied by 1 - lr weight_decay.
    """
    rest = step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize
    if is_half(param):
        p, m, v, top = widened(param), widened(mean), widened(square), widened(largest)
        adam_step(p, widened(grad), m, v, top, *rest)
        _write_back([(param, p), (mean, m), (square, v), (largest, top)])
        return
    size, root = lr / (1 - beta1**step), (1 - beta2**step) ** 0.5
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, float(weight_decay))
    sign = -1.0 if maximize else 1.0
    rows = _flat(param, grad, mean, square, largest) if has_kernel(param) else None
    if rows is not None:
        run = get("adam_step")
        numbers = [float(n) for n in (size, root, beta1, beta2, eps, decay, shrink, sign)]
        split(rows[0].size, 2 * GRAIN, lambda i, j: run(*[row[i:j] for row in rows], *numbers))
        return
    param *= shrink
    d = grad * sign
    if decay:
        d = d + param * decay
    mean += (d - mean) * (1 - beta1)
    square *= beta2
    square += d * d * (1 - beta2)
    if largest is not None:
        np.maximum(largest, square, out=largest)
        square = largest
    param -= mean / (np.sqrt(square) / root + eps) * size
