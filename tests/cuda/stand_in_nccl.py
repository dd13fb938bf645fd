"""cupy.cuda.nccl for tests without GPUs: ranks are processes of MPI, and what is exchanged is found by its address.

It takes what NCCL takes and no more: its types, its operations, memory of the device, calls that fit those of the other ranks. An
exchange begins when it is given to a stream and goes on while the program does, until somebody waits: the stream that is to read, or
the host. Each is an access to memory in its stream, so that one without an order is found. Sums begin with the last rank, since NCCL
promises no order, and means are sums of parts.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.cuda import stand_in_device
from tests.cuda.stand_in_device import DEVICE

TYPES = {0: np.int8, 1: np.uint8, 2: np.int32, 3: np.uint32, 4: np.int64, 5: np.uint64, 6: np.float16}
TYPES |= {7: np.float32, 8: np.float64, 9: ml_dtypes.bfloat16}
_OF_TYPES = {"INT8": 0, "CHAR": 0, "UINT8": 1, "INT32": 2, "INT": 2, "UINT32": 3, "INT64": 4, "UINT64": 5, "FLOAT16": 6}
_OF_TYPES |= {"HALF": 6, "FLOAT32": 7, "FLOAT": 7, "FLOAT64": 8, "DOUBLE": 8, "BFLOAT16": 9}
OPERATIONS = {"SUM": 0, "PROD": 1, "MAX": 2, "MIN": 3, "AVG": 4}
_OF_TWO = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum, 4: np.add}
_SAYS = {
    1: "NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error",
    4: "NCCL_ERROR_INVALID_ARGUMENT: invalid argument",
    5: "NCCL_ERROR_INVALID_USAGE: invalid usage",
    6: "NCCL_ERROR_REMOTE_ERROR: remote process exited or there was a network error",
}
FAULT: dict[str, int] = {}  # "status": what `check_async_error` raises
_HERE = threading.local()
_IDENTIFIERS = itertools.count(1)
_TAG = 1 << 12


class NcclError(RuntimeError):
    """cupy.cuda.nccl.NcclError."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_SAYS[status])


def get_unique_id() -> bytes:
    """Which process has made it, and a number."""
    from mpi4py import MPI

    return np.array([MPI.COMM_WORLD.Get_rank(), next(_IDENTIFIERS), *[7] * 30], np.int32).tobytes()


# -- memory -------------------------------------------------------------------------------------------------------------


class Part:
    """Memory that an exchange reads or writes: some bytes of an array of the device, which is held until it has ended."""

    def __init__(self, start: int, count: int, writes: bool, stream: Any) -> None:
        assert (type(start), type(count)) == (int, int), "CuPy takes numbers"
        self.start, self.count, self.writes = start, count, writes
        self.root = None
        if count == 0:
            return
        addresses = sorted(DEVICE.memory)
        at = bisect.bisect_right(addresses, start) - 1
        memory = DEVICE.memory[addresses[at]] if at >= 0 else None
        if memory is None or start + count > addresses[at] + memory.size:
            raise NcclError(4)  # (not memory of the device, or beyond its end)
        self.root, self._memory, self._stream = memory.root(), memory, stream
        stand_in_device.accessed_by(stream, memory, writes)

    def bytes(self) -> np.ndarray:
        """Its bytes."""
        if not self.count:
            return np.empty(0, np.uint8)
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.count).from_address(self.start))

    def meets(self, other: Part) -> bool:
        """Whether both have bytes that one of them writes."""
        apart = self.start + self.count <= other.start or other.start + other.count <= self.start
        return not apart and (self.writes or other.writes)

    def given_back(self, exchange: Exchange) -> None:
        """The exchange has ended; the stream that the memory goes to may wait for it, else somebody must hold it."""
        if self.root is not None and self._memory.born is not self._stream and exchange not in self._memory.born.going:
            import sys

            if sys.getrefcount(self.root) <= 2:
                DEVICE.wrong.append("memory was given back before an exchange had ended that uses it")
        self.root = None


class Exchange:
    """What goes on: `steps` yields while it waits for the other processes."""

    def __init__(self, steps: Iterator[None], parts: list[Part], before: Exchange | None) -> None:
        self._steps, self.parts, self._ended, self._lock = steps, parts, False, threading.Lock()
        self._before = before  # in the same communicator, whose exchanges come one after the other
        self.is_aborted = False

    def done(self) -> bool:
        """Whether it has ended; MPI goes on meanwhile."""
        if self._before is not None and not self._before.done():
            return False
        self._before = None
        if not self._ended and self._lock.acquire(blocking=False):
            try:
                next(self._steps)
            except StopIteration:
                self._end()
            finally:
                self._lock.release()
        return self._ended

    def finish(self) -> None:
        """Waits for its end."""
        while not self.done() and not self.is_aborted:
            _let_others_run()

    def _end(self) -> None:
        self._ended = True
        for part in self.parts:
            part.given_back(self)


