"""Recurrent layers of NumPy arrays: all steps of one direction of a layer, and backward through time.

x is (L, N, I), or (rows, I) with `sizes`: then its step t has the next sizes[t] rows, those of the first sequences.
A state is (1, N, size); without one the sequences begin with zeros.  The input's part of all gates is one product, and so
is the gradient by each weight: only the state's part and its gradient follow the steps.
What the layers share is in recurrent_steps.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels.common import SMALL
from ferro.cpu.kernels.gemm import gemm
from ferro.cpu.kernels.recurrent import function
from ferro.cpu.kernels.recurrent import lstm as all_lstm_steps
from ferro.cpu.recurrent_steps import (
    Slices,
    as_rows,
    carried,
    each_step,
    rounded,
    run_back,
    run_steps,
    slices_of,
    start,
    states_before,
    times,
    turned,
    weight_gradients,
)
from ferro.cpu.thresholds import BLAS_VECTOR, GRAIN, LSTM_CHUNK, LSTM_SHARED
from ferro.native.blas import blas_single

__all__ = ["gru_one", "gru_one_vjp", "gru_steps", "gru_steps_vjp", "lstm_one", "lstm_one_vjp", "lstm_steps", "lstm_steps_vjp",
           "rnn_steps", "rnn_steps_vjp"]  # fmt: skip


def _sequences(make: Make, gates: int) -> Iterator[tuple]:
    """(x, state, weights and biases, sizes, backwards) of a layer with so many gates, around thresholds."""

    def layer(steps: int, rows: int, width: int, size: int) -> tuple:
        weights = make(gates * size, width), make(gates * size, size), make(gates * size), make(gates * size)
        return make(steps, rows, width), make(1, rows, size), [w / math.sqrt(size) for w in weights]

    for rows in sides(math.ceil(SMALL / (3 * gates * 8))):
        for backwards in (False, True):
            yield *layer(3, rows, 4, 8), None, backwards
    for least, size in ((GRAIN // 4, 8), (LSTM_SHARED // (gates * 32), 32), (2 * LSTM_CHUNK // (gates * 32 * 2), 32)):
        for rows in sides(math.ceil(least / size)):
            yield *layer(2, rows, 4, size), None, False
    x, state, weights = layer(1, 120, 4, 24)
    for backwards in (False, True):
        yield x[0], state[:, :60], weights, (60, 40, 20), backwards


# -- long short-term memory --------------------------------------------------------------------------------------------


def _lstms(make: Make) -> Iterator[tuple]:
    for x, h, weights, sizes, backwards in _sequences(make, 4):
        yield x, h, h / 2, *weights, None, sizes, backwards


def _lstms_vjp(make: Make) -> Iterator[tuple]:
    for given in _lstms(make):
        out, h, c, *kept = lstm_steps(*given)
        yield (make(*out.shape), h, c), *given[:8], out, *kept, *given[8:], (True,) * 7 + (False,)


@by_kernels("lstm lstm_gates", _lstms)
@rounded(3)
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
    slices = slices_of(x, sizes, backwards)
    hn, cn = start(h, x, sizes, w_hh.shape[1]), start(c, x, sizes, len(w_hh) // 4)
    gates = gemm(as_rows(x), w_ih.T, None if b_ih is None else b_ih + b_hh)
    cells = np.empty((len(gates), cn.shape[1]), x.dtype)
    hidden = np.empty_like(cells)
    out = hidden if w_hr is None else np.empty((len(gates), len(w_hr)), x.dtype)
    if w_hr is not None or not all_lstm_steps(slices, gates, w_hh, hn, cn, cells, out):
        hn, cn = _lstm_loop(slices, gates, turned(w_hh), w_hr, hn, cn, cells, hidden, out)
    out = out.reshape(*x.shape[:-1], out.shape[1])
    return out, hn[None], cn[None], gates, cells, None if w_hr is None else hidden


def _lstm_loop(
    slices: Slices, gates: Any, w: Any, w_hr: Any, h: Any, c: Any, cells: Any, hidden: Any, out: Any
) -> list:
    """The steps one after the other; the last h and c."""
    run = function("lstm_gates", gates, len(h))
    a, after, new, outs = each_step(slices, gates, cells, hidden, out)

    def step(k: int, h: Any, c: Any) -> tuple:
        sums = a[k]
        sums += times(h, w)
        run(sums, c, after[k], new[k])
        if w_hr is not None:
            outs[k][:] = times(new[k], w_hr.T)
        return outs[k], after[k]

    with blas_single():
        return run_steps(slices, (h, c), step)


@by_kernels("lstm_gates_vjp", _lstms_vjp)
@rounded(None)
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
    slices = slices_of(x, sizes, backwards)
    h, c = start(h, x, sizes, w_hh.shape[1]), start(c, x, sizes, cells.shape[1])
    d_h, d_c = carried(g[1], h), carried(g[2], c)
    d = np.empty_like(gates)
    projected = None if w_hr is None else np.empty((len(gates), len(w_hr)), x.dtype)
    run = function("lstm_gates_vjp", gates, len(h))
    a, before, after, to = each_step(slices, gates, states_before(cells, c, slices), cells, d)

    def step(k: int, at: Any) -> None:
        by_hidden = at
        if projected is not None:
            projected[slices[k]] = at
            by_hidden = times(at, w_hr)
        run(by_hidden, d_c[: len(at)], a[k], before[k], after[k], to[k])
        at[:] = times(to[k], w_hh)

    run_back(slices, g[0], d_h, step)
    d_x, *d_weights = weight_gradients(d, d, x, states_before(as_rows(out), h, slices), w_ih, (needs[0], *needs[3:7]))
    d_r = gemm(projected.T, hidden) if projected is not None and needs[7] else None
    return d_x, d_h[None], d_c[None], *d_weights, d_r


# -- gated recurrent unit ----------------------------------------------------------------------------------------------


def _grus(make: Make) -> Iterator[tuple]:
    for x, h, weights, sizes, backwards in _sequences(make, 3):
        yield x, h, *weights, sizes, backwards


def _grus_vjp(make: Make) -> Iterator[tuple]:
    for given in _grus(make):
        out, h, *kept = gru_steps(*given)
        yield (make(*out.shape), h), *given[:6], out, *kept, *given[6:], (True,) * 6


@by_kernels("gru_gates", _grus)
@rounded(2)
def gru_steps(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Sequence[int] | None, backwards: bool
) -> tuple:
    """The outputs and the last h; and for backward the gates, and the state's part of n."""
    slices = slices_of(x, sizes, backwards)
    n = w_hh.shape[1]
    first = start(h, x, sizes, n)
    gates = gemm(as_rows(x), w_ih.T, b_ih)
    inner, out = np.empty((len(gates), n), x.dtype), np.empty((len(gates), n), x.dtype)
    w, run = turned(w_hh), function("gru_gates", gates, len(first))
    a, own, outs = each_step(slices, gates, inner, out)

    def step(k: int, h: Any) -> tuple:
        z = times(h, w)
        if b_hh is not None:
            z += b_hh
        run(z, a[k], h, own[k], outs[k])
        return (outs[k],)

    with blas_single():
        (hn,) = run_steps(slices, (first,), step)
    return out.reshape(*x.shape[:-1], n), hn[None], gates, inner


