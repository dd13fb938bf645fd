"""Activation layers with exp, tanh or the normal distribution in them."""

from __future__ import annotations

from ferro.ops.exponential import sigmoid
from ferro.ops.hyperbolic import tanh
from ferro.tensor import Tensor

from .. import functional as F
from .activation_piecewise import _MaybeInplace
from .module import Module


class Sigmoid(Module):
    """1 / (1 + exp(-x)), element by element: a number from 0 to 1.

    Shapes: the input has any shape, the result the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.Sigmoid()(ferro.tensor([0.0, 100.0]))
        tensor([0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return sigmoid(input)


class Tanh(Module):
    """tanh x, element by element: a number from -1 to 1.

    Shapes: the input has any shape, the result the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.Tanh()(ferro.tensor([-100.0, 0.0, 100.0]))
        tensor([-1.,  0.,  1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return tanh(input)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))), element by element, without overflow: about x far below 0, about 0 far above.

    Shapes: the input has any shape, the result the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.LogSigmoid()(ferro.tensor([-100.0, 0.0]))
        tensor([-100.0000,   -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|), element by element: like tanh, with slower tails.

    Shapes: the input has any shape, the result the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.Softsign()(ferro.tensor([-1.0, 0.0, 3.0]))
        tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh x, element by element.

    Shapes: the input has any shape, the result the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.Tanhshrink()(ferro.tensor([-100.0, 0.0, 100.0]))
        tensor([-99.,   0.,  99.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class SiLU(_MaybeInplace):
    """x / (1 + exp(-x)), element by element: x times its own sigmoid, also called swish.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Elfwing, Uchibe and Doya, Sigmoid-Weighted Linear
    Units for Neural Network Function Approximation in Reinforcement Learning, 2018.

    Example::

        >>> import ferro
        >>> ferro.nn.SiLU()(ferro.tensor([-1.0, 0.0, 100.0]))
        tensor([ -0.2689,   0.0000, 100.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_MaybeInplace):
    """x tanh(log(1 + exp(x))), element by element: smooth, with a small dip below 0.

    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Misra, Mish: A Self Regularized Non-Monotonic
    Activation Function, 2019.

    Example::

        >>> import ferro
        >>> ferro.nn.Mish()(ferro.tensor([-100.0, 0.0, 100.0]))
        tensor([-3.7835e-42,  0.0000e+00,  1.0000e+02])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_MaybeInplace):
    """scale x for x > 0, scale alpha (exp(x) - 1) otherwise, with constants that keep mean 0 and variance 1 from layer
    to layer.

    - `inplace` (bool, default False): True writes the result into the input

    scale is 1.0507..., alpha 1.6733... Shapes: the input has any shape, the result the same. Source: Klambauer,
    Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks, 2017.

    Example::

        >>> import ferro
        >>> ferro.nn.SELU()(ferro.tensor([-100.0, 0.0, 1.0]))
        tensor([-1.7581,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class GELU(Module):
    """x Φ(x), element by element, with the distribution function Φ of the normal distribution.

    - `approximate` (str, default 'none'): "none" computes Φ exactly, "tanh" by (1 + tanh(sqrt(2 / π) (x + 0.044715
      x³))) / 2; anything else is a RuntimeError at the first call

    Shapes: the input has any shape, the result the same. Source: Hendrycks and Gimpel, Gaussian Error Linear Units
    (GELUs), 2016.

    Example::

        >>> import ferro
        >>> ferro.nn.GELU()(ferro.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class ELU(Module):
    """x for x > 0, alpha (exp(x) - 1) otherwise.

    - `alpha` (float, default 1.0): minus the value far below 0
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Clevert, Unterthiner and Hochreiter, Fast and Accurate
    Deep Network Learning by Exponential Linear Units (ELUs), 2016.

    Example::

        >>> import ferro
        >>> ferro.nn.ELU(alpha=2.0)(ferro.tensor([-100.0, 0.0, 3.0]))
        tensor([-2.,  0.,  3.])
    """

    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)): an ELU whose slope is continuous for every alpha.

    - `alpha` (float, default 1.0): minus the value far below 0; 0 is a RuntimeError at the first call
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. Source: Barron, Continuously Differentiable Exponential Linear
    Units, 2017.

    Example::

        >>> import ferro
        >>> ferro.nn.CELU(alpha=2.0)(ferro.tensor([-100.0, 0.0, 3.0]))
        tensor([-2.,  0.,  3.])
    """

    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, element by element: a smooth max(x, 0).

    - `beta` (float, default 1.0): larger is closer to max(x, 0)
    - `threshold` (float, default 20.0): the result is x itself where beta x is above it

    Shapes: the input has any shape, the result the same. Source: Dugas, Bengio, Bélisle, Nadeau and Garcia,
    Incorporating Second-Order Functional Knowledge for Better Option Pricing, 2001.

    Example::

        >>> import ferro
        >>> ferro.nn.Softplus()(ferro.tensor([-200.0, 0.0, 100.0]))
        tensor([  0.0000,   0.6931, 100.0000])
    """

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """a sigmoid(b), where a and b are the halves of the input along `dim`.

    - `dim` (int, default -1): the dimension that is halved

    Shapes: the size of the input along `dim` is even, else RuntimeError, and the result has half of it. Source:
    Dauphin, Fan, Auli and Grangier, Language Modeling with Gated Convolutional Networks, 2017.

    Example::

        >>> import ferro
        >>> ferro.nn.GLU()(ferro.tensor([[3.0, 4.0, 0.0, 100.0]]))
        tensor([[1.5000, 4.0000]])
    """

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
