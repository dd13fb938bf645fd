"""Creation: filled tensors, ranges."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import device as _device
from ferro.core.arguments import into, need_tensor, sizes, with_size
from ferro.core.base import LEAF, TensorBase, mark_inference, wrap
from ferro.core.determinism import unset, unset_array
from ferro.core.dtypes import refuse_gradient
from ferro.core.layout import arranged, contiguous_format, memory_order, strided
from ferro.core.looped import by_slices
from ferro.core.mode import ACTIVE, is_inference_mode_enabled

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "arange", "can_cast", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like", "is_floating_point",
    "is_tensor", "linspace", "logspace", "numel", "ones", "range_", "result_type", "scalar_tensor", "zeros",
]  # fmt: skip


def finish(name: str, data: Any, requires_grad: bool, device: Any = None) -> Any:
    """A new leaf around `data`."""
    if device is not None:
        data = backend.moved(data, _device.known(device))
    t = wrap(data)
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
    - `device` (device, default None): only "cpu"
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
        return backend.complex_half(_filled(name, shape, value, dtypes.complex64, False, device, out), requires_grad)
    shape = sizes(name, shape)
    d = chosen_dtype(dtype, out, dtypes.default().np)
    try:
        if value:
            a = np.empty(shape, d)
            a.fill(value)
        else:
            a = np.zeros(shape, d)
    except ValueError:
        refuse_shape(name, shape)
        raise
    return result_or_out(name, a, out, requires_grad, device)


def _sparse(name: str, shape: Any, dtype: Any, layout: Any, requires_grad: bool, out: Any) -> Any:
    if out is not None:
        raise RuntimeError(f"{name}: out= is a dense tensor, which does not have the layout {layout}")
    return backend.sparse_empty(name, sizes(name, shape), dtype, layout, requires_grad)


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
    - `device` (device, default None): only "cpu"
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
    - `device` (device, default None): only "cpu"
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


def empty(
    *shape: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
    **ignored: Any,
) -> Tensor:
    """A tensor without set values (zeros here).

    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `out` (Tensor, default None): a tensor of another shape, resized
    - `dtype` (dtype, default None): None: the default dtype
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides; None: C order
    - `layout` (layout, default None): ferro.sparse_coo makes a sparse tensor without values
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for a negative size.

    Example::

        >>> import ferro
        >>> ferro.empty(2, 3).shape
        ferro.Size([2, 3])
    """
    shape = with_size("empty", shape, size)
    if layout not in (None, strided):
        return _sparse("empty", shape, dtype, layout, requires_grad, out)
    if memory_format in (None, contiguous_format):
        return _filled(
            "empty",
            shape,
            0 if dtype is dtypes.complex32 else unset(chosen_dtype(dtype, out, dtypes.default().np)),
            dtype,
            requires_grad,
            device,
            out,
        )
    shape = sizes("empty", shape)
    return empty_permuted(
        shape,
        memory_order("empty", len(shape), memory_format) or range(len(shape)),
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
    )


MOST_BYTES = 2**63 - 1


def refuse_shape(name: str, shape: tuple) -> None:
    """Raises for a shape that no tensor has: a size is negative, or the number of elements is beyond 64 bits."""
    if shape and min(shape) < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if 0 in shape:
        raise RuntimeError(f"{name}: Stride calculation overflowed with sizes={list(shape)}")
    raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(shape)}")


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor without set values with given strides.

    - `size` (ints): the shape
    - `stride` (ints): the steps in memory along each dimension, in elements
    - `dtype` (dtype, default None): None: the default dtype
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for numbers of sizes and strides that differ, and negative ones.

    Example::

        >>> import ferro
        >>> ferro.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    size, stride = sizes("empty_strided", (size,)), sizes("empty_strided", (stride,))
    if len(size) != len(stride):
        raise RuntimeError(
            f"empty_strided: dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if size and min(size) < 0:
        refuse_shape("empty_strided", size)
    extent = 1 + builtins.sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    if not 0 <= extent * d.itemsize <= MOST_BYTES or (stride and min(stride) < 0):
        raise RuntimeError(
            f"empty_strided: Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}"
        )
    a = np.lib.stride_tricks.as_strided(unset_array(max(extent, 1), d), size, [s * d.itemsize for s in stride])
    return finish("empty_strided", a, requires_grad, device)


def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor without set values whose dimensions lie in memory in a given order.

    - `size` (ints): the shape
    - `physical_layout` (ints): the dimensions, the one with the largest stride first
    - `dtype` (dtype, default None): None: the default dtype
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for an order that does not name each dimension once.

    Example::

        >>> import ferro
        >>> ferro.empty_permuted((2, 3, 5), (1, 0, 2)).stride()
        (5, 10, 1)
    """
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    size, order = tuple(size), tuple(physical_layout)
    if len(order) != len(size):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}, for {size} and {order}"
        )
    for i, o in enumerate(order):
        if not 0 <= o < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {o} at index {i}).  NB: negative "
                "dims not currently supported; file an issue if you want it. (in physical_layout)"
            )
    if len(set(order)) != len(order):
        raise RuntimeError(f"empty_permuted: Duplicate dim not allowed in physical_layout, got {order}")
    a = unset_array([size[i] for i in order], d).transpose(np.argsort(order))
    return finish("empty_permuted", a, requires_grad, device)


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
    - `device` (device, default None): only "cpu"
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
        return backend.complex_half(full(size, value, out=out, dtype=dtypes.complex64, device=device), requires_grad)
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
    - `device` (device, default None): only "cpu"
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
    return finish("full_like", arranged("full_like", data, input._data, memory_format), requires_grad, device)


