"""Elementwise formulas on large arrays as programs: traced once, run block by block on all threads without the interpreter.

The expression of a formula such as ``g * (1 - y * y)`` (see trace.py) is lowered to ufuncs. From then on large arrays go
through NumPy's inner loops for these ufuncs (their addresses stand in the ufunc's public C struct), a few thousand elements
at a time, so that what a step leaves is still in the cache when the next one reads it. The numbers are those that NumPy
gives. A formula that does anything else with its arrays is called as it is.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.broadcast import OPERATIONS, combine
from ferro.cpu.kernels.strided_copy import address
from ferro.cpu.namespace import cpu
from ferro.cpu.pointwise import power, where
from ferro.cpu.thresholds import PROGRAM_BLOCK, PROGRAM_COLUMNS, PROGRAM_LEAST, STREAM_LEAST
from ferro.cpu.trace import once, trace
from ferro.expressions import Symbol, conjugate
from ferro.native import readiness, workers
from ferro.native.entries import fallback
from ferro.native.thresholds import CHUNK, MOST_CHUNKS

_BOOL = np.dtype(np.bool_)
_TYPES = {np.dtype(np.float32), np.dtype(np.float64)}
_READABLE = 0x101  # flags of arrays: C-contiguous and aligned
_PROGRAM = kernels("jit_program.run_program")
_HEAD, _PAST = 8, 4  # words of a program in front of the addresses; the one that says how the result is written


# --- the inner loops of ufuncs ---------------------------------------------------------------------------------------


class _Struct(ctypes.Structure):
    """The head of PyUFuncObject, as numpy/ufuncobject.h declares it."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


@cache
def _loop(ufunc: np.ufunc, codes: str) -> tuple[int, int] | None:
    """The inner loop of a ufunc for operands and result of these types ("ff->f"), and its data: addresses.

    None if there is no such loop, or the struct does not hold what Python says of the ufunc.
    """
    if codes not in ufunc.types:
        return None
    struct = _Struct.from_address(id(ufunc))
    counts = (struct.nin, struct.nout, struct.nargs, struct.ntypes)
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or struct.name != ufunc.__name__.encode():
        return None
    k = ufunc.types.index(codes)
    wanted = [np.dtype(c).num for c in codes.replace("->", "")]
    function = struct.functions[k]
    if struct.types[k * ufunc.nargs : (k + 1) * ufunc.nargs] != wanted or not function:
        return None
    return function, (struct.data[k] or 0) if struct.data else 0


# --- lowering --------------------------------------------------------------------------------------------------------

_UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.neg: np.negative,
    operator.abs: np.absolute,
    operator.invert: np.logical_not,
    operator.and_: np.logical_and,
    operator.or_: np.logical_or,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
}
_POWERS = (operator.pow, power)


class _CannotLower(Exception):
    """A step of the expression has no inner loop."""


class _Value(NamedTuple):
    """A constant, an input or the result of a step, by its number, with its dtype."""

    kind: str
    number: int
    dtype: np.dtype


