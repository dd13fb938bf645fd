"""Batching rules of convolutions, pooling, normalisation and attention: slices are folded into images, groups or channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.batched.array import aligned, batch, fronted, has, is_array
from ferro.batched.levels import Level
from ferro.batched.rules import call, declare, rebatched, rule

declare(
    avg_pool="x - ...",
    max_pool="x - ...",
    adaptive_avg="x -",
    adaptive_max="x -",
    avg_spread="x - ...",
    pool_gather="x x -",
    adaptive_avg_spread="x -",
    pool_scatter="x x -",
    unpool="x x -",
    resample="x -",
    resample_spread="x -",
)


# -- convolutions ------------------------------------------------------------------------------------------------------


def _to_images(x: Any, level: Level) -> Any:
    """(batch, n, c, ...) as (batch n, c, ...)."""
    p = fronted(x, level)
    return p.reshape((level.size * p.shape[1], *p.shape[2:]))


def _from_images(x: Any, level: Level) -> Any:
    return batch(x.reshape((level.size, x.shape[0] // max(level.size, 1), *x.shape[1:])), level)


def _to_channels(x: Any, level: Level) -> Any:
    """(batch, n, c, ...) as (n, batch c, ...)."""
    p = fronted(x, level).swapaxes(0, 1)
    return p.reshape((p.shape[0], level.size * p.shape[2], *p.shape[3:]))


def _from_channels(x: Any, level: Level) -> Any:
    n, c = x.shape[:2]
    return batch(x.reshape((n, level.size, c // max(level.size, 1), *x.shape[2:])).swapaxes(0, 1), level)


def _to_first(w: Any, level: Level) -> Any:
    """(batch, o, ...) as (batch o, ...); None stays."""
    if w is None:
        return None
    p = fronted(w, level)
    return p.reshape((level.size * p.shape[1], *p.shape[2:]))


@rule("conv conv_input")
def _conv(
    f: Callable,
    level: Level,
    x: Any,
    w: Any,
    b: Any,
    out: tuple,
    stride: tuple,
    pad: tuple,
    dilation: tuple,
    groups: int,
) -> Any:
    if not has(w, level) and not has(b, level):
        return _from_images(f(_to_images(x, level), w, b, out, stride, pad, dilation, groups), level)
    found = f(
        _to_channels(x, level),
        _to_first(w, level),
        _to_first(b, level),
        out,
        stride,
        pad,
        dilation,
        groups * level.size,
    )
    return _from_channels(found, level)


@rule("conv_weight")
def _conv_weight(
    f: Callable, level: Level, x: Any, y: Any, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int
) -> Any:
    found = f(_to_channels(x, level), _to_channels(y, level), kernel, stride, pad, dilation, groups * level.size)
    return batch(found.reshape((level.size, found.shape[0] // max(level.size, 1), *found.shape[1:])), level)


@rule("im2col col2im grid_places grid_slopes tap_places tap_weights sample_taps spread_taps weigh_taps")
def _by_images(f: Callable, level: Level, *args: Any) -> Any:
    """All arrays have images, which do not know of each other, in their first dimension."""
    if not level.size:
        return NotImplemented
    return _from_images(f(*[_to_images(a, level) if is_array(a) else a for a in args]), level)


# -- normalisation -----------------------------------------------------------------------------------------------------


def _rows(kept: Any, level: Level) -> Any:
    """Statistics of the rows of all slices, as those of each."""
    return batch(
        kept.reshape((level.size, -1, *kept.shape[1:]) if kept.size else (level.size, 0, *kept.shape[1:])), level
    )


def _all_rows(kept: Any, level: Level) -> Any:
    """The inverse of `_rows`."""
    p = fronted(kept, level)
    return p.reshape((p.shape[0] * p.shape[1], *p.shape[2:]))


def _by_parameters(g: Any, xhat: Any, n: int, needs: tuple) -> tuple:
    """The gradients of the weight and bias of the last n dimensions: each slice has its own."""
    dims = tuple(range(xhat.ndim - n))
    return (
        call("sum", g * xhat, dims, False) if needs[1] else None,
        call("sum", g, dims, False) if len(needs) > 2 and needs[2] else None,
    )


@rule("layer_norm rms_norm")
def _layer_norm(f: Callable, level: Level, x: Any, *rest: Any) -> Any:
    *parameters, n, eps = rest
    out, *kept = f(fronted(x, level), *[None] * len(parameters), n, eps)
    out = batch(out, level)
    weight, bias = (*parameters, None)[:2]
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias, *[_rows(k, level) for k in kept])


@rule("layer_norm_vjp rms_norm_vjp")
def _layer_norm_vjp(f: Callable, level: Level, g: Any, x: Any, weight: Any, *rest: Any) -> Any:
    *kept, n, eps, needs = rest
    dx = None
    if needs[0]:
        only = (True, *(False,) * (len(needs) - 1))
        gw = g if weight is None else g * weight
        dx = batch(
            f(fronted(gw, level), fronted(x, level), None, *[_all_rows(k, level) for k in kept], n, eps, only)[0], level
        )
    if not any(needs[1:]):
        return (dx, *(None,) * (len(needs) - 1))
    name = "layer_norm" if len(kept) == 2 else "rms_norm"
    xhat = call(name, x, *(None,) * len(kept), n, eps)[0]
    return (dx, *_by_parameters(g, xhat, n, needs)[: len(needs) - 1])


def _column(v: Any, ndim: int) -> Any:
    """Parameters of channels (dimension 1) as an array that broadcasts."""
    return v.reshape((-1, *(1,) * (ndim - 2)))


@rule("group_norm")
def _group_norm(f: Callable, level: Level, x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
    out, *kept = f(_to_images(x, level), None, None, groups, eps)
    out = _from_images(out, level)
    out = out if weight is None else out * _column(weight, x.ndim)
    return (out if bias is None else out + _column(bias, x.ndim), *[_rows(k, level) for k in kept])


@rule("group_norm_vjp")
def _group_norm_vjp(
    f: Callable, level: Level, g: Any, x: Any, weight: Any, mean: Any, rstd: Any, groups: int, eps: float, needs: tuple
) -> Any:
    dx = dw = db = None
    if needs[0]:
        gw = g if weight is None else g * _column(weight, x.ndim)
        kept = [_all_rows(k, level) for k in (mean, rstd)]
        dx = _from_images(
            f(_to_images(gw, level), _to_images(x, level), None, *kept, groups, eps, (True, False, False))[0], level
        )
    dims = (0, *range(2, x.ndim))
    if needs[1]:
        dw = call("sum", g * call("group_norm", x, None, None, groups, eps)[0], dims, False)
    if needs[2]:
        db = call("sum", g, dims, False)
    return dx, dw, db


@rule("batch_norm")
def _batch_norm(
    f: Callable, level: Level, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float
) -> Any:
    out, *kept = f(_to_channels(x, level), *[_to_first(v, level) for v in (weight, bias, mean, var)], training, eps)
    return (_from_channels(out, level), *[batch(k.reshape((level.size, -1)), level) for k in kept])


@rule("batch_norm_vjp")
def _batch_norm_vjp(
    f: Callable,
    level: Level,
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    var: Any,
    training: bool,
    eps: float,
    needs: tuple,
) -> Any:
    gx, *rest = f(
        _to_channels(g, level),
        _to_channels(x, level),
        *[_to_first(v, level) for v in (weight, mean, var)],
        training,
        eps,
        needs,
    )
    return (
        None if gx is None else _from_channels(gx, level),
        *[None if k is None else batch(k.reshape((level.size, -1)), level) for k in rest],
    )


@rule("attention")
def _attention(f: Callable, level: Level, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> Any:
    if not q.ndim == k.ndim == v.ndim:
        return NotImplemented
    qkv = [fronted(a, level) for a in (q, k, v)]
    return rebatched(f(*qkv, None if mask is None else aligned(mask, level, q.ndim), scale, causal), level)


@rule("attention_vjp")
def _attention_vjp(
    f: Callable,
    level: Level,
    g: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    p: Any,
    scale: float,
    causal: bool,
    needs: tuple,
) -> Any:
    if not g.ndim == q.ndim == k.ndim == v.ndim == p.ndim or (mask is not None and needs[3]):
        return NotImplemented
    given = [fronted(a, level) for a in (g, q, k, v)]
    mask = None if mask is None else aligned(mask, level, q.ndim)
    return rebatched(f(*given, mask, fronted(p, level), scale, causal, needs), level)
