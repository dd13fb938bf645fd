"""Elements of storages: as another dtype, as bytes, by their index."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import numpy as np

from ferro.core import dtypes


def elements(storage: Any) -> Any:
    """The elements of a storage as an array that shares its memory: numbers, or the bytes of an untyped one."""
    held = storage.untyped().bytes()
    dtype = getattr(storage, "dtype", None)
    d = held.dtype if dtype is None else dtype.np
    return held[: len(held) // d.itemsize * d.itemsize].view(d)


class StorageCasts:
    """Methods of storages that copy their elements as another dtype."""

    _typed: ClassVar[Any]  # TypedStorage, which enters itself

    def _cast(self, dtype: dtypes.dtype) -> Any:
        held = elements(self)
        return self._typed._of((held if dtype.is_complex else held.real).astype(dtype.np), dtype)

    def double(self) -> Any:
        """The elements as float64."""
        return self._cast(dtypes.float64)

    def float(self) -> Any:
        """The elements as float32."""
        return self._cast(dtypes.float32)

    def half(self) -> Any:
        """The elements as float16."""
        return self._cast(dtypes.float16)

    def bfloat16(self) -> Any:
        """The elements as bfloat16."""
        return self._cast(dtypes.bfloat16)

    def long(self) -> Any:
        """The elements as int64."""
        return self._cast(dtypes.int64)

    def int(self) -> Any:
        """The elements as int32."""
        return self._cast(dtypes.int32)

    def short(self) -> Any:
        """The elements as int16."""
        return self._cast(dtypes.int16)

    def char(self) -> Any:
        """The elements as int8."""
        return self._cast(dtypes.int8)

    def byte(self) -> Any:
        """The elements as uint8."""
        return self._cast(dtypes.uint8)

    def bool(self) -> Any:
        """The elements as bool."""
        return self._cast(dtypes.bool_)

    def complex_float(self) -> Any:
        """The elements as complex64."""
        return self._cast(dtypes.complex64)

    def complex_double(self) -> Any:
        """The elements as complex128."""
        return self._cast(dtypes.complex128)


def _name(owner: Any) -> str:
    return f"ferro.{(owner if isinstance(owner, type) else type(owner)).__name__}"


def _byte(cls: type, value: Any, given: Any) -> int:
    """One number of a storage; of others than integers nobody knows which byte they are."""
    if isinstance(value, (int, np.integer)):
        return int(value) & 255
    if given is not None:
        raise RuntimeError(
            f"{_name(cls)}(): tried to construct a storage from a sequence ({type(given).__name__}), but one of the "
            f"items was of type {type(value).__name__} instead of int"
        )
    raise RuntimeError(
        f"{_name(cls)}: fill_ expects int, but got {type(value).__name__}: a byte is a number from 0 to 255"
    )


def element_index(storage: Any, index: Any, size: int) -> int:
    """An index of a storage of `size` elements as a number from 0 on."""
    try:
        at = operator.index(index)
    except TypeError:
        raise TypeError(
            f"can't index a {_name(storage).replace('ferro', 'torch')} with {type(index).__name__}"
        ) from None
    if not -size <= at < size:
        raise IndexError(f"index {at} out of range for storage of size {size}")
    return at % size
