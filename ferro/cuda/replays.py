"""Functions that `compile` replays as CUDA graphs: each signature is run twice as it is written, then recorded, then one launch each way.

Note [Recorded functions]
    A recording has the shapes, dtypes and numbers of its arguments, the modes and the state of training; for others there is another
    one. What the program decides by anything else, and what it does beside computing on the device, is that of the recording: as in
    PyTorch's `mode="reduce-overhead"`. Results and gradients lie in the memory of the graph, which the next call overwrites. Tensors
    outside that the results depend on are found in the history of the second call; where one has another array later, the function
    is recorded anew. What cannot be recorded runs as it is written, and a warning says so once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.core import trees
from ferro.core.base import TensorBase
from ferro.core.mode import current, is_grad_enabled
from ferro.core.notices import warn_once
from ferro.cuda.cuda_graphs import _graphed, graph_pool_handle
from ferro.cuda.streams import Stream, StreamContext, current_stream

__all__ = ["MOST", "Replays"]

MOST = 8  # recordings of a function
_RUNS = 2  # calls as written before a recording


def leaves_of(results: Any) -> list[Any]:
    """The leaves that tensors depend on, in the order in which their history is gone through."""
    found: dict[int, Any] = {}
    seen, left = set(), [t.grad_fn for t in results if t.grad_fn is not None]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, TensorBase):
            found[id(variable)] = variable
        left += [each for each, _ in node.next_functions if each is not None]
    return list(found.values())


class _Flat:
    """A function of the tensors among the arguments, which gives the tensors among the results."""

    def __init__(self, fn: Callable, leaves: list, structure: Any, outside: list) -> None:
        self._fn, self._leaves, self._structure, self._outside = fn, leaves, structure, outside
        self.results: Any = None

    def parameters(self) -> list:
        """The tensors outside."""
        return self._outside

    def __call__(self, *tensors: Any) -> tuple:
        given, versions = iter(tensors), [t._version for t in tensors]
        args, kwargs = trees.unflatten(
            self._structure, [next(given) if isinstance(v, TensorBase) else v for v in self._leaves]
        )
        self.results = trees.flatten(self._fn(*args, **kwargs))
        if versions != [t._version for t in tensors]:
            raise RuntimeError("it changes its arguments")
        return tuple([t for t in self.results[0] if isinstance(t, TensorBase)])


class _Entry:
    """One signature: how often it ran, and its recording."""

    def __init__(self) -> None:
        self.runs, self.outside = 0, list[Any]()
        self.arrays: list[Any] = []
        self.replayed: Any = None
        self.flat: Any = None

    def holds(self) -> bool:
        """Whether what lies outside has the arrays of the recording."""
        return all(t._data is a for t, a in zip(self.outside, self.arrays, strict=True))

    def run(self, tensors: list) -> Any:
        """The results by a replay."""
        made = iter(self.replayed(*tensors))
        leaves, structure = self.flat.results
        return trees.unflatten(structure, [next(made) if isinstance(v, TensorBase) else v for v in leaves])


class Replays:
    """A function and its recordings."""

    def __init__(self, fn: Callable, name: str, most: int = MOST) -> None:
        self.fn, self.name, self.most = fn, name, most
        self.entries: dict[Any, _Entry] = {}
        self.replays = self.recordings = 0
        self.given_up = ""
        self._side: Any = None

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        if self.given_up:
            return self.fn(*args, **kwargs)
        leaves, structure = trees.flatten((args, kwargs))
        try:
            entry = self.entries.setdefault((structure, *map(_kind, leaves), *self._state()), _Entry())
        except TypeError:  # (an argument that has no hash)
            return self._give_up("an argument that is no tensor cannot be told from another one", args, kwargs)
        tensors = [v for v in leaves if isinstance(v, TensorBase)]
        if entry.replayed is not None and entry.holds():
            self.replays += 1
            return entry.run(tensors)
        if entry.runs < _RUNS:
            return self._as_written(entry, args, kwargs)
        if self.recordings >= self.most:
            return self._give_up(f"it was recorded {self.most} times", args, kwargs)
        try:
            return self._recorded(entry, leaves, structure, tensors)
        except Exception as error:  # noqa: BLE001 (whatever a recording meets: eager says what is wrong, if it is)
            return self._give_up(f"it cannot be recorded ({type(error).__name__}: {error})", args, kwargs)

    def _state(self) -> tuple:
        modules = self.fn.modules() if hasattr(self.fn, "modules") else ()
        return is_grad_enabled(), current().cast, *[m.training for m in modules]

    def _as_written(self, entry: _Entry, args: tuple, kwargs: dict) -> Any:
        """A call as it is written; the last one before the recording in another stream, as recordings are."""
        entry.runs += 1
        if entry.runs < _RUNS:
            return self.fn(*args, **kwargs)
        self._side = self._side or Stream()
        self._side.wait_stream(current_stream())
        with StreamContext(self._side):
            found = self.fn(*args, **kwargs)
        current_stream().wait_stream(self._side)
        results = [t for t in trees.flatten(found)[0] if isinstance(t, TensorBase)]
        for each in results:
            t: Any = each
            t.record_stream(current_stream())
        given = {id(v) for v in trees.flatten((args, kwargs))[0]}
        entry.outside = [t for t in leaves_of(results) if id(t) not in given]
        return found

    def _recorded(self, entry: _Entry, leaves: list, structure: Any, tensors: list) -> Any:
        entry.flat = _Flat(self.fn, leaves, structure, entry.outside)
        entry.replayed = _graphed(entry.flat, tuple(tensors), True, graph_pool_handle())
        entry.arrays = [t._data for t in entry.outside]
        self.recordings += 1
        return entry.run(tensors)

    def _give_up(self, why: str, args: tuple, kwargs: dict) -> Any:
        self.given_up = why
        self.entries.clear()
        warn_once(f"compile: {self.name} runs as it is written, and not as a CUDA graph: {why}", stacklevel=4)
        return self.fn(*args, **kwargs)


def _kind(value: Any) -> Any:
    """What an argument is known by."""
    if not isinstance(value, TensorBase):
        return type(value), value
    tensor: Any = value
    return tensor._data.shape, tensor.dtype, tensor.device, tensor.requires_grad
