"""Compiled gradient of 3 × 3 convolution by the weight, by Winograd's minimal products.

Note [Minimal products of a gradient]
    The products of Note [Minimal products] in jit_winograd.py are a bilinear form of images and taps, whose sum with a cotangent has the gradient by
    the taps in it: windows of images as above, times windows of the cotangent, (g0, g0 + g1, g0 - g1, -g1), summed over
    all windows; then what was done to the taps, transposed. What is summed over must not lie along a register, so here
    channels do: tiles are laid out as (place, channel).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ferro.cpu.kernels.jit_blocks import ROWS, aligned
from ferro.cpu.kernels.jit_conv import same_place
from ferro.cpu.kernels.jit_conv_weight import lay_out
from ferro.cpu.kernels.jit_rows import multiples
from ferro.cpu.kernels.jit_vectors import BYTES, Code, i64, written
from ferro.cpu.kernels.jit_winograd import both_ways, differences, multiply_windows, sixteen
from ferro.native.jit import kernel, whole_registers


def _spread(code: Code, g: list[Any]) -> list[Any]:
    """A window of the cotangent."""
    return [g[0], code.builder.fadd(*g), code.builder.fsub(*g), code.builder.fneg(g[1])]


def _gathered(code: Code, u: list[Any]) -> list[Any]:
    """`_taps` transposed."""
    sub, add, mul = code.builder.fsub, code.builder.fadd, code.builder.fmul
    half = ir.Constant(u[0].type, [0.5] * u[0].type.count)
    both = mul(add(u[1], u[2]), half)
    return [add(u[0], both), mul(sub(u[1], u[2]), half), add(both, u[3])]


@written(ROWS)
def _window_of_images(code, strip, at, down, across, target, to, apart):
    """A window of a register of channels, as 16 vectors."""
    b = code.builder
    rows = [[code.load(strip, at, b.mul(down, i64(i)), b.mul(across, i64(j))) for j in range(4)] for i in range(4)]
    for i, j, vector in both_ways(code, differences, rows):
        code.store(vector, target, b.add(to, b.mul(apart, i64(4 * i + j))))


@written(ROWS)
def _window_of_cotangents(code, strip, at, down, across, target, to, depth, apart):
    """A window of a register of results' channels, as 16 vectors of so many blocks, which are `depth` apart."""
    b = code.builder
    rows = [
        [code.load(strip, at), code.load(strip, at, across)],
        [code.load(strip, at, down), code.load(strip, at, down, across)],
    ]
    for i, j, vector in both_ways(code, _spread, rows):
        for k in range(code.lanes // ROWS):
            part = code.shuffled(vector, vector, list(range(k * ROWS, (k + 1) * ROWS)))
            code.store(part, target, to, b.add(b.mul(apart, i64(4 * i + j)), b.mul(depth, i64(k))))


@written(ROWS)
def _nine(code, sums, at, apart, target, to, pitch):
    """Nine vectors of taps, `pitch` apart, from 16."""
    b = code.builder
    for i, j, vector in both_ways(code, _gathered, sixteen(code, sums, at, apart)):
        code.store(vector, target, b.add(to, b.mul(pitch, i64(3 * i + j))))


@kernel
def winograd_by_taps(x, shape, start, g, g_shape, row, tiles, size, total):
    """Adds the gradient by the weight over the tiles to `total`, whose first row is `row` of the weight: see
    Note [Minimal products of a gradient].

    `size` windows are multiplied at a time; the shapes are (channel, height, width).
    """
    whole_registers()
    register = BYTES // x.itemsize
    lanes = max(ROWS, register)
    channels, outputs = shape[0], total.shape[0]
    wide, high = (channels + lanes - 1) // lanes * lanes, (outputs + lanes - 1) // lanes * lanes
    images, rows = tiles[0, 1] - tiles[0, 0], 0
    for t in range(len(tiles)):
        rows = max(rows, (tiles[t, 5] - tiles[t, 4] + 1) // 2 * 2)
    columns = (g_shape[2] + 1) // 2 * 2
    room = (rows + 2, columns + 2)
    strip, g_strip = aligned(images * room[0] * room[1] * wide, x), aligned(images * rows * columns * high, x)
    places = np.empty(max(shape[1], rows + 2) * max(shape[2], columns + 2) + lanes, np.int64)
    apart, g_apart, sums_apart = size * wide + lanes, size * high + lanes, high * wide + lanes
    v, packed, sums = aligned(16 * apart, x), aligned(16 * g_apart, x), aligned(16 * sums_apart, x)
    offsets, nothing = multiples(wide, size), np.zeros(ROWS, x.dtype)
    source, grads = x.reshape(-1), g.reshape(-1)
    for t in range(len(tiles)):
        tile = tiles[t]
        if t == 0 or not same_place(tiles, t):
            strip[:] = 0
            g_strip[:] = 0
        for n in range(tile[0], tile[1]):
            at = (n - tile[0]) * room[0] * room[1] * wide
            lay_out(source, n, 0, channels, shape, (tile[4] + start[0], start[1]), room, lanes, wide, places, strip, at)
            at = (n - tile[0]) * rows * columns * high
            some = (tile[5] - tile[4], columns)
            lay_out(grads, n, row, outputs, g_shape, (tile[4], 0), some, lanes, high, places, g_strip, at)
        down, across = (tile[5] - tile[4] + 1) // 2, columns // 2
        count = (tile[1] - tile[0]) * down * across
        for first in range(0, count, size):
            some = min(size, count - first)
            for i in range(some):
                p = first + i
                n, y, z = p // across // down, p // across % down * 2, p % across * 2
                at = ((n * room[0] + y) * room[1] + z) * wide
                for c in range(0, wide, lanes):
                    _window_of_images(strip, at + c, room[1] * wide, wide, v, i * wide + c, apart)
                at = ((n * rows + y) * columns + z) * high
                for o in range(0, high, lanes):
                    to = o * size + i * ROWS
                    _window_of_cotangents(g_strip, at + o, columns * high, high, packed, to, ROWS * size, g_apart)
            for k in range(16):
                multiply_windows(
                    v,
                    k * apart,
                    offsets,
                    some,
                    packed,
                    k * g_apart,
                    size,
                    high // ROWS,
                    nothing,
                    sums,
                    k * sums_apart,
                    wide,
                    wide,
                    register,
                    t == 0 and first == 0,
                )
    taps = np.empty(9 * lanes, x.dtype)
    for o in range(outputs):
        for c in range(0, channels, lanes):
            _nine(sums, o * wide + c, sums_apart, taps, 0, lanes)
            for i in range(min(lanes, channels - c)):
                for k in range(9):
                    total[o, c + i, k] += taps[k * lanes + i]
