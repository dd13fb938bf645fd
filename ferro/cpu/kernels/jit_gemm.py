"""Compiled products of matrices and stacks of them, by the tile of jit_tile.py.

Note [Blocks]
    b is copied in blocks that stay in the second cache, the columns of a tile lying together. The rows of a tile, which
    stay in the first cache, meet all columns of the block before the next rows of a come. Thus c is walked along its rows.
    Few rows read b where it lies; if its columns are contiguous, the transposed product is computed, for which the few
    rows of a are turned round instead of b. Where the columns of a are contiguous, the rows of a tile are copied together
    if many columns are to meet them: as they lie, a column to a line of the cache, they would drive each other out. So
    would rows that are a page apart, since their lines share few places of the first cache: they are copied likewise.

    The inner dimension is cut by its length alone, so every number is summed in the same order wherever it stands in
    the result, and the result may be cut at will.

    A matrix is (address, distance of rows, of columns), both in bytes; of c and start the columns are contiguous, and they
    are (address, distance of rows).
"""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.jit_panels import LEFT, copy_group, copy_panels, tile_columns, turned
from ferro.cpu.kernels.jit_strided_copy import copy_bytes
from ferro.cpu.kernels.jit_tile import tile
from ferro.cpu.kernels.jit_vectors import BYTES, LINE, address, aligned, size_of
from ferro.cpu.kernels.tiles import FEW, ROWS, VECTORS
from ferro.native.jit import device, kernel, once

_DEEP = 512  # steps of the inner dimension that are summed at a time
_BROAD = 16  # tiles beside each other for which b is copied at a time
_SEVERAL = 3  # tiles beside each other for which it pays to copy a where its columns are contiguous
_GROUP = 4  # tiles for which rows of a are put together
_PAGE = 1 << 12  # bytes between lines that share a place in the first cache
_PANELS = 1 << 14  # bytes of panels that stay in the first cache
NEAR = 1 << 20  # bytes of b that stay in the second cache while they are read again and again


@device
def room_left(size, k):
    """Bytes that `multiply` needs for what it copies of a."""
    return _GROUP * LEFT * (min(k, _DEEP) * size + LINE)


@device
def is_copied(size, row_step, column_step):
    """Whether `multiply` copies rows of an a with those distances, if many columns are to meet them."""
    return column_step != size or row_step % _PAGE == 0


