"""Machine code that is made while NumPy answers: which kernels are ready, and what is ordered of the workshop.

A kernel that is not on disk is ordered of a child process, which imports Numba, compiles, keeps the code on disk, and
says so. So the compiler takes neither the interpreter's lock nor memory from the program, and no call waits for it.
Until the code is there, functions answer by their NumPy formulas, which may round differently.

FERRO_KERNELS in the environment chooses another way. "wait": kernels are waited for, so that a program computes the
same numbers whether or not its kernels were on disk. "off": NumPy answers for ever, in all functions that ask here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.cpu import kernels
from ferro.cpu.kernels.kernel import Kernel, describe, tag_of

if TYPE_CHECKING:
    from ferro.cpu.kernels.workshop import Workshop

MODE = os.environ.get("FERRO_KERNELS", "").strip().lower()

_lock = threading.RLock()
_ready: set[tuple[tuple[str, ...], np.dtype]] = set()
_orders: dict[
    tuple[str, str], threading.Event
] = {}  # by kernel, and signature or beginning of a tag; set when it is answered
_workshop: Workshop | None = None


def ready(names: tuple[str, ...], dtype: np.dtype) -> bool:
    """Whether there is machine code of these kernels for arrays of a dtype; without names, of all kernels.

    What there is not is ordered.
    """
    if (names, dtype) in _ready:
        return True
    if MODE == "off":
        return False
    if MODE != "wait" and False in [_is_ready(name, dtype) for name in names or ("",)]:  # all are ordered
        return False
    _ready.add((names, dtype))
    return True


def _is_ready(name: str, dtype: np.dtype) -> bool:
    """Whether a kernel has machine code, or none can be ordered, so that it has to be waited for."""
    wanted = f"{dtype.str[1:]}-"
    order = _orders.get((name, wanted))
    if order is None:
        if kernels.get(name).load_all(dtype) if name else kernels.all_are_made(wanted):
            return True
        order = _order(name, wanted)
    return order is None or order.is_set()


def _order(name: str, wanted: str) -> threading.Event | None:
    """The order of a kernel's machine code, for tags that begin so ("f4-") or a signature; None where nobody takes it."""
    global _workshop  # noqa: PLW0603 (a process has one)
    with _lock:
        order = _orders.get((name, wanted))
        if order is None:
            _workshop = _workshop or _start()
            if _workshop is None:
                return None
            order = _orders[name, wanted] = threading.Event()
            _workshop.order(name, wanted)
        return order


def _start() -> Workshop | None:
    """A workshop, if there can be one. Most programs need none: what it is made of is imported here."""
    from ferro.cpu.kernels import workshop

    return workshop.start(_delivered, _closed)


def wait_for(kernel: Kernel, signature: str) -> None:
    """Have machine code made for a call that nothing else can answer."""
    order = None if MODE == "wait" else _order(kernel.name, signature)
    if order is not None:
        order.wait()
    if order is None or not kernel.load(tag_of(signature)):
        kernel.compile(signature)


def ready_for(kernel: Kernel, args: tuple[Any, ...]) -> bool:
    """Whether there is machine code of a kernel for a call; what there is not is ordered."""
    signature = "" if MODE == "off" else describe(args)
    if not signature or MODE == "wait" or kernel.load(tag_of(signature)):
        return bool(signature)
    order = _order(kernel.name, signature)
    return order is None or (order.is_set() and kernel.load(tag_of(signature)))


@contextmanager
def as_if_all_were_ready() -> Iterator[None]:
    """For a rehearsal of kernels."""
    global MODE, _ready
    before = MODE, _ready
    MODE, _ready = "wait", set()
    try:
        yield
    finally:
        MODE, _ready = before


def finish() -> None:
    """Wait for whatever has been ordered."""
    for order in list(_orders.values()):
        order.wait()


def _delivered(name: str, wanted: str, tags: list[str]) -> None:
    for tag in tags:
        kernels.get(name).load(tag)
    _orders[name, wanted].set()


def _closed(closed: Workshop) -> None:
    """The child has ended. What it left undone goes to another one; if it fell ill, kernels are waited for."""
    global _workshop  # noqa: PLW0603 (a process has one)
    with _lock:
        if _workshop is closed:
            _workshop = None
        left = [key for key, order in _orders.items() if not order.is_set()]
        if left and closed.process.returncode == 0:
            _workshop = _workshop or _start()
        for name, wanted in left:
            if _workshop is None:
                _orders[name, wanted].set()
            else:
                _workshop.order(name, wanted)


def _after_fork() -> None:
    """Nobody listens in a forked child. What it needs it orders from a workshop of its own."""
    global _workshop, _lock
    _lock, _workshop = threading.RLock(), None
    if "ferro.cpu.kernels.workshop" in sys.modules:
        sys.modules["ferro.cpu.kernels.workshop"].after_fork()
    for key in [key for key, order in _orders.items() if not order.is_set()]:
        del _orders[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
