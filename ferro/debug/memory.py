"""memory: how many bytes a graph keeps for backward, by operation, line and module."""

from __future__ import annotations

from typing import Any, NamedTuple

from ferro.core.node import Node
from ferro.debug.locations import location_of
from ferro.debug.tape import is_freed, kept, reachable, readable, start, storage


class Shared(NamedTuple):
    """A storage that several nodes (or one node twice) keep: counted once."""

    bytes: int
    shape: tuple
    savers: tuple[str, ...]


class MemoryReport:
    """What a graph keeps for backward.

    total: bytes of distinct storages, without those of leaves that require grad (`parameters`), which are there anyway;
    inputs: the part of it that belongs to other leaves (data).  by_op, by_line, by_module: where it was first saved;
    a module counts what is in its children, so by_module says what checkpointing that module would spare, less its
    inputs.  shared: storages saved more than once.  freed: nodes whose values a backward has freed.
    """

    def __init__(self) -> None:
        self.total = self.parameters = self.inputs = self.nodes = self.freed = 0
        self.by_op: dict[str, int] = {}
        self.by_line: dict[str, int] = {}
        self.by_module: dict[str, int] = {}
        self.shared: list[Shared] = []

    def __str__(self) -> str:
        besides = f"of it data {readable(self.inputs)}; besides, parameters {readable(self.parameters)}"
        lines = [f"kept for backward: {readable(self.total)} in {self.nodes} nodes ({besides})"]
        if self.freed:
            lines.append(f"{self.freed} nodes were freed by a backward")
        for title, table in (("operation", self.by_op), ("line", self.by_line), ("module", self.by_module)):
            if table:
                lines.append(f"by {title}:")
                lines += [
                    f"  {readable(n):>10}  {name}" for name, n in sorted(table.items(), key=lambda item: -item[1])
                ]
        if self.shared:
            lines.append("saved more than once, counted once:")
            lines += [f"  {readable(s.bytes):>10}  {list(s.shape)} by {', '.join(s.savers)}" for s in self.shared]
        return "\n".join(lines)

    __repr__ = __str__


def memory(root: Any) -> MemoryReport:
    """What the graph behind a tensor keeps for backward.  Modules are known inside `ferro.debug.locations`.

    Example::

        >>> import ferro
        >>> x = ferro.ones(1000, requires_grad=True)
        >>> ferro.debug.memory((x * 2).exp().sum()).by_op
        {'exp': 4000}
    """
    report = MemoryReport()
    owners: dict[int, tuple] = {}  # storage -> (storage, shape, the names of those that save it)
    found = reachable(start(root))
    parameters = {id(storage(t._data)) for t in found if not isinstance(t, Node)}  # views of them are saved too
    for node in reversed([n for n in found if isinstance(n, Node)]):
        report.nodes += 1
        report.freed += is_freed(node) and node.plan.keeps
        for name, array, leaf in kept(node):
            if array.ndim == 0 and not array.flags.writeable:
                continue  # a Python number
            store = storage(array)
            saver = f"{node.plan.op.name}.{name}"
            if id(store) in owners:
                owners[id(store)][2].append(saver)
                continue
            owners[id(store)] = (store, array.shape, [saver])
            if id(store) in parameters:
                report.parameters += store.nbytes
                continue
            _count(report, node, store.nbytes, leaf is not None)
    report.shared = [
        Shared(s.nbytes, tuple(shape), tuple(savers)) for s, shape, savers in owners.values() if len(savers) > 1
    ]
    report.shared.sort(key=lambda s: -s.bytes)
    return report


def _count(report: MemoryReport, node: Any, size: int, data: bool) -> None:
    report.total += size
    report.inputs += size if data else 0
    op = node.plan.op.name
    report.by_op[op] = report.by_op.get(op, 0) + size
    where = location_of(node)
    if where is None:
        return
    line = f"{where.file}:{where.line}"
    report.by_line[line] = report.by_line.get(line, 0) + size
    path = where.module
    while path:
        report.by_module[path] = report.by_module.get(path, 0) + size
        path = path.rpartition(".")[0]
