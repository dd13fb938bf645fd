"""Elementwise functions of a GPU, one launch each: the kernel that printer.py prints from the formula, compiled when first called.

A kernel takes floats of one dtype, complex ones if its functions have them, of any shapes that can be broadcast and any strides; its
result lies in memory as they do (order.py). For other arguments (integers, several dtypes) the formula is computed step by step, as
every formula is that has no expression.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ferro import xp
from ferro.cuda import layouts
from ferro.cuda.driver import cupy
from ferro.cuda.order import turned
from ferro.cuda.printed_complex import COMPLEX_STORED
from ferro.cuda.printer import PACKED, STORED, text_of
from ferro.cuda.twins import elementwise_by
from ferro.elementwise import DECLARED, Elementwise
from ferro.loop_text import Unprintable

__all__ = ["elementwise", "once"]

THREADS = 256  # of a block
KINDS = frozenset((*STORED, *COMPLEX_STORED))  # dtypes
MOST_BLOCKS = 1 << 16  # each goes on with the elements behind those of all others
LAUNCHES = {"count": 0}  # how many kernels have been started, for tests

# Functions of one number that CuPy computes in one launch itself.
_CUPY_NAMES = {f"a{name}": f"arc{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")}
BY_CUPY = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *_CUPY_NAMES,
}


_COMPILED: dict[tuple, Any] = {}  # kernels by key, dtype and kind; None where a formula has none


def _kernel(key: Any, name: str, formula: Callable, arrays: int, numbers: int, dtype: str, kind: str) -> Any:
    """The kernel of a formula that `key` stands for; None if it has none."""
    found = _COMPILED.get((key, dtype, kind), _COMPILED)
    if found is not _COMPILED:
        return found
    try:
        text = text_of(name, formula, arrays, numbers, dtype)
    except Unprintable:
        made: dict[str, Any] = dict.fromkeys(("flat", "strided"))
    else:
        module = cupy().RawModule(code=text, options=("-std=c++17",))
        made = {each: module.get_function(each) for each in ("flat", "strided")}
    for each, one in made.items():
        _COMPILED[key, dtype, each] = one
    return made[kind]


@lru_cache(maxsize=4096)
def _layout(shape: tuple, strides: tuple) -> tuple[int, Any]:
    """The number of dimensions, and an array on the GPU of their sizes and of the strides of each array, in elements.

    Dimensions that lie one behind the other in all arrays count as one.
    """
    kept: list[list[int]] = []  # size, strides...
    for d, n in enumerate(shape):
        if n == 1:
            continue
        steps = [s[d] for s in strides]
        if kept and all(before == step * n for before, step in zip(kept[-1][1:], steps, strict=True)):
            kept[-1] = [kept[-1][0] * n, *steps]
        else:
            kept.append([n, *steps])
    table = np.array(kept or [[1] + [0] * len(strides)], np.int64).T
    return table.shape[1], cupy().asarray(np.ascontiguousarray(table).reshape(-1))


def launched(key: Any, name: str, formula: Callable, arrays: tuple, numbers: tuple) -> Any:
    """The formula of arrays and numbers by its kernel; None where there is none for them."""
    first = arrays[0]
    dtype = first.dtype
    if dtype.name not in KINDS or any(type(a) is not type(first) or a.dtype is not dtype for a in arrays):
        return None
    if _kernel(key, name, formula, len(arrays), len(numbers), dtype.name, "flat") is None:
        return None
    if _is_flat(arrays):
        return _launched(key, name, formula, arrays, numbers, True)
    some = [a for a in arrays if a.ndim]
    return turned(lambda *given: _launched(key, name, formula, given, numbers, _is_flat(given)), arrays, some)


def _is_flat(arrays: tuple) -> bool:
    """Whether arrays of one shape lie in C order."""
    shape = arrays[0].shape
    return all(a.shape == shape and a.flags.c_contiguous for a in arrays)


def _launched(key: Any, name: str, formula: Callable, arrays: tuple, numbers: tuple, flat: bool) -> Any:
    """The same of arrays whose result lies in C order; flat: so do they, in one shape."""
    first, dtype = arrays[0], arrays[0].dtype
    kernel = _kernel(key, name, formula, len(arrays), len(numbers), dtype.name, "flat" if flat else "strided")
    shape = first.shape if flat else np.broadcast_shapes(*[a.shape for a in arrays])
    out = cupy().empty(shape, dtype)
    if not out.size:
        return out
    given = [np.int64(out.size)]
    if not flat:
        strides = tuple([_broadcast_strides(a, shape) for a in arrays])
        ndim, table = _layout(shape, strides)
        given += [np.int32(ndim), table]
    each = PACKED // dtype.itemsize if flat else 1
    blocks = min(-(-out.size // (THREADS * each)), MOST_BLOCKS)
    LAUNCHES["count"] += 1
    kernel((blocks,), (THREADS,), (*given, *arrays, *map(np.float64, numbers), out))
    return out


def _broadcast_strides(a: Any, shape: tuple) -> tuple:
    """The strides, in elements, with which an array is read that is broadcast to a shape."""
    size, lead = a.itemsize, len(shape) - a.ndim
    return (0,) * lead + tuple([0 if n == 1 else s // size for n, s in zip(a.shape, a.strides, strict=True)])


def elementwise(function: Elementwise, *values: Any) -> Any:
    """An elementwise function of arrays and numbers."""
    arrays, numbers = values[: function.arrays], values[function.arrays :]
    if all(isinstance(number, (int, float, np.integer, np.floating)) for number in numbers):
        found = launched(function, function.__name__, function.formula, arrays, numbers)
        if found is not None:
            return found
    dtype = arrays[0].dtype
    if dtype.kind in "iub":  # (numbers do not widen them)
        takes = float if dtype.kind != "b" else (int, float)
        values = (*arrays, *[dtype.type(number) if isinstance(number, takes) else number for number in numbers])
    return xp.elementwise(layouts.MODULES["ferro.cpu"], function, *values)


def once(formula: Callable, g: Any, *values: Any) -> Any:
    """The elementwise formula of (xp, g, values...), computed in float32 and rounded once for a 16-bit dtype.

    By its kernel, if it is one of arrays alone that stands by itself: what a formula made anew for each call has caught
    around itself may be another the next time.
    """
    if not getattr(formula, "__closure__", True) and all(isinstance(v, cupy().ndarray) for v in values):
        found = launched(formula.__code__, formula.__qualname__, formula, (g, *values), ())
        if found is not None:
            return found
    return xp.once(layouts.MODULES["ferro.cpu"], formula, g, *values)


@elementwise_by
def function_of(function: Elementwise) -> Callable:
    """The function of (arrays..., numbers...) that computes an elementwise declaration."""
    name = function.__name__
    if name in BY_CUPY and function is DECLARED.get(name):
        ufunc = getattr(cupy(), _CUPY_NAMES.get(name, name))
        return lambda x: ufunc(x)
    if name in ("sigmoid", "erf", "gelu", "gelu_slope"):
        return _primitive(name, function)
    return lambda *values: elementwise(function, *values)


def _primitive(name: str, function: Elementwise) -> Callable:
    """A function that formulas know by this name: by a kernel, of complex numbers as a formula of others."""

    def run(x: Any) -> Any:
        found = launched(function, name, function.formula, (x,), ())
        if found is not None:
            return found
        if name == "sigmoid":
            return 1 / (1 + cupy().exp(-x))
        raise TypeError(f"{name}: expected real floats, got {x.dtype}")

    return run
