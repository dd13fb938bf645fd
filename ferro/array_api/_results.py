"""Named tuples of the array-API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class unique_all_result(NamedTuple):
    """The result of unique_all."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """The result of unique_counts."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """The result of unique_inverse."""

    values: Tensor
    inverse_indices: Tensor


class finfo_object(NamedTuple):
    """The limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class iinfo_object(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any
