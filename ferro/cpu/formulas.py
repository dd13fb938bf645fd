"""Elementwise formulas of NumPy arrays as a whole: block by block, or as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro import xp
from ferro.cpu import fusion
from ferro.cpu.blocks import by_blocks
from ferro.cpu.namespace import cpu
from ferro.cpu.thresholds import BLOCK_LEAST

__all__ = ["in_one_pass", "once"]


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
