"""Graph: a captured program, what can be asked of it, and its replay node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.core.base import TensorBase, wrap
from ferro.graph import files, interpreter, text
from ferro.graph.compare import compared
from ferro.graph.differentiate import Gradient, differentiate
from ferro.graph.errors import GraphFormatError
from ferro.graph.executor import Program
from ferro.graph.ir import BOUND, CONSTANT, GraphBase, Held, Node, Value
from ferro.graph.passes import DEFAULT, optimised
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.device_plan import DevicePlan
from ferro.graph.planning.plan import Plan
from ferro.graph.there import as_array, device_in


class Graph(GraphBase):
    """A program over arrays: `inputs`, values that are bound or constant, `nodes` in the order of the program, `outputs`,
    and of each output (`histories`) whether it has a gradient ("grad"), one that is not the graph's ("foreign"), none (""), is a
    gradient itself, whose memory nothing else shows ("own"), or is what a `backward` takes ("captured").

    `held` are the objects of the program that nodes work with (generators, optimisers).
    Made by `capture`, `differentiate`, `optimise` and `parse`. ``print(graph)`` shows it, one line for each value.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        values: Sequence[Value],
        nodes: Sequence[Node],
        outputs: Sequence[Value],
        histories: Sequence[str] | None = None,
        contents: dict[int, tuple] | None = None,
    ) -> None:
        self.inputs, self.nodes, self.outputs = list(inputs), list(nodes), list(outputs)
        self.histories = [""] * len(self.outputs) if histories is None else list(histories)
        # What `differentiate` takes in its place: of a backward, the same made of operations.
        self.again: Callable[[], Graph] | None = None
        self.contents = contents or {}  # of a captured graph, what outputs hold and their histories: see functional.py
        self.bound = [v for v in values if v.kind == BOUND]
        self.constants = [v for v in values if v.kind == CONSTANT]
        self.derived: dict[tuple, Any] = {}  # of a branch or body, the derivatives that were asked for
        held = [a for node in self.nodes for a in node.args if type(a) is Held]
        held += [a for node in self.nodes for inner in node.graphs for a in inner.held]
        self.held = list({id(a): a for a in held}.values())
        self._programs: dict[tuple, Program] = {}
        self.optimised: dict[str, int] = {}  # by the names of passes that made this graph, how much each found to do
        for number, value in enumerate(self.values()):
            value.number = number

    def values(self) -> list[Value]:
        """All values: inputs, bound ones, constants, and what the nodes make, in their order."""
        own = [*dict.fromkeys(self.inputs), *self.bound, *self.constants]
        return [*own, *[v for node in self.nodes for v in node.outputs]]

    def __str__(self) -> str:
        return text.printed(self)

    def __repr__(self) -> str:
        return f"<Graph: {len(self.inputs)} inputs, {len(self.bound)} bound, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"

    @staticmethod
    def parse(source: str, constants: dict[str, np.ndarray] | None = None) -> Graph:
        """The graph that a text shows, the inverse of ``str(graph)``. Large constants come from `constants`, by name.

        GraphFormatError for a text that shows none. No code in it runs.

        Example::

            >>> import ferro
            >>> graph = ferro.graph.capture(lambda x: x.exp() * 2, ferro.ones(2))
            >>> str(ferro.graph.Graph.parse(str(graph))) == str(graph)
            True
        """
        return text.parsed(source, constants or {}, Graph)

    def save(self, filename: Any) -> None:
        """Writes the graph to a safetensors file, with its constants; bound values are named, not kept.

        TypeError for parameters that cannot be written as literals. `load` reads the file.
        """
        files.save(self, filename)

    @staticmethod
    def load(filename: Any) -> Graph:
        """The graph in a file. No code in it runs; GraphFormatError for a file that is damaged, foreign or newer.

        Bound values have no tensors then: `interpret` is given their arrays behind the inputs.
        """
        source, raw = files.load(filename)
        graph = text.parsed(source, {}, Graph)
        for name, value in text.constants_of(graph):
            if value.array is None:
                if name not in raw:
                    raise GraphFormatError(f"the file lacks the constant {name}")
                value.array = text.there(files.restored(value, raw[name]), value)
        return graph

    def differentiate(self, f: Any = None, wrt: Any = None) -> Gradient:
        """The graph's derivative by reverse mode, as graphs; see Gradient.

        - `f` (values, or numbers of outputs; default: all outputs with a gradient): what is differentiated
        - `wrt` (values, bound tensors, or numbers of inputs, behind which the bound values count; default: all that required a gradient
          when the graph was captured): by what

        The gradients are eager's to the last bit. ValueError for what is not in the graph or has no gradient; NotImplementedError,
        with the line, for a derivative that is missing, writes into memory and custom Functions.

        Example::

            >>> import ferro
            >>> x = ferro.tensor([1.0, 2.0], requires_grad=True)
            >>> gradient = ferro.graph.capture(lambda x: (x * x).sum(), x).differentiate()
            >>> gradient.joint.interpret(x, ferro.tensor(1.0))
            [tensor(5.), tensor([2., 4.])]
        """
        return differentiate(self, f, wrt)

    def optimise(
        self,
        passes: Sequence[str] = DEFAULT,
        *,
        fast_math: bool = False,
        differentiable: bool = True,
        debug: bool = False,
    ) -> Graph:
        """A shorter graph that gives the same bits; this one stays as it is. `optimised` of the new one says what each pass found.

        - `passes` (names, default all): "simplification", "constant_folding", "common_subexpressions", "dead_code",
          "elementwise_chains"
        - `fast_math` (bool): rules, too, that change bits: ``x + 0.0``, products of several numbers, quotients
        - `differentiable` (bool): nodes through which gradients go stay as they are, unless this is a backward or a joint graph, because
          the order in which gradients are added depends on them; False: they are joined, too. `differentiate` takes the nodes that
          were there before then, and refuses the graph once it was read from a text or file. Differentiate first, then optimise.
        - `debug` (bool): the graph is checked behind each pass; PassError if one broke it

        ValueError for a pass that there is not.

        Example::

            >>> import ferro
            >>> graph = ferro.graph.capture(lambda x: x.exp() * 1 + x.exp(), ferro.ones(2))
            >>> shorter = graph.optimise()
            >>> len(graph.nodes), len(shorter.nodes), sum(shorter.optimised.values())
            (4, 2, 3)
        """
        return optimised(self, passes, fast_math, differentiable, debug)

    def plan(self, order: str = "serial", fold: bool = True, reuse: bool = True, *, rotate: bool = True) -> Plan:
        """A memory plan: where each array of a run lies in one arena; `Plan.run` runs the graph by it.

        Of a graph on a GPU the second run records a CUDA graph, and each run from then on is one launch; see cuda.md.

        - `order` (str): "serial": the nodes run in their order; "any": in any order that the data allow, on all threads
        - `fold` (bool): results may lie in the place of an argument that ends there
        - `reuse` (bool): a place is used again when its array has ended; False: each array has a place of its own
        - `rotate` (bool): the trips of a loop take places by turns; False: what a trip hands on is copied

        Example::

            >>> import ferro
            >>> graph = ferro.graph.capture(lambda x: (x * x + 1) * 3 - x, ferro.ones(1000))
            >>> plan = graph.plan()
            >>> plan.verify()
            >>> plan.arena_bytes, graph.plan(fold=False).arena_bytes, graph.plan(fold=False, reuse=False).arena_bytes
            (4032, 8064, 12096)
        """
        if order not in ("serial", "any"):
            raise ValueError(f"plan: order is {order!r}; 'serial' and 'any' are allowed")
        options = Options(fold, reuse, rotate)
        if device_in(self.values()):
            if order != "serial":
                raise ValueError(f"plan: order is {order!r}; of a graph on a GPU only 'serial' is allowed")
            return DevicePlan(self, options)
        return Plan(self, order, options, ahead=True)

    def interpret(self, *inputs: Any, on_node: Callable[[Node, list], None] | None = None) -> list:
        """Runs the graph node by node; returns its outputs as tensors.

        - `inputs`: tensors or arrays, one for each input of the graph; behind them may stand one for each bound value
        - `on_node` (function, default None): is called with each node that ran and the arrays it made

        ValueError for inputs of another number, shape, dtype or layout than those of the capture. What eager raises for
        data is raised here too, with the node and its line.
        """
        given = [x if isinstance(x, TensorBase) else as_array(x) for x in inputs]
        return [wrap(a) for a in interpreter.run(self, given, on_node)]

    def program(self, **kinds: bool) -> Program:
        """The graph as one Python function of a kind (see Program), made at the first run."""
        key = tuple([name for name, is_one in kinds.items() if is_one])
        if key not in self._programs:
            self._programs[key] = Program(self, **kinds)
        return self._programs[key]

    def compare(self, fn: Callable, *inputs: Any) -> str | None:
        """What first differs between the graph and ``fn(*inputs)`` run by eager, in bits; None if nothing does.

        The function runs twice, once as it is and once captured anew, whose nodes are compared with those of the graph.
        """
        return compared(self, fn, inputs)
