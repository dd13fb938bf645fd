"""Sums along the rows of small matrices, as products with ones.

A reduction of NumPy costs twice as much as a call of BLAS, and combining its result with the matrix again, by broadcasting,
twice as much as an operation on two arrays of one shape. The product with a square of ones spares both: every element
of a row of the result is the sum of that row.

Note [Two columns].  OpenBLAS may share out the product of a matrix and a vector among threads, which rounds differently.
The product of two matrices it shares out from 262144 multiplications on only; hence a second column where one would do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ferro.cpu.thresholds import BLAS_VECTOR

_SHORT = 16  # columns up to which n times as many multiplications cost less than broadcasting


@lru_cache(maxsize=64)
def ones(shape: Any, dtype: Any) -> Any:
    """An array of ones that nobody changes."""
    found = np.ones(shape, dtype)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def scalar(value: float, dtype: Any) -> Any:
    """A number as a 0-d array, which NumPy takes in half the time that it needs for a number of Python."""
    found = np.array(value, dtype)
    found.flags.writeable = False
    return found


def row_sums(x: Any) -> Any:
    """The sum of each row of a small matrix of real floats, as a column or in every place of the row."""
    n = x.shape[1]
    if 0 < n <= _SHORT:
        return x.dot(ones((n, n), x.dtype))
    return x.dot(ones((n, 2), x.dtype))[:, :1]  # Note [Two columns]


def column_sums(x: Any) -> Any:
    """The sum of each column of a small matrix of real floats, as a vector."""
    n = x.shape[0]
    return ones(n, x.dtype).dot(x) if x.size <= BLAS_VECTOR else ones((2, n), x.dtype).dot(x)[0]
