"""Launches of kernels by hand: compiled when first called, counted by name, with blocks that only the shapes decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ferro.cuda.by_hand.texts import MMA
from ferro.cuda.driver import cupy, generation
from ferro.cuda.printer import STORED

__all__ = ["LAUNCHES", "THREADS", "block_of", "has_mma", "is_float", "launch", "parts_of"]

THREADS = 256  # of a block
WARP = 32
PARTS_FROM = 4096  # elements that a part of a row has at least
BLOCKS = 1024  # that are wanted, so that each of a GPU's multiprocessors has several
MOST_PARTS = 1024
USUAL_SHARED = 48 << 10  # bytes of shared memory that every kernel may ask for
LAUNCHES: Counter[str] = Counter()  # how often each kernel has been started, for tests
_COMPILED: dict[tuple[str, str], Any] = {}
Block = tuple[int, int]


def launch(text: str, name: str, blocks: tuple, block: tuple, *args: Any, shared: int = 0) -> None:
    """Starts a kernel: integers as `place`, Python's floats as double; with so many bytes of shared memory that it asks for."""
    kernel = _COMPILED.get((text, name))
    if kernel is None:
        module = cupy().RawModule(code=text, options=("-std=c++17",))
        kernel = _COMPILED[text, name] = module.get_function(name)
    given = [np.int64(a) if type(a) is int else np.float64(a) if type(a) is float else a for a in args]
    LAUNCHES[name] += 1
    if shared > USUAL_SHARED and kernel.max_dynamic_shared_size_bytes < shared:
        kernel.max_dynamic_shared_size_bytes = shared
    kernel(blocks, block, tuple(given), shared_mem=shared)


def power_of_two(n: int) -> int:
    """The largest power of two that is at most n; 1 for less."""
    return 1 << max(n.bit_length() - 1, 0)


def row_block(n: int) -> Block:
    """Threads along x for each row of n elements, and rows: several to a warp, one warp, or the whole block."""
    width = THREADS if n > 32 * WARP else min(power_of_two(max(n // 2, 1)), WARP)
    return width, THREADS // width


def column_block(n: int, columns: int) -> Block:
    """Columns, along x, and threads along y for each column of n elements."""
    wide = min(power_of_two(max(2 * columns - 1, 1)), WARP)  # (rounded up)
    high = min(power_of_two(max(n // 4, 1)), THREADS // wide)
    return THREADS // high, high


def block_of(columns: bool, results: int, n: int) -> tuple[Block, int]:
    """The block for `results` rows or columns of n elements, and how many of them it has."""
    if columns:
        block = column_block(n, results)
        return block, block[0]
    block = row_block(n)
    return block, block[1]


def parts_of(blocks: int, n: int) -> int:
    """Into how many parts the n elements of a result are cut where so many blocks have all results."""
    return max(1, min(BLOCKS // blocks, n // PARTS_FROM, MOST_PARTS))


def has_mma(x: Any) -> bool:
    """Whether the GPU has the products that kernels for this dtype are made of: of 16-bit floats from compute capability 8 on."""
    return x.dtype.name not in MMA or generation() >= 8


def is_float(x: Any, *others: Any) -> bool:
    """Whether kernels compute on these arrays: real floats of one dtype, the first with elements and dimensions."""
    if not isinstance(x, cupy().ndarray) or x.dtype.name not in STORED or not x.size or not x.ndim:
        return False
    return all(o is None or (isinstance(o, cupy().ndarray) and o.dtype == x.dtype) for o in others)
