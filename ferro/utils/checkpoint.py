"""Checkpointing: saves the inputs of a part of the model instead of what its operations save, and runs it again in backward."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ferro.autograd import Function
from ferro.autograd.backward import backward as run_backward
from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.captures import recomputing
from ferro.core.graph_task import current_run
from ferro.core.history import history
from ferro.tensor import Tensor
from ferro.utils._checkpoint_inputs import _Arguments, get_device_states, set_device_states
from ferro.utils._recomputation import (
    CheckpointError,
    GraphExecGroup,
    _Frame,
    _Log,
    _Pack,
    _switches,
    _take,
    noop_context_fn,
)
from ferro.utils._selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = ["CheckpointError", "CheckpointFunction", "CheckpointPolicy", "GraphExecGroup", "SelectiveCheckpointContext",
           "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
           "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
           "set_device_states"]  # fmt: skip


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
        with _mode.switched(grad=True, cast=ctx.arguments.cast), ctx.arguments.random(), recomputing():
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
