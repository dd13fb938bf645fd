"""Batching rules of convolutions, pooling, normalisation and attention: slices are folded into images, groups or channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.batched.array import aligned, batch, fronted, has
from ferro.batched.levels import Level
from ferro.batched.rules import declare, rebatched, rule

declare(avg_pool="x - ...", max_pool="x - ...", adaptive_avg="x -", adaptive_max="x -", avg_spread="x - ...", pool_gather="x x -",
        adaptive_avg_spread="x -", pool_scatter="x x -", unpool="x x -", resample="x -", resample_spread="x -")  # fmt: skip


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


@rule("im2col")
def _im2col(f: Callable, level: Level, x: Any, *rest: Any) -> Any:
    return _from_images(f(_to_images(x, level), *rest), level)


@rule("col2im")
def _col2im(f: Callable, level: Level, columns: Any, *rest: Any) -> Any:
    return _from_images(f(_to_images(columns, level), *rest), level)


# -- normalisation -----------------------------------------------------------------------------------------------------


@rule("layer_norm")
def _layer_norm(f: Callable, level: Level, x: Any, weight: Any, bias: Any, n: int, eps: float) -> Any:
    if not has(x, level):
        out, *kept = f(x, None, None, n, eps)
    elif has(weight, level) or has(bias, level):
        out, *kept = rebatched(f(x.physical, None, None, n, eps), level)
    else:
        return rebatched(f(x.physical, weight, bias, n, eps), level)
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias, *kept)


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
    return (None if gx is None else _from_channels(gx, level),
            *[None if k is None else batch(k.reshape((level.size, -1)), level) for k in rest])  # fmt: skip


@rule("attention")
def _attention(f: Callable, level: Level, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> Any:
    if not q.ndim == k.ndim == v.ndim:
        return NotImplemented
    qkv = [fronted(a, level) for a in (q, k, v)]
    return rebatched(f(*qkv, None if mask is None else aligned(mask, level, q.ndim), scale, causal), level)