@device
def room_right(size, k, n):
    """Bytes that it needs for what it copies of b."""
    wide = tile_columns(size)
    return min(-(-n // wide), _BROAD) * wide * min(k, _DEEP) * size + LINE


@device
def panels_room(size, rows, width):
    """Bytes for a matrix that `turn_rows` makes."""
    wide = tile_columns(size)
    return -(-rows // wide) * wide * width * size + LINE


@device
def turn_rows(number, source, step, rows, width, target):
    """A matrix with contiguous rows as the tile reads it: its columns by panels of the tile's width."""
    copy_panels(number, (source, size_of(number), step), target, rows, width)


@device
def tiles(number, a, rows, steps, panels, columns, c, start):
    """c = a b (+ start) for an a whose rows are contiguous, (address, distance of rows), and a b that `turn_rows` has made.

    All rows meet some panels, which stay in the first cache, before the next panels come.
    """
    size = size_of(number)
    wide, panel = tile_columns(size), steps * VECTORS * BYTES
    count, broad = -(-rows // ROWS), wide * max(1, _PANELS // max(panel, 1))
    for q in range(0, columns, broad):
        for i in range(count):
            row = i * rows // count
            height, own = (i + 1) * rows // count - row, (a[0] + row * a[1], a[1], size)
            for j in range(q, min(q + broad, columns), wide):
                shape, b = (height, min(wide, columns - j), steps), (panels + j * steps * size, VECTORS * BYTES)
                first = start[0] + row * start[1] + j * size if start[0] else 0
                tile(number, shape, own, b, (c[0] + row * c[1] + j * size, c[1]), (first, start[1]))


@once
def multiply(number, a, b, c, start, shape, left, right):
    """c = a b (+ start, unless its address is 0) for a shape (rows, steps, columns): see Note [Blocks].

    Room for copies of a and b, of `room_left` and `room_right` bytes, begins at `left` and `right`.
    """
    size, (m, k, n) = size_of(number), shape
    wide = tile_columns(size)
    broad, together = _BROAD * wide, is_copied(size, a[1], a[2]) and n >= _SEVERAL * wide
    parts = max(1, -(-k // _DEEP))
    for p in range(parts):
        t = p * k // parts
        steps = (p + 1) * k // parts - t
        near = b[2] == size and (m <= ROWS or (m <= FEW and steps * b[1] <= NEAR))
        for q in range(0, n, broad):
            columns = min(broad, n - q)
            met = (b[0] + t * b[1] + q * b[2], b[1], b[2])
            panels, apart = (met[0], size) if near else (right, steps * size)
            if not near:
                copy_panels(number, met, right, columns, steps)
            first = (start[0] + q * size if start[0] else 0, start[1]) if p == 0 else (c[0] + q * size, c[1])
            own = (a[0] + t * a[2], a[1], a[2])
            step = met[1] if near else VECTORS * BYTES
            _rows_of_tiles(
                number, own, together, (panels, apart, step), (c[0] + q * size, c[1]), first, (m, steps, columns), left
            )


@once
def _rows_of_tiles(number, a, together, b, c, start, shape, left):
    """One block of a product: b is (address, distance of columns, of steps), copied or where it lies."""
    size, (m, steps, columns) = size_of(number), shape
    wide, count, row = tile_columns(size), -(-m // ROWS), 0
    height, more = m // count, m % count
    for i in range(count):
        rows = height + (i < more)
        own = (a[0] + row * a[1], a[1], a[2])
        if together and a[2] == size:
            line = steps * size + LINE
            for r in range(rows):
                copy_bytes(left + r * line, own[0] + r * a[1], steps * size)
            own = (left, line, size)
        elif together:
            if i % _GROUP == 0:
                copy_group(number, own[0], a[2], left, height, more - i, min(_GROUP, count - i), steps)
            own = (left + i % _GROUP * steps * LEFT * size, a[1], LEFT * size)
        for j in range(0, columns, wide):
            first = start[0] + row * start[1] + j * size if start[0] else 0
            place, shape_of_tile = c[0] + row * c[1] + j * size, (rows, min(wide, columns - j), steps)
            tile(number, shape_of_tile, own, (b[0] + j * b[1], b[2]), (place, c[1]), (first, start[1]))
        row += rows


@kernel
def _multiply_turned(number, a, b, c, start, shape, left):
    """The same by way of cᵀ = bᵀ aᵀ (+ startᵀ), where the rows of a and the columns of b are contiguous."""
    size, (m, k, n) = size_of(number), shape
    broad, line = _BROAD * tile_columns(size), m * size
    of_right, of_turned = np.empty(room_right(size, k, m), np.uint8), np.empty(line * min(n, broad) + LINE, np.uint8)
    for q in range(0, n, broad):
        right, place = aligned(of_right), aligned(of_turned)
        columns = min(broad, n - q)
        if start[0]:
            turned(number, start[0] + q * size, start[1], place, line, m, columns)
        first = (place if start[0] else 0, line)
        own, met = (b[0] + q * b[2], b[2], size), (a[0], size, a[1])
        multiply(number, own, met, (place, line), first, (columns, k, m), left, right)
        turned(number, place, line, c[0] + q * size, c[1], columns, m)


@kernel
def product_part(first, last, c, a, b, start, plan):
    """c = a b (+ start) for two dimensions of matrices, so far as it lies in some of their rows of tiles.

    The parts of the rows of all matrices are counted through; if there are none, the columns of tiles, and taken from
    every matrix. Of an array that is large, or not contiguous, any part that begins where it does will do.
    The rows or the columns of the matrices of a and b are contiguous, and the rows of c and start.

    The plan says how many matrices there are in each dimension, rows, steps of the inner dimension, columns, and whether
    there is a start; then how many bytes lie between the matrices of the first dimension in c, a, b and start, likewise of
    the second, between rows, and between columns; at last, in how many parts the rows of a matrix are cut, or 0.
    """
    inner, m, k, n, started, high = plan[1], plan[2], plan[3], plan[4], plan[5], plan[22]
    rc, ra, rb, rs, ca, cb = plan[14], plan[15], plan[16], plan[17], plan[19], plan[20]
    number = c.dtype.type(0)
    size = size_of(number)
    left_column, right_column = 0, n
    if high == 0:
        wide = tile_columns(size)
        left_column, right_column = first * wide, min(last * wide, n)
        first, last, high = 0, plan[0] * inner, 1
    columns = right_column - left_column
    is_left_copied = is_copied(size, ra, ca) or is_copied(size, cb, size)  # (b takes its place if it is turned round)
    of_left = np.empty(room_left(size, k if is_left_copied else 0), np.uint8)
    of_right = np.empty(room_right(size, k, columns), np.uint8)
    while first < last:
        # (Addresses are taken here since Numba frees an array once nobody mentions it any more.)
        left, right = aligned(of_left), aligned(of_right)
        s = first // high
        until = min(last, (s + 1) * high)
        row, end = (first - s * high) * m // high, (until - s * high) * m // high
        p, q, rows = s // inner, s % inner, end - row
        of_a = (address(a) + p * plan[7] + q * plan[11] + row * ra, ra, ca)
        of_b = (address(b) + p * plan[8] + q * plan[12] + left_column * cb, rb, cb)
        of_c = (address(c) + p * plan[6] + q * plan[10] + row * rc + left_column * size, rc)
        of_start = (address(start) + p * plan[9] + q * plan[13] + row * rs + left_column * size if started else 0, rs)
        if ca == size and cb != size and ROWS <= rows <= FEW and 2 * columns * k > 3 * rows * (k + columns):
            _multiply_turned(number, of_a, of_b, of_c, of_start, (rows, k, columns), left)
        else:
            multiply(number, of_a, of_b, of_c, of_start, (rows, k, columns), left, right)
        first = until
