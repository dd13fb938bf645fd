"""Recurrent networks as functions: RNN, LSTM and GRU over whole sequences, and one step of each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.casting import asked, in_low_precision
from ferro.core.composed import vjp_of
from ferro.core.mode import ACTIVE, current
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import relu
from ferro.ops.creation import zeros
from ferro.ops.dropout import dropout as _dropout
from ferro.ops.joining import cat, stack
from ferro.ops.linear import linear

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


# -- one step, from the gates of the input -----------------------------------------------------------------------------


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
        [zeros(batch, w, dtype=x.dtype) if s is None else s.squeeze(0) for s, w in zip(state, widths, strict=False)]
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


# -- whole sequences ---------------------------------------------------------------------------------------------------


def layers(
    mode: str,
    x: Tensor,
    sizes: Sequence[int] | None,
    states: tuple | None,
    weights: Sequence[Sequence],
    biased: bool,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, tuple]:
    """All layers over x of shape (L, N, I), or over packed x whose step t has the first sizes[t] sequences.

    states: each (layers * directions, N, size), None for zeros; weights: of each direction of each layer w_ih, w_hh, b_ih
    and b_hh if `biased`, w_hr if it projects; dropout: between layers.  Returns the outputs of the last layer and the last
    states.
    """
    if (
        asked() is not None
        and mode == "LSTM"
        and sizes is None
        and x._data.dtype == np.float32
        and len(weights[0]) in (2, 4)
    ):
        lowered = in_low_precision(layers)  # as PyTorch, whose oneDNN takes just these
        return lowered(mode, x, sizes, states, weights, biased, dropout, bidirectional)
    directions = 2 if bidirectional else 1
    if states is None:
        begun: Any = [[None] * len(weights)] * (2 if mode == "LSTM" else 1)
    else:
        begun = [[s] for s in states] if len(weights) == 1 else [s.split(1) for s in states]
    last, outs = [], []
    for row, own in enumerate(weights):
        if row % directions == 0:
            if row and dropout > 0:
                x = _dropout(x, dropout)
            outs = []
        found, *ends = _direction(
            mode, x, tuple([s[row] for s in begun]), _ordered(mode, own, biased), sizes, row % directions == 1
        )
        outs.append(found)
        last.append(ends)
        if row % directions == directions - 1:
            x = outs[0] if directions == 1 else cat(outs, -1)
    return x, tuple(last[0] if len(last) == 1 else [cat(parts) for parts in zip(*last, strict=True)])


def _ordered(mode: str, own: Sequence, biased: bool) -> tuple:
    """The weights of one direction as the operations take them: None for absent biases, and for an absent projection."""
    biases, rest = (own[2:4], own[4:]) if biased else ((None, None), own[2:])
    return (*own[:2], *biases, *(rest or (None,) if mode == "LSTM" else ()))


def _run(name: str, mode: str, arguments: tuple) -> tuple:
    """The two forms of the public functions: padded sequences, and packed ones (whose third argument is the state)."""
    second, third = arguments[1], arguments[2]
    packed = isinstance(second, TensorBase) if mode == "LSTM" else isinstance(third, TensorBase)
    if packed:
        x, batch_sizes, hx, params, biased, count, dropout, train, bidirectional = arguments
        sizes = [int(b) for b in batch_sizes.tolist()]
        batch_first = False
    else:
        x, hx, params, biased, count, dropout, train, bidirectional, batch_first = arguments
        sizes = None
    need_tensor(name, "input", x)
    states = tuple(hx) if mode == "LSTM" else (hx,)
    directions = count * (2 if bidirectional else 1)
    if directions < 1:
        raise ValueError(f"{name}: num_layers must be greater than zero, but got {count}")
    if len(params) % directions or len(params) // directions not in ((4, 5) if biased else (2, 3)):
        raise RuntimeError(
            f"{name}: expected {directions} times {'4 (or 5' if biased else '2 (or 3'} with projection) weights, for "
            f"num_layers={count}, bidirectional={bidirectional} and has_biases={biased}, got {len(params)}"
        )
    each = len(params) // directions
    weights = [params[i : i + each] for i in range(0, len(params), each)]
    if x._data.ndim != (2 if packed else 3):
        raise RuntimeError(
            f"{name}: input must have {2 if packed else 3} dimensions, got {x._data.ndim} (shape {list(x._data.shape)})"
        )
    if batch_first:
        x = x.transpose(0, 1)
    batch = sizes[0] if sizes else x._data.shape[1] if not packed else 0
    for label, state in zip(("hx", "cx"), states, strict=False):
        if need_tensor(name, label, state)._data.shape[:2] != (directions, batch):
            raise RuntimeError(
                f"{name}: expected {label} of shape ({directions}, {batch}, hidden size), got {list(state._data.shape)}"
            )
    out, last = layers(
        mode, x, sizes, states, weights, bool(biased), float(dropout) if train else 0.0, bool(bidirectional)
    )
    return (out.transpose(0, 1) if batch_first else out, *last)


def rnn_tanh(
    input: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> tuple:
    """h_t = tanh(W x_t + b + U h_{t-1} + c) over sequences: (the outputs of the last layer, the last states).

    - `input` (Tensor): x, (L, N, I), or (N, L, I) with `batch_first`; of packed sequences (data) with `batch_sizes` as
      the next argument
    - `hx` (Tensor): the first states, (layers * directions, N, H)
    - `params` (sequence of Tensors): w_ih, w_hh, and with `has_biases` b_ih, b_hh, for each direction of each layer
    - `has_biases` (bool): whether there are b and c
    - `num_layers` (int): each takes the outputs of the one before
    - `dropout` (float): between layers, in training
    - `train` (bool): whether there is dropout
    - `bidirectional` (bool): a second set of weights reads each sequence from its end
    - `batch_first` (bool): whether N comes before L; not given for packed sequences

    The outputs are (L, N, directions H). RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h = ferro.ones(3, 1, 2), ferro.zeros(1, 1, 2)
        >>> params = [ferro.eye(2), ferro.zeros(2, 2)]
        >>> y, last = ferro.rnn_tanh(x, h, params, False, 1, 0.0, False, False, False)
        >>> y.shape, last.shape
        (ferro.Size([3, 1, 2]), ferro.Size([1, 1, 2]))
    """
    return _run(
        "rnn_tanh", "RNN_TANH", (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    )


def rnn_relu(
    input: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> tuple:
    """h_t = relu(W x_t + b + U h_{t-1} + c) over sequences: (the outputs of the last layer, the last states).

    - `input` (Tensor): x, (L, N, I), or (N, L, I) with `batch_first`; of packed sequences (data) with `batch_sizes` as
      the next argument
    - `hx` (Tensor): the first states, (layers * directions, N, H)
    - `params` (sequence of Tensors): w_ih, w_hh, and with `has_biases` b_ih, b_hh, for each direction of each layer
    - `has_biases` (bool): whether there are b and c
    - `num_layers` (int): each takes the outputs of the one before
    - `dropout` (float): between layers, in training
    - `train` (bool): whether there is dropout
    - `bidirectional` (bool): a second set of weights reads each sequence from its end
    - `batch_first` (bool): whether N comes before L; not given for packed sequences

    The outputs are (L, N, directions H). RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h = ferro.ones(3, 1, 2), ferro.zeros(1, 1, 2)
        >>> params = [ferro.eye(2), ferro.zeros(2, 2)]
        >>> y, last = ferro.rnn_relu(x, h, params, False, 1, 0.0, False, False, False)
        >>> y.shape, last.shape
        (ferro.Size([3, 1, 2]), ferro.Size([1, 1, 2]))
    """
    return _run(
        "rnn_relu", "RNN_RELU", (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    )


def gru(
    input: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> tuple:
    """The gated recurrent unit over sequences: (the outputs of the last layer, the last states).

    - `input` (Tensor): x, (L, N, I), or (N, L, I) with `batch_first`; of packed sequences (data) with `batch_sizes` as
      the next argument
    - `hx` (Tensor): the first states, (layers * directions, N, H)
    - `params` (sequence of Tensors): w_ih (3 H, I), w_hh (3 H, H), and with `has_biases` b_ih, b_hh (3 H), for each
      direction of each layer
    - `has_biases` (bool): whether there are biases
    - `num_layers` (int): each takes the outputs of the one before
    - `dropout` (float): between layers, in training
    - `train` (bool): whether there is dropout
    - `bidirectional` (bool): a second set of weights reads each sequence from its end
    - `batch_first` (bool): whether N comes before L; not given for packed sequences

    The outputs are (L, N, directions H). RuntimeError for shapes that do not fit. Source: Cho et al., Learning Phrase
    Representations using RNN Encoder-Decoder, 2014.

    Example::

        >>> import ferro
        >>> x, h = ferro.ones(3, 1, 2), ferro.zeros(1, 1, 2)
        >>> y, last = ferro.gru(x, h, [ferro.ones(6, 2), ferro.ones(6, 2)], False, 1, 0.0, False, False, False)
        >>> y.shape, last.shape
        (ferro.Size([3, 1, 2]), ferro.Size([1, 1, 2]))
    """
    return _run("gru", "GRU", (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first))


def lstm(
    input: Any,
    hx: Any,
    params: Any,
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> tuple:
    """The long short-term memory over sequences: (the outputs of the last layer, the last hidden state, the last cell).

    - `input` (Tensor): x, (L, N, I), or (N, L, I) with `batch_first`; of packed sequences (data) with `batch_sizes` as
      the next argument
    - `hx` (pair of Tensors): the first states and cells, (layers * directions, N, H) each
    - `params` (sequence of Tensors): w_ih (4 H, I), w_hh (4 H, H), with `has_biases` b_ih, b_hh (4 H), and perhaps a
      projection of the hidden state, for each direction of each layer
    - `has_biases` (bool): whether there are biases
    - `num_layers` (int): each takes the outputs of the one before
    - `dropout` (float): between layers, in training
    - `train` (bool): whether there is dropout
    - `bidirectional` (bool): a second set of weights reads each sequence from its end
    - `batch_first` (bool): whether N comes before L; not given for packed sequences

    The outputs are (L, N, directions H). RuntimeError for shapes that do not fit. Source: Hochreiter and Schmidhuber,
    Long Short-Term Memory, 1997.

    Example::

        >>> import ferro
        >>> x, h = ferro.ones(3, 1, 2), ferro.zeros(1, 1, 2)
        >>> params = [ferro.ones(8, 2), ferro.ones(8, 2)]
        >>> y, last, cell = ferro.lstm(x, (h, h), params, False, 1, 0.0, False, False, False)
        >>> y.shape, last.shape, cell.shape
        (ferro.Size([3, 1, 2]), ferro.Size([1, 1, 2]), ferro.Size([1, 1, 2]))
    """
    return _run("lstm", "LSTM", (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first))


# -- cells -------------------------------------------------------------------------------------------------------------


def lstm_one_vjp(
    g: tuple, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, cell: Any, gates: Any, needs: tuple
) -> tuple:
    """The backward of one step of an LSTM, on Tensors."""

    def run(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
        return _lstm_step(linear(x, w_ih, b_ih), (h, c), w_hh, b_hh)

    return vjp_of(run, (x, h, c, w_ih, w_hh, b_ih, b_hh), g, needs)


def gru_one_vjp(
    g: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: Any, inner: Any, needs: tuple
) -> tuple:
    """The backward of one step of a GRU, on Tensors."""

    def run(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
        return _gru_step(linear(x, w_ih, b_ih), (h,), w_hh, b_hh)

    return vjp_of(run, (x, h, w_ih, w_hh, b_ih, b_hh), (g,), needs)


_CELLS = {
    "LSTM": Op(
        "lstm_one",
        lambda xp, x, h, c, w_ih, w_hh, b_ih, b_hh: xp.lstm_one(x, h, c, w_ih, w_hh, b_ih, b_hh),
        vjp=lambda xp, g, x, h, c, w_ih, w_hh, b_ih, b_hh, cell, gates, needs: xp.lstm_one_vjp(
            g, x, h, c, w_ih, w_hh, b_ih, b_hh, cell, gates, needs
        ),
        diff=("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh"),
        outputs=("new", "cell"),
        aux=("gates",),
        weight=20.0,
    ),
    "GRU": Op(
        "gru_one",
        lambda xp, x, h, w_ih, w_hh, b_ih, b_hh: xp.gru_one(x, h, w_ih, w_hh, b_ih, b_hh),
        vjp=lambda xp, g, x, h, w_ih, w_hh, b_ih, b_hh, gates, inner, needs: xp.gru_one_vjp(
            g, x, h, w_ih, w_hh, b_ih, b_hh, gates, inner, needs
        ),
        diff=("x", "h", "w_ih", "w_hh", "b_ih", "b_hh"),
        aux=("gates", "inner"),
        weight=15.0,
    ),
}


def cell(name: str, mode: str, input: Any, state: tuple | None, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple:
    """One step for input of shape (N, I) or (I), from zeros without a state; sizes checked."""
    weights = w_ih, w_hh, b_ih, b_hh
    try:
        shape = input._data.shape
        fits = (
            state is not None
            and len(shape) == 2
            and w_hh._data.size > 0
            and _fits(mode, input, shape[:1], state, weights)
        )
    except AttributeError:  # which _check puts in words
        fits = False
    if not fits:
        shape = _check(name, mode, input, state or (), w_ih, w_hh)
        if state is None:
            state = tuple([zeros(shape, dtype=input.dtype) for _ in range(2 if mode == "LSTM" else 1)])
            return cell(name, mode, input, state, *weights)
    elif mode in _CELLS and not (ACTIVE and current().level):
        found = apply(_CELLS[mode], (input, *state, *weights))
        return found if mode == "LSTM" else (found,)
    return _STEPS[mode](linear(input, w_ih, b_ih), state, w_hh, b_hh)


def _unfit_state(name: str, mode: str, i: int, have: tuple, want: tuple) -> Exception:
    """The error for a state of another shape than wanted."""
    shown = f"hidden state {i} has shape {list(have)}, expected {list(want)}"
    if len(have) not in (1, 2):
        what = f"hx[{i}]" if mode == "LSTM" else "hidden"
        return ValueError(f"{name}: Expected {what} to be 1D or 2D, got {len(have)}D instead: {shown}")
    if have[-1] != want[-1]:
        return RuntimeError(
            f"{name}: hidden{i} has inconsistent hidden_size: got {have[-1]}, expected {want[-1]}: {shown}"
        )
    if len(have) == len(want) == 2:
        return RuntimeError(f"{name}: Input batch size {want[0]} doesn't match hidden{i} batch size {have[0]}: {shown}")
    return RuntimeError(f"{name}: {shown}")


def _check(name: str, mode: str, input: Any, state: tuple, w_ih: Any, w_hh: Any) -> tuple:
    """The shape of a state, which must be that of those given."""
    x, wi, wh = [need_tensor(name, label, t)._data for label, t in (("input", input), ("w_ih", w_ih), ("w_hh", w_hh))]
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected input to be 1D or 2D, got {x.ndim}D instead")
    if x.shape[-1] != wi.shape[1]:
        raise RuntimeError(f"{name}: input has inconsistent input_size: got {x.shape[-1]} expected {wi.shape[1]}")
    shape = (*x.shape[:-1], wh.shape[1])
    for i, part in enumerate(state):
        if need_tensor(name, "hx", part)._data.shape != shape:
            raise _unfit_state(name, mode, i, part._data.shape, shape)
    if wi.shape[0] != GATES[mode] * wh.shape[1] or wh.shape[0] != wi.shape[0]:
        raise RuntimeError(
            f"{name}: expected {GATES[mode]} blocks of {wh.shape[1]} rows in w_ih and w_hh, got shapes "
            f"{list(wi.shape)} and {list(wh.shape)}"
        )
    return shape


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `rnn_tanh`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `rnn_tanh`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(2, 2)
        >>> ferro.rnn_tanh_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("rnn_tanh_cell", "RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `rnn_relu`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `rnn_relu`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(2, 2)
        >>> ferro.rnn_relu_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("rnn_relu_cell", "RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of `gru`: the new states, (N, H).

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (Tensor): the states, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): as in `gru`
    - `b_ih`, `b_hh` (Tensor, default None): as there

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(6, 2)
        >>> ferro.gru_cell(x, h, w, w)
        tensor([[0., 0.]])
    """
    return cell("gru_cell", "GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple:
    """One step of `lstm`: the new states and cells, (N, H) each.

    - `input` (Tensor): x, (N, I) or (I)
    - `hx` (pair of Tensors): the states and the cells, (N, H) or (H)
    - `w_ih`, `w_hh` (Tensor): (4 H, I) and (4 H, H)
    - `b_ih`, `b_hh` (Tensor, default None): (4 H)

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x, h, w = ferro.zeros(1, 2), ferro.zeros(1, 2), ferro.ones(8, 2)
        >>> ferro.lstm_cell(x, (h, h), w, w)
        (tensor([[0., 0.]]), tensor([[0., 0.]]))
    """
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError("lstm_cell: expected two hidden states, hx = (h, c)")
    return cell("lstm_cell", "LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def _weights(blocks: int, inputs: int, hidden: int, rows: int, biased: bool = True) -> list:
    """The weights of `rows` directions of one layer."""
    shapes = [(blocks * hidden, inputs), (blocks * hidden, hidden), *[(blocks * hidden,)] * (2 if biased else 0)]
    return [Arg(*s, low=-1, high=1) for _ in range(rows) for s in shapes]


_packed: Any = Arg(values=[2, 2, 1], dtype="int64")
for _name, _blocks in (("rnn_tanh", 1), ("gru", 3)):
    declare(
        _name,
        [
            Sample(Arg(3, 2, 4), Arg(1, 2, 2), _weights(_blocks, 4, 2, 1), True, 1, 0.0, True, False, False),
            Sample(Arg(2, 3, 4), Arg(2, 2, 2), _weights(_blocks, 4, 2, 2, False), False, 1, 0.0, False, True, True),
            Sample(Arg(5, 4), _packed, Arg(2, 2, 2), _weights(_blocks, 4, 2, 2), True, 1, 0.0, False, True),
        ],
    )
    declare(f"{_name}_cell", [Sample(Arg(3, 4), Arg(3, 2), *_weights(_blocks, 4, 2, 1))])
declare(
    "rnn_relu",
    [Sample(Arg(3, 2, 4), Arg(2, 2, 2), _weights(1, 4, 2, 1) + _weights(1, 2, 2, 1), True, 2, 0.0, True, False, False)],
)
declare("rnn_relu_cell", [Sample(Arg(3, 4), Arg(3, 2), *_weights(1, 4, 2, 1))])
declare(
    "lstm",
    [
        Sample(
            Arg(3, 2, 4),
            (Arg(2, 2, 2), Arg(2, 2, 2)),
            _weights(4, 4, 2, 1) + _weights(4, 2, 2, 1),
            True,
            2,
            0.0,
            True,
            False,
            False,
        ),
        Sample(
            Arg(3, 2, 4),
            (Arg(1, 2, 1), Arg(1, 2, 2)),
            [Arg(8, 4), Arg(8, 1), Arg(1, 2)],
            False,
            1,
            0.0,
            True,
            False,
            False,
        ),
        Sample(Arg(5, 4), _packed, (Arg(2, 2, 2), Arg(2, 2, 2)), _weights(4, 4, 2, 2), True, 1, 0.0, False, True),
    ],
)
declare("lstm_cell", [Sample(Arg(3, 4), (Arg(3, 2), Arg(3, 2)), *_weights(4, 4, 2, 1))])
