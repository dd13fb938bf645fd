"""Offsets: places in one arena for blocks that live for some time, so that no two that live at once overlap.

The problem (dynamic storage allocation) is NP-hard; some greedy orders are tried, and the shortest arena is taken. (Source: Pisarchyk, Lee,
Efficient Memory Management for Deep Neural Net Inference, 2020, section 5: greedy by size, each block in the best gap.) Then blocks are moved to an
earlier turn, as long as that makes the arena no larger.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ferro.native.arena import LINE

# So many cache lines a block may begin later than it could, at the end of the arena a large one, to keep streams apart.
_PAGE, _SHIFTS, _LARGE = 4096, 8, 1 << 18
_MOST = 20_000  # blocks; the search among more takes too long
_TRIES, _PLACED = 80, 8_000  # so many other orders are tried, and so many blocks placed in them
_SMALL = 1024  # bytes for which no other order is looked for
_NEAR = 64  # an arena is large if this part of it is too much


class Block(NamedTuple):
    """Bytes that are used from one event to another; `beside` are the numbers of blocks that are read and written together with it."""

    size: int
    birth: int
    death: int
    beside: tuple[int, ...] = ()


def rounded(size: int) -> int:
    """Bytes up to the next cache line."""
    return -(-size // LINE) * LINE


def lower_bound(blocks: Sequence[Block]) -> int:
    """The most bytes that live at once: no arena is smaller."""
    events = sorted([(b.birth, b.size) for b in blocks] + [(b.death, -b.size) for b in blocks])
    most = now = 0
    for _, size in events:  # (a block that ends goes before one that begins at the same event)
        now += size
        most = max(most, now)
    return most


def offsets(
    blocks: Sequence[Block], apart: np.ndarray | None = None, distinct: bool = False, taken: frozenset = frozenset()
) -> tuple[list[int], int]:
    """For each block its offset, and the size of the arena.

    apart: for each two blocks, whether they need places of their own (default: those that live at the same time). distinct: no two of all begin at
    one offset, nor at one of `taken`, so that it can be counted there who lives.
    """
    by_time = sorted(range(len(blocks)), key=lambda i: (blocks[i].birth, -blocks[i].size))
    orders = [by_time]
    if len(blocks) <= _MOST:
        orders.append(sorted(by_time, key=lambda i: -blocks[i].size))
        orders.append(sorted(by_time, key=lambda i: -blocks[i].size * (blocks[i].death - blocks[i].birth)))
    least = lower_bound([Block(rounded(b.size), b.birth, b.death) for b in blocks])
    found, size = _searched(blocks, orders, least, apart, distinct, taken)
    if size > least + max(least // _NEAR, _SMALL):  # (room that keeps streams apart may be what lacks)
        alone = [Block(b.size, b.birth, b.death) for b in blocks]
        others, other = _searched(alone, orders, least, apart, distinct, taken)
        if size > other + other // _NEAR:
            return others, other
    return found, size


def _searched(
    blocks: Sequence[Block],
    orders: list[list[int]],
    least: int,
    apart: np.ndarray | None,
    distinct: bool,
    taken: frozenset,
) -> tuple[list[int], int]:
    """The best of some orders, and of those that come from it by moves of one block."""
    best, size, kept = *_placed(blocks, orders[0], apart, distinct, taken), orders[0]
    rng = random.Random(0)
    for k in range(1, len(orders) + min(_TRIES, _PLACED // max(len(blocks), 1))):
        if size <= least + max(least // 500, _SMALL):
            break
        order = orders[k] if k < len(orders) else _moved(blocks, kept, best, size, rng)
        places, total = _placed(blocks, order, apart, distinct, taken)
        if total < size or (total == size and k >= len(orders)):
            best, size, kept = places, total, order
    return best, size


def _moved(blocks: Sequence[Block], order: list[int], places: list[int], size: int, rng: random.Random) -> list[int]:
    """An order in which one block comes earlier, in every other case one of those that lie highest."""
    top = [i for i, b in enumerate(blocks) if places[i] + rounded(b.size) == size]
    i = rng.choice(top) if top and rng.random() < 0.5 else rng.choice(order)
    found = [j for j in order if j != i]
    found.insert(rng.randrange(order.index(i) + 1), i)
    return found


def placed(
    blocks: Sequence[Block], apart: np.ndarray | None, distinct: bool, reuse: bool, taken: frozenset = frozenset()
) -> tuple[list[int], int]:
    """The same; reuse: False gives each block a place of its own."""
    if reuse:
        return offsets(blocks, apart, distinct, taken)
    ends = np.cumsum([0, *[rounded(b.size) for b in blocks]]).tolist()
    return ends[:-1], ends[-1]


def _placed(
    blocks: Sequence[Block], order: Sequence[int], apart: np.ndarray | None, distinct: bool, others: frozenset
) -> tuple[list[int], int]:
    """Each block, in this order, in the smallest gap that is large enough between those that live at the same time."""
    count = len(blocks)
    births, deaths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    where, place = [0] * count, {}
    total, numbers = 0, np.array(order, np.int64)
    taken: set[int] = {*others}
    for k, i in enumerate(order):
        block = blocks[i]
        size = rounded(block.size)
        if apart is None:
            alive = (births[:k] < block.death) & (deaths[:k] > block.birth)
        else:
            alive = apart[i][numbers[:k]]
        s, e = starts[:k][alive], ends[:k][alive]
        at = _gap(s, e, size, total, [where[j] for j in block.beside if j in place] if size >= _PAGE else (), taken)
        where[i], place[i] = at, k
        births[k], deaths[k], starts[k], ends[k] = block.birth, block.death, at, at + size
        total = max(total, at + size)
        if distinct:
            taken.add(at)
    return where, total


def _gap(starts: np.ndarray, ends: np.ndarray, size: int, total: int, beside: Sequence[int], taken: set[int]) -> int:
    """An offset in the smallest gap between others, behind the last one if there is none; not one that is taken."""
    sort = np.argsort(starts, kind="stable")
    reach = np.maximum.accumulate(np.concatenate(([0], ends[sort])))
    room = np.concatenate((starts[sort], [max(total, int(reach[-1]))])) - reach
    for i in np.argsort(room, kind="stable"):
        if room[i] >= size:
            found = _start(int(reach[i]), int(room[i]) - size, beside, taken)
            if found is not None:
                return found
    spare = LINE * max(len(taken), _SHIFTS if size >= _LARGE else 0)
    return _start(int(reach[-1]), spare, beside if size >= _LARGE else (), taken) or 0


def _start(low: int, spare: int, beside: Sequence[int], taken: set[int]) -> int | None:
    """The first offset of a gap that is not taken, and not a multiple of 4 KB from those that are read and written together with it,
    if there is one: processors take such streams for one another.
    """
    found = None
    for at in range(low, low + spare + 1, LINE):
        if at not in taken:
            if found is None:
                found = at
            if at > low + _SHIFTS * LINE:
                break
            if all((at - other) % _PAGE for other in beside):
                return at
    return found
