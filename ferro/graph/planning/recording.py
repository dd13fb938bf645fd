"""Recordings: which arrays a program makes while it runs, in which node each begins, and when it ends.

A run that is recorded is eager's in all that it does; NumPy's handler (native/arena.py) writes down sizes and addresses. A dry run
finds out the same before there are arguments: it calls the functions of a graph, node by node, for arrays that mean nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.graph.executor import arrays_in, function_of_node, last_uses
from ferro.graph.functions import effects
from ferro.graph.interpreter import constants
from ferro.graph.ir import Held, Node, Value, in_memory, replaced
from ferro.graph.passes.memory import Memory
from ferro.graph.state import TAKES_TENSORS
from ferro.native.arena import Arena

EVENTS = (
    16  # of each node, for which the log of a recording has room; one that was too short is made four times as long
)


class Allocation:
    """An array's memory: `size` bytes, made in node number `node`, from event `birth` to event `death` (None: it outlives the run),
    `last` is the last node that used it, and `gone` the one behind which it was no longer there.

    values: those of the graph that lie in it; `whole`: the first of them fills it in C order. Without values it is scratch that a
    function needs while it runs. folded: the allocation in whose place it comes to lie. offset: where in the arena; None: outside of it,
    `reason` says why. Of a node with graphs (see bodies.py) `inner`: it is the block for these; `store`: what the trips carry lies in it;
    `spread`: where arrays may begin in it, and how large these are.
    """

    __slots__ = (
        *("birth", "death", "folded", "gone", "inner", "last", "node", "offset", "reason", "size", "spread", "store"),
        *("values", "whole"),
    )

    def __init__(self, size: int, node: int, birth: int) -> None:
        self.size, self.node, self.birth = size, node, birth
        self.last = self.gone = node
        self.death: int | None = None
        self.values: list[Value] = []
        self.whole = False
        self.folded: Allocation | None = None
        self.offset: Any = None
        self.reason = ""
        self.inner: Any = None
        self.store: Any = None
        self.spread = [(0, size)]

    def __repr__(self) -> str:
        return f"Allocation({self.size} bytes, node {self.node}, {self.values or 'scratch'}, offset {self.offset})"


class Recorder:
    """Writes down what NumPy allocates within `run`, and to which nodes it belongs; call it as `on_node` of a run.

    room: for how many events for each node.
    """

    def __init__(self, graph: Any, room: int = EVENTS) -> None:
        self._room = room
        self._marks: list[int] = []  # where the log ended behind each node
        self._made: list[list[tuple[Value, int, bool]]] = []
        self.arena = Arena(0)
        self._log = np.zeros(2 * room * (len(graph.nodes) + EVENTS), np.int64)
        self._end = 0

    def run(self, call: Callable[[], Any]) -> Any:
        """Calls a function, and writes down everything that NumPy allocates in this thread meanwhile."""
        self.arena.log(self._log)
        before = self.arena.now()
        try:
            self.arena.begin(self.arena.none)
            return call()
        finally:
            self.arena.end(before)
            self._end = self.arena.logged
            self.arena.log(None)

    def __call__(self, node: Node, arrays: Sequence[Any]) -> None:
        self._marks.append(self.arena.logged)
        self._made.append(
            [
                (v, a.__array_interface__["data"][0], a.flags.c_contiguous)
                for v, a in zip(node.outputs, arrays, strict=True)
                if type(a) is np.ndarray
            ]
        )

    @property
    def full(self) -> bool:
        """Whether the log was too short."""
        return self._end - self._log.ctypes.data >= self._log.nbytes // 16 * 16

    def allocations(self) -> list[Allocation]:
        """All of them, in the order in which they were made."""
        start = self._log.ctypes.data
        events = self._log[: (self._end - start) // 8].reshape(-1, 2).tolist()
        marks = [(m - start) // 16 for m in self._marks]
        found: list[Allocation] = []
        live: dict[int, Allocation] = {}
        node, fresh = 0, False
        for k, (size, address) in enumerate(events):
            while node < len(marks) and marks[node] <= k:
                self._name(node, live)
                node, fresh = node + 1, True
            fresh = fresh and not size  # (what is freed before anything is made was given up behind the node before)
            if size:
                live[address] = made = Allocation(size, node, k)
                found.append(made)
            elif (ended := live.pop(address, None)) is not None:
                ended.death, ended.last, ended.gone = k, node - fresh, node
        for rest in range(node, len(marks)):
            self._name(rest, live)
        return found

    def windows(self) -> list[tuple[int, int]]:
        """The first event of each node, and the first one behind it."""
        marks = [(m - self._log.ctypes.data) // 16 for m in self._marks]
        return list(zip([0, *marks], marks, strict=False))

    def _name(self, node: int, live: dict[int, Allocation]) -> None:
        """Finds the allocations in which the results of a node lie."""
        if not self._made[node]:
            return
        starts = sorted(live)
        for value, address, whole in self._made[node]:
            i = bisect_left(starts, address + 1) - 1
            if i >= 0 and address < starts[i] + live[starts[i]].size:
                made = live[starts[i]]
                if not made.values:
                    made.whole = whole and address == starts[i]
                made.values.append(value)


def by_values(graph: Any) -> list[Allocation]:
    """What the graph says of it alone, where nothing can be recorded: an array for each value that is no view, and no scratch."""
    memory, last = Memory(graph), dict.fromkeys(graph.outputs, len(graph.nodes))
    for i in reversed(range(len(graph.nodes))):
        for v in (*graph.nodes[i].operands, *graph.nodes[i].outputs):
            last.setdefault(memory.group(v), i)
            last[memory.group(v)] = max(last[memory.group(v)], last.get(v, i))
    found: dict[Value, Allocation] = {}
    for i, node in enumerate(graph.nodes):
        for v in node.outputs:
            group = memory.group(v)
            if group not in found:
                size = math.prod(v.shape) * np.dtype(v.dtype).itemsize
                found[group] = made = Allocation(size, i, 2 * i)
                made.whole = v.strides is None
                made.last = made.gone = last[group]
                made.death = 2 * made.last + 1 if made.last < len(graph.nodes) else None
            found[group].values.append(v)
    outside = {memory.group(v) for v in (*graph.inputs, *graph.bound, *graph.constants)}
    return [a for group, a in found.items() if group not in outside]


def recorded(graph: Any, run: Callable[[Recorder], None]) -> Recorder:
    """A recording of `run`, whose log was long enough."""
    room = EVENTS
    while True:
        recorder = Recorder(graph, room)
        with np.errstate(all="ignore"):
            run(recorder)
        if not recorder.full:
            return recorder
        room *= 4


def dry_run(graph: Any) -> Recorder:
    """What a run of the graph will allocate, as far as that can be known without its arguments."""
    return recorded(graph, lambda recorder: _run_dry(graph, stand_ins(graph, (*graph.inputs, *graph.bound)), recorder))


def stand_ins(graph: Any, values: Sequence[Value]) -> dict[Value, Any]:
    """Arrays for some values of a graph, and for its constants."""
    return {v: stand_in(v) for v in values} | dict(zip(graph.constants, constants(graph), strict=True))


def _run_dry(graph: Any, found: dict[Value, Any], recorder: Recorder) -> None:
    last = last_uses(graph)
    done: Callable = recorder

    def nodes() -> None:
        for i, node in enumerate(graph.nodes):
            made = called_dry(node, found)
            found.update(zip(node.outputs, made, strict=True))
            done(node, made)
            del made
            for value in last.get(i, ()):
                found.pop(value, None)

    recorder.run(nodes)


def called_dry(node: Node, found: dict[Value, Any]) -> list:
    """What the function of a node gives for these arrays; arrays like its results if it does more than giving values, or refuses them."""
    what = effects(node.function)
    more = node.graphs or node.function in TAKES_TENSORS or what.random
    if not (more or any(type(a) is Held for a in node.args)):
        try:
            args, kwargs = replaced((node.args, node.kwargs), found.__getitem__)
            made = list(arrays_in(function_of_node(node.function)(*args, **kwargs)))
            del args, kwargs
            alike = len(made) == len(node.outputs) and all(
                (a.shape, a.dtype) == (v.shape, v.dtype) for a, v in zip(made, node.outputs, strict=True)
            )
            if alike:
                return made
        except Exception:  # noqa: BLE001 (of any class: the arrays mean nothing)
            made = []
    return [in_memory(v.shape, v.strides, v.dtype) for v in node.outputs]


def stand_in(value: Value) -> Any:
    """An array like a value, of numbers that most functions take."""
    found = in_memory(value.shape, value.strides, value.dtype)
    if found.dtype.kind in "fcV":
        found[...] = 0.5
    elif found.dtype.kind != "O":
        found[...] = found.dtype.kind == "b"
    return found
