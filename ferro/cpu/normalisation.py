"""Normalisation of NumPy arrays (layer, root mean square, batch) and its backward; 16 bits are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.blocks import HALF
from ferro.cpu.kernels import norm as _kernels
from ferro.cpu.kernels.common import SMALL, has_kernel

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


def _wide(x: Any) -> Any:
    return x if x is None or x.dtype not in HALF else x.astype(np.float32)


def _rows(x: Any, n: int) -> Any:
    """x as a matrix whose rows are its last n dimensions."""
    if x.ndim == 2 and n == 1:
        return x
    split = x.ndim - n
    return x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:]))


def _row_mean(a: Any, b: Any) -> Any:
    """The mean over each row of a b, as a column."""
    return vecdot(a, b, keepdims=True) / a.shape[1]


# -- layers ------------------------------------------------------------------------------------------------------------


@np.errstate(invalid="ignore", divide="ignore")
def layer_norm(x: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple:
    """(x - mean) / sqrt(var + eps) over the last n dimensions, scaled and shifted; the mean and 1 / sqrt(var + eps) of
    each row.
    """
    rows = _rows(_wide(x), n)
    if has_kernel(rows):
        out, mean, rstd = _kernels.layer_norm(rows, rows.shape[1], weight, bias, eps)
        return out.astype(x.dtype, copy=False).reshape(x.shape), mean[:, None], rstd[:, None]
    mean = np.add.reduce(rows, 1, keepdims=True) / rows.shape[1]
    out = rows - mean
    rstd = np.reciprocal(np.sqrt(_row_mean(out, out) + eps))
    out *= rstd
    if weight is not None:
        out *= _wide(weight).reshape(-1)
    if bias is not None:
        out += _wide(bias).reshape(-1)
    return out.astype(x.dtype, copy=False).reshape(x.shape), mean, rstd


def layer_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of layer_norm by x, weight and bias (None where `needs` says so)."""
    gs, rows, shape = _rows(_wide(g), n), _rows(_wide(x), n), x.shape[x.ndim - n :]
    if has_kernel(rows):
        dx, dw, db = _kernels.layer_norm_vjp(gs, rows, mean[:, 0], rstd[:, 0], weight, needs)
        dx = None if dx is None else dx.astype(x.dtype, copy=False).reshape(x.shape)
        return dx, None if dw is None else dw.reshape(shape), None if db is None else db.reshape(shape)
    xhat = (rows - mean) * rstd
    dx = None
    if needs[0]:
        gw = gs if weight is None else gs * _wide(weight).reshape(-1)
        dx = gw - np.add.reduce(gw, 1, keepdims=True) / gw.shape[1] if gw.size else gw
        if gw.size:
            dx -= xhat * _row_mean(gw, xhat)
            dx *= rstd
        dx = dx.astype(x.dtype, copy=False).reshape(x.shape)
    dw = np.add.reduce(gs * xhat, 0).reshape(shape) if needs[1] else None
    db = np.add.reduce(gs, 0).reshape(shape) if needs[2] else None
    return dx, dw, db


@np.errstate(invalid="ignore", divide="ignore")
def rms_norm(x: Any, weight: Any, n: int, eps: float) -> tuple:
    """x / sqrt(mean(x^2) + eps) over the last n dimensions, scaled; and 1 / sqrt(mean(x^2) + eps) of each row."""
    rows = _rows(_wide(x), n)
    rstd = np.reciprocal(np.sqrt(_row_mean(rows, rows) + eps))
    out = rows * rstd
    if weight is not None:
        out *= _wide(weight).reshape(-1)
    return out.astype(x.dtype, copy=False).reshape(x.shape), rstd


def rms_norm_vjp(g: Any, x: Any, weight: Any, rstd: Any, n: int, eps: float, needs: tuple) -> tuple:
    """The backward of rms_norm by x and weight (None where `needs` says so)."""
    gs = _rows(_wide(g), n)
    xhat = _rows(_wide(x), n) * rstd
    dx = None
    if needs[0]:
        gw = gs if weight is None else gs * _wide(weight).reshape(-1)
        dx = (gw - xhat * _row_mean(gw, xhat)) * rstd if gw.size else gw
        dx = dx.astype(x.dtype, copy=False).reshape(x.shape)
    dw = np.einsum("ij,ij->j", gs, xhat).reshape(x.shape[x.ndim - n :]) if needs[1] else None
    return dx, dw


# -- groups ------------------------------------------------------------------------------------------------------------


def _fits(x: Any) -> bool:
    """Whether kernels normalise the groups of x: it is large, and each channel has some places."""
    return x.ndim > 2 and x.size >= SMALL and x.size >= 8 * x.shape[0] * x.shape[1] and (
        x.dtype in HALF or has_kernel(x))  # fmt: skip


