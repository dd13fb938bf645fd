"""Steps of optimisers on NumPy arrays, all of one shape and dtype, changed in place.

Warnings of NumPy are the caller's business: one errstate around all parameters, where one for each would cost as much
as the step of a small one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.array_function import array_function
from ferro.cpu.namespace import cpu

__all__ = ["adam_step", "adam_update", "sgd_step"]


def _sgd_step(
    param: Any,
    buffer: Any,
    grad: Any,
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


def _adam_update(
    param: Any,
    mean: Any,
    square: Any,
    largest: Any,
    grad: Any,
    size: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    shrink: float,
) -> None:
    """p ← shrink p - size m / (√v + eps) with running means m of g and v of g², or in place of v the largest so far.

    g has weight_decay p added; `size` and `eps` hold the corrections for the start of the means at 0.
    """
    spare = np.empty_like(param)  # one array for all that is computed on the way: small arrays cost by the call
    d = grad
    if shrink != 1:
        param *= shrink
    if weight_decay:
        d = param * weight_decay
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


sgd_step = array_function(
    "sgd_step",
    "changed buffer = number number number number flag flag -> none",
    formula=_sgd_step,
    loop="jit_optim.sgd_step",
    grain=2,
)
adam_update = array_function(
    "adam_update",
    "changed state state buffer = number number number number number number -> none ?",
    formula=_adam_update,
    loop="jit_optim.adam_update",
    grain=2,
)


def adam_step(
    param: Any,
    mean: Any,
    square: Any,
    largest: Any,
    grad: Any,
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
    numbers = adam_numbers(step, lr, beta1, beta2, eps, weight_decay, decoupled)
    cpu.adam_update(param, mean, square, largest, grad, *numbers)


def adam_numbers(
    step: float, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool
) -> tuple[float, ...]:
    """The numbers of `adam_update` for a step of Adam: size, beta1, beta2, eps, weight_decay, shrink."""
    root = (1 - beta2**step) ** 0.5
    size, eps = lr * root / (1 - beta1**step), eps * root  # m̂ / (√v̂ + eps) with √v̂ = √v / root, multiplied by root
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    return size, beta1, beta2, eps, decay, shrink
