"""Compiled factorisations of matrices, by the tile of jit_tile.py: LU and QR by blocks of columns; small Cholesky.

Note [Panels]
    Of a matrix that lies by rows a panel of columns is turned round, so that its columns are contiguous, and factored
    there column by column. What follows for the columns behind it is products of matrices, by the tile of jit_gemm.py.
    BLAS and LAPACK do the same with wider panels, and at orders of some hundreds most of their time goes into these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from ferro.cpu.kernels.jit_gemm import NEAR, multiply, room_left, room_right
from ferro.cpu.kernels.jit_linalg import substituted
from ferro.cpu.kernels.jit_panels import turned
from ferro.cpu.kernels.jit_rows import copy, dot
from ferro.cpu.kernels.jit_vectors import address, aligned, size_of
from ferro.cpu.kernels.tiles import FEW, PANEL
from ferro.native.jit import device, kernel, whole_registers


def _bits(x: Any) -> Any:
    """Floating-point numbers as integers."""


@overload(_bits, jit_options={"forceinline": True})
def _choose_bits(x):
    kind = np.int32 if x.dtype.bitwidth == 32 else np.int64
    return lambda x: x.view(kind)


@device
def _place_of_largest(x):
    """The first place of the largest size of numbers, or of nan. (LLVM finds no vectors in such loops but of integers.)"""
    bits = _bits(x)
    sizes, end = bits.dtype.type(-1) ^ np.iinfo(bits.dtype).min, len(bits)
    top = bits[0] & sizes
    for i in range(end):
        top = max(top, bits[i] & sizes)
    place = end
    for i in range(end):
        place = min(place, i if bits[i] & sizes == top else end)
    return place


# --- LU --------------------------------------------------------------------------------------------------------------


@device
def _swap(x, y):
    for j in range(x.size):
        x[j], y[j] = y[j], x[j]


@device
def _eliminated_panel(t, pivots):
    """The LU factors, in place, of a panel whose columns are the rows of t; the number of its first zero pivot, or 0."""
    width = len(t)
    first = 0
    for j in range(width):
        x = t[j]
        p = j + _place_of_largest(x[j:])
        pivots[j] = p
        if x[p] == 0:
            if first == 0:
                first = j + 1
            continue
        if p != j:
            for c in range(width):
                t[c, j], t[c, p] = t[c, p], t[c, j]
        pivot, below = x[j], x[j + 1 :]
        for i in range(below.size):
            below[i] /= pivot
        for c in range(j + 1, width):
            factor, y = t[c, j], t[c, j + 1 :]
            for i in range(y.size):
                y[i] -= factor * below[i]
    return first


@kernel
def eliminate_blocks(start, stop, a, pivots, info):
    """The LU factors, in place, of the matrices from `start` to `stop` of a stack, as LAPACK's getrf."""
    whole_registers()
    m, n = a.shape[1], a.shape[2]
    count = min(m, n)
    number = a.dtype.type(0)
    size = size_of(number)
    line = n * size
    of_left = np.empty(room_left(size, PANEL), np.uint8)
    of_right = np.empty(room_right(size, PANEL, n), np.uint8)
    of_t, of_u = np.empty(PANEL * m, a.dtype), np.empty(PANEL * n, a.dtype)  # (made here, they outlive their addresses)
    for s in range(start, stop):
        x = a[s]
        info[s] = 0
        for k in range(0, count, PANEL):
            width, rows = min(PANEL, count - k), m - k
            after, corner = k + width, address(x) + (k * n + k) * size
            t = of_t[: width * rows].reshape(width, rows)
            turned(number, corner, line, address(t), rows * size, rows, width)
            found = pivots[s, k:after]
            first = _eliminated_panel(t, found)
            turned(number, address(t), rows * size, corner, line, width, rows)
            if first != 0 and info[s] == 0:
                info[s] = k + first
            _swap_rows(x, k, after, found)
            if after < n:
                substituted(width, corner, n, 1, corner + width * size, n, n - after, True, a)
            if after < min(m, n):
                u = of_u[: width * (n - after)].reshape(width, n - after)
                for j in range(width):
                    for c in range(n - after):
                        u[j, c] = -x[k + j, after + c]
                rest = (address(x) + (after * n + after) * size, line)
                below, right = (rest[0] - width * size, line, size), (address(u), (n - after) * size, size)
                shape = (m - after, width, n - after)
                multiply(number, below, right, rest, rest, shape, aligned(of_left), aligned(of_right))


@device
def _swap_rows(x, k, after, pivots):
    """The exchanges of rows that a panel from column k to `after` asks for, outside of it; pivots are counted from 1 then."""
    for j in range(after - k):
        p = k + pivots[j]
        pivots[j] = p + 1
        if p != k + j:
            _swap(x[k + j, :k], x[p, :k])
            _swap(x[k + j, after:], x[p, after:])


