"""Run: what one backward knows; which one this thread is in; callbacks for its end."""

from __future__ import annotations

import threading
from typing import Any

from ferro.batched.levels import ALIVE, RUNNING
from ferro.core import mode as _mode
from ferro.core.node import Freed, OutputRef
from ferro.core.provenance import caller

# Note [Modes of backward].  Formulas on arrays need no mode.  So, as in PyTorch, a backward that is not recorded runs in
# the mode of the program, which a signal handler that interrupts it sees; only the user's functions that it calls (hooks,
# custom backwards) see that recording is off.  A recorded backward runs operations on tensors, in the mode that they need.


# Observers that every backward has, whatever its context: what a device that has been used needs to see (cuda/following.py).
STANDING: list[Any] = []


class Run:
    """What one backward needs to know: the graph's in-degrees, where gradients are wanted, and how to compute."""

    __slots__ = (
        "anomaly",
        "callbacks",
        "capture",
        "captured",
        "deps",
        "depth",
        "failures",
        "freed",
        "grads",
        "into_grad",
        "keep",
        "levels",
        "lock",
        "mode",
        "needed",
        "observers",
        "outer",
        "partial",
        "record",
        "running",
        "scratch",
        "starts",
        "threads",
    )

    def __init__(self, keep: bool, record: bool, capture: dict | None, threads: int | None) -> None:
        self.keep = keep
        self.record = record
        self.capture = (
            capture  # keys of positions: gradients are wanted there and nowhere else; None: accumulate at leaves
        )
        self.captured: dict = {}
        self.callbacks: list = []  # what queue_callback was given
        self.failures: list = []  # what queue_failure was given
        self.threads = (
            threads if _mode.current().threads and not STANDING else 1
        )  # 1 forces the serial executor, None leaves the choice to the engine
        self.into_grad = False
        self.depth = 0  # how many backwards it runs inside of
        self.outer: Run | None = None  # the nearest of them
        self.mode: Any = None  # that of the user's functions, see `user`
        self.deps: dict = {}
        self.starts: list = []
        self.freed = Freed(caller(3))
        self.needed: Any = None
        self.partial: Any = ()  # of these: what not all gradients are wanted of, or a gradient of its own
        self.grads: dict = {}
        mode = _mode.current()
        self.anomaly: Any = _mode.ANOMALY[-1][0]
        self.running: Any = None  # in anomaly mode: the node whose formulas run
        self.observers = mode.observers
        if STANDING:
            self.observers += tuple([o for o in STANDING if o not in mode.observers])
        self.scratch: dict | None = None  # what unpack hooks keep until this backward ends (see utils.checkpoint)
        # the vmaps inside of which all of this backward runs; at other levels than these gradients end with the function
        self.levels: Any = set(RUNNING.get()) if ALIVE else ()
        self.lock = threading.RLock()  # hooks and other functions of the user run one at a time

    def user(self) -> _User:
        """Context manager: inside is the mode of this backward, in which the user's functions run (and holding `lock`)."""
        return _User(self)

    def inside(self, outer: Run) -> None:
        """Notes the backward that this one runs inside of."""
        self.depth, self.outer = outer.depth + 1, outer

    def end(self) -> None:
        """Calls what `queue_callback` was given, which may queue more."""
        if self.callbacks:
            with self.user():
                for callback in self.callbacks:
                    callback()

    def fail(self, error: BaseException) -> None:
        """Calls what `queue_failure` was given."""
        for failure in self.failures:
            with self.user():
                failure(error)

    def reaches(self, where: Any) -> bool:
        """Whether this backward computes the gradient at a position."""
        node = where.node if type(where) is OutputRef else where
        return node in self.deps if self.needed is None else node in self.needed


class _User:
    __slots__ = ("before", "mode")

    def __init__(self, run: Run) -> None:
        self.mode = run.mode

    def __enter__(self) -> None:
        self.before = _mode.enter(self.mode)

    def __exit__(self, *exc: object) -> None:
        _mode.leave(self.before)


class _State(threading.local):
    run: Run | None = None
    floor = 0  # the depth of the backward that the thread was begun for, see nested.py
    turns = 0  # how many leaves' turns the thread is in, see `deliver`


STATE = _State()


def current_run() -> Run | None:
    """The backward that this thread is running formulas, hooks or functions for."""
    return STATE.run


def enter_run(run: Run | None) -> Run | None:
    """Makes `run` the current one of this thread; returns the one before."""
    before, STATE.run = STATE.run, run
    return before


def in_turn() -> bool:
    """Whether this thread is in a leaf's turn: a backward begun there must not wait for other threads (see `deliver`)."""
    return STATE.turns > 0


def queue_callback(callback: Any) -> None:
    """Runs `callback` when the backward now running in this thread has ended without error, in its modes."""
    if STATE.run is None:
        raise RuntimeError(
            "queue_callback: callbacks can only be queued while a backward is running, from a hook or formula"
        )
    STATE.run.callbacks.append(callback)


def outermost() -> Run | None:
    """The backward that this thread's runs inside of, and that runs inside of no other."""
    run = STATE.run
    while run is not None and run.outer is not None:
        run = run.outer
    return run


def key_of(where: Any) -> Any:
    """The dictionary key of a position: equal for the Picks of one output."""
    return (where.node, where.index) if type(where) is OutputRef else where


def wanted(run: Run, node: Any) -> list:
    """Which of a node's edges lead to a gradient that is asked for, where only some are."""
    return [(t.node if type(t) is OutputRef else t) in run.needed for t in node.edges]
