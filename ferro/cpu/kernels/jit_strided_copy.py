"""Compiled kernels that move numbers: views copied into views, matrices transposed."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.np.numpy_support import carray

from ferro.cpu.kernels.jit_widths import half_registers
from ferro.cpu.thresholds import COPY_ROW
from ferro.native.jit import device, kernel

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)

_ROWS = 8  # that are read side by side, so that what is written at a place fills a vector


@kernel
def transposed(start, stop, x, out):
    """out[b, j, i] = x[b, i, j], for the groups of eight rows from `start` to `stop`, counted through the matrices."""
    rows, columns = x.shape[1], x.shape[2]
    groups = (rows + _ROWS - 1) // _ROWS
    for group in range(start, stop):
        b, first = group // groups, group % groups * _ROWS
        if first + _ROWS <= rows:
            for j in range(columns):
                for i in range(_ROWS):
                    out[b, j, first + i] = x[b, first + i, j]
        else:
            for j in range(columns):
                for i in range(first, rows):
                    out[b, j, i] = x[b, i, j]


@kernel
def triangle(start, stop, m, diagonal, lower, x, out):
    """Rows of matrices with m rows: what lies in `out` up to a diagonal (lower), or from it on, is that of x; the rest is 0."""
    n = x.shape[1]
    for i in range(start, stop):
        edge = min(max(i % m + diagonal + lower, 0), n)
        first, last = (0, edge) if lower else (edge, n)
        _clear(out[i, :first])
        _copy(x[i, first:last], out[i, first:last])
        _clear(out[i, last:])


@device
def _copy(x, out):
    for j in range(out.size):
        out[j] = x[j]


@device
def _clear(out):
    for j in range(out.size):
        out[j] = 0


# --- any view into any other -----------------------------------------------------------------------------------------

WORDS = 15  # of a copy
_EVEN = 64  # elements at whose multiples a copy is cut
_MANY = (1 << 40,)

u64 = np.uint64  # a negative index is a huge one then, and Numba need not wrap it
copy_bytes, _set_bytes = [
    types.ExternalFunction(name, types.int64(*[types.int64] * 3)) for name in ("memcpy", "memset")
]


@intrinsic
def _pointer(_typing, address):
    def generate(_context, builder, _signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@device
def _is_zero(address, size):
    """Whether all bits of a number are 0."""
    if size == 4:
        return carray(_pointer(address), (1,), np.int32)[0] == 0
    return carray(_pointer(address), (1,), np.int64)[0] == 0


@kernel
def move(start, stop, parts, words):
    """The parts from `start` to `stop` of some copies, each of which is cut into so many.

    `words` are the addresses of source and target of each copy, and for each copy what the bits of an element are moved
    as (4 or 8 bytes, or 1 where what is copied in a row lies without gaps), four lengths, and the bytes from one element
    to the next along these dimensions, in the source and in the target.

    Copies side by side that have the same rows go through them together: arrays that are joined have rows between each
    other's, and a target written with gaps, then again between them, takes up to three times as long.
    """
    copies = words.size // WORDS
    first = 0
    while first < copies:
        rows, last = _rows(words, copies, first), first + 1
        while last < copies and _same_rows(words, copies, first, last):
            last += 1
        if last - first > 1 and rows >= parts:
            _move_rows(rows * start // parts, rows * stop // parts, words, copies, first, last)
        else:
            for copy in range(first, last):
                _move_elements(start, stop, parts, words, copies, copy)
        first = last


@device
def _at(copies, copy):
    """Where the words of a copy begin."""
    return 2 * copies + (WORDS - 2) * copy


@device
def _rows(words, copies, copy):
    w = words[_at(copies, copy) :]
    return w[1] * w[2] * w[3]


@device
def _same_rows(words, copies, a, b):
    v, w = words[_at(copies, a) :], words[_at(copies, b) :]
    return v[1] == w[1] and v[2] == w[2] and v[3] == w[3]


@device
def _move_rows(row, stop, words, copies, first, last):
    """The rows from `row` to `stop` of the copies from `first` to `last`."""
    n = words[_at(copies, first) + 1 :]
    i2, i1, i0 = row % n[2], row // n[2] % n[1], row // (n[2] * n[1])
    for _ in range(row, stop):
        for copy in range(first, last):
            w = _at(copies, copy)
            here, there = words[u64(2 * copy)], words[u64(2 * copy + 1)]
            here += i0 * words[u64(w + 5)] + i1 * words[u64(w + 6)] + i2 * words[u64(w + 7)]
            there += i0 * words[u64(w + 9)] + i1 * words[u64(w + 10)] + i2 * words[u64(w + 11)]
            _move_some(here, there, words[u64(w)], words[u64(w + 4)], words[u64(w + 8)], words[u64(w + 12)])
        i2 += 1
        if i2 == n[2]:
            i2 = 0
            i1 += 1
            if i1 == n[1]:
                i1 = 0
                i0 += 1


@device
def _move_elements(start, stop, parts, words, copies, copy):
    """The parts from `start` to `stop` of a copy by itself."""
    source, target = words[2 * copy], words[2 * copy + 1]
    first = _at(copies, copy)
    size = words[first]
    n, s, t = words[first + 1 : first + 5], words[first + 5 : first + 9], words[first + 9 : first + 13]
    total = n[0] * n[1] * n[2] * n[3]
    at = min((total * start // parts + _EVEN - 1) // _EVEN * _EVEN, total)
    end = min((total * stop // parts + _EVEN - 1) // _EVEN * _EVEN, total)
    row = at // n[3]
    j = at - row * n[3]
    i2, i1, i0 = row % n[2], row // n[2] % n[1], row // (n[2] * n[1])
    while at < end:
        count = min(n[3] - j, end - at)
        here = source + i0 * s[0] + i1 * s[1] + i2 * s[2] + j * s[3]
        there = target + i0 * t[0] + i1 * t[1] + i2 * t[2] + j * t[3]
        _move_some(here, there, size, count, s[3], t[3])
        at += count
        j = 0
        i2 += 1
        if i2 == n[2]:
            i2 = 0
            i1 += 1
            if i1 == n[1]:
                i1 = 0
                i0 += 1


@device
def _move_some(here, there, size, count, s, t):
    """`count` elements of so many bytes from one address to another, each s behind the one before, or t."""
    if size == 1:
        _copy_row(here, there, count)
    elif s == 0 and t == size and _is_zero(here, size):
        _set_bytes(there, 0, count * size)
    else:
        x, y = _pointer(here + min(0, (count - 1) * s)), _pointer(there + min(0, (count - 1) * t))
        if size == 4:
            _move_row(carray(x, _MANY, np.int32), carray(y, _MANY, np.int32), count, s // 4, t // 4)
        else:
            _move_row(carray(x, _MANY, np.int64), carray(y, _MANY, np.int64), count, s // 8, t // 8)


def _registers(count):
    """A function that copies so many registers of 32 bytes from one address to another: all are read, then written."""

    def copy(_typing, target, source):
        def generate(context, builder, _signature, args):
            target, source = [builder.inttoptr(a, _REGISTER.as_pointer()) for a in args]
            places = [ir.Constant(ir.IntType(64), k) for k in range(count)]
            found = [builder.load(builder.gep(source, [k]), align=1) for k in places]
            for k, register in zip(places, found, strict=True):
                builder.store(register, builder.gep(target, [k]), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return intrinsic(copy)


_REGISTER = ir.VectorType(ir.IntType(64), 4)
_one, _eight = _registers(1), _registers(8)


@device
def _copy_row(here, there, count):
    """`count` bytes from one address to another."""
    if count >= COPY_ROW:
        copy_bytes(there, here, count)
    elif count >= 32:
        at = 0
        while at + 256 <= count:
            _eight(there + at, here + at)
            at += 256
        while at + 32 <= count:
            _one(there + at, here + at)
            at += 32
        if at < count:  # the last register once more, with what is left
            _one(there + count - 32, here + count - 32)
    else:
        words = count // 8
        x, y = carray(_pointer(here), _MANY, np.int64), carray(_pointer(there), _MANY, np.int64)
        for k in range(words):
            y[k] = x[k]
        p, q = carray(_pointer(here), _MANY, np.uint8), carray(_pointer(there), _MANY, np.uint8)
        for k in range(8 * words, count):
            q[k] = p[k]


@device
def _move_row(x, y, count, s, t):
    """`count` numbers of x, s from each to the next, to y, t from each to the next: either may go down from the last."""
    half_registers()
    if s == 0 and t == 1:
        for k in range(count):
            y[k] = x[0]
    elif s == 2 and t == 1:
        for k in range(count):
            y[k] = x[2 * k]
    elif s == 1 and t == 2:
        for k in range(count):
            y[2 * k] = x[k]
    elif s == -1 and t == 1:
        for k in range(count - 1, -1, -1):  # (so LLVM finds vectors; with k going up it does not)
            y[count - 1 - k] = x[k]
    else:
        i, j = max(0, (1 - count) * s), max(0, (1 - count) * t)
        for _ in range(count):
            y[u64(j)] = x[u64(i)]
            i += s
            j += t
