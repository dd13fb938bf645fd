"""Creation: tensors filled with a number, the identity; and what a tensor is asked for, its kind of numbers."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import device as _device
from ferro.core.arguments import need_tensor, sizes, with_size
from ferro.core.base import LEAF, TensorBase, mark_inference, wrap
from ferro.core.dtypes import refuse_gradient
from ferro.core.into import into
from ferro.core.layout import arranged, filled, strided
from ferro.core.mode import ACTIVE, is_inference_mode_enabled
from ferro.core.origins import note

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["can_cast", "eye", "full", "full_like", "is_floating_point", "is_tensor", "numel", "ones", "result_type",
           "scalar_tensor", "zeros"]  # fmt: skip


def finish(name: str, data: Any, requires_grad: bool, device: Any = None) -> Any:
    """A new leaf around `data`, on the device or the default one."""
    if device is None and not (requires_grad or ACTIVE or backend.DEVICES):
        return wrap(data)
    return placed(name, data, requires_grad, _device.wanted(device))


def placed(name: str, data: Any, requires_grad: bool, device: Any = None) -> Any:
    """A new leaf around `data`, on the device or where that lies."""
    if device is not None:
        data = backend.moved(data, _device.known(device))
    t = wrap(data)
    if backend.DEVICES:
        note(t._data, name)
    if requires_grad:
        if data.dtype not in dtypes.INEXACT:
            refuse_gradient(name, t.dtype)
        t._node = LEAF
    if ACTIVE and is_inference_mode_enabled():
        mark_inference(t)
    return t


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A 0-d tensor of the default dtype.

    - `s` (number): its value
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.scalar_tensor(3)
        tensor(3.)
    """
    return finish(
        "scalar_tensor",
        np.array(s, dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)),
        requires_grad,
        device,
    )


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    Example::

        >>> import ferro
        >>> ferro.is_tensor(ferro.zeros(1)), ferro.is_tensor([0.0])
        (True, False)
    """
    return isinstance(obj, TensorBase)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating one."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input._data.size


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an arithmetic operation of two tensors or numbers."""
    return dtypes.FROM_NUMPY[
        dtypes.result_np([t._data if isinstance(t, TensorBase) else t for t in (tensor1, tensor2)])
    ]


def can_cast(from_: dtypes.dtype, to: dtypes.dtype) -> bool:
    """Whether a result of dtype `from_` may be written into a tensor of dtype `to`."""
    return dtypes.can_cast(from_, to)


def _filled(
    name: str, shape: tuple, value: Any, dtype: Any, requires_grad: bool, device: Any = None, out: Any = None
) -> Any:
    if dtype is dtypes.complex32:
        return _filled(name, shape, value, dtypes.complex64, False, device, out)._complex_half(requires_grad)
    shape = sizes(name, shape)
    d = chosen_dtype(dtype, out, dtypes.default().np)
    try:
        zero = not value and (type(value) is int or (type(value) is float and math.copysign(1, value) > 0))
        a = np.zeros(shape, d) if zero else filled(shape, d, value)
    except ValueError:
        refuse_shape(name, shape)
        raise
    return result_or_out(name, a, out, requires_grad, device)


def _sparse(name: str, shape: Any, dtype: Any, layout: Any, requires_grad: bool, out: Any) -> Any:
    if out is not None:
        raise RuntimeError(f"{name}: out= is a dense tensor, which does not have the layout {layout}")
    return backend.tensor_class._without_values(name, sizes(name, shape), dtype, layout, requires_grad)


def zeros(
    *shape: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of zeros.

    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `out` (Tensor, default None): a tensor to fill
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): ferro.sparse_coo makes a sparse tensor (of zeros only)
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    RuntimeError for a negative size.

    Example::

        >>> import ferro
        >>> ferro.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
        >>> ferro.zeros((2,), dtype=ferro.int64)
        tensor([0, 0])
    """
    if layout not in (None, strided):
        return _sparse("zeros", with_size("zeros", shape, size), dtype, layout, requires_grad, out)
    return _filled("zeros", with_size("zeros", shape, size), 0, dtype, requires_grad, device, out)


def ones(
    *shape: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of ones.

    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `out` (Tensor, default None): a tensor to fill
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): ferro.sparse_coo makes a sparse tensor (of zeros only)
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    RuntimeError for a negative size.

    Example::

        >>> import ferro
        >>> ferro.ones(2, dtype=ferro.bool)
        tensor([True, True])
    """
    if layout not in (None, strided):
        raise RuntimeError(f"ones: full(...) is not implemented for sparse layout, got {layout}")
    return _filled("ones", with_size("ones", shape, size), 1, dtype, requires_grad, device, out)


