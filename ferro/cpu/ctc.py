"""Connectionist temporal classification: sums over all alignments of a label sequence, in the logarithmic domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, kernels
from ferro.cpu.kernels.common import contiguous, share_rows
from ferro.cpu.thresholds import GRAIN
from ferro.native.readiness import ready

__all__ = ["ctc_fwd", "ctc_occupancy", "ctc_vjp"]


# Note [CTC]
#     Graves, Fernandez, Gomez and Schmidhuber 2006, Connectionist Temporal Classification: Labelling Unsegmented
#     Sequence Data with Recurrent Neural Networks. The labels with blanks between them are the states; alpha (eq. 6)
#     sums the paths that lead to a state, beta (eq. 10) those that lead on from it, here without the emission of the
#     state itself. Their product is the probability that a path runs through a state (eq. 14); summed over the states
#     of a class this is the occupancy, d log Z / d log_probs. With y the log-probabilities the loss is -log Z.
#
# Note [Derivatives of the occupancy]
#     The n-th derivative of the occupancy in the directions v1, ..., vn is a joint cumulant. It comes from the same two
#     recursions in the algebra with generators e1, ..., en, ei ei = 0, in which an emission is exp(y) prod (1 + vi ei):
#     the coefficient of e1 ... en (for n = 1 the expectation semiring: Li and Eisner 2009, First- and Second-Order
#     Expectation Semirings). A number of the algebra is kept as its logarithm at ei = 0 and its 2^n coefficients divided
#     by its value there, coefficient number m belonging to the product of the generators in the bits of m.


_KERNELS = kernels("jit_ctc.ctc_alpha ctc_occupancy")
_quiet = np.errstate(divide="ignore", invalid="ignore")  # log(0) is -inf: no path


def _alignments(make: Make) -> Iterator[tuple]:
    labels = np.array([[0, 1, 0, 2, 0], [0, 3, 0, 3, 0], [0, 4, 0, 0, 0]])
    for steps in (4, 40, 4000):
        y = np.exp(make(steps, 3, 5))
        yield np.log(y / y.sum(2, keepdims=True)), labels, np.array([steps, steps - 1, steps // 2]), np.array([2, 2, 1])


def _within(given: tuple, found: tuple) -> tuple:
    """The losses, and alpha as far as a sample has steps: behind these nobody reads it."""
    loss, alpha = found
    return loss, np.where(np.arange(alpha.shape[1])[:, None] < given[2][:, None, None], alpha, 0)


@by_kernels(_KERNELS[:1], _alignments, _within)
@_quiet
def ctc_fwd(y: Any, labels: Any, steps: Any, lengths: Any) -> tuple[Any, Any]:
    """The loss of each sample, (N), and the logarithms of alpha for `ctc_vjp`, (N, T, states).

    y: log-probabilities (T, N, C); labels: the states (N, 2 S + 1); steps, lengths: numbers of time steps and labels.
    """
    if ready(_KERNELS, y.dtype):
        y = contiguous(y)
        alpha = np.empty((len(labels), len(y), labels.shape[1]))
        _by_sample("ctc_alpha", alpha, y, labels, steps, lengths, 0, len(alpha), alpha)
    else:
        rows, _ = _recursion(_emissions(y, labels, lengths), _no_directions(y), labels, None)
        alpha = np.stack(rows, 1) if rows else np.full((len(labels), 0, labels.shape[1]), -np.inf)
    return (0.0 - _total(alpha, steps, lengths)).astype(y.dtype), alpha


@_quiet
def ctc_vjp(g: Any, y: Any, labels: Any, steps: Any, lengths: Any, zero_infinity: bool, alpha: Any) -> Any:
    """The backward of `ctc_fwd`: (exp(y) - occupancy) g, the gradient for a y that comes from log_softmax.

    For log-probabilities free of any constraint it would be -occupancy g; what log_softmax makes of exp(y) is zero.
    Of samples without any path it is nan, or zero with `zero_infinity`.
    """
    dy = np.exp(y) - ctc_occupancy(y, _no_directions(y), labels, steps, lengths, alpha)
    dy *= g[:, None]
    dy[:, _total(alpha, steps, lengths) == -np.inf] = 0 if zero_infinity else np.nan
    dy[np.arange(len(y))[:, None] >= steps] = 0
    return dy


def _by_sample(name: str, alpha: Any, *args: Any) -> None:
    """A kernel of the recursions, which take NumPy some 20 calls a step: so there is no size below which they pay."""
    cost = 20 * max(alpha[0].size, 1) if len(alpha) else 1  # an element takes some exponentials
    share_rows(name, len(alpha), GRAIN // cost + 1, args, whole=-1, span=len(args) - 3)


def _no_directions(y: Any) -> Any:
    return np.zeros((0, *y.shape))


def _total(alpha: Any, steps: Any, lengths: Any) -> Any:
    """log Z of each sample: the last label or the blank behind it, at the last step."""
    n = np.arange(len(alpha))
    empty = np.where(lengths == 0, 0.0, -np.inf)  # without steps only the empty sequence can be written
    if alpha.shape[1] == 0:
        return empty
    last = alpha[n, np.maximum(steps - 1, 0)]
    blank = last[n, 2 * lengths]
    label = np.where(lengths > 0, last[n, np.maximum(2 * lengths - 1, 0)], -np.inf)
    return np.where(steps > 0, np.logaddexp(blank, label), empty)


# -- the recursions ----------------------------------------------------------------------------------------------------


def _emissions(y: Any, labels: Any, lengths: Any) -> Any:
    """log_probs of the states, (T, N, states) in float64; -inf for states that a sample has not."""
    e = np.take_along_axis(y.astype(np.float64), np.broadcast_to(labels, (len(y), *labels.shape)), 2)
    return np.where(np.arange(labels.shape[1]) > 2 * lengths[:, None], -np.inf, e)


def _shift(a: Any, by: int, fill: float) -> Any:
    """The states moved up (by > 0) or down along the last dimension."""
    out = np.full_like(a, fill)
    if by > 0:
        out[..., by:] = a[..., :-by]
    else:
        out[..., :by] = a[..., -by:]
    return out


def _merge(a: Any, r: Any, jump: Any, way: int) -> tuple[Any, Any]:
    """The sum of each state, its neighbour and, where `jump` says so, the next but one: logarithm and coefficients."""
    parts = [a, _shift(a, way, -np.inf), np.where(jump, _shift(a, 2 * way, -np.inf), -np.inf)]
    top = np.maximum(np.maximum(parts[0], parts[1]), parts[2])
    base = np.where(top == -np.inf, 0, top)
    shares = [np.exp(p - base) for p in parts]
    total = shares[0] + shares[1] + shares[2]
    if len(r) > 1:
        safe = np.where(total == 0, 1, total)
        r = (r * shares[0] + _shift(r, way, 0) * shares[1] + _shift(r, 2 * way, 0) * shares[2]) / safe
    return np.log(total) + base, r


def _emit(r: Any, v: Any) -> Any:
    """The coefficients times prod (1 + v[i] e_i)."""
    if len(v):
        r = r.copy()
        r[0] = 1  # (of states that nothing leads to as well)
    for i in range(len(v)):
        for m in range(len(r)):
            if m >> i & 1:
                r[m] += v[i] * r[m ^ 1 << i]
    return r


def _jumps(labels: Any) -> Any:
    """Whether the blank before a state may be left out: only between different labels."""
    found = np.zeros(labels.shape, bool)
    found[:, 2:] = labels[:, 2:] != labels[:, :-2]
    return found


def _recursion(e: Any, v: Any, labels: Any, last: Any) -> tuple[list, list]:
    """alpha for all steps, or with `last` = (steps, lengths) beta: logarithms (N, states) and coefficients.

    e: emissions (T, N, states); v: their directions (n, T, N, states).
    """
    logs, coefficients = [], []
    n, states = e.shape[1:]
    jump, way = _jumps(labels), 1
    a = np.full((n, states), -np.inf)
    r = np.ones((1 << len(v), n, states))
    r[1:] = 0
    if last is None:
        for t in range(len(e)):
            if t == 0:
                a[:, :2] = 0
            else:
                a, r = _merge(a, r, jump, way)
            a, r = a + e[t], _emit(r, v[:, t])
            logs.append(a)
            coefficients.append(r)
        return logs, coefficients
    steps, lengths = last
    jump = np.concatenate([jump, np.zeros((n, 2), bool)], 1)[:, 2:]
    place = np.arange(states)
    final = np.where((place == 2 * lengths[:, None]) | (place == 2 * lengths[:, None] - 1), 0.0, -np.inf)
    for t in range(len(e) - 1, -1, -1):
        if t < len(e) - 1:
            a, r = _merge(a + e[t + 1], _emit(r, v[:, t + 1]), jump, -way)
        start = t == steps - 1
        a = np.where(start[:, None], final, a)
        if len(r) > 1:
            r = np.where(start[:, None], np.eye(len(r), 1)[:, :, None], r)
        logs.append(a)
        coefficients.append(r)
    return logs[::-1], coefficients[::-1]


# -- the occupancy -----------------------------------------------------------------------------------------------------


@by_kernels(_KERNELS, lambda make: ((y, np.zeros((0, *y.shape)), *given) for y, *given in _alignments(make)))
@_quiet
def ctc_occupancy(y: Any, v: Any, labels: Any, steps: Any, lengths: Any, alpha: Any = None) -> Any:
    """The occupancy of each class at each step, (T, N, C), or its derivative in the directions v, (n, T, N, C).

    See Note [Derivatives of the occupancy].  Zero for samples without any path.
    """
    if len(v) == 0 and ready(_KERNELS, y.dtype):
        alpha = ctc_fwd(y, labels, steps, lengths)[1] if alpha is None else alpha
        y, out, total = contiguous(y), np.zeros(y.shape), _total(alpha, steps, lengths)
        _by_sample("ctc_occupancy", alpha, y, labels, steps, lengths, alpha, total, 0, len(alpha), out)
        return out.astype(y.dtype, copy=False)
    e = _emissions(y, labels, lengths)
    spread = np.broadcast_to(labels, (*v.shape[:2], *labels.shape))
    directions = np.take_along_axis(v.astype(np.float64), spread, 3)
    a, ra = _recursion(e, directions, labels, None)
    b, rb = _recursion(e, directions, labels, (steps, lengths))
    out = np.zeros(y.shape)
    if not len(y):
        return out.astype(y.dtype)
    total = _total(np.stack(a, 1), steps, lengths)
    inverse = _inverse(_at_end(a, ra, steps, lengths, total))
    rows = np.arange(len(labels))[:, None]
    for t in range(len(y)):
        share = np.exp(a[t] + b[t] - total[:, None])
        if len(v):
            share = share * _top(ra[t], rb[t], inverse)
        share = np.where((t < steps)[:, None] & (a[t] + b[t] != -np.inf), share, 0)
        np.add.at(out[t], (rows, labels), share)
    return out.astype(y.dtype)


def _at_end(a: list, ra: list, steps: Any, lengths: Any, total: Any) -> Any:
    """The coefficients of Z, (2^n, N)."""
    n = np.arange(len(steps))
    t = np.maximum(steps - 1, 0)
    logs, coefficients = np.stack(a), np.stack(ra)
    blank, label = 2 * lengths, np.maximum(2 * lengths - 1, 0)
    first = np.where(total > -np.inf, np.exp(logs[t, n, blank] - total), 1)
    r = coefficients[t, :, n, blank].T * first
    return r + np.where(lengths > 0, coefficients[t, :, n, label].T * (1 - first), 0)


def _inverse(q: Any) -> Any:
    """1 / q for coefficients q with q[0] = 1."""
    out = np.zeros_like(q)
    out[0] = 1
    for m in range(1, len(q)):
        part = m
        while part:  # all parts of the set of generators m that are not empty
            out[m] -= q[part] * out[m ^ part]
            part = (part - 1) & m
    return out


def _top(p: Any, q: Any, inverse: Any) -> Any:
    """The coefficient of all generators in p q inverse."""
    full = len(p) - 1
    total: Any = 0
    for i in range(full + 1):
        rest = full ^ i
        part = rest
        while True:  # q takes the part, the inverse what remains
            total = total + p[i] * q[part] * inverse[rest ^ part][:, None]
            if not part:
                break
            part = (part - 1) & rest
    return total
