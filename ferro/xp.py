"""General forms of the array functions that a backend may have in one piece: written with its other functions.

`register` (core/backend.py) gives a backend those that its module lacks; Tensors have these, and `ferro.cpu` its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

FLOAT32 = np.dtype(np.float32)
HALF = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))


def once(xp: Any, formula: Callable, g: Any, *values: Any) -> Any:
    """The elementwise formula of (xp, g, values...); of a 16-bit dtype computed in float32 and rounded once, as in PyTorch."""
    dtype = _numpy_dtype(g)
    if dtype in HALF:
        wide = [xp.cast(v, FLOAT32) if _numpy_dtype(v) in HALF else v for v in (g, *values)]
        return xp.cast(formula(xp, *wide), dtype)
    return formula(xp, g, *values)


def _numpy_dtype(value: Any) -> Any:
    """NumPy's dtype of an array or a tensor; None for anything else."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "np", dtype)


def elementwise(xp: Any, function: Any, *values: Any) -> Any:
    """An elementwise function (elementwise.py), step by step."""
    return once(xp, function.formula, *values)


def in_one_pass(xp: Any, formula: Callable, *values: Any) -> Any:
    """The elementwise formula of (xp, values...)."""
    return formula(xp, *values)


def leading_sum(xp: Any, g: Any) -> Any:
    """g summed over all dimensions but the last."""
    return g if g.ndim < 2 else xp.sum(g, tuple(range(g.ndim - 1)), False)


def channel_sum(xp: Any, g: Any) -> Any:
    """g (n, c, ...) summed over all dimensions but the second."""
    return xp.sum(g, (0, *range(2, g.ndim)), False)


def over_norm(xp: Any, x: Any, g: Any, norm: Any) -> Any:
    """x g / norm, where |x| is at most some times the norm, and 0 where that is 0: in this order, since g / norm may
    leave the range.
    """
    zero = norm == 0
    return x / xp.where(zero, 1.0, norm) * xp.where(zero, 0.0, g)


def loss_of_difference(
    xp: Any, loss: Callable, kind: str, x: Any, y: Any, parameter: float, factor: float, reduction: str
) -> Any:
    """loss(xp, x - y, parameter) of each element, reduced; it is `factor` times the loss that `kind` names."""
    values = xp.once(lambda xp, x, y, parameter: loss(xp, x - y, parameter), x, y, parameter)
    if reduction == "none":
        return values
    dims = tuple(range(values.ndim))
    return xp.mean(values, dims, False) if reduction == "mean" else xp.sum(values, dims, False)


def slope_of_difference(
    xp: Any, slope: Callable, kind: str, g: Any, x: Any, y: Any, parameter: float, factor: float, scale: float
) -> Any:
    """slope(xp, g scale, x - y, parameter), the gradient of `loss_of_difference` by x before the reduction's part in it."""
    return slope(xp, g if scale == 1 else g * scale, x - y, parameter)


def table_rows(xp: Any, g: Any, indices: Any, count: int, padding: int | None, by_frequency: bool) -> Any:
    """The gradient of a table of which rows were looked up: here a dense one."""
    return xp.add_rows(g, indices, count, padding, by_frequency)


FORMS = (
    once,
    elementwise,
    in_one_pass,
    leading_sum,
    channel_sum,
    over_norm,
    loss_of_difference,
    slope_of_difference,
    table_rows,
)


def complete(module: Any) -> None:
    """Gives a module of array functions the general forms of those that it has not."""
    have = frozenset(dir(module))
    for form in FORMS:
        if form.__name__ not in have:
            setattr(module, form.__name__, _of(form, module))


def _of(form: Callable, module: Any) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        return form(module, *args, **kwargs)

    function.__name__, function.__doc__ = form.__name__, form.__doc__
    return function
