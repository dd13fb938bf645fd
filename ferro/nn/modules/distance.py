"""Layers that measure how far or how alike two inputs are."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class PairwiseDistance(Module):
    """The p-norm of x - y + eps over the last dimension.

    - `p` (float, default 2.0): the exponent of the norm
    - `eps` (float, default 1e-6): added to the difference, so that the gradient exists where x = y
    - `keepdim` (bool, default False): True keeps the last dimension, with size 1

    Shapes: the inputs are (N, D) or (D), and broadcast; the result is (N), (N, 1) with keepdim, or ().

    Example::

        >>> import ferro
        >>> ferro.nn.PairwiseDistance(eps=0.0)(ferro.tensor([[0.0, 0.0]]), ferro.tensor([[3.0, 4.0]]))
        tensor([5.])
    """

    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """x · y / (|x| |y|) along one dimension: 1 for the same direction, -1 for the opposite one.

    - `dim` (int, default 1): the dimension of the vectors
    - `eps` (float, default 1e-8): a norm counts as at least this

    Shapes: the inputs broadcast with each other; the result lacks `dim`.

    Example::

        >>> import ferro
        >>> x, y = ferro.tensor([[3.0, 4.0]]), ferro.tensor([[6.0, 8.0]])
        >>> ferro.nn.CosineSimilarity()(x, y), ferro.nn.CosineSimilarity()(x, -y)
        (tensor([1.]), tensor([-1.]))
    """

    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
