"""Entries of arrays that are read or written along a dimension, at places that an index names (see native/jit_entries.py).

Those of slices take arrays of any size, the others small ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_gather_scatter import take
from ferro.cpu.thresholds import TAKE_NARROW
from ferro.native.jit import device
from ferro.native.jit_arrays import INT64, copy_bytes, elements, is_like, is_plain, length, shaped, size_of, taken
from ferro.native.jit_entries import helpers, queue
from ferro.native.jit_fields import class_of, count_of, data_of, int_type, load64, ndim_of, room, shape_of, store64
from ferro.native.jit_interpreter import as_long, is_tuple, number_at, release
from ferro.native.jit_work_queue import freely_in_rows
from ferro.native.thresholds import CHUNK, ENTRY_MOST, MOST_CHUNKS

_DIMS = 30  # of arrays, at most


def entries(dtype: Any) -> dict[str, Any]:
    """The entries of these functions of ferro.cpu, by name."""
    return {
        "gather": _gather(dtype),
        "scatter": _scatter(dtype, _write),
        "scatter_add": _scatter(dtype, _add),
        "index_select": _index_select(dtype),
        "index_get": _index_get(dtype),
        "take_rows": _take_rows(dtype),
    }


# --- what is asked of arguments -----------------------------------------------------------------------------------------


@device
def _has_dim(x, dim):
    """Whether an array has some numbers, but not many, and the dimension."""
    if class_of(dim) != int_type() or not 0 <= as_long(dim) < ndim_of(x) or ndim_of(x) > _DIMS:
        return False
    return 0 < size_of(x) <= ENTRY_MOST


@device
def _fits(x, d, index):
    """Whether an index names a place for each element of x but for the length along d, which is its own."""
    if not is_plain(index, INT64) or ndim_of(index) != ndim_of(x) or not 0 < size_of(index) <= ENTRY_MOST:
        return False
    for k in range(ndim_of(x)):  # noqa: SIM110 (Numba knows no generator here)
        if k != d and length(index, k, k + 1) != length(x, k, k + 1):
            return False
    return True


# --- an index of the same number of dimensions ---------------------------------------------------------------------------


def _gather(dtype: Any) -> Any:
    number = np.dtype(dtype).num

    @device
    def read(x, places, out):
        for a in range(out.shape[0]):
            for j in range(out.shape[1]):
                for i in range(out.shape[2]):
                    k = places[a, j, i]
                    if k < 0 or k >= x.shape[1]:
                        return False
                    out[a, j, i] = x[a, k, i]
        return True

    def entry(objects, count):
        if count != 3:
            return 0
        x, dim, index = load64(objects), load64(objects + 8), load64(objects + 16)
        if not is_plain(x, number) or not _has_dim(x, dim) or not _fits(x, as_long(dim), index):
            return 0
        d, ndim = as_long(dim), ndim_of(x)
        out = shaped(x, ndim, shape_of(index))
        if out == 0:
            return -1
        before, n, many, behind = length(x, 0, d), length(x, d, d + 1), length(index, d, d + 1), length(x, d + 1, ndim)
        places = elements(np.int64, index, before, many, behind)
        if not read(elements(dtype, x, before, n, behind), places, elements(dtype, out, before, many, behind)):
            release(out)
            return 0
        return out

    return entry


def _scatter(dtype: Any, change: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    def entry(objects, count):
        if count != 4:
            return 0
        x, dim, index, source = load64(objects), load64(objects + 8), load64(objects + 16), load64(objects + 24)
        if not is_plain(x, number) or not _has_dim(x, dim) or not _fits(x, as_long(dim), index):
            return 0
        if not is_plain(source, number) or not is_like(index, source):
            return 0
        d, ndim = as_long(dim), ndim_of(x)
        out = shaped(x, ndim, shape_of(x))
        if out == 0:
            return -1
        copy_bytes(data_of(out), data_of(x), size_of(x) * width)
        before, n, many, behind = length(x, 0, d), length(x, d, d + 1), length(index, d, d + 1), length(x, d + 1, ndim)
        given = elements(np.int64, index, before, many, behind), elements(dtype, source, before, many, behind)
        if not change(elements(dtype, out, before, n, behind), *given):
            release(out)
            return 0
        return out

    return entry


@device
def _write(out, places, source):
    for a in range(places.shape[0]):
        for j in range(places.shape[1]):
            for i in range(places.shape[2]):
                k = places[a, j, i]
                if k < 0 or k >= out.shape[1]:
                    return False
                out[a, k, i] = source[a, j, i]
    return True


@device
def _add(out, places, source):
    for a in range(places.shape[0]):
        for j in range(places.shape[1]):
            for i in range(places.shape[2]):
                k = places[a, j, i]
                if k < 0 or k >= out.shape[1]:
                    return False
                out[a, k, i] += source[a, j, i]
    return True


# --- an index of slices -------------------------------------------------------------------------------------------------


@device
def _slices(x, places, out):
    """Writes the slices of x, (before, n, behind), that places name."""
    for a in range(x.shape[0]):
        for j in range(places.size):
            row, to = x[a, places[j]], out[a, j]
            for i in range(to.size):
                to[i] = row[i]


@device
def _numbers(x, places, out):
    """The same where behind is 1."""
    for a in range(x.shape[0]):
        row, to = x[a, :, 0], out[a, :, 0]
        for j in range(places.size):
            to[j] = row[places[j]]


@device
def _are_within(places, n):
    """Whether all places are in [0, n)."""
    for j in range(places.size):  # noqa: SIM110 (Numba knows no generator here)
        if places[j] < 0 or places[j] >= n:
            return False
    return True


@device
def _take(dtype, x, lengths, index, out):
    """The new array `out` with the slices of x, (before, n, behind), that an index names; 0 where a place is out of bounds,
    or others do it better: a large array's numbers, which may be runs of neighbours, and narrow slices on one thread.
    """
    before, n, behind = lengths
    many = size_of(index)
    places, size = elements(np.int64, index, many), before * many * behind
    if size <= ENTRY_MOST and _are_within(places, n):
        source, target = elements(dtype, x, before, n, behind), elements(dtype, out, before, many, behind)
        if behind == 1:
            _numbers(source, places, target)
        else:
            _slices(source, places, target)
        return out
    count = helpers() if size > ENTRY_MOST and behind > 1 else 0
    if count < 0:
        release(out)
        return -1
    fine = size > ENTRY_MOST and behind > 1 and (count > 0 or behind >= TAKE_NARROW)
    if fine:
        rows = before * many
        order = queue(), count, max(min(size // CHUNK, rows, MOST_CHUNKS), 1), rows, -1, 0
        given = 0, rows, n, elements(dtype, x, before * n, behind), places, elements(dtype, out, rows, behind)
        fine = freely_in_rows(take, order, given) >= 0
    if not fine:
        release(out)
        return 0
    return out


def _index_select(dtype: Any) -> Any:
    number = np.dtype(dtype).num

    def entry(objects, count):
        if count != 3:
            return 0
        x, dim, index, shape = load64(objects), load64(objects + 8), load64(objects + 16), room()
        if not is_plain(x, number) or class_of(dim) != int_type() or not 0 <= as_long(dim) < ndim_of(x) <= _DIMS:
            return 0
        if not is_plain(index, INT64) or ndim_of(index) != 1 or size_of(index) * size_of(x) < 1:
            return 0
        d, ndim = as_long(dim), ndim_of(x)
        for k in range(ndim):
            store64(shape + 8 * k, size_of(index) if k == d else length(x, k, k + 1))
        out = shaped(x, ndim, shape)
        if out == 0:
            return -1
        return _take(dtype, x, (length(x, 0, d), length(x, d, d + 1), length(x, d + 1, ndim)), index, out)

    return entry


def _take_rows(dtype: Any) -> Any:
    number = np.dtype(dtype).num

    def entry(objects, count):
        if count != 2:
            return 0
        table, index = load64(objects), load64(objects + 8)
        if not is_plain(table, number) or ndim_of(table) != 2 or not is_plain(index, INT64) or ndim_of(index) > _DIMS:
            return 0
        if size_of(table) * size_of(index) < 1:
            return 0
        out = taken(table, index, length(table, 1, 2))
        if out == 0:
            return -1
        return _take(dtype, table, (1, length(table, 0, 1), length(table, 1, 2)), index, out)

    return entry


# --- several indices at once --------------------------------------------------------------------------------------------


@device
def _are_first(x, dims):
    """Whether a tuple names one dimension of x, or the first ones."""
    if not is_tuple(dims) or count_of(dims) < 1 or ndim_of(x) > _DIMS:
        return False
    for k in range(count_of(dims)):
        d = number_at(dims, k)
        if not 0 <= d < ndim_of(x) or (d != k and count_of(dims) > 1):
            return False
    return 0 < size_of(x) <= ENTRY_MOST


@device
def _place_of(x, first, places, j):
    """The number, among the elements that some dimensions have together, of what their indices name; -1 out of bounds."""
    place = 0
    for k in range(places.shape[0]):
        n, i = length(x, first + k, first + k + 1), places[k, j]
        if i < -n or i >= n:
            return -1
        place = place * n + (i + n if i < 0 else i)
    return place


@device
def _indexed(x, first, several, index):
    """A new array of the shape of x with that of an index, without its first dimension, in the place of some dimensions."""
    shape, beside = room(), ndim_of(index) - 1 - several
    for k in range(first):
        store64(shape + 8 * k, length(x, k, k + 1))
    for k in range(1, ndim_of(index)):
        store64(shape + 8 * (first + k - 1), length(index, k, k + 1))
    for k in range(first + several, ndim_of(x)):
        store64(shape + 8 * (k + beside), length(x, k, k + 1))
    return shaped(x, ndim_of(x) + beside, shape)


def _index_get(dtype: Any) -> Any:
    number = np.dtype(dtype).num

    def entry(objects, count):
        if count != 3:
            return 0
        x, index, dims = load64(objects), load64(objects + 8), load64(objects + 16)
        if not is_plain(x, number) or not _are_first(x, dims) or not is_plain(index, INT64):
            return 0
        if not 1 <= ndim_of(index) <= _DIMS or length(index, 0, 1) != count_of(dims):
            return 0
        first, several = number_at(dims, 0), count_of(dims)
        before, inside = length(x, 0, first), length(x, first, first + several)
        behind, many = length(x, first + several, ndim_of(x)), length(index, 1, ndim_of(index))
        if many < 1 or before * behind * many > ENTRY_MOST:
            return 0
        out = _indexed(x, first, several, index)
        if out == 0:
            return -1
        source, target = elements(dtype, x, before, inside, behind), elements(dtype, out, before, many, behind)
        places = elements(np.int64, index, several, many)
        for j in range(many):
            place = _place_of(x, first, places, j)
            if place < 0:
                release(out)
                return 0
            for a in range(before):
                for i in range(behind):
                    target[a, j, i] = source[a, place, i]
        return out

    return entry
