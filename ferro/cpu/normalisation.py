"""Normalisation of NumPy arrays (layer, root mean square, batch) and its backward; 16 bits are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.array_function import array_function
from ferro.cpu.blocks import HALF
from ferro.cpu.kernels import norm as _kernels
from ferro.cpu.kernels.common import SMALL, has_kernel
from ferro.cpu.kernels.entries import entry
from ferro.cpu.namespace import cpu
from ferro.cpu.reductions import sum
from ferro.cpu.rows import column_sums, row_sums, scalar
from ferro.native.readiness import get

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

vecdot: Any = np.vecdot  # the type stubs do not know keepdims
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))


def _wide(x: Any) -> Any:
    return x if x is None or x.dtype in _PLAIN or x.dtype not in HALF else x.astype(np.float32)


def _rows(x: Any, n: int) -> Any:
    """x as a matrix whose rows are its last n dimensions."""
    if x.ndim == 2 and n == 1:
        return x
    split = x.ndim - n
    return x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:]))


def _flat(v: Any) -> Any:
    """A weight or bias as a vector."""
    return v if v is None or (v.ndim == 1 and v.dtype in _PLAIN) else _wide(v).reshape(-1)


def _like(out: Any, x: Any) -> Any:
    """A result with the dtype and shape of x."""
    if out.shape != x.shape:
        out = out.reshape(x.shape)
    return out if out.dtype is x.dtype else out.astype(x.dtype, copy=False)


def _inverse_root(var: Any, eps: float) -> Any:
    """1 / sqrt(var + eps)."""
    root = var + scalar(eps, var.dtype)
    np.sqrt(root, root)
    return np.reciprocal(root, root)


def _in_reach(rstd: Any) -> bool:
    """Whether the variances behind some 1 / sqrt(var + eps) were in the range of float32; of float64 it is not asked."""
    return rstd.dtype == np.float64 or bool(((rstd > 0) & (rstd < _ROOT_OF_SMALL)).all())


_ROOT_OF_SMALL = 1e15  # the reciprocal root of 1e-30: a larger sum of squares has lost nothing to the range


# -- layers ------------------------------------------------------------------------------------------------------------


def _row_sums(a: Any) -> Any:
    """The sum of each row of a matrix, as a column or (of short rows) in every place of the row."""
    return row_sums(a) if a.size < SMALL else sum(a, (1,), True)


def _column_sums(a: Any) -> Any:
    return column_sums(a) if a.size < SMALL else sum(a, (0,), False)


def _statistics(rows: Any, eps: float) -> tuple:
    """The rows less their means, these means, and 1 / sqrt(var + eps): in float64 where float32 may not do."""
    if rows.size < SMALL:
        count = scalar(rows.shape[1], rows.dtype)
        mean = row_sums(rows)
        mean /= count
        centred = rows - mean
        with np.errstate(over="ignore", invalid="ignore"):
            var = row_sums(centred * centred)
        var /= count
        rstd = _inverse_root(var, eps)
        if _in_reach(rstd):
            return centred, mean, rstd
    mean = rows.mean(1, dtype=np.float64, keepdims=True)
    rstd = 1 / np.sqrt(np.square(rows - mean).mean(1, keepdims=True) + eps)
    mean = mean.astype(rows.dtype)
    return rows - mean, mean, rstd.astype(rows.dtype)


def _layer_norm(x: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple:
    """(x - mean) / sqrt(var + eps) over the last n dimensions, scaled and shifted; and the mean and 1 / sqrt(var + eps) of
    each row.
    """
    out, mean, rstd = _statistics(_rows(x, n), eps)
    out *= rstd
    if weight is not None:
        out = out * _flat(weight)
    if bias is not None:
        out = out + _flat(bias)
    return _like(out, x), mean[:, 0], rstd[:, 0]


def _layer_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of layer_norm by x, weight and bias (None where `needs` says so)."""
    gs, rstd = _rows(g, n), rstd[:, None]
    xhat = (_rows(x, n) - mean[:, None]) * rstd
    shape = x.shape[x.ndim - n :]
    dw = _column_sums(gs * xhat).reshape(shape) if needs[1] else None
    db = _column_sums(gs).reshape(shape) if needs[2] else None
    if not needs[0]:
        return None, dw, db
    gw = gs if weight is None else gs * _flat(weight)
    count = scalar(gw.shape[1], gw.dtype)
    xhat *= _row_sums(gw * xhat) / count
    xhat += _row_sums(gw) / count
    dx = gw - xhat
    dx *= rstd
    return _like(dx, x), dw, db


