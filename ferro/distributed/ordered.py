"""Sums in the order of the ranks: two exchanges, one behind the other, which both go on while the program computes.

Note [Two exchanges]
    Each rank gets one part of the tensors of all ranks and adds these; then the parts are gathered. The second exchange begins when a rank
    notices that its first one has ended, which ranks do at different moments. So second exchanges have a communicator of their own, where
    they begin in the order of the first ones, on all ranks alike. A rank notices it when it asks for one of them, and while it waits
    for anything at all (pending.py): else two ranks could wait for each other.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ferro.core import dtypes

from .control import Begun, duplicate
from .errors import DistBackendError
from .pending import Pending, Watched, after, in_bytes
from .process_group import ReduceOp

_PATIENCE = 10.0  # seconds for which a group that is given back waits for what it has begun
_OF_TWO: dict[ReduceOp, Callable] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def added(parts: np.ndarray, op: ReduceOp) -> np.ndarray:
    """The reduction along the first dimension, from its beginning; of 16-bit floats in float32, rounded once."""
    wide = parts.astype(np.float32) if parts.dtype in dtypes.HALF else parts
    total = wide[0].copy()
    for part in wide[1:]:
        _OF_TWO[op](total, part, out=total)
    if op is ReduceOp.AVG:
        np.divide(total, len(parts), out=total)
    return np.ascontiguousarray(total.astype(parts.dtype, copy=False))


class Reducing(Watched, Protocol):
    """A group whose reductions wait in a queue."""

    _mpi: Any
    queue: Queue


class Queue:
    """The reductions of a group whose second exchange has not begun."""

    def __init__(self, group: Reducing) -> None:
        self._group, self._waiting, self._lock = group, deque[Ordered](), threading.Lock()
        # (Made with the group: Open MPI's Idup fails where an exchange of the same communicator begins before it has ended.)
        self._mpi = duplicate(group._mpi, group.seconds)

    def add(self, one: Ordered) -> None:
        """The first exchange of a reduction has begun."""
        with self._lock:
            self._waiting.append(one)
            if self not in self._group.control.queues:
                self._group.control.queues.append(self)

    def go_on(self) -> None:
        """Begins the second exchanges of those whose first has ended, in order."""
        if not self._lock.acquire(blocking=False):  # (another thread is at it)
            return
        try:
            while self._waiting and self._waiting[0].first.done():
                self._waiting[0].go_on(self._mpi)
                self._waiting.popleft()
            if not self._waiting and self in self._group.control.queues:
                self._group.control.queues.remove(self)
        finally:
            self._lock.release()

    def wait_for(self, one: Ordered, seconds: float | None) -> None:
        """Waits until the second exchange of a reduction has begun; raises as `Pending.wait` does."""
        while one.second is None:
            head = next(iter(self._waiting), one)
            head.first.wait(seconds)
            self.go_on()

    def free(self) -> None:
        """Ends what has begun, unless others do not come, and gives the communicator back."""
        found = self._group.control
        with contextlib.suppress(DistBackendError):
            while self._waiting and self._waiting[0].first not in found.failed:
                self.wait_for(self._waiting[0], min(self._group.seconds, _PATIENCE))
        if self in found.queues:
            found.queues.remove(self)
        self._mpi.Free()


class Ordered:
    """A reduction of the arrays of all ranks into `buffer`, whose elements are contiguous, if it is wanted `here`."""

    def __init__(
        self, group: Reducing, begun: Begun, buffer: np.ndarray, op: ReduceOp, here: bool, finish: Callable | None
    ) -> None:
        self._group, self._begun, self._op, self._here, self._finish = group, begun, op, here, finish
        self._buffer = buffer.reshape(-1)
        size = group.size()
        count = -(-buffer.size // size)
        if count * size == buffer.size:
            mine = self._buffer.reshape(size, count)
        else:
            mine = np.zeros((size, count), buffer.dtype)
            mine.reshape(-1)[: buffer.size] = self._buffer
        self._found = np.empty_like(mine)
        request = group._mpi.Ialltoall(in_bytes(mine), in_bytes(self._found))
        self.first = Pending(group, begun, request, after(None, mine))
        self.second: Pending | None = None
        group.queue.add(self)

    def go_on(self, communicator: Any) -> None:
        """The first exchange has ended: adds, and begins the second."""
        part = added(self._found, self._op)
        fits = self._here and self._buffer.size == self._found.size
        whole = self._buffer if fits else np.empty(self._found.size, self._found.dtype)
        request = communicator.Iallgather(in_bytes(part), in_bytes(whole))

        def finish() -> None:
            if self._here:
                if not fits:
                    self._buffer[...] = whole[: self._buffer.size]
                if self._finish is not None:
                    self._finish()

        self.second = Pending(self._group, self._begun, request, after(finish, part))

    def wait(self, seconds: float | None = None) -> None:
        """Waits for the end; raises as `Pending.wait` does."""
        if self.second is None:
            self._group.queue.wait_for(self, seconds)
        assert self.second is not None
        self.second.wait(seconds)

    def done(self) -> bool:
        """Whether it has ended."""
        if self.second is None:
            self._group.queue.go_on()
        return self.second is not None and self.second.done()
