"""Likely mistakes in the arguments of losses, which strict mode refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import Batched
from ferro.core.strict import is_strict, refuse

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def fitting(want: tuple[int, ...], have: tuple[int, ...]) -> str:
    """How a target of shape `have` is given the shape `want` of the input."""
    if len(have) + 1 == len(want) and want[-1] == 1:
        return "target.unsqueeze(-1)"
    if len(have) == len(want) + 1 and have[-1] == 1:
        return "target.squeeze(-1)"
    return "give both the same shape"


def different_sizes(name: str, want: tuple[int, ...], have: tuple[int, ...]) -> str:
    """PyTorch's sentence about an input and a target that broadcast, and the remedy."""
    return (
        f"{name}: Using a target size ({list(have)}) that is different to the input size ({list(want)}). This will likely lead "
        f"to incorrect results due to broadcasting. Please ensure they have the same size. ({fitting(want, have)})"
    )


def no_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    """Refuses an input and a target of different shapes."""
    if is_strict() and input._data.shape != target._data.shape:
        refuse(different_sizes(name, input._data.shape, target._data.shape))


def _values(x: Tensor) -> Any:
    """The elements as float64, or None where there are none or they stand for slices of a batch."""
    if type(x._data) is Batched or not x._data.size:
        return None
    return np.asarray(x._data, np.float64)


def logits(name: str, input: Tensor) -> None:
    """Refuses probabilities, where the loss takes the softmax itself."""
    if not is_strict() or input._data.ndim == 0:
        return
    dim = min(1, input._data.ndim - 1)
    values = _values(input)
    if values is None or values.shape[dim] < 2 or (values < 0).any():
        return
    tolerance = 16 * values.shape[dim] * float(np.finfo(np.float32).eps if input._data.dtype.itemsize >= 4 else 2**-10)
    if (np.abs(values.sum(dim) - 1) <= tolerance).all():
        refuse(
            f"{name}: the input holds probabilities (no number is negative, and all rows sum to 1), but {name} takes the softmax "
            "itself: give it the logits, without softmax before"
        )


def log_probabilities(name: str, input: Tensor) -> None:
    """Refuses numbers above 0 (and above what rounding makes of log 1)."""
    if not is_strict():
        return
    values = _values(input)
    if values is not None and values.max() > 1e-3:
        refuse(
            f"{name}: the input holds numbers up to {values.max():.3g}, but log-probabilities are at most 0: give it log_softmax of "
            "the logits"
        )


def targets_in_unit_interval(name: str, target: Tensor) -> None:
    """Refuses targets of two classes that are no probabilities."""
    if not is_strict():
        return
    values = _values(target)
    if values is not None and (values.min() < 0 or values.max() > 1):
        refuse(
            f"{name}: targets are between 0 and 1, got numbers from {values.min():.3g} to {values.max():.3g}; labels of -1 and 1 "
            "become (y + 1) / 2"
        )
