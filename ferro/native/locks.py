"""The locks of ferro: which kind, how a forked child gets them back, and what guards things that are made once.

Every lock is re-entrant. Between any two bytecodes a thread may run a signal handler, and a finaliser of the garbage
collector; either may use ferro, and must not wait for a lock that its own thread holds further down.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any

_known: weakref.WeakSet = weakref.WeakSet()


def new() -> Any:
    """A re-entrant lock, which a forked child finds open."""
    return renewed(threading.RLock())


def renewed(lock: Any) -> Any:
    """Has a lock opened in forked children: the thread that held it may have been left behind in the parent."""
    _known.add(lock)
    return lock


def _after_fork() -> None:
    for lock in _known:
        if not lock._is_owned():  # (what this thread held, it holds still, and gives back)
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# Whether threads run Python at the same time (a free-threaded build): then Note [Made once] in core/node.py needs a lock.
GUARDED = not getattr(sys, "_is_gil_enabled", lambda: True)()
MAKING = new()


def once(owner: Any, name: str, before: Any, fresh: Any) -> Any:
    """Sets an attribute that is `before`, as a rule None, to `fresh`, and returns it; or what somebody else made of it."""
    with MAKING:
        now = getattr(owner, name)
        if now is before:
            setattr(owner, name, fresh)
            return fresh
        return now


class Several:
    """Locks of which a thread takes one at a time, picked by a number.

    A handler or finaliser that interrupts the holder of one and takes another one gives the first back meanwhile: two
    threads in that state would wait for each other. So the holder must be able to bear that between any two bytecodes.
    """

    def __init__(self, count: int) -> None:
        self.locks = tuple([new() for _ in range(count)])
        self.held: set = set()  # the numbers of those that are held

    def __getitem__(self, number: int) -> Any:
        """A context manager that holds the lock of that number; `held` has the number inside."""
        lock = self.locks[number]
        return _Exchange(lock, self.locks) if self.held else lock


class _Exchange:
    """Holds one lock of several, and meanwhile none of the others that the thread has."""

    __slots__ = ("lock", "locks", "others")

    def __init__(self, lock: Any, locks: tuple) -> None:
        self.lock, self.locks = lock, locks

    def __enter__(self) -> None:
        self.others = [(k, k._release_save()) for k in self.locks if k is not self.lock and k._is_owned()]
        self.lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self.lock.release()
        for lock, state in self.others:
            lock._acquire_restore(state)
