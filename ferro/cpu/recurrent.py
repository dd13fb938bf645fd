"""Recurrent layers of NumPy arrays: all steps of one direction of a layer, and backward through time.

x is (L, N, I), or (rows, I) with `sizes`: then its step t has the next sizes[t] rows, those of the first sequences.
A state is (1, N, size); without one the sequences begin with zeros.  The input's part of all gates is one product, and so
is the gradient by each weight: only the state's part and its gradient follow the steps.

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
from ferro.cpu.kernels.gemm import gemm
from ferro.cpu.kernels.recurrent import function
from ferro.cpu.kernels.recurrent import lstm as all_lstm_steps
from ferro.cpu.thresholds import BLAS_VECTOR, PRODUCT_SHARED
from ferro.native.blas import blas_single

__all__ = ["gru_one", "gru_one_vjp", "gru_steps", "gru_steps_vjp", "lstm_one", "lstm_one_vjp", "lstm_steps", "lstm_steps_vjp",
           "rnn_steps", "rnn_steps_vjp"]  # fmt: skip

Slices = list[slice]


# -- what all of them share --------------------------------------------------------------------------------------------


def _rounded(count: int | None) -> Callable:
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
            return (*[None if a is None else a.astype(x.dtype) for a in found[:some]], *found[some:])

        return run

    return decorate


def _slices(x: Any, sizes: Sequence[int] | None, backwards: bool) -> Slices:
    """The rows of each step, in the order in which the steps are taken."""
    ends = list(itertools.accumulate(sizes)) if sizes is not None else [x.shape[1] * (t + 1) for t in range(len(x))]
    found = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return found[::-1] if backwards else found


def _start(state: Any, x: Any, sizes: Sequence[int] | None, width: int) -> Any:
    """The state before the first step as a matrix: given, or zeros."""
    if state is None:
        return np.zeros((sizes[0] if sizes is not None else x.shape[1], width), x.dtype)
    return np.array(state[0], order="C")


def _rows(x: Any) -> Any:
    return x if x.ndim == 2 else x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def _turned(w: Any) -> Any:
    """wᵀ, copied where BLAS would otherwise copy it in every step."""
    return np.ascontiguousarray(w.T) if BLAS_VECTOR < w.size < PRODUCT_SHARED // 16 else w.T


def _times(a: Any, b: Any) -> Any:
    """a b for one step, under `blas_single`."""
    return np.dot(a, b) if len(a) * b.size < PRODUCT_SHARED else gemm(a, b)


def _run(slices: Slices, first: tuple, step: Callable[..., tuple]) -> list:
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


def _before(after: Any, first: Any, slices: Slices) -> Any:
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


def _carried(g: Any, like: Any) -> Any:
    """The gradient by the last state as a matrix, which the steps backwards carry on and write over."""
    return np.zeros_like(like) if g is None else np.array(g, like.dtype, order="C").reshape(like.shape)


def _of_weights(d: Any, e: Any, x: Any, before: Any, w_ih: Any, needs: Sequence[bool]) -> tuple:
    """The gradients by x, w_ih, w_hh, b_ih and b_hh from those by the input's and the state's part of the gates."""
    d_x = gemm(d, w_ih).reshape(x.shape) if needs[0] else None
    d_w = gemm(d.T, _rows(x)) if needs[1] else None
    d_u = gemm(e.T, before) if needs[2] else None
    d_b = _sum(d) if needs[3] or needs[4] else None
    return d_x, d_w, d_u, d_b, d_b if d is e or d_b is None else _sum(e)


def _sum(d: Any) -> Any:
    """The sum of all rows: of large matrices a product, which is quicker."""
    if d.size <= BLAS_VECTOR:
        return np.add.reduce(d, 0)
    with blas_single():
        return np.ones(len(d), d.dtype).dot(d)


def _each(slices: Slices, *arrays: Any) -> list[list]:
    """The rows of each step of each array."""
    if _is_even(slices, arrays[0]):  # this is quicker
        order = -1 if slices[0].start else 1
        return [list(a.reshape(len(slices), -1, a.shape[1])[::order]) for a in arrays]
    return [[a[rows] for rows in slices] for a in arrays]


# -- long short-term memory --------------------------------------------------------------------------------------------


@_rounded(3)
def lstm_steps(
    x: Any,
    h: Any,
    c: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    w_hr: Any,
    sizes: Sequence[int] | None,
    backwards: bool,
) -> tuple:
    """The outputs, the last h and c; and for backward the gates, the cells and, if w_hr projects them, the h before that."""
    slices = _slices(x, sizes, backwards)
    hn, cn = _start(h, x, sizes, w_hh.shape[1]), _start(c, x, sizes, len(w_hh) // 4)
    gates = gemm(_rows(x), w_ih.T, None if b_ih is None else b_ih + b_hh)
    cells = np.empty((len(gates), cn.shape[1]), x.dtype)
    hidden = np.empty_like(cells)
    out = hidden if w_hr is None else np.empty((len(gates), len(w_hr)), x.dtype)
    if w_hr is not None or not all_lstm_steps(slices, gates, w_hh, hn, cn, cells, out):
        hn, cn = _lstm_loop(slices, gates, _turned(w_hh), w_hr, hn, cn, cells, hidden, out)
    out = out.reshape(*x.shape[:-1], out.shape[1])
    return out, hn[None], cn[None], gates, cells, None if w_hr is None else hidden


def _lstm_loop(
    slices: Slices, gates: Any, w: Any, w_hr: Any, h: Any, c: Any, cells: Any, hidden: Any, out: Any
) -> list:
    """The steps one after the other; the last h and c."""
    run = function("lstm_gates", gates, len(h))
    a, after, new, outs = _each(slices, gates, cells, hidden, out)

    def step(k: int, h: Any, c: Any) -> tuple:
        sums = a[k]
        sums += _times(h, w)
        run(sums, c, after[k], new[k])
        if w_hr is not None:
            outs[k][:] = _times(new[k], w_hr.T)
        return outs[k], after[k]

    with blas_single():
        return _run(slices, (h, c), step)


@_rounded(None)
def lstm_steps_vjp(
    g: tuple,
    x: Any,
    h: Any,
    c: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    w_hr: Any,
    out: Any,
    gates: Any,
    cells: Any,
    hidden: Any,
    sizes: Sequence[int] | None,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The gradients by x, h, c and the weights, those that `needs` asks for."""
    slices = _slices(x, sizes, backwards)
    h, c = _start(h, x, sizes, w_hh.shape[1]), _start(c, x, sizes, cells.shape[1])
    d_h, d_c = _carried(g[1], h), _carried(g[2], c)
    d = np.empty_like(gates)
    d_out = None if g[0] is None else _rows(contiguous(g[0]))
    projected = None if w_hr is None else np.empty((len(gates), len(w_hr)), x.dtype)
    run = function("lstm_gates_vjp", gates, len(h))
    a, before, after, to = _each(slices, gates, _before(cells, c, slices), cells, d)
    with blas_single():
        for k in range(len(slices) - 1, -1, -1):
            rows, n = slices[k], len(a[k])
            at = d_h[:n]
            if d_out is not None:
                at += d_out[rows]
            if projected is not None:
                projected[rows] = at
                run(_times(at, w_hr), d_c[:n], a[k], before[k], after[k], to[k])
            else:
                run(at, d_c[:n], a[k], before[k], after[k], to[k])
            at[:] = _times(to[k], w_hh)
    d_x, *d_weights = _of_weights(d, d, x, _before(_rows(out), h, slices), w_ih, (needs[0], *needs[3:7]))
    d_r = gemm(projected.T, hidden) if projected is not None and needs[7] else None
    return d_x, d_h[None], d_c[None], *d_weights, d_r


