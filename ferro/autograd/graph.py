"""Looking at and into the tape: nodes, edges, saved-tensor hooks, hooks on several gradients at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ferro.core import mode as _mode
from ferro.core.base import LEAF, TensorBase, bump, history
from ferro.core.node import AccumulateGrad, Handle, Node, Pick

__all__ = ["GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version", "register_multi_grad_hook",
           "save_on_cpu", "saved_tensors_hooks"]  # fmt: skip


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
    return GradientEdge(node.node, node.index) if isinstance(node, Pick) else GradientEdge(node, 0)


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
        if _disabled.message is not None:
            raise RuntimeError(_disabled.message)
        self._previous = _mode.MODE.get()
        _mode.enter(_mode.changed(pack=(*_mode.current().pack, (self.pack_hook, self.unpack_hook))))

    def __exit__(self, *exc: object) -> None:
        _mode.leave(self._previous)


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved inside on the CPU, moving it back for backward (with pin_memory: accepted, without effect)."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class _Disabled(threading.local):
    message: str | None = None


_disabled = _Disabled()


class disable_saved_tensors_hooks:
    """Entering saved_tensors_hooks inside raises RuntimeError with `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if _mode.current().pack:
            raise RuntimeError(self.error_message)
        self._previous, _disabled.message = _disabled.message, self.error_message

    def __exit__(self, *exc: object) -> None:
        _disabled.message = self._previous


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

    "all" waits for the tensors that this backward reaches as soon as every tensor has had its gradient; a tensor that a
    backward does not reach keeps the hook from running in it.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    grads: list = [None] * len(tensors)
    seen: set[int] = set()

    def hook_of(i: int) -> Callable:
        def hook(g: Any) -> None:
            with lock:
                if mode == "any":
                    first = not seen
                    seen.add(i)
                    done = len(seen) == len(tensors)
                else:
                    seen.add(i)
                    grads[i] = g
                    first, done = False, len(seen) == len(tensors)
                found = list(grads)
                if done:
                    seen.clear()
                    grads[:] = [None] * len(tensors)
            if first:
                fn(g)
            if mode == "all" and done:
                fn(found)

        return hook

    return _MultiHandle([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])
