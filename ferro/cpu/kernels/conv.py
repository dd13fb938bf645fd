"""Convolution of NumPy arrays in one to three dimensions, and its two transposes.

x is (batch, channel, place...), w is (result channel, channel / groups, tap...), and stride, padding and dilation are
tuples with one number per dimension of place. Nothing is conjugated.

Tiles of results, some images or a part of one, are computed as sums of shifted images: see the note in jit_conv.py.
Tiles and chunks of tiles depend on the sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from ferro.cpu.kernels import background, get
from ferro.cpu.kernels.common import MOST_CHUNKS, SMALL, contiguous, has_kernel, is_half, split, widened
from ferro.cpu.threads import blas_single, gemm, parallel_for

Ints = tuple[int, ...]

TILE_SIZE = 1 << 19  # numbers that a tile reads and writes
TILE_PLACES = 256
CHUNK_WORK = 1 << 22  # multiplications of a chunk: about 60 us
COPY = 24  # what it costs to copy a number, in multiplications
SHARED_WORK = 1 << 20  # channels in times results from which on there are tiles for several threads
SHARES = 4
TOTALS = 1 << 22  # numbers in all the gradients by w that chunks may sum apart, if they are more than two
PRODUCT_WORK = 1 << 21  # multiplications for an image from which on BLAS does what is a product of matrices


class _Plan(NamedTuple):
    """A convolution in three dimensions of place, missing ones having size 1."""

    size: Ints  # taps
    stride: Ints
    padding: Ints
    dilation: Ints
    image: Ints  # (channel, depth, height, width) of x
    out: Ints  # (channel, depth, height, width) of the result
    groups: int

    @property
    def rows(self) -> int:
        """Rows of the matrix of patches: channels of a group times taps."""
        return self.image[0] // self.groups * math.prod(self.size)

    @property
    def places(self) -> int:
        return math.prod(self.out[1:])

    @property
    def work(self) -> int:
        """Multiplications for one image."""
        return self.rows * math.prod(self.out)

    @property
    def is_product(self) -> bool:
        """Whether images are large matrices, which the weight is multiplied by."""
        plain = self.size == self.stride == (1, 1, 1) and self.padding == (0, 0, 0)
        return plain and self.rows * math.prod(self.out) > PRODUCT_WORK

    @property
    def shares(self) -> list[list[_Share]]:
        return _shares(self.size, self.stride, self.padding, self.dilation, self.image[1:])

    @property
    def meets_all(self) -> bool:
        """Whether every place of x is met by some tap of some window, the outermost windows perhaps lying outside."""
        return all(len(some) == min(s, n) for some, s, n in zip(self.shares, self.stride, self.image[1:], strict=True))

    @property
    def positions(self) -> tuple[Ints, ...]:
        """Where the taps are, in each direction."""
        return tuple([tuple([k * d for k in range(n)]) for n, d in zip(self.size, self.dilation, strict=True)])


def out_size(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Places of the result along one dimension."""
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


@lru_cache(maxsize=256)
def _plan(x_shape: Ints, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> _Plan:
    """The plan, every tuple filled up to three dimensions in front."""
    n = len(x_shape) - 2
    ones, zeros = (1,) * (3 - n), (0,) * (3 - n)
    out = [out_size(*each) for each in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)]
    return _Plan(
        size=ones + tuple(w_shape[2:]),
        stride=ones + tuple(stride),
        padding=zeros + tuple(padding),
        dilation=ones + tuple(dilation),
        image=(x_shape[1], *ones, *x_shape[2:]),
        out=(w_shape[0], *ones, *out),
        groups=groups,
    )


def _result_shape(plan: _Plan, batch: int, n: int) -> Ints:
    return (batch, plan.out[0], *plan.out[4 - n :])


# --- the three functions ---------------------------------------------------------------------------------------------


def ready(x: np.ndarray) -> bool:
    """Whether a convolution of x need not wait for a compiler."""
    return background.ready(_make, x.dtype, "correlate")


