"""Frames: what a branch or body computes while it is captured, apart from what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferro.core import trees
from ferro.core.base import LEAF, TensorBase, wrap
from ferro.core.history import history
from ferro.graph.array import Traced, traced
from ferro.graph.copies import node_copy, value_copy
from ferro.graph.errors import CaptureError
from ferro.graph.functions import effects
from ferro.graph.graph import Graph
from ferro.graph.ir import CONSTANT, INPUT, Node, Value, replaced, strides_of
from ferro.graph.literals import dtype_name
from ferro.graph.living import root


class Frame:
    """Context manager: within, the nodes of a capture go into `nodes`, and what stood around stays as it was.

    Writes into what was there before, ``.grad`` and the like end the capture; generators of random numbers are as before at the end. What ends the
    capture raises CaptureError, of a lenient one too.
    """

    def __init__(self, recorder: Any, roots: dict[int, Any]) -> None:
        self.recorder, self.roots = recorder, roots  # (see `memory`)
        self.nodes: list[Node] = []
        self.arrays: dict[Value, Traced] = {}  # by the values that were read, what stood for them
        self.tensors: dict[Value, Any] = {}  # and the tensors with a history
        self.structure: Any = None
        self.outputs: list[Value] = []
        self.histories: list[str] = []
        self.contents: dict[int, tuple] = {}

    def __enter__(self) -> Frame:
        recorder = self.recorder
        self.states: dict[int, tuple] = {}
        self.held = {a.content: a.value for a in recorder.followed if a.content is not None}
        self.known = {v: v.written for v in recorder.values}
        self.before = recorder.nodes, recorder.seen, recorder.raises, recorder.frame
        recorder.nodes, recorder.seen, recorder.raises, recorder.frame = self.nodes, None, True, self
        return self

    def __exit__(self, *exc: object) -> None:
        recorder = self.recorder
        recorder.nodes, recorder.seen, recorder.raises, recorder.frame = self.before
        for generator, state in self.states.values():
            _with_generator(recorder, generator.set_state, state)

    # -- what the recorder tells ---------------------------------------------------------------------------------------

    def read(self, xs: Sequence) -> None:
        """Notes the tensors of an operation that have a history."""
        for x in xs:
            if x is not None and isinstance(x._data, Traced) and history(x) is not None:
                self.recorder.converted(x._data)
                self.tensors.setdefault(x._data.value, x)

    def draws_from(self, generator: Any) -> None:
        """Keeps the state of a generator that is used for the first time."""
        if id(generator) not in self.states:
            self.states[id(generator)] = generator, _with_generator(self.recorder, generator.get_state)
        if self.before[3] is not None:
            self.before[3].draws_from(generator)

    def written(self, targets: Sequence) -> None:
        """Ends the capture for a write into memory that was there before."""
        for array in targets:
            if id(root(array)) in self.roots:
                self.recorder.refuse(
                    f"a branch or a body writes into a tensor of shape {list(array.shape)} that was there before; it is to give results"
                )

    # -- what it comes to ----------------------------------------------------------------------------------------------

    def run(self, fn: Callable, name: str) -> Frame:
        """Captures a call; a tree of tensors is to come of it."""
        with self:
            result = fn()
            leaves, self.structure = trees.flatten(result)
            recorder = self.recorder
            for t in leaves:
                if not isinstance(t, TensorBase):
                    raise TypeError(f"{name}: a branch or body gives tensors, not a {type(t).__name__}")
                recorder.watch.writing(t)
                self.outputs.append(recorder.converted(t._data))
                self.histories.append(self._history(t))
                content = getattr(t._data, "content", None)
                if content is not None:
                    self.contents[len(self.outputs) - 1] = content, recorder.watch.history_of(t, content)
        return self

    def _history(self, t: Any) -> str:
        if history(t) is not None:
            self.tensors.setdefault(t._data.value, t)
        found = self.recorder.watch.history_of(t)
        if found == "foreign":
            self.recorder.refuse("a branch or body gives a result with a history from elsewhere (a custom Function)")
        return "" if found == "leaf" else found

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return any(effects(node.function).random for node in self.nodes)

    def free(self) -> list[Value]:
        """The values from outside that it reads, in order."""
        own = {v for node in self.nodes for v in node.outputs}
        read = [*[v for node in self.nodes for v in node.operands], *self.outputs]
        return [v for v in dict.fromkeys(read) if v not in own and not self._is_constant(v)]

    def _is_constant(self, value: Value) -> bool:
        """Whether a value is a constant that belongs inside: nobody outside can write into it."""
        if value.kind != CONSTANT:
            return False
        if value in self.known:
            return not value.written and id(root(value.array)) not in self.roots
        return value.written or id(root(value.array)) not in self.roots

    def graph(self, inputs: Sequence[Value], graded: Sequence[bool], outputs: Sequence[Value] | None = None) -> Graph:
        """The graph of what was computed, whose inputs stand for these values."""
        made = {v: value_copy(v, INPUT) for v in inputs}
        for v, has in zip(inputs, graded, strict=True):
            made[v].requires_grad = has
        read = dict.fromkeys([*[v for node in self.nodes for v in node.operands], *self.outputs])
        own = [v for v in read if v not in made and self._is_constant(v)]
        made.update({v: value_copy(v) for v in own})
        constants = [made[v] for v in own]

        def inside(value: Value) -> Value:
            found = made.get(value) or made.get(self.held.get(value))  # type: ignore[arg-type]
            if found is None:
                raise CaptureError(
                    "capture: a branch or body reads what was written in place before it, in a way that is not followed; write a copy"
                )
            return found

        nodes = []
        for node in self.nodes:
            nodes.append(node_copy(node, made))
            if node.contents is not None:
                args, kwargs, foreign = node.contents
                nodes[-1].contents = replaced(args, inside), replaced(kwargs, inside), foreign
        contents = {i: (inside(v), h) for i, (v, h) in self.contents.items()}
        self.forget(own)
        return Graph(
            [made[v] for v in inputs], constants, nodes, [made[v] for v in self.outputs], self.histories, contents
        )

    def forget(self, constants: list[Value]) -> None:
        """Leaves constants that belong inside out of the graph around."""
        gone = {v for v in constants if v not in self.known}
        recorder = self.recorder
        recorder.values = [v for v in recorder.values if v not in gone]
        recorder.constants = {k: v for k, v in recorder.constants.items() if v not in gone}


def _with_generator(recorder: Any, method: Callable, *args: Any) -> Any:
    """Asks a generator, or sets it, unseen by the capture."""
    thread, recorder.thread = recorder.thread, None
    try:
        return method(*args)
    finally:
        recorder.thread = thread


def tensor_of(frames: Sequence[Frame], value: Value) -> Any:
    """The tensor that a value from outside is to a node: one with its history, if a frame saw one."""
    for frame in frames:
        if value in frame.tensors:
            return frame.tensors[value]
    found = next((frame.arrays[value] for frame in frames if value in frame.arrays), None)
    return wrap(traced(value.array, frames[0].recorder, value) if found is None else found)  # (a constant)


class Placeholders:
    """Tensors that stand for the values which a body gets in any trip, with the arrays of the first."""

    def __init__(self, recorder: Any, given: Sequence, graded: Sequence[bool]) -> None:
        self.tensors, self.values = [], []
        for near, has in zip(given, graded, strict=True):
            value = Value(INPUT, near.shape, near.dtype)
            value.strides = strides_of(near)
            array = traced(near, recorder, value)
            tensor = wrap(array, LEAF if has else None)
            recorder.external[id(array)] = tensor
            self.tensors.append(tensor)
            self.values.append(value)


def line_of(value: Value) -> str:
    """Where a result was computed."""
    return f" at {value.node.line}" if value.node is not None and value.node.line else ""


def described(frame: Frame) -> str:
    """The results of a frame, for an error."""
    found = [f"{dtype_name(v.dtype)}{list(v.shape)}{line_of(v)}" for v in frame.outputs]
    return f"{', '.join(found) or 'nothing'} (nested as {frame.structure})"
