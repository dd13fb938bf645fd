"""Constants of the shape or dtype of a given tensor, as derivative formulas use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.arguments import sizes, with_size
from ferro.core.base import LEAF, mark_inference, wrap
from ferro.core.device import known
from ferro.core.dtypes import INEXACT, refuse_gradient, to_numpy
from ferro.core.layout import arranged, filled, strided
from ferro.core.mode import ACTIVE, is_inference_mode_enabled
from ferro.core.origins import note
from ferro.ops.creation import refuse_shape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["ones_like", "zeros_like"]


def _constant(name: str, make: Any, like: Any, shape: Any, dtype: Any, requires_grad: bool) -> Tensor:
    t = wrap(make(shape, dtype) if type(like) is backend.HOST else backend.new_array(like, shape, make, dtype))
    if backend.DEVICES:
        note(t._data, name)
    if requires_grad:
        if dtype not in INEXACT:
            refuse_gradient(name, t.dtype)
        t._node = LEAF
    if ACTIVE and is_inference_mode_enabled():
        mark_inference(t)
    return t


def _ones(shape: tuple, dtype: Any) -> Any:
    return filled(shape, dtype, 1)


def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of zeros in the shape of another.

    - `input` (Tensor): has the shape
    - `dtype` (dtype, default None): None: that of `input`
    - `layout` (layout, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides; None: that of `input`

    Example::

        >>> import ferro
        >>> ferro.zeros_like(ferro.tensor([3, 4]))
        tensor([0, 0])
    """
    if layout not in (None, strided):
        return backend.tensor_class._without_values(
            "zeros_like", input.shape, dtype or input.dtype, layout, requires_grad
        )
    d = input._data.dtype if dtype is None else to_numpy(dtype)
    like = input._data if device is None else backend.moved(input._data, known(device))
    t = _constant("zeros_like", np.zeros, like, like.shape, d, requires_grad)
    if memory_format is not None or not input._data.flags.c_contiguous:
        t._data = arranged("zeros_like", t._data, input._data, memory_format)
    return t


def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of ones in the shape of another.

    - `input` (Tensor): has the shape
    - `dtype` (dtype, default None): None: that of `input`
    - `layout` (layout, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides; None: that of `input`

    Example::

        >>> import ferro
        >>> ferro.ones_like(ferro.tensor([3, 4]))
        tensor([1, 1])
    """
    d = input._data.dtype if dtype is None else to_numpy(dtype)
    like = input._data if device is None else backend.moved(input._data, known(device))
    t = _constant("ones_like", _ones, like, like.shape, d, requires_grad)
    if memory_format is not None or not input._data.flags.c_contiguous:
        t._data = arranged("ones_like", t._data, input._data, memory_format)
    return t


def new_zeros(
    self: Tensor,
    *shape: Any,
    size: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of zeros with this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `dtype` (dtype, default None): another dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_zeros(2)
        tensor([0, 0])
    """
    dtype = self._data.dtype if dtype is None else to_numpy(dtype)
    shape = sizes("new_zeros", with_size("new_zeros", shape, size))
    if min(shape, default=0) < 0:
        refuse_shape("new_zeros", shape)
    like = self._data if device is None else backend.moved(self._data, known(device))
    return _constant("new_zeros", np.zeros, like, shape, dtype, requires_grad)


class LikeMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_zeros = new_zeros
