"""Normalisation over neighbouring channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferro.core import backend
from ferro.core.arguments import sizes
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import floating

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["local_response_norm"]


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha m)^beta, where m is the mean of x² over the `size` neighbouring channels.

    - `input` (Tensor): x, (N, C, L, ...)
    - `size` (int): how many channels count
    - `alpha`, `beta`, `k` (float, default 0.0001 and 0.75 and 1.0): of the formula

    The result has the shape of x. ValueError for fewer than three dimensions, RuntimeError for a size that is not
    positive. Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks,
    2012, section 3.3.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.local_response_norm(ferro.tensor([[[2.0], [4.0]]]), 1, alpha=1.0, beta=0.5, k=0.0)
        tensor([[[1.],
                 [1.]]])
    """
    floating("local_response_norm", input)
    shape = input._data.shape
    if len(shape) < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} dimensions)"
        )
    if input._data.size == 0:
        return input
    (size,) = sizes("local_response_norm", (size,))
    if size < 1:
        raise RuntimeError(f"local_response_norm: size should be greater than zero, but got {size}")
    square, total, far = input * input, None, shape[1] - 1
    for shift in range(max(-(size // 2), -far), min((size - 1) // 2, far) + 1):  # the channel at this distance
        part = square.narrow(1, max(shift, 0), shape[1] - abs(shift))
        part = _pad_channels(part, max(-shift, 0), max(shift, 0))
        total = part if total is None else total + part
    assert total is not None
    return input / (total * (alpha / size) + k) ** beta


def _pad_channels(t: Tensor, before: int, after: int) -> Tensor:
    """Zero channels put before and after."""
    shape = t._data.shape
    parts = [backend.functional.new_zeros(t, (shape[0], n, *shape[2:])) for n in (before, after)]
    return backend.functional.cat([p for p in (parts[0], t, parts[1]) if p._data.shape[1]], 1) if before or after else t


declare(
    "nn.functional.local_response_norm",
    [Sample(Arg(2, 5, 3), 3), Sample(Arg(1, 4, 2, 2), 2, 0.5, 0.5, 2.0), Sample(Arg(2, 2, 3), 5, 1.0)],
)
