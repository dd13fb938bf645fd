"""Entries of arrays that are padded, rolled, reversed, repeated, or cut to a triangle (see native/jit_entries.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_copies import around, copied_into, put_copy, put_rows, words_at
from ferro.native.jit import device
from ferro.native.jit_arrays import (
    copy_bytes,
    count_dims,
    elements,
    first_dim,
    is_number,
    is_plain,
    length,
    like,
    shaped,
    size_of,
)
from ferro.native.jit_fields import class_of, count_of, data_of, int_type, load64, ndim_of, room, store64
from ferro.native.jit_interpreter import as_double, as_long, failed, is_tuple, item_at, number_at
from ferro.native.thresholds import ENTRY_FULL, ENTRY_MOST, SMALL

_DIMS = 30  # of arrays, at most


def entries(dtype: Any) -> dict[str, Any]:
    """The entries of these functions of ferro.cpu, by name."""
    return {
        "constant_pad": _constant_pad(dtype),
        "flip": _flip(dtype),
        "repeat_interleave": _repeat_interleave(dtype),
        "roll": _roll(dtype),
        "tril": _triangle(dtype, True),
        "triu": _triangle(dtype, False),
    }


# --- padded, small -------------------------------------------------------------------------------------------------------------


@device
def _padded(x, pads, shape, firsts):
    """Writes the lengths of x with elements before and behind, and how many are before, to addresses; gives the product
    of the lengths, or 0 where something is cut off, or much comes of it.
    """
    size = 1
    for k in range(ndim_of(x)):
        some = item_at(pads, k)
        if not is_tuple(some) or count_of(some) != 2:
            return 0
        before, behind = number_at(some, 0), number_at(some, 1)
        if not 0 <= before <= ENTRY_MOST or not 0 <= behind <= ENTRY_MOST:
            return 0
        store64(firsts + 8 * k, before)
        store64(shape + 8 * k, before + length(x, k, k + 1) + behind)
        size *= before + length(x, k, k + 1) + behind
        if size > ENTRY_MOST:
            return 0
    return size


def _constant_pad(dtype: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    def entry(objects, count):
        if count != 3:
            return 0
        x, pads, value, shape = load64(objects), load64(objects + 8), load64(objects + 16), room()
        firsts = shape + 8 * _DIMS
        if not is_plain(x, number) or not 1 <= ndim_of(x) <= _DIMS or not is_tuple(pads) or not is_number(value):
            return 0
        if count_of(pads) != ndim_of(x) or size_of(x) < 1:
            return 0
        size, fill = _padded(x, pads, shape, firsts), as_double(value)
        if fill == -1 and failed() != 0:
            return -1
        if size == 0:
            return 0
        out = shaped(x, ndim_of(x), shape)
        if out == 0:
            return -1
        target, last = elements(dtype, out, size), ndim_of(x) - 1
        for i in range(size):
            target[i] = fill
        columns = length(x, last, last + 1)
        for row in range(size_of(x) // columns):
            rest, place, step = row, load64(firsts + 8 * last), load64(shape + 8 * last)
            for k in range(last - 1, -1, -1):
                n = length(x, k, k + 1)
                place += (rest % n + load64(firsts + 8 * k)) * step
                rest, step = rest // n, step * load64(shape + 8 * k)
            copy_bytes(data_of(out) + place * width, data_of(x) + row * columns * width, columns * width)
        return out

    return entry


# --- rolled, reversed and repeated, of any size -------------------------------------------------------------------------


def _roll(dtype: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    def entry(objects, count):
        if count != 3:
            return 0
        x, shifts, dims = load64(objects), load64(objects + 8), load64(objects + 16)
        if not is_plain(x, number) or not is_tuple(shifts) or not is_tuple(dims):
            return 0
        if count_of(shifts) != 1 or count_of(dims) != 1 or size_of(x) < 1:
            return 0
        d, by = number_at(dims, 0), number_at(shifts, 0)
        if not 0 <= d < ndim_of(x):
            return 0
        before, n, each = around(x, d, width)
        by, row = by % n * each, n * each
        words, out = words_at(room(), 2 if by > 0 else 1), like(x, True)
        if out == 0:
            return -1
        put_rows(words, 0, (data_of(x), data_of(out) + by), before, row - by, row, row)
        if by > 0:
            put_rows(words, 1, (data_of(x) + row - by, data_of(out)), before, by, row, row)
        return copied_into(out, size_of(x), words)

    return entry


def _flip(dtype: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    def entry(objects, count):
        if count != 2:
            return 0
        x, dims, words = load64(objects), load64(objects + 8), words_at(room(), 1)
        if not is_plain(x, number) or size_of(x) < 1:
            return 0
        first = first_dim(dims)
        last = first + count_dims(dims)
        if first < 0 or last > ndim_of(x):
            return 0
        out = like(x, True)
        if out == 0:
            return -1
        before, n, behind = length(x, 0, first), length(x, first, last), length(x, last, ndim_of(x)) * width
        row, places = n * behind, (data_of(x) + (n - 1) * behind, data_of(out))
        if behind == width:
            put_copy(words, 0, places, width, (1, before, n), (0, row, -width), (0, row, width))
        else:
            put_copy(words, 0, places, 1, (before, n, behind), (row, -behind, 1), (row, behind, 1))
        return copied_into(out, size_of(x), words)

    return entry


def _repeat_interleave(dtype: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    def entry(objects, count):
        if count != 3:
            return 0
        x, times, dim, shape = load64(objects), load64(objects + 8), load64(objects + 16), room()
        if not is_plain(x, number) or class_of(times) != int_type() or class_of(dim) != int_type():
            return 0
        many, d, words = as_long(times), as_long(dim), words_at(room(), 1)
        if not 0 <= d < ndim_of(x) or ndim_of(x) > _DIMS or size_of(x) < 1 or not 1 <= many <= ENTRY_FULL:
            return 0
        for k in range(ndim_of(x)):
            store64(shape + 8 * k, length(x, k, k + 1) * (many if k == d else 1))
        out = shaped(x, ndim_of(x), shape)
        if out == 0:
            return -1
        before, n, each = around(x, d, width)
        places = data_of(x), data_of(out)
        if each == width:
            put_copy(words, 0, places, width, (1, before * n, many), (0, width, 0), (0, many * width, width))
        else:
            put_copy(words, 0, places, 1, (before * n, many, each), (each, 0, 1), (many * each, each, 1))
        return copied_into(out, size_of(out), words)

    return entry


# --- triangles ----------------------------------------------------------------------------------------------------------


def _triangle(dtype: Any, lower: bool) -> Any:
    number = np.dtype(dtype).num

    @device
    def cut(x, diagonal, out):
        m, n = x.shape[1], x.shape[2]
        for a in range(x.shape[0]):
            for i in range(m):
                edge = min(max(i + diagonal + (1 if lower else 0), 0), n)
                for j in range(edge):
                    out[a, i, j] = x[a, i, j] if lower else dtype(0)
                for j in range(edge, n):
                    out[a, i, j] = dtype(0) if lower else x[a, i, j]

    def entry(objects, count):
        if count != 2:
            return 0
        x, diagonal = load64(objects), load64(objects + 8)
        if not is_plain(x, number) or ndim_of(x) < 2 or class_of(diagonal) != int_type():
            return 0
        d, ndim = as_long(diagonal), ndim_of(x)
        if not -ENTRY_MOST <= d <= ENTRY_MOST or not 0 < size_of(x) < SMALL:
            return 0
        out = like(x, True)
        if out == 0:
            return -1
        shape = length(x, 0, ndim - 2), length(x, ndim - 2, ndim - 1), length(x, ndim - 1, ndim)
        cut(elements(dtype, x, *shape), d, elements(dtype, out, *shape))
        return out

    return entry
