"""Convolution of NumPy arrays in one to three dimensions, and its two transposes.

x is (batch, channel, place...), w is (result channel, channel / groups, tap...), and stride, padding and dilation are
tuples with one number per dimension of place. Nothing is conjugated.

Tiles of results, some images or a part of one, are computed as sums of shifted images: see the note in jit_conv.py.
Tiles and chunks of tiles depend on the sizes alone.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import kernels
from ferro.cpu.kernels import gemm, winograd
from ferro.cpu.kernels.common import MOST_CHUNKS, contiguous
from ferro.cpu.kernels.conv_plans import Ints, Plan, Sums, TapSet, cuts_of, plan_of, sums_of
from ferro.cpu.thresholds import CONV_APART, CONV_CHUNK, CONV_TOTALS, GEMM_LEAST
from ferro.native import readiness
from ferro.native.readiness import get
from ferro.native.workers import run_parts, run_rows

ALL_BUT_TILES = ~(1 << 8)  # the arguments of `correlate` that are not cut

# --- the three functions ---------------------------------------------------------------------------------------------


def ready(x: np.ndarray) -> bool:
    """Whether a convolution of x need not wait for a compiler."""
    return readiness.ready(_KERNELS, x.dtype)


_KERNELS = kernels("jit_conv.correlate in_blocks jit_conv_weight.correlate_channels correlate_taps from_channels")


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The convolution (cross-correlation) of x with w, plus a bias per channel."""
    plan = plan_of(x.shape, w.shape, stride, padding, dilation, groups)
    # Not a view: whoever gets it may keep it.
    out = np.empty((len(x), plan.out[0], *plan.out[6 - x.ndim :]), x.dtype)
    images, taps, results = _readable(x), _readable(w, x.dtype), out.reshape(len(x), *plan.out)
    images = images.reshape(len(x), *plan.image)
    if plan.is_product:
        _multiply(taps.reshape(plan.groups, -1, plan.rows), False, images, bias, results)
    else:
        _conv(images, taps, bias, plan, results)
    return out


