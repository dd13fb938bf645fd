"""Plans of graphs on a GPU: a CUDA graph is recorded of the nodes, and each run is one launch.

Note [Plans of a device].  The offsets are those of the plan: an array for each value, as long as something reads it. On the device nobody
hands out places one by one: while the nodes are recorded, the memory that one array gives back goes to the next ones, from a pool
that belongs to the CUDA graph. Inputs are copied to where they lay then, results are copied out, and bound tensors are read where
they lie; where one has another array, the nodes are recorded anew. What Python does beside launching (counts of versions, steps of
optimisers, numbers that travel) is no work of the device: such a graph runs node by node, and `refusal` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.core import backend
from ferro.cuda.cuda_graphs import CUDAGraph
from ferro.cuda.cuda_graphs import graph as recorded
from ferro.cuda.streams import Stream, StreamContext, current_stream
from ferro.graph import interpreter
from ferro.graph.functions import effects
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.out import array_of, written
from ferro.graph.planning.plan import Plan
from ferro.graph.there import device_of

_WARM = 1  # runs node by node before the nodes are recorded
_MOST = 8  # recordings of one plan


def why_not(graph: Any) -> str:
    """Why a CUDA graph cannot hold the nodes of a graph; empty if it can."""
    for value in (*graph.inputs, *graph.bound, *graph.constants):
        if not value.device:
            return f"{value!r} {value.name!r} lies on the CPU"
    for node in graph.nodes:
        what = effects(node.function)
        if node.graphs or (what.writes and node.function.startswith(("tensor.", "program."))):
            return f"'{node.function}' at {node.line} is done by Python"
        if not device_of(node) and not what.random:
            return f"'{node.function}' at {node.line} is computed on the CPU"
    return ""


class DevicePlan(Plan):
    """A memory plan of a graph on a GPU; see Note [Plans of a device]."""

    def __init__(self, graph: Any, options: Options) -> None:
        self._why = why_not(graph)
        super().__init__(graph, "serial", options, ahead=True)
        self._warm = 0
        self._graph: CUDAGraph | None = None
        self._fixed: list[Any] = []  # the arrays that the recording reads: of inputs copies, of bound tensors their own
        self._made: list[Any] = []
        self._side: Stream | None = None

    @property
    def refusal(self) -> str:
        """Why the graph runs node by node; empty if it is recorded."""
        return self._why

    def _by_values(self, graph: Any) -> str:
        """Nothing is recorded for the offsets."""
        return "the arrays lie on a GPU"

    def execute(self, given: Sequence, targets: dict[int, Any] | None = None, watch: Any = None) -> list:
        """The arrays of the outputs for tensors (or arrays) of all inputs and bound values, which have been checked."""
        if self._why or watch is not None or not self._lock.acquire(blocking=False):
            self.runs += 1
            return written(interpreter.execute(self.graph, given), targets)
        try:
            self.runs += 1
            arrays = list(map(array_of, given))
            if self._graph is not None and not self._holds(arrays):
                self._graph = None
            if self._graph is None:
                if self._warm < _WARM or self.recordings >= _MOST:
                    return written(self._node_by_node(given), targets)
                try:
                    self._record(arrays)
                except Exception as error:  # noqa: BLE001 (whatever a recording meets: the nodes say what is wrong, if anything is)
                    self._why = f"it cannot be recorded ({type(error).__name__}: {error})"
                    return written(interpreter.execute(self.graph, given), targets)
            return written(self._replayed(arrays, targets or {}), targets)
        finally:
            if self._released:
                self._retire()
            self._lock.release()

    def _node_by_node(self, given: Sequence) -> list:
        """A run as it is written, in another stream than the default one, as recordings are: what is made once is there then."""
        self._warm += 1
        self._side = self._side or Stream()
        self._side.wait_stream(current_stream())
        with StreamContext(self._side):
            found = interpreter.execute(self.graph, given)
        current_stream().wait_stream(self._side)
        return [self._copied(a) for a in found]

    def _copied(self, array: Any) -> Any:
        return backend.xp_of(array).copy(array)

    def _holds(self, arrays: list) -> bool:
        count = len(dict.fromkeys(self.graph.inputs))
        return all(a is b for a, b in zip(arrays[count:], self._fixed[count:], strict=True))

    def _record(self, arrays: list) -> None:
        count = len(dict.fromkeys(self.graph.inputs))
        self._fixed = [*map(self._copied, arrays[:count]), *arrays[count:]]
        made = CUDAGraph()
        with recorded(made):
            self._made = interpreter.execute(self.graph, self._fixed)
        self._graph, self.recordings = made, self.recordings + 1

    def _replayed(self, arrays: list, targets: dict[int, Any]) -> list:
        assert self._graph is not None
        count = len(dict.fromkeys(self.graph.inputs))
        for fixed, array in zip(self._fixed[:count], arrays[:count], strict=True):
            fixed[...] = array
        self._graph.replay()
        self.replays += 1
        return [a if i in targets else self._copied(a) for i, a in enumerate(self._made)]

    def _retire(self) -> None:
        self._graph, self._made, self._fixed = None, [], []
