"""Single steps of recurrent layers: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any

from ferro.ops.recurrent_cells import cell
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import init
from ..parameter import Parameter
from .module import Module

_CELL_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class RNNCellBase(Module):
    """What the cells of RNN, LSTM and GRU share: weights for the input and the state, and the checks of their sizes.

    - `input_size`, `hidden_size` (int): the sizes of x and h
    - `bias` (bool): False leaves the biases out
    - `num_chunks` (int): the number of gates; the weights have num_chunks * hidden_size rows
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, input_size) or (input_size), the state (N, hidden_size) or (hidden_size).

    Example::

        >>> import ferro
        >>> ferro.nn.GRUCell(10, 20).weight_hh.shape
        ferro.Size([60, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights afresh, uniform on (-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step for input of shape (N, I) or (I,); without a state, from zeros."""
        shape = input._data.shape
        if len(shape) not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {len(shape)}D instead")
        if shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {shape[-1]} expected {self.input_size}")
        own = self._parameters  # asked first, it spares the way through __getattr__
        weights = [own[name] if name in own else getattr(self, name) for name in _CELL_WEIGHTS]
        return cell(type(self).__name__, mode, input, state, *weights)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """One step of an RNN: h' = tanh(W x + b + U h + c), or relu for nonlinearity="relu".

    - `input_size`, `hidden_size` (int): the sizes of x and h
    - `bias` (bool, default True): False leaves b and c out
    - `nonlinearity` (str, default 'tanh'): 'tanh' or 'relu', else RuntimeError at the first call
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `h = cell(x, h)`; zeros if the state is left out. Shapes: x (N, input_size) or (input_size), h (N,
    hidden_size) or (hidden_size). Weights and biases start uniform on (-k, k), k = 1 / sqrt(hidden_size). RuntimeError
    for sizes that do not fit.

    Example::

        >>> import ferro
        >>> cell = ferro.nn.RNNCell(10, 20)
        >>> h = cell(ferro.zeros(3, 10))
        >>> cell(ferro.ones(3, 10), h).shape
        ferro.Size([3, 20])
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        mode = "RNN_TANH" if self.nonlinearity == "tanh" else "RNN_RELU"
        return self._step(mode, input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of an LSTM, with the formulas that stand at LSTM; the state is the pair (h, c).

    - `input_size`, `hidden_size` (int): the sizes of x and h
    - `bias` (bool, default True): False leaves b and c out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `h, c = cell(x, (h, c))`; zeros if the state is left out. Shapes: x (N, input_size) or (input_size), h and
    c (N, hidden_size) or (hidden_size). Weights and biases start uniform on (-k, k), k = 1 / sqrt(hidden_size).
    RuntimeError for sizes that do not fit.

    Example::

        >>> import ferro
        >>> cell = ferro.nn.LSTMCell(10, 20)
        >>> h, c = cell(ferro.zeros(3, 10))
        >>> h, c = cell(ferro.ones(3, 10), (h, c))
        >>> h.shape
        ferro.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        return self._step("LSTM", input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU, with the formulas that stand at GRU.

    - `input_size`, `hidden_size` (int): the sizes of x and h
    - `bias` (bool, default True): False leaves b and c out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `h = cell(x, h)`; zeros if the state is left out. Shapes: x (N, input_size) or (input_size), h (N,
    hidden_size) or (hidden_size). Weights and biases start uniform on (-k, k), k = 1 / sqrt(hidden_size). RuntimeError
    for sizes that do not fit.

    Example::

        >>> import ferro
        >>> cell = ferro.nn.GRUCell(10, 20)
        >>> h = cell(ferro.zeros(3, 10))
        >>> cell(ferro.ones(3, 10), h).shape
        ferro.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
