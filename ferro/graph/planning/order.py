"""Which nodes must wait for which, when they may run in any order that the data allow."""

from __future__ import annotations

from typing import Any

from ferro.graph.functions import effects


class Order:
    """The partial order of a graph's nodes: `after[i]` are the nodes that node i waits for itself, `ancestors[i]` has a bit for each
    that comes before it in every order.

    What writes into memory is a barrier: it waits for all nodes before it, and all nodes behind it wait for it. What draws random
    numbers or asks the data waits for all before it, so that an error leaves the state that eager leaves.
    """

    def __init__(self, graph: Any) -> None:
        self.after: list[set[int]] = []
        self.ancestors: list[int] = []
        makers = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
        barrier = -1
        for i, node in enumerate(graph.nodes):
            what = effects(node.function)
            if what.writes or what.random or what.checks:
                waits = set(range(max(barrier, 0), i))
            else:
                waits = {makers[v] for v in node.operands if v in makers} | ({barrier} if barrier >= 0 else set())
            if what.writes:
                barrier = i
            bits = 0
            for k in waits:
                bits |= self.ancestors[k] | 1 << k
            self.after.append(waits)
            self.ancestors.append(bits)

    def precede(self, nodes: int, node: int) -> bool:
        """Whether all of some nodes (bits) have ended whenever another one begins."""
        return node < len(self.ancestors) and not nodes & ~self.ancestors[node]
