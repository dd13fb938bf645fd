"""Tensors with the dtype and device of another: the methods new_ones, new_full and their kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.ops.creation import full, ones
from ferro.ops.uninitialised import empty, empty_strided

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _place(like: Any, device: Any) -> Any:
    """Where a new tensor is to lie: on the device, or where another lies."""
    return backend.device_of(like._data) if device is None else device


def _for_each(like: Any, t: Any) -> Any:
    """A new tensor; under vmap one for each slice of `like`, into which something else may be written."""
    if type(like._data) is not backend.HOST and type(like._data) not in backend.DEVICES:
        t._data = backend.new_array(like._data, t._data.shape, lambda s: np.broadcast_to(t._data, s).copy())
    return t


def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A filled tensor with this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `size` (ints): the shape
    - `fill_value` (number): the number
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_full((2,), 7)
        tensor([7, 7])
    """
    return _for_each(
        self,
        full(size, fill_value, dtype=dtype or self.dtype, device=_place(self, device), requires_grad=requires_grad),
    )


def new_ones(
    self: Tensor,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor of ones with this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_ones(2).dtype
        ferro.int64
    """
    return _for_each(
        self,
        ones(*shape, size=size, dtype=dtype or self.dtype, device=_place(self, device), requires_grad=requires_grad),
    )


def new_empty(
    self: Tensor,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor without set values (zeros here) with this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_empty(2).dtype
        ferro.int64
    """
    return _for_each(
        self,
        empty(*shape, size=size, dtype=dtype or self.dtype, device=_place(self, device), requires_grad=requires_grad),
    )


def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """:func:`empty_strided` with this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `size` (ints): the shape
    - `stride` (ints): the steps in memory along each dimension, in elements
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    return empty_strided(
        size, stride, dtype=dtype or self.dtype, device=_place(self, device), requires_grad=requires_grad
    )


class NewTensorMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_full = new_full
    new_ones = new_ones
    new_empty = new_empty
    new_empty_strided = new_empty_strided
