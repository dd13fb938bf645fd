"""Recurrent networks over whole sequences: RNN, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.casting import asked, in_low_precision
from ferro.core.requirements import fixed
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.dropout import dropout as _dropout
from ferro.ops.joining import cat
from ferro.ops.recurrent_cells import _weights
from ferro.ops.recurrent_steps import _direction

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]


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
        sizes = fixed(batch_sizes._data)
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
declare(
    "rnn_relu",
    [Sample(Arg(3, 2, 4), Arg(2, 2, 2), _weights(1, 4, 2, 1) + _weights(1, 2, 2, 1), True, 2, 0.0, True, False, False)],
)
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