@kernel
def log_determinants(start, stop, lu, pivots, sign, log):
    """The signs, and the logarithms of the sizes, of determinants by their LU factors."""
    for s in range(start, stop):
        product, total = lu.dtype.type(1), lu.dtype.type(0)
        for k in range(lu.shape[1]):
            number = lu[s, k, k]
            total += math.log(abs(number))
            if (number < 0) != (pivots[s, k] != k + 1):
                product = -product
            if number == 0 or math.isnan(number):
                product = number * number
        sign[s], log[s] = product, total


# --- Cholesky --------------------------------------------------------------------------------------------------------


@kernel
def root(a):
    """The lower triangular L with L Lᵀ = A, in the place of the matrices A of a stack. False if one is not positive definite."""
    n = a.shape[1]
    for s in range(len(a)):
        x = a[s]
        for i in range(n):
            for j in range(i):
                rest = x[i, j]
                for k in range(j):
                    rest -= x[i, k] * x[j, k]
                x[i, j] = rest / x[j, j]
                x[j, i] = 0
            rest = x[i, i]
            for k in range(i):
                rest -= x[i, k] * x[i, k]
            if not rest > 0:
                return False
            x[i, i] = math.sqrt(rest)
    return True


# --- QR --------------------------------------------------------------------------------------------------------------


@device
def _reflected_panel(v, tau, x, first, last):
    """The Householder vectors, as LAPACK chooses them, of the columns first to last of a matrix x; R takes their place in x.

    The columns are given as rows of v, zeros left of `first`, and become the vectors. False where the square of a length
    is too large or small a number.
    """
    low, high = np.finfo(v.dtype).tiny / np.finfo(v.dtype).eps, np.finfo(v.dtype).max / 4
    for j in range(first, last):
        base = j & -PANEL  # (left of the diagonal are zeros: whole vectors are read)
        own = v[j, base:]
        beta = alpha = v[j, j]
        factor = scale = v.dtype.type(0)
        v[j, j] = 0
        square = dot(own, own)
        if square > low:
            length = alpha * alpha + square
            if not length < high:
                return False
            beta = -math.copysign(math.sqrt(length), alpha)
            factor, scale = (beta - alpha) / beta, 1 / (alpha - beta)
        else:  # perhaps zeros, which are left as they are
            for i in range(own.size):
                if own[i] != 0:
                    return False
        for i in range(own.size):
            own[i] *= scale
        v[j, j], tau[j], x[j, j] = 1, factor, beta
        for c in range(j + 1, last):
            other = v[c, base:]
            part = factor * dot(own, other)
            for i in range(other.size):
                other[i] -= part * own[i]
            x[j, c], v[c, j] = v[c, j], 0
    return True


