"""What needs a place of its own in an arena, and when two may have one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.graph.planning.offsets import Block
from ferro.graph.planning.order import Order
from ferro.graph.planning.recording import Allocation


def users_of(graph: Any, allocations: Sequence[Allocation]) -> dict[Allocation, int]:
    """The nodes that make an array or read a value in it, as bits."""
    readers: dict[Any, int] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.operands, *node.outputs):
            readers[v] = readers.get(v, 0) | 1 << i
    found = {}
    for a in allocations:
        found[a] = 1 << a.node
        for v in a.values:
            found[a] |= readers.get(v, 0)
    return found


def apart_in(order: Order, chains: list[list[Allocation]], users: dict[Allocation, int]) -> np.ndarray:
    """For each two chains, whether they need places of their own: neither ends before the other begins, in every order."""
    nodes = [0] * len(chains)
    for i, chain in enumerate(chains):
        for a in chain:
            nodes[i] |= users[a]
    found = np.ones((len(chains), len(chains)), bool)
    for i, own in enumerate(chains):
        for j in range(i):
            a, b = own, chains[j]
            first, second = (a, b) if a[0].birth < b[0].birth else (b, a)
            if a[0].node == b[0].node and len(first) == 1 and not first[0].values:  # scratch of one function
                free = (first[0].death or 0) <= second[0].birth
            else:
                free = order.precede(nodes[i], b[0].node) or order.precede(nodes[j], a[0].node)
            if free:
                found[i, j] = found[j, i] = False
    return found


def chains_of(allocations: Sequence[Allocation]) -> list[list[Allocation]]:
    """The allocations of the arena, those together that lie in one place one after the other."""
    chain: dict[Allocation, list[Allocation]] = {}
    for a in allocations:
        if not a.reason:
            chain[a] = chain[a.folded] if a.folded is not None else []
            chain[a].append(a)
    return list({id(c): c for c in chain.values()}.values())


def blocks_of(graph: Any, chains: list[list[Allocation]]) -> list[Block]:
    """What `offsets` asks of each."""
    of = {v: i for i, chain in enumerate(chains) for a in chain for v in a.values}
    found = []
    for i, chain in enumerate(chains):
        nodes = [graph.nodes[a.node] for a in chain if a.node < len(graph.nodes)]
        beside = {of[v] for node in nodes for v in node.operands if v in of} - {i}
        found.append(Block(chain[0].size, chain[0].birth, chain[-1].death or 0, tuple(sorted(beside))))
    return found
