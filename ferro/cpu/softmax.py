"""Softmax, log-softmax and logsumexp of NumPy arrays, and the backward of the first two.

A row of nothing but -inf has the softmax nan and the logsumexp -inf, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.array_function import array_function
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.entries import entry
from ferro.cpu.namespace import cpu
from ferro.cpu.rows import row_sums

__all__ = [
    "log_softmax",
    "log_softmax_across",
    "log_softmax_vjp",
    "logsumexp",
    "softmax",
    "softmax_across",
    "softmax_vjp",
]

# A call of NumPy costs more than the arithmetic of a small array: results are written over arrays that are at hand, and
# positions stand in the place of keywords: reduce(array, axis, dtype, out, keepdims).
_top: Any = np.maximum.reduce
_sum: Any = np.add.reduce
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))
# If the squares of all numbers add up to less than this, the numbers lie within 60 of 0 and within 85 of each other: exp
# needs no shift by the maximum, neither overflows nor loses digits, and no quotient of two exponentials is below float32.
_MODERATE = 3600.0


def _is_small_matrix(x: Any, dim: int) -> bool:
    """Whether sums along `dim` are cheapest as products (cpu/rows.py)."""
    return dim == 1 == x.ndim - 1 and 0 < x.size < SMALL and x.dtype in _PLAIN


def _quotients(x: Any, dim: int) -> Any:
    """softmax along the rows of a small matrix of moderate numbers; None for other numbers (nan too), arrays and dims."""
    if _is_small_matrix(x, dim):
        flat = x.ravel()
        if flat.dot(flat) < _MODERATE:
            e = np.exp(x, order="C")
            e /= row_sums(e)
            return e
    return None


def _softmax(x: Any, dim: int) -> Any:
    """exp(x) over its sum along `dim`."""
    if x.size == 0 or x.ndim == 0:
        return np.asarray(x - x + 1)
    out = _quotients(x, dim)
    return cpu.softmax_across(x, dim) if out is None else out


@entry("x dims -> x", "jit_small_rows.softmax_across")
def softmax_across(x: Any, dim: int) -> Any:
    """softmax of an array that has some numbers along a dimension."""
    out = x - _top(x, dim, None, None, True)
    np.exp(out, out)
    out /= _sum(out, dim, None, None, True)
    return out


def _softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of softmax, from its result."""
    if out.ndim == 0:
        return g * 0
    found = g * out
    found -= out * (row_sums(found) if _is_small_matrix(out, dim) else _sum(found, dim, None, None, True))
    return found


def _log_softmax(x: Any, dim: int) -> Any:
    """x minus its logsumexp along `dim`."""
    if x.size == 0 or x.ndim == 0:
        return np.asarray(x - x)
    out = _quotients(x, dim)
    if out is not None:
        return np.log(out, out)
    return cpu.log_softmax_across(x, dim)


@entry("x dims -> x", "jit_small_rows.log_softmax_across")
def log_softmax_across(x: Any, dim: int) -> Any:
    """log_softmax of an array that has some numbers along a dimension."""
    out = x - _top(x, dim, None, None, True)
    total = _sum(np.exp(out), dim, None, None, True)
    out -= np.log(total, total)
    return out


def _log_softmax_vjp(g: Any, out: Any, dim: int) -> Any:
    """The backward of log_softmax, from its result."""
    if out.ndim == 0:
        return g * 0
    p = np.exp(out)
    p *= row_sums(g) if _is_small_matrix(out, dim) else _sum(g, dim, None, None, True)
    return np.subtract(g, p, p)


def _logsumexp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The logarithm of the sum of exp(x) over `dims`, without overflow; -inf for a sum of nothing."""
    top = np.maximum.reduce(np.real(x), dims, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top).astype(top.dtype)  # infinity - infinity must not arise
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = np.log(cpu.sum(np.exp(x - top), dims, True)) + top
    return np.asarray(out if keepdim else np.squeeze(out, dims))


softmax = array_function(
    "softmax", "x last -> x +", formula=_softmax, loop="jit_softmax.softmax", columns="jit_softmax.softmax_columns"
)
softmax_vjp = array_function(
    "softmax_vjp",
    "x = last -> x +",
    formula=_softmax_vjp,
    loop="jit_softmax.softmax_vjp",
    columns="jit_softmax.softmax_vjp_columns",
    grain=2,
)
log_softmax = array_function(
    "log_softmax",
    "x last -> x +",
    formula=_log_softmax,
    loop="jit_softmax.log_softmax",
    columns="jit_softmax.log_softmax_columns",
)
log_softmax_vjp = array_function(
    "log_softmax_vjp",
    "x = last -> x +",
    formula=_log_softmax_vjp,
    loop="jit_softmax.log_softmax_vjp",
    columns="jit_softmax.log_softmax_vjp_columns",
)
logsumexp = array_function(
    "logsumexp",
    "x dims keep -> r ?",
    formula=_logsumexp,
    loop="jit_softmax.logsumexp",
    small="jit_small_rows.logsumexp",
    columns="jit_softmax.logsumexp_columns",
)