@kernel
def reflect_blocks(start, stop, m, a, q, r):
    """Q and R of the matrices from `start` to `stop` of those, each of m rows, that lie one below the other in a.

    False where numbers are so large or small that LAPACK's care is needed.
    """
    whole_registers()
    n, columns = a.shape[1], q.shape[1]
    count = min(m, n)
    number = a.dtype.type(0)
    size = size_of(number)
    widest = max(n, columns)
    of_left = np.empty(room_left(size, m), np.uint8)
    of_right = np.empty(room_right(size, m, PANEL if m <= FEW and m * widest * size <= NEAR else widest), np.uint8)
    v, tau = np.empty((count, m), a.dtype), np.empty(count, a.dtype)
    blocks = np.empty((count, PANEL), a.dtype)
    w, u = np.empty((PANEL, widest), a.dtype), np.empty((PANEL, widest), a.dtype)
    for s in range(start, stop):
        upper = r[s * columns : (s + 1) * columns]
        x = upper if columns == m else np.empty((m, n), a.dtype)
        for i in range(m):
            copy(a[s * m + i], x[i])
        for k in range(0, count, PANEL):
            width = min(PANEL, count - k)
            left, right = aligned(of_left), aligned(of_right)
            corner, own = address(x) + (k * n + k) * size, address(v) + (k * m + k) * size
            turned(number, corner, n * size, own, m * size, m - k, width)
            if not _reflected_panel(v, tau, x, k, k + width):
                return False
            _join(number, v, tau, blocks, k, width, right)
            if k + width < n:
                _reflect(number, v, blocks, x, k, width, k + width, True, w, u, left, right)
        for i in range(columns):
            upper[i, : min(i, n)] = 0
            if columns < m:
                copy(x[i, i:], upper[i, i:])
        y = q[s * m : (s + 1) * m]
        y[:] = 0
        for i in range(columns):
            y[i, i] = 1
        for k in range((count - 1) // PANEL * PANEL, -1, -PANEL):
            left, right = aligned(of_left), aligned(of_right)
            _reflect(number, v, blocks, y, k, min(PANEL, count - k), k, False, w, u, left, right)
    return True


@kernel
def reflect_back(start, stop, packed, tau, below, z, out, in_rows):
    """Q z for so many vectors z, PANEL of them at a time from number `start` to `stop`, where Q = H₁ H₂ ... of reflectors.

    These are rows of `packed` as LAPACK's sytrd and gebrd leave them: behind the diagonal and `below` numbers more stands what
    follows the 1 of a vector. z has as many vectors as these have numbers, as rows, and out columns, or (in_rows) z columns and
    out rows. They are filled up with zeros; vectors that z does not have are those of the unit matrix. What more the
    rows of packed and z have is not read.
    """
    whole_registers()
    count, m, vectors = len(tau), len(out), out.shape[1]
    if in_rows:
        m, vectors = vectors, m
    number = z.dtype.type(0)
    size = size_of(number)
    first, last = start * PANEL, min(stop * PANEL, vectors)
    n = last - first
    of_left = np.empty(room_left(size, m), np.uint8)
    of_right = np.empty(room_right(size, m, PANEL if m <= FEW and m * n * size <= NEAR else n), np.uint8)
    v, blocks = np.zeros((count, m), z.dtype), np.empty((count, PANEL), z.dtype)
    w, u = np.empty((PANEL, n), z.dtype), np.empty((PANEL, n), z.dtype)
    for i in range(count):
        v[i, i + below] = 1
        copy(packed[i, i + below + 1 : m], v[i, i + below + 1 :])
    x = np.zeros((m, n), z.dtype)
    _vectors(number, z, x, first, in_rows)
    for k in range((count - 1) // PANEL * PANEL, -1, -PANEL):
        left, right = aligned(of_left), aligned(of_right)
        width = min(PANEL, count - k)
        _join(number, v, tau, blocks, k, width, right)
        _reflect(number, v, blocks, x, k, width, 0, False, w, u, left, right)
    if in_rows:
        turned(number, address(x), n * size, address(out) + first * m * size, m * size, m, n)
    else:
        for i in range(m):
            copy(x[i], out[i, first:last])


@device
def _vectors(number, z, x, first, in_rows):
    """The vectors from number `first` on as the columns of x, which are zeros: see `reflect_back`."""
    n, size = x.shape[1], size_of(number)
    line, depth = z.shape[1] * size, len(z)
    given = min(max(depth - first, 0), n)
    if in_rows:
        for i in range(depth):
            copy(z[i, first : first + given], x[i, :given])
    else:
        turned(number, address(z) + first * line, line, address(x), n * size, given, depth)
    for c in range(given, n):
        x[first + c, c] = 1


@device
def _join(number, v, tau, blocks, k, width, right):
    """T with H₁ H₂ ... = I - V T Vᵀ for so many reflectors from number k on, the rows of v; `blocks` has its transpose."""
    size, m = size_of(number), v.shape[1]
    products = np.empty((width, width), v.dtype)
    vectors, target = address(v) + (k * m + k) * size, (address(products), width * size)
    given, turned_round = (vectors, m * size, size), (vectors, size, m * size)
    multiply(number, given, turned_round, target, (0, 0), (width, m - k, width), 0, right)
    for j in range(width):
        row = blocks[k + j]
        row[:] = 0
        for i in range(j):
            part = -tau[k + j] * products[i, j]
            for c in range(i + 1):
                row[c] += part * blocks[k + i, c]
        row[j] = tau[k + j]


@device
def _reflect(number, v, blocks, x, k, width, after, transposed, w, u, left, right):
    """x - V T Vᵀ x (transposed: V Tᵀ Vᵀ x) of the columns of x behind `after` and its rows behind k, in place."""
    size, m, n = size_of(number), v.shape[1], x.shape[1]
    columns, pitch = n - after, w.shape[1] * size
    vectors, first = address(v) + (k * m + k) * size, address(x) + (k * n + after) * size
    rest, first_w, first_u = (first, n * size), address(w), address(u)
    down, met = (vectors, m * size, size), (first, n * size, size)
    multiply(number, down, met, (first_w, pitch), (0, 0), (width, m - k, columns), left, right)
    for j in range(width):
        for c in range(columns):
            w[j, c] = -w[j, c]
    line = PANEL * size
    t = (address(blocks[k:]), line if transposed else size, size if transposed else line)
    multiply(number, t, (first_w, pitch, size), (first_u, pitch), (0, 0), (width, width, columns), left, right)
    across = (vectors, size, m * size)
    multiply(number, across, (first_u, pitch, size), rest, rest, (m - k, width, columns), left, right)
