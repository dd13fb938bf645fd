"""The loss of connectionist temporal classification: all ways to align a sequence of labels with one of predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import COMPLEX, HALF
from ferro.core.looped import by_slices
from ferro.core.op import Op
from ferro.core.requirements import fixed, require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import floating
from ferro.ops.choices import where
from ferro.ops.entropy import reduction_of
from ferro.ops.exponential import exp

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["ctc_loss"]


# -- the operation and its derivatives: see the notes in cpu/ctc.py ----------------------------------------------------

CTC = Op(
    "ctc_loss",
    outputs=("out",),
    aux=("alpha",),
    weight=2000.0,
    forward=lambda xp, y, labels, steps, lengths, /, zero_infinity: xp.ctc_fwd(y, labels, steps, lengths),
    y=lambda xp, g, y, labels, steps, lengths, zero_infinity, alpha: xp.ctc_vjp(
        g, y, labels, steps, lengths, zero_infinity, alpha
    ),
)


def ctc_vjp(
    g: Tensor, y: Tensor, labels: Tensor, steps: Tensor, lengths: Tensor, zero_infinity: bool, alpha: Any
) -> Tensor:
    """The backward of CTC by the log-probabilities, on Tensors."""
    occupancy = ctc_occupancy(
        y, wrap(backend.beside(y._data, np.zeros((0, *y._data.shape), y._data.dtype))), labels, steps, lengths
    )
    dy = (exp(y) - occupancy) * g.unsqueeze(-1)
    if len(y._data):
        no_path = (occupancy._data[0] == 0).all(-1)  # where there is one, the occupancies of a step add up to one
        dy = where(wrap(no_path[:, None]), 0.0 if zero_infinity else math.nan, dy)
    return where(wrap((backend.beside(y._data, np.arange(len(y._data)))[:, None] >= steps._data)[..., None]), 0.0, dy)


def ctc_occupancy(y: Tensor, v: Tensor, labels: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
    """The occupancy of each class at each step, or its derivative in the directions v, of shape (n, T, N, C)."""
    return apply(OCCUPANCY, (y, v, labels, steps, lengths))


def _occupancy_vjp(
    xp: Any, g: Any, y: Any, v: Any, labels: Any, steps: Any, lengths: Any, needs: tuple
) -> tuple[Any, Any]:
    """The derivatives of the cumulant generating function are symmetric: g is one direction more, or takes the place of
    one.
    """
    n, h = v.shape[0], g.reshape((1, *g.shape))
    by_y = xp.ctc_occupancy(y, xp.cat((v, h), 0), labels, steps, lengths) if needs[0] else None
    if not (needs[1] and n):
        return by_y, None
    others = [xp.cat((v[:i], v[i + 1 :], h), 0) for i in range(n)]
    return by_y, xp.stack([xp.ctc_occupancy(y, other, labels, steps, lengths) for other in others], 0)


OCCUPANCY = Op(
    "ctc_occupancy",
    lambda xp, y, v, labels, steps, lengths: xp.ctc_occupancy(y, v, labels, steps, lengths),
    vjp=_occupancy_vjp,
    diff=("y", "v"),
    weight=2000.0,
)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _lengths(name: str, argument: str, given: Any, batch: int, most: int, of_what: str) -> np.ndarray:
    """Lengths of the samples as int64, checked."""
    array = given._data if isinstance(given, TensorBase) else np.asarray(given)
    if array.size and array.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: {argument} must be integral, got {array.dtype}")
    found = np.asarray(fixed(array))
    found = found.reshape(-1).astype(np.int64)
    if len(found) != batch:
        raise RuntimeError(f"{name}: {argument} must be of size batch_size {batch}, got {len(found)} lengths")
    if found.size and found.min() < 0:
        raise RuntimeError(f"{name}: {argument} must not be negative, got {found.min()}")
    if found.size and found.max() > most:
        raise RuntimeError(
            f"{name}: Expected {argument} to have value at most {most}, {of_what}, but got value {found.max()}"
        )
    return found


def _states(name: str, targets: Any, batch: int, lengths: Any, blank: int, classes: int) -> Any:
    """The labels of each sample with blanks around them, (N, 2 S + 1)."""
    given = need_tensor(name, "targets", targets)._data
    if given.dtype in COMPLEX or given.dtype.kind == "b":
        raise RuntimeError(f"{name}: targets must be class numbers, got {targets.dtype} (use .long())")
    longest = int(lengths.max(initial=0))
    given = backend.on_host(given)
    inside = np.arange(longest) < lengths[:, None]
    if given.ndim == 1:  # one behind the other
        if given.size != lengths.sum():
            raise RuntimeError(
                f"{name}: Expected concatenated targets to have size {lengths.sum()}, the sum of target_lengths, but "
                f"got size {given.size}"
            )
        starts = np.cumsum(lengths) - lengths
        rows = given[np.where(inside, starts[:, None] + np.arange(longest), 0)]
    elif given.ndim == 2 and len(given) == batch:
        rows = given[:, :longest]
    else:
        raise RuntimeError(
            f"{name}: expected targets of shape (N, S) with N={batch}, or concatenated in one dimension, got "
            f"{list(given.shape)}"
        )
    rows = rows.astype(np.int64)
    fits = (rows >= 0) & (rows < classes) | ~inside
    message = f"{name}: targets must be classes from 0 to {classes - 1}"
    require(fits, RuntimeError, message, lambda: f", got {rows[~fits][0]}")
    if not longest:
        return np.full((batch, 1), blank)
    place = np.arange(2 * longest + 1)
    label = (place % 2 == 1) & (place < 2 * lengths[:, None])
    return rows[:, np.minimum(place // 2, longest - 1)] * label + ~label * blank


@by_slices
@in_full_precision
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the logarithm of the probability that a sequence of predictions writes the target.

    - `log_probs` (Tensor): log-probabilities (T, N, C), or (T, C) for one sample, from `log_softmax`
    - `targets` (Tensor): labels (N, S), or all of them in one dimension, sample after sample
    - `input_lengths`, `target_lengths` (Tensor or list, (N)): how many time steps and labels of each sample count
    - `blank` (int, default 0): the class that writes nothing
    - `reduction` (str, default "mean"): "none" gives the loss of each sample, "sum" their sum; "mean" divides each by
      its target's length, then takes the mean
    - `zero_infinity` (bool, default False): gives 0, with zero gradients, to targets that do not fit into their steps;
      else these have an infinite loss and nan gradients

    Every way to stretch the labels over the time steps counts, with `blank` wherever, and necessarily between equal
    labels. The result is 0-d, or (N) with reduction "none". The gradient is exp(y) - occupancy (eq. 16): that of a y
    that comes from log_softmax, to any order. RuntimeError for lengths that are too long, labels that are no classes, a
    `blank` that is none. Source: Graves, Fernandez, Gomez and Schmidhuber, Connectionist Temporal Classification, 2006.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> y = ferro.full((2, 1, 2), 0.5).log()  # blank or label 1, two steps: of four paths three write [1]
        >>> (-F.ctc_loss(y, ferro.tensor([[1]]), [2], [1])).exp()
        tensor(0.7500)
    """
    name = "ctc_loss"
    reduction = reduction_of(name, reduction)
    floating(name, log_probs)
    if log_probs._data.dtype in HALF:
        raise NotImplementedError(f"{name}: not implemented for {log_probs.dtype}; cast with .float()")
    shape = log_probs._data.shape
    if len(shape) not in (2, 3):
        raise RuntimeError(f"{name}: expected log_probs of shape (T, N, C) or (T, C), got {list(shape)}")
    batched = len(shape) == 3
    y = log_probs if batched else log_probs.unsqueeze(1)
    count, batch, classes = y._data.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"{name}: blank must be in label range, 0 to {classes - 1}, got {blank}")
    if batch == 0:
        raise RuntimeError(f"{name}: log_probs tensor must not be empty, got shape {list(shape)}")
    width = need_tensor(name, "targets", targets)._data.shape
    most, of_what = (width[1], "the width of targets") if len(width) == 2 else (targets._data.size, "all of targets")
    steps = _lengths(name, "input_lengths", input_lengths, batch, count, "the number of time steps")
    lengths = _lengths(name, "target_lengths", target_lengths, batch, most, of_what)
    states = _states(name, targets, batch, lengths, blank, classes)
    given = [wrap(backend.beside(y._data, a)) for a in (states, steps, lengths)]
    (loss,) = apply(CTC, (y, *given), (bool(zero_infinity),))
    if zero_infinity:
        loss = where(wrap(loss._data == math.inf), 0, loss)
    if reduction == "mean":
        return (loss / wrap(backend.beside(y._data, np.maximum(lengths, 1).astype(y._data.dtype)))).mean()
    return loss.sum() if reduction == "sum" else loss if batched else loss.squeeze(0)


def _log_probs(rng: Any, shape: tuple) -> Any:
    x = rng.standard_normal(shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


# smooth=False: the gradient is that of log-probabilities that stay normalised, see ctc_loss
_y, _labels = Arg(6, 3, 4, make=_log_probs), Arg(values=[[1, 2, 2], [3, 1, 0], [1, 1, 1]], dtype="int64")
_short = Arg(values=[1, 2, 3, 1], dtype="int64")
declare(
    "nn.functional.ctc_loss",
    [
        Sample(_y, _labels, (6, 5, 6), (3, 2, 3), smooth=False),
        Sample(_y, _labels, (6, 6, 6), (0, 1, 2), 0, "sum", smooth=False),
        Sample(_y, _labels, (6, 5, 2), (3, 2, 3), 0, "none", True, smooth=False),
        Sample(_y, _short, (6, 5, 4), (2, 0, 2), 0, "none", smooth=False),
        Sample(_y, Arg(values=[[0, 1], [2, 2], [1, 0]], dtype="int32"), (6, 5, 4), (2, 1, 2), 3, smooth=False),
        Sample(Arg(5, 4, make=_log_probs), Arg(values=[1, 3], dtype="int64"), (5,), (2,), smooth=False),
    ],
)
