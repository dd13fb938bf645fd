"""Control flow in graphs: branches and loops are nodes with graphs among their arguments, which are captured, differentiated and run here.

Note [Control flow].  A node of ``cond`` or ``switch`` has a graph for each branch, one of ``while_loop`` and ``scan`` graphs of its
condition and its body. They have no bound values: what a branch reads from outside is an operand of the node and an input of
all its graphs. These nodes are operations (operations.py), so the tape, masks, and derivatives of graphs treat them as any other.

What a backward needs of a branch that ran, its graph packs into one further result, ``control.pack``: an array of one element that holds
others, since another branch packs others, and a loop as many as it has trips. A backward unpacks it. So no result stands for what did not
run, and memory grows by what is kept.

An operand is an argument as often as contributions to its gradient come (of the branch with most of them), because eager adds each to what
there is. Where fewer come, -0.0 is added, which changes no number, not even the sign of a zero.
"""

from ferro.graph.control import operations
from ferro.graph.control.capturing import Control
from ferro.graph.hooks import Hooks

Hooks.control = Control
