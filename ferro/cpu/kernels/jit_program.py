"""Runs a sequence of NumPy's own inner loops over arrays, block by block and without the interpreter."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ferro.cpu.kernels.jit import kernel

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
    """Elements [start, stop) of a program, block by block.

    `words` are: the number of lines, of arrays, and of slots; for each array its address, and for each slot the bytes
    from one element to the next, spare blocks coming behind the arrays; and lines of 7: the loop, its data, the number
    of its operands and result, and their slots.
    """
    lines, arrays, slots = words[0], words[1], words[2]
    bases, steps, code = words[3:], words[3 + arrays :], words[3 + arrays + slots :]
    spare = np.empty((slots - arrays + 1, block), np.float64)
    pointers, strides, length = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(1, np.int64)
    for begin in range(start, stop, block):
        length[0] = min(block, stop - begin)
        for at in range(0, 7 * lines, 7):
            for k in range(code[at + 2]):
                slot = code[at + 3 + k]
                strides[k] = steps[slot]
                if slot < arrays:
                    pointers[k] = bases[slot] + begin * steps[slot]
                else:
                    pointers[k] = spare[slot - arrays].ctypes.data
            _call(code[at], pointers.ctypes.data, length.ctypes.data, strides.ctypes.data, code[at + 1])
