"""Entries of cat and stack (see native/jit_entries.py): arrays of one dtype, one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.kernels.jit_copies import copied_into, put_rows
from ferro.cpu.kernels.jit_strided_copy import WORDS
from ferro.cpu.thresholds import COPY_PLANS, JOIN_SCATTERED
from ferro.native.jit import device
from ferro.native.jit_arrays import array_at, is_array, is_plain, length, shaped, size_of
from ferro.native.jit_fields import (
    ALIGNED,
    class_of,
    count_of,
    data_of,
    flags_of,
    int_type,
    load64,
    ndim_of,
    room,
    shape_of,
    store64,
    strides_of,
)
from ferro.native.jit_interpreter import as_long, is_tuple, item_at
from ferro.native.thresholds import ENTRY_MOST


def entries(dtype: Any) -> dict[str, Any]:
    """The entries of cat(xs, dim) and stack(xs, dim), xs being a tuple."""
    return {"cat": _entry(dtype, 0), "stack": _entry(dtype, 1)}


def _entry(dtype: Any, more: int) -> Any:
    """`more`: how many dimensions the result has that the arrays do not have."""
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize
    fitting, small, large = _fitting(number, more), _small(dtype), _large(width)

    def entry(objects, count):
        if count != 2:
            return 0
        xs, dim = load64(objects), load64(objects + 8)
        if not is_tuple(xs) or class_of(dim) != int_type() or count_of(xs) < 1:
            return 0
        first, d, shape = item_at(xs, 0), as_long(dim), room()
        if not is_array(first, number) or d < 0 or d >= ndim_of(first) + more or ndim_of(first) > 30:
            return 0
        total, along = fitting(xs, d)
        if total < 1:
            return 0
        for j in range(ndim_of(first) + more):
            k = j - more * (j > d)
            store64(shape + 8 * j, along if j == d else length(first, k, k + 1))
        join = total > ENTRY_MOST
        if join and not _are_large(xs, number):
            return 0
        out = shaped(first, ndim_of(first) + more, shape)
        if out == 0:
            return -1
        return large(xs, length(first, 0, d), total, out) if join else small(xs, length(first, 0, d), total, out)

    return entry


def _fitting(number: int, more: int) -> Any:
    @device
    def fitting(xs, d):
        """How many elements arrays have together, and along the dimension; 0 of those that do not go together."""
        first, total, along = item_at(xs, 0), 0, 0
        for k in range(count_of(xs)):
            a = item_at(xs, k)
            if not is_array(a, number) or ndim_of(a) != ndim_of(first) or flags_of(a) & ALIGNED == 0:
                return 0, 0
            for j in range(ndim_of(first)):
                if (more or j != d) and length(a, j, j + 1) != length(first, j, j + 1):
                    return 0, 0
            size = size_of(a)
            if size > JOIN_SCATTERED and not is_plain(a, number):
                return 0, 0
            total += size
            along += 1 if more else length(a, d, d + 1)
        return total, along

    return fitting


# --- small ones -----------------------------------------------------------------------------------------------------------


def _small(dtype: Any) -> Any:
    number, width = np.dtype(dtype).num, np.dtype(dtype).itemsize

    @device
    def copy(a, before, to, gap):
        """The elements of a in as many parts as there are `before` the dimension, `gap` bytes from one to the next."""
        size, ndim = size_of(a), ndim_of(a)
        many = size // before
        if is_plain(a, number):
            for part in range(before):
                target = array_at(dtype, to + part * gap, (many,))
                source = array_at(dtype, data_of(a) + part * many * width, (many,))
                for i in range(many):
                    target[i] = source[i]
            return
        for i in range(size):
            place, rest = data_of(a), i
            for d in range(ndim - 1, -1, -1):
                n = load64(shape_of(a) + 8 * d)
                place += rest % n * load64(strides_of(a) + 8 * d)
                rest //= n
            array_at(dtype, to + i // many * gap + i % many * width, (1,))[0] = array_at(dtype, place, (1,))[0]

    @device
    def join(xs, before, total, out):
        to, gap = data_of(out), total // before * width
        for k in range(count_of(xs)):
            a = item_at(xs, k)
            copy(a, before, to, gap)
            to += size_of(a) // before * width
        return out

    return join


# --- large ones -----------------------------------------------------------------------------------------------------------


@device
def _are_large(xs, number):
    """Whether arrays are some, lie as kernels read them, and none is empty."""
    if count_of(xs) > COPY_PLANS:
        return False
    for k in range(count_of(xs)):  # noqa: SIM110 (Numba knows no generator here)
        if size_of(item_at(xs, k)) < 1 or not is_plain(item_at(xs, k), number):
            return False
    return True


def _large(width: int) -> Any:
    @device
    def join(xs, before, total, out):
        words = np.empty(WORDS * count_of(xs), np.int64)
        to, gap = data_of(out), total // before * width
        for k in range(count_of(xs)):
            a = item_at(xs, k)
            each = size_of(a) // before * width
            put_rows(words, k, (data_of(a), to), before, each, each, gap)
            to += each
        return copied_into(out, total, words)

    return join
