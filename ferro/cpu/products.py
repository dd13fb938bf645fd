"""Products of NumPy arrays: of matrices, stacks of matrices and vectors, and contractions over labelled dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro import xp
from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.common import contiguous
from ferro.cpu.kernels.conversions import converted
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.gemm import gemm, near
from ferro.cpu.namespace import cpu
from ferro.cpu.rows import ones
from ferro.cpu.thresholds import (
    BLAS_CHUNKS,
    BLAS_MATRIX,
    BLAS_SMALL,
    BLAS_VECTOR,
    DOTS_CHUNK,
    DOTS_LEAST,
    GEMM_LEAST,
    GEMM_LEAST_EACH,
    GEMM_LEAST_STACK,
    GEMM_LEAST_TURNED,
    GRAIN,
    NEAR_LEAST,
    NEAR_MOST,
    ONES_COLUMNS,
    ONES_ROWS,
    PRODUCT_CHUNK,
)
from ferro.native.blas import blas_single
from ferro.native.readiness import ready
from ferro.native.workers import run_rows

__all__ = ["addmm", "channel_sum", "contract", "cross", "dot", "leading_sum", "linear", "matmul", "mm", "mv", "outer"]

_OUTER, _VECTOR = kernels("jit_linalg.outer"), kernels("jit_linalg.times_vector vector_times")
_ROWS = 4  # that `times_vector` reads side by side
_PARTS, _ROWS_OF_PART = 8, 16
_BLAS = frozenset(np.dtype(c) for c in "fdFD")
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_WIDE = np.dtype(np.float32)
_BLAS_MOST, _NEAR_LEAST = (
    (BLAS_SMALL, BLAS_MATRIX + 1) if blas_single().has_small_products() else (BLAS_MATRIX, NEAR_LEAST)
)


def widened(*arrays: Any) -> Any:
    """16-bit floating operands as float32, in which their products are summed; None for other dtypes."""
    d = arrays[0].dtype
    if d.itemsize == 2 and d.kind in "fV":
        return tuple([None if a is None else converted(a, _WIDE) for a in arrays])
    return None


def mm(x: Any, y: Any) -> Any:
    """The product of two matrices of one dtype."""
    dtype = x.dtype
    if dtype in _BLAS:
        work = x.size * y.shape[-1]
        if work <= BLAS_VECTOR:
            return x.dot(y)
        if y.ndim == 2:
            if x.shape[1] == len(y) == 1:
                return outer(x[:, 0], y[0])
            small = work <= BLAS_MATRIX or (work <= _BLAS_MOST and y.flags.c_contiguous)
            if small and len(x) > 1 < y.shape[1] and dtype.kind == "f":
                found = near(x, y) if work >= _NEAR_LEAST and _is_nears(x, y) else None
                return x.dot(y) if found is None else found
            if y.shape[1] == 1 or len(x) == 1:
                found = _of_one(x, y)
                if found is not None:
                    return found
        return gemm(x, y)
    wide = widened(x, y)
    return x.dot(y) if wide is None else converted(gemm(*wide), x.dtype)


def _is_nears(x: Any, y: Any) -> bool:
    """Whether so small a product gains by `near`: of float64, and of a matrix with its own transpose, half of which is a copy."""
    base = y.base
    return x.dtype.itemsize == 8 or (base is not None and (base is x or base is x.base))


def _matrices(make: Make) -> Iterator[tuple]:
    for least in (
        BLAS_VECTOR,
        NEAR_LEAST,
        GEMM_LEAST,
        BLAS_SMALL + 1,
        2 * PRODUCT_CHUNK,
        NEAR_MOST,
        BLAS_CHUNKS[-1][0],
    ):
        for n in sides(least, 3):
            x = make(n, n)
            yield make(n, n + 1), make(n + 1, n)
            yield x, make(n, n).T
            yield x.T, make(n, n)
            yield x, x.T
    each = sides(GEMM_LEAST_EACH, 3)[1]
    for n in sides(math.ceil(GEMM_LEAST_STACK / each**3)):
        yield make(n, each, each), make(n, each, each)
        yield make(n, each, each), make(each, each)
    for n in (each - 1, each):
        yield make(64, n, n), make(64, n, n)
    turned = sides(GEMM_LEAST_TURNED, 3)[1]
    for n in (turned - 1, turned):
        stack = make(GEMM_LEAST_STACK // n**3 + 1, n, n)
        yield stack, stack.mT
        yield stack.mT, stack
    yield make(7, 300), make(300, 200)  # fewer rows than a tile has
    for n in sides(BLAS_VECTOR + 1, 2):
        yield make(n, 1), make(1, n)
        yield make(n, n), make(n, 1)
        yield make(1, n), make(n, n)
    yield make(2000, 40), make(40, 5)  # and too few columns


@by_kernels("product_part product_near", _matrices)
def matmul(x: Any, y: Any) -> Any:
    """The product of (stacks of) matrices, or of matrices and vectors, of one dtype; stacks are broadcast."""
    if x.ndim == 2 and y.ndim == 2:
        return mm(x, y)
    if x.ndim == 2 and y.ndim == 1:
        return mv(x, y)
    if x.dtype in _BLAS:
        return np.matmul(x, y) if x.size * y.shape[-1] <= BLAS_VECTOR else gemm(x, y)
    wide = widened(x, y)
    return np.matmul(x, y) if wide is None else converted(gemm(*wide), x.dtype)


def _vectors(make: Make) -> Iterator[tuple]:
    for least in (BLAS_VECTOR + 1, GRAIN, 2 * GRAIN):
        for n in sides(least, 2):
            yield make(n, n), make(n)
            yield make(n, n).T, make(n)
    for m, n in ((3, GRAIN), (GRAIN, 1), (GRAIN, 3)):
        yield make(m, n), make(n)
        yield make(n, m).T, make(n)


@by_kernels(_VECTOR, _vectors)
def mv(x: Any, y: Any) -> Any:
    """The product of a matrix and a vector."""
    found = _by_vector(x, y)
    return mm(x, y) if found is None else found


def _of_one(x: Any, y: Any) -> Any:
    """The product of matrices of which y has one column or x one row, as `_by_vector` gives it."""
    if y.shape[1] == 1:
        found = _by_vector(x, y[:, 0])
        return None if found is None else found[:, None]
    if not y.flags.c_contiguous:  # (dot products with the rows of the other: see kernels/gemm.py)
        return None
    found = _by_vector(y.T, x[0])
    return None if found is None else found[None]


def _by_vector(x: Any, y: Any) -> Any:
    """The product of a matrix and a vector by kernels; None where there are none, or BLAS takes one thread in any case."""
    m, n = x.shape
    if x.size <= BLAS_VECTOR or x.dtype not in _REAL or x.dtype is not y.dtype or n != len(y):
        return None
    in_rows = x.flags.c_contiguous
    if not (in_rows or x.flags.f_contiguous) or not ready(_VECTOR, x.dtype):
        return None
    chunks = x.size // GRAIN
    if in_rows:
        out = np.empty(m, x.dtype)
        groups = -(-m // _ROWS)
        run_rows("times_vector", chunks, groups, (0, groups, x, contiguous(y), out), whole=-1, span=0)
        return out
    # By columns: a sum over rows, in so many parts, each of which reads the rows that `times_vector` reads in its thread.
    parts = max(1, min(chunks, n // _ROWS_OF_PART, _PARTS))
    sums = np.empty((parts, m), x.dtype)
    run_rows("vector_times", parts, parts, (0, parts, parts, contiguous(y), x.T, sums), whole=-1, span=0)
    return sums[0] if parts == 1 else sums.sum(0)


@entry("x = -> one", "jit_small.dot")
def dot(x: Any, y: Any) -> Any:
    """The sum of the products of the elements of two vectors, without conjugation."""
    return np.asarray(mm(x, y))


def _pairs(make: Make) -> Iterator[tuple]:
    for least in (GRAIN, 2 * GRAIN):
        for n in sides(least, 2):
            yield make(n), make(n)


@by_kernels(_OUTER, _pairs)
def outer(x: Any, y: Any) -> Any:
    """The products of every element of a vector with every element of another."""
    if x.size * y.size < GRAIN or x.dtype is not y.dtype or x.dtype.char not in "fd" or not ready(_OUTER, x.dtype):
        return x[:, None] * y
    out = np.empty((x.size, y.size), x.dtype)
    run_rows(
        "outer", x.size * y.size // GRAIN, x.size, (0, x.size, contiguous(x), contiguous(y), out), whole=-1, span=0
    )
    return out


def _layers(make: Make) -> Iterator[tuple]:
    for least in (BLAS_VECTOR, GEMM_LEAST, 2 * PRODUCT_CHUNK):
        for n in sides(least, 3):
            yield make(n, n), make(n, n), make(n)
    n = sides(GEMM_LEAST, 3)[1]
    yield make(2, n, n), make(n, n), None
    for n in sides(BLAS_VECTOR + 1, 2):
        yield make(n, n), make(1, n), make(1)
        yield make(n, n), make(1, n), None
    for rows, least in ((1, BLAS_VECTOR), (1, 2 * DOTS_CHUNK), (2, DOTS_LEAST), (6, DOTS_LEAST), (11, 2 * DOTS_CHUNK)):
        for n in sides(math.ceil(least / rows), 2):
            yield make(rows, n), make(n + 1, n), make(n + 1)


@by_kernels("product_part dots", _layers)
def linear(x: Any, w: Any, b: Any = None) -> Any:
    """x wᵀ + b for x of any number of dimensions and a matrix w."""
    if x.ndim == 2 and x.size * w.size <= BLAS_VECTOR and x.dtype in _BLAS:
        out = x.dot(w.T)
        return out if b is None else out + b  # (of small arrays quicker than in place)
    wide = widened(x, w, b)
    if wide is not None:
        return converted(linear(*wide), x.dtype)
    rows = x
    if x.ndim != 2:
        rows = x.reshape(-1, w.shape[1]) if w.shape[1] else x.reshape(math.prod(x.shape[:-1]), 0)
    if x.dtype in _BLAS:
        out = _of_one(rows, w.T) if len(w) == 1 else None
        if out is None:
            out = gemm(rows, w.T, b)
        elif b is not None:
            out += b
    else:
        out = rows.dot(w.T)
        if b is not None:
            out += b
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], w.shape[0])


def leading_sum(g: Any) -> Any:
    """g summed over all dimensions but the last, by BLAS, where it is suited, several times as fast as by a reduction."""
    if g.ndim < 2:
        return g
    n = math.prod(g.shape[:-1])
    if g.dtype not in _REAL or not 1 < n <= ONES_ROWS:
        return xp.leading_sum(cpu, g)
    rows = g if g.ndim == 2 else g.reshape(n, g.shape[-1])
    return mm(ones((2, n), g.dtype), rows)[0]  # see Note [Two columns] in rows.py


def channel_sum(g: Any) -> Any:
    """g (n, c, ...) summed over all dimensions but the second; by BLAS, where it is suited and faster than a reduction."""
    n, c, *places = g.shape
    m = math.prod(places)
    if g.dtype not in _REAL or not 0 < m <= ONES_COLUMNS or not 0 < n <= ONES_ROWS:
        return xp.channel_sum(cpu, g)
    images = mm(g.reshape(n * c, m), ones((m, 2), g.dtype))[:, 0]
    return mm(ones((2, n), g.dtype), images.reshape(n, c))[0]


def addmm(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta c + alpha x y, where x y is any `matmul`; with beta 0, nan and inf in c do not count."""
    wide = widened(x, y, c)
    if wide is not None:
        return converted(addmm(wide[2], wide[0], wide[1], beta, alpha), x.dtype)
    out = matmul(x, y)
    if alpha != 1:
        out *= alpha
    if beta != 0:
        out += c if beta == 1 else c * beta
    return out


