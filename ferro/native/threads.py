"""The thread budget: how many threads kernels, branches of backward and BLAS may use.

Note [Same numbers for any number of threads]
    Work is cut into chunks by its size alone; the number of threads only decides who computes which chunk. Every chunk
    runs with single-threaded BLAS (`blas_single`), because a threaded product rounds differently from a serial one.

Kernels share their chunks among the workers (workers.py). Threads of Python (thread_pool.py) run the branches of backward
and products by BLAS.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ferro.native import cores
from ferro.native.blas import _blas
from ferro.native.work_queue import BUDGET, SHARED

budget = SHARED[BUDGET] = cores.usable()  # what get_num_threads says


def _budget_from_environment() -> int | None:
    text = os.environ.get("FERRO_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"FERRO_NUM_THREADS must be a positive integer, got {text!r}")
    return int(text)


def get_num_threads() -> int:
    """Number of threads that one operation or one backward pass may use, the calling thread included."""
    return budget


def set_num_threads(n: int) -> None:
    """Let operations, backward passes and BLAS use `n` threads. Results do not depend on it."""
    global budget  # noqa: PLW0603 (process-wide, as in PyTorch)
    budget = SHARED[BUDGET] = _number("set_num_threads", n)
    _blas.set_limit(min(budget, cores.usable()))  # more spinning BLAS threads than cores are slower than one


def _number(name: str, n: Any) -> int:
    """A number of threads."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise TypeError(f"{name} expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"{name} expects a positive integer, but got {n}")
    if n >= 1 << 31:
        raise ValueError(f"{name}: Overflow when unpacking long long: {n} is no number of threads")
    return int(n)


_interop = 0  # what set_num_interop_threads was given


def set_num_interop_threads(n: int) -> None:
    """Accepted for programs that say it: one budget, that of set_num_threads, is shared by operations and branches of backward."""
    global _interop  # noqa: PLW0603 (process-wide, as in PyTorch)
    _interop = _number("set_num_interop_threads", n)


def get_num_interop_threads() -> int:
    """What set_num_interop_threads was given; without that, the number of threads that branches of backward may use."""
    return _interop or get_num_threads()


_requested = _budget_from_environment()
if _requested is not None:
    set_num_threads(_requested)
