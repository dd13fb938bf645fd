"""Runs a sequence of NumPy's own inner loops over arrays, block by block and without the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.np.numpy_support import carray

from ferro.cpu.kernels.jit_masks import choose
from ferro.cpu.kernels.jit_powers import powers
from ferro.cpu.kernels.jit_stream import settle, stream
from ferro.native.jit import device, kernel

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


def _pointer_to(kind: Any) -> Any:
    @intrinsic
    def pointer(_typing, address):
        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), generate

    return pointer


_bytes, _int32s, _int64s = map(_pointer_to, (types.uint8, types.int32, types.int64))
_floats, _doubles = map(_pointer_to, (types.float32, types.float64))


@device
def _chosen(pointers, strides, n, size):
    mask = carray(_bytes(pointers[0]), n)
    some, other = n if strides[1] else 1, n if strides[2] else 1
    if size == 4:
        x, y = carray(_int32s(pointers[1]), some), carray(_int32s(pointers[2]), other)
        choose(mask, x, y, carray(_int32s(pointers[3]), n))
    else:
        p, q = carray(_int64s(pointers[1]), some), carray(_int64s(pointers[2]), other)
        choose(mask, p, q, carray(_int64s(pointers[3]), n))


@device
def _raised(pointers, strides, n, size):
    some, other = n if strides[0] else 1, n if strides[1] else 1
    if size == 4:
        x, y = carray(_floats(pointers[0]), some), carray(_floats(pointers[1]), other)
        powers(x, y, carray(_floats(pointers[2]), n))
    else:
        p, q = carray(_doubles(pointers[0]), some), carray(_doubles(pointers[1]), other)
        powers(p, q, carray(_doubles(pointers[2]), n))


@kernel
def run_program(start, stop, words):
    """Rows [start, stop) of a program, a block of elements at a time.

    `words` are: the number of rows, of elements in a row, of those in the last one, and of a block; whether the result
    goes past the caches; the number of lines, of arrays, and of slots; for each array its address; for each array the
    bytes from one row to the next; for each slot the bytes from one element to the next, the result being the last
    array, and spare blocks coming behind it; and lines of 7: the loop (0: a choice, 1: powers), its data (the size of an element),
    the number of its operands and result, and their slots.
    """
    rows, block, past, lines, arrays, slots = words[0], words[3], words[4], words[5], words[6], words[7]
    bases, outer, steps = words[8:], words[8 + arrays :], words[8 + 2 * arrays :]
    code = words[8 + 2 * arrays + slots :]
    result = arrays - 1
    spare = np.empty((slots - arrays + past, block), np.float64)
    frame = np.empty(9, np.int64)
    pointers, strides, length = frame[:4], frame[4:8], frame[8:]
    for row in range(start, stop):
        columns = words[2] if row == rows - 1 else words[1]
        for begin in range(0, columns, block):
            n = min(block, columns - begin)
            length[0] = n
            for at in range(0, 7 * lines, 7):
                for k in range(code[at + 2]):
                    slot = code[at + 3 + k]
                    strides[k] = steps[slot]
                    if slot >= arrays:
                        pointers[k] = spare[slot - arrays].ctypes.data
                    elif slot == result and past:
                        pointers[k] = spare[slots - arrays].ctypes.data
                    else:
                        pointers[k] = bases[slot] + row * outer[slot] + begin * steps[slot]
                if code[at] == 1:
                    _raised(pointers, strides, n, code[at + 1])
                elif code[at]:
                    _call(code[at], pointers.ctypes.data, length.ctypes.data, strides.ctypes.data, code[at + 1])
                else:
                    _chosen(pointers, strides, n, code[at + 1])
            if past:
                target = bases[result] + row * outer[result] + begin * steps[result]
                stream(target, spare[slots - arrays].ctypes.data, n * steps[result])
    if past:
        settle()
