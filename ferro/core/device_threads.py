"""Backward on two devices: a queue of ready nodes and a thread for each, the caller's for the processor.

The other thread gives a GPU its work and waits for what comes back from it, while the caller computes a branch on the processor, its
kernels shared by all workers as ever. Each gradient is added up in the serial executor's order, as parallel.py does it: the same bits.
An error in either thread is raised in the caller's, when both have stopped.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from heapq import heapify, heappop, heappush
from typing import Any

from ferro.batched.array import SERVING
from ferro.core.graph_task import STATE, Run, in_turn
from ferro.core.parallel import Shared
from ferro.core.primitives import TO_DEVICE
from ferro.native.thread_pool import in_worker, stay_alone


def execute(run: Run, ready: list) -> bool:
    """Runs what is left of a backward on two threads; False if only one may be used."""
    if in_worker() or in_turn():
        return False
    shared = _OfTwo(run, ready)
    thread = threading.Thread(
        target=copy_context().run, args=(shared.work_there,), name="backward on a device", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # the system has no thread to give
        return False
    shared.begin(thread.ident)
    shared.work()
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as e:  # noqa: BLE001 (an interrupt: raised below, once nobody works on the graph any more)
            shared.error = e
    shared.end()
    return True


def lies_there(g: Any) -> bool:
    """Whether a cotangent (of several outputs: the first that is there) is an array of a device."""
    some = next((part for part in g if part is not None), None) if type(g) in (list, tuple) else g
    return type(some) in SERVING


def belongs_there(entry: tuple) -> bool:
    """Whether a ready node is one of the device's thread: by its cotangent, or because it brings that to the device."""
    return entry[1].plan.op is TO_DEVICE or lies_there(entry[2])


class _OfTwo(Shared):
    """What the two threads share: `ready` is the caller's queue, `there` that of the other thread."""

    def __init__(self, run: Run, ready: list) -> None:
        super().__init__(run, ready)
        self.there: list = []
        self.other: int | None = None
        self.begun = threading.Event()

    def begin(self, other: int | None) -> None:
        """Gives the other thread, which has been started, its queue."""
        self.other = other
        self.there = [entry for entry in self.ready if belongs_there(entry)]
        self.ready[:] = [entry for entry in self.ready if not belongs_there(entry)]
        heapify(self.there)
        heapify(self.ready)
        self.begun.set()

    def work_there(self) -> None:
        """The body of the other thread."""
        stay_alone()
        STATE.floor = self.run.depth
        self.begun.wait()
        self.work()

    def _take(self, made_ready: list | None) -> tuple | None:
        own = self.there if threading.get_ident() == self.other else self.ready
        with self.lock:
            if made_ready is not None:
                self.running -= 1
                for entry in made_ready if not self.done else ():
                    heappush(self.there if belongs_there(entry) else self.ready, entry)
                self.lock.notify_all()
            while not own and not self.done:
                if not (self.running or self.ready or self.there):
                    self.done = True
                    break
                self.lock.wait()
            if self.done:
                self.lock.notify_all()
                return None
            self.running += 1
            return heappop(own)

    def _stop(self, error: BaseException) -> None:
        self.there.clear()
        super()._stop(error)
