"""make_tensor: tensors of random numbers of any dtype, in a range, on purpose not contiguous or without zeros."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ferro import functional as F
from ferro.core import dtypes
from ferro.ops.random import randint
from ferro.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: Any = None,
    high: Any = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of a shape with numbers drawn uniformly from [low, high), as far as the dtype holds them.

    Without bounds: floating and complex numbers (their parts) from [-9, 9), signed integers from [-9, 10), unsigned ones
    from [0, 10), bools both.  noncontiguous: every other element of a larger tensor, from two elements on.
    exclude_zero: 1, or the smallest normal number, in the place of zeros.

    Raises ValueError for low >= high, nan, a range without numbers of the dtype, requires_grad of integers, and
    noncontiguous together with a memory_format; TypeError for a dtype that ferro does not compute with.

    Example::

        >>> import ferro
        >>> x = ferro.testing.make_tensor((2, 3), dtype=ferro.float32, device="cpu", low=0, noncontiguous=True)
        >>> x.shape, x.is_contiguous(), bool((x >= 0).all())
        (ferro.Size([2, 3]), False, True)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    inexact = isinstance(dtype, dtypes.dtype) and (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "make_tensor: The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not inexact:
        raise ValueError(
            f"make_tensor: `requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    drawn = sizes
    apart = noncontiguous and math.prod(sizes) > 1
    if apart:
        drawn = (*sizes[:-1], 2 * sizes[-1])
    if dtype is dtypes.bool_:
        low, high = _bounds(dtype, low, high, (0, 2), (0, 2))
        result = randint(math.ceil(low), math.ceil(high), drawn, dtype=dtype, device=device)
    elif inexact:
        info = dtypes.finfo(dtype)
        low, high = _bounds(dtype, low, high, (info.min, info.max), (-9, 9))
        result = F.empty(drawn, dtype=dtype, device=device)
        _draw(F.view_as_real(result) if dtype.is_complex else result, low, high)
    else:
        try:
            span = dtypes.iinfo(dtype)
        except (TypeError, NotImplementedError):
            raise TypeError(
                f"make_tensor: The requested dtype '{dtype}' is not supported by torch.testing.make_tensor()"
            ) from None
        # (the end of randint's range is an int64 itself)
        low, high = _bounds(dtype, low, high, (span.min, min(span.max + 1, 2**63 - 1)), (-9, 10))
        result = randint(math.ceil(low), math.ceil(high), drawn, dtype=dtype, device=device)
    if apart:
        result = result[..., 1::2]  # (not from 0 on: mistakes about where a tensor begins show, too)
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = dtypes.finfo(dtype).tiny if inexact else 1
    return result.requires_grad_() if requires_grad else result


def _bounds(dtype: Any, low: Any, high: Any, limits: tuple, default: tuple) -> tuple:
    """Bounds of numbers of a dtype within its limits; ValueError if there are none."""
    low, high = default[0] if low is None else low, default[1] if high is None else high
    least, end = limits
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"make_tensor: `low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 and will be "
            "removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"make_tensor: `low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= end:
        raise ValueError(
            f"make_tensor: The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {end})"
        )
    return min(max(low, least), end), min(max(high, least), end)


def _draw(into: Tensor, low: float, high: float) -> None:
    """uniform_, also where high - low is more than the dtype holds."""
    if high - low >= dtypes.finfo(into.dtype).max:
        into.uniform_(low / 2, high / 2).mul_(2)
    else:
        into.uniform_(low, high)
