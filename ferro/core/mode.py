"""The only ambient value: what the current context records (grad mode, inference mode, forward-mode level, observers)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Mode:
    """An immutable set of switches.  The default (record, nothing special) is spelled None for speed.

    grad: operations record; inference: results are inference tensors; level: the innermost forward-mode level
    (0 outside); pack: saved-tensor hooks, innermost last; anomaly: check gradients and keep forward tracebacks;
    observers: shown every operation (`forward`) and every node that runs backward (`backward`): profiler, NaN guard.
    """

    __slots__ = ("anomaly", "grad", "inference", "level", "observers", "pack", "special")

    def __init__(self, grad: bool = True, inference: bool = False, level: int = 0, pack: tuple = (),
                 anomaly: Any = None, observers: tuple = ()) -> None:  # fmt: skip
        self.grad = grad
        self.inference = inference
        self.level = level
        self.pack = pack
        self.anomaly = anomaly
        self.observers = observers
        self.special = bool(inference or level or pack or anomaly or observers)


PLAIN = Mode()
NO_GRAD = Mode(grad=False)
MODE: ContextVar[Mode | None] = ContextVar("ferro_mode", default=None)
# One entry for every mode switched on anywhere: while it is empty, the hot path need not ask the context variable.
ACTIVE: list[None] = []


def current() -> Mode:
    """The mode in force."""
    return MODE.get() or PLAIN


def changed(**changes: Any) -> Mode | None:
    """The current mode with some switches changed, in its canonical spelling."""
    mode = current()
    new = Mode(**{name: changes.get(name, getattr(mode, name)) for name in Mode.__slots__ if name != "special"})
    if not new.special:
        return None if new.grad else NO_GRAD
    return new


def is_grad_enabled() -> bool:
    """Whether operations are being recorded."""
    mode = MODE.get()
    return mode is None or mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    mode = MODE.get()
    return mode is not None and mode.inference


class switched:
    """Context manager: the current mode with `changes` inside, restored whatever happens."""

    __slots__ = ("changes", "previous")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> switched:
        self.previous = MODE.get()
        enter(changed(**self.changes))
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self.previous)


def enter(mode: Mode | None) -> None:
    """Puts a mode in force; `leave` must follow."""
    ACTIVE.append(None)
    MODE.set(mode)


def leave(previous: Mode | None) -> None:
    """Puts the mode before `enter` in force again."""
    MODE.set(previous)
    ACTIVE.pop()
