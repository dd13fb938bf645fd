"""Flatten and Unflatten: dimensions joined and split, as layers."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .module import Module


class Flatten(Module):
    """Joins the dimensions from start_dim to end_dim into one; by default all but the first, the batch.

    - `start_dim`, `end_dim` (int, default 1 and -1): the first and the last dimension that are joined, both included

    Shapes: the input (N, C, H, W) becomes (N, C H W) by default. RuntimeError where start_dim comes after end_dim.

    Example::

        >>> import ferro
        >>> ferro.nn.Flatten()(ferro.zeros(32, 1, 5, 5)).shape
        ferro.Size([32, 25])
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several: the inverse of Flatten.

    - `dim` (int): the dimension
    - `unflattened_size` (sizes): the sizes that it gets; their product is its size, one of them may be -1

    Shapes: the input (N, C H W) becomes (N, C, H, W) with dim 1 and sizes (C, H, W). RuntimeError where the product
    differs, TypeError for sizes that are not integers.

    Example::

        >>> import ferro
        >>> ferro.nn.Unflatten(1, (2, 5, 5))(ferro.zeros(32, 50)).shape
        ferro.Size([32, 2, 5, 5])
    """

    dim: int
    unflattened_size: Any

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int for an unnamed tensor, got {type(dim).__name__}")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, "
                    f"but found element of type {type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
