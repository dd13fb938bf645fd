"""The bits of floats for kernels: read as integers and back, put in order; and a multiplication with an addition in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.native.jit import by_precision, device

i32, i64 = np.int32, np.int64


def _reinterpret(source: Any, target: Any, ir_target: Any) -> Any:
    """The bits of a `source` read as a `target`. A scalar's view() fails inside loops that are vectorised."""

    @intrinsic
    def convert(_context, x):  # Numba compares the names of the arguments
        def generate(_codegen, builder, _signature, args):
            return builder.bitcast(args[0], ir_target)

        return target(source), generate

    return convert


bits32 = _reinterpret(types.float32, types.int32, ir.IntType(32))
bits64 = _reinterpret(types.float64, types.int64, ir.IntType(64))
float32_of = _reinterpret(types.int32, types.float32, ir.FloatType())
float64_of = _reinterpret(types.int64, types.float64, ir.DoubleType())


@intrinsic
def _muladd(_context, a, b, c):
    """a b + c of one precision, in one instruction where there is one: also where LLVM has a choice, or needs a b again."""

    def generate(_codegen, builder, _signature, args):
        kind = args[0].type
        function = ir.FunctionType(kind, [kind] * 3)
        name = f"llvm.fmuladd.f{a.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)

    return a(a, b, c), generate


muladd: Any = _muladd  # (typed: a call gives an argument less than the definition takes)


@device
def _rank32(x):
    b = bits32(x)
    return i32(b ^ ((b >> i32(31)) & i32(0x7FFFFFFF)))  # Numba makes int64 of operations on int32


@device
def _rank64(x):
    b = bits64(x)
    return b ^ ((b >> i64(63)) & i64(0x7FFFFFFFFFFFFFFF))


@device
def _unrank32(b):
    return float32_of(i32(b ^ ((b >> i32(31)) & i32(0x7FFFFFFF))))


@device
def _unrank64(b):
    return float64_of(b ^ ((b >> i64(63)) & i64(0x7FFFFFFFFFFFFFFF)))


rank = by_precision(_rank32, _rank64)  # integers in the order of the floats, NaN beyond the infinity of its sign
unrank = by_precision(_unrank32, _unrank64)
