"""Which answers, kernels or NumPy: chosen once for each function; and what is ordered of the workshop.

A kernel that is not on disk is ordered of a child process, which imports Numba, compiles, and keeps the code on disk.
So the compiler takes neither the interpreter's lock nor memory from the program, and no call waits for it. Functions
answer by their NumPy formulas meanwhile, which may round differently; so they go on until the process ends, and the
next one has the kernel: see Note [What there was at the start] in store.py.

FERRO_KERNELS in the environment chooses another way. "wait": kernels are waited for, so that a program computes the
same numbers whether or not its kernels were on disk. "off": NumPy answers for ever, in all functions that ask here, as
it does where the system grants no memory for machine code.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.cpu import isa, kernels, pages
from ferro.cpu.kernels import store
from ferro.cpu.kernels.kernel import Kernel, describe, tag_of
from ferro.cpu.notices import note

if TYPE_CHECKING:
    from ferro.cpu.kernels.workshop import Workshop

MODE = os.environ.get("FERRO_KERNELS", "").strip().lower()
if MODE != "off" and pages.refused():
    note("machine code", f"NumPy answers: {pages.refused()}")
    MODE = "off"

_lock = threading.RLock()
# What was chosen, by kernels and dtype or by kernel and signature; it holds until the process ends.
_chosen: dict[tuple[str | tuple[str, ...], np.dtype | str], bool] = {}
_orders: dict[
    tuple[str, str], threading.Event
] = {}  # by kernel, and signature or beginning of a tag; set when it is answered
_workshop: Workshop | None = None
_can_start = True  # until a workshop could not be started or has failed


# Kernels that take a multiple of π from an angle and are right only where the product is not rounded before: without such an
# instruction NumPy answers.
FUSED = frozenset(("sin", "cos", "sin_vjp", "cos_vjp"))


def ready(names: tuple[str, ...], dtype: np.dtype) -> bool:
    """Whether these kernels answer for arrays of a dtype; without names, all kernels. What there is not is ordered."""
    chosen = _chosen.get((names, dtype))
    return _choose(names, dtype) if chosen is None else chosen


def _choose(names: tuple[str, ...], dtype: np.dtype) -> bool:
    with _lock:
        found = MODE == "wait"
        if not isa.has_fma() and not FUSED.isdisjoint(names):
            found = False
        elif MODE not in ("wait", "off"):
            missing = [name for name in names or ("",) if not at_start(name, dtype)]
            for name in missing:
                _order(name, _begin(dtype))
            found = not missing
        return _chosen.setdefault((names, dtype), found)


def at_start(name: str, dtype: np.dtype) -> bool:
    """Whether there was machine code of a kernel for arrays of a dtype ("": of all kernels) that can be used."""
    with _lock:
        if (name, dtype) not in _chosen:
            _chosen[name, dtype] = kernels.get(name).load_all(dtype) if name else kernels.all_were_made(_begin(dtype))
        return _chosen[name, dtype]


def _begin(dtype: np.dtype) -> str:
    """How the tags begin of machine code for arrays of a dtype."""
    return f"{dtype.str[1:]}-"


def _order(name: str, wanted: str) -> threading.Event | None:
    """The order of a kernel's machine code, for tags that begin so ("f4-") or a signature; None where nobody takes it."""
    global _workshop, _can_start  # noqa: PLW0603 (a process has one)
    with _lock:
        order = _orders.get((name, wanted))
        if order is None:
            if _workshop is None and _can_start:
                _workshop = _start()
                if _workshop is None:
                    _can_start = False
                    note("kernel cache", "no process can be started that compiles; `python -m ferro.warmup` does it")
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
    """Whether a kernel answers for a call; what there is not is ordered."""
    signature = "" if MODE == "off" else describe(args)
    if not signature or MODE == "wait":
        return bool(signature)
    chosen = _chosen.get((kernel.name, signature))
    if chosen is None:
        with _lock:
            tag = tag_of(signature)
            found = tag in store.tags(kernel.name, kernel.sources) and kernel.load(tag)
            chosen = _chosen.setdefault((kernel.name, signature), found)
            if not chosen:
                _order(kernel.name, signature)
    return chosen


@contextmanager
def as_if_all_were_ready() -> Iterator[None]:
    """For a rehearsal of kernels."""
    global MODE, _chosen
    before = MODE, _chosen
    MODE, _chosen = "wait", {}
    try:
        yield
    finally:
        MODE, _chosen = before


def finish() -> None:
    """Wait for whatever has been ordered."""
    for order in list(_orders.values()):
        order.wait()


def _delivered(name: str, wanted: str) -> None:
    """It is on disk: for those who wait for it, and for the next process."""
    _orders[name, wanted].set()


def _closed(closed: Workshop) -> None:
    """The child has ended. What it left undone goes to another one, unless it fell ill."""
    global _workshop, _can_start  # noqa: PLW0603 (a process has one)
    with _lock:
        if _workshop is closed:
            _workshop = None
        if closed.process.returncode:
            _can_start = False
            note("kernel cache", f"the process that compiles has failed ({closed.process.returncode})")
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

if MODE not in ("wait", "off"):
    store.listed()  # see Note [What there was at the start]