# -- gated recurrent unit ----------------------------------------------------------------------------------------------


@_rounded(2)
def gru_steps(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Sequence[int] | None, backwards: bool
) -> tuple:
    """The outputs and the last h; and for backward the gates, and the state's part of n."""
    slices = _slices(x, sizes, backwards)
    n = w_hh.shape[1]
    first = _start(h, x, sizes, n)
    gates = gemm(_rows(x), w_ih.T, b_ih)
    inner, out = np.empty((len(gates), n), x.dtype), np.empty((len(gates), n), x.dtype)
    w, run = _turned(w_hh), function("gru_gates", gates, len(first))
    a, own, outs = _each(slices, gates, inner, out)

    def step(k: int, h: Any) -> tuple:
        z = _times(h, w)
        if b_hh is not None:
            z += b_hh
        run(z, a[k], h, own[k], outs[k])
        return (outs[k],)

    with blas_single():
        (hn,) = _run(slices, (first,), step)
    return out.reshape(*x.shape[:-1], n), hn[None], gates, inner


@_rounded(None)
def gru_steps_vjp(
    g: tuple,
    x: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    out: Any,
    gates: Any,
    inner: Any,
    sizes: Sequence[int] | None,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The gradients by x, h and the weights, those that `needs` asks for."""
    slices = _slices(x, sizes, backwards)
    h = _start(h, x, sizes, w_hh.shape[1])
    d_h = _carried(g[1], h)
    d, e = np.empty_like(gates), np.empty_like(gates)
    d_out = None if g[0] is None else _rows(contiguous(g[0]))
    states = _before(_rows(out), h, slices)
    run = function("gru_gates_vjp", gates, len(h))
    a, before, own, to, also = _each(slices, gates, states, inner, d, e)
    with blas_single():
        for k in range(len(slices) - 1, -1, -1):
            at = d_h[: len(a[k])]
            if d_out is not None:
                at += d_out[slices[k]]
            run(at, a[k], before[k], own[k], to[k], also[k])
            at += _times(also[k], w_hh)
    d_x, *d_weights = _of_weights(d, e, x, states, w_ih, (needs[0], *needs[2:]))
    return d_x, d_h[None], *d_weights


# -- plain networks ----------------------------------------------------------------------------------------------------


@_rounded(2)
def rnn_steps(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, mode: str, sizes: Sequence[int] | None, backwards: bool
) -> tuple:
    """The outputs and the last h; `mode` is "RNN_TANH" or "RNN_RELU"."""
    slices = _slices(x, sizes, backwards)
    out = gemm(_rows(x), w_ih.T, None if b_ih is None else b_ih + b_hh)
    w = _turned(w_hh)
    (outs,) = _each(slices, out)
    zero = np.zeros((), x.dtype)

    def step(k: int, h: Any) -> tuple:
        new = outs[k]
        new += _times(h, w)
        if mode == "RNN_RELU":
            np.maximum(new, zero, out=new)
        else:
            np.tanh(new, new)
        return (new,)

    with blas_single():
        (hn,) = _run(slices, (_start(h, x, sizes, w_hh.shape[1]),), step)
    return out.reshape(*x.shape[:-1], len(w_hh)), hn[None]


@_rounded(None)
def rnn_steps_vjp(
    g: tuple,
    x: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    out: Any,
    mode: str,
    sizes: Sequence[int] | None,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The gradients by x, h and the weights, those that `needs` asks for."""
    slices = _slices(x, sizes, backwards)
    h = _start(h, x, sizes, w_hh.shape[1])
    d_h = _carried(g[1], h)
    out = _rows(out)
    slopes = (
        out <= 0 if mode == "RNN_RELU" else np.ones((), out.dtype) - out * out
    )  # of relu: where there is none (nan lets pass)
    d = np.empty_like(out)
    d_out = None if g[0] is None else _rows(contiguous(g[0]))
    slope, to = _each(slices, slopes, d)
    zero = np.zeros((), out.dtype)
    with blas_single():
        for k in range(len(slices) - 1, -1, -1):
            at = d_h[: len(to[k])]
            if d_out is not None:
                at += d_out[slices[k]]
            if mode == "RNN_RELU":
                to[k][:] = np.where(slope[k], zero, at)
            else:
                np.multiply(at, slope[k], to[k])
            at[:] = _times(to[k], w_hh)
    d_x, *d_weights = _of_weights(d, d, x, _before(out, h, slices), w_ih, (needs[0], *needs[2:]))
    return d_x, d_h[None], *d_weights


# -- one step ----------------------------------------------------------------------------------------------------------


def _plain(x: Any) -> Any:
    """x as kernels write and read it."""
    return x if x.flags.carray else np.array(x, order="C")


def _product(x: Any, w: Any) -> Any:
    """x wᵀ; BLAS takes one thread for the least of them, so these need no `gemm`."""
    return np.dot(x, w.T) if x.size * w.size <= BLAS_VECTOR else gemm(x, w.T)


@_rounded(2)
def lstm_one(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """The new h and c of (N, size); and for backward the gates."""
    gates = _product(h, w_hh)
    gates += _product(x, w_ih)
    if b_ih is not None:
        gates += b_ih + b_hh
    new, cell = np.empty(c.shape, c.dtype), np.empty(c.shape, c.dtype)
    function("lstm_gates", gates, len(x))(gates, _plain(c), cell, new)
    return new, cell, gates


@_rounded(None)
def lstm_one_vjp(
    g: tuple, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, cell: Any, gates: Any, needs: tuple
) -> tuple:
    """The gradients by x, h, c and the weights, those that `needs` asks for."""
    d = np.empty_like(gates)
    d_h, d_c = _carried(g[0], c), _carried(g[1], c)
    function("lstm_gates_vjp", gates, len(x))(d_h, d_c, gates, _plain(c), _plain(cell), d)
    d_x, *d_weights = _of_weights(d, d, x, h, w_ih, (needs[0], *needs[3:]))
    return d_x, gemm(d, w_hh) if needs[1] else None, d_c, *d_weights


@_rounded(1)
def gru_one(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """The new h of (N, size); and for backward the gates, and the state's part of n."""
    gates, z = _product(x, w_ih), _product(h, w_hh)
    if b_ih is not None:
        gates += b_ih
        z += b_hh
    new, inner = np.empty(h.shape, h.dtype), np.empty(h.shape, h.dtype)
    function("gru_gates", gates, len(x))(z, gates, _plain(h), inner, new)
    return new, gates, inner


@_rounded(None)
def gru_one_vjp(
    g: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: Any, inner: Any, needs: tuple
) -> tuple:
    """The gradients by x, h and the weights, those that `needs` asks for."""
    d, e, d_h = np.empty_like(gates), np.empty_like(gates), _carried(g, h)
    function("gru_gates_vjp", gates, len(x))(d_h, gates, _plain(h), inner, d, e)
    d_x, *d_weights = _of_weights(d, e, x, h, w_ih, (needs[0], *needs[2:]))
    if needs[1]:
        d_h += gemm(e, w_hh)
    return d_x, d_h, *d_weights
