"""Compiled convolution with windows of one place: images are matrices, which the weight is multiplied by."""

from __future__ import annotations

from ferro.cpu.kernels.jit_blocks import ROWS, aligned, move, tallest
from ferro.cpu.kernels.jit_conv import u64
from ferro.cpu.kernels.jit_rows import multiples
from ferro.cpu.kernels.jit_vectors import BYTES, prefetch
from ferro.native.jit import kernel

_ROWS_APART = 128  # rows of an image, from which on what a block needs of them is copied into one place
_NEAR = 1 << 18  # numbers of an image and its result that stay in the second cache
_high = tallest()


@kernel
def in_equal_blocks(w, strides, packed):
    """`packed` (group, row, column) as blocks of rows, (column, row of the block) each, from the weight, whose strides for
    group, row and column are given. The last block ends with the last of strides[3] rows: some may stand there twice."""
    source, target = w.reshape(-1), packed.reshape(-1)
    groups, rows, columns = packed.shape
    to = u64(0)
    for g in range(groups):
        for block in range(rows // ROWS):
            at = g * strides[0] + min(block * ROWS, strides[3] - ROWS) * strides[1]
            for c in range(columns):
                for m in range(ROWS):
                    target[to] = source[u64(at + c * strides[2] + m * strides[1])]
                    to += u64(1)


@kernel
def multiply_images(w, x, bias, first, last, parts, out):
    """out[n, g] = w[g] x[n, g] + bias[g] for images as matrices (channel, place), each cut in so many parts, of which
    those from `first` to `last` are computed. `w` comes from `in_equal_blocks`, and results have at least its rows."""
    _, groups, columns, places = x.shape
    rows = out.shape[2]
    lanes = BYTES // x.itemsize
    step, blocks = 3 * lanes, w.shape[1] // ROWS
    far = groups * (columns + rows) * places > _NEAR
    source, target, packed, shift = x.reshape(-1), out.reshape(-1), w.reshape(-1), bias.reshape(-1)
    apart, near = multiples(places, columns), multiples(step, columns)
    panel = aligned(columns * step, x)
    for u in range(first, last):
        n, part = u // parts, u % parts
        begin, end = places * part // parts // step * step, places * (part + 1) // parts // step * step
        q = begin
        while q < (places if part == parts - 1 else end):
            vectors = min(3, (places - q) // lanes)
            q = q if vectors > 0 else places - lanes  # some places once more: all are summed in one go
            for g in range(groups):
                at = (n * groups + g) * columns * places + q
                copied = vectors == 3 and columns >= _ROWS_APART
                if copied:
                    for c in range(columns):
                        move(source, at + c * places, panel, c * step)
                for block in range(blocks):
                    o = min(block * ROWS, rows - ROWS)
                    wat = (g * w.shape[1] + block * ROWS) * columns
                    to, row = ((n * groups + g) * rows + o) * places + q, g * rows + o
                    for k in range(step, 2 * step, 64 // x.itemsize):  # of the next block
                        for c in range(block * columns // blocks, (block + 1) * columns // blocks):
                            prefetch(source, at + c * places + k)
                        for m in range(ROWS if far else 0):
                            prefetch(target, to + m * places + k)
                    if copied:
                        _high(panel, 0, near, 0, columns, packed, wat, 0, shift, row, target, to, places, True, 3)
                    else:
                        _high(
                            source, at, apart, 0, columns, packed, wat, 0, shift, row, target, to, places, True, vectors
                        )
            q += max(vectors, 1) * lanes
