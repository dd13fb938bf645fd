"""Softmax and log-softmax of NumPy arrays along one dimension, and their backward: small arrays here, others in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels import softmax as _kernels
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.entries import entry
from ferro.cpu.rows import row_sums

__all__ = ["log_softmax", "log_softmax_vjp", "softmax", "softmax_vjp"]

# A call of NumPy costs more than the arithmetic of a small array, so these do without what they need not: no errstate
# (warnings are the caller's business, see ferro.cpu), results written over arrays that are at hand, and positions in
# the place of keywords: reduce(array, axis, dtype, out, keepdims).
_top: Any = np.maximum.reduce
_sum: Any = np.add.reduce
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))
# If the squares of all numbers add up to less than this, the numbers lie within 60 of 0 and within 85 of each other: exp
# needs no shift by the maximum, neither overflows nor loses digits, and no quotient of two exponentials is below float32.
_MODERATE = 3600.0


def _is_small(x: Any) -> bool:
    return 0 < x.size < SMALL and x.dtype in _PLAIN and x.ndim > 0


def _quotients(x: Any, dim: int) -> Any:
    """softmax along the rows of a small matrix of moderate numbers; None for other numbers (nan too), arrays and dims."""
    if dim == 1 and x.ndim == 2:
        flat = x.ravel()
        if flat.dot(flat) < _MODERATE:
            e = np.exp(x, order="C")
            e /= row_sums(e)
            return e
    return None


@entry
def softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along `dim`."""
    if not _is_small(x):
        return _kernels.softmax(x, dim)
    out = _quotients(x, dim)
    if out is None:
        out = x - _top(x, dim, None, None, True)
        np.exp(out, out)
        out /= _sum(out, dim, None, None, True)
    return out


@entry
def softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of softmax, from its result."""
    if not _is_small(out):
        return _kernels.softmax_vjp(g, out, dim)
    found = g * out
    found -= out * (row_sums(found) if dim == 1 == out.ndim - 1 else _sum(found, dim, None, None, True))
    return found


@entry
def log_softmax(x: Any, dim: int) -> Any:
    """x minus its logsumexp along `dim`."""
    if not _is_small(x):
        return _kernels.log_softmax(x, dim)
    out = _quotients(x, dim)
    if out is not None:
        return np.log(out, out)
    out = x - _top(x, dim, None, None, True)
    total = _sum(np.exp(out), dim, None, None, True)
    out -= np.log(total, total)
    return out


@entry
def log_softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of log_softmax, from its result."""
    if not _is_small(out):
        return _kernels.log_softmax_vjp(g, out, dim)
    p = np.exp(out)
    p *= row_sums(g) if dim == 1 == out.ndim - 1 else _sum(g, dim, None, None, True)
    return np.subtract(g, p, p)