def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
    **ignored: Any,
) -> Tensor:
    """A tensor like `input` without set values (zeros here).

    - `input` (Tensor): has the shape
    - `dtype` (dtype, default None): None: that of `input`
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides; None: that of `input`
    - `layout` (layout, default None): None: that of `input`
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.empty_like(ferro.ones(2, 3)).shape
        ferro.Size([2, 3])
    """
    if layout not in (None, strided):
        raise NotImplementedError(
            "empty_like: Could not run 'aten::empty_strided' with arguments from the 'SparseCPU' backend: a "
            f"dense tensor has none like it of layout {layout}; use zeros_like"
        )
    value = unset(input._data.dtype if dtype is None else dtypes.to_numpy(dtype))
    return full_like(input, value, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format)


def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers start, start + step, ... below `end`.

    Called as `arange(end)`, `arange(start, end)` or `arange(start, end, step)`.

    - `start` (number, default 0): the first, included
    - `end` (number, default None): the last, not included
    - `step` (number, default 1): may be negative
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: int64 if all three are integers, else the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    An integer dtype, or that of `out`, cuts the three to integers first; a step of 0 then raises ValueError, else
    RuntimeError, as do a step away from `end` and infinite bounds.

    Example::

        >>> import ferro
        >>> ferro.arange(4)
        tensor([0, 1, 2, 3])
        >>> ferro.arange(1, 2.5, 0.5)
        tensor([1.0000, 1.5000, 2.0000])
    """
    if end is None:
        start, end = 0, start
    if type(start) is type(end) is type(step) is int and (end - start) * step > 0 and dtype is None and out is None:
        return finish("arange", np.arange(start, end, step, dtype=dtypes.int64.np), requires_grad, device)
    given = [v.item() if isinstance(v, (TensorBase, np.generic)) else v for v in (start, end, step)]  # type: ignore[attr-defined]
    start, end, step = given
    if any(isinstance(v, complex) for v in given):
        raise RuntimeError(f"arange: start, end and step must be real numbers, got {tuple(given)}")
    _refuse_range("arange", start, end, step)
    integers = all(isinstance(v, int) for v in given)
    d = chosen_dtype(dtype, out, dtypes.int64.np if integers else dtypes.default().np)
    if d.kind in "bc":
        raise NotImplementedError(
            f"arange: \"arange_cpu\" not implemented for '{dtypes.type_name(dtypes.FROM_NUMPY[d])}'"
        )
    if d.kind in "iu" and not integers:
        start, end, step, integers = int(start), int(end), int(step), True
        if step == 0:
            raise ValueError(f"arange: step must be nonzero, but as {dtypes.FROM_NUMPY[d]} {given[2]} is 0")
    size = -((start - end) // step) if integers else (end - start) / step
    if size > MOST_BYTES or (integers and not max(abs(start), abs(end)) <= MOST_BYTES):
        raise RuntimeError(f"arange: invalid size, possible overflow? {size} numbers from {start} to {end}")
    n = max(0, math.ceil(size))
    a = (start + step * np.arange(n, dtype=np.int64 if integers else np.float64)).astype(d)
    return listed("arange", a, out, requires_grad, device)


def _refuse_range(name: str, start: Any, end: Any, step: Any) -> None:
    """RuntimeError for a row of numbers without end, or that never comes to its end."""
    if step == 0:
        raise RuntimeError(f"{name}: step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"{name}: unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"{name}: upper bound and lower bound inconsistent with step sign ({start}, {end}, {step})")


def chosen_dtype(dtype: Any, out: Any, otherwise: Any) -> Any:
    """The NumPy dtype asked for, else that of `out`, else another."""
    return dtypes.to_numpy(dtype) if dtype is not None else otherwise if out is None else out._data.dtype


def result_or_out(name: str, data: Any, out: Any, requires_grad: bool, device: Any) -> Any:
    """A new leaf around `data`, or `out` with that content; its dtype must be the one asked for."""
    if out is None:
        return finish(name, data, requires_grad, device)
    need_tensor(name, "out", out)
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


def _spaced(name: str, start: Any, end: Any, steps: int, dtype: Any, out: Any) -> tuple:
    """Evenly spaced numbers, and the dtype of the result: complex if a bound is."""
    try:
        steps = operator.index(steps)
    except TypeError:
        given = ", ".join("Tensor" if isinstance(v, TensorBase) else type(v).__name__ for v in (start, end, steps))
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({given}): argument 'steps' (position 3) must be int, "
            f"not {type(steps).__name__}"
        ) from None
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, got {steps}")
    for argument, v in (("start", start), ("end", end)):
        if isinstance(v, TensorBase) and v._data.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {argument} with {v._data.ndim} "
                "dimension(s)."
            )
    start, end = [_number(v) for v in (start, end)]
    is_complex = any(isinstance(v, (complex, np.complexfloating)) for v in (start, end))
    inferred = dtypes.default().to_complex().np if is_complex else dtypes.default().np
    d = chosen_dtype(dtype, out, inferred)
    if is_complex and d.kind != "c":
        have, want = dtypes.FROM_NUMPY[inferred], dtypes.FROM_NUMPY[d]
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {dtypes.C_NAMES[have]} can't be safely cast to passed dtype "
            f"{dtypes.type_name(want)}: start or end is complex, and numbers between them have no place in {want}"
        )
    return np.linspace(start, end, steps), d


@by_slices
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Evenly spaced numbers from `start` to `end`, both included.

    - `start`, `end` (number or 0-d Tensor): the ends
    - `steps` (int): how many numbers
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype, or its complex one if an end is complex
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    The result is (steps). RuntimeError for negative steps.

    Example::

        >>> import ferro
        >>> ferro.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    a, d = _spaced("linspace", start, end, steps, dtype, out)
    return listed("linspace", a.astype(d), out, requires_grad, device)


@by_slices
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Powers of a base: base to each of the evenly spaced numbers from `start` to `end`, both included.

    - `start`, `end` (number or 0-d Tensor): the first and the last exponent
    - `steps` (int): how many numbers
    - `base` (float, default 10.0): the base
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype, or its complex one if an end is complex
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    The result is (steps). RuntimeError for negative steps.

    Example::

        >>> import ferro
        >>> ferro.logspace(0, 2, 3).round()
        tensor([  1.,  10., 100.])
    """
    a, d = _spaced("logspace", start, end, steps, dtype, out)
    return listed("logspace", np.power(float(base), a).astype(d), out, requires_grad, device)


