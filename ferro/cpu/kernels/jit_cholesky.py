"""Compiled Cholesky factors: by blocks of rows of the transposed factor, all steps in whole registers.

Note [Negative rests]
    The rows of Lᵀ are found in the place of the lower triangle of A, turned round and negative: a block of rows of -Aᵀ, plus
    the product of Lᵀ's rows above it, is what is left of the matrix, negative, since the product of jit_gemm.py adds.
    What lies below the diagonal of the turned triangle is never used.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.jit_gemm import multiply, room_left, room_right
from ferro.cpu.kernels.jit_linalg import substituted
from ferro.cpu.kernels.jit_panels import turned
from ferro.cpu.kernels.jit_vectors import LINE, address, aligned, size_of
from ferro.native.jit import device, kernel, whole_registers

_BLOCK = 16
_PAGE = 1 << 12  # bytes between lines that share a place in the first cache


@device
def _root_of_block(d, width):
    """The rows of Lᵀ, negative, in the place of those of -A: so many of _BLOCK rows. False where A is not positive definite."""
    added = np.empty(_BLOCK, d.dtype)
    for j in range(width):
        own = d[j]
        added[:] = 0
        for t in range(j):  # products are added up by themselves: small next to what is left, they round less
            row, factor = d[t], d[t, j]
            for c in range(_BLOCK):
                added[c] += factor * row[c]
        for c in range(_BLOCK):
            own[c] += added[c]
        rest = -own[j]
        if not rest > 0:
            return False
        pivot = math.sqrt(rest)
        for c in range(_BLOCK):
            own[c] = own[c] / pivot
    return True


@device
def _negative_rows(x, w, k, width):
    """The columns of x from number k on, below the diagonal, negative as rows of w: see Note [Negative rests]."""
    number = x.dtype.type(0)
    size, n = size_of(number), len(x)
    line, pitch, corner = n * size, w.shape[1] * size, k * size
    turned(number, address(x) + k * line + corner, line, address(w) + k * pitch + corner, pitch, n - k, width)
    for i in range(k, k + width):
        row = w[i, k:n]
        for c in range(row.size):
            row[c] = -row[c]


@kernel
def root_blocks(start, stop, a, out):
    """The lower triangular L with L Lᵀ = A for the matrices A from `start` to `stop` of a stack. False if one is not positive definite."""
    whole_registers()
    n = a.shape[1]
    number = a.dtype.type(0)
    size = size_of(number)
    line = n * size
    of_left = np.empty(room_left(size, n), np.uint8)
    of_right = np.empty(room_right(size, n, n), np.uint8)
    w, d = np.empty((n, n + (LINE // size if line % _PAGE == 0 else 0)), a.dtype), np.zeros((_BLOCK, _BLOCK), a.dtype)
    pitch = w.shape[1] * size
    for s in range(start, stop):
        y = out[s]
        for k in range(0, n, _BLOCK):
            width = min(_BLOCK, n - k)
            after, top = k + width, address(w) + k * size
            corner, left, right = top + k * pitch, aligned(of_left), aligned(of_right)
            _negative_rows(a[s], w, k, width)
            if k > 0:
                above, rest = (top, pitch, size), (corner, pitch)
                multiply(number, (top, size, pitch), above, rest, rest, (width, k, n - k), left, right)
            for i in range(width):
                for c in range(width):
                    d[i, c] = w[k + i, k + c]
            if not _root_of_block(d, width):
                return False
            if after < n:
                behind = corner + width * size
                substituted(width, address(d), 1, _BLOCK, behind, pitch // size, n - after, False, a)
                turned(number, behind, pitch, address(y) + after * line + k * size, line, width, n - after)
            for i in range(width):
                for c in range(i + 1):
                    y[k + i, k + c] = -d[c, i]
                y[k + i, k + i + 1 :] = 0
    return True
