"""How much of a vector register the loops of a kernel use, where LLVM would choose otherwise.

Note [Half registers]
    Loops that read, compute next to nothing and write wait for memory, not for arithmetic. Where a register is as long as
    a cache line, a row that begins elsewhere touches two lines with each load and store; and as LLVM takes four registers
    at a time, up to 63 numbers of float32 at the end of each row are left, one after the other. With half of each register
    loads of rows that begin at multiples of 32 bytes keep to their lines, and at most 31 numbers are left.
"""

from __future__ import annotations

from typing import Any

from numba import extending, types

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)


@intrinsic
def half_registers(_typing):
    """Stands first in a kernel that moves memory: see Note [Half registers]."""

    def generate(context, builder, _signature, _args):
        # Their own add() takes only the attributes that llvmlite knows.
        set.add(builder.function.attributes, '"prefer-vector-width"="256"')
        return context.get_dummy_value()

    return types.none(), generate
