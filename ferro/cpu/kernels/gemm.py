"""Products of matrices by a kernel of our own, where it beats BLAS: on processors with AVX-512, or AVX2 and FMA."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ferro.cpu.blas_products import gemm as blas_gemm
from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.tiles import COLUMNS, DOTS, DTYPES, FEW, ROWS
from ferro.cpu.thresholds import (
    BLAS_VECTOR,
    DOTS_CHUNK,
    DOTS_LEAST,
    DOTS_NEAR,
    GEMM_LEAST,
    GEMM_LEAST_EACH,
    GEMM_LEAST_STACK,
    GEMM_LEAST_TURNED,
    NEAR_MOST,
    PRODUCT_CHUNK,
)
from ferro.native import readiness
from ferro.native.readiness import get
from ferro.native.workers import helpers, run_rows

_KERNELS = kernels("jit_gemm.product_part", here=bool(DTYPES))
_DOTS = kernels("jit_dots.dots", here=bool(DTYPES))
_NEAR = kernels("jit_product.product_near", here=bool(DTYPES))
_FEW_ROWS, _FEW_COLUMNS = 6, 16
_SQUARE = 32  # rows, steps and columns from which a product up to NEAR_MOST has few rows and a small second matrix
_BROAD = 8  # columns of tiles that can be shared


def gemm(a: np.ndarray, b: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """a @ b (+ start) for np.matmul's shapes and broadcasting, rounded alike for any number of threads.

    `start` has the product's dtype, and is broadcast to its shape.
    """
    if a.ndim > 1 < b.ndim:
        work = a.size * b.shape[-1]
        if b.ndim > 2:
            work = max(work, a.shape[-2] * b.size)
        elif a.ndim == 2:
            found = near(a, b) if GEMM_LEAST <= work <= NEAR_MOST and start is None else None
            if found is not None:
                return found
            plan = None if start is not None else _plan_of_two(a.shape, a.strides, b.shape, b.strides, a.dtype, b.dtype)
            if plan is not None and a.flags.aligned and b.flags.aligned and readiness.ready(_KERNELS, a.dtype):
                out = np.empty((plan[2], plan[4]), a.dtype)
                _share((out, begin(a), begin(b), out), plan)
                return out
            if work > BLAS_VECTOR and _has_few_rows(a, b, work):
                return _by_dots(a, b.T, start)
        if work >= GEMM_LEAST and _is_suitable(a, b, work):
            return _by_kernel(a, b, start)
    out = blas_gemm(a, b)
    if start is not None:
        out += start
    return out


def ready(x: np.ndarray) -> bool:
    """Whether `multiply` takes arrays of this dtype now."""
    return x.dtype in DTYPES and readiness.ready(_KERNELS, x.dtype)


def near(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """a @ b of at most NEAR_MOST multiplications, if both are contiguous and about square, and there is a kernel; else None."""
    (m, k), n, dtype = a.shape, b.shape[1], a.dtype
    if not (_SQUARE <= m <= FEW and n >= _SQUARE <= k == len(b) and dtype is b.dtype and dtype in DTYPES):
        return None
    if not readiness.ready(_NEAR, dtype):
        return None
    of_a, of_b = a.flags, b.flags
    turned_a, turned_b = not of_a.c_contiguous, not of_b.c_contiguous
    if (turned_a and not of_a.f_contiguous) or (turned_b and not of_b.f_contiguous) or not of_a.aligned & of_b.aligned:
        return None
    out = np.empty((m, n), dtype)
    args = a.T if turned_a else a, b.T if turned_b else b, out, turned_a, turned_b
    high, work = -(-m // ROWS), m * k * n
    if work < 2 * PRODUCT_CHUNK:
        get("product_near")(0, high, *args)
    else:
        run_rows("product_near", min(work // PRODUCT_CHUNK, helpers() + 1), high, (0, high, *args), -1, 0)
    return out


def _has_few_rows(a: np.ndarray, b: np.ndarray, work: int) -> bool:
    """Whether dot products are the quickest for a and a transposed b, and there is machine code of them."""
    m, dtype = len(a), a.dtype
    if dtype not in DTYPES or not 0 < m <= DOTS[dtype.itemsize] or (work < DOTS_LEAST and m > 1):
        return False
    in_rows = a.flags.c_contiguous and b.flags.f_contiguous and a.flags.aligned and b.flags.aligned
    fits = a.nbytes <= DOTS_NEAR and a.shape[1] == len(b) and b.dtype is dtype
    return in_rows and fits and readiness.ready(_DOTS, dtype)


def _by_dots(a: np.ndarray, w: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """a wᵀ (+ start) for an a of few rows."""
    out = np.empty((len(a), len(w)), a.dtype)
    groups = -(-len(w) // 4)
    run_rows(
        "dots", min(out.size * a.shape[1] // DOTS_CHUNK, groups, helpers() + 1), groups, (0, groups, a, w, out), -1, 0
    )
    if start is not None:
        out += start
    return out


def _is_suitable(a: np.ndarray, b: np.ndarray, work: int) -> bool:
    """Whether the kernel is quicker for so many multiplications (GEMM_LEAST or more), and there is machine code of it."""
    dtype = a.dtype
    (m, k), (depth, n) = a.shape[-2:], b.shape[-2:]
    in_rows = a.strides[-1] == b.strides[-1] == a.itemsize
    least = GEMM_LEAST_EACH if in_rows else GEMM_LEAST_TURNED
    is_large = b.ndim == 2 or (work >= GEMM_LEAST_STACK and m * k * n >= least)
    if not is_large or m < _FEW_ROWS or n < _FEW_COLUMNS or k != depth or b.dtype is not dtype:
        return False
    return dtype in DTYPES and readiness.ready(_KERNELS, dtype)


@lru_cache(1 << 10)
def _plan_of_two(a: tuple, a_steps: tuple, b: tuple, b_steps: tuple, dtype: np.dtype, other: np.dtype) -> tuple | None:
    """The plan of a product of two matrices that is the kernel's and of neither few rows nor copies; else None."""
    (m, k), (depth, n), size = a, b, dtype.itemsize
    if dtype not in DTYPES or other is not dtype or k != depth or m * k * n < GEMM_LEAST:
        return None
    if m <= DOTS[size] or n < _FEW_COLUMNS or size not in a_steps or size not in b_steps:
        return None
    return _plan(a, a_steps, b, b_steps, (n * size, size), False)