def _let_others_run() -> None:
    import os

    os.sched_yield()


# -- groups of calls ----------------------------------------------------------------------------------------------------


def groupStart() -> None:
    """Calls are kept from now on."""
    if not hasattr(_HERE, "calls"):
        _HERE.depth, _HERE.calls = 0, []
    _HERE.depth += 1


def groupEnd() -> None:
    """Begins what was kept, together: sends and receives wait for each other no longer."""
    if getattr(_HERE, "depth", 0) == 0:
        raise NcclError(5)
    _HERE.depth -= 1
    if _HERE.depth == 0:
        calls, _HERE.calls = _HERE.calls, []
        for communicator, stream in dict.fromkeys((call[0], call[1]) for call in calls):
            chosen = [call[2:] for call in calls if call[:2] == (communicator, stream)]
            communicator._travel(stream, chosen)


# -- communicators ------------------------------------------------------------------------------------------------------


class NcclCommunicator:
    """cupy.cuda.nccl.NcclCommunicator."""

    def __init__(self, ndev: int, commId: bytes, rank: int, config: Any = None) -> None:
        if type(commId) is not bytes or len(commId) != 128:
            raise TypeError("Argument 'commId' has incorrect type (expected bytes)")
        if not 0 <= rank < ndev:
            raise NcclError(4)
        self._mpi, self._rank, self._size = _found(ndev, commId, rank), rank, ndev
        self._going: list[Exchange] = []
        self._is_alive = True

    def rank_id(self) -> int:
        """The rank."""
        return self._rank

    def size(self) -> int:
        """The number of ranks."""
        return self._size

    def device_id(self) -> int:
        """The GPU."""
        return 0

    def check_async_error(self) -> None:
        """Raises what has gone wrong."""
        if FAULT:
            raise NcclError(FAULT["status"])

    def abort(self) -> None:
        """Ends what hangs; memory is left as it is."""
        self._is_alive = False
        for exchange in self._going:
            exchange.is_aborted = True

    def destroy(self) -> None:
        """The end; all must be done."""
        if self._is_alive:
            assert all(exchange.done() for exchange in self._going), "destroyed while an exchange goes on"
            self._is_alive = False
            self._mpi.Free()

    # -- calls ----------------------------------------------------------------------------------------------------------

    def broadcast(self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int) -> None:
        """ncclBroadcast."""
        size = count * _width(datatype)
        self._root(root)
        given = (sendbuff, size) if self._rank == root else None

        def end(every: list[np.ndarray], into: np.ndarray) -> None:
            into[:] = every[root]

        self._all(("broadcast", count, datatype, root), stream, given, (recvbuff, size), end)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        """ncclAllGather."""
        size = count * _width(datatype)

        def end(every: list[np.ndarray], into: np.ndarray) -> None:
            into[:] = np.concatenate(every)

        self._all(("allGather", count, datatype), stream, (sendbuf, size), (recvbuf, size * self._size), end)

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        """ncclAllReduce."""
        size = count * _width(datatype)

        def end(every: list[np.ndarray], into: np.ndarray) -> None:
            into[:] = _reduced(every, datatype, op)

        self._all(("allReduce", count, datatype, _operation(op)), stream, (sendbuf, size), (recvbuf, size), end)

    def reduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int) -> None:
        """ncclReduce."""
        size = count * _width(datatype)
        self._root(root)

        def end(every: list[np.ndarray], into: np.ndarray) -> None:
            if self._rank == root:
                into[:] = _reduced(every, datatype, op)

        target = (recvbuf, size if self._rank == root else 0)
        self._all(("reduce", count, datatype, _operation(op), root), stream, (sendbuf, size), target, end)

    def reduceScatter(self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int) -> None:
        """ncclReduceScatter."""
        size = recvcount * _width(datatype)
        mine = slice(self._rank * size, (self._rank + 1) * size)

        def end(every: list[np.ndarray], into: np.ndarray) -> None:
            into[:] = _reduced([data[mine] for data in every], datatype, op)

        header = ("reduceScatter", recvcount, datatype, _operation(op))
        self._all(header, stream, (sendbuf, size * self._size), (recvbuf, size), end)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """ncclSend."""
        self._pair(stream, sendbuf, count * _width(datatype), peer, True)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        """ncclRecv."""
        self._pair(stream, recvbuf, count * _width(datatype), peer, False)

    def _root(self, root: int) -> None:
        if not 0 <= root < self._size:
            raise NcclError(4)

    # -- how they are done ----------------------------------------------------------------------------------------------

    def _begin(self, stream: Any, parts: list[Part], steps: Iterator[None]) -> None:
        """An exchange begins when those of its stream have ended that use the same memory."""
        assert self._is_alive, "a communicator that was given back"
        for before in [*stream.going]:
            if any(a.meets(b) for a in parts for b in before.parts):
                before.finish()
        exchange = Exchange(steps, parts, self._going[-1] if self._going else None)
        exchange.done()  # (its first step)
        DEVICE.has_exchanges = True
        stream.going.append(exchange)
        self._going = [one for one in self._going if not one._ended] + [exchange]

    def _all(self, header: tuple, stream: int, given: Any, target: tuple[int, int], end: Callable) -> None:
        """An exchange of all ranks: everybody gets what everybody has, and takes what it needs."""
        found = stand_in_device.stream_at(stream)
        sent = [] if given is None else [Part(given[0], given[1], False, found)]
        written = Part(target[0], target[1], True, found)

        def steps() -> Iterator[None]:
            mine = sent[0].bytes().copy() if sent else np.empty(0, np.uint8)
            headers = np.empty((self._size, 128), np.uint8)
            text = np.frombuffer(repr(header).encode().ljust(128), np.uint8)
            yield from _waited(self._mpi.Iallgather(text, headers))
            assert (headers == headers[0]).all(), f"ranks call NCCL otherwise: {[bytes(h).strip() for h in headers]}"
            sizes = np.full(self._size, len(mine))
            if header[0] == "broadcast":
                sizes = np.where(np.arange(self._size) == header[3], written.count, 0)
            every = np.empty(int(sizes.sum()), np.uint8)
            yield from _waited(self._mpi.Iallgatherv(mine, [every, sizes]))
            end(np.split(every, np.cumsum(sizes)[:-1]), written.bytes())

        self._begin(found, [*sent, written], steps())

    def _pair(self, stream: int, start: int, count: int, peer: int, is_send: bool) -> None:
        self._root(peer)
        groupStart()
        _HERE.calls.append((self, stream, start, count, peer, is_send))
        groupEnd()

    def _travel(self, stream: int, calls: list[tuple[int, int, int, bool]]) -> None:
        """Sends and receives; a send has ended when the other rank has begun to receive."""
        found = stand_in_device.stream_at(stream)
        parts = [Part(start, count, not is_send, found) for start, count, _, is_send in calls]

        def steps() -> Iterator[None]:
            going = []
            for part, (_, _, peer, is_send) in zip(parts, calls, strict=True):
                data = part.bytes()
                going.append(self._mpi.Issend(data.copy(), peer) if is_send else self._mpi.Irecv(data, peer))
            for request in going:
                yield from _waited(request)

        self._begin(found, parts, steps())


