"""Expressions as steps of NumPy's inner loops, whose addresses stand in the ufunc's public C struct."""

from __future__ import annotations

import ctypes
import operator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ferro.cpu.pointwise import where
from ferro.cpu.powers import OWN_POWERS, has_own_power, power
from ferro.cpu.trace import once, trace
from ferro.expressions import Symbol, conjugate
from ferro.native.entries import fallback

__all__ = ["POWER", "POWERS", "Lowered", "Value", "loop_of", "lowered", "ufunc_of"]

_BOOL = np.dtype(np.bool_)


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
def loop_of(ufunc: np.ufunc, codes: str) -> tuple[int, int] | None:
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
POWERS = (operator.pow, power)
CHOICE, POWER = 0, 1  # in the place of a loop: steps that are none of NumPy's, see jit_program.py


class _CannotLower(Exception):
    """A step of the expression has no inner loop."""


class Value(NamedTuple):
    """A constant, an input or the result of a step, by its number, with its dtype."""

    kind: str
    number: int
    dtype: np.dtype


class Lowered:
    """An expression as a list of steps: its constants, and for each step an inner loop with what it is applied to."""

    def __init__(self, expression: Symbol, inputs: list[Symbol], dtype: np.dtype) -> None:
        self.dtype = dtype
        self.constants: list[Any] = []
        self.steps: list[tuple[tuple[int, int], np.dtype, tuple]] = []  # loop and data, dtype of the result, operands
        self._values = {x: Value("input", k, dtype) for k, x in enumerate(inputs)}
        self.result = self._value(expression)

    def _value(self, x: Any) -> Value:
        if type(x) in (int, float):
            self.constants.append(x)
            return Value("constant", len(self.constants) - 1, self.dtype)
        if not isinstance(x, Symbol):
            raise _CannotLower
        return self._values.get(x) or self._values.setdefault(x, self._step(x.function, x.operands))

    def _step(self, function: Any, operands: tuple) -> Value:
        if function is conjugate:  # real numbers are their own conjugates
            return self._value(operands[0])
        if function is once:  # computed as a whole anyway
            return self._value(trace(*operands))
        if function in POWERS:
            x, exponent = operands
            if type(exponent) in (int, float) and exponent == 2:
                function, operands = operator.mul, (x, x)
            elif self.dtype in OWN_POWERS and (isinstance(exponent, Symbol) or has_own_power(exponent)):
                return self._note((POWER, self.dtype.itemsize), self.dtype, tuple(map(self._value, operands)))
            elif isinstance(exponent, Symbol):
                function = np.power
            else:
                raise _CannotLower
        found = tuple(map(self._value, operands))
        if fallback(function) is where:
            numbers = not any(isinstance(x, Symbol) for x in operands[1:])  # of which NumPy makes float64
            if numbers or [value.dtype for value in found] != [_BOOL, self.dtype, self.dtype]:
                raise _CannotLower
            return self._note((CHOICE, self.dtype.itemsize), self.dtype, found)
        ufunc = ufunc_of(function)
        if ufunc is None or ufunc.nin != len(found) or ufunc.nout != 1:
            raise _CannotLower
        codes = "".join([value.dtype.char for value in found])
        result = next((t[-1] for t in ufunc.types if t[: len(codes)] == codes and t[len(codes) :][:2] == "->"), None)
        loop = None if result is None else loop_of(ufunc, f"{codes}->{result}")
        if loop is None or result is None:
            raise _CannotLower
        return self._note(loop, np.dtype(result), found)

    def _note(self, loop: tuple[int, int], result: np.dtype, operands: tuple[Value, ...]) -> Value:
        self.steps.append((loop, result, operands))
        return Value("step", len(self.steps) - 1, result)


def lowered(expression: Symbol, inputs: list[Symbol], dtype: np.dtype) -> Lowered | None:
    """An expression as steps; None if one of them has no inner loop, or there are none."""
    try:
        found = Lowered(expression, inputs, dtype)
    except _CannotLower:
        return None
    return found if found.steps and found.result.kind == "step" else None


def ufunc_of(function: Any) -> np.ufunc | None:
    """The ufunc that an array function is; None if it is none."""
    function = fallback(function)
    function = getattr(function, "operator", function)
    function = fallback(_UFUNCS.get(function, function))
    found = getattr(function, "ufunc", function)
    return found if isinstance(found, np.ufunc) else None
