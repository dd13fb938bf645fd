"""One direction of a recurrent layer over all its steps: RNN, LSTM and GRU with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import Any

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.casting import asked
from ferro.core.composed import vjp_of
from ferro.core.mode import ACTIVE, current
from ferro.core.op import Op
from ferro.ops.creation import zeros
from ferro.ops.joining import cat, stack
from ferro.ops.linear import linear
from ferro.ops.rectifiers import relu


def _tanh_step(gx: Any, state: tuple, w_hh: Any, b_hh: Any) -> tuple:
    """h' = tanh(gx + W h + b), gx being the input's part."""
    return ((gx + linear(state[0], w_hh, b_hh)).tanh(),)


def _relu_step(gx: Any, state: tuple, w_hh: Any, b_hh: Any) -> tuple:
    """h' = relu(gx + W h + b)."""
    return (relu(gx + linear(state[0], w_hh, b_hh)),)


def _lstm_step(gx: Any, state: tuple, w_hh: Any, b_hh: Any, w_hr: Any = None) -> tuple:
    """i, f, g, o = gates;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c'), projected by w_hr if there is one."""
    h, c = state
    i, f, g, o = (gx + linear(h, w_hh, b_hh)).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if w_hr is None else linear(h, w_hr)), c


def _gru_step(gx: Any, state: tuple, w_hh: Any, b_hh: Any) -> tuple:
    """r, z = σ(gates);  n = tanh(nx + r nh);  h' = (1 - z) n + z h."""
    (h,) = state
    rx, zx, nx = gx.chunk(3, dim=-1)
    rh, zh, nh = linear(h, w_hh, b_hh).chunk(3, dim=-1)
    z = (zx + zh).sigmoid()
    n = (nx + (rx + rh).sigmoid() * nh).tanh()
    return (n + z * (h - n),)


_STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}  # blocks of hidden_size rows in the weights


# -- one direction of a layer ------------------------------------------------------------------------------------------

# Note [Steps one by one, and all at once]
#   `_one_by_one` takes the steps with differentiable operations.  It is the definition: forward mode goes through it, a
#   recorded backward differentiates it, and it serves whatever `_fits` refuses.  The operations below compute the same
#   on arrays, all steps at once, and their gradients.


def _one_by_one(mode: str, x: Any, state: tuple, weights: tuple, sizes: Sequence[int] | None, backwards: bool) -> tuple:
    """The outputs of all steps, and the last states.

    A state is (1, N, size), or None for zeros; weights: w_ih, w_hh, b_ih, b_hh, of an LSTM also w_hr; see `layers`.
    """
    step = _STEPS[mode]
    w_ih, w_hh, b_ih, *inner = weights
    gates = linear(x, w_ih, b_ih)  # the input's part does not depend on the state: one product for all steps
    batch = x.shape[1] if sizes is None else max(sizes, default=0)
    widths = w_hh.shape[1], w_hh.shape[0] // GATES[mode]
    state = tuple(
        [
            zeros(batch, w, dtype=x.dtype, device=x.device) if s is None else s.squeeze(0)
            for s, w in zip(state, widths, strict=False)
        ]
    )
    parts = list(gates.unbind(0) if sizes is None else gates.split(list(sizes)))
    if sizes is None:
        outs = []
        for gx in reversed(parts) if backwards else parts:
            state = step(gx, state, w_hh, *inner)
            outs.append(state[0])
        return stack(outs[::-1] if backwards else outs), *[s.unsqueeze(0) for s in state]
    first, finished, outs = state, [], []
    live = sizes[-1] if backwards else sizes[0]
    state = tuple([s[:live] for s in first])
    for gx in reversed(parts) if backwards else parts:
        size = gx.shape[0]
        if size < live:  # the shortest sequences end
            finished.append([s[size:] for s in state])
            state = tuple([s[:size] for s in state])
        elif size > live:  # backwards, they begin
            state = tuple([cat((s, f[live:size])) for s, f in zip(state, first, strict=True)])
        live = size
        state = step(gx, state, w_hh, *inner)
        outs.append(state[0])
    pieces = [state, *finished[::-1]]
    return cat(outs[::-1] if backwards else outs), *[cat(part).unsqueeze(0) for part in zip(*pieces, strict=True)]


