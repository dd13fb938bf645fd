"""Checkpointing: saves the inputs of a part of the model instead of what its operations save, and runs it again in backward.

Note [Recomputation].  While the function runs forward, every saved tensor is replaced by a Holder that knows its number.
When backward asks for the first of them, the function runs once more on the kept inputs, and what its operations save is
noted by number in the `scratch` of that backward; there each Holder finds its tensor, takes it out, and what was not
taken goes when the backward ends.  Only the innermost checkpoint sees a saved tensor, and the inputs of a checkpoint are
saved by the one around it, so checkpoints nest: each level is recomputed when the level inside it asks for its inputs.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from ferro.autograd import Function
from ferro.autograd._location import location
from ferro.autograd._observer import Observer
from ferro.autograd.backward import backward as run_backward
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.base import LEAF, Packed, TensorBase, history, meta_of, version_of, wrap
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.graph_task import current_run
from ferro.core.random import Generator, default
from ferro.core.tangents import tangents_of
from ferro.tensor import Tensor
from ferro.utils._selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = ["CheckpointError", "CheckpointFunction", "CheckpointPolicy", "GraphExecGroup", "SelectiveCheckpointContext",
           "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
           "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
           "set_device_states"]  # fmt: skip


class CheckpointError(RuntimeError):
    """Recomputation did not save what the forward pass had saved."""


class _Stop(BaseException):
    """Ends a recomputation that has made all it is needed for.  (Not an Exception: the function must not catch it.)"""


class _Switches(threading.local):
    """What the contexts below have switched, each in a list of one, the last of which is in force."""

    def __init__(self) -> None:
        self.early_stop: list[list] = [[None]]
        self.debug: list[list] = [[None]]
        self.group: GraphExecGroup | None = None


_switches = _Switches()


@contextlib.contextmanager
def _switched(switch: list[list], value: bool | None) -> Iterator[None]:
    """A value in force inside; contexts that end in another order (in generators) take their own away."""
    mine = [value]
    switch.append(mine)
    try:
        yield
    finally:
        switch[:] = [entry for entry in switch if entry is not mine]


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether the checkpoints made inside stop recomputing as soon as every saved tensor is there again."""
    with _switched(_switches.early_stop, enable):
        yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrides the `debug` argument of the checkpoints made inside (None: leaves it to the argument)."""
    with _switched(_switches.debug, enabled):
        yield


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


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- inputs and random numbers -----------------------------------------------------------------------------------------


class _Input:
    """A tensor among the arguments: saved as any tensor is, by the checkpoint or saved-tensor hooks around this one.

    One without history comes back as the very tensor that it is; of others the history is not kept.
    """

    def __init__(self, t: Any) -> None:
        self.needs = history(t) is not None
        self.tangents = tangents_of(t)
        self.kind, self.attributes = type(t), None if type(t) is Tensor else t.__dict__
        pack = _mode.current().pack
        self.packed = None
        if pack:
            with _mode.switched(grad=False, pack=()):
                self.packed = Packed(pack[-1][0](t), pack[-1][1], None)
            return
        self.version = version_of(t)
        self.expected = self.version.n
        self.kept = self._cut(t) if self.needs or self.tangents else t

    def tensor(self) -> Any:
        """The tensor again, cut off from its history (the tangents of forward mode stay)."""
        t = self._unchanged() if self.packed is None else self.packed.tensor()
        if not self.needs and not self.tangents:
            return t
        t = self._cut(t)
        t._node = LEAF if self.needs else None
        if self.tangents:
            meta_of(t).tangents = self.tangents
        return t

    def _cut(self, t: Any) -> Any:
        """The same numbers and class without history."""
        cut = wrap(t._data, None, self.kind)
        if self.packed is None:
            cut._counter = self.version
        if self.attributes:
            cut.__dict__.update(self.attributes)
        return cut

    def _unchanged(self) -> Any:
        v = self.version
        if v.n != self.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an input of "
                f"shape {list(self.kept._data.shape)} of a checkpointed function is at version {v.n}; expected version "
                f"{self.expected} instead. The last change was made by '{v.culprit}'. Recomputation would start from other "
                "values: use the out-of-place form, or give the checkpoint a clone()."
            )
        return self.kept


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples and dicts with `change` applied to what they hold; unchanged nests are the same object."""
    if isinstance(value, (list, tuple)):
        items = [_mapped(v, change) for v in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        found = {k: _mapped(v, change) for k, v in value.items()}
        if all(found[k] is v for k, v in value.items()):
            return value
        return found if type(value) is dict else type(value)(found)
    return change(value)


class _Arguments:
    """The arguments of a checkpointed function, the precision of autocast, and the states of the generators it may draw from."""

    def __init__(self, args: tuple, kwargs: dict, preserve: bool, tensors: bool = True) -> None:
        self.cast = _mode.current().cast
        self.states: list = [(default(), default().get_state())] if preserve else []

        def keep(value: Any) -> Any:
            if tensors and isinstance(value, TensorBase):
                return _Input(value)
            if preserve and isinstance(value, Generator):
                self.states.append((value, value.get_state()))
            return value

        self.kept = _mapped((args, kwargs), keep)

    def restored(self) -> tuple[tuple, dict]:
        """The arguments for a recomputation."""
        return _mapped(self.kept, lambda v: v.tensor() if isinstance(v, _Input) else v)

    @contextlib.contextmanager
    def random(self) -> Iterator[None]:
        """Inside, the generators are in the states that they had; afterwards in those of now."""
        now = [(g, g.get_state()) for g, _ in self.states]
        try:
            for g, state in self.states:
                g.set_state(state)
            yield
        finally:
            for g, state in now:
                g.set_state(state)


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
        with mode, self.arguments.random(), self.context, contextlib.suppress(_Stop):
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


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, which saves only its inputs for backward and runs again when backward comes to it.

    use_reentrant: False is recommended; True keeps the older way, a nested backward inside a custom Function, which knows
    no keyword arguments, no ``autograd.grad`` and no nests of tensors.  preserve_rng_state (a keyword, True): recompute
    with the same random numbers, from ferro's default generator and from every Generator among the arguments.
    context_fn: gives a context for forward and one for recomputation (see `create_selective_checkpoint_contexts`).
    determinism_check: "default" compares the shapes and dtypes of what is saved, "none" compares nothing.  debug: errors
    show a log of the operations of both runs.  early_stop: recompute no further than needed.

    Example::

        >>> import ferro
        >>> from ferro.utils.checkpoint import checkpoint
        >>> x = ferro.tensor([0.5], requires_grad=True)
        >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).backward()
        >>> x.grad
        tensor([-0.1283])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, "
            "but if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    log = None
    if debug if _switches.debug[-1][0] is None else _switches.debug[-1][0]:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        log = _Log()
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    contexts = context_fn() if log is None else log.runs
    if not _mode.is_grad_enabled() or _mode.is_inference_mode_enabled():
        return function(*args, **kwargs)
    stop = early_stop if _switches.early_stop[-1][0] is None else _switches.early_stop[-1][0]
    frame = _Frame(function, _Arguments(args, kwargs, preserve), stop, determinism_check, contexts[1], log)
    with _mode.switched(**{"pack+": ((_Pack(frame), _take),)}), contexts[0]:
        result = function(*args, **kwargs)
        frame.complete = True
    if not frame.complete:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the "
            "checkpointed forward. This is not supported because checkpoint cannot return a value for a failed forward."
        )
    return result