def _by_kernel(a: np.ndarray, b: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    m, n = a.shape[-2], b.shape[-1]
    if a.ndim == 2 and b.ndim == 2:
        out = np.empty((m, n), a.dtype)
        multiply(a, b, out, start)
        return out
    if b.ndim == 2 and (start is None or start.ndim < 2) and a.flags.c_contiguous:  # one tall matrix instead of many
        return _by_kernel(a.reshape(-1, a.shape[-1]), b, start).reshape(*a.shape[:-1], n)
    stack = a.shape[:-2]
    if b.shape[:-2] != stack:
        stack = np.broadcast_shapes(stack, b.shape[:-2])
    out = np.empty((*stack, m, n), a.dtype)
    if out.size:
        multiply(a, b, out, start)
    return out


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, start: np.ndarray | None = None) -> None:
    """out = a @ b (+ start), broadcast to the shape of `out`, by the kernel; no array is empty.

    The rows of `out` are contiguous. `start` may be `out`.
    """
    plain = out.ndim < 4 and a.shape[:-2] == out.shape[:-2] == b.shape[:-2]
    if plain and (start is None or (start.shape == out.shape[-1:] and start.flags.carray)):
        _multiply_plain(a, b, out, start)
        return
    size, first = out.itemsize, out
    (m, n), k = out.shape[-2:], a.shape[-1]
    a, b = _readable(a, size), _readable(b, size)
    if start is not None:
        first = np.broadcast_to(start, out.shape)
        first = first if first.strides[-1] == size else np.ascontiguousarray(first)
    stack = out.shape[:-2]
    if len(stack) > 2 or not stack == a.shape[:-2] == b.shape[:-2]:
        out, a, b, first = [_four(x, stack) for x in (out, a, b, first)]
    above = (0,) * (4 - out.ndim)
    strides = above + out.strides, above + a.strides, above + b.strides, above + first.strides
    matrices = (1, 1, *out.shape)[-4:-2]
    plan = (*matrices, m, k, n, int(start is not None), *[step for steps in zip(*strides) for step in steps])
    _share((begin(out), begin(a), begin(b), begin(first)), plan)


