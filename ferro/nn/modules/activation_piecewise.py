"""Activation layers of straight pieces: ReLU and its kin, clamps, shrinks."""

from __future__ import annotations

from typing import Any

from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class _MaybeInplace(Module):
    """An activation whose only argument is whether it overwrites its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_MaybeInplace):
    """max(x, 0), element by element; its gradient at 0 is 0.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Nair and Hinton, Rectified Linear Units Improve
    Restricted Boltzmann Machines, 2010.

    Example::

        >>> import ferro
        >>> ferro.nn.ReLU()(ferro.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class LeakyReLU(Module):
    """x for x > 0, negative_slope x otherwise.

    - `negative_slope` (float, default 0.01): the slope below 0
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Maas, Hannun and Ng, Rectifier Nonlinearities Improve
    Neural Network Acoustic Models, 2013.

    Example::

        >>> import ferro
        >>> ferro.nn.LeakyReLU(0.1)(ferro.tensor([-10.0, 2.0]))
        tensor([-1.,  2.])
    """

    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x for x > 0, weight x otherwise: a leaky ReLU that learns its slope.

    - `num_parameters` (int, default 1): 1 slope for all channels, or C, one for each
    - `init` (float, default 0.25): the slope at the start
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Shapes: the input is (N, C, ...), or any shape with one slope; the result has the same; `weight` is
    (num_parameters,). RuntimeError if there is neither one slope nor one for each channel. Weight decay should not act
    on `weight`. Source: He, Zhang, Ren and Sun, Delving Deep into Rectifiers, 2015.

    Example::

        >>> import ferro
        >>> ferro.nn.PReLU()(ferro.tensor([-4.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    num_parameters: int
    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight back to its start value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """x for x >= 0, a x otherwise, with a slope a drawn for each element in training.

    - `lower`, `upper` (float, default 0.125 and 1/3): the slope is uniform between them; after `eval()` it is their
      mean
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. RuntimeError at the first call where lower > upper. Source:
    Xu, Wang, Chen and Li, Empirical Evaluation of Rectified Activations in Convolutional Network, 2015.

    Example::

        >>> import ferro
        >>> ferro.nn.RReLU(0.25, 0.75).eval()(ferro.tensor([-4.0, 2.0]))
        tensor([-2.,  2.])
    """

    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x clamped to [min_val, max_val].

    - `min_val`, `max_val` (float, default -1.0 and 1.0): the edges; ValueError unless min_val < max_val
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> ferro.nn.Hardtanh(-2.0, 2.0)(ferro.tensor([-3.0, 0.5, 3.0]))
        tensor([-2.0000,  0.5000,  2.0000])
    """

    min_val: float
    max_val: float
    inplace: bool

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise ValueError(f"max_val must be larger than min_val, got max_val={max_val}, min_val={min_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6), element by element.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Krizhevsky, Convolutional Deep Belief Networks on
    CIFAR-10, 2010.

    Example::

        >>> import ferro
        >>> ferro.nn.ReLU6()(ferro.tensor([-1.0, 5.0, 7.0]))
        tensor([0., 5., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """x for x > threshold, `value` otherwise.

    - `threshold` (float): the edge
    - `value` (float): stands at and below the edge
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> ferro.nn.Threshold(1.0, -7.0)(ferro.tensor([0.5, 1.5]))
        tensor([-7.0000,  1.5000])
    """

    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Hardswish(_MaybeInplace):
    """x min(max(x + 3, 0), 6) / 6, element by element: SiLU in straight pieces.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Howard et al., Searching for MobileNetV3, 2019.

    Example::

        >>> import ferro
        >>> ferro.nn.Hardswish()(ferro.tensor([-4.0, 0.0, 4.0]))
        tensor([-0., 0., 4.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardsigmoid(Module):
    """min(max(x + 3, 0), 6) / 6, element by element: the sigmoid in straight pieces.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Courbariaux, Bengio and David, BinaryConnect: Training
    Deep Neural Networks with Binary Weights, 2015.

    Example::

        >>> import ferro
        >>> ferro.nn.Hardsigmoid()(ferro.tensor([-4.0, 0.0, 4.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class _Shrink(Module):
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| > lambd, 0 otherwise.

    - `lambd` (float, default 0.5): how far from 0 the values begin to pass

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> ferro.nn.Hardshrink()(ferro.tensor([-1.0, 0.25, 2.0]))
        tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, stopping there.

    - `lambd` (float, default 0.5): how far; below 0 is a RuntimeError at the first call

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> ferro.nn.Softshrink()(ferro.tensor([-1.0, 0.25, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)
