"""Sliding windows: which elements meet which element of the kernel, as slices."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

Span = tuple[slice, slice]


def span(n: int, out: int, stride: int, pad: int, offset: int) -> Span:
    """The windows and the elements that meet at `offset` in the window, along one dimension.

    Window o begins at element o stride - pad of n; windows whose element at `offset` lies outside are left out.
    """
    first = max(0, -((offset - pad) // stride))
    last = min(out - 1, (n - 1 + pad - offset) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    begin = first * stride - pad + offset
    return slice(first, last + 1), slice(begin, begin + (last - first) * stride + 1, stride)


@lru_cache(maxsize=512)
def taps(size: tuple, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> tuple:
    """For every element of the kernel: its flat index, the slices of the windows and the slices of the elements."""
    spans = [
        [span(n, o, s, p, i * d) for i in range(k)]
        for n, k, o, s, p, d in zip(size, kernel, out, stride, pad, dilation, strict=True)
    ]
    found = []
    for index, combination in enumerate(product(*spans)):
        if all(windows.stop > windows.start for windows, _ in combination):
            found.append((index, tuple([w for w, _ in combination]), tuple([e for _, e in combination])))
    return tuple(found)


@lru_cache(maxsize=512)
def full(size: tuple, kernel: tuple, out: tuple, stride: tuple, pad: tuple, dilation: tuple) -> bool:
    """Whether every window lies inside, so that the taps reach every element of every window."""
    return all(
        p <= 0 and (o - 1) * s - p + (k - 1) * d < n
        for n, k, o, s, p, d in zip(size, kernel, out, stride, pad, dilation, strict=True)
    )