def contract(x: Any, y: Any, x_labels: tuple, y_labels: tuple, out_labels: tuple) -> Any:
    """The sum of x y over the labels that the result has not; every label is in two of the three at least."""
    orders, counts = _scheme(x_labels, y_labels, out_labels)
    if counts is None:
        return _aligned(x, x_labels, out_labels) * _aligned(y, y_labels, out_labels)
    stack, rows, inner = counts
    x, y = x.transpose(orders[0]), y.transpose(orders[1])
    if rows == inner == 1 and x.ndim == y.ndim == stack + 2:
        out = matmul(x, y)
        return (
            out if orders[2] == tuple(range(out.ndim)) else out.transpose(orders[2])
        )  # (a view would be copied later)
    s, t, row_end = x.shape, y.shape, stack + rows
    a = x.reshape(*s[:stack], math.prod(s[stack:row_end]), math.prod(s[row_end:]))
    b = y.reshape(*t[:stack], math.prod(t[stack : stack + inner]), math.prod(t[stack + inner :]))
    return matmul(a, b).reshape(s[:row_end] + t[stack + inner :]).transpose(orders[2])


@lru_cache(maxsize=512)
def _scheme(x_labels: tuple, y_labels: tuple, out_labels: tuple) -> tuple[tuple, tuple | None]:
    """How to permute x, y and their product as stacks of matrices; how many stacked, row and inner labels there are.

    The second is None where nothing is summed.
    """
    inner = [label for label in x_labels if label in y_labels and label not in out_labels]
    if not inner:
        return (), None
    stack = [label for label in out_labels if label in x_labels and label in y_labels]
    rows = [label for label in out_labels if label not in y_labels]
    columns = [label for label in out_labels if label not in x_labels]
    have = stack + rows + columns
    orders = (
        tuple([x_labels.index(label) for label in stack + rows + inner]),
        tuple([y_labels.index(label) for label in stack + inner + columns]),
        tuple([have.index(label) for label in out_labels]),
    )
    return orders, (len(stack), len(rows), len(inner))


def _aligned(x: Any, have: tuple, want: tuple) -> Any:
    """x with its dimensions in the order of `want`, and of size 1 where `want` has a label more."""
    x = x.transpose([have.index(label) for label in want if label in have])
    return x[tuple([slice(None) if label in have else None for label in want])]


def cross(x: Any, y: Any, dim: int) -> Any:
    """The cross product of the vectors of three elements along `dim`, the rest broadcast."""
    x, y = np.broadcast_arrays(x, y)
    x0, x1, x2 = np.moveaxis(x, dim, 0)
    y0, y1, y2 = np.moveaxis(y, dim, 0)
    return np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=dim)
