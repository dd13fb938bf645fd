"""Tensors whose numbers are not set: empty, by their strides, in an order of dimensions, like another."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.arguments import sizes, with_size
from ferro.core.determinism import unset, unset_array
from ferro.core.device import known, wanted
from ferro.core.layout import contiguous_format, memory_order, over, strided
from ferro.ops.creation import MOST_BYTES, _filled, _sparse, chosen_dtype, finish, full_like, placed, refuse_shape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["empty", "empty_like", "empty_permuted", "empty_strided"]


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
    - `device` (device, default None): where it lies; None: the default one
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


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor without set values with given strides.

    - `size` (ints): the shape
    - `stride` (ints): the steps in memory along each dimension, in elements
    - `dtype` (dtype, default None): None: the default dtype
    - `device` (device, default None): where it lies; None: the default one
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
    to = wanted(device)
    memory = unset_array(max(extent, 1), d)
    memory = memory if to is None else backend.moved(memory, known(to))
    return placed("empty_strided", over(memory, size, d, 0, tuple([s * d.itemsize for s in stride])), requires_grad)


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
    - `device` (device, default None): where it lies; None: the default one
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
    - `device` (device, default None): where it lies; None: where `input` does
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
