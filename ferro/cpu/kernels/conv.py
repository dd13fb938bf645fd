"""Convolution of NumPy arrays in one to three dimensions, and its two transposes.

x is (batch, channel, place...), w is (result channel, channel / groups, tap...), and stride, padding and dilation are
tuples with one number per dimension of place. Nothing is conjugated.

Tiles of results, some images or a part of one, are computed as sums of shifted images: see the note in jit_conv.py.
Tiles and chunks of tiles depend on the sizes alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from ferro.cpu.kernels import winograd
from ferro.cpu.kernels.common import MOST_CHUNKS, contiguous
from ferro.cpu.thresholds import CONV_APART, CONV_CHUNK, CONV_STRIP, CONV_TILE, CONV_TILES, CONV_TOTALS
from ferro.native import readiness
from ferro.native.readiness import get
from ferro.native.workers import run_parts, run_rows

Ints = tuple[int, ...]

TILE_PLACES = 256
ALL_BUT_TILES = ~(1 << 8)  # the arguments of `correlate` that are not cut
COPY = 24  # what it costs to copy a number, in multiplications
SHARES = 4
LEAST_ROWS, LEAST_PLACES = 8, 16  # of a block in registers, on processors with the largest ones
MANY_CHANNELS = 12  # of images, from which on they lie along registers
IMAGE_PLACES = 480  # that a part of an image has, where images are matrices


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
        """Whether images are matrices, which the weight is multiplied by, large enough for blocks of registers."""
        plain = self.size == self.stride == (1, 1, 1) and self.padding == (0, 0, 0)
        least = min(self.image[0], self.out[0]) // self.groups
        return plain and least >= LEAST_ROWS and self.places >= LEAST_PLACES

    @property
    def has_nine_taps(self) -> bool:
        """Whether Winograd's minimal products exist."""
        plain = self.size == (1, 3, 3) and self.stride == self.dilation == (1, 1, 1)
        return plain and self.groups == 1 and max(self.padding) < 3

    @property
    def has_many_channels(self) -> bool:
        """Whether channels fill registers."""
        plane = self.image[1] == self.size[0] == 1 and self.padding[0] == 0
        return plane and self.groups == 1 and self.image[0] >= MANY_CHANNELS and self.out[0] >= LEAST_ROWS

    @property
    def shares(self) -> list[list[_Share]]:
        return _shares(self.size, self.stride, self.padding, self.dilation, self.image[1:])

    @property
    def meets_all(self) -> bool:
        """Whether every place of x is met by some tap of some window, the outermost windows perhaps lying outside."""
        return all(len(some) == min(s, n) for some, s, n in zip(self.shares, self.stride, self.image[1:], strict=True))

    @property
    def sets(self) -> tuple[_Set]:
        """All taps together."""
        positions = [tuple([k * d for k in range(n)]) for n, d in zip(self.size, self.dilation, strict=True)]
        return (_Set((0, 0, 0), tuple(positions)),)


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


# --- the three functions ---------------------------------------------------------------------------------------------


def ready(x: np.ndarray) -> bool:
    """Whether a convolution of x need not wait for a compiler."""
    return readiness.ready(_KERNELS, x.dtype)


