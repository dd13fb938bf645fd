"""Where results of operations lie in the memory of a GPU: by the rules of ferro/cpu/layouts.py, whose twins this file calls.

Functions of CuPy and kernels give results in C order. An elementwise function does not care for the order of dimensions: its arrays are
turned so that the result lies in C order, and the result is turned back. So arrays of one order, channels last say, are one run of
memory to it. Results of others are copied to where their rule wants them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.core.op import ELEMENTWISE
from ferro.cpu import layouts as rules
from ferro.cuda.driver import cupy
from ferro.cuda.twins import twin

# Operations of one input that are elementwise, and about which their kind says something else.
ALSO = frozenset(("angle", "conj", "deg2rad", "frexp", "rad2deg", "sgn", "to_copy"))
# The words of dropout belong to elements in C order, in forward and backward: its arrays are not turned, but its results are copied.
LIKE_FIRST = frozenset(("dropped",))
_LAID: dict[Any, Callable | None] = {}


def turning(arrays: list) -> tuple | None:
    """The order of dimensions, slowest first, in which the result of an elementwise operation on these arrays lies, and the way back.

    None where that is C order.
    """
    if all(a.flags.c_contiguous for a in arrays):
        return None
    shape = arrays[0].shape
    if any(a.shape != shape for a in arrays):
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
    return _order(shape, tuple([(a.shape, a.strides, a.itemsize) for a in arrays]))


@lru_cache(maxsize=4096)
def _order(shape: tuple, arrays: tuple) -> tuple | None:
    strides = rules._strides(shape, 1, arrays)
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d], d)))
    return None if order == tuple(range(len(shape))) else (order, tuple(np.argsort(order).tolist()))


def turned(function: Callable, values: tuple, arrays: list) -> Any:
    """An elementwise function of arrays and other values; its result (or each of several) lies as the arrays decide."""
    turn = turning(arrays)
    if turn is None:
        return function(*values)
    order, back = turn
    n, kind = len(order), cupy().ndarray
    given = [v[(None,) * (n - v.ndim)].transpose(order) if isinstance(v, kind) and v.ndim else v for v in values]
    found = function(*given)
    return tuple([_back(f, back) for f in found]) if isinstance(found, tuple) else _back(found, back)


def by_element(function: Callable, args: tuple) -> Any:
    """An elementwise function of arrays and other values: its results lie as the arrays decide."""
    kind = cupy().ndarray
    arrays = [a for a in args if isinstance(a, kind) and a.ndim]
    return turned(function, args, arrays) if arrays else function(*args)


def _back(found: Any, back: tuple) -> Any:
    """A result with its dimensions turned back: as an array of its own, if it is one."""
    view = found.transpose(back)
    if found.base is not None or not found.flags.c_contiguous:
        return view
    return cupy().ndarray(view.shape, view.dtype, view.data, view.strides)


def moved(x: Any, strides: tuple) -> Any:
    """The array if its elements lie by these strides (in bytes), else a copy."""
    return twin(rules.moved)(x, strides)


def same_order(copy: Callable, x: Any) -> Any:
    """What a function gives that copies to another memory, in C order: the result has the order of dimensions of x."""
    if x.flags.c_contiguous or not x.size:
        return copy(x)
    strides = rules.preserved(x, 1)
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], -x.shape[d], d))
    return copy(x.transpose(order)).transpose(np.argsort(order).tolist())


def whole(op: Any, xp: Any) -> Callable | None:
    """The function of arrays and parameters that computes an operation; None for one whose results are views."""
    if op not in _LAID:
        _LAID[op] = None if op.view or op.variadic else _laid(op, xp)
    return _LAID[op]


def _laid(op: Any, xp: Any) -> Callable | None:
    elementwise = op.layout == rules.ITERATED or (op.kind == ELEMENTWISE and not op.layout) or op.name in ALSO
    if not elementwise:
        rule = rules.FIRST if op.name in LIKE_FIRST else op.layout
        return twin(rules.laid)(lambda *args: op.forward(xp, *args), rule) if rule else None
    count, kind = len(op.inputs), cupy().ndarray

    def function(*args: Any) -> Any:
        return op.forward(xp, *args)

    def in_turn(*args: Any) -> Any:
        return turned(function, args, [a for a in args[:count] if isinstance(a, kind) and a.ndim])

    laid = twin(rules.laid)(in_turn, rules.ITERATED)

    def kept(*args: Any) -> Any:
        for a in args[:count]:
            if isinstance(a, kind) and not a.flags.c_contiguous:
                return laid(*args)
        return op.forward(xp, *args)

    return kept