@by_kernels("gru_gates_vjp", _grus_vjp)
@rounded(None)
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
    slices = slices_of(x, sizes, backwards)
    h = start(h, x, sizes, w_hh.shape[1])
    d_h = carried(g[1], h)
    d, e = np.empty_like(gates), np.empty_like(gates)
    states = states_before(as_rows(out), h, slices)
    run = function("gru_gates_vjp", gates, len(h))
    a, before, own, to, also = each_step(slices, gates, states, inner, d, e)

    def step(k: int, at: Any) -> None:
        run(at, a[k], before[k], own[k], to[k], also[k])
        at += times(also[k], w_hh)

    run_back(slices, g[0], d_h, step)
    d_x, *d_weights = weight_gradients(d, e, x, states, w_ih, (needs[0], *needs[2:]))
    return d_x, d_h[None], *d_weights


# -- plain networks ----------------------------------------------------------------------------------------------------


@rounded(2)
def rnn_steps(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, mode: str, sizes: Sequence[int] | None, backwards: bool
) -> tuple:
    """The outputs and the last h; `mode` is "RNN_TANH" or "RNN_RELU"."""
    slices = slices_of(x, sizes, backwards)
    out = gemm(as_rows(x), w_ih.T, None if b_ih is None else b_ih + b_hh)
    w = turned(w_hh)
    (outs,) = each_step(slices, out)
    zero = np.zeros((), x.dtype)

    def step(k: int, h: Any) -> tuple:
        new = outs[k]
        new += times(h, w)
        if mode == "RNN_RELU":
            np.maximum(new, zero, out=new)
        else:
            np.tanh(new, new)
        return (new,)

    with blas_single():
        (hn,) = run_steps(slices, (start(h, x, sizes, w_hh.shape[1]),), step)
    return out.reshape(*x.shape[:-1], len(w_hh)), hn[None]


