"""Linear and convolution layers that take the sizes of their input from the first one; norms stand in lazy_norms.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ferro.tensor import Tensor

from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .lazy import LazyModuleMixin
from .linear import Linear
from .module import Module


class _LazyLayer(LazyModuleMixin):
    """What lazy layers share: made with 0 inputs, they take the shapes of `_shapes()` once the number is known."""

    _inputs: str  # the attribute of the layer that holds its number of inputs
    _shapes: Callable[[], dict[str, tuple[int, ...]]]

    def _inputs_of(self, input: Tensor) -> int:
        """The number of inputs that `input` tells."""
        raise NotImplementedError(f"_inputs_of is not implemented for {type(self).__name__}")

    def reset_parameters(self) -> None:
        """Draw the parameters afresh, once there are any."""
        if not self.has_uninitialized_params() and getattr(self, self._inputs) != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of inputs from the input, and the shapes from it, unless they came from a state_dict."""
        setattr(self, self._inputs, self._inputs_of(input))
        if not self.has_uninitialized_params():
            return
        for name, shape in self._shapes().items():
            tensor = getattr(self, name)
            if tensor is not None:
                tensor.materialize(shape)
        self.reset_parameters()


def _lazily(layer: type[Module]) -> Callable[..., None]:
    """A lazy layer's constructor: that of `layer`, defaults included, without its first argument, the number of inputs."""
    signature = inspect.signature(layer.__init__)
    first, _, *rest = signature.parameters.values()
    signature = signature.replace(parameters=[first, *rest])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        LazyModuleMixin.__init__(self, 0, *given.args[1:], **given.kwargs)
        for name in self._shapes():
            tensor = getattr(self, name)
            if tensor is not None:
                unshaped = UninitializedParameter if isinstance(tensor, Parameter) else UninitializedBuffer
                setattr(self, name, unshaped(device=tensor.device, dtype=tensor.dtype))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


