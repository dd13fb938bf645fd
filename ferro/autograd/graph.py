"""Looking at and into the tape: nodes, edges, saved-tensor hooks, hooks on several gradients at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any, NamedTuple

from ferro.autograd._mutation import Keeper
from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, bump
from ferro.core.graph_task import current_run
from ferro.core.history import history, position
from ferro.core.node import Handle, OutputRef
from ferro.core.shown import AccumulateGrad, Node, shown
from ferro.core.transforms import refuse_hooks

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]  # fmt: skip


class GradientEdge(NamedTuple):
    """The place on the tape where the gradient of a tensor is computed: a node and the number of its output."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The gradient edge of a tensor; RuntimeError if it requires no grad."""
    node = history(tensor)
    if node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    if node is LEAF:
        return GradientEdge(AccumulateGrad(tensor), 0)
    return GradientEdge(shown(node.node), node.index) if isinstance(node, OutputRef) else GradientEdge(shown(node), 0)


def increment_version(tensor: Any) -> None:
    """Tells autograd that the data of a tensor (or of several) were changed behind its back."""
    for t in [tensor] if isinstance(tensor, TensorBase) else tensor:
        bump(t, "increment_version")


class saved_tensors_hooks:
    """What the operations inside save for backward goes through ``pack`` and comes back through ``unpack``.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([2.0], requires_grad=True)
        >>> with ferro.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: ferro.tensor(v)):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor([4.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        refuse_hooks()
        message = _mode.current().barred
        if message is not None:
            raise RuntimeError(message)
        _mode.push(self, {"pack+": ((self.pack_hook, self.unpack_hook),)})

    def __exit__(self, *exc: object) -> None:
        _mode.pull(self)


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved inside on the CPU, moving it back for backward (with pin_memory: accepted, without effect)."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class allow_mutation_on_saved_tensors:
    """Inside, tensors that are saved for backward may be changed in place: a copy is kept of what they were.

    Nothing is copied unless it is changed.  Backward must run in the same context (AssertionError otherwise); contexts
    cannot be nested.  The context has a method ``clear()``, which lets go of all that was saved.

    Example::

        >>> import ferro
        >>> with ferro.autograd.graph.allow_mutation_on_saved_tensors():
        ...     a = ferro.ones(2, requires_grad=True)
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     b = b.sin_()
        ...     out.backward()
        >>> a.grad
        tensor([2., 2.])
    """

    def __enter__(self) -> Keeper:
        if any(isinstance(pack, Keeper) for pack, _ in _mode.current().pack):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._keeper = Keeper()
        self._hooks = saved_tensors_hooks(self._keeper, self._keeper.unpack)
        self._hooks.__enter__()
        return self._keeper

    def __exit__(self, *exc: object) -> None:
        self._hooks.__exit__(*exc)
        self._keeper.close()


class disable_saved_tensors_hooks(ContextDecorator):
    """Entering saved_tensors_hooks inside raises RuntimeError with `error_message`; also a decorator."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def _recreate_cm(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self.error_message)

    def __enter__(self) -> None:
        if _mode.current().pack:
            raise RuntimeError(self.error_message)
        _mode.push(self, {"barred": self.error_message})

    def __exit__(self, *exc: object) -> None:
        _mode.pull(self)


class _MultiHandle:
    """Removes the hooks of register_multi_grad_hook."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Takes the hooks away."""
        for h in self.handles:
            h.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable, *, mode: str = "all") -> _MultiHandle:
    """Calls ``fn`` once per backward: with the gradients of all ``tensors`` once all are known ("all"), or with the first ("any").

    "all" waits for the tensors that this backward reaches; the others have None in the list.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    if mode == "any":  # as in PyTorch, the tensors that require no grad are left out
        tensors = [t for t in tensors if history(t) is not None]
    if not all(isinstance(t, TensorBase) and history(t) is not None for t in tensors):
        raise RuntimeError("register_multi_grad_hook: all tensors must require grad")
    # the hooks hang on the nodes: what holds these, or the tensors, would be a cycle
    ends = [position(t) for t in tensors]
    nodes = [weakref.ref(p.node if isinstance(p, OutputRef) else p) for p in ends]
    key = object()
    del ends

    def hook_of(i: int) -> Callable:
        def hook(g: Any) -> None:
            run: Any = current_run()
            with run.lock:
                if run.scratch is None:
                    run.scratch = {}
                state = run.scratch.get(key)
                first = state is None
                if first:
                    reached = sum(node is not None and run.reaches(node) for node in [ref() for ref in nodes])
                    state = run.scratch[key] = [reached, [None] * len(nodes)]
                state[0] -= 1
                state[1][i] = g
                if first if mode == "any" else state[0] == 0:
                    fn(g if mode == "any" else state[1])

        return hook

    return _MultiHandle([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])
