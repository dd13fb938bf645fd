"""Kernels by name; which answers, they or NumPy, chosen once for each function; and what is asked of the compiler process.

A kernel that is not on disk is asked of a child process, which imports Numba, compiles, and keeps the code on disk.
So the compiler takes neither the interpreter's lock nor memory from the program, and no call waits for it. Functions
answer by their NumPy formulas meanwhile, which may round differently; so they go on until the process ends, and the
next one has the kernel: see Note [What there was at the start] in disk_cache.py.

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
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.native import disk_cache, isa, pages, registry
from ferro.native.kernel import Kernel, tag_of
from ferro.native.loader import SUPPORTED
from ferro.native.notices import note

if TYPE_CHECKING:
    from ferro.native.compiler_process import CompilerProcess

MODE = os.environ.get("FERRO_KERNELS", "").strip().lower()
if MODE != "off" and pages.refused():
    note("machine code", f"NumPy answers: {pages.refused()}")
    MODE = "off"

_lock = threading.RLock()
# What was chosen, by the arguments of the functions that ask; it holds until the process ends.
_chosen: dict[tuple[Any, ...], Any] = {}
_INTEGERS = np.dtype(np.int64)
# By kernel, and signature or beginning of a tag; set when it is answered.
_requests: dict[tuple[str, str], threading.Event] = {}
_compiler: CompilerProcess | None = None
_can_start = True  # until a process could not be started or has failed


# Kernels that take a multiple of π from an angle and are right only where the product is not rounded before: without such an
# instruction NumPy answers.
FUSED = frozenset(("sin", "cos", "sin_slope", "cos_slope", "sinc"))


@cache
def get(name: str) -> Kernel:
    """The kernel of that name. Its machine code is made, or loaded from disk, when it is first called."""
    plain = name.partition(".")[0]
    return Kernel(name, registry.sources(plain), partial(registry.compiler, plain), wait_for)


def ready(names: tuple[str, ...], dtype: np.dtype, ask: bool = True) -> bool:
    """Whether these kernels answer for arrays of a dtype; without names, all kernels.

    Asked before work that is worth a kernel: what there is not is asked for. Before work that is not, small arrays, `ask` is
    False: kernels answer that are there already and cost no more than NumPy.
    """
    chosen = _chosen.get((names, dtype, ask))
    return _choose(names, dtype, ask) if chosen is None else chosen


def parallel(names: tuple[str, ...]) -> Kernel | None:
    """The parallel version of a kernel whose arguments are integers; None where it does not answer."""
    found = _chosen.get(names)
    if found is None:
        found = _chosen[names] = ready(names, _INTEGERS) and get(f"{names[0]}.rows")
    return found or None


def _choose(names: tuple[str, ...], dtype: np.dtype, ask: bool) -> bool:
    with _lock:
        found = MODE == "wait"
        if (not isa.has_fma() and not FUSED.isdisjoint(names)) or not (ask or SUPPORTED):
            found = False
        elif MODE not in ("wait", "off"):
            missing = [name for name in names or (ALL,) if not _at_start(name, dtype)]
            for name in missing if ask else ():
                _request("" if name == ALL else name, _begin(dtype))
            if missing and ask:  # then the rest, entries and the recorder among it, which nothing else asks for
                _request("", _begin(dtype))
                _request("", ANY)
            found = not missing
        return _chosen.setdefault((names, dtype, ask), found)


def _at_start(name: str, dtype: np.dtype) -> bool:
    """Whether there was machine code of a kernel for arrays of a dtype, or of all, that can be used."""
    if (name, dtype) not in _chosen:
        _chosen[name, dtype] = get(name).load_all(_begin(dtype)) if name != ALL else all_were_made(_begin(dtype))
    return _chosen[name, dtype]


def _begin(dtype: np.dtype) -> str:
    """How the tags begin of machine code for arrays of a dtype; of kernels without arrays of floats for integers."""
    return f"{dtype.str[1:]}-" if dtype.kind == "f" else ANY


ALL = "all"  # a name that no kernel has: its file says that all kernels were made
ANY = "any-"  # how the tags begin of machine code without arrays of floats, or for all of them: entries of elementwise functions


def all_were_made(wanted: str) -> bool:
    """Whether there was machine code on disk of all kernels at the start, as far as their tags begin so ("f4-")."""
    sources = registry.modules()
    return wanted in disk_cache.tags(ALL, sources) and disk_cache.read(ALL, wanted, sources) is not None


def _request(name: str, wanted: str) -> threading.Event | None:
    """The request for a kernel's machine code, for tags that begin so ("f4-") or a signature; None where nobody takes it."""
    global _compiler, _can_start  # noqa: PLW0603 (a process has one)
    with _lock:
        request = _requests.get((name, wanted))
        if request is None:
            if _compiler is None and _can_start:
                _compiler = _start()
                if _compiler is None:
                    _can_start = False
                    note("kernel cache", "no process can be started that compiles; `python -m ferro.warmup` does it")
            if _compiler is None:
                return None
            request = _requests[name, wanted] = threading.Event()
            _compiler.request(name, wanted)
        return request


def _start() -> CompilerProcess | None:
    """A process that compiles, if there can be one. Most programs need none: what it is made of is imported here."""
    from ferro.native import compiler_process

    return compiler_process.start(_answered, _closed)


def wait_for(kernel: Kernel, signature: str) -> None:
    """Have machine code made for a call that nothing else can answer."""
    request = None if MODE == "wait" else _request(kernel.file, signature)
    if request is not None:
        request.wait()
    if request is None or not kernel.load(tag_of(signature)):
        kernel.compile(signature)


@contextmanager
def as_if(mode: str) -> Iterator[None]:
    """As if FERRO_KERNELS had been set so: "wait" for a dry run of kernels, "off" to have the formulas' numbers."""
    global MODE, _chosen
    before = MODE, _chosen
    MODE, _chosen = mode, {}
    try:
        yield
    finally:
        MODE, _chosen = before


def finish() -> None:
    """Wait for the kernels that have been asked for by name."""
    for (name, _), request in list(_requests.items()):
        if name:
            request.wait()


def _answered(name: str, wanted: str) -> None:
    """It is on disk: for those who wait for it, and for the next process."""
    _requests[name, wanted].set()


def _closed(closed: CompilerProcess) -> None:
    """The child has ended. What it left undone goes to another one, unless it has failed."""
    global _compiler, _can_start  # noqa: PLW0603 (a process has one)
    with _lock:
        if _compiler is closed:
            _compiler = None
        if closed.process.returncode:
            _can_start = False
            note("kernel cache", f"the process that compiles has failed ({closed.process.returncode})")
        left = [key for key, request in _requests.items() if not request.is_set()]
        if left and closed.process.returncode == 0:
            _compiler = _compiler or _start()
        for name, wanted in left:
            if _compiler is None:
                _requests[name, wanted].set()
            else:
                _compiler.request(name, wanted)


def _after_fork() -> None:
    """Nobody listens in a forked child. What it needs it asks of a process of its own."""
    global _compiler, _lock
    _lock, _compiler = threading.RLock(), None
    if "ferro.native.compiler_process" in sys.modules:
        sys.modules["ferro.native.compiler_process"].after_fork()
    for key in [key for key, request in _requests.items() if not request.is_set()]:
        del _requests[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if MODE not in ("wait", "off"):
    disk_cache.listed()  # see Note [What there was at the start]
