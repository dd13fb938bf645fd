"""Softmax and log-softmax of NumPy arrays along one dimension, and their backward: small arrays here, others in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels import softmax as _kernels
from ferro.cpu.kernels.common import SMALL

__all__ = ["log_softmax", "log_softmax_vjp", "softmax", "softmax_vjp"]

# A call of NumPy costs more than the arithmetic of a small array, so these do without what they need not: no errstate
# (warnings are the caller's business, see ferro.cpu), results written over arrays that are at hand, and positions in
# the place of keywords: reduce(array, axis, dtype, out, keepdims).
_top: Any = np.maximum.reduce
_sum: Any = np.add.reduce
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))


def _is_small(x: Any) -> bool:
    return 0 < x.size < SMALL and x.dtype in _PLAIN and x.ndim > 0


def softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along `dim`."""
    if not _is_small(x):
        return _kernels.softmax(x, dim)
    e = x - _top(x, dim, None, None, True)
    np.exp(e, e)
    e /= _sum(e, dim, None, None, True)
    return e


def softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of softmax, from its result."""
    if not _is_small(out):
        return _kernels.softmax_vjp(g, out, dim)
    product = g * out
    product -= out * _sum(product, dim, None, None, True)
    return product


def log_softmax(x: Any, dim: int) -> Any:
    """x minus its logsumexp along `dim`."""
    if not _is_small(x):
        return _kernels.log_softmax(x, dim)
    shifted = x - _top(x, dim, None, None, True)
    total = _sum(np.exp(shifted), dim, None, None, True)
    shifted -= np.log(total, total)
    return shifted


def log_softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of log_softmax, from its result."""
    if not _is_small(out):
        return _kernels.log_softmax_vjp(g, out, dim)
    p = np.exp(out)
    p *= _sum(g, dim, None, None, True)
    return np.subtract(g, p, p)
