"""Convolution of NumPy arrays in one to three dimensions, and its two transposes.

x is (batch, channel, place...), w is (result channel, channel / groups, tap...), and stride, padding and dilation are
tuples with one number per dimension of place. Nothing is conjugated.

Each image becomes a matrix of patches, a tile of some hundred places at a time, and a product of matrices does the
rest. Tiles and chunks depend on the sizes alone; each product runs on one BLAS thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from ferro.cpu import kernels
from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, SMALL, contiguous, has_kernel, is_half, split, widened
from ferro.cpu.threads import blas_single, gemm

Ints = tuple[int, ...]

TILE_BYTES = 1 << 20  # a matrix of patches that is no larger is not cut into tiles
TILE_PLACES = 256
CHUNK_WORK = 1 << 22  # multiplications of a chunk: about 80 us


class _Plan(NamedTuple):
    """A convolution in three dimensions of place, missing ones having size 1."""

    size: Ints  # taps
    stride: Ints
    padding: Ints
    dilation: Ints
    image: Ints  # (channel, depth, height, width) of x
    out: Ints  # (channel, depth, height, width) of the result
    groups: int

    @property
    def rows(self) -> int:
        """Rows of the matrix of patches: channels of a group times taps."""
        return self.image[0] // self.groups * math.prod(self.size)

    @property
    def lines(self) -> int:
        return self.out[1] * self.out[2]

    @property
    def places(self) -> int:
        return math.prod(self.out[1:])

    @property
    def work(self) -> int:
        """Multiplications for one image."""
        return self.rows * math.prod(self.out)

    def tiles(self, itemsize: int) -> list[tuple[int, int]]:
        """The ranges of lines that are computed together."""
        width = self.out[3]
        if self.rows * self.groups * self.lines * width * itemsize <= TILE_BYTES:
            return [(0, self.lines)]
        step = max(1, TILE_PLACES // width)
        return [(i, min(i + step, self.lines)) for i in range(0, self.lines, step)]

    @property
    def is_product(self) -> bool:
        """Whether the patches are the image itself."""
        return self.size == self.stride == (1, 1, 1) and self.padding == (0, 0, 0)

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.image[0] > 1

    @property
    def geometry(self) -> tuple:
        return self.size, self.stride, self.padding, self.dilation, self.out[1:]


def out_size(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Places of the result along one dimension."""
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


def _plan(x_shape: Ints, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> _Plan:
    """The plan, every tuple filled up to three dimensions in front."""
    n = len(x_shape) - 2
    ones, zeros = (1,) * (3 - n), (0,) * (3 - n)
    out = [out_size(*each) for each in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)]
    return _Plan(
        size=ones + tuple(w_shape[2:]),
        stride=ones + tuple(stride),
        padding=zeros + tuple(padding),
        dilation=ones + tuple(dilation),
        image=(x_shape[1], *ones, *x_shape[2:]),
        out=(w_shape[0], *ones, *out),
        groups=groups,
    )


def _result_shape(plan: _Plan, batch: int, n: int) -> Ints:
    return (batch, plan.out[0], *plan.out[4 - n :])


# --- the three functions ---------------------------------------------------------------------------------------------


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The convolution (cross-correlation) of x with w, plus a bias per channel."""
    if is_half(x):
        return conv(widened(x), widened(w), widened(bias), stride, padding, dilation, groups).astype(x.dtype)
    plan = _plan(x.shape, w.shape, stride, padding, dilation, groups)
    shape = _result_shape(plan, len(x), x.ndim - 2)
    if math.prod(shape) == 0 or not _is_large(x, shape):
        out = _conv_numpy(x, w, plan).reshape(shape)
    else:
        out = np.empty((len(x), *plan.out), x.dtype)
        images, taps = contiguous(x).reshape(len(x), *plan.image), contiguous(w, x.dtype)
        if plan.is_depthwise:
            _depthwise(images, taps, plan, out)
        else:
            _conv(images, taps, plan, out)
        out = out.reshape(shape)
    if bias is not None:
        out += bias.reshape(-1, *[1] * (x.ndim - 2))
    return out


def conv_dx(
    g: np.ndarray, w: np.ndarray, x_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in x: what each input place gets back from the places it went to."""
    if is_half(g):
        return conv_dx(widened(g), widened(w), x_shape, stride, padding, dilation, groups).astype(g.dtype)
    plan = _plan(x_shape, w.shape, stride, padding, dilation, groups)
    if g.size == 0 or not _is_large(g, x_shape):
        return _conv_dx_numpy(g, w, plan).reshape(x_shape)
    out = np.zeros((len(g), *plan.image), g.dtype)
    grads, taps = contiguous(g).reshape(len(g), *plan.out), contiguous(w, g.dtype)
    if plan.is_depthwise:
        _depthwise_dx(grads, taps, plan, out)
    else:
        _conv_dx(grads, taps, plan, out)
    return out.reshape(x_shape)


