"""Normalisation of NumPy arrays (over layers, by the root mean square, over groups and batches) and its backward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import xp
from ferro.cpu.array_function import array_function
from ferro.cpu.namespace import cpu

__all__ = [
    "batch_norm",
    "batch_norm_vjp",
    "group_norm",
    "group_norm_vjp",
    "layer_norm",
    "layer_norm_vjp",
    "rms_norm",
    "rms_norm_vjp",
]


def _root(x: Any, dims: tuple, mean: Any, eps: float) -> tuple:
    """x - mean, its mean square over `dims` and 1 / sqrt(that + eps), in float64: squares leave the range of float32."""
    with np.errstate(all="ignore"):  # (of no numbers there is no mean)
        d = x - mean
        square = np.sum(d * d, dims, np.float64, keepdims=True) / math.prod([x.shape[dim] for dim in dims])
        return d, square, 1 / np.sqrt(square + eps)


def _statistics(x: Any, dims: tuple, eps: float) -> tuple:
    """The same for the mean of x over `dims`, and that mean."""
    with np.errstate(all="ignore"):
        mean = np.sum(x, dims, np.float64, keepdims=True) / math.prod([x.shape[dim] for dim in dims])
    return *_root(x, dims, mean, eps), mean


def _in_order(*arrays: Any) -> list:
    """Arrays in C order, as their gradients shall be."""
    return [np.ascontiguousarray(a) for a in arrays]


def _scaled(z: Any, dtype: Any, weight: Any, bias: Any) -> Any:
    """z weight + bias in that dtype and in C order; either may be absent."""
    out = z.astype(dtype, "C", copy=False)
    out = out if weight is None else out * weight.astype(dtype, copy=False)
    return out if bias is None else out + bias.astype(dtype, copy=False)


# -- layers ------------------------------------------------------------------------------------------------------------


def _layer_norm(x: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple:
    """(x - mean) / sqrt(var + eps) over the last n dimensions, scaled and shifted; and the mean and 1 / sqrt(var + eps) of
    each row.
    """
    d, _, r, mean = _statistics(x, xp.rows_and_columns(x.ndim, n)[0], eps)
    return _scaled(d * r, x.dtype, weight, bias), _vector(mean, x), _vector(r, x)


def _vector(a: Any, x: Any) -> Any:
    """Statistics as a vector of the dtype of x."""
    with np.errstate(over="ignore"):
        return a.reshape(-1).astype(x.dtype, copy=False)


def _layer_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of layer_norm by x, weight and bias (None where `needs` says so)."""
    g, x = _in_order(g, x)
    dims, sums = xp.rows_and_columns(x.ndim, n)
    column = (*x.shape[: x.ndim - n], *[1] * n)
    r = rstd.reshape(column)
    return xp.norm_vjp(cpu, g, (x - mean.reshape(column)) * r, r, weight, dims, sums, needs)


def _rms_norm(x: Any, weight: Any, n: int, eps: float) -> tuple:
    """x / sqrt(mean(x^2) + eps) over the last n dimensions, scaled; and 1 / sqrt(mean(x^2) + eps) of each row."""
    d, _, r = _root(x, xp.rows_and_columns(x.ndim, n)[0], np.float64(0), eps)
    return _scaled(d * r, x.dtype, weight, None), _vector(r, x)


def _rms_norm_vjp(g: Any, x: Any, weight: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of rms_norm by x and weight (None where `needs` says so)."""
    g, x = _in_order(g, x)
    dims, sums = xp.rows_and_columns(x.ndim, n)
    r = rstd.reshape((*x.shape[: x.ndim - n], *[1] * n))
    return xp.norm_vjp(cpu, g, x * r, r, weight, dims, sums, needs, centred=False)


layer_norm = array_function(
    "layer_norm",
    "x weight weight trailing number -> x rows rows +",
    formula=_layer_norm,
    loop="jit_norm.layer_norm",
    grain=4,
)
layer_norm_vjp = array_function(
    "layer_norm_vjp",
    "x = weight rows rows trailing any needs -> x weight weight ?",
    formula=_layer_norm_vjp,
    loop="jit_norm.layer_norm_vjp",
    small="jit_small_rows.layer_norm_vjp",
)
rms_norm = array_function(
    "rms_norm", "x weight trailing number -> x rows +", formula=_rms_norm, loop="jit_norm.rms_norm", grain=4
)
rms_norm_vjp = array_function(
    "rms_norm_vjp",
    "x = weight rows trailing any needs -> x weight ?",
    formula=_rms_norm_vjp,
    loop="jit_norm.rms_norm_vjp",
    small="jit_small_rows.rms_norm_vjp",
)


# -- groups of channels ------------------------------------------------------------------------------------------------


def _group_norm(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple:
    """layer_norm of each group of channels (dimension 1), then scaled and shifted per channel; and its mean and rstd."""
    each, places = x.shape[1] // groups, math.prod(x.shape[2:])
    d, _, r, mean = _statistics(x.reshape((len(x), groups, each * places)), (2,), eps)
    weight, bias = [a if a is None else a.reshape(xp.batch_and_column(x.ndim)[1]) for a in (weight, bias)]
    return _scaled((d * r).reshape(x.shape), x.dtype, weight, bias), _vector(mean, x), _vector(r, x)


def _group_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple) -> tuple:
    """The backward of group_norm by x, weight and bias (None where `needs` says so)."""
    g, x = _in_order(g, x)
    column = (len(x), groups, 1, 1)
    r = rstd.reshape(column)
    z = (x.reshape((len(x), groups, x.shape[1] // groups, -1)) - mean.reshape(column)) * r
    return xp.of_groups(cpu, g, x.shape, z, r, weight, needs)


group_norm = array_function(
    "group_norm",
    "x channel channel groups number -> x rows rows",
    formula=_group_norm,
    loop="jit_norm.group_norm",
)
group_norm_vjp = array_function(
    "group_norm_vjp",
    "x = channel rows rows groups any needs -> x channels channels",
    formula=_group_norm_vjp,
    loop="jit_norm.group_norm_vjp",
    small="jit_small_rows.group_norm_vjp",
)


# -- channels of a batch -----------------------------------------------------------------------------------------------


def _batch_norm(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> tuple:
    """(x - mean) / sqrt(var + eps) for each channel (dimension 1), scaled and shifted; and the mean and biased variance
    used.
    """
    dims, column = xp.batch_and_column(x.ndim)
    if training:
        d, var, _, mean = _statistics(x, dims, eps)
    else:
        mean, var = running_mean.reshape(column), running_var.reshape(column)
        d = x - mean
    r = 1 / np.sqrt(var + eps)
    weight, bias = [a if a is None else a.reshape(column) for a in (weight, bias)]
    return _scaled(d * r, x.dtype, weight, bias), _vector(mean, x), _vector(var, x)


def _batch_norm_vjp(
    g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple
) -> tuple:
    """The backward of batch_norm by x, weight and bias (None where `needs` says so)."""
    g, x = _in_order(g, x)
    return xp.by_statistics(cpu, g, x, weight, mean, var, training, eps, needs)


batch_norm = array_function(
    "batch_norm",
    "x channel channel channel channel flag number -> x channels channels",
    formula=_batch_norm,
    loop="jit_batch_norm.batch_norm",
)
batch_norm_vjp = array_function(
    "batch_norm_vjp",
    "x = channel channels channels flag number needs -> x channels channels",
    formula=_batch_norm_vjp,
    loop="jit_batch_norm.batch_norm_vjp",
)
