"""The worker pool: threads that take chunks of kernels without the interpreter, and watch for more before they go to sleep.

To wake a sleeping thread takes 5 to 100 us, and to pass the interpreter's lock as long again. A thread that watches the
work queue (see jit_work_queue.py) takes part within a microsecond, so kernels of 20 us are worth sharing. Whoever sleeps is
woken, and not waited for: it may come in time for this kernel, if that is long, and is there for those to come.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ferro.native import cores, locks, threads
from ferro.native.readiness import get
from ferro.native.thread_pool import _pool
from ferro.native.work_queue import ASLEEP, CORES, GATHER, HALT, MEMBERS, QUEUE, RUNS, SHARED, SIZE, THREADS

# Threads that work at once; where there are no POSIX threads, there are no workers.
_MOST = min(cores.usable(), THREADS) if os.name == "posix" else 1
SHARED[CORES] = _MOST
_BUSY = SHARED.ctypes.data + SHARED.itemsize * RUNS  # where threads find whether those of Python are at work
PATIENCE = 50_000  # looks at the queue before a thread goes to sleep: about a millisecond


class _WorkerPool:
    """The work queue and the threads that watch it."""

    __slots__ = ("asleep", "cores", "members", "numbers", "queue", "serve", "wake")

    def __init__(self) -> None:
        self.serve, self.wake = get("serve"), get("wake")
        self.numbers = np.zeros(SIZE + 8, np.int64)
        # Workers look at the queue for as long as the process lives.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.numbers))
        self.queue = (self.numbers.ctypes.data + 63) & -64
        self.asleep = (self.queue - self.numbers.ctypes.data) // 8 + ASLEEP
        get("set_up")(self.queue)
        self.cores = cores.allowed()
        self.members: list[threading.Thread] = []

    def gather(self, count: int) -> None:
        """Make that many workers, and wake those that sleep."""
        if len(self.members) < count:
            with _lock:
                while len(self.members) < count:
                    number = len(self.members) + 1
                    task = (self.queue, number, PATIENCE, _BUSY)
                    member = threading.Thread(target=self.serve, args=task, name=f"ferro-kernels-{number}")
                    member.daemon = True
                    self.members.append(
                        member
                    )  # first: a signal handler that comes here must not take the number again
                    try:
                        member.start()
                    except BaseException as error:
                        self.members.remove(member)
                        if type(error) is RuntimeError:  # the system refuses another thread
                            break
                        raise
                    SHARED[MEMBERS] = len(self.members)
        if self.numbers[self.asleep]:
            others = cores.others(self.cores)  # see Note [Off the caller's core] in cores.py
            for member in self.members:
                cores.restrict(member.native_id or 0, others)
            self.wake(self.queue)

    def halt(self) -> None:
        """Have all threads end, for the machine code is about to go."""
        self.numbers[self.asleep - ASLEEP + HALT] = 1
        self.wake(self.queue)
        for member in self.members:
            member.join()


_made: _WorkerPool | None = None
_lock = locks.new()


def _workers() -> _WorkerPool:
    global _made  # noqa: PLW0603 (there is one pool)
    if _made is None:
        with _lock:
            if _made is None:
                made = _WorkerPool()
                if _made is None:  # (else a signal handler has made it meanwhile)
                    _made = made
                    SHARED[QUEUE] = made.queue
                    atexit.register(made.halt)
    return _made


def helpers() -> int:
    """How many threads may help the calling one now: more than there are cores would only wait for each other."""
    return 0 if _pool.runs else min(threads.budget, _MOST) - 1


def call_together() -> None:
    """Have as many workers as may help, and wake them."""
    (_made or _workers()).gather(helpers())


# Machine code calls it by its address for as long as the process lives, also if this module is loaded again.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(call_together))
SHARED[GATHER] = id(call_together)


def run_rows(name: str, chunks: int, length: int, args: tuple, whole: int = 0, span: int = -2) -> bool:
    """Call the kernel of that name with `args`, shared by the workers in so many chunks of the rows of its arrays.

    All arrays have `length` rows, but for those whose bit (1 for the first argument, 2 for the second, ...) in `whole`
    is set: these are not cut. The arguments number `span` and `span` + 1, 0 and `length`, become the rows of the chunk.
    What a row becomes must not depend on the others. False if the kernel has returned False anywhere.
    """
    if chunks > 1 and threads.budget > 1 and (count := helpers()):
        return share(get(f"{name}.rows"), count, chunks, length, args, whole, span)
    return get(name)(*args) is not False


def run_parts(name: str, parts: int, args: tuple, whole: int = 0) -> None:
    """`run_rows` in so many chunks by however many threads: for what depends on the chunk, as a sum of its own.

    Each array is cut into so many parts of its own length.
    """
    if parts == 1:
        get(name)(*args)
    elif count := helpers():
        share(get(f"{name}.rows"), count, parts, 0, args, whole, -2)
    else:  # (without helpers the queue is not looked at)
        get(f"{name}.rows")(0, 0, parts, 0, whole, -2, *args)


def share(parallel: Any, count: int, chunks: int, length: int, args: tuple, whole: int, span: int) -> bool:
    """`run_rows` with a kernel's entry for rows and so many helpers."""
    pool = _made or _workers()
    if pool.numbers[pool.asleep] or len(pool.members) < count:
        pool.gather(count)
    return parallel(pool.queue, count if count < chunks else chunks - 1, chunks, length, whole, span, *args) >= 0


@contextmanager
def dry_run() -> Iterator[None]:
    """For calls of kernels in which nothing is computed: a pool without threads. Its own kernels are called first."""
    global _made  # noqa: PLW0603 (there is one pool)
    before, _made = _made, _WorkerPool()
    _made.serve(_made.queue, 1, 0, _BUSY)
    _made.wake(_made.queue)
    try:
        yield
    finally:
        _made = before


def _after_fork() -> None:
    """A forked child has none of its parent's threads."""
    global _made  # noqa: PLW0603 (there is one pool)
    if _made is not None:
        atexit.unregister(_made.halt)
        _made = None
        SHARED[QUEUE] = SHARED[MEMBERS] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
