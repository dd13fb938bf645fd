"""Random tensors: uniform, normal and integer numbers, and permutations."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import Batched, as_array, plain
from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import sizes, unlike, with_size
from ferro.core.base import TensorBase, wrap
from ferro.core.device import wanted
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import constant
from ferro.core.random import stream_of
from ferro.core.requirements import require
from ferro.ops.bounds import whole_bounds
from ferro.ops.creation import chosen_dtype, placed, refuse_shape, result_or_out

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["normal", "rand", "randint", "randn", "randperm"]


def check_continuous(kind: str, d: Any) -> None:
    """NotImplementedError for a dtype without fractions."""
    if d not in dtypes.INEXACT:
        asked, check = dtypes.FROM_NUMPY[d], "check_uniform_bounds" if kind == "uniform" else "normal_kernel_cpu"
        raise NotImplementedError(
            f"\"{check}\" not implemented for '{dtypes.type_name(asked)}': {kind} random numbers are not implemented for {asked}; use a "
            "floating-point dtype"
        )


def place_of(out: Any, device: Any) -> Any:
    """Where new numbers are to lie: None for the processor."""
    return wanted(device) if out is None else getattr(out, "_data", None)


def _drawn(
    name: str, kind: str, size: tuple, generator: Any, out: Any, dtype: Any, requires_grad: bool, device: Any
) -> Any:
    if dtype is dtypes.complex32:
        return _drawn(name, kind, size, generator, out, dtypes.complex64, False, device)._complex_half(requires_grad)
    shape, d = sizes(name, size), chosen_dtype(dtype, out, dtypes.default().np)
    check_continuous(kind, d)
    numbers = stream_of(generator, place_of(out, device))
    data = (numbers.uniform if kind == "uniform" else numbers.normal)(shape, d)
    return result_or_out(name, data, out, requires_grad, device)


def rand(
    *shape: Any,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform random numbers from [0, 1).

    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `generator` (Generator, default None): the source of the numbers, else the default one; manual_seed() makes them
      repeatable
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    NotImplementedError for an integer dtype.

    Example::

        >>> import ferro
        >>> _ = ferro.manual_seed(0)
        >>> x = ferro.rand(2, 3)
        >>> x.shape, bool((x < 1).all())
        (ferro.Size([2, 3]), True)
    """
    return _drawn("rand", "uniform", with_size("rand", shape, size), generator, out, dtype, requires_grad, device)


def randn(
    *shape: Any,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Random numbers from the standard normal distribution.

    - `*shape` (ints): the sizes, or one tuple of them
    - `size` (ints, default None): the same by name
    - `generator` (Generator, default None): the source of the numbers, else the default one; manual_seed() makes them
      repeatable
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    NotImplementedError for an integer dtype.

    Example::

        >>> import ferro
        >>> ferro.randn(2, 3, generator=ferro.Generator().manual_seed(0)).shape
        ferro.Size([2, 3])
    """
    return _drawn("randn", "normal", with_size("randn", shape, size), generator, out, dtype, requires_grad, device)


def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Random integers from [low, high): `randint(low, high, size)`, or `randint(high, size)` from 0.

    - `low` (int, default None): the least
    - `high` (int, default None): one above the largest
    - `size` (ints, default None): the shape
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: int64
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    RuntimeError for high <= low, and where the dtype does not hold `low` or ``high - 1``.

    Example::

        >>> import ferro
        >>> dice = ferro.randint(1, 7, (1000,))
        >>> dice.unique()
        tensor([1, 2, 3, 4, 5, 6])
    """
    if size is None:  # randint(high, size)
        high, size = None, high
    if high is None:
        low, high = 0, low
    low = 0 if low is None else low
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    d = chosen_dtype(dtype, out, dtypes.int64.np)
    low, high = whole_bounds("randint", low, high, d)
    data = stream_of(generator, place_of(out, device)).integers(sizes("randint", (size,)), d, low, high)
    return result_or_out("randint", data, out, requires_grad, device)


def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    - `n` (int): how many
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: int64
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    The result is (n). RuntimeError for a negative n.

    Example::

        >>> import ferro
        >>> ferro.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}") from None
    if n < 0:
        refuse_shape("randperm", (n,))
    d = chosen_dtype(dtype, out, dtypes.int64.np)
    asked = dtypes.FROM_NUMPY[d]
    if d.kind in "bc":
        raise NotImplementedError(f"\"randperm\" not implemented for '{dtypes.type_name(asked)}'")
    if d.kind in "iu":
        dtypes.check_number("randperm", max(n - 1, 0), d)
    elif n - 1 > (most := round(2 / dtypes.finfo(asked).eps)):
        raise RuntimeError(
            f"randperm: n cannot be greater than {most + 1} for {dtypes.type_name(asked)} type. {n} was given: not all "
            f"of its numbers are exact in {asked}"
        )
    data = stream_of(generator, place_of(out, device)).permutation(n).astype(d)
    return result_or_out("randperm", data, out, requires_grad, device)