# -- with re-entrance --------------------------------------------------------------------------------------------------


def detach_variable(inputs: Any) -> tuple:
    """The tensors of a tuple cut off from their history; other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([x.detach()._as_leaf(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no tensor among the inputs requires grad: then nothing behind the checkpoint gets a gradient."""
    if not any(isinstance(x, TensorBase) and history(x) is not None for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


class CheckpointFunction(Function):
    """The re-entrant variant: forward without recording, backward through a second, recorded forward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        # the tensors themselves go through save_for_backward; only the generators are kept here
        ctx.arguments = _Arguments(
            tuple([None if isinstance(a, TensorBase) else a for a in args]), {}, preserve_rng_state, tensors=False
        )
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        run = current_run()
        if run is not None and run.capture is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter "
                "to .backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without "
                "passing the `inputs` argument."
            )
        inputs = list(ctx.arguments.restored()[0])
        for place, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = t
        detached = detach_variable(tuple(inputs))
        with _mode.switched(grad=True, cast=ctx.arguments.cast), ctx.arguments.random():
            outputs = ctx.run_function(*detached)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, TensorBase) and history(o) is not None
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        run_backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *[d.grad if isinstance(d, Tensor) else None for d in detached]


class _Segment:
    """Some of the functions of a sequence, one after the other."""

    def __init__(self, functions: list) -> None:
        self.functions = functions

    def __call__(self, x: Any) -> Any:
        for function in self.functions:
            x = function(x)
        return x


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Applies a Sequential or a list of functions to `input` in `segments` parts; all but the last are checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, you can pass "
            "use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(parts) // segments
    done = 0
    for start in range(0, size * (segments - 1), size or 1):
        done = start + size
        input = checkpoint(_Segment(parts[start:done]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _Segment(parts[done:])(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs on which the arguments have tensors, and the states of their generators: none.  The CPU's is `get_rng_state()`.

    >>> import ferro
    >>> ferro.utils.checkpoint.get_device_states(ferro.ones(2))
    ([], [])
    """
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets the generators of GPUs, of which there are none.  Raises: RuntimeError where there is a state for one."""
    if len(devices) or len(states):
        raise RuntimeError(
            f"set_device_states: there are no GPUs, and no generators for the devices {list(devices)}; `set_rng_state` "
            "sets the CPU's"
        )