def _rms_norm(x: Any, weight: Any, n: int, eps: float) -> tuple:
    """x / sqrt(mean(x^2) + eps) over the last n dimensions, scaled; and 1 / sqrt(mean(x^2) + eps) of each row."""
    rows = _rows(x, n)
    with np.errstate(over="ignore"):
        squares = _row_sums(rows * rows)
    rstd = _inverse_root(squares / scalar(rows.shape[1], squares.dtype), eps)
    if not _in_reach(rstd):
        rstd = (1 / np.sqrt(np.square(rows, dtype=np.float64).mean(1, keepdims=True) + eps)).astype(rows.dtype)
    out = rows * rstd
    if weight is not None:
        out = out * _flat(weight)
    return _like(out, x), rstd[:, 0]


def _rms_norm_vjp(g: Any, x: Any, weight: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of rms_norm by x and weight (None where `needs` says so)."""
    gs, rstd = _rows(g, n), rstd[:, None]
    xhat = _rows(x, n) * rstd
    dw = _column_sums(gs * xhat).reshape(x.shape[x.ndim - n :]) if needs[1] else None
    if not needs[0]:
        return None, dw
    gw = gs if weight is None else gs * _flat(weight)
    xhat *= _row_sums(gw * xhat) / scalar(gw.shape[1], gw.dtype)
    return _like((gw - xhat) * rstd, x), dw


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


# -- groups ------------------------------------------------------------------------------------------------------------


def _fits(x: Any) -> bool:
    """Whether kernels normalise the groups of x: it is large, and each channel has some places."""
    return (
        x.ndim > 2 and x.size >= SMALL and x.size >= 8 * x.shape[0] * x.shape[1] and (x.dtype in HALF or has_kernel(x))
    )


def group_norm(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple:
    """layer_norm of each group of channels (dimension 1), then scaled and shifted per channel; and its mean and rstd."""
    if _fits(x):
        out, mean, rstd = _kernels.group_norm(_wide(x), _wide(weight), _wide(bias), groups, eps)
        return _like(out, x), mean, rstd
    rows = _wide(x).reshape(x.shape[0] * groups, -1)
    out, mean, rstd = cpu.layer_norm(rows, None, None, 1, eps)
    out = out.reshape(x.shape[0], x.shape[1], -1)
    if weight is not None:
        out = out * _column(weight)
    if bias is not None:
        out = out + _column(bias)
    return _like(out, x), mean, rstd


def group_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple) -> tuple:
    """The backward of group_norm by x, weight and bias (None where `needs` says so)."""
    if _fits(x):
        wide = _wide(g), _wide(x), _wide(weight), mean, rstd
        dx, dw, db = _kernels.group_norm_vjp(*wide, groups, needs)
        return None if dx is None else dx.astype(x.dtype, copy=False), dw, db
    gs, rows = _channels(_wide(g)), _wide(x).reshape(mean.shape[0], -1)
    dx = dw = None
    if needs[0]:
        gw = gs if weight is None else gs * _column(weight)
        dx = cpu.layer_norm_vjp(gw.reshape(rows.shape), rows, None, mean, rstd, 1, eps, (True, False, False))[0]
        dx = _like(dx, x)
    if needs[1]:
        xhat = ((rows - mean[:, None]) * rstd[:, None]).reshape(gs.shape)
        dw = np.add.reduce(vecdot(gs, xhat), 0)
    return dx, dw, np.add.reduce(np.add.reduce(gs, 2), 0) if needs[2] else None


# -- batches -----------------------------------------------------------------------------------------------------------


def _is_plain(x: Any, *others: Any) -> bool:
    """Whether kernels read these arrays (others: of the same dtype, or None) as they are."""
    return x.size > 0 and all(a is None or (a.dtype is x.dtype and a.flags.carray) for a in (x, *others))


def _channels(x: Any) -> Any:
    """x of shape (N, C, ...) as (N, C, M)."""
    return x[:, :, None] if x.ndim == 2 else x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _column(v: Any) -> Any:
    return _wide(v)[:, None]


def _images(x: Any) -> Any:
    """A small array with channels in dimension 1 as (N, C) or (N, C, M)."""
    x = _wide(x)
    return x if x.ndim == 2 else _channels(x)


def _channel_sum(a: Any) -> Any:
    """The sum of each channel of such an array."""
    if a.ndim > 2:
        n, c, m = a.shape
        a = row_sums(a.reshape(n * c, m))[:, 0].reshape(n, c)
    return column_sums(a)


def _over(v: Any, a: Any) -> Any:
    """A number for each channel in the shape in which it is broadcast over such an array."""
    return v if a.ndim == 2 else v[:, None]


@entry
def batch_norm(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> tuple:
    """(x - mean) / sqrt(var + eps) for each channel (dimension 1), scaled and shifted; and the mean and biased variance
    used.
    """
    if x.size >= SMALL:
        wide = _wide(x)
        dims = (0, *range(2, x.ndim))
        mean, var = _kernels.moments(wide, dims) if training else (_wide(running_mean), _wide(running_var))
        out = _kernels.batch_norm(wide, mean, _inverse_root(var, eps), _wide(weight), _wide(bias))
        return _like(out, x), mean, var
    a, weight, bias = _images(x), _flat(weight), _flat(bias)
    if training:
        if _is_plain(a, weight, bias) and has_kernel(a, "batch_norm", small=True):
            none, channels, dtype = np.empty(0, a.dtype), a.shape[1], a.dtype
            out, mean, var = np.empty(a.shape, dtype), np.empty(channels, dtype), np.empty(channels, dtype)
            weight, bias = none if weight is None else weight, none if bias is None else bias
            get("batch_norm")(_channels(a), weight, bias, float(eps), _channels(out), mean, var)
            return _like(out, x), mean, var
        count = scalar(a.size // max(a.shape[1], 1), a.dtype)
        mean = _channel_sum(a)
        mean /= count
        out = a - _over(mean, a)
        var = _channel_sum(out * out)
        var /= count
    else:
        mean, var = _wide(running_mean), _wide(running_var)
        out = a - _over(mean, a)
    scale = _inverse_root(var, eps)
    if weight is not None:
        scale = scale * weight
    out = out * _over(scale, a)
    if bias is not None:
        out = out + _over(bias, a)
    return _like(out, x), mean, var


@entry
def batch_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple) -> tuple:
    """The backward of batch_norm by x, weight and bias (None where `needs` says so)."""
    if x.size >= SMALL:
        wide = _wide(g), _wide(x), mean, _inverse_root(var, eps), _wide(weight)
        dx, dw, db = _kernels.batch_norm_vjp(*wide, training, needs)
        return None if dx is None else _like(dx, x), dw, db
    a, gs, weight = _images(x), _images(g), _flat(weight)
    if training and _is_plain(a, gs, weight, mean) and has_kernel(a, "batch_norm_vjp", small=True):
        none, dtype = np.empty(0, a.dtype), a.dtype
        dx, sums = np.empty(a.shape if needs[0] else (0, 0, 0), dtype), np.empty((2, a.shape[1]), dtype)
        weight = none if weight is None else weight
        get("batch_norm_vjp")(_channels(gs), _channels(a), mean, var, weight, float(eps), _channels(dx), sums)
        return _like(dx, x) if needs[0] else None, sums[0] if needs[1] else None, sums[1] if needs[2] else None
    rstd = _inverse_root(var, eps)
    dx = dw = None
    db = _channel_sum(gs)
    if training or needs[1]:
        xhat = (a - _over(mean, gs)) * _over(rstd, gs)
        dw = _channel_sum(gs * xhat)
        if training and needs[0]:
            count = scalar(gs.size // max(gs.shape[1], 1), gs.dtype)
            xhat *= _over(dw / count, gs)
            xhat += _over(db / count, gs)
            gs = gs - xhat
    if needs[0]:
        scale = rstd if weight is None else rstd * weight
        dx = _like(gs * _over(scale, gs), x)
    return dx, dw if needs[1] else None, db if needs[2] else None
