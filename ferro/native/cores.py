"""Processor cores: how many this process may use, and threads kept off their caller's core.

Note [Off the caller's core]
    Some schedulers, those of virtual machines above all, put a woken thread on the core of the thread that woke it, and
    the two then take turns for milliseconds while another core sleeps. So a worker is woken while it may run on any core
    but its caller's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable


def allowed() -> set[int]:
    """The cores that the calling thread may run on; empty where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def usable() -> int:
    """Number of cores this process may run on."""
    return len(allowed()) or os.cpu_count() or 1


def _finder() -> Callable[[], int] | None:
    """The C library's sched_getcpu, where threads can be kept off a core at all."""
    if not hasattr(os, "sched_setaffinity") or usable() < 2:
        return None
    find = getattr(ctypes.CDLL(None), "sched_getcpu", None)
    if find is not None:
        find.argtypes, find.restype = [], ctypes.c_int
    return find


_current = _finder()


def others(among: set[int]) -> set[int]:
    """These cores without the calling thread's; empty where threads cannot be kept off it."""
    return among - {_current()} if _current is not None else set()


def restrict(thread: int, cores: set[int]) -> None:
    """Let a thread, 0 being the calling one, run on these cores only. A hint: where it is refused, nothing happens."""
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, cores)