def _waited(request: Any) -> Iterator[None]:
    while not request.Test():
        yield


def _found(size: int, name: bytes, rank: int) -> Any:
    """The communicator of MPI of those processes that have the same identifier: who has made it tells all who they are."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    (root, number), me = np.frombuffer(name, np.int32)[:2].tolist(), world.Get_rank()
    tag = _TAG + 2 * number
    if me == root:
        known = dict([(rank, me), *[world.recv(tag=tag) for _ in range(size - 1)]])
        every = [known[r] for r in range(size)]
        for other in set(every) - {me}:
            world.send(every, other, tag + 1)
    else:
        world.send((rank, me), root, tag)
        every = world.recv(source=root, tag=tag + 1)
    return world.Create_group(world.group.Incl(every), tag)


def _width(datatype: int) -> int:
    if datatype not in TYPES:
        raise NcclError(4)
    return np.dtype(TYPES[datatype]).itemsize


def _operation(op: int) -> int:
    if op not in _OF_TWO:
        raise NcclError(4)
    return op


def _reduced(every: list[np.ndarray], datatype: int, op: int) -> np.ndarray:
    """The reduction from the last rank to the first, in the type's own arithmetic."""
    arrays = [data.view(TYPES[datatype]) for data in every][::-1]
    is_mean = op == OPERATIONS["AVG"]
    if is_mean and arrays[0].dtype.kind not in "iu":
        arrays = [(a * a.dtype.type(1 / len(arrays))).astype(a.dtype) for a in arrays]
    total = arrays[0].copy()
    for array in arrays[1:]:
        _OF_TWO[op](total, array, out=total)
    if is_mean and total.dtype.kind in "iu":
        total = (np.sign(total) * (np.abs(total) // len(arrays))).astype(total.dtype)
    return total.view(np.uint8)


def module() -> Any:
    """The module."""
    named = {f"NCCL_{name}": code for name, code in (*_OF_TYPES.items(), *OPERATIONS.items())}
    own = {f.__name__: f for f in (get_unique_id, groupStart, groupEnd, NcclCommunicator, NcclError)}
    return types.SimpleNamespace(available=True, get_version=lambda: 23203, **named, **own)
