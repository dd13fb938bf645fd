"""Twins: the formulas that `ferro.cpu` computes where it has no kernel, with CuPy's functions in the place of NumPy's.

Note [Twins]
    A formula of `ferro.cpu` is Python over ``np``. Its twin is the same code with other globals: ``np`` is numpy_by_cupy.py, another
    function of `ferro.cpu` is its twin in turn, what asks whether there is a kernel answers no, and what only a processor needs
    (threads, blocks that fit into a cache, machine code in front) is left out. So a formula is written once, and a GPU runs it.
    `INSTEAD` lists what is put in the place of what.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ferro.cpu import array_function
from ferro.cpu import layouts as rules
from ferro.cuda import layouts
from ferro.cuda.numpy_by_cupy import numpy, special
from ferro.elementwise import Elementwise
from ferro.native.entries import fallback

_NONE, _EVERY = 0, 1 << 62
# By module and name: what a name of the CPU's files stands for in twins.
INSTEAD: dict[str, Any] = {
    "ferro.cpu.kernels.common.has_kernel": lambda *args, **kwargs: False,
    "ferro.cpu.kernels.conversions.converted": lambda x, dtype: x.astype(dtype),
    "ferro.cpu.kernels.conversions.sixteen": lambda function: function,
    "ferro.cpu.indexing.finds_wrong_places": lambda x, dim, index: False,
    "ferro.cpu.indexing._need_places": lambda size, dim, index: None,
    "ferro.cpu.kernels.reduce.has_sum_kernel": lambda x: False,
    "ferro.cpu.kernels.reduce.has_extreme_kernel": lambda x: False,
    "ferro.native.readiness.ready": lambda *args: False,
    "ferro.native.blas.blas_single": nullcontext,
    "ferro.native.extensions.special": special,
    "ferro.native.thread_pool.parallel_for": lambda work, parts: [work(part) for part in range(parts)],
    "ferro.cpu.blocks.by_blocks": lambda function, *args: function(*args),
    "ferro.cpu.blas_products.gemm": lambda a, b: numpy.matmul(a, b),
    "ferro.cpu.kernels.gemm.gemm": lambda a, b, start=None: (
        numpy.matmul(a, b) if start is None else numpy.matmul(a, b) + start
    ),
    "ferro.cpu.kernels.common.contiguous": lambda x, dtype=None: numpy.ascontiguousarray(x, dtype),
    "ferro.cpu.kernels.strided_copy.contiguous": layouts.contiguous,
    "ferro.cpu.kernels.strided_copy.copied": layouts.copied,
    "ferro.cpu.kernels.strided_copy.zeros": lambda shape, dtype: numpy.zeros(shape, dtype),
    "ferro.cpu.kernels.strided_copy.assign": lambda *pairs: [
        target.__setitem__(..., source) for target, source in pairs
    ],
    "ferro.cpu.kernels.strided_copy.triangle": lambda x, diagonal, lower: None,
    "ferro.batched.array.as_array": lambda x, dtype=None: numpy.asarray(x, dtype),
    "ferro.cpu.masks._flat": lambda x, name: None,
    "ferro.cpu.recurrent._plain": lambda x: numpy.array(x, order="C"),
    "ferro.cpu.linalg_spectral._lapack": lambda name, function, x, *args: function(x, *args),
    "ferro.cpu.masks.select": lambda condition, x, y: numpy.where(condition, x, y),
    "ferro.cpu.reductions._sum_if_clean": lambda x, dim, keepdim: None,
    "ferro.cpu.reductions.number": lambda value, dtype: dtype.type(value),
    "ferro.cpu.pointwise._one": lambda dtype: dtype.type(1),
    "ferro.cpu.pointwise._zero": lambda dtype: dtype.type(0),
    "ferro.cpu.pointwise.prelu": lambda x, w: numpy.where(x > 0, x, w * x),  # (looking at a weight waits)
    "ferro.cpu.rows.scalar": lambda value, dtype: dtype.type(value),
    "ferro.cpu.shape._address": layouts.address,
    "ferro.cpu.shape.strided": layouts.strided,
    "ferro.cpu.layouts.empty": layouts.empty,
    "ferro.cpu.layouts._strides": rules._strides,
    "ferro.cpu.layouts._order": rules._order,
}
# Thresholds between ways of the CPU: from how many elements on the second is taken.
THRESHOLDS = {
    "SMALL": _NONE,
    "ferro.cpu.masks.SMALL": _EVERY,
    "ferro.cpu.lapack.SMALL": _EVERY,
    "BLOCK_LEAST": _EVERY,
    "COPY_LEAST": _EVERY,
    "INDEX_LEAST": _NONE,
    "ORDER_LEAST": _EVERY,
    "SPECIAL_LEAST": _EVERY,
    "BLAS_VECTOR": _EVERY,
    "GRAIN": _EVERY,
    "CONV_LEAST": _NONE,
    "CONV_SHARED": _EVERY,
    "CONV_WINDOWS": 1 << 26,
    "TRIANGLE_KEPT": _NONE,
    "POOL_CACHED": _NONE,
}
_SPACES: dict[str, dict[str, Any]] = {}
_TWINS: dict[Any, Callable] = {}
_ELEMENTWISE: list[Callable[[Elementwise], Callable]] = []


def elementwise_by(make: Callable[[Elementwise], Callable]) -> Callable:
    """Decorator: gives the function of an elementwise declaration (kernels.py)."""
    _ELEMENTWISE.append(make)
    return make


def twin(function: Any) -> Callable:
    """The twin of a function of `ferro.cpu`; TypeError for what is no formula."""
    function = fallback(function)
    if function not in _TWINS:
        _TWINS[function] = _made(function)
    return _TWINS[function]


def _made(function: Any) -> Callable:
    if isinstance(function, np.ufunc):
        return getattr(numpy, _UFUNCS.get(function.__name__, function.__name__))
    declared = _declared(function)
    if declared is not None:
        return declared
    function = _unwrapped(function)
    if not isinstance(function, FunctionType) or not _ours(function):
        raise TypeError(f"{function!r} is no formula of ferro.cpu")
    place = f"{function.__module__}.{function.__qualname__}"
    if place in INSTEAD:
        return INSTEAD[place]
    return _rebound(function)


def _unwrapped(function: Any) -> Any:
    while hasattr(function, "__wrapped__") and not _ours(function):
        function = function.__wrapped__
    return function


@cache
def formula_of(function: Any) -> Callable:
    """The twin of a function that has another in its place (INSTEAD): what that hands on when it has no kernel."""
    function = fallback(function)
    declared = _declared(function)
    if declared is not None:
        return declared
    return _formula(_unwrapped(function))


def _formula(function: FunctionType) -> FunctionType:
    """The same code with other globals, and so what it is wrapped around."""
    made = _rebound(function)
    del _TWINS[function]  # (for all others the function is what stands in its place)
    for cell, given in zip(made.__closure__ or (), function.__closure__ or (), strict=True):
        inner = given.cell_contents
        if isinstance(inner, FunctionType) and (inner.__module__, inner.__qualname__) == (
            function.__module__,
            function.__qualname__,
        ):
            cell.cell_contents = _formula(_unwrapped(inner))
    return made


_UFUNCS = {"absolute": "abs", "conjugate": "conj"}


def _ours(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and "/ferro/" in code.co_filename.replace("\\", "/")


def _declared(function: Any) -> Callable | None:
    """The twin of an array function's formula, or the kernel of an elementwise function; None for others."""
    made = _elementwise().get(function)
    if made is not None:
        return _ELEMENTWISE[0](made)
    name = getattr(function, "__name__", None)
    array = array_function.DECLARED.get(name) if name else None
    if array is None or array.function is not function:
        return None
    formula = twin(array.formula)
    if array.changes:
        return formula

    def of_floats(*args: Any) -> Any:  # of 16 bits in float32, results of the words x and r rounded once
        x = args[array.lead]
        if not layouts.is_half(x):
            return formula(*args)
        found = formula(*[layouts.widened(a) for a in args])
        if not isinstance(found, tuple):
            return found.astype(x.dtype)
        pairs = zip(array.results, found, strict=True)
        return tuple([a.astype(x.dtype) if a is not None and word in ("x", "r") else a for word, a in pairs])

    of_floats.__name__ = array.name
    return of_floats


