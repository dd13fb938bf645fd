"""Compiled products of matrices and stacks of them, for x86 processors with AVX-512.

Note [Tiles]
    A tile of the result, up to 12 rows and two vectors of columns, stays in 24 registers while a stretch of the inner
    dimension is summed: for each step two vectors of b, and for each row one number of a, spread over a vector. Rows
    that are left over make a lower tile and columns a masked one, and what the mask hides is never touched. All heights
    of 5 and more keep the multipliers equally busy, so the rows of a matrix are shared evenly among its tiles.

    The loop is written in assembly. LLVM computes the addresses of the rows anew in every step, with instructions that
    take the place of multiplications (172 GFLOPS where this has 184), and when it may, it loads the numbers of several
    steps first and runs out of registers (93). Here, four pointers and one distance reach all rows.

Note [Blocks]
    b is copied in blocks that stay in the second cache, the columns of a tile lying together. Twelve rows of a, which
    stay in the first cache, meet all columns of the block before the next twelve come. Thus c is walked along its rows.
    Few rows read b where it lies; if its columns are contiguous, the transposed product is computed, for which the few
    rows of a are turned round instead of b. Where the columns of a are contiguous, twelve rows are copied together if
    many columns are to meet them: as they lie, a column to a line of the cache, they would drive each other out.

    The inner dimension is cut by its length alone, so every number is summed in the same order wherever it stands in
    the result, and the result may be cut at will.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding
import numba
import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ferro.native.jit import device, kernel

llvmlite.binding.initialize_native_asmparser()
intrinsic: Any = numba.extending.intrinsic  # what it makes is called without the first parameter

REGISTER = 64  # bytes of a vector
ROWS, VECTORS = 12, 2  # of a tile
LEFT = 16  # numbers between the steps of rows of a that have been copied together
_DEEP = 512  # steps of the inner dimension that are summed at a time
_LONG = 100  # steps in which a part of c can be fetched
_BROAD = 16  # tiles beside each other for which b is copied at a time
_SEVERAL = 3  # tiles beside each other for which it pays to copy a where its columns are contiguous
_GROUP, _AT_ONCE = 4, 32  # tiles and steps for which rows of a are put together
FEW = 320  # rows up to which reading b where it lies costs less than copying it
NEAR = 1 << 20  # bytes of b that stay in the second cache while they are read again and again

_int, _word, _pointer = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()


# --- the tile --------------------------------------------------------------------------------------------------------

_UNROLLED = 4
_POINTERS = ROWS // 3

# Operands of the assembly. What it changes is passed twice, as results and as arguments.
_CHANGED = [*[f"a{i}" for i in range(_POINTERS)], "b", "c", "start", "rounds", "rest"]
_GIVEN = ["a_step", "b_step", "c_step", "start_step", "mask"]
_OPERAND = {name: f"${i}" for i, name in enumerate(_CHANGED)}
_OPERAND |= {name: f"${i}" for i, name in enumerate(_GIVEN, 2 * len(_CHANGED))}
_CONSTRAINTS = ",".join(
    ["=&r"] * len(_CHANGED)
    + [str(i) for i in range(len(_CHANGED))]
    + ["r"] * len(_GIVEN)
    + ["~{k1}", *[f"~{{xmm{i}}}" for i in range(32)], "~{memory}", "~{flags}", "~{dirflag}", "~{fpsr}"]
)


def _assembly(rows: int, vectors: int, by_rows: bool, size: int) -> str:
    """A tile of numbers of so many bytes. The rows of `a` are contiguous, or else its columns, read through a0 alone."""
    kind = "s" if size == 4 else "d"
    sums = [[f"%zmm{row * vectors + v}" for v in range(vectors)] for row in range(rows)]
    met = [f"%zmm{rows * vectors + v}" for v in range(vectors)]
    spread = [f"%zmm{i}" for i in range((rows + 1) * vectors, 32)]
    mask = [""] * (vectors - 1) + [" {%k1}"]

    def load(pointer: str) -> list[str]:
        return [
            f"vmovup{kind} {v * REGISTER}(@{pointer}), {met[v]}{mask[v]}{mask[v] and ' {z}'}" for v in range(vectors)
        ]

    def step(offset: int) -> list[str]:
        lines = load("b")
        for row, line in enumerate(sums):
            beyond = f",@a_step,{row % 3}" if row % 3 else ""
            place = f"{offset * size}(@a{row // 3}{beyond})" if by_rows else f"{row * size}(@a0)"
            factor = spread[row % len(spread)]
            lines.append(f"vbroadcasts{kind} {place}, {factor}")
            lines += [f"vfmadd231p{kind} {b}, {factor}, {one}" for b, one in zip(met, line, strict=True)]
        return [*lines, "addq @b_step, @b", *([] if by_rows else ["addq @a_step, @a0"])]

    def loop(label: int, count: str, steps: int) -> list[str]:
        body = [line for offset in range(steps) for line in step(offset)]
        if by_rows:
            body += [f"addq $${steps * size}, @a{i}" for i in range(-(-rows // 3))]
        return [
            f"testq @{count}, @{count}",
            f"jle {label + 1}f",
            ".p2align 5",
            f"{label}:",
            *body,
            f"decq @{count}",
            f"jnz {label}b",
            f"{label + 1}:",
        ]

    lines = ["kmovw @mask, %k1", *[f"vpxorq {one}, {one}, {one}" for line in sums for one in line]]
    lines += loop(1, "rounds", _UNROLLED) + loop(3, "rest", 1)
    lines += ["testq @start, @start", "jz 5f"]
    for line in sums:
        lines += load("start")
        lines += [f"vaddp{kind} {there}, {one}, {one}" for there, one in zip(met, line, strict=True)]
        lines.append("addq @start_step, @start")
    lines.append("5:")
    for line in sums:
        lines += [f"vmovup{kind} {one}, {v * REGISTER}(@c){mask[v]}" for v, one in enumerate(line)]
        lines.append("addq @c_step, @c")
    lines.append("vzeroupper")  # which LLVM leaves out, knowing nothing of the registers here; slow code may come next
    return re.sub(r"@(\w+)", lambda found: _OPERAND[found[1]], "\n\t".join(lines))


def _tile_function(module: Any, rows: int, vectors: int, by_rows: bool, size: int) -> Any:
    """The function that computes tiles of that form: of steps, columns, and pairs of an address and a distance."""
    name = f"ferro_tile_{size}_{rows}_{vectors}_{'rows' if by_rows else 'columns'}"
    function, is_new = _function(module, name, 10)
    if not is_new:
        return function
    builder = ir.IRBuilder(function.append_basic_block())
    steps, columns, a, a_step, b, b_step, c, c_step, start, start_step = function.args
    with builder.if_then(builder.icmp_signed(">", steps, _int(_LONG))):
        place = c
        for _ in range(rows):  # have c brought into the first cache, that it be there when the sums are
            for v in range(vectors):
                _fetch(builder, builder.add(place, _int(v * REGISTER)))
            place = builder.add(place, c_step)
    in_last = builder.sub(columns, _int((vectors - 1) * (REGISTER // size)))
    mask = builder.trunc(builder.sub(builder.shl(_int(1), in_last), _int(1)), _word)
    arguments = [
        *[builder.add(a, builder.mul(a_step, _int(3 * i))) for i in range(_POINTERS)],
        b,
        c,
        start,
        builder.udiv(steps, _int(_UNROLLED)),
        builder.urem(steps, _int(_UNROLLED)),
        a_step,
        b_step,
        c_step,
        start_step,
        mask,
    ]
    kind = ir.FunctionType(ir.LiteralStructType([_int] * len(_CHANGED)), [one.type for one in arguments])
    code = ir.InlineAsm(kind, _assembly(rows, vectors, by_rows, size), _CONSTRAINTS, side_effect=True)
    builder.call(code, arguments)
    builder.ret_void()
    return function


def _fetch(builder: Any, address: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_pointer, _word, _word, _word])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(prefetch, [builder.inttoptr(address, _pointer), _word(1), _word(3), _word(1)])


@intrinsic
def tile(_typing, number, rows, columns, steps, a, row_step, column_step, b, b_step, c, c_step, start, start_step):
    """c = a b (+ start) for up to ROWS rows and VECTORS vectors of columns of the type of `number`.

    Addresses and distances are in bytes. One of the distances of a is the size of a number, those between the columns
    of all others are. There is no start at address 0.
    """
    size = number.bitwidth // 8

    def generate(_context, builder, _signature, args):
        builder.call(_choice(builder.module, size), args[1:])

    return types.void(number, *[types.intp] * 12), generate


def _choice(module: Any, size: int) -> Any:
    """The function that calls the one for the tile's form."""
    function, is_new = _function(module, f"ferro_tile_{size}", 12)
    if is_new:
        builder = ir.IRBuilder(function.append_basic_block())
        rows, columns, steps, a, row_step, column_step, *others = function.args
        by_rows = builder.icmp_signed("==", column_step, _int(size))
        a_step = builder.select(by_rows, row_step, column_step)
        wide = builder.icmp_signed(">", columns, _int(REGISTER // size))
        form = builder.add(rows, builder.select(by_rows, _int(ROWS), _int(0)))
        form = builder.add(form, builder.select(wide, _int(2 * ROWS), _int(0)))
        end = function.append_basic_block()
        switch = builder.switch(form, end)
        for k in range(4 * ROWS):
            switch.add_case(_int(k + 1), block := function.append_basic_block())
            builder.position_at_end(block)
            chosen = _tile_function(module, k % ROWS + 1, 1 + k // (2 * ROWS), k // ROWS % 2 == 1, size)
            builder.call(chosen, [steps, columns, a, a_step, *others])
            builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()
    return function


def _function(module: Any, name: str, arguments: int) -> tuple[Any, bool]:
    """The function of that name and of so many integers; whether its body has yet to be written."""
    if name in module.globals:
        return module.globals[name], False
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_int] * arguments), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function, True


# --- copies ----------------------------------------------------------------------------------------------------------


class _Vectors:
    """What is emitted for vectors at addresses."""

    def __init__(self, builder: Any, number: Any):
        self.builder = builder
        self.size = number.bitwidth // 8
        self.lanes = REGISTER // self.size
        self.number = ir.FloatType() if self.size == 4 else ir.DoubleType()

    def mask(self, count: Any, lanes: int = 0) -> Any:
        """The first so many numbers of a vector."""
        lanes = lanes or self.lanes
        integers = ir.VectorType(_int, lanes)
        nothing = ir.Constant(integers, ir.Undefined)
        limit = self.shuffled(self.builder.insert_element(nothing, count, _word(0)), nothing, [0] * lanes)
        return self.builder.icmp_signed("<", ir.Constant(integers, list(range(lanes))), limit)

    def shuffled(self, a: Any, b: Any, indices: list[int]) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_word, len(indices)), indices))

    def load(self, address: Any, mask: Any = None, lanes: int = 0) -> Any:
        lanes = lanes or self.lanes
        kind = ir.VectorType(self.number, lanes)
        place = self.builder.inttoptr(address, kind.as_pointer())
        if mask is None:
            return self.builder.load(place, align=self.size)
        name = f"v{lanes}f{8 * self.size}"
        declared = ir.FunctionType(kind, [place.type, _word, mask.type, kind])
        masked = cgutils.get_or_insert_function(self.builder.module, declared, f"llvm.masked.load.{name}.p0{name}")
        return self.builder.call(masked, [place, _word(self.size), mask, ir.Constant(kind, [0.0] * lanes)])

    def store(self, value: Any, address: Any, mask: Any = None) -> None:
        place = self.builder.inttoptr(address, value.type.as_pointer())
        if mask is None:
            self.builder.store(value, place, align=self.size)
            return
        name = f"v{self.lanes}f{8 * self.size}"
        declared = ir.FunctionType(ir.VoidType(), [value.type, place.type, _word, mask.type])
        masked = cgutils.get_or_insert_function(self.builder.module, declared, f"llvm.masked.store.{name}.p0{name}")
        self.builder.call(masked, [value, place, _word(self.size), mask])

    def turn(self, source: Any, source_step: Any, target: Any, target_step: Any, count: Any, steps: Any) -> None:
        """target[t, j] = source[j, t] for j < count and t < steps, up to a vector of each; None is a whole one.

        Quarters of a vector are read from four rows each, so that numbers need only be moved within quarters.
        """
        b, quarter = self.builder, self.lanes // 4
        who = nobody = None
        if count is not None:
            who, nobody = self.mask(count), ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), [0] * self.lanes)
        firsts = [part + j for part in range(0, self.lanes, quarter) for j in range(quarter // 2)]
        low = [i for j in firsts for i in (j, j + self.lanes)]
        high = [i + quarter // 2 for i in low]
        rows = []
        for j in range(self.lanes):
            row = _int(j)
            if count is not None:  # what is beyond is not stored, but something must be read
                row = b.select(b.icmp_signed("<", row, count), row, _int(0))
            rows.append(b.add(source, b.mul(source_step, row)))
        for t in range(0, self.lanes, quarter):
            inside = None if count is None else self.mask(b.sub(steps, _int(t)), quarter)
            level = []
            for j in range(quarter):
                parts = [self.load(b.add(row, _int(t * self.size)), inside, quarter) for row in rows[j::quarter]]
                halves = [self.shuffled(parts[i], parts[i + 1], list(range(2 * quarter))) for i in (0, 2)]
                level.append(self.shuffled(halves[0], halves[1], list(range(self.lanes))))
            # Interlacing the first half of all rows with the second turns the bits of their places round by one.
            for _ in range(quarter.bit_length() - 1):
                pairs = zip(level[: quarter // 2], level[quarter // 2 :], strict=True)
                level = [self.shuffled(x, y, half) for x, y in pairs for half in (low, high)]
            for i, vector in enumerate(level, t):
                mask = None if count is None else b.select(b.icmp_signed("<", _int(i), steps), who, nobody)
                self.store(vector, b.add(target, b.mul(target_step, _int(i))), mask)


@intrinsic
def _turn(_typing, number, source, source_step, target, target_step):
    """A square of a vector's numbers each way, turned round."""

    def generate(_context, builder, _signature, args):
        _, source, source_step, target, target_step = args
        _Vectors(builder, number).turn(source, source_step, target, target_step, None, None)

    return types.void(number, *[types.intp] * 4), generate


@intrinsic
def _turn_some(_typing, number, source, source_step, target, target_step, count, steps):
    """The same of so many rows and columns of the source."""

    def generate(_context, builder, _signature, args):
        _Vectors(builder, number).turn(*args[1:])

    return types.void(number, *[types.intp] * 6), generate


def _copying(numbers: dict[int, int]) -> Any:
    def copy(_typing, number, source, source_step, target, columns, steps):
        """Rows of up to so many numbers (by their size), put together; what is beyond the columns becomes 0."""

        def generate(_context, builder, _signature, args):
            _, source, source_step, target, columns, steps = args
            vectors = _Vectors(builder, number)
            count = numbers[vectors.size] // vectors.lanes
            masks = [vectors.mask(builder.sub(columns, _int(v * vectors.lanes))) for v in range(count)]
            with cgutils.for_range(builder, steps, intp=_int) as loop:
                here = builder.add(source, builder.mul(source_step, loop.index))
                there = builder.add(target, builder.mul(_int(count * REGISTER), loop.index))
                for v, mask in enumerate(masks):
                    beyond = _int(v * REGISTER)
                    vectors.store(vectors.load(builder.add(here, beyond), mask), builder.add(there, beyond))

        return types.void(number, *[types.intp] * 5), generate

    return intrinsic(copy)


_copy_wide, _copy_high = _copying({size: VECTORS * REGISTER // size for size in (4, 8)}), _copying({4: LEFT, 8: LEFT})


@intrinsic
def size_of(_typing, number):
    """Its bytes."""
    return types.intp(number), lambda *_: _int(number.bitwidth // 8)


@intrinsic
def address(_typing, array):
    def generate(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _int)

    return types.intp(array), generate


@device
def aligned(buffer):
    """The first address in an array at which a vector may begin without crossing a line of the cache."""
    return (address(buffer) + REGISTER - 1) & -REGISTER


@device
def turned(number, size, source, source_step, target, target_step, count, steps):
    """target[t, j] = source[j, t] for j < count and t < steps."""
    lanes = REGISTER // size
    for t in range(0, steps, lanes):
        for j in range(0, count, lanes):
            here, there = source + j * source_step + t * size, target + t * target_step + j * size
            if j + lanes <= count and t + lanes <= steps:
                _turn(number, here, source_step, there, target_step)
            else:
                _turn_some(number, here, source_step, there, target_step, min(lanes, count - j), min(lanes, steps - t))


# --- products --------------------------------------------------------------------------------------------------------


@device
def turn_rows(number, source, step, rows, width, target):
    """A matrix with contiguous rows as the tile reads it: its columns by panels of the tile's width."""
    size = size_of(number)
    wide = VECTORS * (REGISTER // size)
    for j in range(0, rows, wide):
        turned(
            number,
            size,
            source + j * step,
            step,
            target + j * width * size,
            VECTORS * REGISTER,
            min(wide, rows - j),
            width,
        )


@device
def _copy_group(number, source, source_step, target, height, more, tiles, steps):
    """For each of some tiles, whose rows are `height`, and of the first `more` one more, the rows of a put together.

    Few steps at a time: what one tile reads brings the lines of the next, and the addresses of their pages.
    """
    size = size_of(number)
    for t in range(0, steps, _AT_ONCE):
        here = source + t * source_step
        for i in range(tiles):
            rows = height + (i < more)
            _copy_high(
                number, here, source_step, target + (i * steps + t) * LEFT * size, rows, min(_AT_ONCE, steps - t)
            )
            here += rows * size


@device
def room_left(size, k):
    """Bytes that `multiply` needs for what it copies of a."""
    return _GROUP * min(k, _DEEP) * LEFT * size + REGISTER


@device
def room_right(size, k, n):
    """Bytes that it needs for what it copies of b."""
    wide = VECTORS * (REGISTER // size)
    return min(-(-n // wide), _BROAD) * wide * min(k, _DEEP) * size + REGISTER


@numba.njit(error_model="numpy", fastmath={"contract"})  # compiled once for all of a kernel's calls
def multiply(number, a, ra, ca, b, rb, cb, c, rc, start, rs, m, k, n, left, right):
    """One product: see Note [Blocks]. Of a, b, c and start these are addresses and distances of rows (and columns)."""
    size = size_of(number)
    wide = VECTORS * (REGISTER // size)
    broad = _BROAD * wide
    together = ca != size and n >= _SEVERAL * wide
    tiles = -(-m // ROWS)
    height, more = m // tiles, m % tiles
    parts = max(1, -(-k // _DEEP))
    for p in range(parts):
        t = p * k // parts
        steps = (p + 1) * k // parts - t
        near = cb == size and (m <= ROWS or (m <= FEW and steps * rb <= NEAR))
        for q in range(0, n, broad):
            end = min(q + broad, n)
            if not near:
                for j in range(q, end, wide):
                    here, there = b + t * rb + j * cb, right + (j - q) * steps * size
                    if cb == size:
                        _copy_wide(number, here, rb, there, min(wide, end - j), steps)
                    else:
                        turned(number, size, here, cb, there, VECTORS * REGISTER, min(wide, end - j), steps)
            row = 0
            for i in range(tiles):
                rows = height + (i < more)
                source, down, across = a + row * ra + t * ca, ra, ca
                if together:
                    if i % _GROUP == 0:
                        _copy_group(number, source, ca, left, height, more - i, min(_GROUP, tiles - i), steps)
                    source, across = left + i % _GROUP * steps * LEFT * size, LEFT * size
                for j in range(q, end, wide):
                    met, step = right + (j - q) * steps * size, VECTORS * REGISTER
                    if near:
                        met, step = b + t * rb + j * size, rb
                    place = c + row * rc + j * size
                    first, apart = place, rc
                    if p == 0:
                        first, apart = start + row * rs + j * size if start else 0, rs
                    tile(
                        number,
                        rows,
                        min(wide, end - j),
                        steps,
                        source,
                        down,
                        across,
                        met,
                        step,
                        place,
                        rc,
                        first,
                        apart,
                    )
                row += rows


@kernel
def _multiply_turned(number, a, ra, b, cb, c, rc, start, rs, m, k, n):
    """The same by way of cᵀ = bᵀ aᵀ (+ startᵀ), where the rows of a and the columns of b are contiguous."""
    size = size_of(number)
    broad = _BROAD * VECTORS * (REGISTER // size)
    of_right = np.empty(room_right(size, k, m), np.uint8)
    of_turned = np.empty(m * min(n, broad) * size + REGISTER, np.uint8)
    for q in range(0, n, broad):
        right, turned_c = aligned(of_right), aligned(of_turned)
        columns = min(broad, n - q)
        if start:
            turned(number, size, start + q * size, rs, turned_c, m * size, m, columns)
        multiply(
            number,
            b + q * cb,
            cb,
            size,
            a,
            size,
            ra,
            turned_c,
            m * size,
            turned_c if start else 0,
            m * size,
            columns,
            k,
            m,
            0,
            right,
        )
        turned(number, size, turned_c, m * size, c + q * size, rc, columns, m)


@kernel
def product_part(first, last, c, a, b, start, plan):
    """c = a b (+ start) for two dimensions of matrices, so far as it lies in some of their rows of tiles.

    The parts of the rows of all matrices are counted through; if there are none, the columns of tiles, and taken from
    every matrix. Of an array that is large, or not contiguous, any part that begins where it does will do.
    The rows or the columns of the matrices of a and b are contiguous, and the rows of c and start.

    The plan says how many matrices there are in each dimension, rows, steps of the inner dimension, columns, and whether
    there is a start; then how many bytes lie between the matrices of the first dimension in c, a, b and start, likewise of
    the second, between rows, and between columns; at last, in how many parts the rows of a matrix are cut, or 0.
    """
    inner, m, k, n, started = plan[1], plan[2], plan[3], plan[4], plan[5]
    rc, ra, rb, rs, ca, cb = plan[14], plan[15], plan[16], plan[17], plan[19], plan[20]
    number = c.dtype.type(0)
    size = size_of(number)
    wide = VECTORS * (REGISTER // size)
    high = plan[22]
    left_column, right_column = 0, n
    if high == 0:
        left_column, right_column = first * wide, min(last * wide, n)
        first, last, high = 0, plan[0] * inner, 1
    of_left = np.empty(room_left(size, k if ca != size else 0), np.uint8)
    of_right = np.empty(room_right(size, k, right_column - left_column), np.uint8)
    while first < last:
        # (Addresses are taken here since Numba frees an array once nobody mentions it any more.)
        left, right = aligned(of_left), aligned(of_right)
        s = first // high
        until = min(last, (s + 1) * high)
        row, end = (first - s * high) * m // high, (until - s * high) * m // high
        p, q = s // inner, s % inner
        of_a = address(a) + p * plan[7] + q * plan[11] + row * ra
        of_b = address(b) + p * plan[8] + q * plan[12] + left_column * cb
        of_c = address(c) + p * plan[6] + q * plan[10] + row * rc + left_column * size
        of_start = address(start) + p * plan[9] + q * plan[13] + row * rs + left_column * size if started else 0
        rows, columns = end - row, right_column - left_column
        if ca == size and cb != size and ROWS <= rows <= FEW and 2 * columns * k > 3 * rows * (k + columns):
            _multiply_turned(number, of_a, ra, of_b, cb, of_c, rc, of_start, rs, rows, k, columns)
        else:
            multiply(number, of_a, ra, ca, of_b, rb, cb, of_c, rc, of_start, rs, rows, k, columns, left, right)
        first = until
