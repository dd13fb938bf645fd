"""Layers that multiply by a matrix: Identity, Linear, Bilinear."""

from __future__ import annotations

import math
from typing import Any

from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class Identity(Module):
    """Returns its input, whatever its constructor was given: it can stand in for any layer.

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> model = ferro.nn.Sequential(ferro.nn.Linear(4, 2), ferro.nn.ReLU())
        >>> model[1] = ferro.nn.Identity()
        >>> ferro.nn.Identity(54, bias=False)(ferro.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """The layer y = x Aᵀ + b, over the last dimension.

    - `in_features`, `out_features` (int): the sizes of the last dimension of x and of y
    - `bias` (bool, default True): False leaves b out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: x (..., in_features), y (..., out_features), `weight` A (out_features, in_features), `bias` b
    (out_features). A and b start uniform on (-k, k), k = 1 / sqrt(in_features). RuntimeError if the last size of x is
    not in_features, or x has another dtype than the weight.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.Linear(20, 30)
        >>> layer(ferro.zeros(128, 20)).shape
        ferro.Size([128, 30])
        >>> layer.weight.shape
        ferro.Size([30, 20])
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        for name, shape in self._shapes().items():
            wanted = bias or name == "weight"
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}

    def reset_parameters(self) -> None:
        """Draw weight and bias afresh."""
        # The slope sqrt(5) makes the bound of kaiming_uniform_ come out as 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self._weight_and_bias()
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention: a Linear under the name by which PyTorch prints it."""


class Bilinear(Module):
    """y_k = x1ᵀ A_k x2 + b_k, over the last dimension of two inputs.

    - `in1_features`, `in2_features` (int): the sizes of the last dimension of x1 and of x2; ValueError if in1_features
      < 1
    - `out_features` (int): the size of the last dimension of y
    - `bias` (bool, default True): False leaves b out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: x1 (..., in1_features) and x2 (..., in2_features) agree in all other dimensions, y (..., out_features),
    `weight` A (out_features, in1_features, in2_features), `bias` b (out_features). A and b start uniform on (-k, k), k
    = 1 / sqrt(in1_features). RuntimeError if the sizes of an input do not fit.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.Bilinear(20, 30, 40)
        >>> layer(ferro.zeros(128, 20), ferro.zeros(128, 30)).shape
        ferro.Size([128, 40])
    """

    in1_features: int
    in2_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias afresh."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
