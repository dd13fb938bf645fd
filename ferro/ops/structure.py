"""Copies of tensors, casts and moves to another device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.core import backend, dtypes
from ferro.core import device as _device
from ferro.core.apply import apply, unary
from ferro.core.base import TensorBase
from ferro.core.layout import has_memory, moved, preserve_format, steps
from ferro.core.origins import note
from ferro.core.primitives import CAST, CLONE, TO_DEVICE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["clone", "detach"]


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy of the tensor, in the order of a memory format if one is given; gradients flow through it unchanged.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2)
        >>> y = x.clone()
        >>> y[0] = 1
        >>> x
        tensor([0., 0.])
    """
    if memory_format in (None, preserve_format):
        return unary(CLONE, input)
    found = input.contiguous(memory_format=memory_format)
    if found is input:
        found = unary(CLONE, input)
    if has_memory(found._data):  # the strides of dimensions of one element, too
        found._data = moved(found._data, _strides(found, memory_format))
    return found


def _strides(x: Any, memory_format: Any) -> tuple[int, ...]:
    """The strides, in bytes, of a tensor like x in a memory format."""
    return tuple([s * x._data.itemsize for s in steps("to", x._data.shape, memory_format)])


def _formatted(x: Any, memory_format: Any) -> Any:
    """The tensor, or a copy in a memory format if its strides are others."""
    if memory_format in (None, preserve_format):
        return x
    if has_memory(x._data) and x._data.strides == _strides(x, memory_format):
        return x
    return clone(x, memory_format=memory_format)


def detach(input: Tensor) -> Tensor:
    """A tensor that shares the data of `input` but no history."""
    return input.detach()


def cast(x: Any, dtype: Any) -> Any:
    """x as a NumPy dtype, recorded: the `xp.cast` of Tensors."""
    return apply(CAST, (x,), (dtype,))


def to(
    self: Any,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """The tensor with another dtype or device, or those of another tensor: ``to(dtype)``, ``to(device)``,
    ``to(other)``.

    - `self` (Tensor): any shape
    - `*args` (dtype, device or Tensor): what to take
    - `dtype` (dtype, default None): the same by name
    - `device` (device, default None): where it is to lie; None: where it lies
    - `copy` (bool, default False): makes a copy where nothing changes, too
    - `non_blocking` (bool, default False): a copy from pinned memory to a device is not waited for; no effect on the CPU
    - `memory_format` (memory_format, default None): the order of the strides

    Returns the tensor itself if nothing changes. Differentiable between floating dtypes.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2]).to(ferro.float64)
        tensor([1., 2.], dtype=ferro.float64)
    """
    for a in args:
        if isinstance(a, dtypes.dtype) or a in (float, int, bool, complex):
            dtype = a
        elif isinstance(a, TensorBase):
            dtype = dtypes.FROM_NUMPY[a._data.dtype]
            device = backend.device_of(a._data)
        elif isinstance(a, (str, _device.device)):
            device = a
        elif a is not None and not isinstance(a, bool):
            raise TypeError(f"to: expected a dtype, a device or a tensor, got {type(a).__name__}")
    to = None if device is None else _device.known(device)
    if _device.DEVICE_BACKENDS and to is not None and to.type != (at := backend.device_of(self._data)).type:
        non_blocking = non_blocking or any(a is True for a in args)
        self, copy = apply(TO_DEVICE, (self,), (to, at, not non_blocking)), False
        note(self._data, "to")
    if dtype is dtypes.complex32:
        return self._complex_half()
    wanted = self._data.dtype if dtype is None else dtypes.to_numpy(dtype)
    if wanted is self._data.dtype:
        return clone(self, memory_format=memory_format) if copy else _formatted(self, memory_format)
    if self._data.dtype.kind == "c" and wanted.kind not in "cb":
        warnings.warn("to: Casting complex values to real discards the imaginary part", UserWarning, stacklevel=2)
    found = _formatted(apply(CAST, (self,), (wanted,)), memory_format)
    if to is not None and backend.DEVICES:
        note(found._data, "to")
    return found


def _cast_method(d: dtypes.dtype) -> Callable[..., Tensor]:
    def method(self: Any, memory_format: Any = None) -> Any:
        if memory_format is not None:
            return to(self, d, memory_format=memory_format)
        return self if self._data.dtype is d.np else apply(CAST, (self,), (d.np,))

    method.__doc__ = f"The tensor as {d}."
    return method


def type_as(self: Any, other: Any) -> Tensor:
    """The tensor with the dtype of another."""
    if not isinstance(other, TensorBase):
        raise TypeError(f"type_as(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return to(self, other)


def chalf(self: Any, memory_format: Any = None) -> Any:
    """The tensor as complex32: numbers of two float16, with which little can be computed; cfloat() is the next."""
    return to(self, dtypes.complex32)


class StructureMethods:
    """Methods of Tensor."""

    __slots__ = ()
    clone = clone
    to = to
    type_as = type_as
    float, double, half, bfloat16 = [
        _cast_method(d) for d in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
    ]
    int, long, short, char, byte = [
        _cast_method(d) for d in (dtypes.int32, dtypes.int64, dtypes.int16, dtypes.int8, dtypes.uint8)
    ]
    chalf = chalf
    bool, cfloat, cdouble = [_cast_method(d) for d in (dtypes.bool_, dtypes.complex64, dtypes.complex128)]
