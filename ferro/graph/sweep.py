"""One walk over a graph from its last node to its first, on which the gradient formulas run: see Note [Gradients of graphs]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.accumulate import conform
from ferro.core.base import LEAF, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.op import OPS
from ferro.cpu.sparse_rows import Rows
from ferro.graph.array import Traced, called, functions, functions_of, traced
from ferro.graph.formulas import Cotangents, Given, gradients, outputs_of, stand_in, tensors_of
from ferro.graph.ir import COMPUTED, GRAD, INPUT, OWN, Node, Value
from ferro.graph.pieces import shared
from ferro.graph.recorder import Recorder
from ferro.graph.there import device_of, total
from ferro.graph.watch import Watch

FROM_ELSEWHERE = "a custom Function, or from another part of the tape that is not in the graph"


class Sweep:
    """A walk whose steps are functions of arrays, as in the engine. apart: contributions to `wrts` are not added up."""

    def __init__(self, graph: Any, fs: list[Value], wrts: list[Value], apart: bool = False) -> None:
        self.graph, self.recorder = graph, Recorder()
        self.recorder.stands_in = True
        self.apart = set(wrts) if apart else set()
        self.arrays: dict[Value, Any] = {}
        self.readers: dict[Value, set[Node]] = {}  # by values, the nodes whose formulas name them
        self.parts: dict[Value, list] = {}
        self.totals: dict[Value, Any] = {}
        self.seeds: dict[Value, Value] = {}
        self.cotangents: list[Value] = []
        self.given: Any = Given(self.array, functions)
        for v in graph.constants:  # numbers of the program, by which formulas may decide
            if not v.written and v.array is not None:
                self.arrays[v] = v.array
                self.recorder.constants[id(v.array)] = v
        self.wanted = _on_the_way(graph.nodes, wrts)
        for v in fs:
            seed = Value(INPUT, v.shape, v.dtype)
            seed.device = v.device
            seed.name = f"cotangent {len(self.cotangents)}"
            self.cotangents.append(seed)
            self.seeds.setdefault(v, seed)
            self.parts.setdefault(v, []).append(self.begin(seed))

    def begin(self, seed: Value) -> Any:
        """What stands for a cotangent."""
        return self.array(seed)

    def array(self, value: Value) -> Any:
        """The traced array that stands for a value; of a constant, its own."""
        found = self.arrays.get(value)
        if self.recorder.place is not None:
            self.readers.setdefault(value, set()).add(self.recorder.place)
        if found is None:
            found = self.arrays[value] = traced(stand_in(value), self.recorder, value)
        return found

    def total(self, value: Value) -> Any:
        """The gradient of a value: its contributions, added in their order; None if there are none."""
        if value not in self.totals:
            parts = self.parts.get(value)
            if parts is None:
                return None
            self.totals[value] = parts[0] if len(parts) == 1 else self.added(parts)
        return self.totals[value]

    def added(self, parts: list) -> Any:
        """The sum of contributions."""
        parts = shared(parts, self.array)
        return parts[0] if len(parts) == 1 else called("array.total", total, *parts)

    def value_of(self, g: Any) -> Value:
        """The value of a gradient."""
        return self.recorder.converted(g)

    def history_of(self, g: Any) -> str:
        """What is said of a gradient among the outputs of a graph."""
        return OWN

    def requires_grad(self, value: Value) -> bool:
        """Whether a value, as an input of the backward graph, has a gradient there."""
        return False

    def run(self) -> None:
        """Visits all nodes that a gradient reaches."""
        for index in range(len(self.graph.nodes) - 1, -1, -1):
            node = self.graph.nodes[index]
            op = OPS.get(node.function)
            if op is None and node.of is not None and any(v in self.parts for v in node.outputs):
                raise NotImplementedError(
                    f"differentiate: '{node.function}' is a step of a gradient formula, from {node.line}. This backward was read from a text, "
                    "or passed through a pass; differentiate the graph that it was made from"
                )
            if op is None or not node.mask:
                continue
            xs = tensors_of(op, node)
            outs = outputs_of(op, node)
            if all(v not in self.parts for v in outs):
                continue
            self.recorder.place = node
            self.recorder.of = index
            self.given.at(functions_of(device_of(node)))
            if node.foreign:
                raise NotImplementedError(
                    f"differentiate: '{node.function}' at {node.line} reads what has its history from {FROM_ELSEWHERE}"
                )
            want = [i for i, x in enumerate(xs) if node.mask >> i & 1 and x in self.wanted]
            if want:
                gs = Cotangents([self.total(v) for v in outs])
                gs.begun = self._begun(node, xs, want)
                for i, gx in zip(want, gradients(op, node, want, gs, self.given), strict=True):
                    if i in gs.begun:
                        self.parts.pop(xs[i])
                    self._add(xs[i], gx, node)

    def _begun(self, node: Node, xs: tuple, want: list[int]) -> dict[int, Any]:
        """By the numbers of inputs, what there is already of their gradients, of a loop, whose trips add to it one after the other."""
        varying = getattr(OPS[node.function], "varying", None)  # how many of the last inputs are others in each trip
        if varying is None:
            return {}
        there = [i for i in want if i < len(xs) - varying(*node.args[1:]) and xs[i] in self.parts]
        parts = {i: self.parts[xs[i]] for i in there}
        return {i: p[0] if len(p) == 1 else self.added(p) for i, p in parts.items()}

    def _add(self, value: Value, gx: Any, node: Node) -> None:
        if gx is None:
            return
        if type(gx) is Rows:
            raise NotImplementedError(f"differentiate: '{node.function}' at {node.line} has a sparse gradient")
        gx = conform(gx, value.shape, value.dtype, self.given.recorded)
        parts = self.parts.get(value, [])
        self.parts[value] = [*parts, gx] if value in self.apart else self.joined(parts, gx)

    def joined(self, parts: list, gx: Any) -> list:
        """Contributions with another one."""
        return [*parts, gx]


class GivenTensors(Given):
    """Tensors around traced arrays: what formulas get in a backward that is recorded."""

    recorded = True

    def __init__(self, array: Any, tensor: Any) -> None:
        super().__init__(array, backend.functional)
        self.tensor = tensor

    def aux(self, value: Value) -> Any:
        """None for what the recorded formula is to compute again, as on the tape."""
        return None if value.dtype in INEXACT else wrap(self.array(value))


class RecordedSweep(Sweep):
    """A walk whose steps are operations on Tensors, as in a backward with create_graph; a context manager."""

    def __init__(self, graph: Any, fs: list[Value], wrts: list[Value], apart: bool = False) -> None:
        self.tensors: dict[Value, Any] = {}
        super().__init__(graph, fs, wrts, apart)
        self.given = GivenTensors(self.array, self.tensor)
        self.watch = Watch(self.recorder)

    def __enter__(self) -> Self:
        _mode.push(self, {"threads": False, "observers+": (self.watch,), "grad": True, "inference": False})
        return self

    def __exit__(self, *exc: object) -> None:
        _mode.pull(self)
        self.recorder.closed = True

    def begin(self, seed: Value) -> Any:
        """The Tensor of a cotangent."""
        return self.tensor(seed)

    def tensor(self, value: Value) -> Any:
        """The Tensor that stands for a value."""
        found = self.tensors.get(value)
        if found is None:
            array = self.array(value)
            found = self.tensors[value] = wrap(array, LEAF if self.requires_grad(value) else None)
            if isinstance(array, Traced):
                self.recorder.external[id(array)] = found
        return found

    def requires_grad(self, value: Value) -> bool:
        """Whether eager would send a gradient to this value; cotangents may have one, too."""
        if value.dtype not in INEXACT:
            return False
        if value.kind == COMPUTED and value.node is not None:
            return bool(value.node.mask)
        return value.requires_grad or value in self.cotangents

    def joined(self, parts: list, gx: Any) -> list:
        """Their sum, formed at once: where an addition stands among the operations decides in which order those of the next order come."""
        return [parts[0] + gx if parts else gx]

    def value_of(self, g: Any) -> Value:
        """The value of a gradient."""
        return self.recorder.converted(g._data)

    def history_of(self, g: Any) -> str:
        """Whether a gradient has a gradient itself."""
        return GRAD if self.watch.history_of(g) == GRAD else ""


def _on_the_way(nodes: Iterable[Node], wrts: list[Value]) -> set[Value]:
    """The values that depend on `wrts` by a way that gradients go."""
    wanted = set(wrts)
    for node in nodes:
        op = OPS.get(node.function)
        if op is None or not node.mask:
            continue
        if node.foreign or any(node.mask >> i & 1 and x in wanted for i, x in enumerate(tensors_of(op, node))):
            wanted.update(
                [
                    v
                    for k, v in enumerate(outputs_of(op, node))
                    if v and v.dtype in INEXACT and k not in op.nondiff_indices
                ]
            )
    return wanted
