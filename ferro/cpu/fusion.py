"""Elementwise formulas on large arrays as programs: traced once, run block by block on all threads without the interpreter.

The expression of a formula such as ``g * (1 - y * y)`` (see trace.py) is lowered to ufuncs. From then on large arrays go
through NumPy's inner loops for these ufuncs (their addresses stand in the ufunc's public C struct), a few thousand elements
at a time, so that what a step leaves is still in the cache when the next one reads it. The numbers are those that NumPy
gives. A formula that does anything else with its arrays is called as it is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.broadcast import OPERATIONS, combine
from ferro.cpu.kernels.strided_copy import address, contiguous
from ferro.cpu.lowering import POWER, POWERS, Lowered, Value, loop_of, lowered, ufunc_of
from ferro.cpu.namespace import cpu
from ferro.cpu.pointwise import where
from ferro.cpu.thresholds import PROGRAM_BLOCK, PROGRAM_COLUMNS, PROGRAM_LEAST, STREAM_BLOCK, STREAM_LEAST
from ferro.cpu.trace import trace
from ferro.elementwise import DECLARED, Elementwise
from ferro.expressions import Symbol, trace_names
from ferro.native import readiness, workers
from ferro.native.thresholds import CHUNK, MOST_CHUNKS

_TYPES = {np.dtype(np.float32), np.dtype(np.float64)}
_READABLE = 0x101  # flags of arrays: C-contiguous and aligned
_PROGRAM = kernels("jit_program.run_program")
_HEAD, _BLOCK, _PAST = 8, 3, 4  # words of a program in front of the addresses; those that say how the result is written


# --- programs --------------------------------------------------------------------------------------------------------


class _Program:
    """A traced formula: its lines as `run_program` reads them, and what is known of its slots.

    Slots are the constants, the inputs, the result, and spare blocks, which are used again when nobody needs them.
    """

    __slots__ = ("codes", "constants", "count", "dtype", "inputs", "lines", "sizes")

    def __init__(self, lowered: Lowered, inputs: int) -> None:
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
            slots[Value("step", k, kind)] = target
            self.lines += [*loop, len(places) + 1, *places, target, *[0] * (3 - len(places))]


def is_program(formula: Callable, dtype: np.dtype, arrays: int) -> bool:
    """Whether a formula of so many large arrays can be a program."""
    return dtype in _TYPES and _program(formula, dtype, (_ARRAY,) * arrays) is not None


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
            STREAM_BLOCK // max(program.sizes) if self.past else PROGRAM_BLOCK,
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
    found = next((n for u, n in OPERATIONS.items() if [*(loop_of(u, program.codes) or ())] == program.lines[:2]), None)
    if found is None or not any(other) or other == steps[matrix] or not all(steps[matrix]):
        return None
    return found[matrix], -columns if other[0] else columns, matrix


@lru_cache(maxsize=1024)
def _program(formula: Callable, dtype: np.dtype, arguments: tuple) -> _Program | None:
    """The program of a formula; `arguments` are its parameters, with _ARRAY where an array stands."""
    given = [Symbol(dtype=dtype) if a is _ARRAY else a for a in arguments]
    inputs = [a for a in given if isinstance(a, Symbol)]
    expression = trace(formula, *given)
    found = None if expression is None else lowered(expression, inputs, dtype)
    return None if found is None else _Program(found, len(inputs))


class _Array:
    """Stands for an array among the arguments by which programs are kept."""


_ARRAY = _Array()


@lru_cache(maxsize=4096)
def _plan(
    formula: Callable, dtype: np.dtype, arguments: tuple, shapes: tuple[tuple[int, ...], ...], full: tuple
) -> _Plan | None:
    """How to run a formula on arrays of these shapes, or that repeat themselves up to some full ones; None if no program can."""
    like = max(shapes, key=math.prod)
    if any(len(s) > len(like) or any(n not in (1, m) for n, m in zip(s[::-1], like[::-1], strict=False)) for s in full):
        return None
    if dtype not in _TYPES or math.prod(like) < PROGRAM_LEAST:
        return None
    layout = _layout(like, shapes, dtype.itemsize)
    program = None if layout is None else _program(formula, dtype, arguments)
    return None if program is None or layout is None else _Plan(program, like, layout)


def evaluate(formula: Callable, *args: Any, out: Any = None, always: bool = False) -> Any:
    """formula(xp, *args) for large arrays and numbers; None if no program can do it.

    Arrays must be of one dtype, and C-contiguous but for dimensions that repeat them, or are put in order, see `_in_order`.
    They have the shape of the largest, or fill its rows or columns, see `_layout`, or hold a single number. `out`, of the
    shape of the result and C-contiguous, may be one of them. A single step for one thread is left to NumPy, if not `always`.
    """
    read = _read(args)
    if read is None:
        return None
    arguments, arrays, full, gaps = read
    try:
        if gaps:
            return None if out is not None else _in_order(formula, args, arguments)
        plan = _plan(formula, arrays[0].dtype, arguments, tuple([a.shape for a in arrays]), full)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if plan is None or (out is not None and out.shape != plan.shape):
        return None
    if plan.pair is not None:
        operation, columns, matrix = plan.pair
        result = np.empty(plan.shape, plan.dtype) if out is None else out
        if combine(operation, arrays[matrix], arrays[1 - matrix], columns, result):
            return result
    helpers = workers.helpers()
    if plan.count == 1 and not (helpers or plan.past or always or plan.program.lines[0] == POWER):
        return None
    parallel = readiness.parallel(_PROGRAM)
    if parallel is None:
        return None
    words = plan.words.copy()
    if out is None:
        out = np.empty(plan.shape, plan.dtype)
    elif any(out is a for a in arrays):
        words[_BLOCK], words[_PAST] = PROGRAM_BLOCK, 0  # it is read before
    plan.fill(words, plan.addresses, *map(address, arrays), address(out))
    workers.share(parallel, helpers, plan.chunks, plan.rows, (0, plan.rows, words), -1, 0)
    return out


def _read(args: tuple) -> tuple[tuple, list, tuple, bool] | None:
    """What `_plan` asks of arguments, and the arrays as programs read them: without what they repeat. None if their dtypes differ.

    Then the shapes of arrays that repeat something, and whether there are others that are not C-contiguous.
    """
    arguments, arrays = [], []
    full: tuple = ()
    gaps = False
    for a in args:
        if type(a) is np.ndarray:
            if arrays and a.dtype is not arrays[0].dtype:
                return None
            if a.flags.num & _READABLE != _READABLE:
                full, once = (*full, a.shape), _once(a)
                gaps = gaps or once is None
                a = a if once is None else once
            arrays.append(a)
            a = _ARRAY
        arguments.append(a)
    return (tuple(arguments), arrays, full, gaps) if arrays else None


def _once(x: np.ndarray) -> np.ndarray | None:
    """What an array repeats along dimensions of stride 0, if that is C-contiguous; else None."""
    if 0 not in x.strides or not x.size:
        return None
    found = x[tuple([_ONE if stride == 0 else _ALL for stride in x.strides])]
    if found.flags.num & _READABLE != _READABLE:
        return None
    lead = next((d for d, n in enumerate(found.shape) if n > 1), x.ndim)
    return found.reshape(found.shape[lead:])


_ONE, _ALL = slice(0, 1), slice(None)


def _in_order(formula: Callable, args: tuple, arguments: tuple) -> Any:
    """`evaluate` for arrays whose dimensions lie in another order in memory: that of the first one that repeats nothing.

    An operation that reads one array by rows and another by columns takes longer than a copy of that one, so there is one.
    None if the first one has gaps, or no program does the formula.
    """
    given = [a for a in args if type(a) is np.ndarray]
    shape, dtype = max(given, key=_size).shape, given[0].dtype
    n = len(shape)
    if (
        dtype not in _TYPES
        or math.prod(shape) < PROGRAM_LEAST
        or any(a.ndim != n or a.dtype is not dtype for a in given)
    ):
        return None
    first = next((a for a in given if a.shape == shape and 0 not in a.strides), None)
    if first is None or _program(formula, dtype, arguments) is None:
        return None
    order = sorted(range(n), key=lambda d: (-first.strides[d], d))
    if not first.transpose(order).flags.c_contiguous:
        return None
    turned = [a.transpose(order) if type(a) is np.ndarray else a for a in args]
    for k, a in enumerate(turned):
        if type(a) is np.ndarray and not a.flags.c_contiguous and _once(a) is None:
            if a.itemsize not in a.strides[:-1]:
                return None  # its rows lie side by side, but for gaps
            turned[k] = contiguous(a)
    out = evaluate(formula, *turned)
    return (formula(cpu, *turned) if out is None else out).transpose(sorted(range(n), key=order.__getitem__))


def _size(x: np.ndarray) -> int:
    return x.size


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
def call_of(formula: Callable, arrays: int) -> Elementwise | None:
    """The elementwise function that a formula of (xp, arrays..., numbers...) is, or calls with what it is given; None if it is no such."""
    if isinstance(formula, Elementwise):
        return formula
    given = [Symbol() for _ in range(formula.__code__.co_argcount - 1)]
    found = trace_names(formula, *given)
    function = None if found is None else DECLARED.get(found.function)
    if found is None or function is None or (function.arrays, function.numbers) != (arrays, len(given) - arrays):
        return None
    operands = [x.operands[0] if isinstance(x, Symbol) and x.function == "typed" else x for x in found.operands]
    return function if list(map(id, operands)) == list(map(id, given)) else None


@lru_cache(1024)
def is_call(formula: Callable) -> bool:
    """Whether a formula is known to be no program, whatever its arguments: it ends with a function that is no ufunc."""
    code = getattr(formula, "__code__", None)
    found = None if code is None else trace(formula, *[Symbol() for _ in range(code.co_argcount - 1)])
    if found is None or found.function in POWERS:
        return False
    if found.function is where:
        return not any(isinstance(x, Symbol) and x.function for x in found.operands)
    return ufunc_of(found.function) is None


def is_one_step(formula: Callable, *args: Any) -> bool:
    """Whether formula(xp, *args) is no more than one call of a function, so that nothing is gained by going block by block."""
    try:
        return _is_one_step(formula, tuple([_ARRAY if isinstance(a, np.ndarray) else a for a in args]))
    except TypeError:  # a parameter that cannot be hashed
        return False


@lru_cache(1024)
def _is_one_step(formula: Callable, arguments: tuple) -> bool:
    found = trace(formula, *[Symbol() if a is _ARRAY else a for a in arguments])
    return found is not None and not any(isinstance(x, Symbol) and x.function for x in found.operands)