def _make(dtype: np.dtype) -> None:
    """A call of every kernel."""
    x, w, one = np.ones((1, 4, 32, 32), dtype), np.ones((4, 4, 3, 3), dtype), (1, 1)
    out = conv(x, w, None, one, one, one, 1)
    conv_dx(out, w, x.shape, one, one, one, 1)
    conv_dw(out, x, w.shape, one, one, one, 1)


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The convolution (cross-correlation) of x with w, plus a bias per channel."""
    if is_half(x):
        return conv(widened(x), widened(w), widened(bias), stride, padding, dilation, groups).astype(x.dtype)
    plan = _plan(x.shape, w.shape, stride, padding, dilation, groups)
    shape = _result_shape(plan, len(x), x.ndim - 2)
    if math.prod(shape) == 0 or not _is_large(x, shape):
        out = _conv_numpy(x, w, plan).reshape(shape)
    else:
        out = np.empty((len(x), *plan.out), x.dtype)
        images, taps = _readable(x).reshape(len(x), *plan.image), _readable(w, x.dtype)
        if plan.is_product:
            _multiply(taps.reshape(plan.groups, -1, plan.rows), images, bias, out)
        else:
            _conv(images, taps, bias, plan, out)
        return out.reshape(shape)
    if bias is not None:
        out += bias.reshape(-1, *[1] * (x.ndim - 2))
    return out


def conv_dx(
    g: np.ndarray, w: np.ndarray, x_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in x: what each input place gets back from the places it went to."""
    if is_half(g):
        return conv_dx(widened(g), widened(w), x_shape, stride, padding, dilation, groups).astype(g.dtype)
    plan = _plan(x_shape, w.shape, stride, padding, dilation, groups)
    if g.size == 0 or not _is_large(g, x_shape):
        return _conv_dx_numpy(g, w, plan).reshape(x_shape)
    out = (np.empty if plan.meets_all else np.zeros)((len(g), *plan.image), g.dtype)
    grads, taps = _readable(g).reshape(len(g), *plan.out), _readable(w, g.dtype)
    if plan.is_product:
        _multiply(taps.reshape(plan.groups, -1, plan.rows).swapaxes(1, 2), grads, None, out)
    else:
        _conv_dx(grads, taps, plan, out)
    return out.reshape(x_shape)


