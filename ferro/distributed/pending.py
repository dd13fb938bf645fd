"""Exchanges that MPI has begun: how a rank waits for their end, and what it says when it has waited for too long.

Note [Waiting]
    MPI's own Wait has no limit of time and never sleeps. So a rank asks again and again: at first without a pause, since
    small exchanges end within microseconds; then it lets other processes run between two questions, as there may be more ranks than cores; after
    a fifth of a second it sleeps, shortly, for MPI moves large tensors only while it is called. All the while it looks for ranks
    that have left, and at the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .control import Begun, Control, words
from .errors import DistBackendError

_SPINS = 100  # questions without a pause
_AWAKE = 0.2  # seconds without sleep
_LONG = 10.0  # seconds after which sleep may be longer
_LOOK = 0.05  # seconds between two looks at the others
_ANSWER = 3.0  # seconds that others have to answer
_ALL_HAVE_COME = (
    "all its ranks have begun it, and it has not ended: tensors may not fit each other (FERRO_DISTRIBUTED_DEBUG=1 compares them), "
    "or take longer than the timeout"
)

_let_others_run: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


def in_bytes(array: np.ndarray) -> Any:
    """The memory of a contiguous array as MPI takes it: every dtype can travel."""
    from mpi4py import MPI

    return [array.reshape(-1).view(np.uint8), MPI.BYTE]


def after(finish: Callable[[], None] | None, held: Any) -> Callable[[], None]:
    """`finish`, which holds what MPI reads until then."""

    def end() -> None:
        nonlocal held
        held = None
        if finish is not None:
            finish()

    return end


class Watched(Protocol):
    """A group whose exchanges are watched: its ranks, how many seconds one may take, and what is known of the others."""

    ranks: list[int]
    seconds: float
    control: Control

    def size(self) -> int:
        """The number of ranks."""
        ...

    def title(self) -> str:
        """The group as errors name it."""
        ...


class Pending:
    """An exchange that MPI has begun, and what is to be done when it has ended.

    `begun` says which one it is; `peers`: the ranks (as the default group numbers them) without which it does not end.
    """

    __slots__ = ("_begun", "_finish", "_group", "_peers", "_request", "_status", "limit")
    library = "MPI"

    def __init__(
        self,
        group: Watched,
        begun: Begun,
        request: Any,
        finish: Callable[[], None] | None = None,
        status: Any = None,
        peers: list[int] | None = None,
    ) -> None:
        self._group, self._begun, self._request, self._finish, self._status = group, begun, request, finish, status
        self._peers = group.ranks if peers is None else peers

    def wait(self, seconds: float | None = None) -> None:
        """Waits for the end; DistBackendError after so many seconds, or the group's, naming the ranks that have not come."""
        self._group.control.release()
        try:
            test, status = self._request.Test, self._status
            for _ in range(_SPINS):
                if test(status):
                    break
            else:
                self._wait_longer(self._group.seconds if seconds is None else seconds)
        except RuntimeError as error:
            raise self._said(error) from None
        self._end()

    def done(self) -> bool:
        """Whether it has ended."""
        try:
            if not self._request.Test(self._status):
                return False
        except RuntimeError as error:
            raise self._said(error) from None
        self._end()
        return True

    def source(self) -> int:
        """The rank from which something was received."""
        return self._status.Get_source()

    def _end(self) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def _wait_longer(self, seconds: float) -> None:
        """See Note [Waiting]."""
        test, status, found = self._request.Test, self._status, self._group.control
        start = time.monotonic()
        next_look = start + _LOOK
        while not test(status):
            found.go_on()
            now = time.monotonic()
            if now - start > _AWAKE:
                time.sleep(5e-5 if now - start < _LONG else 1e-3)
            else:
                _let_others_run()
            if now - start > seconds:
                break
            if now > next_look:
                next_look = now + _LOOK
                found.look()
                if self._begun[2] is not None and found.gone(self._begun[0], self._begun[2], self._peers):
                    break
        else:
            return
        self.limit = seconds
        found.failed.append(self)
        raise self._late(time.monotonic() - start)

    # -- what is said ---------------------------------------------------------------------------------------------------

    def _said(self, error: RuntimeError) -> DistBackendError:
        """What MPI says, with the exchange that it says it of."""
        if isinstance(error, DistBackendError):
            return error
        return DistBackendError(
            f"{words(self._begun)}, {self._group.title()}: {self.library} says: {error}. Ranks may have begun exchanges that do not fit "
            "each other: FERRO_DISTRIBUTED_DEBUG=1 compares them before they begin"
        )

    def _late(self, waited: float) -> DistBackendError:
        """What is known of the ranks that have not come."""
        found = self._group.control
        answered = found.ask(self._peers, _ANSWER)
        said = [
            text
            for rank in self._peers
            if rank != found.rank and (text := self._of_rank(rank, rank in answered)) is not None
        ]
        if not said:
            said = [_ALL_HAVE_COME]
        return DistBackendError(
            f"rank {found.rank} has waited {waited:.1f} s for {words(self._begun)}, {self._group.title()}: {'; '.join(said)}"
        )

    def _of_rank(self, rank: int, has_answered: bool) -> str | None:
        """Why a rank has not come; None if it has."""
        state, (key, _, number, _) = self._group.control.known.get(rank), self._begun
        begun = [] if state is None else state["begun"].get(key, [])
        if not has_answered and (state is None or not state["ended"]):
            seen = f" (it last said that it began {begun[-1][1]})" if begun else ""
            return (
                f"rank {rank} does not answer: it was killed or stopped, or is in code that holds the interpreter{seen}"
            )
        assert state is not None
        other = self._other(begun)
        if other is not None:
            return f"rank {rank} began {other[1]}, where this rank began {other[0]}"
        if number is not None and begun and begun[-1][0] >= number:
            return None
        last = f"it last began {begun[-1][1]}" if begun else "it has begun nothing in this group"
        if state["ended"] or key in state["given back"]:
            return f"rank {rank} has {'ended' if state['ended'] else 'destroyed the group'}: {last}"
        at = f", and is at {state['at']}" if state["at"] else ""
        return f"rank {rank} has not come: {last}{at}"

    def _other(self, begun: list[tuple[int, str]]) -> tuple[str, str] | None:
        """The first exchange of the newest ones that was another one on a rank: what it was here, and there."""
        theirs = dict(begun)
        for one in list(self._group.control.begun[self._begun[0]]):
            mine, other = words(one), theirs.get(one[2] or 0)
            if other is not None and other.partition(" at ")[0] != mine.partition(" at ")[0]:
                return mine, other
        return None
