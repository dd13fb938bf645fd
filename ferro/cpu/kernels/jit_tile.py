"""Compiled products in registers, for x86 processors with AVX-512, or AVX2 and FMA: one tile of a result.

Note [Tiles]
    A tile of the result, up to 12 (AVX2: 6) rows and two vectors of columns, stays in 24 (12) registers while a stretch of
    the inner dimension is summed: for each step two vectors of b, and for each row one number of a, spread over a vector.
    Rows that are left over make a lower tile and columns a masked one, and what the mask hides is never touched. All
    heights of 5 and more keep the multipliers equally busy, so the rows of a matrix are shared evenly among its tiles.
    Only tiles whose last vector is not full pay for the mask: masked loads of AVX2 take the place of multiplications, and
    its masked stores are slow. Full ones run the unrolled loop without it, all others step by step.

    The loop is written in assembly. LLVM computes the addresses of the rows anew in every step, with instructions that
    take the place of multiplications (172 GFLOPS where this has 184), and when it may, it loads the numbers of several
    steps first and runs out of registers (93). Here, few pointers and one distance reach all rows.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ferro.cpu.kernels.jit_vectors import BYTES, LINE, MANY, Code, fetch, i64, in_llvm, integer, word
from ferro.cpu.kernels.tiles import ROWS, VECTORS

llvmlite.binding.initialize_native_asmparser()

_LONG = 100  # steps in which a part of c can be fetched
_UNROLLED = 4
_POINTERS = ROWS // 3

# Operands of the assembly. What it changes is passed twice, as results and as arguments.
_CHANGED = [*[f"a{i}" for i in range(_POINTERS)], "b", "c", "start", "rounds", "rest"]
_GIVEN = ["a_step", "b_step", "c_step", "start_step", "mask"]
_OPERAND = {name: f"${i}" for i, name in enumerate(_CHANGED)}
_OPERAND |= {name: f"${i}" for i, name in enumerate(_GIVEN, 2 * len(_CHANGED))}
_NUMBER = 32 if MANY else 16  # of registers
_CONSTRAINTS = ",".join(
    ["=&r"] * len(_CHANGED)
    + [str(i) for i in range(len(_CHANGED))]
    + ["r"] * len(_GIVEN)
    + ["~{k1}"] * MANY
    + [f"~{{xmm{i}}}" for i in range(_NUMBER)]
    + ["~{memory}", "~{flags}", "~{dirflag}", "~{fpsr}"]
)


class _Assembly:
    """A tile of numbers of so many bytes. The rows of `a` are contiguous, or else its columns, read through a0 alone.

    The mask of AVX-512 is bits of a number, that of AVX2 a vector in memory, which takes the last register.
    """

    def __init__(self, rows: int, vectors: int, by_rows: bool, size: int):
        self.by_rows, self.size, self.kind = by_rows, size, "s" if size == 4 else "d"
        registers = [f"%{'zmm' if MANY else 'ymm'}{i}" for i in range(_NUMBER)]
        self.mask = "" if MANY else registers.pop()
        self.sums = [[registers.pop(0) for _ in range(vectors)] for _ in range(rows)]
        self.met, self.spread = registers[:vectors], registers[vectors:]

    def load(self, pointer: str, masked: bool) -> list[str]:
        """The vectors at a pointer, the last one masked or not."""
        lines = [f"vmovup{self.kind} {v * BYTES}(@{pointer}), {one}" for v, one in enumerate(self.met)]
        if masked and MANY:
            lines[-1] += " {%k1} {z}"
        elif masked:
            lines[-1] = f"vmaskmovp{self.kind} {(len(self.met) - 1) * BYTES}(@{pointer}), {self.mask}, {self.met[-1]}"
        return lines

    def store(self, line: list[str], pointer: str, masked: bool) -> list[str]:
        lines = [f"vmovup{self.kind} {one}, {v * BYTES}(@{pointer})" for v, one in enumerate(line)]
        if not masked:
            return lines
        if MANY:
            lines[-1] += " {%k1}"
        else:
            lines[-1] = f"vmaskmovp{self.kind} {line[-1]}, {self.mask}, {(len(line) - 1) * BYTES}(@{pointer})"
        return lines

    def step(self, offset: int, masked: bool) -> list[str]:
        """One step of the inner dimension."""
        lines = self.load("b", masked)
        for row, line in enumerate(self.sums):
            beyond = f",@a_step,{row % 3}" if row % 3 else ""
            place = f"{offset * self.size}(@a{row // 3}{beyond})" if self.by_rows else f"{row * self.size}(@a0)"
            factor = self.spread[row % len(self.spread)]
            lines.append(f"vbroadcasts{self.kind} {place}, {factor}")
            lines += [f"vfmadd231p{self.kind} {b}, {factor}, {one}" for b, one in zip(self.met, line, strict=True)]
        return [*lines, "addq @b_step, @b", *([] if self.by_rows else ["addq @a_step, @a0"])]

    def is_full(self) -> list[str]:
        """Sets the carry if the mask hides nothing."""
        if MANY:
            return ["kortestw %k1, %k1"]
        ones = self.met[0]
        return [f"vpcmpeqd {ones}, {ones}, {ones}", f"vtestp{self.kind} {ones}, {self.mask}"]

    def loop(self, label: int, count: str, steps: int) -> list[str]:
        body = [line for offset in range(steps) for line in self.step(offset, masked=steps == 1)]
        if self.by_rows:
            body += [f"addq $${steps * self.size}, @a{i}" for i in range(-(-len(self.sums) // 3))]
        before = [f"testq @{count}, @{count}", f"jle {label + 1}f", ".p2align 5", f"{label}:"]
        return [*before, *body, f"decq @{count}", f"jnz {label}b", f"{label + 1}:"]

    def text(self) -> str:
        lines = ["kmovw @mask, %k1" if MANY else f"vmovups (@mask), {self.mask}"]
        lines += [f"vpxor{'q' if MANY else ''} {one}, {one}, {one}" for line in self.sums for one in line]
        lines += self.loop(1, "rounds", _UNROLLED) + self.loop(3, "rest", 1)
        lines += ["testq @start, @start", "jz 5f"]
        for line in self.sums:
            lines += self.load("start", masked=True)
            lines += [f"vaddp{self.kind} {there}, {one}, {one}" for there, one in zip(self.met, line, strict=True)]
            lines.append("addq @start_step, @start")
        lines += ["5:", *self.is_full(), "jnc 6f"]
        for masked in (False, True):
            for line in self.sums:
                lines += [*self.store(line, "c", masked), "addq @c_step, @c"]
            lines += ["7:"] if masked else ["jmp 7f", "6:"]
        # LLVM leaves this out, knowing nothing of the registers here; slow code may come next.
        lines.append("vzeroupper")
        return re.sub(r"@(\w+)", lambda found: _OPERAND[found[1]], "\n\t".join(lines))


def _mask_of(code: Code, columns: Any, vectors: int, is_full: Any) -> Any:
    """The mask of the last vector as the assembly takes it: all bits if the vector is full."""
    builder = code.builder
    left = builder.sub(columns, i64((vectors - 1) * code.lanes))
    if MANY:
        bits = builder.sub(builder.shl(i64(1), left), i64(1))
        return builder.trunc(builder.select(is_full, i64(-1), bits), word)
    lanes = ir.VectorType(ir.IntType(8 * code.size), code.lanes)
    room = cgutils.alloca_once_value(builder, builder.sext(code.mask(left), lanes))
    return builder.ptrtoint(room, integer)


def _tile_function(context: Any, module: Any, rows: int, vectors: int, by_rows: bool, dtype: Any) -> Any:
    """The function that computes tiles of that form: of steps, columns, and pairs of an address and a distance."""
    name = f"ferro_tile_{dtype.bitwidth}_{rows}_{vectors}_{'rows' if by_rows else 'columns'}"
    function, is_new = _function(module, name, 10)
    if not is_new:
        return function
    builder = ir.IRBuilder(function.append_basic_block())
    code = Code(context, builder, dtype)
    steps, columns, a, a_step, b, b_step, c, c_step, start, start_step = function.args
    is_full = builder.icmp_signed("==", columns, i64(vectors * code.lanes))
    mask = _mask_of(code, columns, vectors, is_full)
    with builder.if_then(builder.icmp_signed(">", steps, i64(_LONG))):
        place = c
        for _ in range(rows):  # have c brought into the first cache, that it be there when the sums are
            for offset in range(0, vectors * BYTES, LINE):
                fetch(builder, builder.inttoptr(builder.add(place, i64(offset)), ir.IntType(8).as_pointer()), True)
            place = builder.add(place, c_step)
    rounds = builder.select(is_full, builder.udiv(steps, i64(_UNROLLED)), i64(0))
    arguments = [
        *[builder.add(a, builder.mul(a_step, i64(3 * i))) for i in range(_POINTERS)],
        *[b, c, start, rounds, builder.sub(steps, builder.mul(rounds, i64(_UNROLLED)))],
        *[a_step, b_step, c_step, start_step, mask],
    ]
    kind = ir.FunctionType(ir.LiteralStructType([integer] * len(_CHANGED)), [one.type for one in arguments])
    text = _Assembly(rows, vectors, by_rows, code.size).text()
    builder.call(ir.InlineAsm(kind, text, _CONSTRAINTS, side_effect=True), arguments)
    builder.ret_void()
    return function


@in_llvm
def tile(_typing, number, shape, a, b, c, start):
    """c = a b (+ start) for a shape (rows, columns, steps): up to ROWS rows, and VECTORS vectors of the type of `number`.

    Addresses and distances are in bytes: a is (address, distance of rows, of columns), b, c and start (address, distance of
    rows). One of the distances of a is the size of a number. There is no start at address 0.
    """

    def generate(context, builder, _signature, args):
        numbers = [value for given in args[1:] for value in cgutils.unpack_tuple(builder, given)]
        builder.call(_choice(context, builder.module, number), numbers)

    pair = types.UniTuple(types.intp, 2)
    three = types.UniTuple(types.intp, 3)
    return types.void(number, three, three, pair, pair, pair), generate


def _choice(context: Any, module: Any, dtype: Any) -> Any:
    """The function that calls the one for the tile's form."""
    function, is_new = _function(module, f"ferro_tile_{dtype.bitwidth}", 12)
    if is_new:
        builder = ir.IRBuilder(function.append_basic_block())
        size = dtype.bitwidth // 8
        rows, columns, steps, a, row_step, column_step, *others = function.args
        by_rows = builder.icmp_signed("==", column_step, i64(size))
        a_step = builder.select(by_rows, row_step, column_step)
        wide = builder.icmp_signed(">", columns, i64(BYTES // size))
        form = builder.add(rows, builder.select(by_rows, i64(ROWS), i64(0)))
        form = builder.add(form, builder.select(wide, i64(2 * ROWS), i64(0)))
        end = function.append_basic_block()
        switch = builder.switch(form, end)
        for k in range(2 * VECTORS * ROWS):
            switch.add_case(i64(k + 1), block := function.append_basic_block())
            builder.position_at_end(block)
            form = k % ROWS + 1, 1 + k // (2 * ROWS), k // ROWS % 2 == 1
            builder.call(_tile_function(context, module, *form, dtype), [steps, columns, a, a_step, *others])
            builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()
    return function


def _function(module: Any, name: str, arguments: int) -> tuple[Any, bool]:
    """The function of that name and of so many integers; whether its body has yet to be written."""
    if name in module.globals:
        return module.globals[name], False
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [integer] * arguments), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function, True
