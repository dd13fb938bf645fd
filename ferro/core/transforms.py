"""Which transforms of functions (vmap, grad, vjp, jvp, ...) are running in this context, and what they do not allow inside."""

from __future__ import annotations

from contextvars import ContextVar
from types import CellType
from typing import Any

from ferro.core import mode as _mode

HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case. (ferro: "
    "what a transform saves it may differentiate again, and a hook would hand back other tensors.)"
)


class inside:
    """Context manager: a transform's function runs inside.

    name: that of the transform; hooks: whether saved-tensor hooks may be in force; function: what runs.
    """

    __slots__ = ("before", "function", "hooks", "name")

    def __init__(self, name: str, hooks: bool = True, function: Any = None) -> None:
        self.name, self.hooks, self.function = name, hooks, function

    def __enter__(self) -> None:
        if not self.hooks and _mode.current().pack:
            raise RuntimeError(HOOKS)
        self.before = INSIDE.get()
        INSIDE.set((*self.before, self))

    def __exit__(self, *exc: object) -> None:
        INSIDE.set(self.before)

    def captures(self, t: Any) -> bool:
        """Whether the function reaches a tensor by a variable around it."""
        function = self.function
        code = getattr(function, "__code__", None)
        if code is None:
            return False
        cells = [c.cell_contents for c in function.__closure__ or () if c != _EMPTY]
        return any(v is t for v in (*cells, *[function.__globals__.get(n) for n in code.co_names]))


_EMPTY = CellType()

# Those that are running, outermost first.
INSIDE: ContextVar[tuple[inside, ...]] = ContextVar("ferro_transforms", default=())


def refuse_hooks() -> None:
    """RuntimeError where saved-tensor hooks are not allowed."""
    if any(not transform.hooks for transform in INSIDE.get()):
        raise RuntimeError(HOOKS)


def refuse_inside(what: str, instead: str) -> None:
    """RuntimeError if a transform is running: `what` was called in its function."""
    running = INSIDE.get()
    if running:
        raise RuntimeError(
            f"You are attempting to call {what} inside of a function being transformed by a functorch transform. This is "
            "unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call "
            f"{instead} outside of a function being transformed instead. (The innermost transform is "
            f"{running[-1].name}.)"
        )


def refuse_captured(t: Any, name: str) -> None:
    """RuntimeError if a transform's function reaches the tensor `t`, without history, from around it: it must not be written into."""
    for transform in INSIDE.get():
        if transform.captures(t):
            raise RuntimeError(
                f"During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({name}) "
                "that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
                "explicitly accept the mutated Tensor(s) as inputs."
            )
