"""Offsets: places in one arena for blocks that live for some time, so that no two that live at once overlap.

The problem (dynamic storage allocation) is NP-hard; some greedy orders are tried, and the shortest arena is taken. (Source: Pisarchyk, Lee,
Efficient Memory Management for Deep Neural Net Inference, 2020, section 5: greedy by size, each block in the best gap.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ferro.native.arena import LINE

_PAGE, _SHIFTS, _LARGE = (
    4096,
    8,
    1 << 18,
)  # so many cache lines a block may begin later than it could; at the end of the arena a large one
_MOST = 20_000  # blocks; the search among more takes too long
_FEW, _TRIES = 1_000, 30  # with so few blocks, so many other orders are tried


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
    places: list[int] = []
    if len(blocks) <= _MOST:
        orders.append(sorted(by_time, key=lambda i: -blocks[i].size))
        orders.append(sorted(by_time, key=lambda i: -blocks[i].size * (blocks[i].death - blocks[i].birth)))
    least = lower_bound([Block(rounded(b.size), b.birth, b.death) for b in blocks])
    tries = _TRIES if len(blocks) <= _FEW else len(orders)
    best: list[int] = []
    size = 0
    for k in range(tries):
        if k >= len(orders):  # what lies highest is placed first
            top = max(range(len(blocks)), key=lambda i: places[i] + blocks[i].size)
            orders.append([top, *[i for i in orders[-1] if i != top]])
        places, total = _placed(blocks, orders[k], apart, distinct, taken)
        if not best or total < size:
            best, size = places, total
        if size <= least + least // 500:
            break
    return best, size


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
