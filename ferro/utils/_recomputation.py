"""Running a part of a model again in backward, up to the last value that is missing, without re-entrance.

Note [Recomputation].  While the function runs forward, every saved tensor is replaced by a Holder that knows its number.
When backward asks for the first of them, the function runs once more on the kept inputs, and what its operations save is
noted by number in the `scratch` of that backward; there each Holder finds its tensor, takes it out, and what was not
taken goes when the backward ends.  Only the innermost checkpoint sees a saved tensor, and the inputs of a checkpoint are
saved by the one around it, so checkpoints nest: each level is recomputed when the level inside it asks for its inputs.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, Self

from ferro.autograd._location import location
from ferro.autograd._observer import Observer
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.base import version_of, wrap
from ferro.core.captures import recomputing
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.graph_task import current_run
from ferro.utils._checkpoint_inputs import _Arguments

__all__ = ["CheckpointError", "noop_context_fn"]


class CheckpointError(RuntimeError):
    """Recomputation did not save what the forward pass had saved."""


class _Stop(BaseException):
    """Ends a recomputation that has made all it is needed for.  (Not an Exception: the function must not catch it.)"""


class GraphExecGroup:
    """Several backwards inside share one recomputation of each checkpoint; they must not need the same saved tensor.

    Only for use_reentrant=False; groups do not nest.
    """

    def __enter__(self) -> Self:
        if _switches.group is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_switches.group}")
        self.scratch: dict | None = None
        _switches.group = self
        return self

    def __exit__(self, *exc: object) -> None:
        _switches.group = None
        self.scratch = None


class _Switches(threading.local):
    """What the contexts below have switched, each in a list of one, the last of which is in force."""

    def __init__(self) -> None:
        self.early_stop: list[list] = [[None]]
        self.debug: list[list] = [[None]]
        self.group: GraphExecGroup | None = None


_switches = _Switches()


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- without re-entrance -----------------------------------------------------------------------------------------------


class _Holder:
    """Stands for a saved tensor: its number in its frame, and the version at which it was saved."""

    __slots__ = ("__weakref__", "expected", "frame", "index", "version")

    def __init__(self, frame: _Frame, index: int, t: Any) -> None:
        self.frame, self.index = frame, index
        self.version = version_of(t)
        self.expected = self.version.n


class _Saving:
    """A pack hook that notes of which operation it is given tensors."""

    def __init__(self) -> None:
        self.op = "a custom Function"

    def saving(self, node: Any) -> None:
        """Called before the tensors of a node are given."""
        self.op = node.plan.op.name

    def note(self, t: Any) -> tuple:
        """What is compared, and shown where it differs: operation, shape, dtype."""
        return self.op, tuple(t._data.shape), FROM_NUMPY[t._data.dtype]


class _Pack(_Saving):
    """Forward: replaces what is saved by holders."""

    def __init__(self, frame: _Frame) -> None:
        super().__init__()
        self.frame = weakref.ref(frame)  # the holders keep the frame; a circle would keep what it holds

    def __call__(self, t: Any) -> _Holder:
        frame: Any = self.frame()
        holder = _Holder(frame, len(frame.holders), t)
        frame.holders.append(weakref.ref(holder))
        frame.notes.append(self.note(t))
        return holder


class _Sink(_Saving):
    """Recomputation: notes what is saved by number, and stops when all is there."""

    def __init__(self, frame: _Frame) -> None:
        super().__init__()
        self.frame = frame
        self.found: dict[int, Any] = {}
        self.notes: list = []

    def __call__(self, t: Any) -> Any:
        frame, index = self.frame, len(self.notes)
        plain = t if t._node is None else wrap(t._data)
        self.notes.append(self.note(t))
        if index >= len(frame.holders):
            if frame.complete and frame.check != "none":
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                    f"forward pass. {frame.difference(self.notes)}"
                )
            return plain  # backward within the function itself: only what was saved so far is asked for
        if frame.holders[index]() is not None:
            self.found[index] = plain
        if frame.early_stop and len(self.notes) == len(frame.holders):
            raise _Stop
        return plain


def _take(holder: _Holder) -> Any:
    """Unpack: the saved tensor from the recomputation that belongs to the backward now running."""
    frame = holder.frame
    v = holder.version
    if v.n != holder.expected:
        op, shape, _ = frame.notes[holder.index]
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
            f"{list(shape)} saved by '{op}' inside a checkpoint is at version {v.n}; expected version {holder.expected} "
            f"instead. The last change was made by '{v.culprit}'."
        )
    keeper: Any = _switches.group or current_run()
    if keeper is None:  # somebody looks at a saved value outside of a backward
        return frame.recomputed()[holder.index]
    if keeper.scratch is None:
        keeper.scratch = {}
    if frame not in keeper.scratch:
        keeper.scratch[frame] = frame.recomputed()
    found = keeper.scratch[frame]
    if holder.index not in found:
        extra = (
            "Two backwards under one GraphExecGroup must not need the same saved tensor. "
            if _switches.group is not None
            else "Call ctx.saved_tensors only once in a custom backward. "
        )
        raise CheckpointError(
            "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. " + extra
        )
    return found.pop(holder.index)


def _same(t: Any) -> Any:
    return t


class _Frame:
    """One call of a checkpointed function: how to run it again, and what it saved."""

    def __init__(
        self, function: Callable, arguments: _Arguments, early_stop: bool, check: str, context: Any, log: _Log | None
    ) -> None:
        self.function, self.arguments = function, arguments
        self.early_stop, self.check, self.context, self.log = early_stop, check, context, log
        self.holders: list = []  # weak references: a graph that is freed needs nothing recomputed
        self.notes: list = []
        self.complete = False

    def recomputed(self) -> dict[int, Any]:
        """Runs the function again; returns the tensors it saves, by number."""
        args, kwargs = self.arguments.restored()
        sink = _Sink(self)
        mode = _mode.switched(grad=True, inference=False, cast=self.arguments.cast, pack=((sink, _same),))
        with mode, self.arguments.random(), self.context, recomputing(), contextlib.suppress(_Stop):
            self.function(*args, **kwargs)
        if self.complete and self.check != "none":
            self._compare(sink.notes)
        return sink.found

    def _compare(self, notes: list) -> None:
        if len(notes) != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\nNumber of tensors saved "
                f"during recomputation: {len(notes)}.\n{self.difference(notes)}"
            )
        wrong = [
            i
            for i, (a, b) in enumerate(zip(self.notes, notes, strict=True))
            if a[1:] != b[1:] and self.holders[i]() is not None
        ]
        if wrong:
            lines = [
                f"tensor at position {i}:\nsaved metadata: {_described(self.notes[i])}\nrecomputed metadata: {_described(notes[i])}"
                for i in wrong
            ]
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
                "the forward pass.\n" + "\n".join(lines) + f"\n{self._advice()}"
            )

    def difference(self, notes: list) -> str:
        """A sentence that says where recomputation left the path of the forward pass."""
        pairs = zip(self.notes, notes, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(self.notes), len(notes)))
        before = _described(self.notes[at]) if at < len(self.notes) else "nothing more"
        now = _described(notes[at]) if at < len(notes) else "nothing more"
        return f"The first difference is at position {at}: forward saved {before}, recomputation saved {now}. {self._advice()}"

    def _advice(self) -> str:
        if self.log is not None:
            return (
                "You are seeing this error because you passed `debug=True` to checkpoint or because "
                f"`set_checkpoint_debug_enabled(True)` is used.\nOperations of the forward pass:\n{self.log.text(0)}\n"
                f"Operations of the recomputation:\n{self.log.text(1)}"
            )
        return (
            "The function must do the same when it runs again: look for state that changed in between (counters, caches, training mode, "
            "random numbers of another library), or pass debug=True for a log of both runs."
        )


def _described(note: tuple) -> str:
    op, shape, dtype = note
    return f"{{shape: {list(shape)}, dtype: {dtype}}} of '{op}'"


class _Log:
    """debug=True: the operations of the forward pass and of the recomputation, with their lines."""

    def __init__(self) -> None:
        self.runs = [_Recorder(), _Recorder()]

    def text(self, which: int) -> str:
        """One line per operation."""
        return "\n".join(f"  {line}" for line in self.runs[which].lines)


class _Recorder(Observer):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self.lines.clear()
        return super().__enter__()

    def forward(self, op: Any, xs: tuple, params: tuple, mode: Any) -> Any:
        """Notes one operation."""
        shapes = ", ".join("None" if x is None else str(list(x._data.shape)) for x in xs)
        self.lines.append(f"{op.name}({shapes}) at {location(modules=False)}")
        return watched(op, xs, params, mode)