class _Lowered:
    """An expression as a list of steps: its constants, and for each step an inner loop with what it is applied to."""

    def __init__(self, expression: Symbol, inputs: list[Symbol], dtype: np.dtype) -> None:
        self.dtype = dtype
        self.constants: list[Any] = []
        self.steps: list[tuple[tuple[int, int], np.dtype, tuple]] = []  # loop and data, dtype of the result, operands
        self._values = {x: _Value("input", k, dtype) for k, x in enumerate(inputs)}
        self.result = self._value(expression)

    def _value(self, x: Any) -> _Value:
        if type(x) in (int, float):
            self.constants.append(x)
            return _Value("constant", len(self.constants) - 1, self.dtype)
        if not isinstance(x, Symbol):
            raise _CannotLower
        return self._values.get(x) or self._values.setdefault(x, self._step(x.function, x.operands))

    def _step(self, function: Any, operands: tuple) -> _Value:
        if function is conjugate:  # real numbers are their own conjugates
            return self._value(operands[0])
        if function is once:  # computed as a whole anyway
            return self._value(trace(*operands))
        if function in _POWERS:
            x, exponent = operands
            if type(exponent) in (int, float) and exponent == 2:
                function, operands = operator.mul, (x, x)
            elif isinstance(exponent, Symbol):
                function = np.power
            else:
                raise _CannotLower
        found = tuple(map(self._value, operands))
        if function is where:
            numbers = not any(isinstance(x, Symbol) for x in operands[1:])  # of which NumPy makes float64
            if numbers or [value.dtype for value in found] != [_BOOL, self.dtype, self.dtype]:
                raise _CannotLower
            return self._note((0, self.dtype.itemsize), self.dtype, found)  # the one step that is no ufunc
        ufunc = ufunc_of(function)
        if ufunc is None or ufunc.nin != len(found) or ufunc.nout != 1:
            raise _CannotLower
        codes = "".join([value.dtype.char for value in found])
        result = next((t[-1] for t in ufunc.types if t[: len(codes)] == codes and t[len(codes) :][:2] == "->"), None)
        loop = None if result is None else _loop(ufunc, f"{codes}->{result}")
        if loop is None or result is None:
            raise _CannotLower
        return self._note(loop, np.dtype(result), found)

    def _note(self, loop: tuple[int, int], result: np.dtype, operands: tuple[_Value, ...]) -> _Value:
        self.steps.append((loop, result, operands))
        return _Value("step", len(self.steps) - 1, result)


def ufunc_of(function: Any) -> np.ufunc | None:
    """The ufunc that an array function is; None if it is none."""
    function = fallback(function)
    function = fallback(_UFUNCS.get(function, function))
    found = getattr(function, "ufunc", function)
    return found if isinstance(found, np.ufunc) else None


# --- programs --------------------------------------------------------------------------------------------------------


class _Program:
    """A traced formula: its lines as `run_program` reads them, and what is known of its slots.

    Slots are the constants, the inputs, the result, and spare blocks, which are used again when nobody needs them.
    """

    __slots__ = ("codes", "constants", "count", "dtype", "inputs", "lines", "sizes")

    def __init__(self, lowered: _Lowered, inputs: int) -> None:
        dtype, steps = lowered.dtype, lowered.steps
        self.constants = np.array(lowered.constants, dtype)
        self.count, self.dtype, self.inputs = len(steps), lowered.result.dtype, inputs
        self.codes = f"{dtype.char * 2}->{dtype.char}"
        first = {"constant": 0, "input": len(self.constants)}
        out = len(self.constants) + inputs
        self.sizes = sizes = [0] * len(self.constants) + [dtype.itemsize] * inputs + [self.dtype.itemsize]
        last = {operand: k for k, (_, _, operands) in enumerate(steps) for operand in operands}
        slots: dict[tuple, int] = {}
        spare: list[int] = []
        self.lines: list[int] = []
        for k, (loop, kind, operands) in enumerate(steps):
            places = [slots[o] if o in slots else first[o.kind] + o.number for o in operands]
            spare += [slots[o] for o in dict.fromkeys(operands) if last[o] == k and o in slots]
            fits = [s for s in spare if sizes[s] == kind.itemsize]
            if k == self.count - 1:
                target = out
            elif fits:
                target = fits[0]
                spare.remove(target)
            else:
                target = len(sizes)
                sizes.append(kind.itemsize)
            slots[_Value("step", k, kind)] = target
            self.lines += [*loop, len(places) + 1, *places, target, *[0] * (3 - len(places))]


