"""Sums, and sums of squared distances from a mean, of large arrays over any dimensions; products over one or all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.kernels import get
from ferro.cpu.kernels.common import contiguous, split, split_rows

LARGE = 1 << 17  # elements below which NumPy takes less than 50 us, and nothing is compiled
GRAIN = 1 << 20  # elements of a chunk: adding one takes 0.05 to 0.1 ns
FEW = 8  # rows, or matrices, up to which each one is cut


def has_sum_kernel(x: np.ndarray) -> bool:
    """Whether `total` takes `x`: large, and of single or double precision."""
    return x.size >= LARGE and x.dtype.kind == "f" and x.dtype.itemsize > 2


def total(x: np.ndarray, dim: tuple[int, ...], mean: np.ndarray | None = None) -> np.ndarray:
    """The sum over `dim` of x, or of (x - mean)² with a mean that keeps these dimensions, in float64; these are kept.

    The reduced dimensions that lie closest in memory are summed by a kernel, which leaves little of what is large.
    """
    if all(x.shape[d] == 1 for d in dim):
        return x.astype(np.float64) if mean is None else (x - mean).astype(np.float64) ** 2
    if x.flags.c_contiguous:
        return _total(x, dim, mean)
    order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
    back = np.argsort(order)
    out = _total(
        contiguous(x.transpose(order)),
        tuple([int(back[d]) for d in dim]),
        None if mean is None else mean.transpose(order),
    )
    return out.transpose(back)


def _total(x: Any, dim: tuple[int, ...], mean: Any) -> Any:
    """`total` of a C-contiguous array."""
    shape = x.shape
    reduced = [d in dim and s > 1 for d, s in enumerate(shape)]
    stop = max(d for d in dim if reduced[d]) + 1
    start = stop
    while start and (reduced[start - 1] or shape[start - 1] == 1):
        start -= 1
    before, length, behind = math.prod(shape[:start]), math.prod(shape[start:stop]), math.prod(shape[stop:])
    left = (*shape[:start], *[1] * (stop - start), *shape[stop:])
    center = None if mean is None else np.broadcast_to(mean, left).astype(x.dtype).reshape(before, behind)
    out = np.empty((before, behind))
    if behind == 1:
        _rows(x.reshape(before, length), None if center is None else center.reshape(before), out.reshape(before))
    else:
        _columns(x.reshape(before, length, behind), center, out)
    out = out.reshape(left)
    rest = tuple([d for d in range(start) if reduced[d]])
    return np.add.reduce(out, rest, keepdims=True) if rest else out


def product(x: np.ndarray, dim: int | None) -> np.ndarray:
    """The product over one dimension, which is kept, or over all (None), in float64."""
    if dim is None:
        out = np.empty((1,) * x.ndim)
        _rows(contiguous(x).reshape(1, -1), None, out.reshape(1), "prod")
        return out
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    out = np.empty((before, after))
    y = contiguous(x).reshape(before, x.shape[dim], after)
    if after == 1:
        _rows(y[:, :, 0], None, out.reshape(before), "prod")
    else:
        _columns(y, None, out, "prod")
    return out.reshape(*x.shape[:dim], 1, *x.shape[dim + 1 :])


def _combined(parts: dict[int, Any], name: str) -> Any:
    """The sum or product of the parts in their order."""
    return (np.multiply if name == "prod" else np.add).reduce([parts[i][0] for i in sorted(parts)], 0)


def _rows(x: Any, mean: Any, out: Any, name: str = "sum") -> None:
    """Sums (or products) over the rows of a matrix."""

    def run(rows: slice, columns: slice, target: Any) -> None:
        if mean is None:
            get(name + "_rows")(x[rows, columns], target)
        else:
            get("square_rows")(x[rows, columns], mean[rows], target)

    rows, n = x.shape
    if rows > FEW:
        split_rows(rows, n, GRAIN, lambda i, j: run(slice(i, j), slice(None), out[i:j]))
    else:
        for k in range(rows):
            parts: dict[int, Any] = {}

            def work(i: int, j: int, k: int = k, parts: dict = parts) -> None:
                parts[i] = np.empty(1)
                run(slice(k, k + 1), slice(i, j), parts[i])

            split(n, GRAIN, work)
            out[k] = _combined(parts, name)


def _columns(x: Any, mean: Any, out: Any, name: str = "sum") -> None:
    """Sums (or products) over the columns of matrices."""

    def run(matrices: slice, rows: slice, target: Any) -> None:
        if mean is None:
            get(name + "_columns")(x[matrices, rows], target)
        else:
            get("square_columns")(x[matrices, rows], mean[matrices], target)

    matrices, n, m = x.shape
    if matrices > FEW:
        split_rows(matrices, n * m, GRAIN, lambda i, j: run(slice(i, j), slice(None), out[i:j]))
        return
    for k in range(matrices):
        parts: dict[int, Any] = {}

        def work(i: int, j: int, k: int = k, parts: dict = parts) -> None:
            parts[i] = np.empty((1, m))
            run(slice(k, k + 1), slice(i, j), parts[i])

        split(n, max(GRAIN // m, 8), work)  # the sums of parts take little memory beside the parts
        out[k] = _combined(parts, name)
