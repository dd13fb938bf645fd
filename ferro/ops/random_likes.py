"""Random numbers in the shape of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.layout import arranged, has_memory, moved
from ferro.core.random import stream_of
from ferro.ops.creation import placed
from ferro.ops.random import check_continuous, in_memory_order, rand, randn, whole_bounds

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["rand_like", "randint_like", "randn_like"]


def _like(
    name: str,
    input: Tensor,
    generator: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    memory_format: Any,
    make: Any,
) -> Tensor:
    """What make(stream, shape, dtype, order) draws in the shape, and unless others are asked for in the dtype and order, of `input`."""
    x = input._data
    d = x.dtype if dtype is None else dtypes.to_numpy(dtype)
    plain_order = not has_memory(x) or (memory_format is None and x.flags.c_contiguous)
    target = x if plain_order else arranged(name, np.empty(x.shape, d), x, memory_format)
    where = input.device if device is None else device
    numbers = stream_of(generator, x if device is None else device)
    data = in_memory_order(target, lambda shape, order: make(numbers, shape, d, order))
    return placed(name, data if plain_order else moved(data, target.strides), requires_grad, where)


def rand_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    **ignored: Any,
) -> Tensor:
    """Uniform random numbers from [0, 1) in the shape of a tensor.

    - `input` (Tensor): has the shape
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `dtype` (dtype, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.rand_like(ferro.zeros(2, 3)).shape
        ferro.Size([2, 3])
    """
    if (dtype or input.dtype) is dtypes.complex32:
        return rand(
            input._data.shape,
            generator=generator,
            dtype=dtypes.complex32,
            requires_grad=requires_grad,
            device=device or input.device,
        )

    check_continuous("uniform", input._data.dtype if dtype is None else dtypes.to_numpy(dtype))
    return _like(
        "rand_like",
        input,
        generator,
        dtype,
        device,
        requires_grad,
        memory_format,
        lambda numbers, shape, d, _: numbers.uniform(shape, d),
    )


def randn_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    **ignored: Any,
) -> Tensor:
    """Standard normal random numbers in the shape of a tensor.

    - `input` (Tensor): has the shape
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `dtype` (dtype, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.randn_like(ferro.zeros(2, 3)).shape
        ferro.Size([2, 3])
    """
    if (dtype or input.dtype) is dtypes.complex32:
        return randn(
            input._data.shape,
            generator=generator,
            dtype=dtypes.complex32,
            requires_grad=requires_grad,
            device=device or input.device,
        )

    check_continuous("normal", input._data.dtype if dtype is None else dtypes.to_numpy(dtype))
    return _like(
        "randn_like",
        input,
        generator,
        dtype,
        device,
        requires_grad,
        memory_format,
        lambda numbers, shape, d, order: numbers.normal(shape, d, 0.0, 1.0, order is None),
    )


def randint_like(
    input: Tensor,
    low: Any = 0,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    **ignored: Any,
) -> Tensor:
    """Random integers from [low, high) in the shape of a tensor: `randint_like(input, high)` counts from 0.

    - `input` (Tensor): has the shape
    - `low` (int or 0-d Tensor, default 0): the least
    - `high` (int or 0-d Tensor, default None): one above the largest
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `dtype` (dtype, default None): None: that of `input`
    - `device` (device, default None): where it lies; None: where `input` does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `memory_format` (memory_format, default None): the order of the strides
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for high <= low.

    Example::

        >>> import ferro
        >>> ferro.randint_like(ferro.zeros(2, 3), 5, 6)
        tensor([[5., 5., 5.],
                [5., 5., 5.]])
    """
    if high is None:
        low, high = 0, low
    low, high = whole_bounds("randint_like", low, high, input._data.dtype if dtype is None else dtypes.to_numpy(dtype))
    return _like(
        "randint_like",
        input,
        generator,
        dtype,
        device,
        requires_grad,
        memory_format,
        lambda numbers, shape, d, _: numbers.integers(shape, d, low, high),
    )
