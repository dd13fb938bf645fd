"""Elementwise functions of NumPy arrays: what answers, an entry in machine code, the loop printed from the formula, or NumPy.

Note [16 bits].  ufuncs compute float16 and bfloat16 arrays in float32 inside and round once. Functions of several steps are
computed in float32 as a whole, so that they too round once. A Python float would make a bfloat16 array float32: `typed` first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF, by_blocks
from ferro.cpu.half import rounded_once
from ferro.cpu.kernels.common import SMALL, has_kernel, pointwise, share_rows
from ferro.cpu.kernels.entries import entry_of
from ferro.cpu.kernels.loops import reads_again, text_of
from ferro.cpu.namespace import cpu
from ferro.cpu.thresholds import GRAIN
from ferro.elementwise import DECLARED, Elementwise
from ferro.elementwise import elementwise as declare
from ferro.native import registry

__all__ = ["elementwise"]

_made: dict[Elementwise, Callable] = {}
registry.declare_printed("ferro.cpu.kernels.jit_elementwise", DECLARED, text_of)


def elementwise(function: Elementwise, *values: Any) -> Any:
    """An elementwise function of arrays and numbers."""
    return function_of(function)(*values)


def into(function: Elementwise, out: np.ndarray, *values: Any) -> None:
    """Write the result into `out`, which may be one of the arrays; ValueError where its shape or dtype is another."""
    if written(function, out, *values):
        return
    found = function_of(function)(*values)
    if (found.shape, found.dtype) != (out.shape, out.dtype):
        raise ValueError(
            f"{function.__name__}: the result has shape {found.shape} and dtype {found.dtype}, not {out.shape} and {out.dtype}"
        )
    np.copyto(out, found)


def written(function: Elementwise, out: np.ndarray, *values: Any) -> bool:
    """Have the loop of an elementwise function write into `out` itself. False, and nothing is written, where it cannot.

    It can where all arrays and `out` are C-contiguous, large, of one shape and dtype, and each either `out` or apart from it.
    """
    arrays = values[: function.arrays]
    x, name = arrays[0], function.__name__
    alike = all(
        a is out
        or (
            a.shape == out.shape
            and a.dtype is out.dtype
            and a.flags.c_contiguous
            and a.flags.aligned
            and not np.may_share_memory(a, out)
        )
        for a in arrays
    )
    if not (alike and out.flags.carray and has_kernel(x, name)):
        return False
    if any(a is out for a in arrays) and reads_again(function):
        return False
    flat_out = out.reshape(-1)
    flat = [flat_out if a is out else a.reshape(-1) for a in arrays]
    share_rows(name, x.size, GRAIN, (*flat, *map(float, values[function.arrays :]), flat_out))
    return True


def function_of(function: Elementwise, numpy: Callable | None = None) -> Callable:
    """The function of (arrays..., numbers...); `numpy` computes it for small arrays where the formula's steps take longer."""
    found = _made.get(function)
    return _make(function, numpy) if found is None else found


def primitive(name: str, numpy: Callable, *, entry: str = "") -> Callable:
    """The function of that name that formulas know of `xp`, of which cpu/kernels/loops.py knows a function of one number, and
    NumPy this equivalent.
    """
    return _make(declare(lambda xp, x: getattr(xp, name)(x), name=name, entry=entry), numpy)


def _make(function: Elementwise, numpy: Callable | None) -> Callable:
    name, count = function.__name__, function.arrays

    def first(*args: Any) -> Any:
        near[0] = _in_steps(function)
        return near[0](*args)

    near: list[Callable] = [numpy or first]  # what small arrays are computed by

    def answer(x: Any, *rest: Any) -> Any:
        if x.dtype.itemsize == 2 and x.dtype in HALF:
            return rounded(x, *rest)
        return near[0](x, *rest) if x.size < SMALL else large(x, *rest)

    def of_ufunc(x: Any, *rest: Any) -> Any:  # (which knows 16 bits)
        return large(x, *rest) if x.size >= SMALL else numpy(x, *rest)  # type: ignore[misc]

    def large(*args: Any) -> Any:
        x = args[0]
        if has_kernel(x, name):
            arrays = args[:count]
            for a in arrays:
                if type(a) is not np.ndarray or a.shape != x.shape or a.dtype is not x.dtype:
                    break
            else:
                return pointwise(name, *arrays, parameters=tuple(map(float, args[count:])))
        return by_blocks(lambda *some: near[0](*some), *args)

    rounded = rounded_once(answer)
    answer = of_ufunc if isinstance(numpy, np.ufunc) else answer
    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = function.formula.__doc__
    made = _made[function] = entry_of(function, answer) if function.entry else answer
    return made


def _in_steps(function: Elementwise) -> Callable:
    """The formula, its steps written out with the functions of this backend if they can be."""
    return _write[0](function) or partial(function.formula, cpu)


_write: list[Callable[[Elementwise], Callable | None]] = []


def written_by(write: Callable[[Elementwise], Callable | None]) -> Callable:
    """Decorator: gives a formula as one function, None if it cannot (see bound.py, whose tracer knows the functions made here)."""
    _write.append(write)
    return write
