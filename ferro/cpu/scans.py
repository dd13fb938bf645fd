"""Scans of NumPy arrays along one dimension: cumulative sums, products, extrema, and linear recurrences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, places, sides
from ferro.cpu.kernels.common import GRAIN, SMALL, has_kernel
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.scan import running_extremum, scan
from ferro.cpu.reductions import wide

__all__ = [
    "affine_scan",
    "cummax",
    "cummin",
    "cumprod",
    "cumprod_others",
    "cumsum",
    "cumsum_vjp",
    "logcumsumexp",
    "picked_sum",
    "shift",
]


def _lines(make: Make) -> Iterator[tuple]:
    for rows in (*sides(math.ceil(SMALL / 20)), GRAIN // 20):
        for dim in (0, 1):
            yield make(rows, 20), dim


@entry("", "jit_running.entries")
@by_kernels("jit_scan.cumsum", _lines)
def cumsum(x: Any, dim: int) -> Any:
    """Sums of the elements up to each place along `dim`, accumulated in double precision."""
    return scan("cumsum", dim, (x,), False) if x.ndim and has_kernel(x, "cumsum") else _accumulated(np.add, x, dim)


@by_kernels("jit_scan.cumsum", _lines)
def cumsum_vjp(g: Any, dim: int) -> Any:
    """Sums of the elements from each place along `dim` on: the backward of `cumsum`."""
    if g.ndim == 0:
        return g
    if has_kernel(g, "cumsum"):
        return scan("cumsum", dim, (g,), True)
    return np.flip(_accumulated(np.add, np.flip(g, dim), dim), dim)


@entry("", "jit_running.entries")
@by_kernels("jit_scan.cumprod", _lines)
def cumprod(x: Any, dim: int) -> Any:
    """Products of the elements up to each place along `dim`, accumulated in double precision."""
    with np.errstate(over="ignore"):
        if x.ndim and has_kernel(x, "cumprod"):
            return scan("cumprod", dim, (x,))
        return _accumulated(np.multiply, x, dim)


def _accumulated(ufunc: Any, x: Any, dim: int) -> Any:
    if x.ndim == 0:
        return x.copy()
    d = x.dtype
    y = x.astype(np.complex128 if d.kind == "c" else np.float64 if d.kind in "fV" else d)
    return ufunc.accumulate(y, dim, None, y).astype(d, copy=False)


@by_kernels("jit_scan.logcumsumexp", _lines)
def logcumsumexp(x: Any, dim: int) -> Any:
    """log of the sum of exp of the elements up to each place along `dim`, without overflow."""
    if x.ndim == 0:
        return x.copy()
    if has_kernel(x, "logcumsumexp"):
        return scan("logcumsumexp", dim, (x,))
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x.astype(np.float64, copy=False), dim).astype(x.dtype, copy=False)
    y = np.moveaxis(x, dim, 0)
    out = np.empty_like(y)
    before: Any = x.dtype.type(-np.inf)
    with np.errstate(all="ignore"):
        for k in range(len(y)):
            before = out[k] = _log_of_two(before, y[k])
    return np.moveaxis(out, 0, dim)


def _log_of_two(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) of complex numbers: a where both are 0 (whatever their phase), nan where one is nan."""
    high, low = np.where(a.real >= b.real, a, b), np.where(a.real >= b.real, b, a)
    total = high + np.log1p(np.exp(low - high))
    total = np.where(high.real == -np.inf, a, total)
    total = np.where(low.real == np.inf, np.log(np.exp(a) + np.exp(b)), total)
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), total)


_EXTREMA = kernels("jit_scan.running_extremum running_extremum_rows")


@entry("", "jit_running.entries")
@by_kernels(_EXTREMA, _lines)
def cummax(x: Any, dim: int) -> tuple:
    """Largest element up to each place along `dim`, and the index of its last appearance; nan stays."""
    return _extrema(x, dim, np.maximum)


@entry("", "jit_running.entries")
@by_kernels(_EXTREMA, _lines)
def cummin(x: Any, dim: int) -> tuple:
    """Smallest element up to each place along `dim`, and the index of its last appearance; nan stays."""
    return _extrema(x, dim, np.minimum)


