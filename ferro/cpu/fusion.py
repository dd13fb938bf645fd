"""Elementwise formulas on large arrays as programs: traced once, run block by block on all threads without the interpreter.

A formula such as ``g * (1 - y * y)`` is called once with symbols for its arrays, which note the ufuncs it applies. From
then on large arrays go through NumPy's inner loops for these ufuncs (their addresses stand in the ufunc's public C
struct), a few thousand elements at a time, so that what a step leaves is still in the cache when the next one reads it.
The numbers are those that NumPy gives. A formula that does anything else with its arrays is called as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cpu import team
from ferro.cpu.kernels.front import behind

LARGE = 1 << 15  # elements from which formulas run as programs
BLOCK = 4096  # elements that a step takes at a time: spare blocks stay in the first-level cache
GRAIN = 1 << 14  # elements of a chunk
NARROWEST = 256  # columns from which a row is worth a call of a loop

_BOOL = np.dtype(np.bool_)
_TYPES = {np.dtype(np.float32), np.dtype(np.float64)}


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


# --- tracing ---------------------------------------------------------------------------------------------------------


class _CannotTrace(Exception):
    """The formula does something with its arrays that a program cannot."""


class _Trace:
    """What has been noted so far: the constants, and for each step a ufunc with what it is applied to."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.constants: list[Any] = []
        self.steps: list[tuple[np.ufunc, tuple]] = []

    def constant(self, value: Any) -> Symbol:
        self.constants.append(value)
        return Symbol(self, ("constant", len(self.constants) - 1), self.dtype)

    def step(self, ufunc: np.ufunc, *operands: Any) -> Symbol:
        found = []
        for operand in operands:
            if type(operand) in (int, float):
                operand = self.constant(operand)
            if not isinstance(operand, Symbol):
                raise _CannotTrace
            found.append(operand)
        codes = "".join([operand.dtype.char for operand in found])
        result = next((t[-1] for t in ufunc.types if t[: len(codes)] == codes and t[len(codes) :][:2] == "->"), None)
        if ufunc.nout != 1 or result is None or not _loop(ufunc, f"{codes}->{result}"):
            raise _CannotTrace
        self.steps.append((ufunc, tuple(found)))
        return Symbol(self, ("step", len(self.steps) - 1), np.dtype(result))


def _operator(ufunc: np.ufunc, swapped: bool = False) -> Any:
    if ufunc.nin == 1:
        return lambda self: self.trace.step(ufunc, self)
    if swapped:
        return lambda self, other: self.trace.step(ufunc, other, self)
    return lambda self, other: self.trace.step(ufunc, self, other)


class Symbol:
    """Stands for an array while a formula is traced."""

    __slots__ = ("dtype", "trace", "where")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, where: tuple[str, int], dtype: np.dtype) -> None:
        self.trace, self.where, self.dtype = trace, where, dtype

    __add__, __radd__ = _operator(np.add), _operator(np.add, True)
    __sub__, __rsub__ = _operator(np.subtract), _operator(np.subtract, True)
    __mul__, __rmul__ = _operator(np.multiply), _operator(np.multiply, True)
    __truediv__, __rtruediv__ = _operator(np.true_divide), _operator(np.true_divide, True)
    __neg__, __abs__, __invert__ = _operator(np.negative), _operator(np.absolute), _operator(np.logical_not)
    __lt__, __le__, __gt__, __ge__ = map(_operator, (np.less, np.less_equal, np.greater, np.greater_equal))
    __eq__, __ne__ = _operator(np.equal), _operator(np.not_equal)  # type: ignore[assignment]
    __and__, __or__ = _operator(np.logical_and), _operator(np.logical_or)

    def __pow__(self, power: Any) -> Symbol:
        if type(power) in (int, float) and power == 2:
            return self * self
        raise _CannotTrace

    def __bool__(self) -> bool:
        raise _CannotTrace

    def conj(self) -> Symbol:
        """Real numbers are their own conjugates."""
        return self


