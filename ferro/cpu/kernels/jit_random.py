"""Compiled kernels of the Mersenne twister and of what is drawn from it: the numbers of core/twister.py, to the last bit.

`state` is the memory of NumPy's MT19937: 624 words and the place of the next one.  Each multiplication with an addition
after it is done in float64 and rounded to float32, as in cpu/box_muller.py, so that it makes no difference which of the two
computes: a product of float32 is exact in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.box_muller import COSINE, LOG, LOG_2, QUARTER, SINE
from ferro.cpu.kernels.jit import device, kernel, whole_registers
from ferro.cpu.kernels.jit_math import bits32, float32_of

f4, f8, i4, u4, u8 = np.float32, np.float64, np.int32, np.uint32, np.uint64
_N, _M = 624, 397
_CHUNK = 4096
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = LOG
_LOW, _HIGH = LOG_2
_S0, _S1, _S2 = SINE
_C0, _C1, _C2 = COSINE
_Q0, _Q1, _Q2 = QUARTER
_TWO_PI, _ROOT_HALF, _OCTANTS = f4(2 * np.pi), f4(0.707106781186547524), f4(1.27323954473516)
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
            high = _word(state)
            low = _word(state)
            out[i] = f8(np.int64((u8(high) << u8(32) | u8(low)) & u8(0x1FFFFFFFFFFFFF))) * _UNIT8
            i += 1


@kernel
def uniform_numbers(state, out):
    """Uniform numbers of [0, 1)."""
    _fill(state, out, 0, len(out))


@device
def _fma(a, b, c):
    return f4(f8(a) * f8(b) + f8(c))


@device
def _log(x):
    bits = bits32(x)
    m = float32_of((bits & i4(0x7FFFFF)) | i4(0x3F000000))
    e = f4((bits >> i4(23)) - i4(126))
    small = m < _ROOT_HALF
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
    x = _TWO_PI * second
    octant = (i4(x * _OCTANTS) + i4(1)) & i4(-2)
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


@kernel
def normal_numbers(state, out, mean, std):
    """At least 16 normal numbers in float32; the last 16 are made anew unless their number is divided by 16."""
    whole_registers()
    n = len(out)
    whole = n - n % 16
    first, second = np.empty(min(n, _CHUNK) // 2, f4), np.empty(min(n, _CHUNK) // 2, f4)
    for start in range(0, whole, _CHUNK):
        stop = min(start + _CHUNK, whole)
        _fill(state, out, start, stop)
        _transform(out, start, (stop - start) // 16, f4(mean), f4(std), first, second)
    if whole < n:
        for _ in range(whole, n):
            _word(state)  # PyTorch draws these, too, and takes none of them
        _fill(state, out, n - 16, n)
        _transform(out, n - 16, 1, f4(mean), f4(std), first, second)


@kernel
def shuffle(state, order):
    """The shuffle of Fisher and Yates, from the front."""
    n = len(order)
    for i in range(n - 1):
        k = i + np.int64(u8(_word(state)) % u8(n - i))
        order[i], order[k] = order[k], order[i]
