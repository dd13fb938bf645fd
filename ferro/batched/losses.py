"""Batching rules of cross-entropies: the samples of all slices are one batch, and means are taken of each slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.batched.array import batch, by, expanded, fronted, has
from ferro.batched.levels import Level
from ferro.batched.rules import call, rule


def _samples(x: Any, level: Level) -> Any:
    """(batch, n, ...) as (batch n, ...)."""
    p = fronted(x, level)
    return p.reshape((p.shape[0] * p.shape[1], *p.shape[2:]))


def _slices(x: Any, level: Level) -> Any:
    return batch(x.reshape((level.size, x.shape[0] // max(level.size, 1), *x.shape[1:])), level)


def _fits(level: Level, weight: Any, smoothing: float = 0.0) -> bool:
    """Whether the samples count by themselves: no weights that differ between slices, no mean over classes."""
    return level.size > 0 and not has(weight, level) and not smoothing


def _total(target: Any, weight: Any, ignore_index: int, dtype: Any) -> Any:
    """What the mean of each slice is divided by: its number of samples, or the sum of their weights."""
    valid = target != ignore_index
    if weight is not None:
        valid = by(np.where, valid, call("take", weight, by(np.where, valid, target, 0)), 0)
    return call("sum", valid.astype(dtype), tuple(range(target.ndim)), False)


def _reduced(values: Any, total: Callable, reduction: str) -> Any:
    if reduction == "none":
        return values
    s = call("sum", values, tuple(range(values.ndim)), False)
    return s if reduction == "sum" else s / total()


def _shared(g: Any, target: Any, total: Callable, reduction: str) -> Any:
    """The cotangent of every sample, from that of the reduced loss."""
    if reduction == "none":
        return g
    return by(np.broadcast_to, (g if reduction == "sum" else g / total())[(None,) * target.ndim], target.shape)


@rule("cross_entropy")
def _cross_entropy(
    f: Callable, level: Level, x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    if not _fits(level, weight, smoothing):
        return NotImplemented
    loss, kept = f(_samples(x, level), _samples(target, level), weight, ignore_index, "none", smoothing)
    total = lambda: _total(target, weight, ignore_index, x.dtype)  # noqa: E731
    by_sample = (
        kept.shape[0] == loss.shape[0]
    )  # (a device keeps what is not divided by samples: all slices have all of it)
    kept = _slices(kept, level) if by_sample else batch(expanded(kept, level), level)
    return _reduced(_slices(loss, level), total, reduction), kept


@rule("cross_entropy_vjp")
def _cross_entropy_vjp(
    f: Callable,
    level: Level,
    g: Any,
    x: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    kept: Any,
) -> Any:
    if not _fits(level, weight, smoothing):
        return NotImplemented
    g = _shared(g, target, lambda: _total(target, weight, ignore_index, x.dtype), reduction)
    kept = _samples(kept, level) if kept.shape[0] == target.size else fronted(kept, level)[0]
    found = f(*[_samples(v, level) for v in (g, x, target)], weight, ignore_index, "none", smoothing, kept)
    return _slices(found, level)


@rule("cross_entropy_share")
def _cross_entropy_share(
    f: Callable,
    level: Level,
    target: Any,
    weight: Any,
    shape: tuple,
    dtype: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Any:
    if not _fits(level, weight, smoothing):
        return NotImplemented
    found = _slices(
        f(_samples(target, level), weight, (level.size * shape[0], *shape[1:]), dtype, ignore_index, "none", smoothing),
        level,
    )
    return found / _total(target, weight, ignore_index, dtype) if reduction == "mean" else found


@rule("nll_pick")
def _nll_pick(f: Callable, level: Level, x: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    if not _fits(level, weight):
        return NotImplemented
    values = _slices(f(_samples(x, level), _samples(target, level), weight, ignore_index, "none"), level)
    return _reduced(values, lambda: _total(target, weight, ignore_index, x.dtype), reduction)


@rule("nll_spread")
def _nll_spread(
    f: Callable, level: Level, g: Any, target: Any, weight: Any, shape: tuple, ignore_index: int, reduction: str
) -> Any:
    if not _fits(level, weight):
        return NotImplemented
    g = _shared(g, target, lambda: _total(target, weight, ignore_index, g.dtype), reduction)
    found = f(
        _samples(g, level), _samples(target, level), weight, (level.size * shape[0], *shape[1:]), ignore_index, "none"
    )
    return _slices(found, level)
