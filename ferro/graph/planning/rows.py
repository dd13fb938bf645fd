"""What a plan says in rows and figures."""

from __future__ import annotations

from typing import Any, NamedTuple

from ferro.graph.planning.offsets import rounded


class Row(NamedTuple):
    """One array of a plan.

    - `name` (str): "%7", and what the program calls it; "scratch" for what a function needs while it runs
    - `kind` (str): "input", "bound", "constant", "arena", "view", or why it lies outside: "result", "outlives the run"
    - `bytes` (int), `dtype` (str), `shape` (tuple); of scratch, `bytes` alone
    - `offset` (int or None): in the arena; `address` (int or None): in memory, of what is bound and not copied
    - `first`, `last` (int): the numbers of the nodes that make it, and that use it last (-1: before all nodes)
    - `folded` (bool): it lies in the place of an argument
    - `line` (str): of the program
    """

    name: str
    kind: str
    bytes: int
    dtype: str
    shape: tuple
    offset: int | None
    address: int | None
    first: int
    last: int
    folded: bool
    line: str


def _name(value: Any) -> str:
    return f"{value} {value.name}".strip()


def _line(graph: Any, node: int) -> str:
    return graph.nodes[node].line if 0 <= node < len(graph.nodes) else ""


def _bytes(value: Any) -> int:
    size = value.dtype.itemsize
    for n in value.shape:
        size *= n
    return size


def _last_readers(graph: Any) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for i, node in enumerate(graph.nodes):
        for v in (*node.operands, *node.outputs):
            last[v] = i
    return last | dict.fromkeys(graph.outputs, len(graph.nodes))


def rows(plan: Any) -> list[Row]:
    """Those of inputs, bound values and constants, then those of arrays in the order in which they are made."""
    graph, found, last = plan.graph, [], _last_readers(plan.graph)
    for value in (*dict.fromkeys(graph.inputs), *graph.bound, *graph.constants):
        address = None if value.array is None else value.array.ctypes.data
        if value.tensor is not None:
            address = value.tensor._data.ctypes.data
        at = plan.addresses.get(value, address)
        found.append(
            Row(
                *(_name(value), value.kind, _bytes(value), str(value.dtype), value.shape),
                *(None, at, -1, last.get(value, -1), False, ""),
            )
        )
    start = plan.start
    for a in plan.allocations:
        kind = a.reason or "arena"
        address = None if a.offset is None or start is None else start + a.offset
        if not a.values:
            found.append(
                Row("scratch", kind, a.size, "", (), a.offset, address, a.node, a.last, False, _line(graph, a.node))
            )
        for k, value in enumerate(a.values):
            view = k > 0 or not a.whole
            found.append(
                Row(
                    *(_name(value), "view" if view and k else kind, _bytes(value), str(value.dtype), value.shape),
                    *(a.offset, address, a.node, last.get(value, a.node)),
                    *(a.folded is not None and not k, _line(graph, a.node)),
                )
            )
    return found


def report(plan: Any) -> str:
    """The figures of a plan, a line for each."""
    placed = [a for a in plan.allocations if a.offset is not None]
    total = sum(rounded(a.size) for a in placed)
    folded = [a for a in placed if a.folded is not None]
    scratch = [a for a in placed if not a.values]
    kept = [a for a in plan.allocations if a.reason]
    bound = (*dict.fromkeys(plan.graph.inputs), *plan.graph.bound)
    lines = [
        f"arena: {plan.arena_bytes} bytes; most that live at once: {plan.lower_bound}",
        f"in it: {len(placed)} arrays of {total} bytes together, {len(scratch)} of them scratch ({sum(a.size for a in scratch)} bytes)",
        f"in the place of an argument: {len(folded)} ({sum(a.size for a in folded)} bytes)",
        f"results, and what outlives the run: {len(kept)} ({sum(a.size for a in kept)} bytes), outside of the arena",
        f"bound, not copied: {len(bound)} inputs and parameters ({sum(map(_bytes, bound))} bytes), "
        f"{len(plan.graph.constants)} constants ({sum(map(_bytes, plan.graph.constants))} bytes)",
        f"runs: {plan.runs}, recorded {plan.recordings}, not as planned {plan.missed}; "
        f"allocated outside in the last one: {plan.outside} bytes",
    ]
    if plan.refusal:
        lines.append(f"arrays do not lie in the arena here: {plan.refusal}")
    return "\n".join(lines)