def in_memory_order(like: Any, make: Any) -> Any:
    """What make(shape, order) draws for an array like this one: PyTorch fills a tensor in the order of its memory.

    order: its dimensions, the slowest first; None for C order.
    """
    if type(like) is Batched or like.flags.c_contiguous:
        return make(like.shape, None)
    order = sorted(range(like.ndim), key=lambda k: -abs(like.strides[k]))
    return make(tuple([like.shape[k] for k in order]), order).transpose(np.argsort(order).tolist())


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """Normal random numbers with given means and standard deviations.

    - `mean`, `std` (Tensor or float, default 0.0 and 1.0): one for each number, with broadcasting; their gradients are zero
    - `size` (ints, default None): the shape, where both are numbers
    - `generator` (Generator, default None): the source of random numbers, else the default one
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype, or that of the tensors
    - `device` (device, default None): where it lies; None: where `mean` or `std` does, else the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    RuntimeError for a negative standard deviation and shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.normal(ferro.tensor([1.0, 2.0]), 0.0)
        tensor([1., 2.])
    """
    near = next((v._data for v in (mean, std) if isinstance(v, TensorBase)), np.zeros(()))
    if isinstance(std, TensorBase) and std._data.dtype in dtypes.COMPLEX:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    _check_std(std)
    if size is None:
        tensors = [v for v in (mean, std) if isinstance(v, TensorBase)]
        if not tensors:
            raise TypeError("normal: size must be given when mean and std are numbers")
        shapes = [t._data.shape for t in tensors]
        try:
            size = np.broadcast_shapes(*shapes)
        except ValueError:
            raise unlike("normal", shapes) from None
        dtype = dtype or dtypes.FROM_NUMPY[tensors[0]._data.dtype]
    d = dtypes.to_numpy(dtype) if dtype is not None else dtypes.default().np if out is None else out._data.dtype
    check_continuous("normal", d)
    is_given = isinstance(mean, TensorBase) or isinstance(std, TensorBase)
    where = near if is_given else device if out is None else out._data
    shape, numbers = sizes("normal", (size,)), stream_of(generator, where)
    make = _normal_there if type(near) in backend.DEVICES else _normal_here
    result = backend.beside(near, as_array(make(numbers, shape, d, mean, std)).astype(d, copy=False))
    if out is not None:
        return into("normal", out, wrap(result))
    if requires_grad or not is_given:
        return placed("normal", result, requires_grad, device)
    given: list[Any] = [v if isinstance(v, TensorBase) else constant(v, d) for v in (mean, std)]
    return result_of(NORMAL, tuple([t.to(dtypes.FROM_NUMPY[d]) for t in given]), result)


def _normal_here(numbers: Any, shape: tuple, d: Any, mean: Any, std: Any) -> Any:
    """Numbers with means and standard deviations that are numbers or tensors on the processor."""
    means, deviations = [backend.on_host(v._data) if isinstance(v, TensorBase) else v for v in (mean, std)]
    if isinstance(std, TensorBase):
        return as_array(numbers.normal(shape, d) * deviations).astype(d) + means
    if isinstance(mean, TensorBase):
        return numbers.normal(shape, d, 0.0, float(std)) + means
    return numbers.normal(shape, d, float(mean), float(std))


def _normal_there(numbers: Any, shape: tuple, d: Any, mean: Any, std: Any) -> Any:
    """Numbers of a device with means and standard deviations of which one is a tensor there."""
    mean, std = [v.detach() if hasattr(v, "detach") else v for v in (mean, std)]
    return (wrap(numbers.normal(shape, d)) * std + mean).to(dtypes.FROM_NUMPY[d])._data


def _check_std(std: Any) -> None:
    """RuntimeError for a negative standard deviation."""
    if isinstance(std, TensorBase):
        least = plain(std._data)
        require(
            ~(least < 0), RuntimeError, "normal expects all elements of std >= 0.0", lambda: f", got {np.min(least)}"
        )
    elif np.real(std) < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


NORMAL = Op(
    "normal",
    lambda xp, mean, std, /, drawn: drawn,
    kind=ELEMENTWISE,
    mean=lambda xp, g: xp.zeros_like(g),
    std=lambda xp, g: xp.zeros_like(g),
)


def result_of(op: Op, inputs: tuple, drawn: Any) -> Any:
    """Drawn numbers as the result of an operation that ignores changes of its inputs: their derivatives are zero."""
    for t in inputs:
        if t._node is not None or t._meta is not None:
            return apply(op, inputs, (drawn,))
    return wrap(drawn)