MOST_BYTES = 2**63 - 1


def refuse_shape(name: str, shape: tuple) -> None:
    """Raises for a shape that no tensor has: a size is negative, or the number of elements is beyond 64 bits."""
    if shape and min(shape) < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if 0 in shape:
        raise RuntimeError(f"{name}: Stride calculation overflowed with sizes={list(shape)}")
    raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(shape)}")


def _number(value: Any) -> Any:
    """A number of NumPy's, or in a tensor without dimensions, as one of Python's; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    return value.item() if isinstance(value, TensorBase) and not value._data.ndim else value  # type: ignore[attr-defined]


def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor filled with a number.

    - `size` (ints): the shape
    - `fill_value` (number): the number
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: that of the number: bool, int64, the default dtype, or its complex one
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for a negative size.

    Example::

        >>> import ferro
        >>> ferro.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
    value = _number(fill_value)
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}")
    if dtype is dtypes.complex32:
        return full(size, value, out=out, dtype=dtypes.complex64, device=device)._complex_half(requires_grad)
    d = chosen_dtype(dtype, out, dtypes.scalar_dtype(value))
    dtypes.check_number("full", value, d)
    if isinstance(value, complex) and d.kind in "iuf":
        value = value.real
    return _filled("full", (size,), value, d, requires_grad, device, out)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    **ignored: Any,
) -> Tensor:
    """A tensor like `input`, filled with a number.

    - `input` (Tensor): has the shape
    - `fill_value` (number): the number
    - `dtype` (dtype, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides; None: that of `input`
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.full_like(ferro.zeros(2), 7)
        tensor([7., 7.])
    """
    d = input._data.dtype if dtype is None else dtypes.to_numpy(dtype)
    value = _number(fill_value)
    dtypes.check_number("full_like", value, d)
    data = backend.new_array(input._data, input._data.shape, np.full, value, d)
    return placed("full_like", arranged("full_like", data, input._data, memory_format), requires_grad, device)


def chosen_dtype(dtype: Any, out: Any, otherwise: Any) -> Any:
    """The NumPy dtype asked for, else that of `out`, else another."""
    return dtypes.to_numpy(dtype) if dtype is not None else otherwise if out is None else out._data.dtype


def result_or_out(name: str, data: Any, out: Any, requires_grad: bool, device: Any) -> Any:
    """A new leaf around `data`, or `out` with that content; its dtype must be the one asked for."""
    if out is None:
        return finish(name, data, requires_grad, device)
    need_tensor(name, "out", out)
    data = backend.beside(out._data, data)
    if out._data.shape != data.shape and out._data.dtype == data.dtype:
        out.resize_(data.shape)
    if out._data.dtype != data.dtype:
        raise RuntimeError(
            f"{name}: dtype {dtypes.FROM_NUMPY[data.dtype]} does not match dtype of out parameter ({out.dtype})"
        )
    return into(name, out, wrap(data))


def listed(name: str, data: Any, out: Any, requires_grad: bool, device: Any) -> Any:
    """The same for numbers in a row, which fill an `out` with as many elements in the order of its dimensions."""
    if out is not None and isinstance(out, TensorBase):
        if out._data.size == data.size:
            data = data.reshape(out._data.shape)
        elif out._data.size:
            warnings.warn(
                f"{name}(out=): The number of elements in the out tensor of shape {list(out._data.shape)} is {out._data.size} which does "
                f"not match the computed number of elements {data.size}. Note that this may occur as a result of rounding error. The "
                f"out tensor will be resized to a tensor of shape ({data.size},).",
                stacklevel=3,
            )
    return result_or_out(name, data, out, requires_grad, device)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an n x m matrix of zeros.

    - `n` (int): the rows
    - `m` (int, default None): the columns; None: n
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative number.

    Example::

        >>> import ferro
        >>> ferro.eye(2, 3)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    for argument, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"eye: {argument} must be greater or equal to 0, got {size}")
    d = chosen_dtype(dtype, out, dtypes.default().np)
    return result_or_out("eye", np.eye(n, m, dtype=d), out, requires_grad, device)
