"""Compiled kernels that read and write along the middle dimension of three, at the places that an index names.

Additions are made in the order of the index.  A kernel stops, and returns False, at an index that is out of bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ferro.cpu.kernels.jit_strided_copy import copy_bytes
from ferro.native.jit import device, kernel

u64 = np.uint64  # a negative index is a huge one then, and Numba need not wrap it
LINE = 64  # bytes of a cache line
AHEAD = 2048  # bytes: how far ahead lines of a result are fetched

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)


@intrinsic
def _fetch_to_write(_typing, address):
    """Have a line in the nearest cache, to be written soon: to fetch it takes longer than to copy into it."""

    def generate(context, builder, _signature, args):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, *[number] * 3])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # to be written (1), near (3), data (1)
        builder.call(fetch, [builder.inttoptr(args[0], byte), *[ir.Constant(number, k) for k in (1, 3, 1)]])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@device
def _read(source, out, at, place):
    out[at] = source[place]


@device
def _write(source, out, at, place):
    out[place] = source[at]


@device
def _add(source, out, at, place):
    out[place] += source[at]


@device
def _at_places(act, n, source, index, out):
    """`act` on what is at [i, j, k] and at [i, index[i, j, k], k], for all numbers of the index; these are less than n."""
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            for k in range(index.shape[2]):
                place = u64(index[i, j, k])
                if place >= u64(n):
                    return False
                act(source, out, (i, j, k), (i, place, k))
    return True


@kernel
def gather(x, index, out):
    """out[i, j, k] = x[i, index[i, j, k], k]."""
    return _at_places(_read, x.shape[1], x, index, out)


@kernel
def scatter(source, index, out):
    """out[i, index[i, j, k], k] = source[i, j, k]."""
    return _at_places(_write, out.shape[1], source, index, out)


@kernel
def scatter_add(source, index, out):
    """out[i, index[i, j, k], k] += source[i, j, k]."""
    return _at_places(_add, out.shape[1], source, index, out)


@kernel
def take(start, stop, size, x, index, out):
    """out[i, j, :] = x[i, index[j], :] for the rows of `out` from `start` to `stop`; x and out are lists of all their rows.

    `size` is how many rows of x there are for each i.
    """
    i = start // index.size
    j = start - i * index.size
    width = x.shape[1] * x.itemsize
    source = x.ctypes.data + i * size * width
    target, end = out.ctypes.data + start * width, out.ctypes.data + stop * width
    line = target
    while target < end:
        place = u64(index[j])
        if place >= u64(size):
            return False
        while line < min(target + AHEAD, end):
            _fetch_to_write(line)
            line += LINE
        copy_bytes(target, source + np.int64(place) * width, width)
        target += width
        j += 1
        if j == index.size:
            source += size * width
            j = 0
    return True


@kernel
def add_slices(start, stop, parts, source, index, out):
    """out[i, index[j], k] += source[i, j, k].

    The rows of `out`, counted through its first two dimensions, are cut into so many parts: what belongs to those from
    `start` to `stop` is added.
    """
    n = out.shape[1]
    if n == 0:
        return index.size == 0
    first, last = out.shape[0] * n * start // parts, out.shape[0] * n * stop // parts
    for i in range(first // n, (last + n - 1) // n):
        low, high = u64(max(first - i * n, 0)), u64(min(last - i * n, n))
        for j in range(index.size):
            place = u64(index[j])
            if place >= low and place < high:
                target, row = out[i, place], source[i, j]
                for k in range(row.size):
                    target[k] += row[k]
            elif place >= u64(n):
                return False
    return True


# --- one number after each place: the index has a row for each row of the others, or one for all ---------------------------


@device
def _at_places_of_rows(act, n, source, index, out):
    """`act` on what is at [i, j] and at [i, index[i, j]], for all numbers of the index."""
    for i in range(out.shape[0]):
        row, places, target = source[i], index[u64(min(i, index.shape[0] - 1))], out[i]
        for j in range(places.size):
            place = u64(places[j])
            if place >= u64(n):  # (without a jump LLVM gathers by vectors, which is slower)
                return False
            act(row, target, u64(j), place)
    return True


@kernel
def gather_rows(x, index, out):
    """out[i, j] = x[i, index[i, j]]."""
    return _at_places_of_rows(_read, x.shape[1], x, index, out)


@kernel
def scatter_rows(source, index, out):
    """out[i, index[i, j]] = source[i, j]."""
    return _at_places_of_rows(_write, out.shape[1], source, index, out)


@kernel
def scatter_add_rows(source, index, out):
    """out[i, index[i, j]] += source[i, j]."""
    return _at_places_of_rows(_add, out.shape[1], source, index, out)


# --- counting ------------------------------------------------------------------------------------------------------------


@kernel
def count_bins(x, low, high, counts):
    """Adds to `counts` how many numbers lie in each of as many equal bins from low to high, which belongs to the last."""
    n = counts.size
    T = x.dtype.type
    first, width = T(low), T(high) - T(low)
    for i in range(x.size):
        v = x[i]
        if v >= first and v <= T(high):
            place = np.int64((v - first) * T(n) / width)
            counts[u64(place if place < n else n - 1)] += 1