@cache
def _elementwise() -> dict[Any, Elementwise]:
    """Elementwise declarations by the functions of `ferro.cpu` that compute them."""
    made = sys.modules["ferro.cpu.elementwise"]._made
    return {fallback(function): declared for declared, function in made.items()}


def _rebound(function: FunctionType) -> Callable:
    """The same code with other globals and closures."""
    cells = None
    if function.__closure__:
        cells = tuple([types.CellType() for _ in function.__closure__])
    made = FunctionType(function.__code__, _space(function), function.__name__, function.__defaults__, cells)
    made.__kwdefaults__, made.__doc__, made.__module__ = function.__kwdefaults__, function.__doc__, __name__
    _TWINS[function] = made  # (a function may name itself)
    for cell, given in zip(cells or (), function.__closure__ or (), strict=True):
        content = given.cell_contents
        # (a list is what a function has found for later calls: a new one)
        cell.cell_contents = [] if type(content) is list else _replaced("", content)
    return made


def _space(function: FunctionType) -> dict[str, Any]:
    """The globals of twins of a module: as far as the code names them."""
    given = function.__globals__
    space = _SPACES.setdefault(
        function.__module__, {"__name__": given["__name__"], "__builtins__": given["__builtins__"]}
    )
    for name in _names(function.__code__):
        if name in given and name not in space:
            space[name] = None  # (one may lead back here)
            space[name] = _replaced(name, given[name], function.__module__)
    return space


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _replaced(name: str, value: Any, module: str = "") -> Any:
    """What stands in a twin in the place of a value that a name has in the CPU's file."""
    if value is np:
        return numpy
    if name in THRESHOLDS and isinstance(value, int):
        return THRESHOLDS.get(f"{module}.{name}", THRESHOLDS[name])
    if isinstance(value, types.ModuleType):
        return layouts.MODULES.get(value.__name__, value)
    owner = getattr(value, "__self__", None)
    if isinstance(owner, np.ufunc):  # np.add.reduce
        return getattr(getattr(numpy, owner.__name__), value.__name__)
    if getattr(value, "__objclass__", None) is np.ndarray:  # np.ndarray.argmax
        return layouts.method(value.__name__)
    if value is np.ndarray:
        return numpy.ndarray
    if value is as_strided:
        return layouts.strided
    if type(value) is np.ndarray and not value.ndim:  # a number that NumPy takes faster as an array
        return value[()]
    if type(value) in (dict, tuple) and value:
        return _each(value)
    inner = fallback(value)
    place = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', name)}"
    if place in INSTEAD:
        return INSTEAD[place]
    if isinstance(inner, np.ufunc):
        return twin(inner)
    if hasattr(inner, "cache_info"):  # arrays are kept by a cache: of the other library's
        place = f"{inner.__wrapped__.__module__}.{inner.__wrapped__.__qualname__}"
        return INSTEAD[place] if place in INSTEAD else cache(_rebound(inner.__wrapped__))
    if isinstance(inner, FunctionType) and inner.__module__.startswith(("ferro.cpu", "ferro.xp")):
        return _Late(inner)
    return value


def _each(value: Any) -> Any:
    """A table of functions and numbers, each replaced."""
    if type(value) is dict:
        return {key: _replaced("", one) for key, one in value.items()}
    return tuple([_replaced("", one) for one in value])


class _Late:
    """A twin that is made when it is first called: formulas name each other in circles."""

    __slots__ = ("_function", "_twin")

    def __init__(self, function: Any) -> None:
        self._function, self._twin = function, None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._twin is None:
            self._twin = twin(self._function)
        return self._twin(*args, **kwargs)
