"""Tracing: a function runs once, for real, and what it computes is noted.

Note [Closed by construction].  Before the function runs, every tensor that is alive gets a traced array around its own
(array.py), which it loses afterwards. So whatever the function reaches, by arguments, closures, globals or modules, and
by whatever way it computes, is noted, or raises: there is no list of functions that graphs know. What it makes itself
(zeros, a number beside a tensor) is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple

from ferro.core import mode as _mode
from ferro.core import trees
from ferro.core.base import TensorBase
from ferro.core.captures import CAPTURES
from ferro.core.node import Freed, Node, OutputRef
from ferro.graph import living
from ferro.graph.array import Traced
from ferro.graph.errors import CaptureError
from ferro.graph.ir import BOUND, INPUT, SPENT, Value
from ferro.graph.modules import named
from ferro.graph.numbers import Number, begin
from ferro.graph.places import places
from ferro.graph.reading import Reading
from ferro.graph.recorder import Recorder
from ferro.graph.there import as_array, shares
from ferro.graph.watch import Watch
from ferro.native import locks
from ferro.utils import _pytree

GIVEN, MADE, KEPT = "given", "made", "kept"  # where results come from
_KEPT = (NoneType, bool, int, float, complex, str, bytes)
_TURN = locks.new()  # one capture at a time: it changes tensors that all threads see


def trace(fn: Callable, args: tuple, kwargs: dict, seen: list | None = None) -> tuple:
    """What a Graph is made of, for ``fn(*args, **kwargs)``; `seen` gets, for each node, the arrays that it made."""
    reached = places(fn, args, kwargs)
    recorder = Recorder({**reached.names, **named(fn, args, kwargs)})
    recorder.seen = seen
    recorder.places = reached.tensors
    with _TURN, _Capture(_tensors((args, kwargs)), recorder) as running:
        return running.parts(fn(*args, **kwargs))


class Followed(NamedTuple):
    """A call that was followed: what it gave, and why it is no graph (None: it is one), or else what the graph is made of."""

    result: Any
    reason: str | None
    recorder: Any
    guards: list
    parts: tuple
    origins: (
        list  # of each result: (MADE, number of an output), (GIVEN, a tensor that was there before), (KEPT, the thing)
    )
    numbers: dict  # the float arguments, by their places among the leaves: Number


def follow(fn: Callable, args: tuple, kwargs: dict, strict: bool, fixed: bool = False) -> Followed | None:
    """Calls ``fn(*args, **kwargs)`` once, as eager would, and notes what it computes as long as a graph can hold it.

    strict: CaptureError, where the call stands, as soon as it cannot; fixed: float arguments are part of the
    program. None, and nothing was called, if another capture runs.
    """
    reached = places(fn, args, kwargs)
    recorder = Recorder({**reached.names, **named(fn, args, kwargs)}, lenient=True)
    recorder.places, recorder.raises = reached.tensors, strict
    leaves, structure = trees.flatten((args, kwargs))
    floats = [i for i, x in enumerate(leaves) if type(x) is float and not fixed]
    if not _TURN.acquire(blocking=False):
        return None
    try:
        reading = Reading(reached.things, recorder)
        parts, origins = (), []
        with _Capture(_tensors(leaves), recorder) as running:
            numbers = dict(zip(floats, running.numbers([leaves[i] for i in floats]), strict=True))
            if numbers:
                args, kwargs = trees.unflatten(structure, [numbers.get(i, x) for i, x in enumerate(leaves)])
            with reading:
                result = fn(*args, **kwargs)
            if recorder.reason is None:
                parts, origins = running.followed(result)
        reading.done()
    finally:
        _TURN.release()
    if numbers:
        result = _pytree.tree_map(lambda x: float.__float__(x) if type(x) is Number else x, result)
    return Followed(result, recorder.reason, recorder, reading.guards, parts, origins, numbers)


def _tensors(tree: Any) -> list:
    return [t for t in _pytree.tree_leaves(tree) if isinstance(t, TensorBase)]


class _Capture:
    """Context manager: within, all tensors that were alive are traced, and what else happens is told to the recorder."""

    def __init__(self, given: list, recorder: Recorder) -> None:
        self.given, self.recorder = given, recorder
        self.inputs: list[Value] = []
        recorder.inputs = given

    def __enter__(self) -> _Capture:
        recorder = self.recorder
        alive = {id(t): t for t in living.tensors()}
        for t in self.given:
            if id(t) not in alive:
                raise CaptureError(f"capture: an argument is a {type(t).__name__} whose array is no array of NumPy's")
        recorder.trace(alive.values())
        for t in self.given:
            array = recorder.tensors[id(t)]
            if array.value is None:
                array.value = recorder.bind(INPUT, t, array.near)
                self._describe(array.value, t)
            self.inputs.append(array.value)
        recorder.watch = Watch(recorder)
        _mode.push(self, {"threads": False, "observers+": (recorder.watch,)})
        CAPTURES.append(recorder)
        return self

    def __exit__(self, *exc: object) -> None:
        recorder = self.recorder
        moved = recorder.restore()
        CAPTURES.remove(recorder)
        _mode.pull(self)
        recorder.closed = True
        if moved is not None and exc[0] is None:
            recorder.end(
                f"capture: the function gives a tensor of shape {list(moved._data.shape)} that was there before another shape (x.t_(), "
                "x.set_(y)), which a graph cannot hold yet; use x.t(), or write into it with copy_() instead"
            )
        if recorder.lenient:
            recorder.release()

    def numbers(self, given: list[float]) -> list:
        """The float arguments of the function, as numbers of the graph: further inputs."""

        def value_of(array: Any) -> Value:
            value = self.recorder.bind(INPUT, None, array)
            self.inputs.append(value)
            return value

        return begin(given, self.recorder, value_of)

    def _describe(self, value: Value, t: Any) -> None:
        value.requires_grad = t._node is not None
        value.name = self.recorder.names.get(id(t), "")

    def parts(self, result: Any) -> tuple:
        """What the Graph is made of whose results these are."""
        recorder = self.recorder
        found = _pytree.tree_leaves(result)
        outputs = [self._output(t) for t in found]
        checks, counts = recorder.checks(), recorder.changes()
        for value in recorder.values:  # (those that only these nodes name, too)
            if value.kind == BOUND:
                self._describe(value, value.tensor)
        return (
            self.inputs,
            recorder.values,
            [*checks, *recorder.nodes, *counts],
            outputs,
            [self._history(t) for t in found],
            self._contents(found),
        )

    def _contents(self, found: list) -> dict[int, tuple]:
        """By the numbers of results, the values that were written into them last, and whether those have a gradient."""
        read = [(i, t, getattr(t._data, "content", None)) for i, t in enumerate(found)]
        watch = self.recorder.watch
        return {i: (content, watch.history_of(t, content)) for i, t, content in read if content is not None}

    def followed(self, result: Any) -> tuple:
        """The same for results of any kind, each output once; and where each result comes from. Nothing if that is no graph's matter."""
        recorder = self.recorder
        before = {id(t): t for t, _ in recorder.swapped}
        made: dict[int, int] = {}
        tensors, origins = [], []
        for x in _pytree.tree_leaves(result):
            if id(x) in before:
                recorder.converted(x._data)
                origins.append((GIVEN, x))
            elif isinstance(x, TensorBase):
                if id(x) not in made:
                    made[id(x)] = len(tensors)
                    tensors.append(x)
                origins.append((MADE, made[id(x)]))
            elif isinstance(x, _KEPT):
                if type(x) is Number:
                    x.fixed[0], x = True, float.__float__(x)
                origins.append((KEPT, x))
            else:
                recorder.end(f"capture: the function returns a {type(x).__name__}, which a replay could not make")
                return (), []
        self._refuse_views(tensors)
        if recorder.reason is not None:
            return (), []
        return self.parts(tensors), origins

    def _refuse_views(self, tensors: list) -> None:
        """Ends the capture for results that show the memory of others, or of what was there before: to the tape they are views."""
        near = [t._data.near for t in tensors if isinstance(t._data, Traced)]
        others = [array.near for _, array in self.recorder.swapped if array.value is not None]
        for i, array in enumerate(near):
            if any(shares(array, other) for other in (*near[:i], *others)):
                self.recorder.end(
                    f"capture: a result of shape {list(array.shape)} shares memory with an argument, a parameter or another result; "
                    "return a copy (clone())"
                )
                return

    def _history(self, t: Any) -> str:
        """ "grad" or "foreign" for a result with a history ("spent" if a backward freed it), else ""."""
        found = self.recorder.watch.history_of(t)
        if found == "grad" and self.recorder.lenient and _is_spent(t._node):
            return SPENT
        return "foreign" if found == "leaf" else found

    def _output(self, t: Any) -> Value:
        if not isinstance(t, TensorBase):
            raise CaptureError(f"capture: the function returned a {type(t).__name__}; a graph gives tensors")
        data = t._data
        return self.recorder.converted(data if isinstance(data, Traced) else as_array(data))


def _is_spent(node: Any) -> bool:
    """Whether a backward freed a part of a history."""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        n = n.node if type(n) is OutputRef else n
        if isinstance(n, Node) and id(n) not in seen:
            seen.add(id(n))
            if type(n.saved) is Freed:
                return True
            todo += n.edges
    return False
