"""Worker processes: what WorkerPool does with threads, for datasets whose Python code should run beside the loop's."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any

import numpy as np

from ferro.core.random import manual_seed
from ferro.native.threads import set_num_threads

from .workers import Failure, Fetching, WorkerInfo, enter

# Seconds that closing waits for a worker that is in the middle of a sample, before it is stopped.
PATIENCE = 1.0

# Note [Pipes]
#   Each worker has a pipe of its own, so that one that is killed in the middle of a message spoils nobody else's, and its end
#   is seen at once.  In the worker one thread always reads the tasks and another writes the results: neither side waits for
#   the other to read before it reads itself.


class ProcessPool:
    """The worker processes of a loader and the pipes to them; closed when it is collected, at the latest."""

    def __init__(
        self,
        dataset: Any,
        num_workers: int,
        seed: int,
        make_fetcher: Callable[..., Any],
        collate_fn: Any,
        init_fn: Any,
        context: Any,
    ) -> None:
        self.epoch = 0
        self.process = os.getpid()
        self.workers: list[Any] = []
        self.pipes: list[Any] = []
        self.close = weakref.finalize(self, _close, self.workers, self.pipes, self.process)
        try:
            for i in range(num_workers):
                ours, theirs = context.Pipe()
                # A forked child has all that is open here; who keeps the ends of others would keep them alive.
                inherited = [*self.pipes, ours] if context.get_start_method() == "fork" else []
                info = WorkerInfo(i, num_workers, seed + i, dataset)
                words = seed_words(seed, i)
                arguments = theirs, inherited, info, words, make_fetcher, collate_fn, init_fn
                worker = context.Process(target=_work, args=arguments, name=f"DataLoader worker {i}", daemon=True)
                self.pipes.append(ours)
                worker.start()
                self.workers.append(worker)
                theirs.close()
        except BaseException:
            self.close()
            raise

    def here(self) -> bool:
        """Whether there are workers, and they are children of this process and not of the one that it was forked from."""
        return self.process == os.getpid() and self.close.alive

    def begin(self) -> int:
        """Start a new epoch: what is still queued from the one before is dropped."""
        self.epoch += 1
        for i in range(len(self.workers)):
            self.send(i, self.epoch, -1, None)
        return self.epoch

    def send(self, worker: int, epoch: int, ticket: int, index: Any) -> None:
        """Hand a batch to a worker."""
        try:
            self.pipes[worker].send((epoch, ticket, index))
        except OSError:
            self._lost(worker)

    def receive(self, epoch: int, timeout: float) -> tuple[int, Any]:
        """The next result of this epoch, in no particular order: its ticket, and the batch, a Failure or End."""
        if not self.here():
            raise RuntimeError(
                "DataLoader: the worker processes of this iterator have ended, or are children of the process that was "
                "forked; begin a new one with iter(loader)"
            )
        while True:
            ready = wait(self.pipes, timeout or None)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            pipe: Any = ready[0]
            worker = self.pipes.index(pipe)
            try:
                message = pipe.recv_bytes()
            except (EOFError, OSError):
                self._lost(worker)
            came, ticket, outcome = pickle.loads(message)
            if came == epoch:
                return ticket, outcome

    def _lost(self, worker: int) -> None:
        """RuntimeError for a worker that is no more."""
        lost = self.workers[worker]
        lost.join(PATIENCE)
        code, pid = lost.exitcode, lost.pid
        why = f"exit code {code}"
        if code is not None and code < 0:
            why = f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code) or -code}. It may have been short of memory."
        self.close()
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly: {why}")


def seed_words(seed: int, worker: int) -> list[int]:
    """The seed of numpy.random in a worker: PyTorch's numbers, those of NumPy's SeedSequence."""
    entropy = [worker, seed & 0xFFFFFFFF, seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()


def _close(workers: list[Any], pipes: list[Any], owner: int) -> None:
    if owner != os.getpid():
        return
    for pipe in pipes:
        with suppress(OSError):  # it has ended already
            pipe.send(None)
        pipe.close()
    for worker in workers:
        worker.join(PATIENCE)
        for stop in (
            worker.terminate,
            worker.kill,
        ):  # in the middle of a sample, or of something that cannot be interrupted
            if worker.exitcode is None:
                stop()
                worker.join(PATIENCE)
        worker.close()


def _work(
    pipe: Connection,
    inherited: list[Any],
    info: WorkerInfo,
    words: list[int],
    make_fetcher: Callable[..., Any],
    collate_fn: Any,
    init_fn: Callable[[int], None] | None,
) -> None:
    """The life of a worker."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loop's, which closes the pipe
    enter(info)
    set_num_threads(1)
    random.seed(info.seed)
    manual_seed(info.seed)
    np.random.seed(words)  # noqa: NPY002 - the generator that datasets draw from
    fetching = Fetching(info, partial(make_fetcher, info.dataset, collate_fn), init_fn)
    tasks: SimpleQueue[Any] = SimpleQueue()
    results: SimpleQueue[Any] = SimpleQueue()
    latest = [0]  # the epoch that the loop is in
    threading.Thread(target=_read, args=(pipe, tasks, latest), daemon=True).start()
    writer = threading.Thread(target=_write, args=(pipe, results), daemon=True)
    writer.start()
    while (task := tasks.get()) is not None:
        epoch, ticket, index = task
        if epoch == latest[0] and ticket >= 0:
            results.put(_message(epoch, ticket, fetching.outcome(epoch, index), info.id))
        del task, index
    results.put(None)
    writer.join(PATIENCE)


def _message(epoch: int, ticket: int, outcome: Any, worker: int) -> bytes:
    try:
        return pickle.dumps((epoch, ticket, outcome), 5)
    except Exception as error:  # noqa: BLE001 - a batch, or an error, that cannot leave this process
        error.add_note(
            "A worker process has to pickle what it fetched; worker threads (no multiprocessing_context) do not."
        )
        return pickle.dumps((epoch, ticket, Failure.of(error, worker)), 5)


def _read(pipe: Connection, tasks: SimpleQueue[Any], latest: list[int]) -> None:
    """Take the tasks from the pipe as they come; its end, when the loop's process is no more, is the last of them."""
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            task = None
        if task is None:
            tasks.put(None)
            return
        latest[0] = task[0]
        tasks.put(task)


def _write(pipe: Connection, results: SimpleQueue[Any]) -> None:
    """Give the results to the pipe in order."""
    while (message := results.get()) is not None:
        try:
            pipe.send_bytes(message)
        except OSError:  # nobody reads them any more
            return
