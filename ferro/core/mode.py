"""What the current context records: grad mode, inference mode, forward-mode level, observers, autocast.

Note [Ambient values].  What an operation does depends on its arguments, on this, and on little else. Of a context (a
context variable) are also: the default device (device.py), strict mode (strict.py), the levels of vmap and of the transforms
(batched/levels.py, transforms.py), and modes of torch functions (overrides.py). Of the process are: the default dtype
(dtypes.py), the generator of random numbers (random.py), the number of threads (native/threads.py), whether kernels run
(native/readiness.py), determinism (determinism.py), ANOMALY below, and the registered backends (backend.py).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any
from weakref import ref


class Mode:
    """An immutable set of switches.  The default (record, nothing special) is spelled None for speed.

    grad: operations record; inference: results are inference tensors; level: the innermost forward-mode level
    (0 outside); pack: saved-tensor hooks, innermost last; anomaly: check gradients and keep forward tracebacks;
    observers: shown every operation (`forward`) and every node that runs backward (`backward`): profiler, NaN guard;
    barred: why saved-tensor hooks may not be entered, if they may not; threads: whether backward may use several;
    cast: the low precisions that autocast asks for, pairs of a type of device and a NumPy dtype;
    detached: what marks results that have no history because recording is off (base.DetachedMark).  Derived: `special`, more than
    recording on or off is switched; `silent`, nothing but recording is switched, off.
    """

    __slots__ = (
        "anomaly",
        "barred",
        "cast",
        "detached",
        "grad",
        "inference",
        "level",
        "observers",
        "pack",
        "silent",
        "special",
        "threads",
    )

    def __init__(
        self,
        grad: bool = True,
        inference: bool = False,
        level: int = 0,
        pack: tuple = (),
        anomaly: Any = None,
        observers: tuple = (),
        detached: Any = None,
        barred: str | None = None,
        threads: bool = True,
        cast: Any = None,
    ) -> None:
        self.grad = grad
        self.inference = inference
        self.level = level
        self.pack = pack
        self.anomaly = anomaly
        self.observers = observers
        self.detached = detached
        self.barred = barred
        self.threads = threads
        self.cast = cast
        self.special = bool(
            inference or level or pack or anomaly or observers or barred is not None or not threads or cast is not None
        )
        self.silent = not (grad or self.special)


def silent(detached: Any = None) -> Mode:
    """Mode(grad=False, detached=detached), faster."""
    mode = object.__new__(Mode)
    mode.grad = mode.inference = mode.special = False
    mode.level, mode.pack, mode.observers = 0, (), ()
    mode.anomaly = mode.barred = mode.cast = None
    mode.detached, mode.threads = detached, True
    mode.silent = True
    return mode


PLAIN = Mode()
SILENT = silent()
MODE: ContextVar[Mode | None] = ContextVar("ferro_mode", default=None)
# The anomaly mode of backward in all threads: what was switched on, as lists of one, the last of which is in force.  That
# of a Mode keeps forward tracebacks.
ANOMALY: list[list] = [[None]]
# One entry for every mode switched on anywhere: while it is empty, the hot path need not ask the context variable.
ACTIVE: list[Any] = []


def current() -> Mode:
    """The mode in force."""
    return MODE.get() or PLAIN


def changed(**changes: Any) -> Mode | None:
    """The current mode with some switches changed, in its canonical spelling."""
    return _changed(MODE.get(), changes)


def _changed(mode: Mode | None, changes: dict[str, Any]) -> Mode | None:
    """The same of any mode; "pack+" and "observers+" add to a tuple, "cast+" sets one device's precision."""
    mode = mode or PLAIN
    given = changes.get
    new = Mode(
        given("grad", mode.grad),
        given("inference", mode.inference),
        given("level", mode.level),
        given("pack", mode.pack) + given("pack+", ()),
        given("anomaly", mode.anomaly),
        given("observers", mode.observers) + given("observers+", ()),
        given("detached", mode.detached),
        given("barred", mode.barred),
        given("threads", mode.threads),
        given("cast", mode.cast) if "cast+" not in changes else _cast_too(mode.cast, *changes["cast+"]),
    )
    return None if new.grad and not new.special else new


def _cast_too(casts: tuple | None, device: str, dtype: Any) -> tuple | None:
    """The precisions of autocast by type of device, with another one for one type (None: none)."""
    found = {**dict(casts or ()), device: dtype}
    return tuple([(at, found[at]) for at in sorted(found) if found[at] is not None]) or None


def is_grad_enabled() -> bool:
    """Whether operations are being recorded."""
    mode = MODE.get()
    return mode is None or mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    mode = MODE.get()
    return mode is not None and mode.inference


