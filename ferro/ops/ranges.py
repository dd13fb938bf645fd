"""Ranges: numbers at equal steps, on a line or on a logarithmic scale."""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import TensorBase
from ferro.core.looped import by_slices
from ferro.ops.creation import MOST_BYTES, _number, chosen_dtype, finish, listed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["arange", "linspace", "logspace", "range_"]


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
    - `device` (device, default None): where it lies; None: the default one
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
    start, end = _number(start), _number(end)
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    inferred = dtypes.default().to_complex().np if is_complex else dtypes.default().np
    d = chosen_dtype(dtype, out, inferred)
    if is_complex and d.kind != "c":
        have, want = dtypes.FROM_NUMPY[inferred], dtypes.FROM_NUMPY[d]
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {dtypes.C_NAMES[have]} can't be safely cast to passed dtype "
            f"{dtypes.type_name(want)}: start or end is complex, and numbers between them have no place in {want}"
        )
    if is_complex or steps < 2:
        return np.linspace(start, end, steps), d
    return _even(start, end, steps), d


def _even(start: Any, end: Any, steps: int) -> Any:
    """What np.linspace gives of two real numbers."""
    start, end = float(start), float(end)
    found = np.arange(steps, dtype=np.float64)
    step = (end - start) / (steps - 1)
    if step:
        found *= step
    else:  # (too small for a float)
        found /= steps - 1
        found *= end - start
    found += start
    found[-1] = end
    return found


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
    - `device` (device, default None): where it lies; None: the default one
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
    - `device` (device, default None): where it lies; None: the default one
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
    - `device` (device, default None): where it lies; None: the default one
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
