"""Exchanges in a stream of a GPU: streams wait for them, and a thread looks at those that nobody else waits for.

Note [Waiting for a GPU]
    An exchange of NCCL is given to a stream, and `wait` lets the current stream wait for it: the processor goes on. So it is a thread
    that finds what hangs. It asks, for the oldest exchange of each communicator, whether it has ended, whether NCCL has met an error,
    whether a rank has left, and how long it has taken. When its time is over, nothing can be raised: the main thread may
    wait inside of CUDA, and what it reads when it goes on would be wrong. So all ranks end, with the message that `wait` would have
    raised. Who waits on the processor raises it: `barrier`, `wait` with a timeout, and every wait with TORCH_NCCL_BLOCKING_WAIT=1.

    Memory that an exchange reads or writes is held until it has ended: CuPy would give it to the next array of its stream. That of whole
    parameters (fsdp) is held until that stream waits for the exchange: then what comes next in it comes behind, while the processor may be far
    ahead of the GPU.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any

from ferro.cuda import driver
from ferro.distributed.control import Begun
from ferro.distributed.errors import DistBackendError
from ferro.distributed.pending import Pending, Watched
from ferro.distributed.word import leave

_PERIOD = 0.25  # seconds between two looks


def is_blocking() -> bool:
    """Whether every wait is one of the processor, by the environment."""
    return os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") not in ("", "0")


class _Mark:
    """An event, asked as a request of MPI's."""

    def __init__(self, event: Any, communicator: Any) -> None:
        self.event, self._communicator = event, communicator

    def Test(self, status: Any = None) -> bool:
        """Whether the GPU has reached it; raises what NCCL has met."""
        if self.event.done:
            return True
        self._communicator.check()
        return False


class DevicePending(Pending):
    """An exchange that was given to the stream of a communicator, up to an event."""

    __slots__ = ("_held", "_is_left", "_on_host", "since")
    library = "NCCL"

    def __init__(
        self,
        group: Watched,
        begun: Begun,
        communicator: Any,
        event: Any,
        on_host: bool = False,
        peers: Any = None,
        held: Any = (),
    ) -> None:
        super().__init__(group, begun, _Mark(event, communicator), None, None, peers)
        self._held = held
        self._on_host, self._is_left, self.since = on_host or is_blocking(), False, time.monotonic()
        WATCH.add(self)

    def wait(self, seconds: float | None = None) -> None:
        """Lets the current stream wait for the end; the processor does too where it is asked to, see Note [Waiting for a GPU]."""
        if self._on_host or seconds is not None:
            self._is_left = True  # (by the thread: what goes wrong is raised here)
            super().wait(seconds)
        driver.cupy().cuda.get_current_stream().wait_event(self._request.event)
        self._held = ()

    def overdue(self) -> DistBackendError | None:
        """The error that is to be reported, where something has gone wrong and nobody is told by `wait`."""
        if self._is_left:
            return None
        try:
            if self._request.Test():
                return None
        except RuntimeError as error:
            return self._said(error)
        waited, found = time.monotonic() - self.since, self._group.control
        number = self._begun[2]
        if waited > self._group.seconds or (number is not None and found.gone(self._begun[0], number, self._peers)):
            return self._late(waited)
        return None

    def has_ended(self) -> bool:
        """Whether nobody need look at it any more."""
        return self._is_left or self._request.event.done


class Watch:
    """The thread of the note."""

    def __init__(self) -> None:
        self._going: deque[DevicePending] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, pending: DevicePending) -> None:
        """From now on the thread looks at an exchange."""
        self._going.append(pending)
        if self._thread is None and pending._group.control.is_threaded:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="ferro.distributed watch", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while not threading.Event().wait(_PERIOD):
            for _ in range(len(self._going)):
                pending = self._going.popleft()
                error = pending.overdue()
                if error is not None:
                    leave(f"raised {type(error).__name__}: {error}")
                    pending._group.control.abort(f"has failed: {type(error).__name__}: {error}")
                if not pending.has_ended():
                    self._going.append(pending)


WATCH = Watch()