def _extrema(x: Any, dim: int, ufunc: Any) -> tuple:
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    y = wide(x)
    if has_kernel(y, *_EXTREMA):
        values, index = running_extremum(y, dim, ufunc is np.maximum)
        return values.astype(x.dtype, copy=False), index
    values = ufunc.accumulate(y, dim)
    here = y == values
    if y.dtype.kind == "f":
        here |= np.isnan(y)
    places = np.arange(x.shape[dim], dtype=np.int64).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    index = np.maximum.accumulate(np.where(here, places, np.int64(0)), dim)
    return values.astype(x.dtype, copy=False), index


def _picked(make: Make) -> Iterator[tuple]:
    for g, dim in _lines(make):
        yield g, dim, places(make, g.shape[dim], *g.shape)


@by_kernels("jit_scan.picked_sum", _picked)
def picked_sum(g: Any, dim: int, index: Any) -> Any:
    """Zeros like g, to which g is added at `index` along `dim`: an index may repeat."""
    if g.ndim == 0 or g.size == 0:
        return g.copy()
    if has_kernel(g, "picked_sum"):
        return scan("picked_sum", dim, (g, index))
    rows, n = np.moveaxis(g, dim, -1), g.shape[dim]
    where = np.moveaxis(index, dim, -1) + np.arange(rows.size // n).reshape((*rows.shape[:-1], 1)) * n
    where, rows = where.reshape(-1), wide(rows).reshape(-1)
    total = np.bincount(where, rows.real, where.size)
    if g.dtype.kind == "c":
        total = total + 1j * np.bincount(where, rows.imag, where.size)
    shape = (*g.shape[:dim], *g.shape[dim + 1 :], n)
    return np.moveaxis(total.astype(g.dtype).reshape(shape), -1, dim)


def shift(x: Any, steps: int, dim: int, fill: float) -> Any:
    """x moved by `steps` places along `dim` (backward if negative); the places left hold `fill`."""
    if x.ndim == 0:
        return np.full_like(x, fill) if steps else x.copy()
    n, lead = x.shape[dim], (slice(None),) * dim
    k = min(abs(steps), n)
    out = np.empty_like(x)
    out[(*lead, slice(0, k) if steps > 0 else slice(n - k, n))] = fill
    source, target = (slice(0, n - k), slice(k, n)) if steps > 0 else (slice(k, n), slice(0, n - k))
    out[(*lead, target)] = x[(*lead, source)]
    return out


def _recurrences(make: Make) -> Iterator[tuple]:
    for b, dim in _lines(make):
        for reverse in (False, True):
            yield b / 2, b, dim, reverse


@by_kernels("jit_scan.affine_scan", _recurrences)
def affine_scan(a: Any, b: Any, dim: int, reverse: bool) -> Any:
    """The recurrence s_k = b_k + a_k s_(k-1) along `dim`, from zero; in reverse s_k = b_k + a_k s_(k+1)."""
    d = b.dtype
    if b.ndim == 0:
        return b.copy()
    if has_kernel(b, "affine_scan"):
        return scan("affine_scan", dim, (np.broadcast_to(a, b.shape).astype(d, copy=False), b), reverse)
    a, s = np.moveaxis(wide(a), dim, 0), np.array(np.moveaxis(wide(b), dim, 0), order="C")
    if reverse:
        a, s = a[::-1], s[::-1]
    n = len(s)
    if s.size // max(n, 1) >= 32:
        for k in range(1, n):
            s[k] += a[k] * s[k - 1]
    else:  # few columns: in steps of 1, 2, 4, ..., each for all k at once
        a, step = np.array(a, order="C"), 1
        while step < n:
            s[step:] += a[step:] * s[:-step]
            a[step:] *= a[:-step].copy()
            step *= 2
    out = s[::-1] if reverse else s
    return np.moveaxis(out, 0, dim).astype(d, copy=False)


def cumprod_others(g: Any, x: Any, out: Any, dim: int) -> Any:
    """The gradient of `cumprod`: sum over k >= i of g_k times the product of x_0 ... x_k without x_i."""
    if x.ndim == 0:
        return g
    x, y = wide(x).conj(), wide(out).conj()
    if (y != 0).all() and np.isfinite(y).all():
        return np.flip(np.add.accumulate(np.flip(wide(g) * y, dim), dim), dim) / x
    return affine_scan(shift(x, -1, dim, 0), wide(g), dim, True) * shift(y, 1, dim, 1)
