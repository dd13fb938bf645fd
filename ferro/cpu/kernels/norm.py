"""Batch and group normalisation of NumPy arrays, mean and variance together, and their derivatives.

Results are made in their final shape: the engine copies a gradient that is a view of another array.
"""

from __future__ import annotations

import math

import numpy as np

from ferro.cpu.kernels.common import (
    GRAIN,
    MOST_CHUNKS,
    contiguous,
    has_kernel,
    is_half,
    share_rows,
    widened,
)
from ferro.cpu.thresholds import CHANNEL_CHUNK, CHANNEL_LONG
from ferro.native.workers import run_parts

Needs = tuple[bool, bool, bool]
Gradients = tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]


def _narrowed(gradients: Gradients, dtype: np.dtype) -> Gradients:
    x, weight, bias = [None if part is None else part.astype(dtype) for part in gradients]
    return x, weight, bias


def _parts(length: int, grain: int) -> int:
    """How many parts of `length` rows are summed for themselves, `grain` or more in each."""
    return max(1, min(length // max(grain, 1), MOST_CHUNKS))


# --- channels --------------------------------------------------------------------------------------------------------


def _as_channels(x: np.ndarray, dims: tuple[int, ...]) -> tuple[str, np.ndarray]:
    """`x` as (batch, channel, place), the dimensions not in `dims` together being the channel.

    One place is left out. The name of the kernels for such an array begins with the word that comes first.
    """
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    first, last = (kept[0], kept[-1] + 1) if kept else (0, 0)
    if last - first != len(kept):
        x, first, last = x.transpose(*kept, *dims), 0, len(kept)
    x = contiguous(x).reshape([math.prod(part) for part in (x.shape[:first], x.shape[first:last], x.shape[last:])])
    return ("column", x[:, :, 0]) if x.shape[2] == 1 else ("channel", x)


def _per_channel(name: str, x: np.ndarray, arrays: tuple, sums: int) -> np.ndarray:
    """Float64 sums for each channel of an array made by `_as_channels`, by a kernel that adds to them.

    `arrays` are the kernel's first arguments; those of more than one dimension have the batch first.
    """
    batch, channels = x.shape[:2]
    if batch >= channels:
        parts = _parts(batch, CHANNEL_CHUNK * batch // x.size)
        totals = np.zeros((sums, parts * channels))
        whole = sum([1 << k for k, a in enumerate(arrays) if a.ndim == 1])
        run_parts(name, parts, (*arrays, 0, channels, *totals), whole)
        return totals.reshape(sums, parts, channels).sum(1)
    totals = np.zeros((sums, channels))
    share_rows(name, channels, 2 * GRAIN * channels // x.size, (*arrays, 0, channels, *totals), -1, len(arrays))
    return totals


def _long_moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each channel of (batch, channel, place), in float64, from those of each x[a, k]."""
    batch, channels, n = x.shape
    sums, squares = np.empty((2, batch * channels, 1))
    rows = x.reshape(batch * channels, 1, n)
    share_rows("channel_moments", len(rows), 4 * GRAIN // n, (rows, sums, squares))
    sums, squares = sums.reshape(batch, channels), squares.reshape(batch, channels)
    mean = sums.sum(0) / (batch * n)
    with np.errstate(invalid="ignore"):
        return mean, (squares.sum(0) + n * ((sums / n - mean) ** 2).sum(0)) / (batch * n)


_MOMENTS = ("channel_moments", "channel_sums", "channel_squares", "column_sums", "column_squares")


def moments(x: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance (divided by the count) over `dims`, without those dimensions.

    The variance is summed from distances to the mean: it is right also where the mean is much larger than it. The
    results are float32 for 16-bit floats.
    """
    if is_half(x):
        x = widened(x)
    mean, var = _moments(x, dims)
    with np.errstate(over="ignore"):
        return mean.astype(x.dtype, copy=False), var.astype(x.dtype, copy=False)


def _moments(x: np.ndarray, dims: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The same of float32 or float64 arrays, as float64: the variance may lie beyond the range of the data."""
    shape = [n for dim, n in enumerate(x.shape) if dim not in dims]
    if not has_kernel(x, *_MOMENTS):
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.asarray(x.mean(dims, dtype=np.float64))
            centred = x - np.expand_dims(mean.astype(x.dtype), dims)
            return mean, np.asarray(np.mean(np.square(centred, dtype=np.float64), dims))
    word, parts = _as_channels(x, dims)
    if word == "channel" and parts.shape[2] >= CHANNEL_LONG:
        mean, var = _long_moments(parts)
        return mean.reshape(shape), var.reshape(shape)
    count = parts.size // parts.shape[1]
    mean = _per_channel(f"{word}_sums", parts, (parts,), 1)[0] / count
    squares = _per_channel(f"{word}_squares", parts, (parts, mean.astype(x.dtype)), 1)[0]
    return mean.reshape(shape), (squares / count).reshape(shape)


def _along_channels(parameter: np.ndarray, ndim: int) -> np.ndarray:
    """A value per channel so that it broadcasts against an array whose second dimension is the channel."""
    return parameter.reshape(-1, *[1] * (ndim - 2))


def batch_norm(
    x: np.ndarray, mean: np.ndarray, rstd: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None
) -> np.ndarray:
    """(x - mean) rstd weight + bias, each with one value per channel, the second dimension of `x`."""
    if is_half(x):
        return batch_norm(*[widened(part) for part in (x, mean, rstd, weight, bias)]).astype(x.dtype)
    scale = rstd if weight is None else rstd * weight
    shift = np.zeros_like(scale) if bias is None else bias
    if not has_kernel(x, "channel_affine", "column_affine"):
        mean, scale, shift = [_along_channels(part, x.ndim) for part in (mean, scale, shift)]
        return ((x - mean) * scale + shift).astype(x.dtype, copy=False)
    return _by_channel("affine", (x,), [contiguous(part, x.dtype) for part in (mean, scale, shift)], 4 * GRAIN)


def batch_norm_vjp(
    g: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    weight: np.ndarray | None,
    training: bool,
    needs: Needs,
) -> Gradients:
    """The gradients of batch_norm for x, weight and bias, those that `needs` asks for.

    In training, mean and rstd are the batch's own, and the gradient for x goes through them too.
    """
    if is_half(x):
        wide = batch_norm_vjp(widened(g), widened(x), widened(mean), widened(rstd), widened(weight), training, needs)
        return _narrowed(wide, x.dtype)
    scale = rstd if weight is None else rstd * weight
    dims = (0, *range(2, x.ndim))
    plain = product = np.zeros_like(mean)
    if training or needs[1] or needs[2]:
        plain, product = _channel_products(g, x, mean, dims)
    g_weight, g_bias = (product * rstd).astype(x.dtype, copy=False), plain.astype(x.dtype, copy=False)
    g_x = None
    if needs[0]:
        count = max(1, x.size // max(1, x.shape[1]))
        own = 1 / count if training else 0.0
        coefficients = mean, scale, plain * own, product * rstd * rstd * own
        g_x = _batch_norm_vjp_x(g, x, *[part.astype(x.dtype) for part in coefficients])
    return g_x, g_weight if needs[1] else None, g_bias if needs[2] else None


def _channel_products(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, dims: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """For each channel the sums of g and of g (x - mean)."""
    if not has_kernel(x, "channel_products", "column_products"):
        return g.sum(dims), (g * (x - _along_channels(mean, x.ndim))).sum(dims)
    word, parts = _as_channels(x, dims)
    gs = contiguous(g, x.dtype).reshape(parts.shape)
    m = contiguous(mean, x.dtype)
    plain, product = _per_channel(f"{word}_products", parts, (gs, parts, m), 2)
    return plain, product


def _batch_norm_vjp_x(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, scale: np.ndarray, plain: np.ndarray, product: np.ndarray
) -> np.ndarray:
    """(g - plain - (x - mean) product) scale, the last four with one value per channel."""
    if not has_kernel(x, "channel_norm_vjp", "column_norm_vjp"):
        mean, scale, plain, product = [_along_channels(part, x.ndim) for part in (mean, scale, plain, product)]
        return ((g - plain - (x - mean) * product) * scale).astype(x.dtype, copy=False)
    return _by_channel("norm_vjp", (contiguous(g, x.dtype), x), [mean, scale, plain, product], 2 * GRAIN)


def _by_channel(name: str, arrays: tuple, parameters: list[np.ndarray], grain: int) -> np.ndarray:
    """A kernel of arrays of one shape, and of parameters with a value per channel, the second dimension."""
    x = arrays[-1]
    if math.prod(x.shape[2:]) > 1:
        return _by_row(f"channel_{name}", arrays, parameters, math.prod(x.shape[2:]), grain)
    out, shape = np.empty(x.shape, x.dtype), x.shape[:2]
    args = (*[contiguous(a).reshape(shape) for a in arrays], *parameters, out.reshape(shape))
    share_rows(f"column_{name}", len(x), grain // shape[1], args, (1 << len(parameters)) - 1 << len(arrays))
    return out


def _by_row(name: str, arrays: tuple, parameters: list[np.ndarray], length: int, grain: int) -> np.ndarray:
    """A kernel of rows of this length, and of parameters with a value for each of them, or for as many at a time."""
    out = np.empty(arrays[-1].shape, arrays[-1].dtype)
    args = (*[contiguous(a).reshape(-1, length) for a in arrays], *parameters, out.reshape(-1, length))
    rows = out.size // length
    share_rows(name, rows, grain // length, (*args, 0, rows), -1, len(args))
    return out


def group_norm(
    x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, groups: int, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Large x (N, C, ...) normalised over groups of channels, scaled and shifted per channel; mean and rstd per group."""
    n, c = x.shape[:2]
    x = contiguous(x)
    mean, var = _moments(x.reshape(1, n * groups, -1), (0, 2))
    mean, rstd = mean.astype(x.dtype), (1 / np.sqrt(var + eps)).astype(x.dtype)
    m, scale = np.repeat(mean, c // groups), np.repeat(rstd, c // groups)
    if weight is not None:
        scale *= np.tile(weight, n)
    shift = np.zeros_like(scale) if bias is None else np.tile(bias, n).astype(x.dtype)
    return _by_row("channel_affine", (x,), [m, scale, shift], x.size // (n * c), 2 * GRAIN), mean, rstd


def group_norm_vjp(
    g: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray,
    rstd: np.ndarray,
    groups: int,
    needs: Needs,
) -> Gradients:
    """The gradients of group_norm for x, weight and bias, those that `needs` asks for."""
    n, c = x.shape[:2]
    each = c // groups
    xs, gs = [contiguous(a, x.dtype).reshape(1, n * c, -1) for a in (x, g)]
    m = np.repeat(mean, each)
    plain, product = [total.reshape(n, c) for total in _channel_products(gs, xs, m, (0, 2))]
    g_x = None
    if needs[0]:
        w = np.ones(c) if weight is None else weight.astype(np.float64)
        count, r = xs.size // (n * groups), rstd.astype(np.float64)
        one, two = [(total * w).reshape(n * groups, each).sum(1) / count for total in (plain, product)]
        per_group = -two * r * r, -one * r
        values = [np.repeat(r, each), np.repeat(r, each) * np.tile(w, n), *[np.repeat(v, each) for v in per_group]]
        parameters = [m, *[v.astype(x.dtype) for v in values]]
        g_x = _by_row("channel_mix", (contiguous(g, x.dtype), x), parameters, xs.shape[2], 2 * GRAIN)
    g_weight = (product * rstd.reshape(n, groups).repeat(each, 1)).sum(0).astype(x.dtype) if needs[1] else None
    return g_x, g_weight, plain.sum(0).astype(x.dtype) if needs[2] else None