def range_(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers start, start + step, ... up to `end`, which is included. Deprecated: warns; use arange.

    - `start`, `end`, `step` (number, default 0 and None and 1): as in arange
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype, for integers too
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a step of 0, a step away from `end` and infinite bounds.

    Example::

        >>> import ferro
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"): ferro.range(1, 3)
        tensor([1., 2., 3.])
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        stacklevel=2,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = [v.item() if isinstance(v, (TensorBase, np.generic)) else v for v in (start, end, step)]  # type: ignore[attr-defined]
    _refuse_range("range", start, end, step)
    d = chosen_dtype(dtype, out, dtypes.default().np)
    n = math.floor((end - start) / step + 1)
    return listed("range", (start + step * np.arange(n)).astype(d), out, requires_grad, device)


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
    - `device` (device, default None): only "cpu"
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


def _for_each(like: Any, t: Any) -> Any:
    """A new tensor; under vmap one for each slice of `like`, into which something else may be written."""
    if type(like._data) is not np.ndarray:
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
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_full((2,), 7)
        tensor([7, 7])
    """
    return _for_each(
        self, full(size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
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
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_ones(2).dtype
        ferro.int64
    """
    return _for_each(
        self, ones(*shape, size=size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
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
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_empty(2).dtype
        ferro.int64
    """
    return _for_each(
        self, empty(*shape, size=size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)
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
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


class CreationMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_full = new_full
    new_ones = new_ones
    new_empty = new_empty
    new_empty_strided = new_empty_strided
