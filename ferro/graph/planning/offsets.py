"""Offsets: places in one arena for blocks that live for some time, so that no two that live at once overlap.

The problem (dynamic storage allocation) is NP-hard; some greedy orders are tried, and the shortest arena is taken. (Source: Pisarchyk, Lee,
Efficient Memory Management for Deep Neural Net Inference, 2020, section 5: greedy by size, each block in the best gap.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ferro.native.arena import LINE

_PAGE = 4096
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


def offsets(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """For each block its offset, and the size of the arena."""
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
        places, total = _placed(blocks, orders[k])
        if not best or total < size:
            best, size = places, total
        if size <= least:
            break
    return best, size


def _placed(blocks: Sequence[Block], order: Sequence[int]) -> tuple[list[int], int]:
    """Each block, in this order, in the smallest gap that is large enough between those that live at the same time."""
    count = len(blocks)
    births, deaths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    where, place = [0] * count, {}
    total = 0
    for k, i in enumerate(order):
        block = blocks[i]
        size = rounded(block.size)
        alive = (births[:k] < block.death) & (deaths[:k] > block.birth)
        s, e = starts[:k][alive], ends[:k][alive]
        at = _gap(s, e, size, total, [where[j] for j in block.beside if j in place] if size >= _PAGE else ())
        where[i], place[i] = at, k
        births[k], deaths[k], starts[k], ends[k] = block.birth, block.death, at, at + size
        total = max(total, at + size)
    return where, total


def _gap(starts: np.ndarray, ends: np.ndarray, size: int, total: int, beside: Sequence[int]) -> int:
    """The offset of the smallest gap, behind the last one if there is none.

    A block does not begin a multiple of 4 KB from those it is used with, where the gap is wide enough: such streams are taken
    for one another by processors.
    """
    if not len(starts):
        return 0
    sort = np.argsort(starts, kind="stable")
    begin = starts[sort]
    reach = np.maximum.accumulate(ends[sort])
    lows = np.concatenate(([0], reach))
    highs = np.concatenate((begin, [max(total, int(reach[-1]))]))
    room = highs - lows
    fits = np.flatnonzero(room[:-1] >= size)
    if room[-1] >= size or not len(fits):
        fits = np.append(fits, len(room) - 1)
    best = int(fits[np.argmin(np.where(room[fits] >= size, room[fits], np.iinfo(np.int64).max))])
    at, spare = int(lows[best]), int(room[best]) - size
    for shift in range(0, min(max(spare, 0), 8 * LINE) + 1, LINE):
        if all((at + shift - other) % _PAGE for other in beside):
            return at + shift
    return at
