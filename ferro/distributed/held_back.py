"""Sends and receives of a GPU's tensors that have not begun: see Note [Sends and receives] of nccl_group.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ferro.core.base import bump
from ferro.core.inplace import announce
from ferro.cuda import communicators, driver, pool
from ferro.distributed.control import Begun
from ferro.distributed.device_pending import DevicePending

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class Held:
    """A send or a receive, which begins at the latest when it is waited for."""

    def __init__(self, queue: HeldBack, begun: Begun, array: Any, peer: int, is_send: bool) -> None:
        self.begun, self.array, self.peer, self.is_send = begun, array, peer, is_send
        self._queue = queue
        self.pending: DevicePending | None = None
        self.ready = driver.cupy().cuda.get_current_stream().record()

    def _begun(self) -> DevicePending:
        if self.pending is None:
            self._queue.group.control.release()
        assert self.pending is not None
        return self.pending

    def wait(self, seconds: float | None = None) -> None:
        """Lets the current stream wait for the end; see `DevicePending.wait`."""
        self._begun().wait(seconds)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._begun().done()

    def source(self) -> int:
        """The rank that is the other end."""
        return self.peer


class HeldBack:
    """Those of one group, and the communicators that they will use: for what goes to higher ranks, and to lower ones."""

    def __init__(self, group: Any, communicators: Sequence[communicators.Communicator]) -> None:
        self.group, self._ways = group, tuple(communicators)
        self._held: list[Held] = []

    def send(self, begun: Begun, tensor: Tensor, peer: int) -> Held:
        """A tensor is to be sent to a rank."""
        return self._hold(Held(self, begun, tensor._data, peer, True))

    def receive(self, begun: Begun, tensor: Tensor, peer: int) -> Held:
        """A tensor is to be received from a rank."""
        announce(tensor._data)
        held = self._hold(Held(self, begun, tensor._data, peer, False))
        bump(tensor, "recv")
        return held

    def _hold(self, held: Held) -> Held:
        if not self._held:
            self.group.control.held_back.append(self._begin)
        self._held.append(held)
        return held

    def _begin(self) -> None:
        """All of them begin, together."""
        every, self._held = self._held, []
        for is_up, communicator in zip((True, False), self._ways, strict=True):
            chosen = [held for held in every if ((held.peer > self.group.rank()) == held.is_send) == is_up]
            if chosen:
                self._begin_with(communicator, chosen)

    def _begin_with(self, communicator: communicators.Communicator, every: list[Held]) -> None:
        with communicator.given(*[held.ready for held in every]):
            buffers = [_contiguous(held.array) for held in every]
            with communicator.together():
                for held, buffer in zip(every, buffers, strict=True):
                    (communicator.send if held.is_send else communicator.receive)(buffer, held.peer)
            for held, buffer in zip(every, buffers, strict=True):
                if not held.is_send and buffer is not held.array:
                    held.array[...] = buffer
            end = communicator.stream.record()
        pool.keep_until(end, [held.array for held in every])
        ranks = self.group.ranks
        for held in every:
            held.pending = DevicePending(self.group, held.begun, communicator, end, peers=[ranks[held.peer]])

    def ended(self) -> tuple[communicators.Communicator, ...]:
        """The communicators, when everything has begun."""
        self.group.control.release()
        return self._ways


def _contiguous(array: Any) -> Any:
    return array if array.flags.c_contiguous else driver.cupy().ascontiguousarray(array)
