"""Threads that run functions of Python: branches of backward, and products by BLAS in chunks.

Note [Interrupts]
    A KeyboardInterrupt can strike between any two calls of the main thread. So starting the threads and counting those
    that have finished are single C calls (`list.extend` over a `map`), each of which has happened or has not, and the
    clean-up of a run stands in two nested `finally` and goes on where it was cut off.
"""

from __future__ import annotations

import contextvars
import os
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from operator import methodcaller
from typing import Any

from ferro.native import cores, locks, threads
from ferro.native.blas import blas_single
from ferro.native.work_queue import RUNS, SHARED

_acquire = methodcaller("acquire")
_release = methodcaller("release")


class _Worker:
    """A daemon thread that sleeps on `gate` and releases `finished` after each task. Both locks are held at rest."""

    __slots__ = ("finished", "gate", "task", "thread")

    def __init__(self, number: int):
        self.gate = allocate_lock()
        self.gate.acquire()
        self.finished = allocate_lock()
        self.finished.acquire()
        self.task: tuple[_Run, int, contextvars.Context, set[int]] | None = None
        self.thread = threading.Thread(target=self._serve, name=f"ferro-worker-{number}", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        _local.is_worker = True
        while True:
            self.gate.acquire()
            self._work()
            self.finished.release()

    def _work(self) -> None:
        """Run the task. A frame of its own, so that a sleeping worker keeps no array alive."""
        task, self.task = self.task, None
        if task is not None:
            run, index, context, allowed = task
            cores.restrict(0, allowed)
            try:
                context.run(run.fn, index)
            except BaseException as error:  # noqa: BLE001 (handed to the caller, interrupts included)
                run.fail(error)


class _Local(threading.local):
    is_worker = False  # whether this thread belongs to the pool


class _Pool:
    """The workers at rest, how many were made, and the runs that are going on."""

    __slots__ = ("created", "idle", "lock", "runs")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start without workers: a forked child has none of its parent's, and its lock in whatever state it was."""
        self.lock = locks.new()
        self.idle: list[_Worker] = []
        self.created = 0
        self.runs: set[_Run] = set()
        SHARED[RUNS] = 0

    def enter(self, run: _Run) -> None:
        """A run begins."""
        with self.lock:
            self.runs.add(run)
            SHARED[RUNS] = len(self.runs)

    def leave(self, run: _Run) -> None:
        """A run is over."""
        with self.lock:
            self.runs.discard(run)
            SHARED[RUNS] = len(self.runs)

    def borrow(self, n: int, workers: list[_Worker]) -> None:
        """Fill `workers` up to n, making those that do not exist; to fewer if the system refuses another thread."""
        with self.lock:
            while len(workers) < n:
                if self.idle:
                    workers.append(self.idle.pop())
                    continue
                try:
                    workers.append(_Worker(self.created + 1))
                except RuntimeError:
                    break
                self.created += 1

    def give_back(self, workers: list[_Worker]) -> None:
        """Empty `workers`. An interrupt in the middle may cost a sleeping thread, but no worker serves two callers."""
        with self.lock:
            while workers:
                self.idle.append(workers.pop())


_local = _Local()
_pool = _Pool()


class _Run:
    """One call of `run_workers`."""

    __slots__ = ("caller", "done", "errors", "fn", "started", "stop", "workers")

    def __init__(self, fn: Callable[[int], Any], stop: Callable[[], Any] | None):
        self.fn = fn
        self.stop = stop
        self.caller = threading.get_ident()
        self.errors: list[BaseException] = []
        self.workers: list[_Worker] = []
        self.started: list[None] = []  # as long as `workers` once they have been started
        self.done: list[bool] = []  # one entry for each that has finished

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        if self.stop is not None:
            self.stop()

    def work(self, n: int) -> None:
        """Start n - 1 workers and do the caller's part."""
        try:
            _pool.enter(self)
            _pool.borrow(n - 1, self.workers)
            allowed = cores.allowed()
            others = cores.others(allowed)  # see Note [Off the caller's core] in cores.py
            for index, worker in enumerate(self.workers, 1):
                cores.restrict(worker.thread.native_id or 0, others)
                worker.task = (self, index, contextvars.copy_context(), allowed if others else set())
            self.started.extend(map(_release, [worker.gate for worker in self.workers]))
            self.fn(0)
            for index in range(len(self.workers) + 1, n):
                self.fn(index)
        except BaseException as error:  # noqa: BLE001 (raised once nobody works on the caller's arrays any more)
            self.fail(error)

    def finish(self) -> None:
        """Wait for the workers and return them. Does the rest of it when called again after an interrupt."""
        locks = [worker.finished for worker in self.workers[: len(self.started)]]
        while len(self.done) < len(locks):
            try:
                self.done.extend(map(_acquire, locks[len(self.done) :]))
            except BaseException as error:  # noqa: BLE001 (likewise)
                self.fail(error)
        _pool.leave(self)
        _pool.give_back(self.workers)

    def first_error(self) -> BaseException | None:
        """What to raise: an interrupt if there was one, else whatever failed first."""
        return next((e for e in self.errors if not isinstance(e, Exception)), self.errors[0] if self.errors else None)


def in_worker() -> bool:
    """Whether the current thread is one of the threads of a `run_workers` call."""
    if _local.is_worker:
        return True
    thread = threading.get_ident()
    return any(run.caller == thread for run in tuple(_pool.runs))


def stay_alone() -> None:
    """The current thread shares no work from now on, as the threads of the pool do not."""
    _local.is_worker = True


def run_workers(fn: Callable[[int], Any], n: int, stop: Callable[[], Any] | None = None) -> None:
    """Call fn(0), ..., fn(n - 1) at the same time on n threads, fn(0) on the calling one, and wait for all of them.

    The first exception is raised here, after every thread has returned; an interrupt of the caller goes before others.
    `stop` is called when something has been raised, and should make the other calls return soon. Workers see a copy
    of the caller's context variables. Where the system refuses more threads, the caller makes the remaining calls
    itself, one after the other: a call must not wait for one of a higher index.
    """
    if n <= 1:
        fn(0)
        return
    run = _Run(fn, stop)
    try:
        try:
            run.work(n)
        finally:
            run.finish()
    finally:
        run.finish()
    error = run.first_error()
    run.errors.clear()  # a traceback may hold a frame of the run's own methods, and so the run
    if error is not None:
        try:
            raise error
        finally:
            del run, error  # the traceback holds this frame, which must not hold the error


def parallel_for(fn: Callable[[int], Any], n_chunks: int) -> None:
    """Call fn(0), ..., fn(n_chunks - 1), each once, spread over the threads: products by BLAS, which is single-threaded meanwhile.

    Chunks must not depend on each other. They run in order on the calling thread if the budget is one thread, inside a
    worker, or while the pool serves another caller. After an exception no further chunk is begun.
    """
    n = min(threads.budget, n_chunks)
    with blas_single():
        if n < 2 or _pool.runs:
            for chunk in range(n_chunks):
                fn(chunk)
            return
        chunks = deque(range(n_chunks))

        def work(_index: int) -> None:
            take = chunks.popleft
            while True:
                try:
                    chunk = take()
                except IndexError:
                    return
                fn(chunk)

        run_workers(work, n, chunks.clear)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
