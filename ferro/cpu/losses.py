"""Fused losses of NumPy arrays: log-probabilities picked by class index, cross-entropy of logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro import xp
from ferro.cpu.array_function import array_function
from ferro.cpu.blocks import HALF
from ferro.cpu.by_kernels import Make, by_kernels, kernels, sides
from ferro.cpu.kernels.common import GRAIN, MOST_CHUNKS, SMALL, contiguous, has_kernel, share_rows, widened
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.gather_scatter import within
from ferro.cpu.kernels.limits import FAR
from ferro.cpu.namespace import cpu
from ferro.cpu.softmax import softmax
from ferro.native.readiness import get
from ferro.native.workers import run_parts

__all__ = ["cross_entropy", "cross_entropy_again", "cross_entropy_share", "cross_entropy_vjp", "difference_loss", "difference_slope",
           "loss_of_difference", "nll_pick", "nll_spread", "row_losses", "row_losses_vjp",
           "slope_of_difference"]  # fmt: skip


_top: Any = np.maximum.reduce


def _classes(target: Any, classes: int, ignore_index: float) -> tuple:
    """The class indices with 0 in place of the ignored ones, and which are not ignored (None: all).

    IndexError for an index that is no class.
    """
    if not 0 <= ignore_index < classes and within(target, classes):
        return target, None
    valid = target != ignore_index
    wrong = valid & ((target < 0) | (target >= classes))
    if wrong.any():
        raise IndexError(
            f"nll_loss: Target {int(target[wrong].reshape(-1)[0])} is out of bounds: the input has {classes} classes, "
            f"so targets lie in [0, {classes - 1}] or are ignore_index={ignore_index}"
        )
    return np.where(valid, target, 0), valid


def _weights(target: Any, valid: Any, weight: Any, dtype: Any) -> Any:
    """The weight of every element of the target, 0 where ignored; None if all are 1."""
    if weight is None:
        return None if valid is None else valid.astype(dtype)
    w = weight[target].astype(dtype, copy=False)
    return w if valid is None else w * valid


def _total(target: Any, w: Any) -> Any:
    """What the mean divides by: the sum of the weights."""
    return target.size if w is None else np.add.reduce(w, axis=None)


def _at(target: Any, ndim: int) -> tuple:
    """An index that picks from (N, C, ...) the class of every element."""
    if ndim == 2:
        return np.arange(target.shape[0]), target
    grid = list(np.ogrid[tuple([slice(s) for s in target.shape])])
    return (grid[0], target, *grid[1:])


def _reduce(values: Any, total: Any, reduction: str) -> Any:
    if reduction == "none":
        return values
    s = np.add.reduce(values, axis=None)
    return s if reduction == "sum" else s / total


@entry("x labels none number mean -> one ?", "jit_small.nll_pick")
@np.errstate(invalid="ignore", divide="ignore")
def nll_pick(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Minus the weighted element of x (N, C, ...) at each class in target (N, ...), reduced."""
    safe, valid = _classes(target, x.shape[1], ignore_index)
    values = -widened(x)[_at(safe, x.ndim)]
    w = _weights(safe, valid, weight, values.dtype)
    if w is not None:
        values = values * w
    if valid is not None:
        values = np.where(valid, values, 0)  # an ignored -inf or nan must not come through
    return np.asarray(_reduce(values, np.asarray(_total(target, w), values.dtype), reduction)).astype(
        x.dtype, copy=False
    )


@np.errstate(invalid="ignore", divide="ignore")
def nll_spread(g: Any, target: Any, weight: Any, shape: tuple, ignore_index: int, reduction: str) -> Any:
    """The transpose of nll_pick: minus the weighted g at each class, zeros elsewhere."""
    safe, valid = _classes(target, shape[1], ignore_index)
    dtype = np.dtype(np.float32) if g.dtype in HALF else g.dtype
    w = _weights(safe, valid, weight, dtype)
    rows = -g.astype(dtype, copy=False)
    if reduction == "mean":
        rows = rows / np.asarray(_total(target, w), dtype)
    if w is not None:
        rows = rows * w
    if valid is not None:
        rows = np.where(valid, rows, 0)
    found = np.zeros(shape, dtype)
    found[_at(safe, len(shape))] = rows
    return found.astype(g.dtype, copy=False)