class _Functions:
    """Stands for the module of array functions while a formula is traced: knows those that are ufuncs."""

    def __init__(self, trace: _Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Callable:
        function = behind(getattr(cpu, name))
        ufunc = getattr(function, "ufunc", function)
        if not isinstance(ufunc, np.ufunc):
            raise _CannotTrace
        return lambda *operands: self._trace.step(ufunc, *operands)


# --- programs --------------------------------------------------------------------------------------------------------


class _Program:
    """A traced formula, as `run_program` reads it; `bases` is where the addresses of its arrays are to be written."""

    __slots__ = ("constants", "count", "dtype", "words")

    def __init__(self, trace: _Trace, inputs: int, result: Symbol) -> None:
        """Slots: the inputs, the constants, the result, and spare blocks, which are used again when nobody needs them."""
        out = inputs + len(trace.constants)
        first = {"input": 0, "constant": inputs}
        self.count = len(trace.steps)
        self.dtype = result.dtype
        self.constants = np.array(trace.constants, trace.dtype)
        sizes = [*[trace.dtype.itemsize] * inputs, *[0] * len(trace.constants), result.dtype.itemsize]
        last = {operand.where: k for k, (_, operands) in enumerate(trace.steps) for operand in operands}
        slots: dict[tuple, int] = {}
        spare: list[int] = []
        lines: list[int] = []
        for k, (ufunc, operands) in enumerate(trace.steps):
            codes = "".join([operand.dtype.char for operand in operands])
            kind = np.dtype(next(t[-1] for t in ufunc.types if t.startswith(f"{codes}->")))
            loop = _loop(ufunc, f"{codes}->{kind.char}")
            assert loop is not None
            places = [slots[o.where] if o.where in slots else first[o.where[0]] + o.where[1] for o in operands]
            spare += [slots[where] for where in {o.where for o in operands} if last[where] == k and where in slots]
            fits = [s for s in spare if sizes[s] == kind.itemsize]
            if k == self.count - 1:
                target = out
            elif fits:
                target = fits[0]
                spare.remove(target)
            else:
                target = len(sizes)
                sizes.append(kind.itemsize)
            slots["step", k] = target
            lines += [*loop, len(places) + 1, *places, target, *[0] * (3 - len(places))]
        start = self.constants.ctypes.data
        bases = [*[0] * inputs, *[start + k * trace.dtype.itemsize for k in range(len(self.constants))], 0]
        head = [self.count, len(bases), len(sizes), 0, 0, 0]
        self.words = np.array([*head, *bases, *[0] * len(bases), *sizes, *lines], np.int64)


@lru_cache(maxsize=1024)
def _program(formula: Callable, dtype: np.dtype, arguments: tuple) -> _Program | None:
    """The program of a formula; `arguments` are its parameters, with _ARRAY where an array stands."""
    trace = _Trace(dtype)
    given = []
    inputs = 0
    for argument in arguments:
        if argument is _ARRAY:
            given.append(Symbol(trace, ("input", inputs), dtype))
            inputs += 1
        else:
            given.append(argument)
    try:
        result = formula(_Functions(trace), *given)
    except Exception:  # noqa: BLE001 (whatever symbols cannot do; the formula itself says what is wrong, if it is)
        return None
    if not isinstance(result, Symbol) or result.where != ("step", len(trace.steps) - 1):
        return None
    return _Program(trace, inputs, result)


class _Array:
    """Stands for an array among the arguments by which programs are kept."""


_ARRAY = _Array()


def evaluate(formula: Callable, *args: Any, out: Any = None) -> Any:
    """formula(xp, *args) for large arrays and numbers; None if no program can do it.

    Arrays must be C-contiguous and of one dtype. They have the shape of the largest, or fill its rows or columns, see
    `_layout`, or hold a single number. `out` may be one of them.
    """
    like: Any = None
    arguments = []
    arrays = []
    for a in args:
        if type(a) is not np.ndarray:
            arguments.append(a)
            continue
        arguments.append(_ARRAY)
        arrays.append(a)
        if like is None or a.size > like.size:
            like = a
    if like is None or like.size < LARGE or like.dtype not in _TYPES:
        return None
    try:
        program = _program(formula, like.dtype, tuple(arguments))
    except TypeError:  # a parameter that cannot be hashed
        return None
    if program is None:
        return None
    helpers = team.helpers()
    layout = _layout(like, arrays) if helpers or program.count > 1 else None
    if layout is None:
        return None
    rows, columns, steps = layout
    twin = team.fixed_twin("run_program", _example)
    if twin is None:
        return None
    if out is None:
        out = np.empty(like.shape, program.dtype)
    words = program.words.copy()
    count = int(words[1])
    words[3:6] = rows, columns, like.size - (rows - 1) * columns
    for k, (a, (outer, inner)) in enumerate(zip(arrays, steps)):
        words[6 + k] = _address(a)
        words[6 + count + k] = outer
        if not inner:
            words[6 + 2 * count + k] = 0
    words[5 + count] = _address(out)
    words[5 + 2 * count] = columns * out.itemsize
    chunks = min(like.size // GRAIN, 32, rows)
    team.share(twin, helpers, chunks, rows, (0, rows, words, BLOCK), -1, 0)
    return out


def _layout(like: np.ndarray, arrays: list) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Rows and columns to work through, and for each array the bytes to the next row and to the next element.

    Arrays without broadcasting are cut into rows of a block. Else the columns are those of the arrays that are repeated
    for every row, or that have one number for each row: all must agree.
    """
    size = like.itemsize
    columns = 0
    kinds = []
    for a in arrays:
        flags = a.flags
        if a.dtype is not like.dtype or not flags.c_contiguous or not flags.aligned or a.ndim > like.ndim:
            return None
        if a.shape == like.shape:
            kinds.append(0)
            continue
        if a.size == 1:
            kinds.append(1)
            continue
        if like.shape[like.ndim - a.ndim :] == a.shape:
            wanted, kind = a.size, 2
        elif a.ndim == like.ndim and like.size % a.size == 0 and _first(like.shape, a.shape):
            wanted, kind = like.size // a.size, 3
        else:
            return None
        if wanted < NARROWEST or (columns and wanted != columns):
            return None
        columns = wanted
        kinds.append(kind)
    columns = columns or BLOCK
    steps = [(columns * size, size), (0, 0), (0, size), (size, 0)]
    return -(-like.size // columns), columns, [steps[kind] for kind in kinds]


def _first(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether `other` has the first sizes of `shape`, and ones behind."""
    n = len(other)
    while n and other[n - 1] == 1:
        n -= 1
    return other[:n] == shape[:n]


def run(formula: Callable, xp: Any, *args: Any) -> Any:
    """formula(xp, *args), as a program if it can be one."""
    out = evaluate(formula, *args)
    return formula(xp, *args) if out is None else out


def _address(a: np.ndarray) -> int:
    """Where the elements of an array begin: the first field of its C struct (``a.ctypes.data`` takes a microsecond)."""
    return _pointer_at(id(a) + object.__basicsize__).value or 0


_pointer_at = ctypes.c_void_p.from_address
if _address(_probe := np.zeros(1)) != _probe.ctypes.data:  # not the NumPy, or the Python, that we know

    def _address(a: np.ndarray) -> int:
        return a.ctypes.data


def _example() -> tuple:
    """Arguments of `run_program`."""
    return 0, 0, np.zeros(6, np.int64), BLOCK
