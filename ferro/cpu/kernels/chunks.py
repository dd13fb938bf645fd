"""Chunks of work that are computed by several threads, and chunks that each add to a sum of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ferro.cpu.threads import parallel_for


def run(chunks: int, work: Callable[[int], object]) -> None:
    """Call `work` with the number of each chunk."""
    if chunks == 1:
        work(0)
    else:
        parallel_for(work, chunks)


def add_apart(parts: int, chunks: int, work: Callable[[int, np.ndarray], object], total: np.ndarray) -> None:
    """Call `work` with the number of each chunk and the array of zeros it adds to; `total`, zeros, gets the sum of these.

    Several chunks of a part add to the same array, each in a place of its own.
    """
    others = np.zeros((parts - 1, *total.shape), total.dtype)

    def add(chunk: int) -> None:
        part = chunk * parts // chunks
        work(chunk, others[part - 1] if part else total)

    run(chunks, add)
    for other in others:
        total += other