def conv_dw(
    g: np.ndarray, x: np.ndarray, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in w, summed over the batch."""
    if is_half(x):
        return conv_dw(widened(g), widened(x), w_shape, stride, padding, dilation, groups).astype(x.dtype)
    plan = _plan(x.shape, w_shape, stride, padding, dilation, groups)
    if g.size == 0 or not _is_large(x, g.shape):
        return _conv_dw_numpy(g, x, plan).reshape(w_shape)
    grads, images = _readable(g, x.dtype).reshape(len(g), *plan.out), _readable(x).reshape(len(x), *plan.image)
    return _conv_dw(grads, images, plan).reshape(w_shape)


def _readable(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A contiguous array that may be written to: kernels are not compiled once more for others."""
    x = contiguous(x, dtype)
    return x if x.flags.writeable else x.copy()


def _is_large(x: np.ndarray, other: Ints) -> bool:
    """Whether kernels do the work: they take the dtype, and input or result have enough elements."""
    return has_kernel(x) or (math.prod(other) >= SMALL and x.dtype.char in "fd")


# --- sums of shifted images: see Note [Sums of shifted images] in jit_conv.py ----------------------------------------


class _Sums(NamedTuple):
    """How a sum of shifted images is computed: the arguments of the kernels, and chunks of tiles."""

    phases: np.ndarray
    images: int
    room: Ints
    reach: Ints
    tiles: np.ndarray
    offsets: np.ndarray
    chunks: tuple[tuple[int, int], ...]


def _tile(batch: int, image: Ints, out: Ints, reach: Ints, phases: int) -> tuple[int, Ints]:
    """The number of images of a tile and its (depth, height, width): what it works on fits into the second cache."""

    def size(tile: Ints) -> int:
        return (image[0] * phases + out[0]) * math.prod([n + r for n, r in zip(tile, reach, strict=True)])

    def count(tile: Ints) -> int:
        return batch * math.prod([-(-n // t) for n, t in zip(out[1:], tile, strict=True)])

    tile = out[1:]
    shared = batch * image[0] * math.prod(out) > SHARED_WORK
    while size(tile) > TILE_SIZE or (shared and count(tile) < SHARES and math.prod(tile) > 4 * TILE_PLACES):
        depth, height, width = tile
        if depth > 1:
            tile = (-(-depth // 2), height, width)
        elif height > 4:
            tile = (1, -(-height // 2), width)
        elif width > 4 * TILE_PLACES:
            tile = (1, height, -(-width // 2))
        else:
            break
    if tile != out[1:]:
        return 1, tile
    images = min(4 * TILE_PLACES // math.prod(tile), TILE_SIZE // size(tile))
    if shared:
        images = min(images, max(-(-batch // SHARES), TILE_PLACES // math.prod(tile)))
    return max(1, min(images, batch)), tile


def _common(tile: int, reach: int, stride: int, start: int, residues: list[int], length: int) -> int:
    """Zeros that the end of a row and the beginning of the next one share: as many as both have in every phase."""
    both = reach
    for residue in residues:
        before = -(-max(0, -start - residue) // stride)
        inside = -(-max(0, length - start - residue) // stride)  # places up to the end of the image
        both = min(both, before, max(0, tile + reach - inside))
    return both


@lru_cache(maxsize=256)
def _sums(
    batch: int, image: Ints, out: Ints, positions: tuple[Ints, ...], stride: Ints, start: Ints, groups: int
) -> _Sums:
    """The sums for images (channel, depth, height, width), results `out` likewise, and taps at these positions.

    A position is counted from where the first result begins to read, which is `start`.
    """
    residues = [sorted({p % s for p in some}) for some, s in zip(positions, stride, strict=True)]
    phases = list(product(*residues))
    reach = tuple([max(some) // s for some, s in zip(positions, stride, strict=True)])
    images, tile = _tile(batch, image, out, reach, len(phases))
    room = tuple([
        n + r - (_common(n, r, s, begin, some, length) if n == size else 0)
        for n, r, s, begin, some, length, size in zip(
            tile, reach, stride, start, residues, image[1:], out[1:], strict=True
        )
    ])  # fmt: skip
    plane = math.prod(room)
    offsets = []
    for tap in product(*positions):
        phase = phases.index(tuple([p % s for p, s in zip(tap, stride, strict=True)]))
        z, y, x = [p // s for p, s in zip(tap, stride, strict=True)]
        offsets.append(phase * images * plane + (z * room[1] + y) * room[2] + x)
    channels = np.arange(image[0] // groups) * (len(phases) * images * plane)
    cuts = [[(b, min(b + n, size)) for b in range(0, size, n)] for n, size in zip(tile, out[1:], strict=True)]
    tiles = [
        [a, min(a + images, batch), *chain.from_iterable(place)] for place in product(*cuts)
        for a in range(0, batch, images)
    ]  # fmt: skip
    work = batch * (image[0] // groups * len(offsets) * math.prod(out) + COPY * (math.prod(image) + math.prod(out)))
    parts = max(1, min(len(tiles), MOST_CHUNKS, work // CHUNK_WORK))
    return _Sums(
        phases=np.array(phases, np.int64),
        images=images,
        room=room,
        reach=reach,
        tiles=np.array(tiles, np.int64),
        offsets=(channels[:, None] + np.array(offsets, np.int64)).reshape(-1),
        chunks=tuple([(len(tiles) * k // parts, len(tiles) * (k + 1) // parts) for k in range(parts)]),
    )


def _in_blocks(w: np.ndarray, strides: Ints, rows: int, columns: int, taps: np.ndarray, groups: int) -> np.ndarray:
    """The weight as `correlate` reads it: rows of the result, columns of channels that are summed over."""
    packed = np.empty((groups, rows, columns * len(taps)), w.dtype)
    get("in_blocks")(w.reshape(-1), strides, taps, columns, packed)
    return packed.reshape(-1)


def _run(chunks: int, work: Callable[[int], object]) -> None:
    if chunks == 1:
        work(0)
    else:
        parallel_for(work, chunks)


def _correlate(x: np.ndarray, sums: _Sums, stride: Ints, start: Ints, packed: np.ndarray, bias: np.ndarray | None,
               groups: int, out: np.ndarray, first: Ints, step: Ints) -> None:  # fmt: skip
    """Writes the sums to every step-th place of `out` from `first` on."""
    run = get("correlate")
    added = np.zeros(out.shape[1], x.dtype) if bias is None else _readable(bias, x.dtype)
    places = (out.shape[1:], first, step)

    def work(chunk: int) -> None:
        a, b = sums.chunks[chunk]
        run(x, x.shape[1:], sums.phases, stride, start, sums.images, sums.room, sums.reach, sums.tiles[a:b],
            sums.offsets, packed, added, groups, out, places)  # fmt: skip

    _run(len(sums.chunks), work)


def _conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, plan: _Plan, out: np.ndarray) -> None:
    start = tuple([-p for p in plan.padding])
    sums = _sums(len(x), plan.image, plan.out, plan.positions, plan.stride, start, plan.groups)
    rows, elements = plan.out[0] // plan.groups, math.prod(plan.size)
    strides = (rows * plan.rows, plan.rows, elements)
    packed = _in_blocks(w, strides, rows, plan.image[0] // plan.groups, np.arange(elements), plan.groups)
    _correlate(x, sums, plan.stride, start, packed, bias, plan.groups, out, (0, 0, 0), (1, 1, 1))


def _conv_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
    """With a stride s, every s-th place in each direction gets the same taps; each such set is a sum of shifted g."""
    groups, one = plan.groups, (1, 1, 1)
    channels, elements = plan.image[0] // groups, math.prod(plan.size)
    outputs = plan.out[0] // groups
    number = np.arange(elements).reshape(plan.size)
    for some in product(*plan.shares):
        size = (plan.image[0], *[share.count for share in some])
        start = tuple([share.start for share in some])
        sums = _sums(len(g), plan.out, size, tuple([share.positions for share in some]), one, start, groups)
        chosen = number[np.ix_(*[share.taps for share in some])].reshape(-1)
        packed = _in_blocks(w, (outputs * plan.rows, elements, plan.rows), channels, outputs, chosen, groups)
        first = tuple([share.first for share in some])
        _correlate(g, sums, one, start, packed, None, groups, out, first, plan.stride)


def _multiply(w: np.ndarray, x: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> None:
    """out[n] = w x[n] + bias for images as matrices, w being (group, row, column)."""
    groups, rows, columns = w.shape
    places = math.prod(x.shape[2:])
    seen, found = x.reshape(len(x), groups, columns, places), out.reshape(len(x), groups, rows, places)

    def work(first: int, last: int) -> None:
        for n in range(first, last):
            np.matmul(w, seen[n], out=found[n])
            if bias is not None:
                found[n] += bias.reshape(groups, rows, 1)

    with blas_single():
        split(len(x), -(-CHUNK_WORK // (w.size * places)), work)


class _Share(NamedTuple):
    """Along one dimension: the places of x from `first` on, with the step of the stride, and what they get back."""

    first: int
    count: int
    start: int  # the place of g that position 0 of the first of them is
    taps: Ints
    positions: Ints


@lru_cache(maxsize=256)
def _shares(sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints, lengths: Ints) -> list[list[_Share]]:
    """For each dimension: the sets of places of x that are met by the same taps. Places that no tap meets are left out."""
    result = []
    for size, stride, padding, dilation, length in zip(sizes, strides, paddings, dilations, lengths, strict=True):
        shares = []
        for first in range(min(stride, length)):
            taps = [k for k in range(size) if (first + padding - k * dilation) % stride == 0]
            if taps:
                places = [(first + padding - k * dilation) // stride for k in taps]
                positions = tuple([p - min(places) for p in places])
                count = -(-(length - first) // stride)
                shares.append(_Share(first, count, min(places), tuple(taps), positions))
        result.append(shares)
    return result


def _conv_dw(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    start = tuple([-p for p in plan.padding])
    sums = _sums(len(x), plan.image, plan.out, plan.positions, plan.stride, start, plan.groups)
    shape = (plan.groups, plan.out[0] // plan.groups, plan.rows)
    chunks = min(len(sums.chunks), max(2, TOTALS // math.prod(shape)))
    totals = np.zeros((chunks, *shape), x.dtype)
    run = get("correlate_taps")

    def work(chunk: int) -> None:
        a, b = len(sums.tiles) * chunk // chunks, len(sums.tiles) * (chunk + 1) // chunks
        run(x, x.shape[1:], sums.phases, plan.stride, start, sums.images, sums.room, sums.reach, sums.tiles[a:b],
            sums.offsets, g, g.shape[1:], plan.groups, totals[chunk])  # fmt: skip

    _run(chunks, work)
    total = totals[0]
    for other in totals[1:]:
        total += other
    if not np.isfinite(total).all():  # zeros met infinities or nan
        total = _conv_dw_numpy(g[:1], x[:1], plan)
        for k in range(1, len(x)):
            total += _conv_dw_numpy(g[k : k + 1], x[k : k + 1], plan)
    return total


# --- NumPy -----------------------------------------------------------------------------------------------------------


def _windows(x: np.ndarray, plan: _Plan) -> np.ndarray:
    """The matrices of patches of all images: (groups, rows, batch × places)."""
    padded = np.zeros((len(x), plan.image[0], *[n + 2 * p for n, p in zip(plan.image[1:], plan.padding)]), x.dtype)
    padded[_core(plan)] = x.reshape(len(x), *plan.image)
    steps = padded.strides[2:]
    windows = np.lib.stride_tricks.as_strided(
        padded,
        (len(x), plan.image[0], *plan.size, *plan.out[1:]),
        (
            *padded.strides[:2],
            *[s * d for s, d in zip(steps, plan.dilation)],
            *[s * d for s, d in zip(steps, plan.stride)],
        ),
        writeable=False,
    )
    return windows.transpose(1, 2, 3, 4, 0, 5, 6, 7).reshape(plan.groups, plan.rows, len(x) * plan.places)


def _core(plan: _Plan) -> tuple:
    """The part of a padded batch that is not padding."""
    return (slice(None), slice(None), *[slice(p, p + n) for n, p in zip(plan.image[1:], plan.padding)])


def _by_group(g: np.ndarray, plan: _Plan) -> np.ndarray:
    """An array like the result as (groups, channels of a group, batch × places)."""
    channels_first = g.reshape(len(g), plan.out[0], plan.places).transpose(1, 0, 2)
    return channels_first.reshape(plan.groups, plan.out[0] // plan.groups, len(g) * plan.places)


def _conv_numpy(x: np.ndarray, w: np.ndarray, plan: _Plan) -> np.ndarray:
    out = gemm(w.reshape(plan.groups, plan.out[0] // plan.groups, plan.rows), _windows(x, plan))
    return np.ascontiguousarray(out.reshape(plan.out[0], len(x), plan.places).transpose(1, 0, 2))


def _conv_dw_numpy(g: np.ndarray, x: np.ndarray, plan: _Plan) -> np.ndarray:
    return gemm(_by_group(g, plan), _windows(x, plan).swapaxes(1, 2))


def _conv_dx_numpy(g: np.ndarray, w: np.ndarray, plan: _Plan) -> np.ndarray:
    taps = w.reshape(plan.groups, plan.out[0] // plan.groups, plan.rows).swapaxes(1, 2)
    columns = gemm(taps, _by_group(g, plan)).reshape(plan.image[0], *plan.size, len(g), *plan.out[1:])
    shape = (len(g), plan.image[0], *[n + 2 * p for n, p in zip(plan.image[1:], plan.padding)])
    padded = np.zeros(shape, columns.dtype)
    for tap in product(*map(range, plan.size)):
        place = [
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, plan.dilation, plan.stride, plan.out[1:])
        ]
        padded[(slice(None), slice(None), *place)] += columns[(slice(None), *tap)].swapaxes(0, 1)
    return np.ascontiguousarray(padded[_core(plan)])
