"""Compiled kernels between float32, float64 and the floats of 16 bits, and arithmetic of these: numbers of 16 bits as the integers of their bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ferro.cpu.kernels.jit_bits import bits64, float64_of
from ferro.cpu.kernels.jit_widths import half_registers
from ferro.native.jit import device, kernel

f32, f64, i64 = np.float32, np.float64, np.int64
_int32 = ir.IntType(32)


@intrinsic
def _of_half(_typing, bits):
    """The float32 that a number of half precision is."""

    def generate(_context, builder, _signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _to_half(_typing, x):
    """The bits of the nearest number of half precision."""

    def generate(_context, builder, _signature, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def _of_bfloat(_typing, bits):
    """The float32 whose upper half the bits are. (In LLVM's words: Numba makes 64 bits of operations on 32.)"""

    def generate(_context, builder, _signature, args):
        whole = builder.shl(builder.zext(args[0], _int32), _int32(16))
        return builder.bitcast(whole, ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _to_bfloat(_typing, x):
    """The upper half of the bits, the lower one rounded to the nearest even; nan stays nan."""

    def generate(_context, builder, _signature, args):
        bits = builder.bitcast(args[0], _int32)
        upper = builder.lshr(bits, _int32(16))
        half = builder.add(builder.and_(upper, _int32(1)), _int32(0x7FFF))
        rounded = builder.lshr(builder.add(bits, half), _int32(16))
        nan = builder.or_(builder.and_(upper, _int32(0x8000)), _int32(0x7FC0))
        found = builder.select(builder.fcmp_unordered("uno", args[0], args[0]), nan, rounded)
        return builder.trunc(found, ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def _upper_half(_typing, x):
    """The upper half of the bits."""

    def generate(_context, builder, _signature, args):
        return builder.trunc(builder.lshr(builder.bitcast(args[0], _int32), _int32(16)), ir.IntType(16))

    return types.uint16(types.float32), generate


upper_half: Any = _upper_half
of_half: Any = _of_half
to_half: Any = _to_half
of_bfloat: Any = _of_bfloat
to_bfloat: Any = _to_bfloat


@kernel
def half_to_float(x, out):
    for i in range(x.size):
        out[i] = of_half(x[i])


@kernel
def float_to_half(x, out):
    for i in range(x.size):
        out[i] = to_half(x[i])


@kernel
def bfloat_to_float(x, out):
    for i in range(x.size):
        out[i] = of_bfloat(x[i])


@kernel
def float_to_bfloat(x, out):
    for i in range(x.size):
        out[i] = to_bfloat(x[i])


@device
def _odd(x):
    """A float64 with as many digits as a float32 has, cut off, and the last one 1 where something was: what is rounded to fewer digits
    then is rounded once. (S. Boldo and G. Melquiond, Emulation of a FMA and correctly rounded sums: proved algorithms using
    rounding to odd, 2008.)
    """
    bits = bits64(x)
    rest = i64((1 << 29) - 1)
    return float64_of((bits | ((bits & rest) + rest)) & ~rest)


@kernel
def double_to_half(x, out):
    for i in range(x.size):
        out[i] = to_half(f32(_odd(x[i])))


@kernel
def double_to_bfloat(x, out):
    whole = f64(1.5 * 2**52 * 2.0**-133)  # added, it rounds to a multiple of the smallest bfloat16
    for i in range(x.size):
        v = x[i]
        small = math.copysign((v + whole) - whole, v)
        bits = bits64(v)
        near = float64_of((bits + i64((1 << 44) - 1) + ((bits >> i64(45)) & i64(1))) & i64(-1 << 45))
        near = near if v == v else v  # noqa: PLR0124 (nan)
        out[i] = upper_half(f32(small if abs(v) < f64(2.0**-126) else near))


def _arithmetic(wide: Any, narrow: Any) -> Any:
    """The kernel of sums (0), differences (1), products (2) and quotients (3) of two arrays, or of one and a number: y[0]."""

    def run(operation, x, y, out):
        half_registers()
        if y.size != x.size:
            v = wide(y[0])
            if operation == 0:
                for i in range(x.size):
                    out[i] = narrow(wide(x[i]) + v)
            elif operation == 1:
                for i in range(x.size):
                    out[i] = narrow(wide(x[i]) - v)
            elif operation == 2:
                for i in range(x.size):
                    out[i] = narrow(wide(x[i]) * v)
            else:
                for i in range(x.size):
                    out[i] = narrow(wide(x[i]) / v)
        elif operation == 0:
            for i in range(x.size):
                out[i] = narrow(wide(x[i]) + wide(y[i]))
        elif operation == 1:
            for i in range(x.size):
                out[i] = narrow(wide(x[i]) - wide(y[i]))
        elif operation == 2:
            for i in range(x.size):
                out[i] = narrow(wide(x[i]) * wide(y[i]))
        else:
            for i in range(x.size):
                out[i] = narrow(wide(x[i]) / wide(y[i]))

    return kernel(run)


half_arithmetic, bfloat_arithmetic = _arithmetic(of_half, to_half), _arithmetic(of_bfloat, to_bfloat)
