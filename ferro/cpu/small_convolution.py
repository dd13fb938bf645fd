"""Convolutions too small for kernels: each one product with a matrix of windows, and as few calls of NumPy as that takes.

Windows are a view of the images, or of a copy with zeros around them, in which steps through a kernel and steps from
window to window are dimensions of their own.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.products import mm


@lru_cache(maxsize=512)
def _layout(
    images: tuple, itemsize: int, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple
) -> tuple:
    """How windows lie in images of shape (n, c, *size): (shape with zeros, place of the images in it, part of them that
    is seen), the first None if no zeros are needed; then shape (c, *kernel, n, *out) and strides of the windows.
    """
    n, c, *size = images
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, stride, kernel, dilation, strict=True)]
    padded: Any = None
    within = seen = ()
    if any(p or r > length for p, r, length in zip(pad, reach, size, strict=True)):
        every = (slice(None), slice(None))
        padded = (n, c, *reach)
        within = every + tuple(
            [slice(p, p + max(0, min(length, r - p))) for p, r, length in zip(pad, reach, size, strict=True)]
        )
        seen = every + tuple(
            [slice(0, max(0, min(length, r - p))) for p, r, length in zip(pad, reach, size, strict=True)]
        )
        size = reach
    steps = [itemsize * math.prod(size[i + 1 :]) for i in range(len(size))]
    plane = itemsize * math.prod(size)
    strides = (
        plane,
        *[a * d for a, d in zip(steps, dilation, strict=True)],
        c * plane,
        *[a * s for a, s in zip(steps, stride, strict=True)],
    )
    return padded, within, seen, (c, *kernel, n, *out), strides


def _columns(x: Any, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """The windows of the images x as a matrix: channels and kernel elements by images and windows."""
    padded, within, seen, shape, strides = _layout(x.shape, x.itemsize, kernel, out, stride, pad, dilation)
    if padded is not None:
        images = np.zeros(padded, x.dtype)
        images[within] = x[seen]
    else:
        images = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    windows = np.ndarray(shape, x.dtype, images, 0, strides)
    return windows.reshape(shape[0] * math.prod(kernel), shape[-len(out) - 1] * math.prod(out))


def _as_images(found: Any, n: int, size: tuple, b: Any) -> Any:
    """A matrix of channels by images and places as images, with a number for each channel added."""
    if b is not None:
        found = found + b[:, None]
    if n == 1:
        return found.reshape(1, found.shape[0], *size)
    return np.ascontiguousarray(found.reshape(found.shape[0], n, *size).swapaxes(0, 1))


def _as_matrix(y: Any) -> Any:
    """Images as a matrix of channels by images and places."""
    return (y if y.shape[0] == 1 else y.swapaxes(0, 1)).reshape(y.shape[1], y.shape[0] * math.prod(y.shape[2:]))


def conv(x: Any, w: Any, b: Any, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """y[n,o,i] = Σ w[o,c,k] x[n,c,i stride - pad + k dilation] + b[o], of spatial shape `out`."""
    columns = _columns(x, w.shape[2:], out, stride, pad, dilation)
    return _as_images(mm(w.reshape(w.shape[0], columns.shape[0]), columns), x.shape[0], out, b)


def conv_weight(x: Any, y: Any, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """w[o,c,k] = Σ y[n,o,i] x[n,c,i stride - pad + k dilation], of spatial shape `kernel`."""
    columns = _columns(x, kernel, y.shape[2:], stride, pad, dilation)
    return mm(_as_matrix(y), columns.T).reshape(y.shape[1], x.shape[1], *kernel)


@lru_cache(maxsize=512)
def _spread(out: tuple, size: tuple, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple | None:
    """The shape in which a cotangent lies among zeros so that windows of the turned kernel see it, and its place there.

    None if a part of it would lie outside.
    """
    shape, place = [], []
    for o, length, k, s, p, d in zip(out, size, kernel, stride, pad, dilation, strict=True):
        first = (k - 1) * d - p
        last = first + (o - 1) * s
        if first < 0 or last >= length + (k - 1) * d:
            return None
        shape.append(length + (k - 1) * d)
        place.append(slice(first, last + 1, s))
    return tuple(shape), (slice(None), slice(None), *place)


def conv_input(y: Any, w: Any, b: Any, size: tuple, stride: tuple, pad: tuple, dilation: tuple) -> Any:
    """x[n,c,j] = Σ w[o,c,k] y[n,o,i] + b[c] over i stride - pad + k dilation = j; None where this way does not lead there.

    It is the convolution of y, its elements `stride` apart, with the kernel turned round.
    """
    found = _spread(y.shape[2:], size, w.shape[2:], stride, pad, dilation)
    if found is None:
        return None
    shape, place = found
    apart = np.zeros((y.shape[0], y.shape[1], *shape), y.dtype)
    apart[place] = y
    ones, none = (1,) * len(size), (0,) * len(size)
    columns = _columns(apart, w.shape[2:], size, ones, none, dilation)
    turned = w[(slice(None), slice(None), *(slice(None, None, -1),) * len(size))]
    return _as_images(mm(turned.swapaxes(0, 1).reshape(w.shape[1], columns.shape[0]), columns), y.shape[0], size, b)
