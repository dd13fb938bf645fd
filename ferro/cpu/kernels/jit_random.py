"""Compiled kernels of the Mersenne twister and of what is drawn from it: the numbers of core/twister.py, to the last bit.

`state` is the memory of NumPy's MT19937: 624 words and the place of the next one.  `spare` is a row of one element: the
normal number in float64 that a pair left over, or nan.

In float32 each multiplication with an addition after it is rounded once where the processor can; elsewhere it is done in
float64 and rounded to float32, as in cpu/box_muller.py: the same number but for one in about 2^29.  In float64 logarithms,
sines and cosines are the C library's, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.box_muller import COSINE, LOG, LOG_2, OCTANTS, QUARTER, ROOT_HALF, SINE, TWO_PI
from ferro.cpu.kernels.jit_bits import bits32, float32_of
from ferro.cpu.kernels.jit_exact import exact
from ferro.cpu.kernels.jit_exact import fma as rounded_once
from ferro.cpu.kernels.rejection import binomial, gamma, poisson, products, tail, transformed, waiting
from ferro.native.isa import has_fma
from ferro.native.jit import device, kernel, whole_registers

f4, f8, i4, u4, u8 = np.float32, np.float64, np.int32, np.uint32, np.uint64
_N, _M = 624, 397
_CHUNK = 4096
_HAS_FMA = has_fma()
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = LOG
_LOW, _HIGH = LOG_2
_S0, _S1, _S2 = SINE
_C0, _C1, _C2 = COSINE
_Q0, _Q1, _Q2 = QUARTER
_UNIT4, _UNIT8 = f4(2**-24), f8(2**-53)


@device
def _twist(state, i, after, far):
    y = (state[i] & u4(0x80000000)) | (state[after] & u4(0x7FFFFFFF))
    state[i] = state[far] ^ (y >> u4(1)) ^ (u4(0x9908B0DF) if y & u4(1) else u4(0))


@device
def _renew(state):
    """The next 624 words."""
    for i in range(_N - _M):
        _twist(state, i, i + 1, i + _M)
    for i in range(_N - _M, _N - 1):
        _twist(state, i, i + 1, i + _M - _N)
    _twist(state, _N - 1, 0, _M - 1)
    state[_N] = u4(0)


@device
def _tempered(y):
    y ^= y >> u4(11)
    y ^= (y << u4(7)) & u4(0x9D2C5680)
    y ^= (y << u4(15)) & u4(0xEFC60000)
    return y ^ (y >> u4(18))


@device
def _word(state):
    if state[_N] == u4(_N):
        _renew(state)
    y = _tempered(state[np.int64(state[_N])])
    state[_N] += u4(1)
    return y


@device
def _two_words(state):
    high = _word(state)
    return u8(high) << u8(32) | u8(_word(state))


@device
def _double(state):
    """A uniform number of [0, 1) in float64."""
    return f8(np.int64(_two_words(state) & u8(0x1FFFFFFFFFFFFF))) * _UNIT8


@device
def _fill(state, out, start, stop):
    """Uniform numbers of [0, 1)."""
    i = start
    if out.itemsize == 4:
        while i < stop:
            if state[_N] == u4(_N):
                _renew(state)
            first = np.int64(state[_N])
            count = min(_N - first, stop - i)
            for k in range(count):
                out[i + k] = f4(i4(_tempered(state[first + k]) & u4(0xFFFFFF))) * _UNIT4
            state[_N] += u4(count)
            i += count
        return
    while i < stop:
        first = np.int64(state[_N])
        count = min((_N - first) // 2, stop - i)
        for k in range(count):
            high, low = _tempered(state[first + 2 * k]), _tempered(state[first + 2 * k + 1])
            out[i + k] = f8(np.int64((u8(high) << u8(32) | u8(low)) & u8(0x1FFFFFFFFFFFFF))) * _UNIT8
        state[_N] += u4(2 * count)
        i += count
        if i < stop:  # its words lie in two blocks
            out[i] = _double(state)
            i += 1


@kernel
def uniform_numbers(state, out):
    """Uniform numbers of [0, 1)."""
    _fill(state, out, 0, len(out))


@device
def _fma(a, b, c):
    return rounded_once(a, b, c) if _HAS_FMA else f4(f8(a) * f8(b) + f8(c))


@device
def _log(x):
    bits = bits32(x)
    m = float32_of((bits & i4(0x7FFFFF)) | i4(0x3F000000))
    e = f4((bits >> i4(23)) - i4(126))
    small = m < ROOT_HALF
    e = e - f4(1) if small else e
    less = m - f4(1)
    m = less + m if small else less
    z = m * m
    y = _fma(_fma(_fma(_fma(_L0, m, _L1), m, _L2), m, _L3), m, _L4)
    y = _fma(_fma(_fma(_fma(y, m, _L5), m, _L6), m, _L7), m, _L8)
    y = _fma(y * m, z, e * _LOW)
    y = _fma(z, f4(-0.5), y)
    return _fma(e, _HIGH, m + y)


@device
def _pair(first, second):
    """Two normal numbers, from two uniform ones."""
    radius = f4(math.sqrt(f4(-2) * _log(f4(1) - first)))
    x = TWO_PI * second
    octant = (i4(x * OCTANTS) + i4(1)) & i4(-2)
    y = f4(octant)
    x = _fma(y, _Q2, _fma(y, _Q1, _fma(y, _Q0, x)))
    z = x * x
    c = _fma(_fma(_C0, z, _C1), z, _C2)
    c = _fma(c * z, z, z * f4(-0.5)) + f4(1)
    s = _fma(_fma(_S0, z, _S1), z, _S2)
    s = _fma(s * z, x, x)
    swapped = (octant & i4(2)) != i4(0)
    sine, cosine = c if swapped else s, s if swapped else c
    sine = -sine if (octant & i4(4)) != i4(0) else sine
    cosine = cosine if ((octant - i4(2)) & i4(4)) != i4(0) else -cosine
    return radius * cosine, radius * sine


@device
def _transform(out, start, blocks, mean, std, first, second):
    """Blocks of 16 uniform numbers into normal ones; the members of the pairs lie in rows of their own meanwhile."""
    for block in range(blocks):
        for k in range(8):
            first[8 * block + k] = out[start + 16 * block + k]
            second[8 * block + k] = out[start + 16 * block + 8 + k]
    for k in range(8 * blocks):
        a, b = _pair(first[k], second[k])
        first[k] = _fma(a, std, mean)
        second[k] = _fma(b, std, mean)
    for block in range(blocks):
        for k in range(8):
            out[start + 16 * block + k] = first[8 * block + k]
            out[start + 16 * block + 8 + k] = second[8 * block + k]


@device
def _pairs8(state, out, start, mean, std):
    """16 normal numbers in float64, from as many uniform ones."""
    _fill(state, out, start, start + 16)
    for k in range(start, start + 8):
        radius, angle = math.sqrt(-2.0 * math.log(1.0 - out[k])), 2.0 * math.pi * out[k + 8]
        out[k] = rounded_once(radius * math.cos(angle), std, mean)
        out[k + 8] = rounded_once(radius * math.sin(angle), std, mean)


@kernel
def normal_numbers(state, mean, std, out):
    """At least 16 normal numbers; the last 16 are made anew unless their number is divided by 16."""
    whole_registers()
    n = len(out)
    whole = n - n % 16
    if out.itemsize == 8:
        for start in range(0, whole, 16):
            _pairs8(state, out, start, mean, std)
    else:
        first, second = np.empty(min(n, _CHUNK) // 2, f4), np.empty(min(n, _CHUNK) // 2, f4)
        for start in range(0, whole, _CHUNK):
            stop = min(start + _CHUNK, whole)
            _fill(state, out, start, stop)
            _transform(out, start, (stop - start) // 16, f4(mean), f4(std), first, second)
    if whole < n:
        for _ in range(whole, n):
            _word(state)  # PyTorch draws these, too, and takes none of them
            if out.itemsize == 8:
                _word(state)
        if out.itemsize == 8:
            _pairs8(state, out, n - 16, mean, std)
        else:
            first, second = np.empty(8, f4), np.empty(8, f4)
            _fill(state, out, n - 16, n)
            _transform(out, n - 16, 1, f4(mean), f4(std), first, second)


@kernel
def shuffle(state, order):
    """The shuffle of Fisher and Yates, from the front."""
    n = len(order)
    for i in range(n - 1):
        k = i + np.int64(u8(_word(state)) % u8(n - i))
        order[i], order[k] = order[k], order[i]


@kernel
def whole_numbers(state, low, count, wide, out):
    """Integers of [low, low + count). wide: each from a draw of 64 bits; a count of 0 leaves it as it is."""
    n = len(out)
    if wide:
        for i in range(n):
            x = _two_words(state)
            out[i] = np.int64(x % u8(count) if count != 0 else x) + low
        return
    # x // count, or one less: x < 2^32 times 2^32 // count fits in 64 bits
    count, inverse = u8(count), (u8(1) << u8(32)) // u8(count)
    i = 0
    while i < n:
        if state[_N] == u4(_N):
            _renew(state)
        first = np.int64(state[_N])
        part = min(_N - first, n - i)
        for k in range(part):
            x = u8(_tempered(state[first + k]))
            rest = x - ((x * inverse) >> u8(32)) * count
            out[i + k] = np.int64(rest - count if rest >= count else rest) + low
        state[_N] += u4(part)
        i += part


@exact
def _pair8(state):
    """Two normal numbers in float64."""
    angle = 2 * math.pi * _double(state)
    radius = math.sqrt(-2 * math.log1p(-_double(state)))
    return radius * math.cos(angle), radius * math.sin(angle)


# What the names of rejection.py mean here, where a source is (state, spare).


@exact
def _uniform(source):
    return _double(source[0])


@exact
def _normal(source):
    state, spare = source
    found = spare[0]
    if math.isnan(found):
        found, spare[0] = _pair8(state)
    else:
        spare[0] = math.nan
    return found


_NAMES: dict[str, Any] = {
    "uniform": _uniform,
    "normal": _normal,
    "floor": np.floor,
    "ceil": np.ceil,
    "tail": exact(tail),
}
_NAMES |= {f.__name__: exact(f, **_NAMES) for f in (products, waiting, transformed)}
_gamma, _poisson, _binomial = [exact(f, **_NAMES) for f in (gamma, poisson, binomial)]


@kernel
def pair_numbers(state, spare, out):
    """Normal numbers in float64 from pairs that are made one by one."""
    for i in range(len(out)):
        out[i] = _normal((state, spare))


@kernel
def gamma_numbers(state, spare, columns, out):
    """Gamma numbers of the parameters in `columns`; the same for the next two."""
    for i in range(len(out)):
        out[i] = _gamma((state, spare), columns[0, i], columns[1, i], columns[2, i], columns[3, i])


@kernel
def poisson_numbers(state, spare, columns, out):
    for i in range(len(out)):
        out[i] = _poisson((state, spare), columns[0, i])


@kernel
def binomial_numbers(state, spare, columns, out):
    for i in range(len(out)):
        c = columns[:, i]
        out[i] = _binomial((state, spare), c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7])
