"""Where results lie in memory: the order of their dimensions follows from the inputs, as in PyTorch.

Kernels and NumPy's functions make what is C-contiguous out of C-contiguous arrays, and that is left alone.  Where an input lies
otherwise, the result is moved to where PyTorch has it, if it is not there already.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from ferro.cpu.kernels.entries import with_entry
from ferro.cpu.shape import strided
from ferro.native.entries import fallback

ndarray = np.ndarray

ITERATED = "iterated"  # the first operand that tells two dimensions apart decides which is the slower one
FIRST = "first"  # as the first input
CHANNELS = "channels"  # channels last if an input has them there, else C order
BATCHES = "batches"  # as CHANNELS, and where dimensions of one element leave the order of the first input open
IMAGES = "images"  # the same for images in two dimensions; in C order for volumes
DENSE = "dense"  # in C order


def channels_last_order(ndim: int) -> tuple[int, ...]:
    """The dimensions of images from the slowest to the fastest, channels last."""
    return (0, *range(2, ndim), 1)


def strides_in(order: Any, shape: tuple, itemsize: int) -> tuple[int, ...]:
    """The strides, in bytes, of an array without gaps whose dimensions lie in this order, the slowest first."""
    found, step = [0] * len(shape), itemsize
    for d in reversed(tuple(order)):
        found[d] = step
        step *= max(shape[d], 1)
    return tuple(found)


def empty(shape: tuple, dtype: Any, strides: tuple) -> Any:
    """A new array without gaps."""
    return ndarray(shape, dtype, np.empty(int(np.prod(shape)), dtype), 0, strides)


def moved(x: Any, strides: tuple) -> Any:
    """x if its elements lie so, else a copy; strides of dimensions of one element are put right without one."""
    if x.strides == strides or not x.size:
        return x
    if all(a == b or n == 1 for a, b, n in zip(x.strides, strides, x.shape, strict=True)):
        return strided(x, x.shape, strides)
    out = empty(x.shape, x.dtype, strides)
    out[...] = x
    return out


@lru_cache(maxsize=4096)
def _order(shape: tuple, operands: tuple) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest, by the strides of operands that are broadcast to a shape.

    Insertion from the last dimension on; a dimension that an operand does not have, or repeats, tells nothing.
    """

    def slower(d: int, e: int) -> int:
        for strides in operands:
            a, b = strides[d], strides[e]
            if a and b and (a != b or shape[d] > shape[e]):
                return 1 if a >= b else -1
        return 0

    found = list(reversed(range(len(shape))))  # the fastest first
    for i in range(1, len(found)):
        at = i
        for j in range(i - 1, -1, -1):
            which = slower(found[j], found[at])
            if which > 0:
                found[j], found[at] = found[at], found[j]
                at = j
            elif which < 0:
                break
    return tuple(reversed(found))


def is_dense(shape: tuple, strides: tuple, itemsize: int) -> bool:
    """Whether elements lie in memory without gaps and without overlap, in any order of the dimensions."""
    step = itemsize
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