_KERNELS = (
    "correlate",
    "correlate_channels",
    "correlate_taps",
    "from_channels",
    "in_blocks",
    "in_equal_blocks",
    "multiply_images",
)


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The convolution (cross-correlation) of x with w, plus a bias per channel."""
    plan = _plan(x.shape, w.shape, stride, padding, dilation, groups)
    # Not a view: whoever gets it may keep it.
    out = np.empty((len(x), plan.out[0], *plan.out[6 - x.ndim :]), x.dtype)
    images, taps, results = _readable(x), _readable(w, x.dtype), out.reshape(len(x), *plan.out)
    images = images.reshape(len(x), *plan.image)
    if plan.is_product:
        _multiply(taps, (plan.out[0] // plan.groups * plan.rows, plan.rows, 1), images, bias, plan.groups, results)
    else:
        _conv(images, taps, bias, plan, results)
    return out


def conv_dx(
    g: np.ndarray, w: np.ndarray, x_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `conv` in x: what each input place gets back from the places it went to."""
    plan = _plan(x_shape, w.shape, stride, padding, dilation, groups)
    if not all(plan.shares):  # all windows lie in the padding
        return np.zeros(x_shape, g.dtype)
    out = (np.empty if plan.meets_all else np.zeros)(x_shape, g.dtype)
    grads, taps, images = _readable(g).reshape(len(g), *plan.out), _readable(w, g.dtype), out.reshape(-1, *plan.image)
    if plan.is_product:
        _multiply(taps, (plan.out[0] // plan.groups * plan.rows, 1, plan.rows), grads, None, plan.groups, images)
    else:
        _conv_dx(grads, taps, plan, images)
    return out


def conv_dw(
    g: np.ndarray, x: np.ndarray, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray | None:
    """The transpose of `conv` in w, summed over the batch; None where infinities or nan may have reached too many places."""
    plan = _plan(x.shape, w_shape, stride, padding, dilation, groups)
    grads, images = _readable(g, x.dtype).reshape(len(g), *plan.out), _readable(x).reshape(len(x), *plan.image)
    out = np.zeros(w_shape, x.dtype)
    _conv_dw(grads, images, plan, out.reshape(plan.groups, -1, plan.rows))
    return out if np.isfinite(out).all() else None  # zeros have met infinities or nan


def _readable(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A contiguous array that may be written to: kernels are not compiled once more for others."""
    x = contiguous(x, dtype)
    return x if x.flags.writeable else x.copy()


# --- sums of shifted images: see Note [Sums of shifted images] in jit_conv.py ----------------------------------------


class _Set(NamedTuple):
    """Taps that sum to the same results: these stand at every step-th place from `first` on."""

    first: Ints
    positions: tuple[Ints, ...]  # of the taps, in each direction


class _Sums(NamedTuple):
    """How sums of shifted images are computed: the arguments of the kernels, and chunks of tiles."""

    phases: np.ndarray
    images: int
    room: Ints
    reach: Ints
    tiles: np.ndarray
    offsets: np.ndarray
    sets: np.ndarray  # the first place, and from where to where the offsets are those of a set
    parts: int  # in which the tiles are shared

    def seen(self, x: np.ndarray, stride: Ints, start: Ints) -> tuple:
        """The first arguments of a kernel: the images, and what it sees of them."""
        return (x, x.shape[1:], self.phases, stride, start, *self[1:6])


def _tile(batch: int, image: Ints, out: Ints, reach: Ints, phases: int, groups: int) -> tuple[int, Ints]:
    """The number of images of a tile and its (depth, height, width): what it works on fits into the second cache.

    Images and results have the channels of one of the groups, which are computed one after the other.
    """

    def size(tile: Ints) -> int:
        return (image[0] * phases + out[0]) * math.prod([n + r for n, r in zip(tile, reach, strict=True)])

    def count(tile: Ints) -> int:
        return batch * math.prod([-(-n // t) for n, t in zip(out[1:], tile, strict=True)])

    tile = out[1:]
    shared = groups * batch * image[0] * math.prod(out) > CONV_TILES
    while size(tile) > CONV_TILE or (shared and count(tile) < SHARES and math.prod(tile) > 4 * TILE_PLACES):
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
    images = min(4 * TILE_PLACES // math.prod(tile), CONV_TILE // size(tile))
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
def _sums(batch: int, image: Ints, out: Ints, sets: tuple[_Set, ...], stride: Ints, start: Ints, groups: int) -> _Sums:
    """The sums for images (channel, depth, height, width), and for each set of taps results `out` likewise.

    A position is counted from where the first result begins to read, which is `start`.
    """
    union = [sorted({p for some in direction for p in some}) for direction in zip(*[s.positions for s in sets])]
    residues = [sorted({p % s for p in some}) for some, s in zip(union, stride, strict=True)]
    phases = list(product(*residues))
    reach = tuple([max(some) // s for some, s in zip(union, stride, strict=True)])
    group = image[0] // groups, out[0] // groups * len(sets)
    images, tile = _tile(batch, (group[0], *image[1:]), (group[1], *out[1:]), reach, len(phases), groups)
    room = tuple(
        [
            n + r - (_common(n, r, s, begin, some, length) if n == size else 0)
            for n, r, s, begin, some, length, size in zip(
                tile, reach, stride, start, residues, image[1:], out[1:], strict=True
            )
        ]
    )
    plane = math.prod(room)
    channels = np.arange(group[0])[:, None] * (len(phases) * images * plane)
    offsets, ends = [], [0]
    for some in sets:
        taps = []
        for tap in product(*some.positions):
            phase = phases.index(tuple([p % s for p, s in zip(tap, stride, strict=True)]))
            z, y, x = [p // s for p, s in zip(tap, stride, strict=True)]
            taps.append(phase * images * plane + (z * room[1] + y) * room[2] + x)
        offsets.append((channels + np.array(taps, np.int64)).reshape(-1))
        ends.append(ends[-1] + offsets[-1].size)
    cuts = [[(b, min(b + n, size)) for b in range(0, size, n)] for n, size in zip(tile, out[1:], strict=True)]
    tiles = [
        [a, min(a + images, batch), *chain.from_iterable(place)]
        for place in product(*cuts)
        for a in range(0, batch, images)
    ]
    work = batch * (ends[-1] * math.prod(out) + COPY * (math.prod(image) + len(sets) * math.prod(out)))
    parts = max(1, min(len(tiles), MOST_CHUNKS, work // CONV_CHUNK))
    return _Sums(
        phases=np.array(phases, np.int64),
        images=images,
        room=room,
        reach=reach,
        tiles=np.array(tiles, np.int64),
        offsets=np.concatenate(offsets),
        sets=np.array([[*s.first, a, b] for s, a, b in zip(sets, ends, ends[1:])], np.int64),
        parts=parts,
    )


def _in_blocks(w: np.ndarray, strides: Ints, rows: int, columns: int, taps: np.ndarray, groups: int) -> np.ndarray:
    """The weight as `correlate` reads it: rows of the result, columns of channels that are summed over."""
    packed = np.empty((groups, rows, columns * len(taps)), w.dtype)
    get("in_blocks")(w.reshape(-1), strides, taps, columns, packed)
    return packed.reshape(-1)


def _correlate(
    x: np.ndarray,
    sums: _Sums,
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


def _conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, plan: _Plan, out: np.ndarray) -> None:
    if plan.has_nine_taps and winograd.suits(x, plan.out[0], *plan.out[2:]):
        added = np.zeros(plan.out[0], x.dtype) if bias is None else _readable(bias, x.dtype)
        if winograd.correlate(x, w, False, added, plan.padding, out):
            return
    start = tuple([-p for p in plan.padding])
    sums = _sums(len(x), plan.image, plan.out, plan.sets, plan.stride, start, plan.groups)
    rows, elements = plan.out[0] // plan.groups, math.prod(plan.size)
    strides = (rows * plan.rows, plan.rows, elements)
    packed = _in_blocks(w, strides, rows, plan.image[0] // plan.groups, np.arange(elements), plan.groups)
    _correlate(x, sums, plan.stride, start, packed, bias, plan.groups, out, (1, 1, 1))


def _conv_dx(g: np.ndarray, w: np.ndarray, plan: _Plan, out: np.ndarray) -> None:
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
        sets.append(_Set(tuple([share.first for share in some]), tuple(map(tuple, positions))))
        chosen = number[np.ix_(*[share.taps for share in some])].reshape(-1)
        packed.append(_in_blocks(w, (outputs * plan.rows, elements, plan.rows), channels, outputs, chosen, groups))
    sums = _sums(len(g), plan.out, size, tuple(sets), one, start, groups)
    _correlate(g, sums, one, start, np.concatenate(packed), None, groups, out, plan.stride)


def _multiply(
    w: np.ndarray, strides: Ints, x: np.ndarray, bias: np.ndarray | None, groups: int, out: np.ndarray
) -> None:
    """out[n] = w x[n] + bias for images as matrices, `strides` being those of w for group, row and column."""
    places, columns, rows = math.prod(x.shape[2:]), x.shape[1] // groups, out.shape[1] // groups
    packed = np.empty((groups, -(-rows // 8) * 8, columns), x.dtype)
    get("in_equal_blocks")(w.reshape(-1), (*strides, rows), packed)
    added = np.zeros(out.shape[1], x.dtype) if bias is None else _readable(bias, x.dtype)
    parts = -(-places // IMAGE_PLACES)
    seen, found = x.reshape(len(x), groups, columns, places), out.reshape(len(x), groups, rows, places)

    length = len(x) * parts
    chunks = min(length, MOST_CHUNKS, len(x) * packed.size * places // CONV_CHUNK)
    run_rows("multiply_images", chunks, length, (packed, seen, added, 0, length, parts, found), -1, 3)


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


def _conv_dw(g: np.ndarray, x: np.ndarray, plan: _Plan, total: np.ndarray) -> None:
    """Adds the gradient to zeros (group, row, column)."""
    if plan.has_nine_taps and winograd.suits_by_taps(x, plan.out[0], *plan.out[2:]):
        winograd.by_taps(g, x, plan.padding, total.reshape(plan.out[0], plan.image[0], 9))
    elif plan.has_many_channels:
        _correlate_channels(g, x, plan, total)
    else:
        _correlate_taps(g, x, plan, total)


@lru_cache(maxsize=256)
def _cuts(batch: int, channels: int, out: Ints, taps: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """Tiles of (image, first row, last, first column, last) of the result: all columns, or one row."""

    def size(rows: int, columns: int) -> int:
        seen = [
            (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip((rows, columns), stride, taps, dilation, strict=True)
        ]
        return channels * math.prod(seen)

    rows, columns = out
    while rows > 1 and size(rows, columns) > CONV_STRIP:
        rows = -(-rows // 2)
    while rows == 1 and columns > TILE_PLACES and size(1, columns) > CONV_STRIP:
        columns = -(-columns // 2)
    return np.array(
        [
            (n, y, min(y + rows, out[0]), x, min(x + columns, out[1]))
            for y in range(0, out[0], rows)
            for x in range(0, out[1], columns)
            for n in range(batch)
        ],
        np.int64,
    )


def _correlate_channels(g: np.ndarray, x: np.ndarray, plan: _Plan, total: np.ndarray) -> None:
    """The gradient by the weight where channels lie along registers."""
    taps, stride, dilation = [values[1:] for values in (plan.size, plan.stride, plan.dilation)]
    tiles = _cuts(len(x), plan.image[0], plan.out[2:], taps, stride, dilation)
    shape = (math.prod(taps), -(-plan.out[0] // 8) * 8, -(-plan.image[0] // 16) * 16)  # whole blocks
    most = max(2, min(CONV_TOTALS // math.prod(shape), len(x) * plan.places // CONV_APART))
    parts = max(1, min(len(tiles), MOST_CHUNKS, len(x) * plan.work // CONV_CHUNK, most))
    start = tuple([-p for p in plan.padding[1:]])
    image, out = (plan.image[0], *plan.image[2:]), (plan.out[0], *plan.out[2:])
    sums = np.zeros((parts * shape[0], *shape[1:]), x.dtype)
    args = (x, image, start, stride, dilation, taps, tiles, g, out, sums)
    run_parts("correlate_channels", parts, args, ~(1 << 6 | 1 << 9))
    get("from_channels")(_added(sums, parts), total.reshape(plan.out[0], plan.image[0], shape[0]))


def _correlate_taps(g: np.ndarray, x: np.ndarray, plan: _Plan, total: np.ndarray) -> None:
    """The gradient by the weight where places lie along registers."""
    start = tuple([-p for p in plan.padding])
    sums = _sums(len(x), plan.image, plan.out, plan.sets, plan.stride, start, plan.groups)
    parts = min(sums.parts, max(2, CONV_TOTALS // total.size))
    some = total if parts == 1 else np.zeros((parts * len(total), *total.shape[1:]), total.dtype)
    args = (*sums.seen(x, plan.stride, start), g, g.shape[1:], plan.groups, some)
    run_parts("correlate_taps", parts, args, ~(1 << 8 | 1 << 13))
    if parts > 1:
        total += _added(some, parts)


def _added(sums: np.ndarray, parts: int) -> np.ndarray:
    """The sum of the parts, each an equal number of rows."""
    return sums if parts == 1 else np.add.reduce(sums.reshape(parts, -1, *sums.shape[1:]), 0)
