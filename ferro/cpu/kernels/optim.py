"""Optimiser steps on NumPy arrays, all of one shape and all float32 or all float64, changed in place.

Warnings of NumPy are the caller's business: one errstate around all parameters, where one for each would cost as much
as the step of a small one.
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.common import GRAIN, SMALL, has_kernel, share_rows
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.small import at_hand, nothing

NO_BUFFER, NO_LARGEST = 1 << 1, 1 << 3  # the argument that is an empty array then, which is not cut


def _flat(grad: np.ndarray, *arrays: np.ndarray | None) -> list[np.ndarray] | None:
    """The arrays as rows sharing their memory, None as an empty one, and the gradient as a row in the same order.

    None if the arrays do not all lie alike in memory.
    """
    x = arrays[0]
    assert x is not None
    order = None if x.flags.carray else sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
    rows = []
    for a in arrays:
        if a is None:
            rows.append(np.empty(0, x.dtype))
            continue
        moved = a if order is None else a.transpose(order)
        if not moved.flags.carray:
            return None
        rows.append(moved.reshape(-1))
    moved = grad if order is None else grad.transpose(order)
    rows.append((moved if moved.flags.carray else np.array(moved, order="C")).reshape(-1))
    return rows


def _small_step(name: str, numbers: tuple, grad: np.ndarray, *arrays: np.ndarray | None) -> bool:
    """The step of small arrays by the kernel of that name; False if there is none, or if they do not lie as it reads them."""
    dtype = grad.dtype
    run = at_hand(name, dtype) if 0 < grad.size < SMALL and grad.flags.carray else None
    if run is None:
        return False
    rows = []
    for a in arrays:
        if a is None:
            rows.append(nothing(dtype))
        elif a.dtype is dtype and a.flags.carray:
            rows.append(a.ravel())  # a view
        else:
            return False
    run(*rows, grad.ravel(), *numbers)
    return True


@entry
def sgd_step(
    param: np.ndarray,
    buffer: np.ndarray | None,
    grad: np.ndarray,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    first: bool,
) -> None:
    """p ← p - lr b,  b ← momentum b + (1 - dampening) g, at first g;  with nesterov p ← p - lr (g + momentum b).

    Without a buffer p ← p - lr g. In all of them g has weight_decay p added.
    """
    numbers = lr, float(momentum), 1.0 - dampening, float(weight_decay), bool(nesterov), first
    if _small_step("sgd_step", numbers, grad, param, buffer):
        return
    rows = _flat(grad, param, buffer) if has_kernel(param, "sgd_step") else None
    if rows is not None:
        share_rows("sgd_step", param.size, 2 * GRAIN, (*rows, *numbers), 0 if buffer is not None else NO_BUFFER)
        return
    d = grad
    if weight_decay:
        d = param * weight_decay
        d += grad
    if buffer is not None:
        if first:
            buffer[...] = d
        else:
            buffer *= momentum
            buffer += d * (1.0 - dampening) if dampening else d
        d = d + buffer * momentum if nesterov else buffer
    param -= d * lr


def adam_step(
    param: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    largest: np.ndarray | None,
    grad: np.ndarray,
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> None:
    """p ← p - lr m̂ / (√v̂ + eps) with running means m of g and v of g², corrected for their start at 0.

    `step` counts from 1. With `largest` (amsgrad) the largest v so far takes the place of v. Weight decay is added to g,
    or, if decoupled (AdamW), p is first multiplied by 1 - lr weight_decay.
    """
    root = (1 - beta2**step) ** 0.5
    size, eps = lr * root / (1 - beta1**step), eps * root  # m̂ / (√v̂ + eps) with √v̂ = √v / root, multiplied by root
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    numbers = size, beta1, beta2, eps, float(decay), shrink
    if _small_step("adam_step", numbers, grad, param, mean, square, largest):
        return
    rows = _flat(grad, param, mean, square, largest) if has_kernel(param, "adam_step") else None
    if rows is not None:
        share_rows("adam_step", param.size, 2 * GRAIN, (*rows, *numbers), 0 if largest is not None else NO_LARGEST)
        return
    spare = np.empty_like(param)  # one array for all that is computed on the way: small arrays cost by the call
    d = grad
    if shrink != 1:
        param *= shrink
    if decay:
        d = param * decay
        d += grad
    np.subtract(d, mean, out=spare)
    spare *= 1 - beta1
    mean += spare
    square *= beta2
    np.multiply(d, d, out=spare)
    spare *= 1 - beta2
    square += spare
    if largest is not None:
        square = np.maximum(largest, square, out=largest)
    np.sqrt(square, out=spare)
    spare += eps
    np.divide(mean, spare, out=spare)
    spare *= size
    param -= spare