def group_norm(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple:
    """layer_norm of each group of channels (dimension 1), then scaled and shifted per channel; and its mean and rstd."""
    if _fits(x):
        out, mean, rstd = _kernels.group_norm(_wide(x), _wide(weight), _wide(bias), groups, eps)
        return out.astype(x.dtype, copy=False), mean[:, None], rstd[:, None]
    rows = _wide(x).reshape(x.shape[0] * groups, -1)
    out, mean, rstd = layer_norm(rows, None, None, 1, eps)
    out = out.reshape(x.shape[0], x.shape[1], -1)
    if weight is not None:
        out *= _column(weight)
    if bias is not None:
        out += _column(bias)
    return out.astype(x.dtype, copy=False).reshape(x.shape), mean, rstd


def group_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple) -> tuple:
    """The backward of group_norm by x, weight and bias (None where `needs` says so)."""
    if _fits(x):
        wide = _wide(g), _wide(x), _wide(weight), mean[:, 0], rstd[:, 0]
        dx, dw, db = _kernels.group_norm_vjp(*wide, groups, needs)
        return None if dx is None else dx.astype(x.dtype, copy=False), dw, db
    gs, rows = _channels(_wide(g)), _wide(x).reshape(mean.shape[0], -1)
    dx = dw = None
    if needs[0]:
        gw = gs if weight is None else gs * _column(weight)
        dx = layer_norm_vjp(gw.reshape(rows.shape), rows, None, mean, rstd, 1, eps, (True, False, False))[0]
        dx = dx.astype(x.dtype, copy=False).reshape(x.shape)
    if needs[1]:
        xhat = ((rows - mean) * rstd).reshape(gs.shape)
        dw = np.add.reduce(vecdot(gs, xhat), 0)
    return dx, dw, np.add.reduce(np.add.reduce(gs, 2), 0) if needs[2] else None


# -- batches -----------------------------------------------------------------------------------------------------------


def _channels(x: Any) -> Any:
    """x of shape (N, C, ...) as (N, C, M)."""
    return x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _channel_sum(a: Any) -> Any:
    return np.add.reduce(a, (0, 2))


def _column(v: Any) -> Any:
    return _wide(v)[:, None]


@np.errstate(invalid="ignore", divide="ignore")
def batch_norm(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, eps: float
) -> tuple:
    """(x - mean) / sqrt(var + eps) for each channel (dimension 1), scaled and shifted; and the mean and biased variance
    used.
    """
    wide = _channels(_wide(x))
    if has_kernel(wide):
        mean, var = (
            _kernels.moments(wide, (0, 2)) if training else (_wide(running_mean).copy(), _wide(running_var).copy())
        )
        out = _kernels.batch_norm(wide, mean, 1 / np.sqrt(var + eps), _wide(weight), _wide(bias))
        return out.astype(x.dtype, copy=False).reshape(x.shape), mean, var
    if training:
        count = wide.shape[0] * wide.shape[2]
        mean = _channel_sum(wide) / count
        out = wide - mean[:, None]
        var = np.einsum("ncm,ncm->c", out, out) / count
    else:
        mean, var = _wide(running_mean).copy(), _wide(running_var).copy()
        out = wide - mean[:, None]
    scale = 1 / np.sqrt(var + eps)
    out *= scale[:, None] if weight is None else scale[:, None] * _column(weight)
    if bias is not None:
        out += _column(bias)
    return out.astype(x.dtype, copy=False).reshape(x.shape), mean, var


def batch_norm_vjp(g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple) -> tuple:
    """The backward of batch_norm by x, weight and bias (None where `needs` says so)."""
    gs = _channels(_wide(g))
    rstd = (1 / np.sqrt(var + eps))[:, None]
    if has_kernel(gs):
        dx, dw, db = _kernels.batch_norm_vjp(gs, _channels(_wide(x)), mean, rstd[:, 0], _wide(weight), training, needs)
        return None if dx is None else dx.astype(x.dtype, copy=False).reshape(x.shape), dw, db
    db = _channel_sum(gs)
    xhat = dw = None
    if training or needs[1]:
        xhat = (_channels(_wide(x)) - mean[:, None]) * rstd
        dw = np.einsum("ncm,ncm->c", gs, xhat)
    dx = None
    if needs[0]:
        scale = rstd if weight is None else rstd * _column(weight)
        if xhat is not None and dw is not None and training and gs.size:
            count = gs.shape[0] * gs.shape[2]
            dx = gs - (db / count)[:, None]
            dx -= xhat * (dw / count)[:, None]
            dx *= scale
        else:
            dx = gs * scale
        dx = dx.astype(x.dtype, copy=False).reshape(x.shape)
    return dx, dw if needs[1] else None, db if needs[2] else None
