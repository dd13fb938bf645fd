"""What each rank has begun, told to the ranks that wait for it: a second communicator, beside those that carry tensors.

Note [Control]
    A rank notes what it begins (`Control.begin`) and sends nothing. Who has waited for too long asks the others (`Control.ask`), and
    a thread of theirs answers, whatever their main thread is at: which exchange they began last in each group, and the line they are at.
    A rank that ends, or gives a group back, says so unasked, so that those who wait for it need not wait until their time is over.
    With an MPI that does not allow calls from several threads, a rank answers when it waits itself.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from ferro.core.provenance import CodeLocation, described, outermost

from .errors import DistBackendError

_QUESTION, _ANSWER = 1, 2
_PERIOD = 0.25  # seconds between two looks of the thread
_LIBRARIES = ("<frozen", *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")))
_PATIENCE = 10.0  # seconds for which a rank that ends waits once more for what it has given up
_NEWEST = 16  # exchanges of a group that a rank remembers
_FEW = 64  # ranks, up to which one that leaves tells all others: of more, those that ask find out

# An exchange: the key of its group, its name, its number in the group (None: from one rank to another), and where it was begun.
Begun = tuple[str, str, int | None, CodeLocation]


def words(begun: Begun) -> str:
    """An exchange as people read it."""
    _, name, number, location = begun
    return f"{name}{'' if number is None else f' #{number}'} at {described(location)}"


def is_of_program(frame: FrameType) -> bool:
    """Whether a frame is of the user's program, and neither of this library nor of others."""
    return outermost(frame) is frame and not frame.f_code.co_filename.startswith(_LIBRARIES)


