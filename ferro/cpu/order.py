"""Order in NumPy arrays: sorting, selection, most frequent and unique elements, bins; nan counts as the largest number.

Note [Stable sorts of short keys].  A key of at most 32 bits is made an integer whose order is that of the keys, put
before the element's position in one 64-bit integer, and these are sorted as such: all are distinct, so NumPy's
vectorised, unstable sort gives the stable order.  A descending order sorts the complements, and so is stable too.

Note [Ties].  Which of equal elements NumPy's selections and unstable sorts put first depends on the processor.  So they are
asked for values only; a place is that which the stable order gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels import gather_scatter
from ferro.cpu.kernels.common import SMALL, contiguous, has_kernel, share_rows
from ferro.cpu.reductions import value_gather, wide
from ferro.cpu.thresholds import GRAIN, ORDER_LEAST

__all__ = ["argsort", "bincount", "equal_edges", "histogram", "isin", "kthvalue", "median", "median_dim", "mode", "nanmedian",
           "nanmedian_dim", "outer_edges", "searchsorted", "sort", "topk", "unique", "unique_consecutive", "unique_dim"]  # fmt: skip

FEW = 16  # elements that are chosen one after the other


# -- sorting -----------------------------------------------------------------------------------------------------------


def argsort(x: Any, dim: int, descending: bool) -> Any:
    """The indices that sort x along `dim`, equal elements in their order."""
    if x.ndim == 0:
        return np.zeros((), np.int64)
    x = wide(x)
    n = x.shape[dim]
    if x.dtype.itemsize <= 4 and x.size >= ORDER_LEAST and n < 1 << 31:
        return _packed_argsort(np.moveaxis(x, dim, -1), dim, descending)
    if not descending:
        return np.argsort(x, dim, kind="stable")
    back = (slice(None),) * dim + (slice(None, None, -1),)
    return n - 1 - np.argsort(x[back], dim, kind="stable")[back]


def _packed_argsort(x: Any, dim: int, descending: bool) -> Any:
    """argsort along the last dimension, moved to `dim`: see Note [Stable sorts of short keys]."""
    if x.dtype.kind == "f":
        bits = (x + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
        keys = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative numbers in reverse
        keys = np.where(np.isnan(x), np.int32(0x7FFFFFFF), keys)
    else:
        keys = x
    packed = keys.astype(np.int64)
    if descending:
        np.invert(packed, out=packed)
    packed <<= 32
    packed |= np.arange(x.shape[-1], dtype=np.int64)
    packed.sort(-1)
    packed &= 0xFFFFFFFF
    return np.moveaxis(packed, -1, dim)


def sort(x: Any, dim: int, descending: bool) -> tuple:
    """x sorted along `dim`, and the indices that sort it; equal elements stay in their order."""
    index = argsort(x, dim, descending)
    return value_gather(x, dim, index, True), index


def _rows(make: Make) -> Iterator[tuple]:
    for rows in (*sides(math.ceil(SMALL / 40)), GRAIN // 40):
        for largest in (False, True):
            yield np.round(make(rows, 40), 1), 5, 1, largest


@by_kernels("jit_order.first_of_rows", _rows)
def topk(x: Any, k: int, dim: int, largest: bool) -> tuple:
    """The k largest (or smallest) elements along `dim` in order, and their indices."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    n = x.shape[dim]
    if dim == x.ndim - 1 and 0 < k <= min(n // 4, FEW) and has_kernel(x, "first_of_rows"):
        return _first_of_rows(contiguous(x), k, largest)
    if x.size < ORDER_LEAST or 4 * k > n or k == 0:
        index = argsort(x, dim, largest)
        index = index[(slice(None),) * dim + (slice(0, k),)]
    else:
        some = _first(wide(x), k, dim, largest)
        order = argsort(np.take_along_axis(x, some, dim), dim, largest)
        index = np.take_along_axis(some, order, dim)
    return value_gather(x, dim, index, True), np.ascontiguousarray(index)


def _first(x: Any, k: int, dim: int, largest: bool) -> Any:
    """Where the k largest (or smallest) elements along `dim` are, in ascending order: see Note [Ties]."""
    n = x.shape[dim]
    place = n - k if largest else k - 1
    before, equal = _beside(x, _at_place(x, place, dim), largest)
    left = k - np.count_nonzero(before, dim, keepdims=True)
    if not (left == np.count_nonzero(equal, dim, keepdims=True)).all():
        equal &= np.add.accumulate(equal, dim, dtype=np.int64) <= left
    chosen = before | equal
    moved = np.moveaxis(chosen, dim, -1)
    return np.moveaxis(np.nonzero(moved)[-1].reshape(*moved.shape[:-1], k), -1, dim)


def _at_place(x: Any, place: int, dim: int) -> Any:
    """The element at a place of the ascending order along `dim`, which is kept."""
    return np.partition(x, place, dim).take([place], dim)


def _beside(x: Any, value: Any, largest: bool) -> tuple:
    """Which elements come before a value in a descending (or ascending) order, and which are equal to it."""
    before, equal = x > value if largest else x < value, x == value
    if x.dtype.kind == "f":
        bad, last = np.isnan(x), np.isnan(value)
        if bad.any():
            before = (before | bad) & ~last if largest else before | (~bad & last)
            equal |= bad & last
    return before, equal


def _first_of_rows(x: Any, k: int, largest: bool) -> tuple:
    values, index = np.empty((*x.shape[:-1], k), x.dtype), np.empty((*x.shape[:-1], k), np.int64)
    rows = x.reshape(-1, x.shape[-1])
    args = rows, largest, values.reshape(-1, k), index.reshape(-1, k)
    share_rows("first_of_rows", len(rows), GRAIN // (2 * x.shape[-1]) + 1, args)
    return values, index


# -- selection ---------------------------------------------------------------------------------------------------------


def kthvalue(x: Any, k: int, dim: int, keepdim: bool) -> tuple:
    """The k-th smallest element (k from 1) along `dim`, and its index."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    if x.size >= ORDER_LEAST:
        y = wide(x)
        before, equal = _beside(y, _at_place(y, k - 1, dim), False)
        if (np.count_nonzero(equal, dim) > 1).any():
            left = k - np.count_nonzero(before, dim, keepdims=True)
            equal &= np.add.accumulate(equal, dim, dtype=np.int64) == left
        index = equal.argmax(dim)
    else:
        index = argsort(x, dim, False).take(k - 1, dim)
    return _valued(x, dim, index, keepdim)


def _valued(x: Any, dim: int, index: Any, keepdim: bool) -> tuple:
    """The elements at `index`, which lacks `dim`, and the index; with keepdim both have it."""
    index = np.asarray(np.expand_dims(index, dim) if keepdim else index, np.int64)
    return value_gather(x, dim, index, keepdim), index


def median(x: Any) -> Any:
    """The lower median of all elements; nan if one is nan or there is none."""
    if x.size == 0:
        return np.full((), np.nan if x.dtype.kind in "fV" else np.iinfo(x.dtype).min, x.dtype)
    y = wide(x).flatten()
    if y.dtype.kind == "f" and math.isnan(y.dot(y)):  # (squares are infinite at most)
        return np.asarray(np.nan, x.dtype)
    place = (y.size - 1) // 2
    return np.array(np.partition(y, place)[place], x.dtype)


def nanmedian(x: Any) -> Any:
    """The lower median of the elements that are not nan."""
    if x.dtype.kind not in "fV":
        return median(x)
    y = wide(x).reshape(-1)
    return median(y[~np.isnan(y)]).astype(x.dtype)


def median_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """The lower median along `dim`, or the first nan, and its index."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    values, index = kthvalue(x, (x.shape[dim] - 1) // 2 + 1, dim, True)
    y = wide(x)
    if y.dtype.kind == "f":
        bad = np.isnan(y)
        if bad.any():
            index = np.where(bad.any(dim, keepdims=True), bad.argmax(dim, keepdims=True), index)
            values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def nanmedian_dim(x: Any, dim: int, keepdim: bool) -> tuple:
    """The lower median along `dim` of the elements that are not nan, and its index; the first nan if all are."""
    y = wide(x)
    if x.ndim == 0 or y.dtype.kind != "f" or not np.isnan(y).any():
        return median_dim(x, dim, keepdim)
    count = (~np.isnan(y)).sum(dim, keepdims=True)
    index = np.take_along_axis(argsort(x, dim, False), np.maximum(count - 1, 0) // 2, dim)
    return _valued(x, dim, index.squeeze(dim), keepdim)


def mode(x: Any, dim: int, keepdim: bool) -> tuple:
    """The most frequent element along `dim` (of several the smallest), and where it appears last."""
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    y = np.moveaxis(wide(x), dim, -1)
    order = argsort(y, y.ndim - 1, False)
    ordered = np.take_along_axis(y, order, -1)
    n = y.shape[-1]
    places = np.arange(n)
    starts = np.ones(y.shape, np.bool_)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = places - np.maximum.accumulate(np.where(starts, places, 0), -1)  # how often the element came before
    index = np.take_along_axis(order, np.argmax(run, -1, keepdims=True), -1)
    if y.dtype.kind == "f":  # nan equals nothing, and is taken where no number appears twice
        bad = np.isnan(y)
        lone = bad.any(-1, keepdims=True) & (run.max(-1, keepdims=True) == 0)
        index = np.where(lone, bad.argmax(-1, keepdims=True), index)
    index = index.squeeze(-1)
    return _valued(x, dim, index, keepdim)


# -- unique elements ---------------------------------------------------------------------------------------------------


def unique(x: Any) -> tuple:
    """The distinct elements in ascending order, for each element of x its number among them, and their counts."""
    flat = wide(x).reshape(-1)
    order = argsort(flat, 0, False)
    ordered = flat[order]
    first, number = _runs(ordered)
    inverse = np.empty(flat.size, np.int64)
    inverse[order] = number
    counts = np.bincount(number, minlength=len(first))
    return ordered[first].astype(x.dtype, copy=False), inverse.reshape(x.shape), counts


def unique_dim(x: Any, dim: int) -> tuple:
    """The distinct slices along `dim` in lexicographic order, for each slice of x its number, and their counts."""
    rows = _slices(x, dim)
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    first, number = _runs(rows[order])
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = number
    return x.take(order[first], dim), inverse, np.bincount(number, minlength=len(first))


def _slices(x: Any, dim: int) -> Any:
    """The slices of x along `dim` as rows of a matrix."""
    y = np.moveaxis(wide(x), dim, 0)
    return y.reshape(len(y), y.size // max(len(y), 1))


def _runs(rows: Any) -> tuple:
    """Where runs of equal rows begin, and for each row the number of its run."""
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(1) if rows.ndim > 1 else rows[1:] != rows[:-1]
    return np.flatnonzero(new), np.cumsum(new) - 1


def unique_consecutive(x: Any, dim: int | None) -> tuple:
    """x (flattened, or its slices along `dim`) without what equals the one before, numbers, and counts."""
    rows = wide(x).reshape(-1) if dim is None else _slices(x, dim)
    first, number = _runs(rows)
    counts = np.bincount(number, minlength=len(first))
    if dim is None:
        return x.reshape(-1)[first], number.reshape(x.shape), counts
    return x.take(first, dim), number, counts


# -- search and bins ---------------------------------------------------------------------------------------------------


def isin(x: Any, among: Any, invert: bool) -> Any:
    """Whether each element is one of some numbers; if inverted, whether it is not."""
    if x.size * among.size <= SMALL:  # (NumPy's function takes 10 us whatever it is given)
        if among.ndim != 1:
            among = among.reshape(-1)
        found = (x.reshape(*x.shape, 1) == among).any(-1)
        return np.asarray(~found if invert else found)
    # assume_unique saves little, and a false promise would give wrong answers
    return np.asarray(np.isin(x, among, invert=invert))


def searchsorted(boundaries: Any, x: Any, right: bool) -> Any:
    """Where the elements of x would be inserted into the sorted boundaries: of x's row where boundaries have rows."""
    edges, y, side = wide(boundaries), wide(x), "right" if right else "left"
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, y, side), np.int64)
    out = np.empty(x.shape, np.int64)
    if not out.size:
        return out
    if not edges.size:
        return np.zeros(x.shape, np.int64)
    rows = edges.reshape(-1, edges.shape[-1])
    for row, values, target in zip(rows, y.reshape(len(rows), -1), out.reshape(len(rows), -1), strict=True):
        target[:] = np.searchsorted(row, values, side)
    return out


def bincount(x: Any, weights: Any, size: int) -> Any:
    """How often (or with which total weight) each number from 0 appears; at least `size` counts."""
    if weights is None:
        return np.bincount(x, minlength=size)
    d = weights.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
    return np.bincount(x, wide(weights), size).astype(d, copy=False)


def _points(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL), 2 * GRAIN):
        points = make(n, 1)
        yield points, [np.linspace(-0.5, 0.5, 9).astype(points.dtype)], True, None


def outer_edges(x: Any, bins: int, left: float, right: float) -> Any:
    """Edges of so many bins from left to right, or from the least to the greatest number where these are equal: only the outer ones
    count, for `histogram` by width. RuntimeError for a range that is not finite.
    """
    if left == right and x.size:
        left, right = float(x.min()), float(x.max())
    if left == right:
        left, right = left - 1, right + 1
    _check_finite("histc: range of", left, right)
    return np.asarray([left, *[right] * bins], x.dtype)


def equal_edges(x: Any, bins: int, given: tuple | None, what: str) -> Any:
    """The edges of so many equal bins over the range that is given, or over that of the numbers; `what` names it in the RuntimeError
    for a range that is not finite.
    """
    ends = given or ((float(x.min()), float(x.max())) if x.size else (0.0, 1.0))
    _check_finite(what, *ends)
    left, right = ends
    if left == right:
        left, right = left - 0.5, right + 0.5
    return np.linspace(left, right, bins + 1, dtype=x.dtype)


def _check_finite(what: str, left: float, right: float) -> None:
    if not (math.isfinite(left) and math.isfinite(right)):
        raise RuntimeError(f"{what} [{left:g}, {right:g}] is not finite")


@by_kernels("count_bins", _points)
def histogram(points: Any, edges: list, by_width: bool, weights: Any) -> Any:
    """Total weight of the points (rows of numbers) in each cell of a grid; the last edge belongs to the last bin.

    The bin of a coordinate is found by a search among the edges, or from the width of equal bins.
    """
    if by_width and weights is None and points.shape[1] == 1 and has_kernel(points, "count_bins"):
        (e,) = edges
        return gather_scatter.count_bins(contiguous(points).reshape(-1), e[0], e[-1], len(e) - 1).astype(points.dtype)
    inside = np.ones(len(points), np.bool_)
    cell = np.zeros(len(points), np.int64)
    size = 1
    for x, e in zip(points.T, edges, strict=True):
        n = len(e) - 1
        inside &= (x >= e[0]) & (x <= e[-1])
        if by_width:
            place = ((np.where(inside, x, e[0]) - e[0]) * n / (e[-1] - e[0])).astype(np.int64)
        else:
            place = np.searchsorted(e, x, "right") - 1
        cell = cell * n + np.minimum(place, n - 1)
        size *= n
    w = None if weights is None else weights[inside]
    return np.bincount(cell[inside], w, size).astype(points.dtype).reshape([len(e) - 1 for e in edges])
