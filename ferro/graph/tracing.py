"""Tracing: a function runs once, for real, and what it computes is noted.

Note [Closed by construction].  Before the function runs, every tensor that is alive gets a traced array around its own
(array.py), which it loses afterwards. So whatever the function reaches, by arguments, closures, globals or modules, and
by whatever way it computes, is noted, or raises: there is no list of functions that graphs know. What it makes itself
(zeros, a number beside a tensor) is a constant.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.captures import CAPTURES
from ferro.core.operands import is_constant
from ferro.graph.array import Traced
from ferro.graph.errors import CaptureError
from ferro.graph.ir import BOUND, INPUT, Value
from ferro.graph.modules import named
from ferro.graph.places import places
from ferro.graph.recorder import Recorder
from ferro.graph.watch import Watch
from ferro.native import locks
from ferro.utils import _pytree

_TURN = locks.new()  # one capture at a time: it changes tensors that all threads see


def trace(fn: Callable, args: tuple, kwargs: dict, seen: list | None = None) -> tuple:
    """What a Graph is made of, for ``fn(*args, **kwargs)``; `seen` gets, for each node, the arrays that it made."""
    leaves, _ = _pytree.tree_flatten((args, kwargs))
    given = [t for t in leaves if isinstance(t, TensorBase)]
    recorder = Recorder(named(fn, args, kwargs))
    recorder.seen = seen
    recorder.places, names = places(fn, args, kwargs)
    for found, name in names.items():
        recorder.names.setdefault(found, name)
    with _TURN, _Capture(given, recorder) as running:
        return running.parts(fn(*args, **kwargs))


class _Capture:
    """Context manager: within, all tensors that were alive are traced, and what else happens is told to the recorder."""

    def __init__(self, given: list, recorder: Recorder) -> None:
        self.given, self.recorder = given, recorder
        self.inputs: list[Value] = []

    def __enter__(self) -> _Capture:
        recorder = self.recorder
        alive = {id(t): t for t in _LIVING.tensors()}
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
        moved = None
        recorder = self.recorder
        for t, array in recorder.swapped:
            if t._data is array:
                t._data = array.near
            elif type(t._data) is Traced:
                if t._data.near is not array.near and id(t) not in recorder.moved:
                    moved = t
                t._data = t._data.near
            grad = None if t._meta is None else t._meta.grad
            if grad is not None and type(grad._data) is Traced:
                grad._data = grad._data.near
        CAPTURES.remove(recorder)
        _mode.pull(self)
        recorder.closed = True
        if moved is not None and exc[0] is None:
            raise CaptureError(
                f"capture: the function gives a tensor of shape {list(moved._data.shape)} that was there before another shape (x.t_(), "
                "x.set_(y)), which a graph cannot hold yet; use x.t(), or write into it with copy_() instead"
            )

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
        )

    def _history(self, t: Any) -> str:
        """ "grad" or "foreign" for a result with a history, else ""."""
        found = self.recorder.watch.history_of(t)
        return "foreign" if found == "leaf" else found

    def _output(self, t: Any) -> Value:
        if not isinstance(t, TensorBase):
            raise CaptureError(f"capture: the function returned a {type(t).__name__}; a graph gives tensors")
        data = t._data
        return self.recorder.converted(data if type(data) in (Traced, np.ndarray) else np.asarray(data))


class _Living:
    """What gc lists, and what gc.freeze() hides from that list.

    To look at what is hidden it is unfrozen and frozen again, with all else that there is. What becomes garbage after that is
    never collected, so it is done once for each freeze() of the program: then the mark, made behind the last one, is hidden too.
    """

    def __init__(self) -> None:
        self.mark: Any = None
        self.hidden: list[weakref.ref] = []

    def tensors(self) -> list[Any]:
        """All tensors of NumPy's arrays that exist and may change: not those that stand for Python's numbers."""
        kinds = _classes(TensorBase)  # (isinstance would ask each object, which may be a stand-in that warns)
        found = [t for t in gc.get_objects() if type(t) in kinds or t is self.mark]
        if self.mark is None or not any(t is self.mark for t in found):
            if gc.get_freeze_count():
                gc.unfreeze()
                found = [t for t in gc.get_objects() if type(t) in kinds]
                gc.freeze()
                self.hidden = list(map(weakref.ref, found))
            self.mark = _Mark()
        found += [t for ref in self.hidden if (t := ref()) is not None]
        return [t for t in found if type(getattr(t, "_data", None)) is np.ndarray and not is_constant(t)]


class _Mark:
    """An object that gc lists."""


_LIVING = _Living()


def _classes(base: type) -> set[type]:
    """A class and all that come from it."""
    return {base}.union(*[_classes(c) for c in base.__subclasses__()])