def preserved(x: Any, itemsize: int) -> tuple[int, ...]:
    """The strides of a new array that lies in memory as x does: PyTorch's ``preserve_format``."""
    if x.size and is_dense(x.shape, x.strides, x.itemsize):
        return tuple([s // x.itemsize * itemsize for s in x.strides])
    return strides_in(_order(x.shape, (tuple(map(abs, x.strides)),)), x.shape, itemsize)


def has_channels_last(x: Any) -> bool:
    """Whether images have their channels last, by PyTorch's rule for strides, which need not be free of gaps."""
    if x.ndim not in (4, 5) or x.strides[1] == 0:
        return False
    least = 0
    for d in reversed(channels_last_order(x.ndim)):
        n, s = x.shape[d], x.strides[d]
        if n == 0 or s < least or (d == 0 and least == x.strides[1]):
            return False
        least = s * n if n > 1 else s
    return True


def iterated(out: Any, arrays: list) -> Any:
    """The result of an elementwise operation, laid in memory as its operands decide."""
    strides = _strides(out.shape, out.itemsize, tuple([(a.shape, a.strides, a.itemsize) for a in arrays]))
    return out if out.strides == strides else moved(out, strides)


@lru_cache(maxsize=4096)
def _strides(shape: tuple, width: int, arrays: tuple) -> tuple[int, ...]:
    """The strides of the result of an elementwise operation on arrays of these shapes, strides and widths."""
    n, operands = len(shape), []
    if all(sizes == shape for sizes, _, _ in arrays):
        _, first, itemsize = arrays[0]
        if all((s, w) == (first, itemsize) for _, s, w in arrays) and is_dense(shape, first, itemsize):
            return tuple([s // itemsize * width for s in first])
        if n in (4, 5) and all(_lies_in(channels_last_order(n), *a) for a in arrays):
            return strides_in(channels_last_order(n), shape, width)
    for sizes, strides, _ in arrays:
        lead = n - len(sizes)
        found = [0 if k == 1 != m else abs(s) for k, m, s in zip(sizes, shape[lead:], strides, strict=True)]
        operands.append((0,) * lead + tuple(found))
    return strides_in(_order(shape, tuple(operands)), shape, width)


def _lies_in(order: tuple, shape: tuple, strides: tuple, itemsize: int) -> bool:
    """Whether elements lie in memory without gaps, the dimensions in this order."""
    there = strides_in(order, shape, itemsize)
    return 0 in shape or all(n == 1 or s == t for n, s, t in zip(shape, strides, there, strict=True))


def _like_first(out: Any, arrays: list) -> Any:
    return moved(out, preserved(arrays[0], out.itemsize)) if arrays[0].shape == out.shape else out


def _channels(out: Any, arrays: list) -> Any:
    if any(has_channels_last(a) for a in arrays[:2] if a.ndim == out.ndim):
        return moved(out, strides_in(channels_last_order(out.ndim), out.shape, out.itemsize))
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


def _batches(out: Any, arrays: list) -> Any:
    x = arrays[0]
    if x.ndim in (4, 5) and x.transpose(channels_last_order(x.ndim)).flags.c_contiguous:
        return moved(out, strides_in(channels_last_order(out.ndim), out.shape, out.itemsize))
    return _channels(out, arrays)


def joined(out: Any, arrays: Any) -> Any:
    """The arrays one behind the other: channels last if all have them there, else in C order."""
    if type(out) is not ndarray:
        return out
    if all(has_channels_last(a) for a in arrays):
        return moved(out, strides_in(channels_last_order(out.ndim), out.shape, out.itemsize))
    return np.ascontiguousarray(out)


def _images(out: Any, arrays: list) -> Any:
    return _channels(out, arrays) if out.ndim == 4 else np.ascontiguousarray(out)


def _dense(out: Any, arrays: list) -> Any:
    return np.ascontiguousarray(out)


_RULES: dict[str, Callable] = {
    ITERATED: iterated,
    FIRST: _like_first,
    CHANNELS: _channels,
    BATCHES: _batches,
    IMAGES: _images,
    DENSE: _dense,
}


def laid(function: Callable, rule: str, arrays: int | None = None, others: int = 0) -> Callable:
    """The function of arrays (and other values), its result (of several: all of its dimensions) laid in memory by a rule.

    Machine code that stands before the function stays before it: it takes C-contiguous arrays only.  `arrays` and
    `others`: how many arguments are arrays (or None, behind the first), and how many come after them; None: unknown.
    """
    put = _RULES[rule]
    inner = fallback(function)

    def placed(out: Any, args: tuple) -> Any:
        for a in args:
            if type(a) is ndarray and not a.flags.c_contiguous:
                given = [b for b in args if type(b) is ndarray]
                if type(out) is tuple:
                    return tuple([put(o, given) if type(o) is ndarray and o.ndim == a.ndim else o for o in out])
                return put(out, given) if type(out) is ndarray and out.ndim > 1 else out
        return out

    def kept(*args: Any) -> Any:
        return placed(inner(*args), args)

    if arrays:
        kept = _written_out(arrays, others, rule in (ITERATED, FIRST), rule == ITERATED)(inner, placed)
    kept = wraps(inner)(kept)
    return kept if inner is function else with_entry(kept, function.__name__)


@lru_cache
def _written_out(arrays: int, others: int, like_first: bool, elementwise: bool) -> Callable:
    """What makes `kept` of `laid` for a number of arguments, without a loop over them: for small arrays each step counts."""
    xs = [f"x{i}" for i in range(arrays)]
    given = ", ".join([*xs, *[f"p{i}" for i in range(others)]])
    plain = " and ".join(["x0.flags.c_contiguous", *[f"({x} is None or {x}.flags.c_contiguous)" for x in xs[1:]]])
    # a result that lies as the first array does, without gaps, is where these rules want it: NumPy has seen to that
    there = "type(out) is ndarray and out.strides == x0.strides and out.shape == x0.shape" if like_first else "False"
    names: dict[str, Any] = {"ndarray": ndarray, "turned": turned}
    turn = ""
    if elementwise:
        turn = f"""
        turns = turned(({", ".join(xs)},))
        if turns is not None:
            return kept(*turns{"".join(f", p{i}" for i in range(others))}).T"""
    exec(
        f"""
def made(inner, placed):
    def kept({given}):
        if {plain}:
            return inner({given}){turn}
        out = inner({given})
        return out if {there} else placed(out, ({", ".join(xs)},))
    return kept""",
        names,
    )
    return names["made"]


def turned(arrays: tuple) -> list | None:
    """The transposes of arrays of one shape (or of no dimensions) if the first lies in Fortran's order; else None."""
    shape = None
    for x in arrays:
        if x is None or (x.ndim and (shape or x.shape) != x.shape):
            return None
        if shape is None and x.ndim:
            if not x.flags.f_contiguous or x.flags.c_contiguous:
                return None
            shape = x.shape
    return [x.T for x in arrays]
