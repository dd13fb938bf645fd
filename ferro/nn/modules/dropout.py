"""Dropout layers: of elements, of whole channels, and the form that keeps the statistics of SELU."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class _DropoutNd(Module):
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, sets each element to 0 with probability p and divides the others by 1 - p, so that the mean stays.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input has any shape, the result the same. After `eval()` the input is returned as it is. Source:
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, Dropout: A Simple Way to Prevent Neural Networks from
    Overfitting, 2014.

    Example::

        >>> import ferro
        >>> drop = ferro.nn.Dropout(0.5)
        >>> sorted(drop(ferro.ones(1000)).unique().tolist())
        [0.0, 2.0]
        >>> drop.eval()(ferro.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of sequences: in training, each is 0 with probability p, else divided by 1 - p.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input is (N, C, L) or (C, L), the result the same. After `eval()` the input is returned as it is.
    Source: Tompson, Goroshin, Jain, LeCun and Bregler, Efficient Object Localization Using Convolutional Networks,
    2015.

    Example::

        >>> import ferro
        >>> y = ferro.nn.Dropout1d(0.5)(ferro.ones(8, 100, 3))
        >>> sorted(y.sum(dim=2).unique().tolist())
        [0.0, 6.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of images: in training, each is 0 with probability p, else divided by 1 - p.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input is (N, C, H, W) or (C, H, W), the result the same. After `eval()` the input is returned as it is.
    Source: Tompson, Goroshin, Jain, LeCun and Bregler, Efficient Object Localization Using Convolutional Networks,
    2015.

    Example::

        >>> import ferro
        >>> y = ferro.nn.Dropout2d(0.5)(ferro.ones(8, 100, 2, 2))
        >>> sorted(y.sum(dim=(2, 3)).unique().tolist())
        [0.0, 8.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of volumes: in training, each is 0 with probability p, else divided by 1 - p.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result the same. After `eval()` the input is returned as
    it is. Source: Tompson, Goroshin, Jain, LeCun and Bregler, Efficient Object Localization Using Convolutional
    Networks, 2015.

    Example::

        >>> import ferro
        >>> y = ferro.nn.Dropout3d(0.5)(ferro.ones(8, 100, 2, 2, 2))
        >>> sorted(y.sum(dim=(2, 3, 4)).unique().tolist())
        [0.0, 16.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """In training, sets each element to the value of SELU far below 0 with probability p, then scales and shifts all.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Inputs of mean 0 and variance 1 keep both. Shapes: the input has any shape, the result the same. After `eval()` the
    input is returned as it is. Source: Klambauer, Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks,
    2017.

    Example::

        >>> import ferro
        >>> y = ferro.nn.AlphaDropout(0.5)(ferro.ones(1000))
        >>> len(y.unique())
        2
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """Alpha dropout of whole channels: each is kept or set to the value of SELU far below 0, with probability p.

    - `p` (float, default 0.5): from 0 to 1, else ValueError
    - `inplace` (bool, default False): True writes the result into the input

    Shapes: the input is (N, C, ...), the result the same. After `eval()` the input is returned as it is. Source:
    Klambauer, Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks, 2017.

    Example::

        >>> import ferro
        >>> y = ferro.nn.FeatureAlphaDropout(0.5)(ferro.ones(8, 100, 2, 2))
        >>> (y == y[:, :, :1, :1]).all()
        tensor(True)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
