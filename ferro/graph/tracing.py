"""Tracing: a function runs once, for real, and what it computes is noted.

Note [Closed by construction].  Before the function runs, every tensor that is alive gets a traced array around its own
(array.py), which it loses afterwards. So whatever the function reaches, by arguments, closures, globals or modules, and
by whatever way it computes, is noted, or raises: there is no list of functions that graphs know. What it makes itself
(zeros, a number beside a tensor) is a constant.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ferro.core import mode as _mode
from ferro.core import random
from ferro.core.base import TensorBase
from ferro.core.operands import is_constant
from ferro.graph.array import Traced
from ferro.graph.errors import CaptureError
from ferro.graph.ir import BOUND, COMPUTED, INPUT, Value
from ferro.graph.modules import named
from ferro.graph.recorder import Recorder
from ferro.graph.watch import Watch
from ferro.native import locks
from ferro.utils import _pytree

_TURN = locks.new()  # one capture at a time: it changes tensors that all threads see


def trace(fn: Callable, args: tuple, kwargs: dict, seen: list | None = None) -> tuple:
    """What a Graph is made of, for ``fn(*args, **kwargs)``; `seen` gets, for each node, the arrays that it made."""
    leaves, _ = _pytree.tree_flatten((args, kwargs))
    given = [t for t in leaves if isinstance(t, TensorBase)]
    with _TURN, _Capture(given, named(fn, args, kwargs)) as running:
        running.recorder.seen = seen
        return running.parts(fn(*args, **kwargs))


class _Capture:
    """Context manager: within, all tensors that were alive are traced, and generators are noted."""

    def __init__(self, given: list, names: dict[int, str]) -> None:
        self.given, self.names = given, names
        self.recorder = Recorder(names)
        self.swapped: list[tuple[Any, Traced]] = []
        self.inputs: list[Value] = []

    def __enter__(self) -> _Capture:
        recorder = self.recorder
        for t in _alive():
            array = Traced(t._data, recorder)
            self.swapped.append((t, array))
        traced = {id(t): array for t, array in self.swapped}
        for t in self.given:
            if id(t) not in traced:
                raise CaptureError(f"capture: an argument is a {type(t).__name__} whose array is no array of NumPy's")
            array = traced[id(t)]
            if array.value is None:
                array.value = recorder.bind(INPUT, t, array.near)
                self._describe(array.value, t)
            self.inputs.append(array.value)
        recorder.external = {id(array): t for t, array in self.swapped}
        self.watch = Watch(recorder)
        _mode.push(self, {"threads": False, "observers+": (self.watch,)})
        random.CAPTURES.append(recorder)
        for t, array in self.swapped:
            t._data = array
        return self

    def __exit__(self, *exc: object) -> None:
        moved = None
        for t, array in self.swapped:
            if t._data is array:
                t._data = array.near
            elif type(t._data) is Traced:
                t._data, moved = t._data.near, t
            grad = None if t._meta is None else t._meta.grad
            if grad is not None and type(grad._data) is Traced:
                grad._data = grad._data.near
        random.CAPTURES.remove(self.recorder)
        _mode.pull(self)
        self.recorder.closed = True
        if moved is not None and exc[0] is None:
            raise CaptureError(
                f"capture: the function gives a tensor of shape {list(moved._data.shape)} that was there before another array or shape "
                "(x.data = y, x.t_()), which a graph cannot hold yet; write into it with copy_() instead"
            )

    def _describe(self, value: Value, t: Any) -> None:
        value.requires_grad = t._node is not None
        value.name = self.names.get(id(t), "")

    def parts(self, result: Any) -> tuple:
        """What the Graph is made of whose results these are."""
        recorder = self.recorder
        found = _pytree.tree_leaves(result)
        outputs = [self._output(t) for t in found]
        for value in recorder.values:
            if value.kind == BOUND:
                self._describe(value, value.tensor)
        for t, array in self.swapped:
            self._refuse_new_grad(t, array)
        return self.inputs, recorder.values, recorder.nodes, outputs, [self._history(t) for t in found]

    def _history(self, t: Any) -> str:
        """ "grad" or "foreign" for a result with a history, else ""."""
        found = self.watch.history_of(t)
        return "foreign" if found == "leaf" else found

    def _output(self, t: Any) -> Value:
        if not isinstance(t, TensorBase):
            raise CaptureError(f"capture: the function returned a {type(t).__name__}; a graph gives tensors")
        data = t._data
        return self.recorder.converted(data if type(data) in (Traced, np.ndarray) else np.asarray(data))

    def _refuse_new_grad(self, t: Any, array: Traced) -> None:
        """`.grad` that a backward made is state of the program, which no replay would set yet."""
        grad = None if t._meta is None else t._meta.grad
        value = None if grad is None else getattr(grad._data, "value", None)
        if value is not None and value.kind == COMPUTED:
            raise CaptureError(
                "capture: the function's backward() sets .grad, which a replay would not set yet; return "
                "ferro.autograd.grad(...) from it, or differentiate the graph"
            )


def _alive() -> Iterator[Any]:
    """All tensors of NumPy's arrays that exist and may change: not those that stand for Python's numbers."""
    for t in gc.get_objects():
        if isinstance(t, TensorBase):
            data = getattr(t, "_data", None)
            if type(data) is np.ndarray and not is_constant(t):
                yield t
