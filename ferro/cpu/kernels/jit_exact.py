"""Arithmetic in kernels that is done as it is written, bit by bit: see Note [Floating point in kernels] in native/jit.py."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.native.jit import device


def exact(fn: Any, **names: Any) -> Any:
    """A function that kernels call, of which no multiplication and addition become one. `names` mean something else in it."""
    made = device(FunctionType(fn.__code__, {**fn.__globals__, **names}) if names else fn)
    made.targetoptions.update(fastmath=False)
    return made


@intrinsic
def _rounded_once(_context, a, b, c):
    """a b + c in float32 or float64, also where no instruction computes it."""

    def generate(_codegen, builder, _signature, args):
        kind = ir.DoubleType() if a.bitwidth == 64 else ir.FloatType()
        function, name = ir.FunctionType(kind, [kind] * 3), f"llvm.fma.f{a.bitwidth}"
        return builder.call(cgutils.get_or_insert_function(builder.module, function, name), args)

    return a(a, b, c), generate


fma: Any = _rounded_once  # (typed: a call gives an argument less than the definition takes)
