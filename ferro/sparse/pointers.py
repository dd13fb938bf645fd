"""Rows as indices and as pointers: where the elements of each row begin in a list sorted by rows."""

from __future__ import annotations

from typing import Any

from ferro.batched.array import numbers
from ferro.batched.near import near as np
from ferro.core.base import wrap


def _vector(name: str, x: Any) -> Any:
    if x._data.ndim != 1:
        raise RuntimeError(f"{name}: Input is supposed to be a vector, but got {x._data.ndim} dimensional tensor.")
    return x._data


def _convert_indices_from_coo_to_csr(input: Any, size: int, *, out_int32: bool = False) -> Any:
    """Where each of `size` rows begins in the sorted rows of (n) elements, and the end: (size + 1), int64 or int32.

    RuntimeError for anything but a vector.

    Example::

        >>> import ferro
        >>> ferro._convert_indices_from_coo_to_csr(ferro.tensor([0, 0, 2]), 3)
        tensor([0, 2, 2, 3])
    """
    rows = _vector("_convert_indices_from_coo_to_csr", input)
    starts = np.searchsorted(rows, numbers(size + 1, rows))
    return wrap(starts.astype(np.int32 if out_int32 else np.int64))


def _convert_indices_from_csr_to_coo(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """The rows and columns (2, n) of elements from where each row begins (rows + 1) and their columns (n).

    With `transpose` the columns come first. RuntimeError for anything but vectors.

    Example::

        >>> import ferro
        >>> ferro._convert_indices_from_csr_to_coo(ferro.tensor([0, 2, 2, 3]), ferro.tensor([1, 0, 2]))
        tensor([[0, 0, 2],
                [1, 0, 2]])
    """
    starts = _vector("_convert_indices_from_csr_to_coo", crow_indices)
    columns = _vector("_convert_indices_from_csr_to_coo", col_indices)
    rows = np.repeat(numbers(len(starts) - 1, starts), np.diff(starts))
    parts = (columns, rows) if transpose else (rows, columns)
    return wrap(np.stack(parts).astype(np.int32 if out_int32 else np.int64))
