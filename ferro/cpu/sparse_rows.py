"""Rows: the gradient of a table of which few rows were looked up, as these rows and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


class Rows:
    """An array of `shape` that is zero but for `values`, added up at the rows `places`.

    The engine adds such gradients, and a leaf keeps one as a sparse ``.grad``.  Whatever else meets one gets the dense array.
    """

    __array_ufunc__ = None  # NumPy leaves sums to __radd__
    __slots__ = ("dtype", "library", "places", "shape", "values")

    def __init__(self, places: Any, values: Any, shape: tuple, library: Any = np) -> None:
        """library: NumPy, or what has its names for arrays of a device."""
        self.places, self.values, self.shape, self.dtype, self.library = places, values, shape, values.dtype, library

    @classmethod
    def of(cls, g: Any, indices: Any, rows: int, padding: int | None, by_frequency: bool) -> Rows:
        """The gradient of a lookup with the cotangent `g`."""
        places = np.array(indices, np.int64).reshape(
            -1
        )  # a copy: the indices may be changed before the gradient is read
        values = g.reshape(places.size, g.shape[-1])
        if by_frequency:
            values = values / np.bincount(places, minlength=rows)[places][:, None].astype(values.dtype)
        if padding is not None:
            values = values[places != padding]
            places = places[places != padding]
        return cls(places, np.array(values), (rows, g.shape[-1]))

    def dense(self) -> Any:
        """The dense array."""
        out = self.library.zeros(self.shape, self.dtype)
        self.library.add.at(out, self.places, self.values)
        return out

    size = property(lambda self: int(np.prod(self.shape)))
    ndim = property(lambda self: len(self.shape))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Rows):
            join = self.library.concatenate
            places, values = join((self.places, other.places)), join((self.values, other.values))
            return Rows(places, values, self.shape, self.library)
        return self.dense() + other

    __radd__ = __add__

    def astype(self, dtype: Any) -> Rows:
        """The same rows in another dtype."""
        return Rows(self.places, self.values.astype(dtype), self.shape, self.library)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.dense() if dtype is None else self.dense().astype(dtype)
