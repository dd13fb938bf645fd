"""Convolutions of NumPy arrays in any number of dimensions, as products with matrices of windows.

Note [The convolution family].  y = conv(x, w), x = conv_input(y, w) and w = conv_weight(x, y) are the three partial
derivatives of one trilinear form Σ y[n,o,i] w[o,c,k] x[n,c,i stride - pad + k dilation], so each is a derivative of the
others.  Two of the spatial sizes (input, kernel, output) follow from the operands; the third is a parameter.

Large products of real floats go to the kernels, which take the natural sizes only: as many windows as fit.

Note [Chunks of images].  The windows of a few images at a time are copied to a matrix (channels and kernel elements by
windows), which is multiplied by the weight.  How many depends on sizes alone: see the note in threads.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu import small_convolution as _small
from ferro.cpu.blas_products import gemm
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.half import rounded_once
from ferro.cpu.kernels import conv as _kernels
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.conv_plans import out_size
from ferro.cpu.kernels.entries import entry
from ferro.cpu.thresholds import CONV_CHUNK, CONV_LEAST, CONV_SHARED, CONV_TERMS, CONV_WINDOWS
from ferro.cpu.windows import full, taps
from ferro.native.thread_pool import parallel_for

__all__ = ["col2im", "conv", "conv_input", "conv_weight", "im2col"]


def _chunks(images: int, per_image: int, work: int) -> tuple[int, int]:
    """The number of images in a chunk, and the number of chunks."""
    count = max(1, min(images, CONV_WINDOWS // max(1, per_image)))
    if work >= CONV_SHARED:
        count = min(count, -(-images // 4))
    return count, -(-images // count)


def _is_small(images: Any, weights: int, places: tuple) -> bool:
    """Whether a convolution without groups is better off without kernels and threads."""
    return images.shape[0] * weights * math.prod(places) < CONV_LEAST


def _has_kernel(x: Any, result: int, work: int, geometry: tuple) -> bool:
    """Whether the kernels take this convolution: of large images to large images, or one of them."""
    if work < CONV_LEAST or max(x.size, result) < SMALL or x.dtype.char not in "fd":
        return False
    return _natural(*geometry) and _kernels.ready(x)


@lru_cache(maxsize=512)
def _natural(*geometry: tuple) -> bool:
    """Whether there are as many windows as fit."""
    return all(o == out_size(n, k, s, p, d) for n, k, o, s, p, d in zip(*geometry, strict=True))


def _gather(x: Any, geometry: tuple) -> Any:
    """The windows of the images x (n, c, *size) as an array (c, kernel elements, n, *out)."""
    _, kernel, out = geometry[:3]
    make = np.empty if full(*geometry) else np.zeros
    found = make((x.shape[1], math.prod(kernel), x.shape[0], *out), x.dtype)
    x = x.swapaxes(0, 1)
    every = (slice(None), slice(None))
    for k, windows, elements in taps(*geometry):
        found[(slice(None), k, slice(None), *windows)] = x[every + elements]
    return found


def _scatter(columns: Any, x: Any, geometry: tuple) -> None:
    """Adds an array of windows (c, kernel elements, n, *out) to the images x (n, c, *size)."""
    x = x.swapaxes(0, 1)
    every = (slice(None), slice(None))
    for k, windows, elements in taps(*geometry):
        x[every + elements] += columns[(slice(None), k, slice(None), *windows)]


def _by_group(y: Any, groups: int) -> Any:
    """Images (n, c, *out) as matrices (groups, c / groups, n windows)."""
    n, c = y.shape[:2]
    return y.swapaxes(0, 1).reshape(groups, c // groups, n * math.prod(y.shape[2:]))


def _images(make: Make) -> Iterator[tuple]:
    """(x, w, y, geometry, groups): every kind of window, with so many images that the multiplications are around thresholds."""
    one, none, all_least = (1, 1), (0, 0), (CONV_TERMS, CONV_LEAST, CONV_SHARED, 4 * CONV_CHUNK)
    kinds = [  # channels, results, size, taps, stride, padding, dilation, groups, thresholds
        (3, 5, (9, 8), (3, 3), one, one, one, 1, all_least),
        (24, 24, (16, 16), (3, 3), one, one, one, 1, all_least[1:]),  # minimal products
        (13, 9, (15, 14), (3, 2), (2, 1), none, (1, 2), 1, all_least[1:]),  # channels along registers
        (16, 12, (9, 10), one, one, none, one, 1, all_least[1:]),  # products of matrices, also of one image
        (64, 48, (10, 9), one, one, none, one, 1, all_least[1:3]),
        (8, 16, (13, 12), (5, 5), (2, 3), (2, 1), one, 8, all_least[1:]),
        (6, 8, (40,), (5,), (3,), (2,), (1,), 2, all_least[1:3]),
        (4, 6, (7, 8, 9), (2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 2), 1, all_least[1:3]),
    ]
    for channels, results, size, window, stride, pad, dilation, groups, thresholds in kinds:
        places = tuple(map(out_size, size, window, stride, pad, dilation))
        w = make(results, channels // groups, *window)
        for least in thresholds:
            for n in sides(math.ceil(least / (w.size * math.prod(places)))):
                x, y = make(max(n, 1), channels, *size), make(max(n, 1), results, *places)
                yield x, w, y, (stride, pad, dilation, groups)


@entry("", "jit_small_conv.entries")
@rounded_once
@by_kernels(
    "correlate in_blocks product_part winograd winograd_taps",
    lambda make: ((x, w, make(len(w)), y.shape[2:], *how) for x, w, y, how in _images(make)),
)
def conv(x: Any, w: Any, b: Any, out: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """y[n,o,i] = Σ w[o,c,k] x[n,c,i stride - pad + k dilation] + b[o], of spatial shape `out`."""
    if groups == 1 and _is_small(x, w.size, out):
        return _small.conv(x, w, b, out, stride, pad, dilation)
    geometry = (x.shape[2:], w.shape[2:], out, stride, pad, dilation)
    n, outputs, inner, length = x.shape[0], w.shape[0], math.prod(w.shape[1:]), math.prod(out)
    work = n * outputs * inner * length
    if _has_kernel(x, n * outputs * length, work, geometry):
        return _kernels.conv(x, w, b, stride, pad, dilation, groups)
    weight = w.reshape(groups, outputs // groups, inner)
    y = np.empty((n, outputs, *out), x.dtype)
    step, chunks = _chunks(n, groups * inner * length, work)

    def part(chunk: int) -> None:
        images = slice(chunk * step, min(n, (chunk + 1) * step))
        count = images.stop - images.start
        columns = _gather(x[images], geometry).reshape(groups, inner, count * length)
        found = gemm(weight, columns).reshape(outputs, count, *out)
        if b is not None:
            found += b.reshape(outputs, *(1,) * (len(out) + 1))
        y[images] = found.swapaxes(0, 1)

    parallel_for(part, chunks)
    return y


@entry("", "jit_small_conv.entries")
@rounded_once
@by_kernels(
    "correlate in_blocks product_part winograd winograd_taps",
    lambda make: ((y, w, None, x.shape[2:], *how) for x, w, y, how in _images(make)),
)
def conv_input(y: Any, w: Any, b: Any, size: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """x[n,c,j] = Σ w[o,c,k] y[n,o,i] + b[c] over i stride - pad + k dilation = j, of spatial shape `size`."""
    if groups == 1 and _is_small(y, w.size, size):
        x = _small.conv_input(y, w, b, size, stride, pad, dilation)
        if x is not None:
            return x
    geometry = (size, w.shape[2:], y.shape[2:], stride, pad, dilation)
    n, outputs, inner, length = y.shape[0], w.shape[0], math.prod(w.shape[1:]), math.prod(y.shape[2:])
    channels, work = groups * w.shape[1], n * outputs * inner * length
    if _has_kernel(y, n * channels * math.prod(size), work, geometry):
        x = _kernels.conv_dx(y, w, (n, channels, *size), stride, pad, dilation, groups)
        if b is not None:
            x += b.reshape(channels, *(1,) * len(size))
        return x
    weight = w.reshape(groups, outputs // groups, inner).swapaxes(1, 2)
    x = np.zeros((n, channels, *size), y.dtype)
    step, chunks = _chunks(n, groups * inner * length, work)

    def part(chunk: int) -> None:
        images = slice(chunk * step, min(n, (chunk + 1) * step))
        columns = gemm(weight, _by_group(y[images], groups))
        columns = columns.reshape(channels, math.prod(w.shape[2:]), images.stop - images.start, *y.shape[2:])
        _scatter(columns, x[images], geometry)

    parallel_for(part, chunks)
    if b is not None:
        x += b.reshape(channels, *(1,) * len(size))
    return x


@entry("", "jit_small_conv.entries")
@rounded_once
@by_kernels(
    "correlate_channels correlate_taps from_channels product_part winograd_by_taps",
    lambda make: ((x, y, w.shape[2:], *how) for x, w, y, how in _images(make)),
)
def conv_weight(x: Any, y: Any, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """w[o,c,k] = Σ y[n,o,i] x[n,c,i stride - pad + k dilation], of spatial shape `kernel`."""
    if groups == 1 and _is_small(x, x.shape[1] * y.shape[1] * math.prod(kernel), y.shape[2:]):
        return _small.conv_weight(x, y, kernel, stride, pad, dilation)
    geometry = (x.shape[2:], kernel, y.shape[2:], stride, pad, dilation)
    n, outputs, length = x.shape[0], y.shape[1], math.prod(y.shape[2:])
    inner = x.shape[1] // groups * math.prod(kernel)
    work = n * outputs * inner * length
    shape = (outputs, x.shape[1] // groups, *kernel)
    if _has_kernel(x, y.size, work, geometry):
        total = _kernels.conv_dw(y, x, shape, stride, pad, dilation, groups)
        if total is not None:
            return total
    step, chunks = _chunks(n, groups * inner * length, work)
    parts: list = [0] * chunks

    def part(chunk: int) -> None:
        images = slice(chunk * step, min(n, (chunk + 1) * step))
        columns = _gather(x[images], geometry).reshape(groups, inner, (images.stop - images.start) * length)
        parts[chunk] = gemm(_by_group(y[images], groups), columns.swapaxes(1, 2))

    parallel_for(part, chunks)
    total = parts[0] if parts else np.zeros((outputs, inner), x.dtype)
    for other in parts[1:]:
        total += other
    return total.reshape(shape)


def im2col(x: Any, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """The windows of x (n, c, *size) as columns (n, c times kernel elements, windows)."""
    found = _gather(x, (x.shape[2:], kernel, out, stride, pad, dilation))
    columns = np.moveaxis(found, 2, 0).reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(out))
    return np.ascontiguousarray(columns)


@rounded_once
def col2im(columns: Any, size: tuple, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """The sum of columns (n, c times kernel elements, windows) at their places in images of spatial shape `size`."""
    n, k = columns.shape[0], math.prod(kernel)
    x = np.zeros((n, columns.shape[1] // k, *size), columns.dtype)
    parts = np.moveaxis(columns.reshape(n, columns.shape[1] // k, k, *out), 0, 2)
    _scatter(parts, x, (size, kernel, out, stride, pad, dilation))
    return x
