"""Products by BLAS: cut among threads, and rounded alike for any number of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ferro.cpu.thresholds import BLAS_CHUNKS, BLAS_VECTOR
from ferro.native.blas import blas_single
from ferro.native.thread_pool import parallel_for

# Multiplications up to which OpenBLAS computes a product on one thread whatever its limit, whatever the processor.
_ONE_THREAD = {"f": 262144, "d": 262144, "F": 32768, "D": 32768}
# From so many multiplications on, a product is cut into so many chunks.


def gemm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, computed on several threads and rounded alike for any number of them; np.matmul's shapes and broadcasting.

    Transposed operands are not copied. Integers and 16-bit floats go to np.matmul as they are.
    """
    if a.ndim == 2 and b.ndim == 2:
        m, k = a.shape
        n = b.shape[1]
        work = m * k * n
        if work <= BLAS_VECTOR or (m > 1 and n > 1 and work <= _ONE_THREAD.get(a.dtype.char, 0)):
            return np.dot(a, b)  # 0.3 us quicker than matmul
    return _gemm(a, b)


def _gemm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Any product: brought to the form of a stack of matrices."""
    dtype = np.result_type(a, b)
    if a.ndim == 0 or b.ndim == 0 or dtype.char not in _ONE_THREAD or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        return np.matmul(a, b)  # no product of BLAS, or no product at all: NumPy says why
    if a.ndim == 1:
        with blas_single():
            return np.matmul(a, b) if b.ndim == 1 else np.asarray(_gemm(a[None], b)[..., 0, :])
    if b.ndim == 1:
        return _gemm(a, b[:, None])[..., 0]
    a, b = _operand(a, dtype), _operand(b, dtype)
    if b.ndim == 2 and a.ndim > 2:  # one tall matrix instead of many
        return _gemm_stack(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return _gemm_stack(a, b)


def _operand(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x` with the dtype of the product, its matrices laid out as BLAS reads them: by rows or by columns."""
    x = x.astype(dtype, copy=False)
    size, rows, columns = dtype.itemsize, *x.shape[-2:]
    down, right = x.strides[-2:]
    by_rows = (right == size or columns == 1) and (rows == 1 or (down >= columns * size and down % size == 0))
    by_columns = (down == size or rows == 1) and (columns == 1 or (right >= rows * size and right % size == 0))
    return x if (by_rows or by_columns) and x.flags.aligned else np.ascontiguousarray(x)


def _gemm_stack(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of (stacks of) matrices, cut along the stack if it is long and else into tiles of each matrix."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(stack)
    work = count * m * k * n
    chunks = next((chunks for least, chunks in BLAS_CHUNKS if work >= least), 1)
    if chunks == 1:
        with blas_single():
            return np.matmul(a, b)
    if a.shape[:-2] != stack:
        a = np.broadcast_to(a, (*stack, m, k))
    if b.shape[:-2] != stack:
        b = np.broadcast_to(b, (*stack, k, n))
    out = np.empty((*stack, m, n), a.dtype)
    if count >= chunks:
        product = _cut_stack(a, b, out, chunks)
    else:
        product, chunks = _cut_matrices(a, b, out, -(-chunks // max(1, count)))
    parallel_for(product, chunks)
    return out


def _cut_stack(a: np.ndarray, b: np.ndarray, out: np.ndarray, chunks: int) -> Callable[[int], None]:
    """The function that computes one chunk, a range of the leading axes taken together."""
    stack, axes = out.shape[:-2], 1
    while math.prod(stack[:axes]) < chunks:
        axes += 1
    length = math.prod(stack[:axes])

    def product(chunk: int) -> None:
        start, stop = chunk * length // chunks, (chunk + 1) * length // chunks
        if axes == 1:
            np.matmul(a[start:stop], b[start:stop], out=out[start:stop])
        else:
            for flat in range(start, stop):
                index = np.unravel_index(flat, stack[:axes])
                np.matmul(a[index], b[index], out=out[index])

    return product


def _cut_matrices(a: np.ndarray, b: np.ndarray, out: np.ndarray, tiles: int) -> tuple[Callable[[int], None], int]:
    """The function that computes one tile of one matrix of the stack, and the number of tiles of the whole stack."""
    m, n = out.shape[-2:]
    rows = columns = 1
    while rows * columns < tiles:  # square tiles read the least
        if m * columns >= n * rows:
            rows *= 2
        else:
            columns *= 2
    high, wide = (-(-m // rows) + 15) & -16, (-(-n // columns) + 15) & -16  # no ragged vectors inside
    cuts = [(i, j) for i in range(0, m, high) for j in range(0, n, wide)]

    def product(tile: int) -> None:
        flat, cut = divmod(tile, len(cuts))
        i, j = cuts[cut]
        index = np.unravel_index(flat, out.shape[:-2]) if out.ndim > 2 else ()
        np.matmul(a[index][i : i + high], b[index][:, j : j + wide], out=out[index][i : i + high, j : j + wide])

    return product, len(cuts) * math.prod(out.shape[:-2])
