"""Softmax and log-softmax of NumPy arrays along one dimension, and their backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.activations import widened


def _dim(x: Any, dim: int) -> Any:
    """The axis for NumPy: a 0-d array has none."""
    return dim if x.ndim else None


@widened
@np.errstate(invalid="ignore")
def softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along `dim`; nan where all of x is -inf."""
    if x.size == 0:
        return x.copy()
    axis = _dim(x, dim)
    e = np.exp(x - np.maximum.reduce(x, axis, keepdims=True))
    return e / np.add.reduce(e, axis, keepdims=True)


@widened
def softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of softmax, from its result."""
    product = g * out
    return product - out * np.add.reduce(product, _dim(out, dim), keepdims=True)


@widened
@np.errstate(invalid="ignore")
def log_softmax(x: Any, dim: int) -> Any:
    """x minus the logarithm of the sum of exp(x) along `dim`; nan where all of x is -inf."""
    if x.size == 0:
        return x.copy()
    axis = _dim(x, dim)
    shifted = x - np.maximum.reduce(x, axis, keepdims=True)
    return shifted - np.log(np.add.reduce(np.exp(shifted), axis, keepdims=True))


@widened
def log_softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of log_softmax, from its result."""
    return g - np.exp(out) * np.add.reduce(g, _dim(out, dim), keepdims=True)
