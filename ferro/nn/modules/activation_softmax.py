"""Softmax along a dimension, and its kin."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class _AlongDim(Module):
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_AlongDim):
    """exp(x) / sum of exp(x) along `dim`: positive numbers whose sum along `dim` is 1.

    - `dim` (int, default None): the dimension of the sums; None guesses it from the number of dimensions, with a
      warning

    Shapes: the input has any shape, the result the same. A loss on top of it should be `CrossEntropyLoss` of x itself,
    which is more exact.

    Example::

        >>> import ferro
        >>> ferro.nn.Softmax(dim=1)(ferro.tensor([[0.0, 0.0], [0.0, 200.0]]))
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along `dim`, x - log(sum of exp(x)), without overflow.

    - `dim` (int, default None): the dimension of the sums; None guesses it from the number of dimensions, with a
      warning

    Shapes: the input has any shape, the result the same. `NLLLoss` takes its result.

    Example::

        >>> import ferro
        >>> ferro.nn.LogSoftmax(dim=1)(ferro.tensor([[0.0, 0.0], [0.0, 200.0]]))
        tensor([[  -0.6931,   -0.6931],
                [-200.0000,    0.0000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """The softmax of -x along `dim`: the smallest elements get the largest shares.

    - `dim` (int, default None): the dimension of the sums; None guesses it from the number of dimensions, with a
      warning

    Shapes: the input has any shape, the result the same.

    Example::

        >>> import ferro
        >>> ferro.nn.Softmin(dim=1)(ferro.tensor([[0.0, 0.0], [0.0, 200.0]]))
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of images: the C numbers of each pixel sum to 1.

    Shapes: the input is (N, C, H, W) or (C, H, W), else ValueError; the result has the same. It takes no arguments.

    Example::

        >>> import ferro
        >>> ferro.nn.Softmax2d()(ferro.zeros(1, 2, 1, 3)).sum(dim=1)
        tensor([[[1., 1., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
