"""Programs that compilers of graphs get silently wrong: each runs as written and compiled, call by call, and must give the same bits.

A program takes `compile` (ferro.compile, or what leaves functions alone) and yields, for each call, what can be seen of it.
"""

from tests.graph.programs import calls, reads, steps, tapes
from tests.graph.programs.declared import CASES

__all__ = ["CASES", "calls", "reads", "steps", "tapes"]