def _vjp(mode: str, g: tuple, x: Any, state: tuple, weights: tuple, sizes: Any, backwards: bool, needs: tuple) -> tuple:
    """The gradients of `_one_by_one` on Tensors."""
    count = 1 + len(state)

    def run(x: Any, *rest: Any) -> tuple:
        return _one_by_one(mode, x, rest[: count - 1], rest[count - 1 :], sizes, backwards)

    return vjp_of(run, (x, *state, *weights), g, needs)


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
    sizes: Any,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The backward of all steps of an LSTM, on Tensors."""
    return _vjp("LSTM", g, x, (h, c), (w_ih, w_hh, b_ih, b_hh, w_hr), sizes, backwards, needs)


LSTM = Op(
    "lstm_steps",
    lambda xp, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, /, sizes, backwards: xp.lstm_steps(
        x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, sizes, backwards
    ),
    vjp=lambda xp, g, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, out, gates, cells, hidden, sizes, backwards, needs: (
        xp.lstm_steps_vjp(g, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, out, gates, cells, hidden, sizes, backwards, needs)
    ),
    diff=("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr"),
    outputs=("out", "hn", "cn"),
    aux=("gates", "cells", "hidden"),
    weight=20.0,
)


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
    sizes: Any,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The backward of all steps of a GRU, on Tensors."""
    return _vjp("GRU", g, x, (h,), (w_ih, w_hh, b_ih, b_hh), sizes, backwards, needs)


GRU = Op(
    "gru_steps",
    lambda xp, x, h, w_ih, w_hh, b_ih, b_hh, /, sizes, backwards: xp.gru_steps(
        x, h, w_ih, w_hh, b_ih, b_hh, sizes, backwards
    ),
    vjp=lambda xp, g, x, h, w_ih, w_hh, b_ih, b_hh, out, gates, inner, sizes, backwards, needs: xp.gru_steps_vjp(
        g, x, h, w_ih, w_hh, b_ih, b_hh, out, gates, inner, sizes, backwards, needs
    ),
    diff=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    outputs=("out", "hn"),
    aux=("gates", "inner"),
    weight=15.0,
)


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
    sizes: Any,
    backwards: bool,
    needs: tuple,
) -> tuple:
    """The backward of all steps of a plain network, on Tensors."""
    return _vjp(mode, g, x, (h,), (w_ih, w_hh, b_ih, b_hh), sizes, backwards, needs)


RNN = Op(
    "rnn_steps",
    lambda xp, x, h, w_ih, w_hh, b_ih, b_hh, /, mode, sizes, backwards: xp.rnn_steps(
        x, h, w_ih, w_hh, b_ih, b_hh, mode, sizes, backwards
    ),
    vjp=lambda xp, g, x, h, w_ih, w_hh, b_ih, b_hh, out, mode, sizes, backwards, needs: xp.rnn_steps_vjp(
        g, x, h, w_ih, w_hh, b_ih, b_hh, out, mode, sizes, backwards, needs
    ),
    diff=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
    outputs=("out", "hn"),
    weight=10.0,
)


_REAL = dtypes.INEXACT - dtypes.COMPLEX


def _fits(mode: str, x: Any, lead: tuple, state: tuple, weights: tuple) -> bool:
    """Whether the operations take these: of one real dtype, of the shapes that they should have, and not empty.

    lead: the shape of a state but for its last size.
    """
    a, rows, wide = x._data, weights[0]._data.shape[0], weights[1]._data.shape[-1]
    dtype, hidden, biased = a.dtype, rows // GATES[mode], weights[2] is not None
    if dtype not in _REAL or 0 in a.shape or rows != hidden * GATES[mode] or biased != (weights[3] is not None):
        return False
    wanted = ((rows, a.shape[-1]), (rows, wide), (rows,), (rows,), (wide, hidden))
    for given, shapes in ((weights, wanted), (state, ((*lead, wide), (*lead, hidden)))):
        for t, shape in zip(given, shapes, strict=False):
            if t is not None:
                b = t._data
                if b.shape != shape or b.dtype is not dtype:
                    return False
    return wide == hidden or (len(weights) == 5 and weights[4] is not None)


def _direction(mode: str, x: Any, state: tuple, weights: tuple, sizes: Sequence[int] | None, backwards: bool) -> tuple:
    """`_one_by_one`, all steps at once where that can be."""
    shape = x._data.shape
    falling = sizes is None or (sum(sizes) == shape[0] and all(map(ge, sizes, (*sizes[1:], 1))))
    lead = (1, sizes[0] if sizes else shape[1])
    alone = ACTIVE and (
        current().level or asked() is not None
    )  # (under autocast only the products are in low precision)
    if alone or not falling or not _fits(mode, x, lead, state, weights):
        return _one_by_one(mode, x, state, weights, sizes, backwards)
    if mode == "LSTM":
        return apply(LSTM, (x, *state, *weights), (sizes, backwards))
    if mode == "GRU":
        return apply(GRU, (x, *state, *weights), (sizes, backwards))
    return apply(RNN, (x, *state, *weights), (mode, sizes, backwards))