def conv_dx(
    g: np.ndarray, w: np.ndarray, x_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in x: what each input place gets back from the places it went to."""
    plan = plan_of(x_shape, w.shape, stride, padding, dilation, groups)
    if not all(plan.shares):  # all windows lie in the padding
        return np.zeros(x_shape, g.dtype)
    out = (np.empty if plan.meets_all else np.zeros)(x_shape, g.dtype)
    grads, taps, images = _readable(g).reshape(len(g), *plan.out), _readable(w, g.dtype), out.reshape(-1, *plan.image)
    if plan.is_product:
        _multiply(taps.reshape(plan.groups, -1, plan.rows), True, grads, None, images)
    else:
        _conv_dx(grads, taps, plan, images)
    return out


def conv_dw(
    g: np.ndarray, x: np.ndarray, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray | None:
    """The transpose of `conv` in w, summed over the batch; None where infinities or nan may have reached too many places."""
    plan = plan_of(x.shape, w_shape, stride, padding, dilation, groups)
    grads, images = _readable(g, x.dtype).reshape(len(g), *plan.out), _readable(x).reshape(len(x), *plan.image)
    out = np.zeros(w_shape, x.dtype)
    if plan.is_product and plan.work >= GEMM_LEAST * plan.groups and gemm.ready(x):
        _multiply_dw(grads, images, out.reshape(plan.groups, -1, plan.rows))
        return out
    _conv_dw(grads, images, plan, out.reshape(plan.groups, -1, plan.rows))
    return out if np.isfinite(out).all() else None  # zeros have met infinities or nan


def _readable(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A contiguous array that may be written to: kernels are not compiled once more for others."""
    x = contiguous(x, dtype)
    return x if x.flags.writeable else x.copy()


# --- sums of shifted images: see Note [Sums of shifted images] in jit_conv.py ----------------------------------------


def _in_blocks(w: np.ndarray, strides: Ints, rows: int, columns: int, taps: np.ndarray, groups: int) -> np.ndarray:
    """The weight as `correlate` reads it: rows of the result, columns of channels that are summed over."""
    packed = np.empty((groups, rows, columns * len(taps)), w.dtype)
    get("in_blocks")(w.reshape(-1), strides, taps, columns, packed)
    return packed.reshape(-1)


def _correlate(
    x: np.ndarray,
    sums: Sums,
    stride: Ints,
    start: Ints,
    packed: np.ndarray,
    bias: np.ndarray | None,
    groups: int,
    out: np.ndarray,
    step: Ints,
) -> None:
    """Writes the sums of each set to every step-th place of `out`."""
    added = np.zeros(out.shape[1], x.dtype) if bias is None else _readable(bias, x.dtype)
    args = (*sums.seen(x, stride, start), sums.sets, packed, added, groups, out, (out.shape[1:], step))
    run_rows("correlate", sums.parts, len(sums.tiles), args, ALL_BUT_TILES)


def _conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, plan: Plan, out: np.ndarray) -> None:
    if plan.has_nine_taps and winograd.suits(x, plan.out[0], *plan.out[2:]):
        added = np.zeros(plan.out[0], x.dtype) if bias is None else _readable(bias, x.dtype)
        if winograd.correlate(x, w, False, added, plan.padding, out):
            return
    start = tuple([-p for p in plan.padding])
    sums = sums_of(len(x), plan.image, plan.out, plan.sets, plan.stride, start, plan.groups)
    rows, elements = plan.out[0] // plan.groups, math.prod(plan.size)
    strides = (rows * plan.rows, plan.rows, elements)
    packed = _in_blocks(w, strides, rows, plan.image[0] // plan.groups, np.arange(elements), plan.groups)
    _correlate(x, sums, plan.stride, start, packed, bias, plan.groups, out, (1, 1, 1))


def _conv_dx(g: np.ndarray, w: np.ndarray, plan: Plan, out: np.ndarray) -> None:
    """With a stride s, every s-th place in each direction gets the same taps; each such set is a sum of shifted g."""
    if plan.has_nine_taps and winograd.suits(g, plan.image[0], *plan.image[2:]):
        padding = tuple([2 - p for p in plan.padding])
        if winograd.correlate(g, w, True, np.zeros(plan.image[0], g.dtype), padding, out):
            return
    groups, one = plan.groups, (1, 1, 1)
    channels, elements = plan.image[0] // groups, math.prod(plan.size)
    outputs = plan.out[0] // groups
    start = tuple([min(share.start for share in shares) for shares in plan.shares])
    size = (plan.image[0], *[max(share.count for share in shares) for shares in plan.shares])
    number = np.arange(elements).reshape(plan.size)
    sets, packed = [], []
    for some in product(*plan.shares):
        positions = [[p + share.start - s for p in share.positions] for share, s in zip(some, start, strict=True)]
        sets.append(TapSet(tuple([share.first for share in some]), tuple(map(tuple, positions))))
        chosen = number[np.ix_(*[share.taps for share in some])].reshape(-1)
        packed.append(_in_blocks(w, (outputs * plan.rows, elements, plan.rows), channels, outputs, chosen, groups))
    sums = sums_of(len(g), plan.out, size, tuple(sets), one, start, groups)
    _correlate(g, sums, one, start, np.concatenate(packed), None, groups, out, plan.stride)


def _multiply(w: np.ndarray, turned: bool, x: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> None:
    """out[n] = w x[n] + bias for images as matrices; w is (group, row, column), or (group, column, row)."""
    (groups, rows, columns), (apart, down, across) = w.shape, w.strides
    if turned:
        rows, columns, down, across = columns, rows, across, down
    # (a fourth of the time of np.broadcast_to)
    w = np.ndarray((len(x), groups, rows, columns), w.dtype, w, 0, (0, apart, down, across))
    x, out = x.reshape(len(x), groups, columns, -1), out.reshape(len(x), groups, rows, -1)
    added = None if bias is None else bias.reshape(groups, rows, 1)
    if not gemm.ready(x):
        found = gemm.gemm(w, x)
        out[...] = found if added is None else found + added
        return
    if added is not None:
        out[...] = added
    gemm.multiply(w, x, out, None if added is None else out)


def _multiply_dw(g: np.ndarray, x: np.ndarray, total: np.ndarray) -> None:
    """total = sum of g[n] x[n]ᵀ for images as matrices, one after the other; total is (group, row, column)."""
    groups, rows, columns = total.shape
    g, x = g.reshape(len(g), groups, rows, -1), x.reshape(len(x), groups, columns, -1).swapaxes(2, 3)
    for k in range(len(g)):
        gemm.multiply(g[k], x[k], total, total if k else None)


def _conv_dw(g: np.ndarray, x: np.ndarray, plan: Plan, total: np.ndarray) -> None:
    """Adds the gradient to zeros (group, row, column)."""
    if plan.has_nine_taps and winograd.suits_by_taps(x, plan.out[0], *plan.out[2:]):
        winograd.by_taps(g, x, plan.padding, total.reshape(plan.out[0], plan.image[0], 9))
    elif plan.has_many_channels:
        _correlate_channels(g, x, plan, total)
    else:
        _correlate_taps(g, x, plan, total)


def _correlate_channels(g: np.ndarray, x: np.ndarray, plan: Plan, total: np.ndarray) -> None:
    """The gradient by the weight where channels lie along registers."""
    taps, stride, dilation = [values[1:] for values in (plan.size, plan.stride, plan.dilation)]
    tiles = cuts_of(len(x), plan.image[0], plan.out[2:], taps, stride, dilation)
    shape = (math.prod(taps), -(-plan.out[0] // 8) * 8, -(-plan.image[0] // 16) * 16)  # whole blocks
    most = max(2, min(CONV_TOTALS // math.prod(shape), len(x) * plan.places // CONV_APART))
    parts = max(1, min(len(tiles), MOST_CHUNKS, len(x) * plan.work // CONV_CHUNK, most))
    start = tuple([-p for p in plan.padding[1:]])
    image, out = (plan.image[0], *plan.image[2:]), (plan.out[0], *plan.out[2:])
    sums = np.zeros((parts * shape[0], *shape[1:]), x.dtype)
    args = (x, image, start, stride, dilation, taps, tiles, g, out, sums)
    run_parts("correlate_channels", parts, args, ~(1 << 6 | 1 << 9))
    get("from_channels")(_added(sums, parts), total.reshape(plan.out[0], plan.image[0], shape[0]))


def _correlate_taps(g: np.ndarray, x: np.ndarray, plan: Plan, total: np.ndarray) -> None:
    """The gradient by the weight where places lie along registers."""
    start = tuple([-p for p in plan.padding])
    sums = sums_of(len(x), plan.image, plan.out, plan.sets, plan.stride, start, plan.groups)
    parts = min(sums.parts, max(2, CONV_TOTALS // total.size))
    some = total if parts == 1 else np.zeros((parts * len(total), *total.shape[1:]), total.dtype)
    args = (*sums.seen(x, plan.stride, start), g, g.shape[1:], plan.groups, some)
    run_parts("correlate_taps", parts, args, ~(1 << 8 | 1 << 13))
    if parts > 1:
        total += _added(some, parts)


def _added(sums: np.ndarray, parts: int) -> np.ndarray:
    """The sum of the parts, each an equal number of rows."""
    return sums if parts == 1 else np.add.reduce(sums.reshape(parts, -1, *sums.shape[1:]), 0)