def _multiply_plain(a: np.ndarray, b: np.ndarray, out: np.ndarray, start: np.ndarray | None) -> None:
    """`multiply` for two matrices, or two stacks of one dimension, and a row to start from, in a third of the time before it."""
    a, b = _readable(a, out.itemsize), _readable(b, out.itemsize)
    plan = _plan(a.shape, a.strides, b.shape, b.strides, out.strides, start is not None)
    first = begin(out)
    _share((first, begin(a), begin(b), first if start is None else start[None]), plan)


@lru_cache(1 << 10)
def _plan(a: tuple, a_steps: tuple, b: tuple, b_steps: tuple, steps: tuple, has_start: bool) -> tuple:
    """What the kernel is told of two matrices, or stacks of one dimension, by their shapes and strides."""
    (*stack, m, k), n = a, b[-1]
    (*sa, ra, ca), (*sb, rb, cb), (*sc, rc, size) = a_steps, b_steps, steps
    apart = (sc[0], sa[0], sb[0], 0) if stack else (0, 0, 0, 0)
    return (1, stack[0] if stack else 1, m, k, n, int(has_start), 0, 0, 0, 0, *apart, rc, ra, rb, 0, size, ca, cb, size)


def _share(arrays: tuple, plan: tuple) -> None:
    """The products of a plan, in one part for each thread.

    Every part lays out for itself what it needs of b: large matrices are cut between columns. No number depends on the
    parts.
    """
    outer, inner, m, k, n, *_ = plan
    high, count = -(-m // ROWS), outer * inner
    chunks = count * m * k * n // PRODUCT_CHUNK
    if chunks < 2:
        get("product_part")(0, count * high, *arrays, (*plan, high))
        return
    wide, threads = -(-n // COLUMNS[arrays[0].itemsize]), helpers() + 1
    if count * high < wide or (count == 1 and m > FEW and wide >= _BROAD):
        length, high = wide, 0
    else:
        if count == 1:  # in equal parts
            high += -high % threads
        length = count * high
    run_rows("product_part", min(chunks, length, threads), length, (0, length, *arrays, (*plan, high)), -1, 0)


def _readable(x: np.ndarray, size: int) -> np.ndarray:
    """The same matrices with their rows or columns contiguous."""
    return x if size in x.strides[-2:] and x.flags.aligned else np.ascontiguousarray(x)


def _four(x: np.ndarray, stack: tuple[int, ...]) -> np.ndarray:
    """The matrices, broadcast to that many, in two dimensions of them."""
    if x.shape[:-2] != stack:
        x = np.broadcast_to(x, (*stack, *x.shape[-2:]))
    return x.reshape(-1, *x.shape[-3:]) if x.ndim > 4 else x[(None,) * (4 - x.ndim)]


_CORNER = [(0,) * (ndim - 2) + (slice(1), slice(1)) for ndim in range(2, 5)]


def begin(x: np.ndarray) -> np.ndarray:
    """What a kernel is given in place of an array: something contiguous of two dimensions at its beginning."""
    if x.ndim == 2:
        if x.flags.c_contiguous:
            return x
        if x.flags.f_contiguous:
            return x.T
    return x[_CORNER[x.ndim - 2]]
