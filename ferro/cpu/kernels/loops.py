"""Elementwise functions printed as loops: the text that Numba compiles, made from a formula's expression.

A formula is traced with a vocabulary that only names functions (`Names`), and each step of its expression becomes a line:
steps of numbers alone in front of the loop, in float64; the others inside, in the dtype of the arrays. The functions of one
number that a loop calls are those of jit_math.py (`SCALARS`). Sine, cosine and tangent are right there only up to some size:
elements beyond are computed once more, one by one, see `_with_repair`.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import numpy as np

from ferro.elementwise import Elementwise
from ferro.expressions import Symbol, trace_names
from ferro.loop_text import NUMBER, OPERATORS, LoopText, Unprintable

# By the name of the array function: that of the function of one number in jit_math.py.
SCALARS = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cosh": "cosh",
    "erf": "erf_",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "gelu": "gelu_",
    "gelu_slope": "gelu_slope",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "sigmoid": "sigmoid_",
    "sinh": "sinh",
    "sqrt": "np.sqrt",
    "tanh": "tanh",
}
CIRCULAR = {
    "sin": ("sine", "exact_sine"),
    "cos": ("cosine", "exact_cosine"),
    "tan": ("tangent", "exact_tangent"),
}  # up to some size; of all numbers, one by one
PLANE = {"atan2": "angle_of", "hypot": "length_of"}  # those of two numbers
_OPERATORS = OPERATORS | {
    operator.abs: "abs({})",
    "abs": "abs({})",
    "trunc": "np.trunc({})",
    "copysign": "math.copysign({}, {})",
    operator.and_: "{} & {}",
    operator.or_: "{} | {}",
    operator.invert: "not {}",
}
_FLOAT = np.dtype(np.float32)  # (a formula may ask whether numbers are complex)


@cache
def text_of(function: Elementwise) -> str:
    """The loop over the elements of arrays: ``loop(arrays..., numbers..., out)``."""
    arrays = [Symbol(dtype=_FLOAT) for _ in range(function.arrays)]
    numbers = [Symbol() for _ in range(function.numbers)]
    found = trace_names(function.formula, *arrays, *numbers)
    if found is None:
        raise TypeError(
            f"{function!r}: its formula decides by the elements, or does what no loop can; see expressions.py"
        )
    lines = _Lines(arrays, numbers)
    result = lines.name(found)
    given = [f"a{k}" for k in range(len(arrays))]
    head = [f"def loop({', '.join([*given, *[f'p{k}' for k in range(len(numbers))], 'out'])}):"]
    head += ["    apart()"] if not lines.angles else []
    head += ["    whole_registers()"] if lines.calls else []
    head += ["    T = out.dtype.type", *[f"    {line}" for line in lines.before]]
    if lines.angles:
        return "\n".join([*head, *_with_repair(given, lines, result)]) + "\n"
    inside = [f"        {line}" for line in (*lines.inside, f"out[i] = {result}")]
    return "\n".join([*head, "    for i in range(out.size):", *inside]) + "\n"


@cache
def reads_again(function: Elementwise) -> bool:
    """Whether the loop may read an element after it has written the result's, so that the result must lie elsewhere."""
    return "largest" in text_of(function)


def _with_repair(arrays: list[str], lines: _Lines, result: str) -> list[str]:
    """The loop in blocks: of each the largest angle is noted, and where that is too large the block is gone through again,
    while it is in the cache.
    """
    cut = [f"{a}_, " for a in arrays]
    exact = [lines.exact.get(line, line) for line in lines.inside]
    largest = [f"largest = max(largest, size_of({angle}))" for angle in lines.angles]
    beyond = " | ".join([f"(size_of({angle}) > limit)" for angle in lines.angles])

    def block(some: list[str]) -> list[str]:
        inner = [line.replace("[i]", "_[i]") if line.startswith("x") else line for line in some]
        return [f"            {line}" for line in inner]

    return [
        "    limit = far(T(0))",
        "    for start in range(0, out.size, BLOCK):",
        f"        {''.join(cut)}out_ = {', '.join([f'{a}[start : start + BLOCK]' for a in (*arrays, 'out')])}",
        "        largest = size_of(T(0))",
        "        for i in range(out_.size):",
        *block([*lines.inside, *largest, f"out_[i] = {result}"]),
        "        if largest > limit:",
        "            for i in range(out_.size):",
        *[f"    {line}" for line in block([*exact, f"if {beyond}:", f"    out_[i] = {result}"])],
    ]


class _Lines(LoopText):
    """Lines of Python."""

    def __init__(self, arrays: list[Symbol], numbers: list[Symbol]) -> None:
        super().__init__(arrays, numbers)
        self.inside += [f"x{k} = a{k}[i]" for k in range(len(arrays))]
        self.calls = False  # whether there is a function that computes much for each number
        self.angles: list[str] = []  # of which there are sines and cosines
        self.exact: dict[str, str] = {}  # by a line with one of these, the line that is right for all angles

    def line(self, name: str, kind: str, text: str) -> str:
        found = super().line(name, kind, text)
        for near, far in CIRCULAR.values():
            if text.startswith(f"{near}("):
                self.exact[found] = found.replace(f"= {near}(", f"= {far}(")
        return found

    def text(self, function: Any, operands: tuple, names: list[str], kinds: list[str]) -> str:
        self.calls |= function in SCALARS or function in CIRCULAR or function in PLANE
        if function in _OPERATORS:
            return _OPERATORS[function].format(*names)
        if function in SCALARS:
            short = function == "log1p" and _between_0_and_1(operands[0])
            return f"{'log1p_unit' if short else SCALARS[function]}({names[0]})"
        if function in PLANE:
            return f"{PLANE[function]}({', '.join(names)})"
        if function in CIRCULAR:
            self.angles.append(names[0])
            return f"{CIRCULAR[function][0]}({names[0]})"
        if function == "where":
            return f"{names[1]} if {names[0]} else {names[2]}"
        if function == "clamp":
            return f"min(max({', '.join(names[:2])}), {names[2]})"
        if function in ("maximum", "minimum"):
            order = names[::-1] if kinds[0] is NUMBER else names  # nan stays if it is the first
            found = f"{function[:3]}({order[0]}, {order[1]})"
            return found if NUMBER in kinds else f"{names[1]} if {names[1]} != {names[1]} else {found}"
        raise Unprintable(f"no loop computes {function}: the functions that it knows are {sorted(SCALARS)}")


def _between_0_and_1(value: Any) -> bool:
    """Whether a value is e^-|u|, of whose successor the logarithm takes fewer steps."""
    for function in ("exp", operator.neg):
        if not isinstance(value, Symbol) or value.function != function:
            return False
        (value,) = value.operands
    return isinstance(value, Symbol) and value.function in (operator.abs, "abs")
