"""The only ambient value: what the current context records (grad mode, inference mode, forward-mode level, observers)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Mode:
    """An immutable set of switches.  The default (record, nothing special) is spelled None for speed.

    grad: operations record; inference: results are inference tensors; level: the innermost forward-mode level
    (0 outside); pack: saved-tensor hooks, innermost last; anomaly: check gradients and keep forward tracebacks;
    observers: shown every operation (`forward`) and every node that runs backward (`backward`): profiler, NaN guard;
    lost: what marks results that have no history because recording is off (base.Lost).  Derived: `special`, more than
    recording on or off is switched; `silent`, nothing but recording is switched, off.
    """

    __slots__ = ("anomaly", "grad", "inference", "level", "lost", "observers", "pack", "silent", "special")

    def __init__(self, grad: bool = True, inference: bool = False, level: int = 0, pack: tuple = (),
                 anomaly: Any = None, observers: tuple = (), lost: Any = None) -> None:  # fmt: skip
        self.grad = grad
        self.inference = inference
        self.level = level
        self.pack = pack
        self.anomaly = anomaly
        self.observers = observers
        self.lost = lost
        self.special = bool(inference or level or pack or anomaly or observers)
        self.silent = not (grad or self.special)


def silent(lost: Any = None) -> Mode:
    """Mode(grad=False, lost=lost), faster."""
    mode = object.__new__(Mode)
    mode.grad = mode.inference = mode.special = False
    mode.level, mode.pack, mode.observers = 0, (), ()
    mode.anomaly = None
    mode.lost = lost
    mode.silent = True
    return mode


PLAIN = Mode()
SILENT = silent()
MODE: ContextVar[Mode | None] = ContextVar("ferro_mode", default=None)
ANOMALY: list[Any] = [None]  # the anomaly mode of backward in all threads; that of a Mode keeps forward tracebacks
MULTITHREADING: ContextVar[bool] = ContextVar("ferro_multithreading", default=True)  # whether backward may use threads
# One entry for every mode switched on anywhere: while it is empty, the hot path need not ask the context variable.
ACTIVE: list[None] = []


def current() -> Mode:
    """The mode in force."""
    return MODE.get() or PLAIN


def changed(**changes: Any) -> Mode | None:
    """The current mode with some switches changed, in its canonical spelling."""
    mode = MODE.get() or PLAIN
    given = changes.get
    new = Mode(given("grad", mode.grad), given("inference", mode.inference), given("level", mode.level), given("pack", mode.pack),
               given("anomaly", mode.anomaly), given("observers", mode.observers), given("lost", mode.lost))  # fmt: skip
    return None if new.grad and not new.special else new


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


STANDING: ContextVar[bool] = ContextVar("ferro_standing", default=False)


def settle(mode: Mode | None) -> None:
    """Puts a mode in force until another is: while it is not the default, ACTIVE has an entry for it."""
    MODE.set(mode)
    if (mode is not None) != STANDING.get():
        STANDING.set(mode is not None)
        if mode is None:
            ACTIVE.pop()
        else:
            ACTIVE.append(None)


def leave(previous: Mode | None) -> None:
    """Puts the mode before `enter` in force again."""
    MODE.set(previous)
    ACTIVE.pop()
