"""How a convolution is cut: its sizes in three dimensions, the taps that sum to the same results, tiles and chunks of tiles.

All of it depends on the sizes alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from ferro.cpu.kernels.common import MOST_CHUNKS
from ferro.cpu.thresholds import CONV_CHUNK, CONV_IMAGES, CONV_NEAR, CONV_STRIP, CONV_TILE, CONV_TILES
from ferro.native import isa

Ints = tuple[int, ...]

TILE_PLACES = 256
COPY = 24  # what it costs to copy a number, in multiplications
SHARES = 4
LEAST_ROWS, LEAST_PLACES = 8, 16  # of a block in registers, on processors with the largest ones
MANY_CHANNELS = 12  # of images, from which on they lie along registers
_SEEN = 6 * isa.registers()[0] + 80  # bytes of a row of images that a block sees, lines that it sees in part included


class Plan(NamedTuple):
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
    def shares(self) -> list[list[Share]]:
        return shares_of(self.size, self.stride, self.padding, self.dilation, self.image[1:])

    @property
    def meets_all(self) -> bool:
        """Whether every place of x is met by some tap of some window, the outermost windows perhaps lying outside."""
        return all(len(some) == min(s, n) for some, s, n in zip(self.shares, self.stride, self.image[1:], strict=True))

    @property
    def sets(self) -> tuple[TapSet]:
        """All taps together."""
        positions = [tuple([k * d for k in range(n)]) for n, d in zip(self.size, self.dilation, strict=True)]
        return (TapSet((0, 0, 0), tuple(positions)),)


def out_size(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Places of the result along one dimension."""
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


@lru_cache(maxsize=256)
def plan_of(x_shape: Ints, w_shape: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Plan:
    """The plan, every tuple filled up to three dimensions in front."""
    n = len(x_shape) - 2
    ones, zeros = (1,) * (3 - n), (0,) * (3 - n)
    out = [out_size(*each) for each in zip(x_shape[2:], w_shape[2:], stride, padding, dilation)]
    return Plan(
        size=ones + tuple(w_shape[2:]),
        stride=ones + tuple(stride),
        padding=zeros + tuple(padding),
        dilation=ones + tuple(dilation),
        image=(x_shape[1], *ones, *x_shape[2:]),
        out=(w_shape[0], *ones, *out),
        groups=groups,
    )


class TapSet(NamedTuple):
    """Taps that sum to the same results: these stand at every step-th place from `first` on."""

    first: Ints
    positions: tuple[Ints, ...]  # of the taps, in each direction


class Sums(NamedTuple):
    """How sums of shifted images are computed: the arguments of the kernels, and chunks of tiles."""

    phases: np.ndarray
    images: int
    room: Ints
    reach: Ints
    tiles: np.ndarray
    offsets: np.ndarray
    sets: (
        np.ndarray
    )  # the first place, from where to where the offsets are those of a set, and how many of them are near
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
    images = min(4 * TILE_PLACES // math.prod(tile), CONV_IMAGES // size(tile))
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


def _offsets(
    sets: tuple[TapSet, ...], stride: Ints, phases: list[Ints], images: int, room: Ints, channels: int
) -> tuple[list[np.ndarray], list[int]]:
    """For each set what lies between a place and what its taps meet there, channel by channel; where each set ends."""
    plane = math.prod(room)
    first = np.arange(channels)[:, None] * (len(phases) * images * plane)
    offsets, ends = [], [0]
    for some in sets:
        taps = []
        for tap in product(*some.positions):
            phase = phases.index(tuple([p % s for p, s in zip(tap, stride, strict=True)]))
            z, y, x = [p // s for p, s in zip(tap, stride, strict=True)]
            taps.append(phase * images * plane + (z * room[1] + y) * room[2] + x)
        offsets.append((first + np.array(taps, np.int64)).reshape(-1))
        ends.append(ends[-1] + offsets[-1].size)
    return offsets, ends


def _near(taps: TapSet, stride: Ints) -> int:
    """How many taps of all channels a block sums at a time: what they see stays in the first cache for the next block.

    Of each row of each phase a block sees as much as it has places, and what its taps reach beyond.
    """
    z, y, x = taps.positions
    rows = len(z) * len(y) * len({p % stride[2] for p in x})
    return max(1, CONV_NEAR // (rows * _SEEN)) * math.prod(map(len, taps.positions))


@lru_cache(maxsize=256)
def sums_of(
    batch: int, image: Ints, out: Ints, sets: tuple[TapSet, ...], stride: Ints, start: Ints, groups: int
) -> Sums:
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
    offsets, ends = _offsets(sets, stride, phases, images, room, group[0])
    cuts = [[(b, min(b + n, size)) for b in range(0, size, n)] for n, size in zip(tile, out[1:], strict=True)]
    tiles = [
        [a, min(a + images, batch), *chain.from_iterable(place)]
        for place in product(*cuts)
        for a in range(0, batch, images)
    ]
    work = batch * (ends[-1] * math.prod(out) + COPY * (math.prod(image) + len(sets) * math.prod(out)))
    parts = max(1, min(len(tiles), MOST_CHUNKS, work // CONV_CHUNK))
    return Sums(
        phases=np.array(phases, np.int64),
        images=images,
        room=room,
        reach=reach,
        tiles=np.array(tiles, np.int64),
        offsets=np.concatenate(offsets),
        sets=np.array([[*s.first, a, b, _near(s, stride)] for s, a, b in zip(sets, ends, ends[1:])], np.int64),
        parts=parts,
    )


class Share(NamedTuple):
    """Along one dimension: the places of x from `first` on, with the step of the stride, and what they get back."""

    first: int
    count: int
    start: int  # the place of g that position 0 of the first of them is
    taps: Ints
    positions: Ints


@lru_cache(maxsize=256)
def shares_of(sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints, lengths: Ints) -> list[list[Share]]:
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
                shares.append(Share(first, count, min(places), tuple(taps), positions))
        result.append(shares)
    return result


@lru_cache(maxsize=256)
def cuts_of(batch: int, channels: int, out: Ints, taps: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
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
