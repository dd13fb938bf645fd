"""Entries of cat and stack (see native/jit_entries.py): small arrays of one dtype, one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.thresholds import JOIN_SCATTERED
from ferro.native.jit import device
from ferro.native.jit_arrays import array_at, is_array, is_plain, length, shaped, size_of
from ferro.native.jit_fields import (
    class_of,
    count_of,
    data_of,
    flags_of,
    int_type,
    items_of,
    load64,
    ndim_of,
    room,
    shape_of,
    store64,
    strides_of,
    tuple_type,
)
from ferro.native.jit_interpreter import as_long
from ferro.native.thresholds import ENTRY_MOST

_ALIGNED = 0x100


def entries(dtype: Any) -> dict[str, Any]:
    """The entries of cat(xs, dim) and stack(xs, dim), xs being a tuple."""
    return {"cat": _entry(dtype, 0), "stack": _entry(dtype, 1)}


def _entry(dtype: Any, more: int) -> Any:  # noqa: C901 (one straight list of cases)
    """`more`: how many dimensions the result has that the arrays do not have."""
    number, itemsize = np.dtype(dtype).num, np.dtype(dtype).itemsize

    @device
    def copy(a, before, to, gap):
        """The elements of a in as many parts as there are `before` the dimension, `gap` bytes from one to the next."""
        size, ndim = size_of(a), ndim_of(a)
        many = size // before
        if is_plain(a, number):
            for part in range(before):
                target = array_at(dtype, to + part * gap, (many,))
                source = array_at(dtype, data_of(a) + part * many * itemsize, (many,))
                for i in range(many):
                    target[i] = source[i]
            return
        for i in range(size):
            place, rest = data_of(a), i
            for d in range(ndim - 1, -1, -1):
                n = load64(shape_of(a) + 8 * d)
                place += rest % n * load64(strides_of(a) + 8 * d)
                rest //= n
            array_at(dtype, to + i // many * gap + i % many * itemsize, (1,))[0] = array_at(dtype, place, (1,))[0]

    def entry(objects, count):
        if count != 2:
            return 0
        xs, dim = load64(objects), load64(objects + 8)
        if class_of(xs) != tuple_type() or class_of(dim) != int_type() or count_of(xs) < 1:
            return 0
        first, d, total, along = load64(items_of(xs)), as_long(dim), 0, 0
        if not is_array(first, number) or d < 0 or d >= ndim_of(first) + more or ndim_of(first) > 30:
            return 0
        ndim = ndim_of(first)
        for k in range(count_of(xs)):
            a = load64(items_of(xs) + 8 * k)
            if not is_array(a, number) or ndim_of(a) != ndim or flags_of(a) & _ALIGNED == 0:
                return 0
            for j in range(ndim):
                if (more or j != d) and length(a, j, j + 1) != length(first, j, j + 1):
                    return 0
            size = size_of(a)
            if size > JOIN_SCATTERED and not is_plain(a, number):
                return 0
            total += size
            along += 1 if more else length(a, d, d + 1)
        if total < 1 or total > ENTRY_MOST:
            return 0
        shape = room()
        for j in range(ndim + more):
            store64(shape + 8 * j, along if j == d else length(first, j - more * (j > d), j - more * (j > d) + 1))
        out = shaped(first, ndim + more, shape)
        if out == 0:
            return -1
        before, to = length(first, 0, d), data_of(out)
        gap = total // before * itemsize
        for k in range(count_of(xs)):
            a = load64(items_of(xs) + 8 * k)
            copy(a, before, to, gap)
            to += size_of(a) // before * itemsize
        return out

    return entry