def _in_program(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's program; if there is none, the innermost of all."""
    inner = frame
    while inner is not None and not is_of_program(inner):
        inner = inner.f_back
    return inner or frame


class Control:
    """What this rank has begun, and what is known of the others. All ranks make it at once."""

    def __init__(self, communicator: Any, seconds: float) -> None:
        from mpi4py import MPI

        self._mpi, self._any = duplicate(communicator, seconds), (MPI.ANY_SOURCE, MPI.ANY_TAG)
        self.rank, self.size = self._mpi.Get_rank(), self._mpi.Get_size()
        self.begun: dict[str, deque[Begun]] = {}  # the newest of each group
        self.given_back: list[str] = []  # groups
        self.known: dict[int, dict[str, Any]] = {}  # what ranks have said, the newest of each
        self.failed: list[Any] = []  # what was given up: MPI may still write into its memory
        self.queues: list[Any] = []  # of reductions whose second exchange has not begun (ordered.py)
        self._answered: set[int] = set()
        self._sent: list[tuple[Any, bytes]] = []
        self._groups, self._has_ended, self._lock, self._stop, self._pid = (
            0,
            False,
            threading.Lock(),
            threading.Event(),
            os.getpid(),
        )
        self._main = threading.main_thread().ident
        self._thread = threading.Thread(target=self._answer, name="ferro.distributed control", daemon=True)
        self.held_back: list[Callable[[], None]] = []  # what begins before this rank begins anything else, or waits
        self.is_threaded = self.size > 1 and MPI.Query_thread() == MPI.THREAD_MULTIPLE
        if self.is_threaded:
            self._thread.start()
        atexit.register(self._end)

    def go_on(self) -> None:
        """Begins what waits for the end of something else."""
        for queue in tuple(self.queues):
            queue.go_on()

    def next_key(self) -> str:
        """The key of the next group: all ranks count all groups."""
        self._groups += 1
        return str(self._groups)

    def of_group(self, key: str) -> deque[Begun]:
        """Where the newest exchanges of a group are noted."""
        return self.begun.setdefault(key, deque(maxlen=_NEWEST))

    def release(self) -> None:
        """Begins what was held back."""
        while self.held_back:
            self.held_back.pop()()

    # -- what is told ---------------------------------------------------------------------------------------------------

    def _state(self) -> bytes:
        """What this rank says of itself."""
        frame = None if self._has_ended else _in_program(sys._current_frames().get(self._main or 0))
        state = {
            "begun": {key: [(b[2], words(b)) for b in list(newest)] for key, newest in list(self.begun.items())},
            "given back": self.given_back,
            "ended": self._has_ended,
            "at": "" if frame is None else described((frame.f_code, frame.f_lasti)),
        }
        return json.dumps(state).encode()

    def _send(self, data: bytes, rank: int, tag: int) -> None:
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        self._sent.append((self._mpi.Isend(data, rank, tag), data))

    def _leave(self, ranks: list[int]) -> None:
        """Tells others, unasked."""
        if len(ranks) <= _FEW:
            with self._lock:
                state = self._state()
                for rank in ranks:
                    if rank != self.rank:
                        self._send(state, rank, _ANSWER)

    def give_back(self, key: str, ranks: list[int]) -> None:
        """This rank takes no part in a group any more."""
        self.given_back.append(key)
        self._leave(ranks)

    # -- what is heard --------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        while not self._stop.wait(_PERIOD):
            self.look()

    def look(self) -> None:
        """Reads what others have sent, and answers."""
        if not self._lock.acquire(blocking=False):  # (somebody is at it)
            return
        try:
            from mpi4py import MPI

            status = MPI.Status()
            while self._mpi.Iprobe(*self._any, status):
                rank, data = status.Get_source(), bytearray(status.Get_count(MPI.BYTE))
                self._mpi.Recv(data, rank, status.Get_tag())
                if status.Get_tag() == _QUESTION:
                    self._send(self._state(), rank, _ANSWER)
                else:
                    self.known[rank] = json.loads(data)
                    self._answered.add(rank)
        finally:
            self._lock.release()

    def ask(self, ranks: list[int], seconds: float) -> set[int]:
        """Asks ranks what they are at: `known` has the answers of those that are returned, which answered in time."""
        wanted = {rank for rank in ranks if rank != self.rank}
        with self._lock:
            self._answered -= wanted
            for rank in sorted(wanted):
                self._send(b"", rank, _QUESTION)
        end = time.monotonic() + seconds
        while not wanted <= self._answered and time.monotonic() < end:
            self.look()
            time.sleep(0.002)
        return wanted & self._answered

    def gone(self, key: str, number: int, ranks: list[int]) -> list[int]:
        """Those ranks of a group which have said that they leave, before the exchange of that number."""
        return [rank for rank in ranks if rank in self.known and self._is_gone(self.known[rank], key, number)]

    @staticmethod
    def _is_gone(state: dict[str, Any], key: str, number: int) -> bool:
        begun = state["begun"].get(key)
        return (state["ended"] or key in state["given back"]) and (begun[-1][0] if begun else 0) < number

    # -- the end of the process -----------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Waits for the other ranks, asleep: MPI's own end would use a core for it, and never end where an exchange has failed."""
        from mpi4py import MPI

        if os.getpid() != self._pid or self._has_ended or MPI.Is_finalized():
            return
        self._has_ended = True
        self._leave(list(range(self.size)))
        end = time.monotonic() + max([_PATIENCE, *(pending.limit for pending in self.failed)])
        while any(not pending.done() for pending in self.failed):
            self.look()
            self.go_on()
            if time.monotonic() > end:
                self.abort("ends, and an exchange that it waited for in vain has not ended")
            time.sleep(0.005)
        request = self._mpi.Ibarrier()
        while not request.Test():
            self.look()
            self.go_on()
            time.sleep(0.005)
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def abort(self, why: str, status: int = 1) -> None:
        """Ends all ranks."""
        self._has_ended = True
        abort(self._mpi, why, status)


_control: Control | None = None


def control(communicator: Any, seconds: float) -> Control:
    """The one of this process, made with the first group of several ranks; raises as `duplicate` does."""
    global _control  # noqa: PLW0603 (MPI has one of all ranks, too)
    if _control is None:
        _control = Control(communicator, seconds)
    return _control


def current() -> Control | None:
    """The one of this process; None before the first group of several ranks."""
    return _control


def duplicate(communicator: Any, seconds: float) -> Any:
    """Another communicator of the same ranks; DistBackendError when so many seconds are over and not all have asked for it."""
    made, request = communicator.Idup()
    end = time.monotonic() + seconds
    while not request.Test():
        if _control is not None:
            _control.go_on()
        if time.monotonic() > end:
            rank, size = communicator.Get_rank(), communicator.Get_size()
            raise DistBackendError(
                f"rank {rank} has waited {seconds:.1f} s for the other ranks of {size} to make a group, and not all have come"
            )
        time.sleep(1e-4)
    return made


def mpi_of(size: int, seconds: float) -> Any:
    """mpi4py's MPI, which begins when it is imported.

    It begins when all ranks do, and while it waits for them no other thread runs: so it is the watch of faulthandler that ends this
    process (with a traceback) when so many seconds are over. That ends the others, too.
    """
    is_watched = size > 1 and "mpi4py.MPI" not in sys.modules
    if is_watched and sys.__stderr__ is not None:
        faulthandler.dump_traceback_later(max(seconds, 1e-3), exit=True, file=sys.__stderr__)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"init_process_group: {size} processes need MPI: pip install ferro[mpi] ({str(error).splitlines()[0]})"
        ) from None
    finally:
        if is_watched:
            faulthandler.cancel_dump_traceback_later()
    return MPI


def abort(communicator: Any, why: str, status: int = 1) -> None:
    """Ends all ranks."""
    from mpi4py import MPI

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    sys.stderr.write(f"rank {communicator.Get_rank()} of {communicator.Get_size()} {why}; all ranks end\n")
    sys.stderr.flush()
    time.sleep(0.2)  # (mpiexec drops what it has not read by then)
    MPI.COMM_WORLD.Abort(status)


def end_all_with_one(communicator: Any) -> None:
    """A rank that ends by an error ends all: the others would wait for it for ever."""
    before = sys.excepthook
    if before.__module__ == __name__:  # (a second group of all ranks)
        return

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        if _control is not None:
            _control.abort("has failed")
        abort(communicator, "has failed")

    sys.excepthook = hook
