"""Writing the results of very large operations past the caches, so that what is written over is not read first.

A store of a few bytes has its cache line fetched: of two arrays and their sum, a quarter of all that goes through memory.
Stores of whole lines that are marked `nontemporal` are spared it. They go to memory, so that smaller results, which the
next operation would find in a cache, are better written as usual.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ferro.native.jit import device

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
LINE = 64  # bytes of a cache line
_byte, _line = ir.IntType(8), ir.VectorType(ir.IntType(64), 8)
_i64: Any = types.int64


@intrinsic
def _copy(_typing, target, source, size):
    """Copy so many bytes from one address to another."""

    def generate(context, builder, _signature, args):
        target, source = [builder.inttoptr(a, _byte.as_pointer()) for a in args[:2]]
        cgutils.raw_memcpy(builder, target, source, args[2], 1)
        return context.get_dummy_value()

    return types.none(_i64, _i64, _i64), generate


@intrinsic
def _copy_lines(_typing, target, source, lines):
    """Copy so many lines past the caches; `target` is the address of the first."""

    def generate(context, builder, _signature, args):
        target, source = [builder.inttoptr(a, _line.as_pointer()) for a in args[:2]]
        mark = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range(builder, args[2]) as loop:
            line = builder.load(builder.gep(source, [loop.index]), align=8)
            store = builder.store(line, builder.gep(target, [loop.index]), align=LINE)
            store.set_metadata("nontemporal", mark)
        return context.get_dummy_value()

    return types.none(_i64, _i64, _i64), generate


@intrinsic
def settle(_typing):
    """Have what was streamed seen by all threads before what this one writes from now on."""

    def generate(context, builder, _signature, _args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


@device
def stream(target, source, size):
    """Copy so many bytes from one address to another, whole lines past the caches."""
    head = min(-target & (LINE - 1), size)
    _copy(target, source, head)
    lines = (size - head) // LINE
    _copy_lines(target + head, source + head, lines)
    done = head + lines * LINE
    _copy(target + done, source + done, size - done)
