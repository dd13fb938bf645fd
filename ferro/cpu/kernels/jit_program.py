"""Runs a sequence of NumPy's own inner loops over arrays, block by block and without the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types

from ferro.cpu.kernels.jit import kernel

intrinsic: Any = extending.intrinsic  # (typed: a call gives less arguments than the definition takes)
_word = ir.IntType(64)
_words = _word.as_pointer()
_loop = ir.FunctionType(ir.VoidType(), [_words, _words, _words, _word])
_i64 = types.int64


@intrinsic
def _call(_typing, function, pointers, length, steps, data):
    """Call an inner loop of a ufunc: void loop(char **args, intp *dimensions, intp *steps, void *data)."""

    def generate(context, builder, _signature, args):
        loop = builder.inttoptr(args[0], _loop.as_pointer())
        builder.call(loop, [*[builder.inttoptr(a, _words) for a in args[1:4]], args[4]])
        return context.get_dummy_value()

    return types.none(*[_i64] * 5), generate


@kernel
def run_program(start, stop, words, block):
    """Rows [start, stop) of a program, a block of elements at a time.

    `words` are: the number of lines, of arrays, of slots, of rows, of elements in a row, and of those in the last one;
    for each array its address; for each array the bytes from one row to the next; for each slot the bytes from one
    element to the next, spare blocks coming behind the arrays; and lines of 7: the loop, its data, the number of its
    operands and result, and their slots.
    """
    lines, arrays, slots, rows = words[0], words[1], words[2], words[3]
    bases, outer, steps = words[6:], words[6 + arrays :], words[6 + 2 * arrays :]
    code = words[6 + 2 * arrays + slots :]
    spare = np.empty((slots - arrays + 1, block), np.float64)
    pointers, strides, length = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(1, np.int64)
    for row in range(start, stop):
        columns = words[5] if row == rows - 1 else words[4]
        for begin in range(0, columns, block):
            length[0] = min(block, columns - begin)
            for at in range(0, 7 * lines, 7):
                for k in range(code[at + 2]):
                    slot = code[at + 3 + k]
                    strides[k] = steps[slot]
                    if slot < arrays:
                        pointers[k] = bases[slot] + row * outer[slot] + begin * steps[slot]
                    else:
                        pointers[k] = spare[slot - arrays].ctypes.data
                _call(code[at], pointers.ctypes.data, length.ctypes.data, strides.ctypes.data, code[at + 1])