class _Plan:
    """A program for arrays of certain shapes: all that `run_program` reads, but for the addresses of inputs and result."""

    __slots__ = ("addresses", "chunks", "count", "dtype", "fill", "pair", "past", "program", "rows", "shape", "words")

    def __init__(self, program: _Program, shape: tuple[int, ...], layout: tuple) -> None:
        self.program = program  # holds the constants
        self.rows, columns, steps = layout
        self.pair = _pair(program, columns, steps)
        self.shape, self.dtype, self.count = shape, program.dtype, program.count
        size, width = math.prod(shape), program.dtype.itemsize
        self.past = size * (width + sum([inner for outer, inner in steps if outer])) >= STREAM_LEAST
        self.chunks = min(size // CHUNK, MOST_CHUNKS, self.rows)
        known = len(program.constants)
        start = program.constants.ctypes.data
        bases = [start + k * program.constants.itemsize for k in range(known)] + [0] * (program.inputs + 1)
        outer = [0] * known + [step for step, _ in steps] + [columns * width]
        inner = program.sizes.copy()
        inner[known : known + program.inputs] = [step for _, step in steps]
        head = [
            self.rows,
            columns,
            size - (self.rows - 1) * columns,
            PROGRAM_BLOCK,
            self.past,
            self.count,
            len(bases),
            len(inner),
        ]
        self.words = np.array([*head, *bases, *outer, *inner, *program.lines], np.int64)
        self.addresses = 8 * (_HEAD + known)  # where those of inputs and result are to be written
        self.fill: Any = struct.Struct(f"{program.inputs + 1}q").pack_into


def _pair(program: _Program, columns: int, steps: list[tuple[int, int]]) -> tuple[int, int, int] | None:
    """For one operation on a matrix and its row or column: what `broadcast.combine` needs, and where the matrix stands."""
    if program.count != 1 or program.inputs != 2 or len(program.constants) or program.lines[3:5] != [0, 1]:
        return None
    matrix = max((0, 1), key=steps.__getitem__)
    other = steps[1 - matrix]
    found = next((n for u, n in OPERATIONS.items() if [*(_loop(u, program.codes) or ())] == program.lines[:2]), None)
    if found is None or not any(other) or other == steps[matrix] or not all(steps[matrix]):
        return None
    return found[matrix], -columns if other[0] else columns, matrix


@lru_cache(maxsize=1024)
def _program(formula: Callable, dtype: np.dtype, arguments: tuple) -> _Program | None:
    """The program of a formula; `arguments` are its parameters, with _ARRAY where an array stands."""
    given = [Symbol(dtype=dtype) if a is _ARRAY else a for a in arguments]
    inputs = [a for a in given if isinstance(a, Symbol)]
    expression = trace(formula, *given)
    if expression is None:
        return None
    try:
        lowered = _Lowered(expression, inputs, dtype)
    except _CannotLower:
        return None
    return _Program(lowered, len(inputs)) if lowered.steps and lowered.result.kind == "step" else None


class _Array:
    """Stands for an array among the arguments by which programs are kept."""


_ARRAY = _Array()


@lru_cache(maxsize=4096)
def _plan(formula: Callable, dtype: np.dtype, arguments: tuple, shapes: tuple[tuple[int, ...], ...]) -> _Plan | None:
    """How to run a formula on arrays of these shapes; None if no program can do it."""
    like = max(shapes, key=math.prod)
    if dtype not in _TYPES or math.prod(like) < PROGRAM_LEAST:
        return None
    layout = _layout(like, shapes, dtype.itemsize)
    program = None if layout is None else _program(formula, dtype, arguments)
    return None if program is None or layout is None else _Plan(program, like, layout)


def evaluate(formula: Callable, *args: Any, out: Any = None) -> Any:
    """formula(xp, *args) for large arrays and numbers; None if no program can do it.

    Arrays must be C-contiguous and of one dtype. They have the shape of the largest, or fill its rows or columns, see
    `_layout`, or hold a single number. `out` may be one of them.
    """
    arguments, arrays, shapes = [], [], []
    dtype: Any = None
    for a in args:
        if type(a) is np.ndarray:
            if a.dtype is not dtype:
                if arrays:
                    return None
                dtype = a.dtype
            if a.flags.num & _READABLE != _READABLE:
                return None
            arrays.append(a)
            shapes.append(a.shape)
            a = _ARRAY
        arguments.append(a)
    if not arrays:
        return None
    try:
        plan = _plan(formula, dtype, tuple(arguments), tuple(shapes))
    except TypeError:  # a parameter that cannot be hashed
        return None
    if plan is None:
        return None
    if plan.pair is not None:
        operation, columns, matrix = plan.pair
        result = np.empty(plan.shape, plan.dtype) if out is None else out
        if combine(operation, arrays[matrix], arrays[1 - matrix], columns, result):
            return result
    helpers = workers.helpers()
    if plan.count == 1 and not helpers and not plan.past:
        return None
    parallel = readiness.parallel(_PROGRAM)
    if parallel is None:
        return None
    words = plan.words.copy()
    if out is None:
        out = np.empty(plan.shape, plan.dtype)
    elif any(out is a for a in arrays):
        words[_PAST] = 0  # it is read before
    plan.fill(words, plan.addresses, *map(address, arrays), address(out))
    workers.share(parallel, helpers, plan.chunks, plan.rows, (0, plan.rows, words), -1, 0)
    return out


def _layout(
    like: tuple[int, ...], shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Rows and columns to work through, and for each array the bytes to the next row and to the next element.

    Arrays without broadcasting are cut into rows of a block. Else the columns are those of the arrays that are repeated
    for every row, or that have one number for each row: all must agree.
    """
    size = math.prod(like)
    columns = 0
    kinds = []
    for shape in shapes:
        count = math.prod(shape)
        if len(shape) > len(like):
            return None
        if shape == like:
            kinds.append(0)
            continue
        if count == 1:
            kinds.append(1)
            continue
        if like[len(like) - len(shape) :] == shape:
            wanted, kind = count, 2
        elif len(shape) == len(like) and count and size % count == 0 and _first(like, shape):
            wanted, kind = size // count, 3
        else:
            return None
        if wanted < PROGRAM_COLUMNS or (columns and wanted != columns):
            return None
        columns = wanted
        kinds.append(kind)
    columns = columns or PROGRAM_BLOCK
    steps = [(columns * itemsize, itemsize), (0, 0), (0, itemsize), (itemsize, 0)]
    return -(-size // columns), columns, [steps[kind] for kind in kinds]


def _first(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether `other` has the first sizes of `shape`, and ones behind."""
    n = len(other)
    while n and other[n - 1] == 1:
        n -= 1
    return other[:n] == shape[:n]


def _formulas(make: Make) -> Iterator[tuple]:
    for n in (*sides(PROGRAM_LEAST // 128), PROGRAM_LEAST // 32):
        yield lambda xp, g, y: g * (1 - y * y), cpu, make(n, 128), make(n, 128)
        yield lambda xp, x, y: x + y, cpu, make(n // 4, 512), make(512)


@by_kernels((*_PROGRAM, "combine"), _formulas)
def run(formula: Callable, xp: Any, *args: Any) -> Any:
    """formula(xp, *args), as a program if it can be one."""
    out = None if xp is not cpu or is_call(formula) else evaluate(formula, *args)
    return formula(xp, *args) if out is None else out


@lru_cache(1024)
def is_call(formula: Callable) -> bool:
    """Whether a formula is known to be no program, whatever its arguments: it ends with a function that is no ufunc."""
    code = getattr(formula, "__code__", None)
    found = None if code is None else trace(formula, *[Symbol() for _ in range(code.co_argcount - 1)])
    if found is None or found.function in _POWERS:
        return False
    if found.function is where:
        return not any(isinstance(x, Symbol) and x.function for x in found.operands)
    return ufunc_of(found.function) is None
