"""Machine code made by a thread, so that no call waits for a compiler: until it is there, NumPy answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

from ferro.cpu.kernels import get

PATIENCE = 0.5  # seconds: what it takes to load machine code from disk, and not to make it

_lock = threading.Lock()
_made: dict[tuple[Callable, np.dtype], threading.Event] = {}
_threads: list[threading.Thread] = []


def ready(make: Callable[[np.dtype], object], dtype: np.dtype, name: str) -> bool:
    """Whether the kernels that `make` calls have machine code for a dtype; `name` is one of them.

    The first question starts a thread that calls `make`, and waits as long as it takes to load the code from disk.
    """
    made = _made.get((make, dtype))
    if made is None:
        get(name)  # imports the compiler, for which it is no use to wait elsewhere
        with _lock:
            made = _made.get((make, dtype))
            if made is None:
                made = _made[make, dtype] = threading.Event()
                thread = threading.Thread(target=_work, args=(make, dtype, made), name=f"ferro-compile-{name}")
                _threads.append(thread)
                thread.start()
        made.wait(PATIENCE)
    return made.is_set()


def _work(make: Callable[[np.dtype], object], dtype: np.dtype, made: threading.Event) -> None:
    make(dtype)
    made.set()


def finish() -> None:
    """Wait for whatever is being made. A fork in the middle would leave the compiler locked in the child."""
    while _threads:
        _threads[-1].join()
        _threads.pop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=finish)
