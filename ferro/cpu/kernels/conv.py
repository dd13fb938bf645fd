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

from ferro.cpu.kernels import get
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

    def units(self, batch: int, itemsize: int) -> list[tuple[int, int, int, int]]:
        """What is computed at a time: images from a to before b, or of one image the lines from c to before d."""
        if self.rows * self.groups * self.places * itemsize <= TILE_BYTES:
            count = max(1, 2 * TILE_PLACES // self.places)
            return [(a, min(a + count, batch), 0, self.lines) for a in range(0, batch, count)]
        step = max(1, TILE_PLACES // self.out[3])
        tiles = [(c, min(c + step, self.lines)) for c in range(0, self.lines, step)]
        return [(a, a + 1, c, d) for a in range(batch) for c, d in tiles]

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


def _patches(images: np.ndarray, plan: _Plan, start: int, stop: int) -> np.ndarray:
    """The patches that the lines from `start` to before `stop` see: (groups, rows, images × places)."""
    if plan.is_product and len(images) == 1:
        flat = images.reshape(plan.groups, plan.rows, plan.places)
        return flat[:, :, start * plan.out[3] : stop * plan.out[3]]
    places = len(images) * (stop - start) * plan.out[3]
    columns = np.empty((plan.groups, plan.rows, places), images.dtype)
    get("im2col")(images, *plan.geometry, start, stop - start, columns)
    return columns


def _lines(results: np.ndarray, plan: _Plan, unit: tuple[int, int, int, int]) -> np.ndarray:
    """A unit's part of an array like the result: (groups, channels of a group, images × places); a copy of many images."""
    a, b, start, stop = unit
    part = results[a:b, :, start * plan.out[3] : stop * plan.out[3]]
    if b - a == 1:
        return part.reshape(plan.groups, plan.out[0] // plan.groups, -1)
    return part.swapaxes(0, 1).reshape(plan.groups, plan.out[0] // plan.groups, -1)


def _grain(plan: _Plan, batch: int, units: int) -> int:
    """How many units make a chunk."""
    return -(-CHUNK_WORK * units // (plan.work * batch))


def _conv(x: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    taps = w.reshape(plan.groups, -1, plan.rows)
    units = plan.units(len(x), x.itemsize)
    results = out.reshape(len(x), plan.out[0], plan.places)

    def work(first: int, last: int) -> None:
        for unit in units[first:last]:
            a, b, start, stop = unit
            patches = _patches(x[a:b], plan, start, stop)
            if b - a == 1:
                np.matmul(taps, patches, out=_lines(results, plan, unit))
            else:
                product = np.matmul(taps, patches).reshape(plan.out[0], b - a, plan.places)
                results[a:b] = product.swapaxes(0, 1)

    with blas_single():
        split(len(units), _grain(plan, len(x), len(units)), work)


def _conv_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    """Cut by images, and by blocks of channels if there are few images: lines overlap in what they give back."""
    groups, channels = plan.groups, plan.image[0]
    taps = w.reshape(groups, plan.out[0] // groups, channels // groups, -1)
    results = g.reshape(len(g), plan.out[0], plan.places)
    by_images: dict[int, list] = {}
    for unit in plan.units(len(g), g.itemsize):
        by_images.setdefault(unit[0], []).append(unit)
    stretches = list(by_images.values())
    blocks = 1 if groups > 1 else min(channels, -(-8 // len(stretches)))

    def work(first: int, last: int) -> None:
        for index in range(first, last):
            stretch, block = divmod(index, blocks)
            begin, end = channels * block // blocks, channels * (block + 1) // blocks
            some = taps if blocks == 1 else taps[:, :, begin:end]
            transposed = some.reshape(groups, some.shape[1], -1).swapaxes(1, 2)
            for unit in stretches[stretch]:
                a, b, start, stop = unit
                columns = np.matmul(transposed, _lines(results, plan, unit))
                target = out[a:b] if blocks == 1 else np.zeros((b - a, end - begin, *out.shape[2:]), out.dtype)
                get("col2im")(columns, *plan.geometry, start, stop - start, target)
                if blocks > 1:
                    out[a:b, begin:end] += target

    with blas_single():
        split(len(stretches) * blocks, _grain(plan, len(g), len(stretches) * blocks), work)


def _conv_dw(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    units = plan.units(len(x), x.itemsize)
    results = g.reshape(len(g), plan.out[0], plan.places)

    def work(first: int, last: int) -> np.ndarray:
        total = np.zeros((plan.groups, plan.rows, plan.out[0] // plan.groups), x.dtype)
        for unit in units[first:last]:
            a, b, start, stop = unit
            transposed = _lines(results, plan, unit).swapaxes(1, 2)
            total += np.matmul(_patches(x[a:b], plan, start, stop), transposed)  # quicker than g times patchesᵀ
        return total

    with blas_single():
        total = _sum_of_chunks(len(units), _grain(plan, len(x), len(units)), work)
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
    run = get("depthwise")
    taps = w.reshape(-1, *plan.size)
    out[...] = 0

    def work(first: int, last: int) -> None:
        run(_planes(x[first:last]), taps, plan.stride, plan.padding, plan.dilation, _planes(out[first:last]))

    split(len(x), GRAIN // plan.work + 1, work)


def _depthwise_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    taps = w.reshape(-1, *plan.size)
    around = tuple([d * (n - 1) - p for d, n, p in zip(plan.dilation, plan.size, plan.padding)])
    if plan.stride == (1, 1, 1) and plan.out[0] == plan.image[0] and min(around) >= 0:
        run, padding = get("depthwise"), around  # a convolution again, with the taps the other way round
        taps = np.ascontiguousarray(taps[:, ::-1, ::-1, ::-1])
    else:
        run, padding = get("depthwise_dx"), plan.padding

    def work(first: int, last: int) -> None:
        run(_planes(g[first:last]), taps, plan.stride, padding, plan.dilation, _planes(out[first:last]))

    split(len(g), GRAIN // plan.work + 1, work)


def _depthwise_dw(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    run = get("depthwise_dw")

    def work(first: int, last: int) -> np.ndarray:
        total = np.zeros((plan.out[0], *plan.size))
        run(_planes(g[first:last]), _planes(x[first:last]), plan.stride, plan.padding, plan.dilation, total)
        return total

    return _sum_of_chunks(len(x), GRAIN // plan.work + 1, work).astype(x.dtype)


def _planes(x: np.ndarray) -> np.ndarray:
    """(image, channel, ...) as (image × channel, ...)."""
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
