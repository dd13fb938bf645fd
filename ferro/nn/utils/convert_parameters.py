"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ferro.ops.joining import cat
from ferro.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined in order; differentiable."""
    return cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be views of consecutive parts of `vec`."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        stop = start + param.numel()
        param.data = vec[start:stop].view(param.shape).data
        start = stop
