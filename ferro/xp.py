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


def prelu(xp: Any, x: Any, w: Any) -> Any:
    """x where x > 0, else w x."""
    return xp.where(x > 0, x, w * x)


def all_equal(xp: Any, x: Any, y: Any) -> bool:
    """Whether arrays of one shape have the same elements."""
    return bool((x == y).all())


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


def norm_vjp(
    xp: Any,
    g: Any,
    z: Any,
    r: Any,
    weight: Any,
    dims: tuple,
    sums: tuple,
    needs: tuple,
    *,
    centred: bool = True,
) -> tuple:
    """The gradients by x, weight and bias, those that are needed, of z weight + bias. z is (x - mean) r, and x r where it is
    not centred; over `dims` its mean square is 1, and where there are none, mean and r do not depend on x. Weight and bias
    are the same along `sums`.
    """
    dx = None
    if needs[0]:
        dx = h = g if weight is None else g * weight
        if dims:
            dx = dx - z * xp.mean(h * z, dims, True)
            dx = dx - xp.mean(h, dims, True) if centred else dx
        dx = dx * r
    found = dx, _summed(xp, g * z, sums) if needs[1] else None, _summed(xp, g, sums) if needs[-1] else None
    return found[: len(needs)]


def _summed(xp: Any, x: Any, dims: tuple) -> Any:
    return xp.sum(x, dims, False) if dims else x


def _standard(xp: Any, d: Any, dims: tuple, eps: float) -> tuple:
    """d over the root of its mean square, and 1 over that root."""
    r = xp.rsqrt(xp.mean(d * d, dims, True) + eps)
    return d * r, r


def rows_and_columns(ndim: int, n: int) -> tuple[tuple, tuple]:
    """The last n dimensions, and those before them."""
    return tuple(range(ndim - n, ndim)), tuple(range(ndim - n))


def batch_and_column(ndim: int) -> tuple[tuple, tuple]:
    """All dimensions but the second, and the shape in which a vector lies along that."""
    return (0, *range(2, ndim)), (1, -1, *[1] * (ndim - 2))


def layer_norm_vjp(
    xp: Any, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, eps: float, needs: tuple
) -> tuple:
    """The backward of layer_norm. Like those below it computes the statistics anew, so that they have a history."""
    dims, sums = rows_and_columns(x.ndim, n)
    z, r = _standard(xp, x - xp.mean(x, dims, True), dims, eps)
    return norm_vjp(xp, g, z, r, weight, dims, sums, needs)


def rms_norm_vjp(xp: Any, g: Any, x: Any, weight: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of rms_norm by x and weight."""
    dims, sums = rows_and_columns(x.ndim, n)
    z, r = _standard(xp, x, dims, eps)
    return norm_vjp(xp, g, z, r, weight, dims, sums, needs, centred=False)


def group_norm_vjp(
    xp: Any, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple
) -> tuple:
    """The backward of group_norm by x, weight and bias."""
    d = x.reshape((x.shape[0], groups, x.shape[1] // groups, -1))
    z, r = _standard(xp, d - xp.mean(d, (2, 3), True), (2, 3), eps)
    return of_groups(xp, g, x.shape, z, r, weight, needs)


def of_groups(xp: Any, g: Any, shape: tuple, z: Any, r: Any, weight: Any, needs: tuple) -> tuple:
    """`norm_vjp` of z with the dimensions (image, group, channel, place), where x has that shape."""
    w = weight if weight is None else weight.reshape((1, z.shape[1], -1, 1))
    dx, *others = norm_vjp(xp, g.reshape(z.shape), z, r, w, (2, 3), (0, 3), needs)
    dx = dx if dx is None else dx.reshape(shape)
    return dx, *[a if a is None else a.reshape(-1) for a in others]


def batch_norm_vjp(
    xp: Any, g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple
) -> tuple:
    """The backward of batch_norm by x, weight and bias; `training`: the statistics are those of x."""
    if training:
        dims, _ = batch_and_column(x.ndim)
        mean = xp.mean(x, dims, True)
        d = x - mean
        var = xp.mean(d * d, dims, True)
    return by_statistics(xp, g, x, weight, mean, var, training, eps, needs)


def by_statistics(
    xp: Any, g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple
) -> tuple:
    """The same with the mean and the variance that are given."""
    dims, column = batch_and_column(x.ndim)
    r = xp.rsqrt(var.reshape(column) + eps)
    w = weight if weight is None else weight.reshape(column)
    return norm_vjp(xp, g, (x - mean.reshape(column)) * r, r, w, dims if training else (), dims, needs)


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
    prelu,
    all_equal,
    leading_sum,
    channel_sum,
    over_norm,
    layer_norm_vjp,
    rms_norm_vjp,
    group_norm_vjp,
    batch_norm_vjp,
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