@rounded(None)
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
    slices = slices_of(x, sizes, backwards)
    h = start(h, x, sizes, w_hh.shape[1])
    d_h = carried(g[1], h)
    out = as_rows(out)
    slopes = (
        out <= 0 if mode == "RNN_RELU" else np.ones((), out.dtype) - out * out
    )  # of relu: where there is none (nan lets pass)
    d = np.empty_like(out)
    slope, to = each_step(slices, slopes, d)
    zero = np.zeros((), out.dtype)

    def step(k: int, at: Any) -> None:
        if mode == "RNN_RELU":
            to[k][:] = np.where(slope[k], zero, at)
        else:
            np.multiply(at, slope[k], to[k])
        at[:] = times(to[k], w_hh)

    run_back(slices, g[0], d_h, step)
    d_x, *d_weights = weight_gradients(d, d, x, states_before(out, h, slices), w_ih, (needs[0], *needs[2:]))
    return d_x, d_h[None], *d_weights


# -- one step ----------------------------------------------------------------------------------------------------------


def _plain(x: Any) -> Any:
    """x as kernels write and read it."""
    return x if x.flags.carray else np.array(x, order="C")


def _product(x: Any, w: Any) -> Any:
    """x wᵀ; BLAS takes one thread for the least of them, so these need no `gemm`."""
    return np.dot(x, w.T) if x.size * w.size <= BLAS_VECTOR else gemm(x, w.T)


@rounded(2)
def lstm_one(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """The new h and c of (N, size); and for backward the gates."""
    gates = _product(h, w_hh)
    gates += _product(x, w_ih)
    if b_ih is not None:
        gates += b_ih + b_hh
    new, cell = np.empty(c.shape, c.dtype), np.empty(c.shape, c.dtype)
    function("lstm_gates", gates, len(x))(gates, _plain(c), cell, new)
    return new, cell, gates


@rounded(None)
def lstm_one_vjp(
    g: tuple, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, cell: Any, gates: Any, needs: tuple
) -> tuple:
    """The gradients by x, h, c and the weights, those that `needs` asks for."""
    d = np.empty_like(gates)
    d_h, d_c = carried(g[0], c), carried(g[1], c)
    function("lstm_gates_vjp", gates, len(x))(d_h, d_c, gates, _plain(c), _plain(cell), d)
    d_x, *d_weights = weight_gradients(d, d, x, h, w_ih, (needs[0], *needs[3:]))
    return d_x, gemm(d, w_hh) if needs[1] else None, d_c, *d_weights


@rounded(1)
def gru_one(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """The new h of (N, size); and for backward the gates, and the state's part of n."""
    gates, z = _product(x, w_ih), _product(h, w_hh)
    if b_ih is not None:
        gates += b_ih
        z += b_hh
    new, inner = np.empty(h.shape, h.dtype), np.empty(h.shape, h.dtype)
    function("gru_gates", gates, len(x))(z, gates, _plain(h), inner, new)
    return new, gates, inner


@rounded(None)
def gru_one_vjp(
    g: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: Any, inner: Any, needs: tuple
) -> tuple:
    """The gradients by x, h and the weights, those that `needs` asks for."""
    d, e, d_h = np.empty_like(gates), np.empty_like(gates), carried(g, h)
    function("gru_gates_vjp", gates, len(x))(d_h, gates, _plain(h), inner, d, e)
    d_x, *d_weights = weight_gradients(d, e, x, h, w_ih, (needs[0], *needs[2:]))
    if needs[1]:
        d_h += gemm(e, w_hh)
    return d_x, d_h, *d_weights
