"""Registers of vectors: how many the processor has and how long they are, and what is written for them as LLVM code.

What holds for tiles of products, blocks of convolutions and triangles alike; `isa.registers` is its only parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ferro.native import isa
from ferro.native.jit import device

in_llvm: Any = intrinsic  # a function for kernels, whose first parameter is the compiler's

BYTES, MANY = isa.registers()  # of a vector register, and whether there are 32 of them
LINE = 64  # bytes of a line of the cache
SEGMENT = 16  # bytes of a part of a register, within which numbers move quickest

word, integer = ir.IntType(32), ir.IntType(64)
_byte = ir.IntType(8).as_pointer()


def i64(value: int) -> Any:
    return integer(value)


def fetch(builder: Any, address: Any, write: bool) -> None:
    """Have the line of memory at an address brought into the first cache, to be read or written."""
    kind = ir.FunctionType(ir.VoidType(), [_byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(address, _byte), word(int(write)), word(3), word(1)])


class Code:
    """What is written for vectors of numbers of a dtype: as many as a register holds, or `least`."""

    def __init__(self, context: Any, builder: Any, dtype: Any, least: int = 1):
        self.context, self.builder = context, builder
        self.number = context.get_data_type(dtype)
        self.size = dtype.bitwidth // 8
        self.lanes = max(least, BYTES // self.size)  # LLVM divides what is longer than a register
        self.vector = ir.VectorType(self.number, self.lanes)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        # One instruction where the processor has it, else two; llvm.fma would be a call of libm for each number there.
        self.fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.{self._suffix(self.lanes)}")
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def _suffix(self, lanes: int) -> str:
        return f"v{lanes}f{8 * self.size}"

    def data(self, array: Any, value: Any) -> Any:
        """The address of an array's numbers."""
        return self.context.make_array(array)(self.context, self.builder, value).data

    def place(self, address: Any, *counts: Any) -> Any:
        """The place so many numbers behind an address that is an integer."""
        found = self.builder.inttoptr(address, self.number.as_pointer())
        for count in counts:
            found = self.builder.gep(found, [count])
        return found

    def at(self, address: Any, *indices: Any, count: int = 0) -> Any:
        """The address of a vector."""
        for index in indices:
            address = self.builder.gep(address, [index])
        return self.builder.bitcast(address, ir.VectorType(self.number, count or self.lanes).as_pointer())

    def load(self, address: Any, *indices: Any, count: int = 0, mask: Any = None) -> Any:
        """A vector, of `count` numbers or a register's, from an address plus indices; zeros beyond a mask."""
        place = self.at(address, *indices, count=count)
        if mask is None:
            return self.builder.load(place, align=self.size)
        lanes = count or self.lanes
        kind, suffix = ir.VectorType(self.number, lanes), self._suffix(lanes)
        declared = ir.FunctionType(kind, [place.type, word, mask.type, kind])
        masked = cgutils.get_or_insert_function(self.builder.module, declared, f"llvm.masked.load.{suffix}.p0{suffix}")
        return self.builder.call(masked, [place, word(self.size), mask, ir.Constant(kind, [0.0] * lanes)])

    def store(self, vector: Any, address: Any, *indices: Any, mask: Any = None) -> None:
        place = self.at(address, *indices, count=vector.type.count)
        if mask is None:
            self.builder.store(vector, place, align=self.size)
            return
        suffix = self._suffix(vector.type.count)
        declared = ir.FunctionType(ir.VoidType(), [vector.type, place.type, word, mask.type])
        masked = cgutils.get_or_insert_function(self.builder.module, declared, f"llvm.masked.store.{suffix}.p0{suffix}")
        self.builder.call(masked, [vector, place, word(self.size), mask])

    def spread(self, number: Any, lanes: int = 0) -> Any:
        """A vector of one number."""
        nothing = ir.Constant(ir.VectorType(number.type, lanes or self.lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, number, word(0))
        return self.shuffled(first, nothing, [0] * (lanes or self.lanes))

    def mask(self, count: Any, first: int = 0, lanes: int = 0) -> Any:
        """Which numbers of a vector, the first of them being number `first`, are among so many."""
        lanes = lanes or self.lanes
        numbers = ir.Constant(ir.VectorType(integer, lanes), list(range(first, first + lanes)))
        return self.builder.icmp_signed("<", numbers, self.spread(count, lanes))

    def shuffled(self, a: Any, b: Any, indices: list[int]) -> Any:
        """The elements of a and b, numbered through, at these indices."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(word, len(indices)), indices))

    def joined(self, parts: list[Any]) -> Any:
        """The vectors one after the other, as one."""
        while len(parts) > 1:
            each = range(2 * parts[0].type.count)
            parts = [self.shuffled(a, b, list(each)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def sums(self, rows: int, vectors: int) -> list[list[Any]]:
        """Room for so many vectors, zeros, which LLVM keeps in registers."""
        found = [[cgutils.alloca_once(self.builder, self.vector) for _ in range(vectors)] for _ in range(rows)]
        for one in [one for line in found for one in line]:
            self.builder.store(self.zero, one)
        return found

    def add(self, one: Any, vector: Any, factor: Any) -> None:
        """Add a product to a vector that `sums` has made."""
        self.builder.store(self.builder.call(self.fma, [vector, factor, self.builder.load(one)]), one)


def written(least: int = 1) -> Callable[[Callable[..., None]], Any]:
    """Makes a function for kernels of one that writes its code: write(code, *values), arrays as the places of their numbers.

    Vectors of `code` have the dtype of the first array. Integers are places and distances.
    """

    def decorate(write: Callable[..., None]) -> Any:
        def typing(_typing: Any, *given: Any) -> Any:
            kinds = [types.intp if isinstance(kind, types.Integer) else kind for kind in given]
            dtype = next(kind.dtype for kind in kinds if isinstance(kind, types.Array))

            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                code = Code(context, builder, dtype, least)
                pairs = zip(signature.args, args, strict=True)
                write(code, *[code.data(kind, v) if isinstance(kind, types.Array) else v for kind, v in pairs])
                return context.get_dummy_value()

            return types.void(*kinds), generate

        typing.__name__ = write.__name__
        typing.__signature__ = inspect.signature(write)  # type: ignore[attr-defined] (Numba takes the names from it)
        return in_llvm(typing)

    return decorate


@written()
def prefetch(code, array, at):
    """Has a line of memory brought into the caches, while something else is computed."""
    fetch(code.builder, code.builder.gep(array, [at]), False)


@in_llvm
def size_of(_typing, number):
    """Its bytes."""
    return types.intp(number), lambda *_: i64(number.bitwidth // 8)


@in_llvm
def address(_typing, array):
    """Where the numbers of an array begin, as an integer."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, integer)

    return types.intp(array), generate


@device
def aligned(buffer):
    """The first address in an array at which a vector may begin without crossing a line of the cache."""
    return (address(buffer) + LINE - 1) & -LINE
