"""Which transforms of functions (vmap, grad, vjp, jvp, ...) are running in this context, and what they do not allow inside."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ferro.core import mode as _mode

# Their names, outermost first.
INSIDE: ContextVar[tuple[str, ...]] = ContextVar("ferro_transforms", default=())

HOOKS = ("torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case. (ferro: "
         "what a transform saves it may differentiate again, and a hook would hand back other tensors.)")  # fmt: skip


class inside:
    """Context manager: a transform's function runs inside.  `hooks`: whether saved-tensor hooks may be in force."""

    __slots__ = ("before", "hooks", "name")

    def __init__(self, name: str, hooks: bool = True) -> None:
        self.name, self.hooks = name, hooks

    def __enter__(self) -> None:
        if not self.hooks and _mode.current().pack:
            raise RuntimeError(HOOKS)
        self.before = INSIDE.get()
        INSIDE.set((*self.before, self.name if self.hooks else f"{self.name} without hooks"))

    def __exit__(self, *exc: object) -> None:
        INSIDE.set(self.before)


def refuse_hooks() -> None:
    """RuntimeError where saved-tensor hooks are not allowed."""
    if any(name.endswith("without hooks") for name in INSIDE.get()):
        raise RuntimeError(HOOKS)


def refuse_inside(what: str, instead: str) -> None:
    """RuntimeError if a transform is running: `what` was called in its function."""
    running: Any = INSIDE.get()
    if running:
        raise RuntimeError(f"You are attempting to call {what} inside of a function being transformed by a functorch transform. This is "
                           "unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call "
                           f"{instead} outside of a function being transformed instead. (The innermost transform is "
                           f"{running[-1].split()[0]}.)")  # fmt: skip
