"""What RNN, LSTM and GRU share: the checks, the weights and the loop over layers and time."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ferro.core.casting import asked
from ferro.core.requirements import fixed
from ferro.ops.recurrent import layers
from ferro.ops.recurrent_steps import GATES
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module


class RNNBase(Module):
    """What RNN, LSTM and GRU share: layers, directions, their weights, and the loop over time.

    - `mode` (str): 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU', else ValueError
    - `input_size`, `hidden_size` (int): the sizes of x_t and h_t
    - `num_layers` (int, default 1): each layer reads the results of the one before
    - `bias` (bool, default True): False leaves b and c out
    - `batch_first` (bool, default False): x and the output are (N, L, size) instead of (L, N, size); the states are not
      affected
    - `dropout` (float, default 0.0): the probability of dropout between layers, in training
    - `bidirectional` (bool, default False): a second set of cells reads the sequence from its end; the output holds
      both
    - `proj_size` (int, default 0): the h_t of an LSTM is projected to this size; 0 does not
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: x (L, N, input_size), output (L, N, directions * hidden_size); see LSTM. All weights start uniform on (-k,
    k), k = 1 / sqrt(hidden_size).

    Example::

        >>> import ferro
        >>> isinstance(ferro.nn.GRU(10, 20), ferro.nn.RNNBase)
        True
    """

    def __init__(
        self,
        mode: str,
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
        super().__init__()
        _check_arguments(mode, input_size, hidden_size, num_layers, dropout, proj_size)
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                for name, shape in self._weight_shapes(layer).items():
                    setattr(self, name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))
        self.reset_parameters()

    @property
    def _out_size(self) -> int:
        return self.proj_size or self.hidden_size

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def _weight_shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The weights of one direction of a layer, in the order in which they are registered."""
        rows = GATES[self.mode] * self.hidden_size
        inputs = self.input_size if layer == 0 else self._out_size * self._directions
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, self._out_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each direction of each layer."""
        return [
            [getattr(self, name + suffix) for name in self._weight_shapes(layer)]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for own in self.all_weights for weight in own]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [
            name + suffix
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
            for name in self._weight_shapes(layer)
        ]

    def __getstate__(self) -> dict[str, Any]:
        """With the lists of weights that PyTorch's modules are pickled with, so that it can open these."""
        names = iter(self._flat_weights_names)
        lists = {
            "_all_weights": [[next(names) for _ in own] for own in self.all_weights],
            "_flat_weights": self._flat_weights,
            "_flat_weights_names": self._flat_weights_names,
        }
        return {**self.__dict__, **lists}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The weights are found by their names: lists of them would hold on to those that were replaced.
        lists = ("_all_weights", "_flat_weights", "_flat_weights_names")
        super().__setstate__({name: value for name, value in state.items() if name not in lists})

    def reset_parameters(self) -> None:
        """Draw all weights afresh."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: PyTorch lays the weights out for cuDNN here, and programs call it."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at all times, and the last state of every layer and direction.

        The input is a tensor, or a PackedSequence, whose outputs are one too.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        shape = input._data.shape
        batched = len(shape) == 3
        if not batched and len(shape) != 2:
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {len(shape)}D instead")
        self._check_input(input)
        if shape[0 if not batched else 1 if self.batch_first else 0] == 0:
            raise RuntimeError(
                f"Expected sequence length to be larger than 0 in RNN: {self._get_name()} got input of shape {list(shape)}"
            )
        if not batched:
            input = input.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        states = None if hx is None else self._checked_states(input.shape[1], hx, batched)
        out, last = self._run(input, states, None)
        if not batched:
            out = out.squeeze(1)
            last = tuple(state.squeeze(1) for state in last)
        elif self.batch_first:
            out = out.transpose(0, 1)
        return out, last if self.mode == "LSTM" else last[0]

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """As `forward`: states come and go in the order of the sequences before packing."""
        x, batch_sizes, order, back = packed
        if x.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {x.dim()}")
        self._check_input(x)
        sizes = fixed(batch_sizes._data)
        states = None if hx is None else self._checked_states(sizes[0], hx, True)
        if states is not None and order is not None:
            states = tuple(state.index_select(1, order) for state in states)
        out, last = self._run(x, states, sizes)
        if back is not None:
            last = tuple(state.index_select(1, back) for state in last)
        return PackedSequence(out, batch_sizes, order, back), last if self.mode == "LSTM" else last[0]

    def _check_input(self, input: Tensor) -> None:
        size = input._data.shape[-1]
        if size != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {size}")
        weight = self.weight_ih_l0
        if input._data.dtype is not weight._data.dtype and input.dtype != weight.dtype and asked() is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )

    def _checked_states(self, batch: int, hx: Any, batched: bool) -> tuple[Tensor, ...]:
        """The given states; each is (layers * directions, N, size)."""
        rows, lstm = self.num_layers * self._directions, self.mode == "LSTM"
        given = tuple(hx) if lstm else (hx,)
        dims = 3 if batched else 2
        if any(state.dim() != dims for state in given):
            found = ", ".join(f"{state.dim()}-D" for state in given)
            kind = f"For {'batched 3-D' if batched else 'unbatched 2-D'} input,"
            raise RuntimeError(
                f"{kind} hx and cx should also be {dims}-D but got ({found}) tensors"
                if lstm
                else f"{kind} hx should also be {dims}-D but got {found} tensor"
            )
        if not batched:
            given = tuple(state.unsqueeze(1) for state in given)
        sizes = (self._out_size, self.hidden_size) if lstm else (self._out_size,)
        for i, (state, size) in enumerate(zip(given, sizes, strict=True)):
            if tuple(state.shape) != (rows, batch, size):
                name = f"hidden[{i}]" if lstm else "hidden"
                raise RuntimeError(f"Expected {name} size {(rows, batch, size)}, got {list(state.shape)}")
        return given

    def _run(
        self, x: Tensor, states: tuple[Tensor, ...] | None, sizes: list[int] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """All layers over x of shape (L, N, I), or packed by `sizes`; states None for zeros."""
        dropout = self.dropout if self.training else 0.0
        return layers(self.mode, x, sizes, states, self.all_weights, self.bias, dropout, self.bidirectional)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size != 0:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if self.batch_first is not False:
            parts.append(f"batch_first={self.batch_first}")
        if self.dropout != 0:
            parts.append(f"dropout={self.dropout}")
        if self.bidirectional is not False:
            parts.append(f"bidirectional={self.bidirectional}")
        return ", ".join(parts)


def _check_arguments(
    mode: str, input_size: Any, hidden_size: Any, num_layers: int, dropout: Any, proj_size: int
) -> None:
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}; allowed: {list(GATES)}")
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
            f"got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    if not isinstance(input_size, int):
        raise TypeError(f"input_size should be of type int, got: {type(input_size).__name__}")
    if input_size <= 0:
        raise ValueError(f"input_size must be greater than zero, got {input_size}")
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError(f"hidden_size must be greater than zero, got {hidden_size}")
    if num_layers <= 0:
        raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
    if proj_size < 0:
        raise ValueError(f"proj_size should be a positive integer or zero to disable projections, got {proj_size}")
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size has to be smaller than hidden_size, got {proj_size} and {hidden_size}")
