"""A graph as one Python function: each node is a line that calls its function, so that a replay costs little more than its calls.

Note [Programs of graphs].  The function has a local name for each value ("v7"), and a line for each node, by which an error
finds its node again. Arguments without values are constants of the function. A value is given up after its last reader, as
eager's would be; a gradient before it arrives at a leaf, which keeps it if nobody else has it. Branches and loops get their operands
in a list, from which they take them: what nothing reads behind them ends with its last reader in them. Where an array has another
shape than at the capture, or is no array, `settled` looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ferro.cpu.elementwise import function_of
from ferro.elementwise import DECLARED
from ferro.graph.errors import ShapeError
from ferro.graph.functions import resolved
from ferro.graph.ir import Node, Value, values_in
from ferro.graph.state import HANDED_OVER, TAKES_TENSORS
from ferro.graph.there import as_array, device_of, is_real

_FILE = "<graph>"


class Program:
    """The function of a graph: ``run(arrays, tensors, on_node)``, for its inputs, bound values and constants, gives its outputs.

    Only if `tells` does it call ``on_node(node, arrays)`` after each node; if it `seeks`, it is given a seat, (words, starts, enter):
    ``words[0] = starts[i]`` stands before node i, and ``enter(i)`` before one with graphs. If it `takes`, it empties the list of arrays, and
    gives them up as it gives up others.
    """

    def __init__(self, graph: Any, tells: bool, seeks: bool = False, takes: bool = False) -> None:
        self.nodes, self.tells, self.seeks, self.takes = list(graph.nodes), tells, seeks, takes
        own = [*dict.fromkeys(graph.inputs), *graph.bound, *graph.constants]
        self.given = {v: i for i, v in enumerate(own)}
        self.names = {v: f"v{i}" for i, v in enumerate((*own, *[v for node in self.nodes for v in node.outputs]))}
        self.scope: dict[str, Any] = {"__builtins__": {}, "array": np.ndarray, "slice": slice, "type": type}
        self.scope["lies"] = is_real
        self.scope["settled"], self.scope["several"] = self._settled, self._several
        self.node_of: list[int] = []  # by the line
        source = "\n".join(self._lines(graph, own))
        exec(compile(source, _FILE, "exec"), self.scope)
        self.run: Callable[..., list] = self.scope["run"]

    def _lines(self, graph: Any, own: list[Value]) -> list[str]:
        last = last_uses(graph, self.takes)
        lines = ["def run(arrays, tensors, on_node, seat=None):"]
        if own:
            lines.append(f"    {', '.join([self.names[v] for v in own])}, = arrays")
        if self.seeks:
            lines.append("    words, starts, enter = seat")
        if self.takes:
            unread = [v for v in own if not any(v in some for some in last.values()) and v not in {*graph.outputs}]
            lines += ["    arrays.clear()", *[f"    del {self.names[v]}" for v in unread]]
        self.node_of = [-1] * (len(lines) + 1)  # (lines are counted from 1)
        for i, node in enumerate(graph.nodes):
            done = last.get(i, [])
            taken, gone = _handed(node, done)
            found = [f"words[0] = starts[{i}]"] if self.seeks else []
            found += [f"enter({i})"] if self.seeks and node.graphs else []
            found += [*self._call(i, node, taken, gone), *self._after(i, node, [v for v in done if v not in gone])]
            lines += [f"    {line}" for line in found]
            self.node_of += [i] * len(found)
        lines.append(f"    return [{', '.join([self.names[v] for v in graph.outputs])}]")
        self.node_of.append(-1)
        return lines

    def _call(self, i: int, node: Node, taken: int | None, gone: Sequence[Value] = ()) -> list[str]:
        """The line that calls the function of a node, and the one that looks at what it gave. Argument number `taken` goes in a list that
        alone has those of its values that are `gone`.
        """
        by = self._tensor if node.function in TAKES_TENSORS else self.names.__getitem__
        texts = [self._text(a, by) for a in node.args]
        lines: list[str] = []
        if taken is not None:
            lines = [f"handed = [{', '.join([self.names[v] for v in values_in(node.args[taken])])}]"]
            lines += [f"del {', '.join([self.names[v] for v in gone])}"] if gone else []
            texts[taken] = "handed"
        device = device_of(node)
        self.scope[f"f{i}"] = function_of_node(node.function, device)
        call = f"f{i}({', '.join([*texts, *[f'{name}={self._text(a, by)}' for name, a in node.kwargs.items()]])})"
        names = [self.names[v] for v in node.outputs]
        if len(names) != 1 or node.absent:
            return [*lines, f"{''.join([f'{name}, ' for name in names]) or '_'} = several({i}, {call})"]
        shape = self._constant(node.outputs[0].shape)
        other = f"not lies({names[0]})" if device else f"type({names[0]}) is not array"
        return [
            *lines,
            f"{names[0]} = {call}",
            f"if {other} or {names[0]}.shape != {shape}: {names[0]} = settled({i}, {names[0]})",
        ]

    def _after(self, i: int, node: Node, last: list[Value]) -> list[str]:
        """The lines that tell of a node, and give up what nothing reads any more."""
        made = ", ".join([self.names[v] for v in node.outputs])
        lines = [f"on_node({self._constant(node)}, [{made}])"] if self.tells else []
        return [*lines, f"del {', '.join([self.names[v] for v in last])}"] if last else lines

    def _tensor(self, value: Value) -> str:
        return f"tensors[{self.given[value]}]" if value in self.given and not self.takes else self.names[value]

    def _text(self, arg: Any, by: Callable[[Value], str]) -> str:
        """An argument as Python."""
        if isinstance(arg, Value):
            return by(arg)
        if type(arg) in (tuple, list):
            inner = ", ".join([self._text(a, by) for a in arg])
            return f"[{inner}]" if type(arg) is list else f"({inner}{',' if len(arg) == 1 else ''})"
        if type(arg) is dict:
            return "{" + ", ".join([f"{self._constant(k)}: {self._text(a, by)}" for k, a in arg.items()]) + "}"
        if type(arg) is slice:
            return f"slice({', '.join([self._text(a, by) for a in (arg.start, arg.stop, arg.step)])})"
        return self._constant(arg)

    def _constant(self, thing: Any) -> str:
        if thing is None or type(thing) in (bool, int):
            return repr(thing)
        name = f"k{len(self.scope)}"
        self.scope[name] = thing
        return name

    def _settled(self, i: int, found: Any) -> np.ndarray:
        return self._several(i, found)[0]

    def _several(self, i: int, found: Any) -> list[np.ndarray]:
        """The arrays that node number i gave; ValueError where they are not those of the capture."""
        node = self.nodes[i]
        if node.absent and isinstance(found, tuple) and len(found) == len(node.results):
            found = tuple(
                [f for k, f in enumerate(found) if not node.absent >> k & 1]
            )  # (what the capture did without)
        made = list(arrays_in(found))
        if len(made) != len(node.outputs):
            raise ValueError(f"'{node.function}' gave {len(made)} arrays, where the graph has {len(node.outputs)}")
        for value, array in zip(node.outputs, made, strict=True):
            if array.shape != value.shape or array.dtype != value.dtype:
                raise ShapeError(
                    f"{value} = {node.function}: the capture saw {value.dtype}{list(value.shape)}, this run gives "
                    f"{array.dtype}{list(array.shape)}: the shape depends on the data"
                )
        return made

    def where(self, traceback: TracebackType | None) -> tuple[int, dict[str, Any]]:
        """The number of the node in which a traceback goes through the function (-1: in none), and what its names stood for."""
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_globals is self.scope and frame.f_code.co_filename == _FILE:
                return self.node_of[traceback.tb_lineno], frame.f_locals
            traceback = traceback.tb_next
        return -1, {}


def function_of_node(name: str, device: str = "") -> Callable:
    """The function of a node, without the steps between a call and what computes it."""
    if device:
        return resolved(name, device)
    space, _, rest = name.partition(".")
    return function_of(DECLARED[rest]) if space == "elementwise" and rest in DECLARED else resolved(name)


def arrays_in(found: Any) -> Any:
    """The arrays that a function gave."""
    if isinstance(found, (tuple, list)):
        for f in found:
            yield from arrays_in(f)
    elif found is not None:
        yield as_array(found)


def _handed(node: Node, done: list[Value]) -> tuple[int | None, list[Value]]:
    """The number of the argument that a node gets in a list, from which it takes it, and which of its values nothing reads afterwards."""
    if node.function == HANDED_OVER:
        return (1, [node.args[1]]) if node.args[1] in done else (None, [])
    taken = operands_in(node)
    if taken is None:
        return None, []
    others = values_in([a for k, a in enumerate(node.args) if k != taken])
    return taken, [v for v in dict.fromkeys(node.args[taken]) if v in done and v not in others]


def operands_in(node: Node) -> int | None:
    """The number of the argument of a branch or a loop that holds what its graphs are given."""
    if not node.graphs:
        return None
    some = [k for k, a in enumerate(node.args) if type(a) in (tuple, list) and a and all(type(x) is Value for x in a)]
    return some[0] if some else None


def last_uses(graph: Any, takes: bool = False) -> dict[int, list[Value]]:
    """By the number of a node, the values that no later one reads, nor any output is; takes: among them inputs."""
    kept = {*graph.outputs} if takes else {*graph.outputs, *graph.inputs, *graph.bound}
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.outputs):
            last[value] = i
    found: dict[int, list[Value]] = {}
    for value, i in last.items():
        if value not in kept:
            found.setdefault(i, []).append(value)
    return found
