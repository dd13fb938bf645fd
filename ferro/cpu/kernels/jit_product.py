"""A compiled product of two matrices that stay in the near caches: called with few arguments, for the kernel takes microseconds."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_gemm import is_copied, multiply, panels_room, room_left, room_right, tiles, turn_rows
from ferro.cpu.kernels.jit_panels import turned
from ferro.cpu.kernels.jit_vectors import address, aligned, size_of
from ferro.cpu.kernels.tiles import ROWS
from ferro.cpu.thresholds import NEAR_STEPS
from ferro.native.jit import device, kernel

_BAND = 24  # rows of a symmetric product that meet the same columns


@kernel
def product_near(start, stop, a, b, out, turned_a, turned_b):
    """The rows of tiles from `start` to `stop` of out = a b; what is turned is given as its transpose, in C's order.

    No more than FEW rows and NEAR bytes of b, see `multiply`.
    """
    m, n = out.shape
    k = len(a) if turned_a else a.shape[1]
    number = out.dtype.type(0)
    size = size_of(number)
    high = -(-m // ROWS)
    row, end = start * m // high, stop * m // high
    if turned_b and not turned_a and address(a) == address(b) and m == n and k <= NEAR_STEPS:
        _with_itself(number, a, out, row, end)
        return
    ra, ca = (size, m * size) if turned_a else (k * size, size)
    rb, cb = (size, k * size) if turned_b else (n * size, size)
    of_left = np.empty(room_left(size, k if is_copied(size, ra, ca) else 0), np.uint8)
    of_right = np.empty(room_right(size, k if turned_b else 0, n), np.uint8)
    met, target = (address(b), rb, cb), (address(out) + row * n * size, n * size)
    own = (address(a) + row * ra, ra, ca)
    multiply(number, own, met, target, (0, 0), (end - row, k, n), aligned(of_left), aligned(of_right))


@device
def _with_itself(number, a, out, row, end):
    """The rows from `row` to `end` of out = a aᵀ up to the diagonal, and what they are on its other side."""
    n, k = a.shape
    size = size_of(number)
    line = n * size
    of_panels = np.empty(panels_room(size, end, k), np.uint8)
    panels = aligned(of_panels)
    turn_rows(number, address(a), k * size, end, k, panels)
    for i in range(row, end, _BAND):
        rows = min(_BAND, end - i)
        here = address(out) + i * line
        tiles(number, (address(a) + i * k * size, k * size), rows, k, panels, i + rows, (here, line), (0, 0))
        turned(number, here, line, address(out) + i * size, line, rows, i)