def conv_dw(
    g: np.ndarray, x: np.ndarray, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in w, summed over the batch."""
    if is_half(x):
        return conv_dw(widened(g), widened(x), w_shape, stride, padding, dilation, groups).astype(x.dtype)
    plan = _plan(x.shape, w_shape, stride, padding, dilation, groups)
    if g.size == 0 or not _is_large(x, g.shape):
        return _conv_dw_numpy(g, x, plan).reshape(w_shape)
    grads, images = contiguous(g, x.dtype).reshape(len(g), *plan.out), contiguous(x).reshape(len(x), *plan.image)
    work = _depthwise_dw if plan.is_depthwise else _conv_dw
    return work(grads, images, plan).reshape(w_shape)


def _is_large(x: np.ndarray, other: Ints) -> bool:
    """Whether kernels do the work: they take the dtype, and input or result have enough elements."""
    return has_kernel(x) or (math.prod(other) >= SMALL and x.dtype.char in "fd")


# --- matrices of patches ---------------------------------------------------------------------------------------------


def _patches(image: np.ndarray, plan: _Plan, start: int, stop: int) -> np.ndarray:
    """The patches that the lines from `start` to before `stop` see: (groups, rows, places)."""
    width = plan.out[3]
    if plan.is_product:
        return image.reshape(plan.groups, plan.rows, -1)[:, :, start * width : stop * width]
    columns = np.empty((plan.groups * plan.rows, (stop - start) * width), image.dtype)
    kernels.get("im2col")(image, *plan.geometry, start, columns)
    return columns.reshape(plan.groups, plan.rows, -1)


def _conv(x: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    taps = w.reshape(plan.groups, -1, plan.rows)
    tiles = plan.tiles(x.itemsize)
    width = plan.out[3]
    results = out.reshape(len(x), plan.groups, taps.shape[1], -1)

    def work(first: int, last: int) -> None:
        for unit in range(first, last):
            image, tile = divmod(unit, len(tiles))
            start, stop = tiles[tile]
            target = results[image, :, :, start * width : stop * width]
            np.matmul(taps, _patches(x[image], plan, start, stop), out=target)

    with blas_single():
        split(len(x) * len(tiles), CHUNK_WORK // (plan.work // len(tiles) + 1), work)


def _conv_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    """Cut by images, and by blocks of channels if there are few images: lines overlap in what they give back."""
    groups, channels = plan.groups, plan.image[0]
    taps = w.reshape(groups, plan.out[0] // groups, channels // groups, -1)
    blocks = 1 if groups > 1 else min(channels, -(-8 // len(g)))
    tiles = plan.tiles(g.itemsize)
    width = plan.out[3]
    grads = g.reshape(len(g), groups, plan.out[0] // groups, -1)

    def work(first: int, last: int) -> None:
        for unit in range(first, last):
            image, block = divmod(unit, blocks)
            begin, end = channels * block // blocks, channels * (block + 1) // blocks
            some = taps if blocks == 1 else taps[:, :, begin:end]
            transposed = some.reshape(groups, some.shape[1], -1).swapaxes(1, 2)
            for start, stop in tiles:
                columns = np.matmul(transposed, grads[image, :, :, start * width : stop * width])
                kernels.get("col2im")(
                    columns.reshape(-1, columns.shape[2]), *plan.geometry, start, out[image, begin:end]
                )

    with blas_single():
        split(len(g) * blocks, CHUNK_WORK // (plan.work // blocks + 1), work)


def _conv_dw(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    groups = plan.groups
    tiles = plan.tiles(x.itemsize)
    width = plan.out[3]
    grads = g.reshape(len(g), groups, plan.out[0] // groups, -1)

    def work(first: int, last: int) -> np.ndarray:
        total = np.zeros((groups, plan.rows, plan.out[0] // groups), x.dtype)
        for unit in range(first, last):
            image, tile = divmod(unit, len(tiles))
            start, stop = tiles[tile]
            one = grads[image, :, :, start * width : stop * width].swapaxes(1, 2)
            total += np.matmul(_patches(x[image], plan, start, stop), one)  # quicker than g times patchesᵀ
        return total

    with blas_single():
        total = _sum_of_chunks(len(x) * len(tiles), CHUNK_WORK // (plan.work // len(tiles) + 1), work)
    return np.ascontiguousarray(total.swapaxes(1, 2))


def _sum_of_chunks(length: int, grain: int, work: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """The sum, in fixed order, of what work(start, stop) returns for the parts of range(length)."""
    parts = max(1, min(length // max(grain, 1), MOST_CHUNKS))
    results: list[np.ndarray | None] = [None] * parts

    def part(first: int, last: int) -> None:
        for index in range(first, last):
            results[index] = work(length * index // parts, length * (index + 1) // parts)

    split(parts, 1, part)
    total = results[0]
    assert total is not None
    for other in results[1:]:
        total += other
    return total


# --- each channel by itself ------------------------------------------------------------------------------------------


def _depthwise(x: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    run = kernels.get("depthwise")
    taps = w.reshape(-1, *plan.size)
    fixed = taps, plan.stride, plan.padding, plan.dilation
    split(len(x), GRAIN // plan.work + 1, lambda i, j: run(_planes(x[i:j]), *fixed, _planes(out[i:j])))


def _depthwise_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    run = kernels.get("depthwise_dx")
    taps = w.reshape(-1, *plan.size)
    fixed = taps, plan.stride, plan.padding, plan.dilation
    split(len(g), GRAIN // plan.work + 1, lambda i, j: run(_planes(g[i:j]), *fixed, _planes(out[i:j])))


def _depthwise_dw(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    run = kernels.get("depthwise_dw")

    def work(first: int, last: int) -> np.ndarray:
        total = np.zeros((plan.out[0], *plan.size), x.dtype)
        fixed = plan.stride, plan.padding, plan.dilation
        run(_planes(g[first:last]), _planes(x[first:last]), *fixed, total)
        return total

    return _sum_of_chunks(len(x), GRAIN // plan.work + 1, work)


def _planes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, *x.shape[2:])


# --- NumPy -----------------------------------------------------------------------------------------------------------


def _windows(x: np.ndarray, plan: _Plan) -> np.ndarray:
    """The matrices of patches of all images: (groups, rows, batch × places)."""
    padded = np.zeros((len(x), plan.image[0], *[n + 2 * p for n, p in zip(plan.image[1:], plan.padding)]), x.dtype)
    padded[_core(plan)] = x.reshape(len(x), *plan.image)
    steps = padded.strides[2:]
    windows = np.lib.stride_tricks.as_strided(
        padded,
        (len(x), plan.image[0], *plan.size, *plan.out[1:]),
        (
            *padded.strides[:2],
            *[s * d for s, d in zip(steps, plan.dilation)],
            *[s * d for s, d in zip(steps, plan.stride)],
        ),
        writeable=False,
    )
    return windows.transpose(1, 2, 3, 4, 0, 5, 6, 7).reshape(plan.groups, plan.rows, len(x) * plan.places)


def _core(plan: _Plan) -> tuple:
    """The part of a padded batch that is not padding."""
    return (slice(None), slice(None), *[slice(p, p + n) for n, p in zip(plan.image[1:], plan.padding)])


def _by_group(g: np.ndarray, plan: _Plan) -> np.ndarray:
    """An array like the result as (groups, channels of a group, batch × places)."""
    channels_first = g.reshape(len(g), plan.out[0], plan.places).transpose(1, 0, 2)
    return channels_first.reshape(plan.groups, plan.out[0] // plan.groups, len(g) * plan.places)


def _conv_numpy(x: np.ndarray, w: np.ndarray, plan: _Plan) -> np.ndarray:
    out = gemm(w.reshape(plan.groups, plan.out[0] // plan.groups, plan.rows), _windows(x, plan))
    return np.ascontiguousarray(out.reshape(plan.out[0], len(x), plan.places).transpose(1, 0, 2))


def _conv_dw_numpy(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    return gemm(_by_group(g, plan), _windows(x, plan).swapaxes(1, 2))


def _conv_dx_numpy(g: np.ndarray, w: np.ndarray, plan: _Plan) -> np.ndarray:
    taps = w.reshape(plan.groups, plan.out[0] // plan.groups, plan.rows).swapaxes(1, 2)
    columns = gemm(taps, _by_group(g, plan)).reshape(plan.image[0], *plan.size, len(g), *plan.out[1:])
    shape = (len(g), plan.image[0], *[n + 2 * p for n, p in zip(plan.image[1:], plan.padding)])
    padded = np.zeros(shape, columns.dtype)
    for tap in product(*map(range, plan.size)):
        place = [
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, plan.dilation, plan.stride, plan.out[1:])
        ]
        padded[(slice(None), slice(None), *place)] += columns[(slice(None), *tap)].swapaxes(0, 1)
    return np.ascontiguousarray(padded[_core(plan)])
