"""What recurrent layers of NumPy arrays share: the rows of their steps, the states between these, gradients by the weights.

Note [Steps]
    A step works on the rows of the sequences that are not over, or, backwards, that have begun: a slice of every array
    whose rows are those of all steps, and the first rows of a state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import contiguous, is_half, widened
from ferro.cpu.kernels.conversions import converted
from ferro.cpu.kernels.gemm import gemm
from ferro.cpu.thresholds import BLAS_VECTOR, PRODUCT_CHUNK, PRODUCT_SHARED
from ferro.native.blas import blas_single

Slices = list[slice]


def rounded(count: int | None) -> Callable:
    """For a function that computes 16-bit floats in float32: so many of its results are rounded at the end.

    None is for the backward of such a function: all are rounded, and before x stands the cotangent.
    """

    def decorate(function: Callable[..., tuple]) -> Callable[..., tuple]:
        @wraps(function)
        def run(*args: Any) -> tuple:
            x = args[count is None]
            if not is_half(x):
                return function(*args)
            wide = [tuple(map(widened, a)) if type(a) is tuple else widened(a) for a in args]
            found = function(*wide)
            some = len(found) if count is None else count
            return (*[None if a is None else converted(a, x.dtype) for a in found[:some]], *found[some:])

        return run

    return decorate


def slices_of(x: Any, sizes: Sequence[int] | None, backwards: bool) -> Slices:
    """The rows of each step, in the order in which the steps are taken."""
    ends = list(itertools.accumulate(sizes)) if sizes is not None else [x.shape[1] * (t + 1) for t in range(len(x))]
    found = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return found[::-1] if backwards else found


def start(state: Any, x: Any, sizes: Sequence[int] | None, width: int) -> Any:
    """The state before the first step as a matrix: given, or zeros."""
    if state is None:
        return np.zeros((sizes[0] if sizes is not None else x.shape[1], width), x.dtype)
    return np.array(state[0], order="C")


def as_rows(x: Any) -> Any:
    return x if x.ndim == 2 else x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def turned(w: Any) -> Any:
    """wᵀ, copied where BLAS would otherwise copy it in every step."""
    return np.ascontiguousarray(w.T) if BLAS_VECTOR < w.size < PRODUCT_SHARED // 16 else w.T


def times(a: Any, b: Any) -> Any:
    """a b for one step, under `blas_single`."""
    return np.dot(a, b) if len(a) * b.size < 2 * PRODUCT_CHUNK else gemm(a, b)


def run_steps(slices: Slices, first: tuple, step: Callable[..., tuple]) -> list:
    """Calls step(number, *states), which returns the new states of the same rows; returns the last state of each sequence."""
    live = slices[0].stop - slices[0].start
    last = [np.empty_like(s) for s in first]
    states = [s[:live] for s in first]
    for k, rows in enumerate(slices):
        n = rows.stop - rows.start
        if n < live:  # the shortest sequences end
            for state, end in zip(states, last, strict=True):
                end[n:live] = state[n:]
            states = [s[:n] for s in states]
        elif n > live:  # backwards, they begin
            states = [np.concatenate((s, f[live:n])) for s, f in zip(states, first, strict=True)]
        live = n
        states = step(k, *states)
    for state, end in zip(states, last, strict=True):
        end[:live] = state
    return last


def _is_even(slices: Slices, x: Any) -> bool:
    """Whether all steps have equally many rows (the first has the most, or backwards the fewest)."""
    return len(slices) * (slices[0].stop - slices[0].start) == len(x)


def states_before(after: Any, first: Any, slices: Slices) -> Any:
    """The state before each step, from those after it."""
    if len(slices) == 1:
        return first
    found = np.empty_like(after)
    if _is_even(slices, after):  # the same with two copies
        n = len(first)
        if slices[0].start == 0:
            found[:n], found[n:] = first, after[:-n]
        else:
            found[-n:], found[:-n] = first, after[n:]
        return found
    previous, live = first, len(first)
    for rows in slices:
        n = rows.stop - rows.start
        here = found[rows]
        if n <= live:
            here[:] = previous[:n]
        else:
            here[:live], here[live:] = previous, first[live:n]
        previous, live = after[rows], n
    return found


def carried(g: Any, like: Any) -> Any:
    """The gradient by the last state as a matrix, which the steps backwards carry on and write over."""
    return np.zeros_like(like) if g is None else np.array(g, like.dtype, order="C").reshape(like.shape)


def weight_gradients(d: Any, e: Any, x: Any, before: Any, w_ih: Any, needs: Sequence[bool]) -> tuple:
    """The gradients by x, w_ih, w_hh, b_ih and b_hh from those by the input's and the state's part of the gates."""
    d_x = gemm(d, w_ih).reshape(x.shape) if needs[0] else None
    d_w = gemm(d.T, as_rows(x)) if needs[1] else None
    d_u = gemm(e.T, before) if needs[2] else None
    d_b = _sum(d) if needs[3] or needs[4] else None
    return d_x, d_w, d_u, d_b, d_b if d is e or d_b is None else _sum(e)


def _sum(d: Any) -> Any:
    """The sum of all rows: of large matrices a product, which is quicker."""
    if d.size <= BLAS_VECTOR:
        return np.add.reduce(d, 0)
    with blas_single():
        return np.ones(len(d), d.dtype).dot(d)


def each_step(slices: Slices, *arrays: Any) -> list[list]:
    """The rows of each step of each array."""
    if _is_even(slices, arrays[0]):  # this is quicker
        order = -1 if slices[0].start else 1
        return [list(a.reshape(len(slices), -1, a.shape[1])[::order]) for a in arrays]
    return [[a[rows] for rows in slices] for a in arrays]


def run_back(slices: Slices, g: Any, d_h: Any, step: Callable[[int, Any], None]) -> None:
    """From the last step to the first, calls step(number, rows of d_h) where d_h has got the gradient g by the step's output.

    It puts the gradient by the state before it in the place of these rows.
    """
    d_out = None if g is None else as_rows(contiguous(g))
    with blas_single():
        for k in range(len(slices) - 1, -1, -1):
            rows = slices[k]
            at = d_h[: rows.stop - rows.start]
            if d_out is not None:
                at += d_out[rows]
            step(k, at)