# Note [Contexts].  A context manager may be entered again inside itself, by several threads at once, in generators that
# take turns, and in one context (of `contextvars`) and left in another.  So it keeps nothing of what was before: each entry
# is a link of a chain that belongs to the context.  Leaving removes the manager's innermost link; if others were entered
# since and are not left yet (generators), their changes stay in force.  Where there is no link of the manager, it was
# entered in another context, and nothing is in force here that could be left.


class _Active:
    """Has an entry in ACTIVE for as long as it lives: as some context (copies of contexts included) may have a mode in force."""

    __slots__ = ("__weakref__",)


def _active(some: Any) -> Any:
    """The object, with its entry in ACTIVE: a reference that is taken away when the object dies."""
    ACTIVE.append(ref(some, ACTIVE.remove))  # (a method in Python, __del__, takes twice as long)
    return some


class Entry(_Active):
    """A link: whose, what it changed, the mode and the link before."""

    __slots__ = ("changes", "outer", "owner", "previous")

    owner: Any
    changes: dict[str, Any]
    previous: Mode | None
    outer: Entry | None


def _entry(owner: Any, changes: dict[str, Any], previous: Mode | None, outer: Entry | None) -> Entry:
    """A new link."""
    entry = Entry()  # (filled here: a constructor in Python takes as long again)
    entry.owner, entry.changes, entry.previous, entry.outer = owner, changes, previous, outer
    ACTIVE.append(ref(entry, ACTIVE.remove))  # as `_active`
    return entry


_ENTERED: ContextVar[Entry | None] = ContextVar("ferro_entered", default=None)


def entered(kind: type) -> list[Entry]:
    """The entries of this context that belong to managers of a class, innermost first."""
    found, entry = [], _ENTERED.get()
    while entry is not None:
        if type(entry.owner) is kind:
            found.append(entry)
        entry = entry.outer
    return found


def push(owner: Any, changes: dict[str, Any]) -> None:
    """Puts the current mode with some switches changed in force, until ``pull(owner)``."""
    previous = MODE.get()
    _ENTERED.set(_entry(owner, changes, previous, _ENTERED.get()))
    MODE.set(_changed(previous, changes))


def push_mode(owner: Any, changes: dict[str, Any], previous: Mode | None, mode: Mode | None) -> None:
    """The same where the mode to return to, and the one from now on, are known."""
    _ENTERED.set(_entry(owner, changes, previous, _ENTERED.get()))
    MODE.set(mode)


def pull(owner: Any) -> dict[str, Any] | None:
    """Takes the innermost change of `owner` back; returns it, or None if there is none in this context."""
    entry = found = _ENTERED.get()
    if entry is None:
        return None
    if entry.owner is owner:
        _ENTERED.set(entry.outer)
        _restore(entry.previous)
        return entry.changes
    later = []
    while found is not None and found.owner is not owner:
        later.append(found)
        found = found.outer
    if found is None:
        return None
    link, mode = found.outer, found.previous
    for e in reversed(later):
        link = _entry(e.owner, e.changes, mode, link)
        mode = _changed(mode, e.changes)
    _ENTERED.set(link)
    MODE.set(mode)
    return found.changes


class switched:
    """Context manager: the current mode with `changes` inside, restored whatever happens (and whatever was not left)."""

    __slots__ = ("changes",)

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> switched:
        push(self, self.changes)
        return self

    def __exit__(self, *exc: object) -> None:
        entry = _ENTERED.get()
        while entry is not None and entry.owner is not self:
            entry = entry.outer
        if entry is not None:
            _ENTERED.set(entry.outer)
            _restore(entry.previous)


_STANDING: ContextVar[_Active | None] = ContextVar("ferro_standing", default=None)


def settle(mode: Mode | None) -> None:
    """Puts a mode in force until another is: while it is not the default, ACTIVE has an entry for it."""
    if mode is not None and _STANDING.get() is None:
        _STANDING.set(_active(_Active()))
    _restore(mode)


def _restore(mode: Mode | None) -> None:
    MODE.set(mode)
    if mode is None:
        if _STANDING.get() is not None:
            _STANDING.set(None)
    elif _ENTERED.get() is None and _STANDING.get() is None:
        _STANDING.set(_active(_Active()))


def enter(mode: Mode | None) -> tuple:
    """Puts a mode in force; ``leave`` of what it returns must follow, in the same function."""
    before = MODE.get(), _ENTERED.get()
    ACTIVE.append(None)
    MODE.set(mode)
    return before


def leave(before: tuple) -> None:
    """Puts the mode before `enter` in force again, whatever was not left since."""
    mode, entered = before
    _ENTERED.set(entered)
    _restore(mode)
    ACTIVE.remove(None)
