"""Recurrent layers over whole sequences; rnn_cells.py has their single steps."""

from __future__ import annotations

from typing import Any

from .rnn_base import RNNBase
from .rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase  # noqa: F401 (where PyTorch has them)


class RNN(RNNBase):
    """h_t = tanh(W x_t + b + U h_{t-1} + c), or relu for nonlinearity="relu".

    - `input_size`, `hidden_size` (int): the sizes of x_t and h_t
    - `num_layers` (int, default 1): each layer reads the results of the one before
    - `nonlinearity` (str, default 'tanh'): 'tanh' or 'relu', else ValueError
    - `bias` (bool, default True): False leaves b and c out
    - `batch_first` (bool, default False): x and the output are (N, L, size) instead of (L, N, size); the states are not
      affected
    - `dropout` (float, default 0.0): the probability of dropout between layers, in training
    - `bidirectional` (bool, default False): a second set of cells reads the sequence from its end; the output holds
      both
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `proj_size` (default None): only for LSTM; anything but None is a ValueError

    Called as `output, h = rnn(x, h0)`. Shapes: x (L, N, input_size), or (L, input_size) for one sequence, or a
    `PackedSequence`; output (L, N, directions * hidden_size), the h_t of the last layer; h and h0 (num_layers *
    directions, N, hidden_size), zeros if left out. Weights and biases start uniform on (-k, k), k = 1 /
    sqrt(hidden_size). ValueError or TypeError for sizes that are not positive integers, RuntimeError for an input or
    state that does not fit. Source: Elman, Finding Structure in Time, 1990.

    Example::

        >>> import ferro
        >>> output, h = ferro.nn.RNN(10, 20)(ferro.zeros(5, 3, 10))
        >>> output.shape, h.shape
        (ferro.Size([5, 3, 20]), ferro.Size([1, 3, 20]))
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: None = None,
    ) -> None:
        if proj_size is not None:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = "RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU"
        options = num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__(mode, input_size, hidden_size, *options)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """The long short-term memory: an LSTM cell in each layer, from step to step.

    i, f, o = sigmoid(...), g = tanh(...), all of W x_t + b + U h_{t-1} + c; then c_t = f c_{t-1} + i g and h_t = o tanh
    c_t.

    - `input_size`, `hidden_size` (int): the sizes of x_t and h_t
    - `num_layers` (int, default 1): each layer reads the results of the one before
    - `bias` (bool, default True): False leaves b and c out
    - `batch_first` (bool, default False): x and the output are (N, L, size) instead of (L, N, size); the states are not
      affected
    - `dropout` (float, default 0.0): the probability of dropout between layers, in training
    - `bidirectional` (bool, default False): a second set of cells reads the sequence from its end; the output holds
      both
    - `proj_size` (int, default 0): h_t is projected to this size, less than hidden_size; 0 does not
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `output, (h, c) = lstm(x, (h0, c0))`. Shapes: x (L, N, input_size), or (L, input_size) for one sequence,
    or a `PackedSequence`; output (L, N, directions * hidden_size), the h_t of the last layer; h, c, h0 and c0 are
    (num_layers * directions, N, hidden_size), zeros if left out. Weights and biases start uniform on (-k, k), k = 1 /
    sqrt(hidden_size). ValueError or TypeError for sizes that are not positive integers, RuntimeError for an input or
    state that does not fit. Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.

    Example::

        >>> import ferro
        >>> lstm = ferro.nn.LSTM(10, 20, num_layers=2, batch_first=True)
        >>> output, (h, c) = lstm(ferro.zeros(3, 5, 10))
        >>> output.shape, h.shape, c.shape
        (ferro.Size([3, 5, 20]), ferro.Size([2, 3, 20]), ferro.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        super().__init__("LSTM", input_size, hidden_size, *options)


class GRU(RNNBase):
    """The gated recurrent unit: as LSTM, with two gates and without a second state.

    r, z = sigmoid(W x_t + b + U h_{t-1} + c), n = tanh(W x_t + b + r (U h_{t-1} + c)); then h_t = (1 - z) n + z
    h_{t-1}.

    - `input_size`, `hidden_size` (int): the sizes of x_t and h_t
    - `num_layers` (int, default 1): each layer reads the results of the one before
    - `bias` (bool, default True): False leaves b and c out
    - `batch_first` (bool, default False): x and the output are (N, L, size) instead of (L, N, size); the states are not
      affected
    - `dropout` (float, default 0.0): the probability of dropout between layers, in training
    - `bidirectional` (bool, default False): a second set of cells reads the sequence from its end; the output holds
      both
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype
    - `proj_size` (default None): only for LSTM; anything but None is a ValueError

    Called as `output, h = gru(x, h0)`. Shapes: x (L, N, input_size), or (L, input_size) for one sequence, or a
    `PackedSequence`; output (L, N, directions * hidden_size), the h_t of the last layer; h and h0 (num_layers *
    directions, N, hidden_size), zeros if left out. Weights and biases start uniform on (-k, k), k = 1 /
    sqrt(hidden_size). ValueError or TypeError for sizes that are not positive integers, RuntimeError for an input or
    state that does not fit. Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for
    Statistical Machine Translation, 2014.

    Example::

        >>> import ferro
        >>> output, h = ferro.nn.GRU(10, 20, bidirectional=True)(ferro.zeros(5, 3, 10))
        >>> output.shape, h.shape
        (ferro.Size([5, 3, 40]), ferro.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        proj_size: None = None,
    ) -> None:
        if proj_size is not None:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        options = num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__("GRU", input_size, hidden_size, *options)
