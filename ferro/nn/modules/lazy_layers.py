"""The layers whose number of inputs the first batch tells: LazyLinear, LazyConv*, LazyBatchNorm*, LazyInstanceNorm*."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ferro.tensor import Tensor

from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
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
    """A Linear that takes in_features from the last dimension of its first input."""

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


class _LazyNorm(_LazyLayer):
    """What lazy normalisations share: num_features comes from the second dimension of the first input."""

    _inputs = "num_features"

    def _inputs_of(self, input: Tensor) -> int:
        return input.shape[1]


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes in_channels from its first input."""

    cls_to_become = Conv1d
    __init__ = _lazily(Conv1d)


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes in_channels from its first input."""

    cls_to_become = Conv2d
    __init__ = _lazily(Conv2d)


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes in_channels from its first input."""

    cls_to_become = Conv3d
    __init__ = _lazily(Conv3d)


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose1d
    __init__ = _lazily(ConvTranspose1d)


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose2d
    __init__ = _lazily(ConvTranspose2d)


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose3d
    __init__ = _lazily(ConvTranspose3d)


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d
    __init__ = _lazily(BatchNorm1d)


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d
    __init__ = _lazily(BatchNorm2d)


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d
    __init__ = _lazily(BatchNorm3d)


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """A InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d
    __init__ = _lazily(BatchNorm1d)  # PyTorch's defaults, which are not InstanceNorm's


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """A InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d
    __init__ = _lazily(BatchNorm2d)  # PyTorch's defaults, which are not InstanceNorm's


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """A InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d
    __init__ = _lazily(BatchNorm3d)  # PyTorch's defaults, which are not InstanceNorm's
