"""Elementwise formulas of NumPy arrays as a whole: by a kernel, block by block, or as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro import cpu, xp
from ferro.cpu import fusion
from ferro.cpu.blocks import elementwise
from ferro.cpu.kernels.common import SMALL

__all__ = ["in_one_pass", "once"]


def once(formula: Callable, g: Any, *values: Any, kernel: str = "") -> Any:
    """The elementwise formula of (xp, g, values...), computed in float32 and rounded once for a 16-bit dtype; on large
    arrays by the kernel of (g, values...), or block by block.
    """
    if g.size >= SMALL:
        return elementwise(kernel, lambda *args: xp.once(cpu, formula, *args), g, *values)
    return xp.once(cpu, formula, g, *values)


def in_one_pass(formula: Callable, *values: Any) -> Any:
    """The elementwise formula of (xp, values...), for large arrays as a program if it can be one."""
    return fusion.run(formula, cpu, *values)