def _row_losses(x: Any, target: Any, weight: Any, ignored: float, smoothing: float) -> tuple:
    """The loss of each row of logits, 0 where its target is ignored, and the logsumexp of each row.

    A row's loss is (1 - s) w[t] l[t] + s/C Σ w[c] l[c] with l = -log_softmax, C classes and s = smoothing. The logsumexp
    is a float64, so that the backward gets small probabilities from large logits right.
    """
    if x.size == 0:
        return np.zeros(target.shape, x.dtype), np.zeros(target.shape)
    classes = x.shape[1]
    safe, valid = _classes(target, classes, ignored)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = _top(x, 1, keepdims=True)
        shifted = x - top
        log_total = np.log(np.add.reduce(np.exp(shifted), 1, keepdims=True))
        norms = top[:, 0] + log_total[:, 0].astype(np.float64)
        values = log_total[:, 0] - shifted[np.arange(len(x)), safe]
        if weight is not None:
            values *= weight[safe]
        if smoothing:
            others = log_total - shifted if weight is None else (log_total - shifted) * weight
            values = values * (1 - smoothing) + np.add.reduce(others, 1) * (smoothing / classes)
    values = values if valid is None else np.where(valid, values, 0)
    return values.astype(x.dtype, copy=False), norms


def _row_losses_vjp(g: Any, x: Any, target: Any, norms: Any, weight: Any, ignored: float, smoothing: float) -> Any:
    """The backward of row_losses by the logits, zeros where the target is ignored: softmax(x) times the sum of the target's
    shares, minus these shares, times g.
    """
    if x.size == 0:
        return np.zeros(x.shape, x.dtype)
    rows, classes = np.arange(len(x)), x.shape[1]
    safe, valid = _classes(target, classes, ignored)
    hit: Any = 1 - smoothing if weight is None else (1 - smoothing) * weight[safe]
    share = smoothing / classes if weight is None else weight * (smoothing / classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        if (np.abs(norms) < FAR[x.dtype.itemsize]).all():
            high = norms.astype(x.dtype)
            out = np.exp((x - high[:, None]) - (norms - high).astype(x.dtype)[:, None])
        else:
            out = softmax(x, 1)
        if smoothing:
            out *= np.asarray(hit + np.sum(share * np.ones(classes)))[..., None].astype(x.dtype)
            out -= np.asarray(share, x.dtype)
        elif weight is not None:
            out *= hit[:, None]
        out[rows, safe] -= hit
        out *= g[:, None]
    return out if valid is None else np.where(valid[:, None], out, np.zeros((), x.dtype))


row_losses = array_function(
    "row_losses", "x labels weight number number -> rows norms ?", formula=_row_losses, loop="jit_softmax.row_losses"
)
row_losses_vjp = array_function(
    "row_losses_vjp",
    "rows x labels norms weight number number -> x ?",
    formula=_row_losses_vjp,
    loop="jit_softmax.row_losses_vjp",
)


def _as_rows(x: Any) -> Any:
    """Logits (N, C, ...) as a matrix with a row for each target; that of images lies by columns, as their pixels do."""
    x = widened(x)
    return x if x.ndim == 2 else np.moveaxis(x, 1, 0).reshape(x.shape[1], x.size // max(x.shape[1], 1)).T


@entry("x labels none number mean number -> one norms ?", "jit_small.cross_entropy")
def cross_entropy(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> tuple:
    """The cross-entropy of logits x (N, C, ...) and class indices (N, ...), reduced; and what its backward wants kept, the
    logsumexp of each row.
    """
    safe, valid = _classes(target, x.shape[1], ignore_index)
    rows = _as_rows(x)
    losses = (
        cpu.row_losses if x.ndim == 2 else _row_losses
    )  # (of images NumPy goes along the pixels: no kernel is quicker)
    values, kept = losses(rows, target.reshape(-1), widened(weight), ignore_index, smoothing)
    w = _weights(safe, valid, weight, values.dtype)
    loss = _reduce(values.reshape(target.shape), np.asarray(_total(target, w), values.dtype), reduction)
    return np.asarray(loss).astype(x.dtype, copy=False), kept


@entry("one x labels none number mean number norms -> x ?", "jit_small.cross_entropy_vjp")
def cross_entropy_vjp(
    g: Any, x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float, kept: Any
) -> Any:
    """The backward of cross_entropy by the logits."""
    rows = _as_rows(x)
    slopes = np.empty(target.size, rows.dtype)
    if g.ndim:
        slopes[...] = g.reshape(-1)
    else:
        total = 1.0
        if reduction == "mean":
            safe, valid = _classes(target, x.shape[1], ignore_index)
            total = float(_total(target, _weights(safe, valid, weight, rows.dtype)))
        slopes.fill(float(g) / (total or np.nan))  # (where all are ignored there are zeros in any case)
    vjp = cpu.row_losses_vjp if x.ndim == 2 else _row_losses_vjp
    dx = vjp(slopes, rows, target.reshape(-1), kept, widened(weight), ignore_index, smoothing)
    if x.ndim > 2:
        dx = np.ascontiguousarray(np.moveaxis(dx.T.reshape(x.shape[1], *target.shape), 0, 1))
    return dx.astype(x.dtype, copy=False)


def cross_entropy_again(g: Any, x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """The backward of cross_entropy without reduction, from the logits alone."""
    kept = cpu.cross_entropy(x, target, weight, ignore_index, "none", 0.0)[1]
    return cross_entropy_vjp(g, x, target, weight, ignore_index, "none", 0.0, kept)


@np.errstate(invalid="ignore", divide="ignore")
def cross_entropy_share(
    target: Any, weight: Any, shape: tuple, dtype: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """The coefficients q (N, C, ...) with which the cross-entropy is -sum q log softmax(x) (reduction "none": per
    element).
    """
    safe, valid = _classes(target, shape[1], ignore_index)
    w = _weights(safe, valid, weight, dtype)
    share = np.zeros(shape, dtype)
    if smoothing:
        share += smoothing / shape[1]
        if weight is not None:
            share *= _per_class(weight, share)
    share[_at(safe, len(shape))] += (1 - smoothing) * (1 if w is None else w)
    if valid is not None:
        share *= np.expand_dims(valid, 1)
    total = _total(target, w) if reduction == "mean" else 1
    return share / np.asarray(total, dtype) if total else share  # where nothing counts, the shares are 0


def _per_class(weight: Any, x: Any) -> Any:
    return weight.reshape(1, -1, *[1] * (x.ndim - 2)).astype(x.dtype, copy=False)


# -- losses of differences: by kernels alone, the formulas for where there are none stand with the operations --------------

KINDS = {"square": 0, "absolute": 1, "huber": 2}
_KERNELS = kernels("jit_pointwise.loss_sum loss_add loss_each loss_vjp")


def _huber(xp: Any, d: Any, delta: float) -> Any:
    near = xp.minimum(xp.abs(d), delta)
    return near * (xp.abs(d) - near / 2)


_FORMULAS: dict[str, tuple] = {  # each loss, and its slope
    "square": (lambda xp, d, _: d * d, lambda xp, g, d, _: g * 2 * d),
    "absolute": (lambda xp, d, _: xp.abs(d), lambda xp, g, d, _: g * xp.sign(d)),
    "huber": (_huber, lambda xp, g, d, delta: g * xp.clamp(d, -delta, delta)),
}


def _differences(make: Make) -> Iterator[tuple]:
    for n in (12, *sides(SMALL), *sides(GRAIN), 2 * GRAIN):
        for kind in KINDS:
            yield kind, make(n), make(n)


def _losses(make: Make) -> Iterator[tuple]:
    for kind, x, y in _differences(make):
        for reduction in ("none", "mean", "sum"):
            yield _FORMULAS[kind][0], kind, x, y, 0.7, 1.0, reduction


def _slopes(make: Make) -> Iterator[tuple]:
    for kind, x, y in _differences(make):
        yield _FORMULAS[kind][1], kind, make(), x, y, 0.7, 1.0, -0.5
        yield _FORMULAS[kind][1], kind, make(*x.shape), x, y, 0.7, 1.0, 1.0


@by_kernels(_KERNELS[:3], _losses)
def loss_of_difference(loss: Any, kind: str, x: Any, y: Any, parameter: float, factor: float, reduction: str) -> Any:
    """loss(xp, x - y, parameter) of each element, reduced; it is `factor` times the loss that `kind` names."""
    if _has_kernel(kind, x, y, reduction):
        return cpu.difference_loss(KINDS[kind], x, y, float(parameter), factor, reduction)
    return xp.loss_of_difference(cpu, loss, kind, x, y, parameter, factor, reduction)


@by_kernels(_KERNELS[3:], _slopes)
def slope_of_difference(
    slope: Any, kind: str, g: Any, x: Any, y: Any, parameter: float, factor: float, scale: float
) -> Any:
    """slope(xp, g scale, x - y, parameter), the gradient of `loss_of_difference` by x before the reduction's part in it."""
    if _has_kernel(kind, x, y, ""):
        return cpu.difference_slope(KINDS[kind], g, x, y, float(parameter), scale * factor)
    return xp.slope_of_difference(cpu, slope, kind, g, x, y, parameter, factor, scale)


def _has_kernel(kind: str, x: Any, y: Any, reduction: str) -> bool:
    """Whether a kernel computes the loss, or (with no reduction named) its slope: of small arrays only squares that lie alike."""
    if reduction == "none" and kind != "huber":
        return False
    if x.size < SMALL and not (kind == "square" and x.size and x.shape == y.shape and x.dtype is y.dtype):
        return False
    return (x.size >= SMALL or (x.flags.carray and y.flags.carray)) and has_kernel(x, *_KERNELS, small=True)


def _flat_pair(x: Any, y: Any) -> tuple:
    return contiguous(x).reshape(-1), contiguous(y).reshape(-1)


@entry("number x = number number mean -> one", "jit_small.difference_loss")
def difference_loss(kind: int, x: Any, y: Any, parameter: float, factor: float, reduction: str) -> Any:
    """(x - y)^2, |x - y| or Huber's loss of x - y, times a factor, reduced; blocks are added in float64."""
    a, b = _flat_pair(x, y)
    if reduction == "none":
        out = np.empty(x.shape, x.dtype)
        share_rows("loss_each", a.size, GRAIN, (a, b, parameter, factor, out.reshape(-1)))
        return out
    if a.size < GRAIN:
        total = get("loss_sum")(kind, a, b, parameter) * factor
    else:
        totals = np.zeros(min(2 * a.size // GRAIN, MOST_CHUNKS))
        run_parts("loss_add", len(totals), (kind, a, b, parameter, totals))
        total = totals.sum() * factor
    return np.array(total / a.size if reduction == "mean" else total, x.dtype)


@entry("number one x = number number -> x", "jit_small.difference_slope")
def difference_slope(kind: int, g: Any, x: Any, y: Any, parameter: float, factor: float) -> Any:
    """g times the slope of `difference_loss` by x; g is a number (0-d) where the loss was reduced."""
    a, b = _flat_pair(x, y)
    out = np.empty(x.shape, x.dtype)
    if not g.ndim:
        factor *= float(g)
    share_rows("loss_vjp", a.size, GRAIN, (a, b, kind, parameter, factor, out.reshape(-1)))
    if g.ndim:
        out *= g
    return out