class LazyLinear(_LazyLayer, Linear):
    """A Linear that takes in_features from the first input.

    - `out_features` (int): the size of the last dimension of the result
    - `bias` (bool, default True): False adds nothing
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (..., in_features), the result (..., out_features). Until the first call `weight` and `bias`
    are `UninitializedParameter`, without a shape; then the layer becomes a Linear. Make the optimiser after that call.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyLinear(2)
        >>> layer(ferro.zeros(5, 3)).shape
        ferro.Size([5, 2])
        >>> layer
        Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear
    _inputs = "in_features"
    __init__ = _lazily(Linear)

    def _inputs_of(self, input: Tensor) -> int:
        number = input.shape[-1]
        if not self.has_uninitialized_params() and number != self.weight.shape[-1]:
            raise AssertionError(
                f"The in_features inferred from input: {number} is not equal to in_features from self.weight: "
                f"{self.weight.shape[-1]}"
            )
        return number


class _LazyConv(_LazyLayer):
    """What lazy convolutions share: in_channels comes from the first input."""

    _inputs = "in_channels"
    kernel_size: tuple[int, ...]
    groups: int

    def _inputs_of(self, input: Tensor) -> int:
        unbatched = len(self.kernel_size) + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        number = input.shape[-unbatched]
        if number % self.groups != 0:
            raise ValueError(
                "in_channels must be divisible by groups, "
                f"got in_channels={number} from the input and groups={self.groups}"
            )
        return number


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int): the size of the windows
    - `stride` (int, default 1): how far apart the windows are
    - `padding` (int or str, default 0): elements added on each side, 'valid' (none), or 'same' (the result is as large
      as the input; stride 1 only)
    - `dilation` (int, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, L), the result (N, out_channels, L'), with the sizes that Conv1d gives. Until
    the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then the layer becomes a Conv1d.
    Make the optimiser after that call. RuntimeError for an input of other dimensions, and where the weights are read
    too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConv1d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 50)).shape
        ferro.Size([2, 8, 48])
        >>> layer.in_channels
        4
    """

    cls_to_become = Conv1d
    __init__ = _lazily(Conv1d)


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default 1): how far apart the windows are
    - `padding` (int or pair or str, default 0): rows and columns added on each side, 'valid' (none), or 'same' (the
      result is as large as the input; stride 1 only)
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, H, W), the result (N, out_channels, H', W'), with the sizes that Conv2d gives.
    Until the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then the layer becomes a
    Conv2d. Make the optimiser after that call. RuntimeError for an input of other dimensions, and where the weights are
    read too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConv2d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 32, 32)).shape
        ferro.Size([2, 8, 30, 30])
        >>> layer.in_channels
        4
    """

    cls_to_become = Conv2d
    __init__ = _lazily(Conv2d)


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default 1): how far apart the windows are
    - `padding` (int or triple or str, default 0): layers, rows and columns added on each side, 'valid' (none), or
      'same' (the result is as large as the input; stride 1 only)
    - `dilation` (int or triple, default 1): how far apart the elements of a window are
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `padding_mode` (str, default 'zeros'): 'zeros', 'reflect', 'replicate' or 'circular'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, D, H, W), the result (N, out_channels, D', H', W'), with the sizes that Conv3d
    gives. Until the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then the layer
    becomes a Conv3d. Make the optimiser after that call. RuntimeError for an input of other dimensions, and where the
    weights are read too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConv3d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 8, 16, 16)).shape
        ferro.Size([2, 8, 6, 14, 14])
        >>> layer.in_channels
        4
    """

    cls_to_become = Conv3d
    __init__ = _lazily(Conv3d)


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """ConvTranspose1d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int): the size of the windows
    - `stride` (int, default 1): how far apart the windows are in the result
    - `padding` (int, default 0): elements cut off on each side of the result
    - `output_padding` (int, default 0): elements added at the end of the result, since a stride leaves its size open;
      less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, L), the result (N, out_channels, L'), with the sizes that ConvTranspose1d
    gives. Until the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then the layer
    becomes a ConvTranspose1d. Make the optimiser after that call. RuntimeError for an input of other dimensions, and
    where the weights are read too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConvTranspose1d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 50)).shape
        ferro.Size([2, 8, 52])
        >>> layer.in_channels
        4
    """

    cls_to_become = ConvTranspose1d
    __init__ = _lazily(ConvTranspose1d)


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """ConvTranspose2d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int or pair): the size of the windows
    - `stride` (int or pair, default 1): how far apart the windows are in the result
    - `padding` (int or pair, default 0): rows and columns cut off on each side of the result
    - `output_padding` (int or pair, default 0): rows and columns added at the end of the result, since a stride leaves
      its size open; less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, H, W), the result (N, out_channels, H', W'), with the sizes that
    ConvTranspose2d gives. Until the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then
    the layer becomes a ConvTranspose2d. Make the optimiser after that call. RuntimeError for an input of other
    dimensions, and where the weights are read too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConvTranspose2d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 32, 32)).shape
        ferro.Size([2, 8, 34, 34])
        >>> layer.in_channels
        4
    """

    cls_to_become = ConvTranspose2d
    __init__ = _lazily(ConvTranspose2d)


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """ConvTranspose3d that takes in_channels from the first input.

    - `out_channels` (int): C of the result
    - `kernel_size` (int or triple): the size of the windows
    - `stride` (int or triple, default 1): how far apart the windows are in the result
    - `padding` (int or triple, default 0): layers, rows and columns cut off on each side of the result
    - `output_padding` (int or triple, default 0): layers, rows and columns added at the end of the result, since a
      stride leaves its size open; less than stride or dilation
    - `groups` (int, default 1): the channels are divided into so many groups, each with windows of its own
    - `bias` (bool, default True): False adds no number for each channel
    - `dilation` (int or triple, default 1): how far apart the elements of a window are
    - `padding_mode` (str, default 'zeros'): only 'zeros'
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, in_channels, D, H, W), the result (N, out_channels, D', H', W'), with the sizes that
    ConvTranspose3d gives. Until the first call `weight` and `bias` are `UninitializedParameter`, without a shape; then
    the layer becomes a ConvTranspose3d. Make the optimiser after that call. RuntimeError for an input of other
    dimensions, and where the weights are read too early.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.LazyConvTranspose3d(8, kernel_size=3)
        >>> layer(ferro.zeros(2, 4, 8, 16, 16)).shape
        ferro.Size([2, 8, 10, 18, 18])
        >>> layer.in_channels
        4
    """

    cls_to_become = ConvTranspose3d
    __init__ = _lazily(ConvTranspose3d)
