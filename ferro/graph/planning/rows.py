"""What a plan says in rows and figures."""

from __future__ import annotations

from typing import Any, NamedTuple

from ferro.graph.planning.offsets import rounded


class Row(NamedTuple):
    """One array of a plan.

    - `name` (str): "%7", and what the program calls it; "scratch" for what a function needs while it runs, "block" for what graphs of a node do
    - `kind` (str): "input", "bound", "constant", "arena", "view", or why it lies outside: "result", "outlives the run"; "carried" by the
      trips of a loop; "inside": in the block of a node, "%7 in graph 0 of node 3"
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
        at = plan.addresses.get(value)
        if at is None and value.array is not None:
            at = value.array.ctypes.data
        what = _name(value), value.kind, _bytes(value), str(value.dtype), value.shape
        found.append(Row(*what, offset=None, address=at, first=-1, last=last.get(value, -1), folded=False, line=""))
    for a in plan.allocations:
        kind, line = a.reason or "arena", _line(graph, a.node)
        at = None if a.offset is None or plan.start is None else plan.start + a.offset
        if not a.values:
            name = "scratch" if a.inner is None else "block"
            found.append(Row(name, kind, a.size, "", (), a.offset, at, a.node, a.last, False, line))
        for k, value in enumerate(a.values):
            kind = (
                "view"
                if k >= (1 if a.store is None else len(a.store.results))
                else "carried"
                if a.store is not None
                else kind
            )
            what = _name(value), kind, _bytes(value), str(value.dtype), value.shape
            use = {"first": a.node, "last": last.get(value, a.node), "folded": a.folded is not None and not k}
            found.append(Row(*what, offset=a.offset, address=at, **use, line=line))
        if a.inner is not None and a.offset is not None:
            found += _inside(a.inner, a.node, a.offset, f"node {a.node}", plan.start)
    return found


def _inside(inner: Any, node: int, block: int, where: str, start: int | None) -> list[Row]:
    """Rows of what the graphs of a node make and give up while it runs."""
    found = []
    for k, body in enumerate((*inner.bodies, *inner.conditions)):
        for a in body.allocations:
            if a.offset is None:
                continue
            at, line = block + a.offset, _line(body.graph, a.node)
            own = f"in graph {k} of {where}"
            name = f"{a.values[0] if a.values else 'scratch' if a.inner is None else 'block'} {own}"
            use = {"first": node, "last": node, "folded": a.folded is not None}
            address = None if start is None else start + at
            shape, dtype = (a.values[0].shape, str(a.values[0].dtype)) if a.values else ((), "")
            found.append(Row(name, "inside", a.size, dtype, shape, at, address, **use, line=line))
            if a.inner is not None:
                found += _inside(a.inner, node, at, f"node {a.node} {own}", start)
    return found


def _said(some: list) -> str:
    return f"{len(some)} arrays of {sum(a.size for a in some)} bytes"


def report(plan: Any) -> str:
    """The figures of a plan, a line for each."""
    placed = [a for a in plan.allocations if a.offset is not None]
    folded = [a for a in placed if a.folded is not None]
    scratch = [a for a in placed if not a.values and a.inner is None]
    blocks, stores = [a for a in placed if a.inner is not None], [a for a in placed if a.store is not None]
    kept = [a for a in plan.allocations if a.reason]
    bound = (*dict.fromkeys(plan.graph.inputs), *plan.graph.bound)
    constants = plan.graph.constants
    lines = [
        f"arena: {plan.arena_bytes} bytes; most that live at once: {plan.lower_bound}",
        f"in it: {_said(placed)}, {sum(rounded(a.size) for a in placed)} bytes by cache lines; scratch among them: {_said(scratch)}",
        f"in the place of an argument: {_said(folded)}",
        f"results, and what outlives the run, outside of the arena: {_said(kept)}",
        f"bound, not copied: {len(bound)} inputs and parameters of {sum(map(_bytes, bound))} bytes",
        f"constants: {len(constants)} of {sum(map(_bytes, constants))} bytes",
        f"runs: {plan.runs}, recorded {plan.recordings}, not as planned {plan.missed}",
        f"allocated outside in the last run: {plan.outside} bytes; copied by loops: {plan.copied} bytes",
    ]
    if plan.inners:
        lines.insert(
            2, f"of branches and loops: blocks while they run: {_said(blocks)}; what trips carry: {_said(stores)}"
        )
    if plan.refusal:
        lines.append(f"arrays do not lie in the arena here: {plan.refusal}")
    return "\n".join(lines)
