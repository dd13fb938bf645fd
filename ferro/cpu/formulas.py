"""Elementwise formulas of NumPy arrays as a whole: block by block, or as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro import xp
from ferro.cpu import fusion
from ferro.cpu.blocks import by_blocks
from ferro.cpu.namespace import cpu
from ferro.cpu.thresholds import BLOCK, BLOCK_LEAST

__all__ = ["all_equal", "in_one_pass", "once"]


def once(formula: Callable, g: Any, *values: Any) -> Any:
    """The elementwise formula of (xp, g, values...), computed in float32 and rounded once for a 16-bit dtype; on large
    arrays block by block.
    """
    if g.size >= BLOCK_LEAST:
        return by_blocks(lambda *args: xp.once(cpu, formula, *args), g, *values)
    return xp.once(cpu, formula, g, *values)


def in_one_pass(formula: Callable, *values: Any) -> Any:
    """The elementwise formula of (xp, values...), for large arrays as a program if it can be one."""
    return fusion.run(formula, cpu, *values)


def all_equal(x: Any, y: Any) -> bool:
    """Whether arrays of one shape have the same elements; the first that differ end it."""
    if type(y) is not np.ndarray:
        return bool((x == y).all())
    if x.size and x.item(0) != y.item(0):
        return False
    if x.size > BLOCK and x.flags.c_contiguous and y.flags.c_contiguous:
        a, b = x.reshape(-1), y.reshape(-1)
        starts = range(0, x.size, BLOCK)
        return not any(np.count_nonzero(a[k : k + BLOCK] != b[k : k + BLOCK]) for k in starts)
    return not np.count_nonzero(x != y)
