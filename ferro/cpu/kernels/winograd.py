"""Convolution of images with 3 × 3 taps, stride 1, by Winograd's minimal products: see the note in jit_winograd.py.

Tiles are some images, or rows of one; tiles and chunks of tiles depend on the sizes alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels.common import MOST_CHUNKS
from ferro.cpu.thresholds import CONV_CHUNK, CONV_TOTALS, WINOGRAD_MANY, WINOGRAD_SHARED, WINOGRAD_STRIP
from ferro.native import readiness
from ferro.native.workers import run_parts, run_rows

Ints = tuple[int, ...]

_KERNELS = kernels("jit_winograd.winograd winograd_taps")
_BY_TAPS = kernels("jit_winograd_weight.winograd_by_taps")
WINDOWS = 96  # that are multiplied at a time: they stay in the second cache
SHARES = 4
APART = 256  # windows at least that a chunk sums apart
MANY_ROWS = 256  # of the weight, for which chunks may prepare the same windows once more
WINDOW_COST = 130  # what it costs to prepare a window of one channel, in multiplications; a result likewise
TAPS_COST = 1000  # what it costs to prepare the taps for one channel


class _Grid(NamedTuple):
    """How images are cut: the arguments of the kernel."""

    room: Ints
    reach: Ints
    tiles: np.ndarray
    parts: int  # in which the tiles are shared


def _pieces(height: int, width: int) -> int:
    """Four windows each, that give the results of an image."""
    return -(-height // 2) * -(-width // 8)


def suits(x: np.ndarray, outputs: int, height: int, width: int) -> bool:
    """Whether `correlate` is quicker than a sum of shifted images, for results of this height and width."""
    return pays(x.shape[0], x.shape[1], outputs, height, width) and readiness.ready(_KERNELS, x.dtype)


def suits_by_taps(x: np.ndarray, outputs: int, height: int, width: int) -> bool:
    """Whether `by_taps` is quicker than a sum of shifted images, for cotangents of this height and width."""
    return pays_by_taps(x.shape[0], x.shape[1], outputs, height, width) and readiness.ready(_BY_TAPS, x.dtype)


def pays(batch: int, channels: int, outputs: int, height: int, width: int) -> bool:
    """What `suits` asks, but for the kernels."""
    if min(height, width) < 2:
        return False
    windows = 4 * batch * _pieces(height, width)
    both = channels * outputs
    cost = windows * (16 * both + WINDOW_COST * (channels + outputs)) + TAPS_COST * both
    return cost < 9 * both * batch * height * width


@lru_cache(maxsize=256)
def _grid(batch: int, channels: int, height: int, width: int, work: int, least: int) -> _Grid:
    """For results of this height and width, and so many channels of images; `least` tiles, if that is not too many."""
    line = max(width, 8) + 2
    parts = 1
    while height > 4 * parts and (channels * (height // parts + 4) * line > WINOGRAD_STRIP or batch * parts < least):
        parts += 1
    rows = 2 * -(-height // (2 * parts))
    cuts = [(a, min(a + rows, height)) for a in range(0, height, rows)]
    if cuts[-1][1] - cuts[-1][0] == 1:  # a window has two rows of results
        cuts[-2:] = [(cuts[-2][0], height)]
    most = max([b - a for a, b in cuts])
    few = -(-WINDOWS // (8 * _pieces(height, width)))  # images for half as many windows as are multiplied at a time
    images = min(WINOGRAD_STRIP // (channels * (most + 2) * line), max(-(-batch // least), few))
    images = 1 if len(cuts) > 1 else max(1, min(images, batch))
    tiles = [[n, min(n + images, batch), 0, 1, a, b, 0, width] for a, b in cuts for n in range(0, batch, images)]
    parts = max(1, min(len(tiles), MOST_CHUNKS, work // CONV_CHUNK))
    return _Grid(
        room=(1, most + 2, line),
        reach=(0, 2, line - width),
        tiles=np.array(tiles, np.int64),
        parts=parts,
    )


def _prepared(w: np.ndarray, turned: bool) -> np.ndarray:
    """The 16 factors of the taps; turned: flipped, rows being the channels of images."""
    outputs, channels = w.shape[:2]
    rows, columns = (channels, outputs) if turned else (outputs, channels)
    strides = (9, 9 * channels, rows) if turned else (9 * channels, 9, rows)
    packed = np.empty((16, -(-rows // 8) * 8, columns), w.dtype)
    blocks = packed.shape[1] // 8
    chunks = min(blocks, MOST_CHUNKS, blocks * TAPS_COST * 8 * columns // CONV_CHUNK)
    run_rows("winograd_taps", chunks, blocks, (w, strides, turned, 0, blocks, packed), -1, 3)
    return packed.reshape(-1)


def correlate(x: np.ndarray, w: np.ndarray, turned: bool, bias: np.ndarray, padding: Ints, out: np.ndarray) -> bool:
    """Writes the convolution of x (batch, channel, 1, height, width) with w, or with its transpose, to `out`.

    False if there is an infinity or nan in it: then infinities and nan may stand in some places too many.
    """
    batch, channels = x.shape[:2]
    outputs, _, height, width = out.shape[1:]
    cost = 64 * batch * _pieces(height, width) * channels * outputs
    grid = _grid(batch, channels, height, width, cost, SHARES if cost > WINOGRAD_SHARED else 1)
    windows = WINDOWS if channels + outputs < WINOGRAD_MANY else WINDOWS // 2
    packed = _prepared(w, turned)
    seen = np.zeros(grid.parts * 16, x.dtype)
    args = (
        x,
        x.shape[1:],
        (0, -padding[1], -padding[2]),
        grid.room,
        grid.reach,
        grid.tiles,
        windows,
        packed,
        bias,
        out,
        (outputs, height, width),
        seen,
    )
    run_parts("winograd", grid.parts, args, ~(1 << 5 | 1 << 11))
    return not np.isnan(seen).any()


def pays_by_taps(batch: int, channels: int, outputs: int, height: int, width: int) -> bool:
    """What `suits_by_taps` asks, but for the kernels."""
    if min(height, width) < 2:
        return False
    windows = batch * -(-height // 2) * -(-width // 2)
    both = -(-channels // 16) * 16 * outputs  # channels lie along registers
    cost = windows * (16 * both + WINDOW_COST * (channels + outputs)) + TAPS_COST * both
    return cost < 9 * channels * outputs * batch * height * width


def by_taps(g: np.ndarray, x: np.ndarray, padding: Ints, total: np.ndarray) -> None:
    """Adds the gradient by the weight to zeros (result channel, channel, 9). An infinity or nan may reach too many places."""
    batch, channels, _, height, width = x.shape
    outputs, _, *size = g.shape[1:]
    windows = batch * -(-size[0] // 2) * -(-size[1] // 2)
    work = 16 * windows * channels * outputs
    parts = max(1, min(work // CONV_CHUNK, MOST_CHUNKS, windows // APART, CONV_TOTALS // (16 * channels * outputs)))
    tiles = _grid(batch, channels + outputs, *size, work, parts).tiles
    parts = min(parts, len(tiles))
    ranges = max(1, min(SHARES // parts, outputs // MANY_ROWS))
    some = WINDOWS if channels + outputs < WINOGRAD_MANY else WINDOWS * 4 // 3
    images, start, results = (channels, height, width), (-padding[1], -padding[2]), (outputs, *size)
    if parts == 1:  # the rows of the weight are shared
        args = (x, images, start, g, results, 0, tiles, some, total)
        run_rows("winograd_by_taps", ranges, outputs, args, ~(1 << 8), 5)
        return
    for k in range(ranges):
        rows = slice(outputs * k // ranges, outputs * (k + 1) // ranges)
        sums = np.zeros((parts * (rows.stop - rows.start), channels, 9), total.dtype)
        args = (x, images, start, g, results, rows.start, tiles, some, sums)
        run_parts("winograd_by_taps", parts, args, ~(1 << 6 | 1 << 8))
        total[rows] += np.add.reduce(sums.reshape(parts, -1, channels, 9), 0)
