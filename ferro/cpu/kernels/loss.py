"""Cross-entropy with class indices, of rows of logits, and its derivative."""

from __future__ import annotations

import numpy as np

from ferro.cpu.kernels.common import GRAIN, contiguous, has_kernel, is_half, share_rows, widened
from ferro.cpu.kernels.limits import FAR
from ferro.cpu.softmax import log_softmax, logsumexp


def _check_targets(target: np.ndarray, classes: int, ignore_index: int) -> None:
    """Refuses a target that is out of bounds: there a kernel would read beyond its row."""
    if target.size and target.dtype == np.int64 and np.maximum.reduce(target.view(np.uint64), None) < classes:
        return  # negative numbers, read without their sign, are large ones
    wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
    if wrong.any():
        raise IndexError(
            f"cross_entropy: target {target[wrong][0]} is out of bounds: with {classes} classes it must be from 0 to "
            f"{classes - 1}, or ignore_index={ignore_index}"
        )


def cross_entropy_fwd(
    logits: np.ndarray, target: np.ndarray, weight: np.ndarray | None, ignore_index: int, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    """The loss of each row, 0 where its target is ignored, and the logsumexp of each row.

    A row's loss is (1 - s) w[t] l[t] + s/C Σ w[c] l[c] with l = -log_softmax, C classes and s = label_smoothing.
    The logsumexp is a float64, so that the backward gets small probabilities from large logits right.
    """
    _check_targets(target, logits.shape[1], ignore_index)
    if is_half(logits):
        losses, norms = cross_entropy_fwd(widened(logits), target, widened(weight), ignore_index, label_smoothing)
        return losses.astype(logits.dtype), norms
    if not has_kernel(logits, "cross_entropy"):
        return _losses(logits, target, target != ignore_index, weight, label_smoothing)
    rows, columns = logits.shape
    x, t = contiguous(logits), contiguous(target, np.int64)
    w = contiguous(np.empty(0) if weight is None else weight, x.dtype)
    losses, norms = np.empty(rows, x.dtype), np.empty(rows, np.float64)
    args = (x, t, w, int(ignore_index), float(label_smoothing), losses, norms)
    share_rows("cross_entropy", rows, GRAIN // columns, args, 1 << 2)
    return losses, norms


def _losses(
    logits: np.ndarray, target: np.ndarray, counts: np.ndarray, weight: np.ndarray | None, label_smoothing: float
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(target))
    chosen = np.where(counts, target, 0)
    norms = logsumexp(logits.astype(np.float64), (1,), False)
    if logits.shape[1] == 0:
        return np.zeros(len(target), logits.dtype), norms
    with np.errstate(invalid="ignore"):
        each = -log_softmax(logits, 1)
        losses = each[rows, chosen]
        if weight is not None:
            each = each * weight
            losses = each[rows, chosen]
        if label_smoothing:
            losses = losses * (1 - label_smoothing) + each.sum(1) * (label_smoothing / logits.shape[1])
    return np.where(counts, losses, np.zeros((), logits.dtype)), norms


def cross_entropy_vjp(
    g: np.ndarray,
    logits: np.ndarray,
    target: np.ndarray,
    norms: np.ndarray,
    weight: np.ndarray | None,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    """The backward of `cross_entropy_fwd` with respect to the logits, for the cotangents `g` of the rows' losses."""
    if is_half(logits):
        wide = widened(g), widened(logits), target, norms, widened(weight), ignore_index, label_smoothing
        return cross_entropy_vjp(*wide).astype(logits.dtype)
    if not has_kernel(logits, "cross_entropy_vjp"):
        return _losses_vjp(g, logits, target, norms, weight, ignore_index, label_smoothing)
    rows, columns = logits.shape
    x, t, n = contiguous(logits), contiguous(target, np.int64), contiguous(norms, np.float64)
    g = contiguous(g, x.dtype)
    w = contiguous(np.empty(0) if weight is None else weight, x.dtype)
    out = np.empty_like(x)
    args = (g, x, t, n, w, int(ignore_index), float(label_smoothing), out)
    share_rows("cross_entropy_vjp", rows, GRAIN // columns, args, 1 << 4)
    return out


def _losses_vjp(
    g: np.ndarray,
    logits: np.ndarray,
    target: np.ndarray,
    norms: np.ndarray,
    weight: np.ndarray | None,
    ignore_index: int,
    label_smoothing: float,
) -> np.ndarray:
    classes = logits.shape[1]
    if logits.size == 0:
        return np.zeros_like(logits)
    rows = np.arange(len(target))
    counts = target != ignore_index
    chosen = np.where(counts, target, 0)
    w = np.ones(classes, logits.dtype) if weight is None else weight
    share = label_smoothing / classes * w
    hit = (1 - label_smoothing) * w[chosen]
    with np.errstate(invalid="ignore"):
        if (np.abs(norms) < FAR[logits.dtype.itemsize]).all():
            probability = np.exp(logits - norms[:, None]).astype(logits.dtype)
        else:
            probability = np.exp(log_softmax(logits, 1))
        out = probability * (hit + share.sum())[:, None] - share
        out[rows, chosen] -= hit
        out *= g[:, None]
    return np.where(counts[:, None], out, np.zeros((), logits.dtype))
