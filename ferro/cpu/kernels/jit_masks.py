"""Compiled kernels that choose elements by a mask: one of two arrays, what lies where it is true, and back."""

from __future__ import annotations

import numpy as np

from ferro.native.jit import kernel

u64 = np.uint64  # Numba need not look whether an index is negative


@kernel
def choose(mask, x, y, out):
    """out[i] = x[i] if mask[i] else y[i]; x and y may hold one number for all."""
    n = out.size
    if x.size == n and y.size == n:
        for i in range(n):
            out[i] = x[i] if mask[i] else y[i]
    elif y.size == n:
        first = x[0]
        for i in range(n):
            out[i] = first if mask[i] else y[i]
    elif x.size == n:
        other = y[0]
        for i in range(n):
            out[i] = x[i] if mask[i] else other
    else:
        first, other = x[0], y[0]
        for i in range(n):
            out[i] = first if mask[i] else other


# A place is written before it is known whether it is to be kept: without jumps, which nobody could foresee.


@kernel
def pick(start, stop, parts, mask, before, x, out):
    """The elements of x where the mask is true, to `out`; `before` says how many come before each part, and in all."""
    for part in range(start, stop):
        i = u64(mask.size * part // parts)
        at, end = u64(before[part]), u64(before[part + 1])
        while at < end:
            out[at] = x[i]
            at += u64(mask[i])
            i += u64(1)


@kernel
def place(start, stop, parts, mask, before, x, out, clear):
    """The elements of x, in order, to where the mask is true in `out`; elsewhere it keeps what it has, or becomes 0."""
    for part in range(start, stop):
        at, last = u64(before[part]), u64(x.size - 1)
        begin, end = mask.size * part // parts, mask.size * (part + 1) // parts
        flags, target = mask[begin:end], out[begin:end]
        for i in range(flags.size):
            value = x[min(at, last)]
            if clear:
                target[i] = value if flags[i] else 0
            else:
                target[i] = value if flags[i] else target[i]
            at += u64(flags[i])


@kernel
def places(start, stop, parts, mask, before, shape, out):
    """Where the mask is true: out[d, k] is the place along dimension d of the k-th such element."""
    dims = shape.size
    columns = shape[dims - 1]
    for part in range(start, stop):
        first, last = mask.size * part // parts, mask.size * (part + 1) // parts
        at, end = u64(before[part]), u64(before[part + 1])
        row, column, near = first // columns, first % columns, out[dims - 1]
        while first < last and at < end:
            count, begin = min(columns - column, last - first), at
            flags = mask[first : first + count]
            for j in range(count):
                if at < end:  # (the last one may be the last of memory)
                    near[at] = column + j
                at += u64(flags[j])
            rest = row
            for d in range(dims - 2, -1, -1):
                place, rest = rest % shape[d], rest // shape[d]
                line = out[d]
                for k in range(begin, at):
                    line[k] = place
            first += count
            row += 1
            column = 0
