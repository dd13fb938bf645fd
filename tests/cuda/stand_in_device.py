"""The device of the stand-in: streams, events, memory and graphs, with a look at the order of accesses.

Work is done when it is given, but each access to memory is noted with the stream it was given to. Two accesses to one memory,
one of them a write, must have an order: within a stream, by an event that one stream waits for, or by the host that waited.
Vector clocks tell: a stream knows of each other stream up to which of its accesses it has waited (Mattern, Virtual Time and
Global States of Distributed Systems, 1989). Memory that dies may become another array of the stream that it was made for: who
writes to that must know of all accesses.
"""

from __future__ import annotations

import itertools
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

import numpy as np

Clock = dict[int, int]


class Race(AssertionError):
    """Two accesses to one memory without an order."""


def _merge(clock: Clock, other: Clock) -> None:
    for stream, tick in other.copy().items():  # (another thread may ask for an event, and so change the host's)
        clock[stream] = max(clock.get(stream, 0), tick)


class Exchange(Protocol):
    """What has begun with other processes, and goes on; see stand_in_nccl.py."""

    def finish(self) -> None:
        """Waits for its end."""
        ...

    def done(self) -> bool:
        """Whether it has ended."""
        ...


class Device:
    """What happened: the clock of the host, memory by address, and what went wrong where nothing could be raised."""

    def __init__(self) -> None:
        self.is_watched = False
        self.host: Clock = {}
        self.memory: dict[int, Memory] = {}
        self.wrong: list[str] = []
        self.numbers = itertools.count(1)
        self.has_exchanges = False  # whether a stream has had one


DEVICE = Device()
_HERE = threading.local()
_OFTEN = 1000  # questions, after which what was asked for has happened
_STREAMS: weakref.WeakSet[Stream] = weakref.WeakSet()


class Stream:
    """cupy.cuda.Stream."""

    null: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        assert null or non_blocking, "a stream that waits for the default stream by itself"
        self.ptr = 0 if null else 4096 * next(DEVICE.numbers)
        self.clock: Clock = {}
        self.captured: list | None = None
        self.going: list[Exchange] = []  # what comes waits for them
        _STREAMS.add(self)

    def tick(self) -> int:
        """The number of the next piece of work."""
        _merge(self.clock, DEVICE.host)
        self.clock[self.ptr] = self.clock.get(self.ptr, 0) + 1
        return self.clock[self.ptr]

    @property
    def done(self) -> bool:
        """Whether the host has waited for all work."""
        return all(DEVICE.host.get(stream, 0) >= tick for stream, tick in self.clock.copy().items())

    def synchronize(self) -> None:
        """The host waits for all work."""
        assert self.captured is None, "a stream that is recorded cannot be waited for"
        self.settle()
        _merge(DEVICE.host, self.clock)

    def settle(self) -> None:
        """Waits for the exchanges that what comes would wait for."""
        while self.going:
            self.going[0].finish()
            del self.going[:1]

    def record(self, event: Event | None = None) -> Event:
        """Sets an event behind all work."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes waits for an event."""
        _merge(self.clock, event.clock)
        self.going += [one for one in event.going if one not in self.going and not one.done()]

    def use(self) -> Self:
        """Makes it the thread's current one."""
        _stack()[-1] = self
        return self

    def __enter__(self) -> Self:
        _stack().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _stack().pop()

    def begin_capture(self, mode: int = 2) -> None:
        """From now on work is recorded too."""
        self.captured = []

    def end_capture(self) -> Graph:
        """What has been recorded."""
        assert self.captured is not None
        found, self.captured = Graph(self.captured), None
        return found

    def is_capturing(self) -> bool:
        """Whether work is being recorded."""
        return self.captured is not None


Stream.null = Stream(null=True)


class ExternalStream(Stream):
    """cupy.cuda.ExternalStream."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__(non_blocking=True)
        self.ptr = ptr


class Event:
    """cupy.cuda.Event."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.ptr, self.clock, self.timed = 4096 * next(DEVICE.numbers), dict[int, int](), not disable_timing
        self.going: list[Exchange] = []
        self._asked = 0

    def record(self, stream: Stream | None = None) -> None:
        """Notes what the stream has been given."""
        stream = stream or Stream.null
        _merge(stream.clock, DEVICE.host)
        self.clock, self.going, self._asked = dict(stream.clock), list(stream.going), 0

    @property
    def done(self) -> bool:
        """Whether the host knows that it was reached: when it has waited, seen an exchange end, or asked very often."""
        if not all(one.done() for one in self.going):
            return False
        self._asked += 1
        if self.going or self._asked > _OFTEN:
            _merge(DEVICE.host, self.clock)
        return all(DEVICE.host.get(stream, 0) >= tick for stream, tick in self.clock.copy().items())

    def synchronize(self) -> None:
        """The host waits for it."""
        for one in self.going:
            one.finish()
        _merge(DEVICE.host, self.clock)


class Graph:
    """cupy.cuda.Graph."""

    def __init__(self, work: list[Callable[[], None]]) -> None:
        self._work = work

    def launch(self, stream: Stream | None = None) -> None:
        """Does the work once more."""
        with stream or current():
            for piece in self._work:
                piece()


def _stack() -> list[Stream]:
    if not hasattr(_HERE, "stack"):
        _HERE.stack = [Stream.null]
    return _HERE.stack


def current() -> Stream:
    """The thread's current stream."""
    return _stack()[-1]


def settle() -> None:
    """The current stream is given work, or its results are read: what it waits for must have ended."""
    if DEVICE.has_exchanges:
        current().settle()


def stream_at(ptr: int) -> Stream:
    """The stream at an address."""
    return next(stream for stream in [*_STREAMS] if stream.ptr == ptr)


def captured(work: Callable[[], None]) -> None:
    """Notes a piece of work where the current stream is being recorded."""
    found = current().captured
    if found is not None:
        found.append(work)


# --- memory ------------------------------------------------------------------------------------------------------------


class Memory:
    """Memory of one array: for which stream it was made, and who wrote and read it last."""

    def __init__(self, size: int, pool: MemoryPool) -> None:
        self.size, self.pool, self.born = size, pool, current()
        self.root: Callable[[], Any] = lambda: None  # the array, as long as it lives
        self.written: tuple[int, int] | None = None
        self.read: Clock = {}

    def died(self) -> None:
        """It goes back to the stream that it was made for."""
        self.pool.used -= self.size
        if self.pool is POOL:  # (that of a graph gives to this graph alone)
            accesses = [*self.read.items(), *([self.written] if self.written else [])]
            POOL.free.setdefault(self.born.ptr, []).extend(accesses)

    def taken(self, stream: Stream) -> None:
        """A stream writes to it for the first time: it may be any memory that was made for the same stream and has died."""
        for other, tick in POOL.free.pop(self.born.ptr, []):
            if stream.clock.get(other, 0) < tick:
                DEVICE.wrong.append(
                    f"memory made for stream {self.born.ptr:#x} was given back while stream {other:#x} used it, "
                    f"and goes to stream {stream.ptr:#x}, which does not wait for that"
                )


class MemoryPool:
    """cupy.cuda.MemoryPool."""

    def __init__(self) -> None:
        self.used = self.total = 0
        self.limit: int | None = None
        self.free: dict[int, list] = {}  # by the stream it was made for: accesses to memory that has died

    def malloc(self, size: int) -> Memory:
        """Memory for the current stream."""
        if self.limit is not None and self.used + size > self.limit:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
        self.used += size
        self.total = max(self.total, self.used)
        return Memory(size, self)

    def used_bytes(self) -> int:
        """The bytes in use."""
        return self.used

    def total_bytes(self) -> int:
        """The bytes that are held."""
        return self.total

    def free_all_blocks(self) -> None:
        """Gives back what is not in use."""
        self.total = self.used

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The most bytes that may be in use."""
        self.limit = size if fraction is None else int(fraction * (1 << 30))


class OutOfMemoryError(MemoryError):
    """cupy.cuda.memory.OutOfMemoryError."""


POOL = MemoryPool()
_ALLOCATOR: list[Callable[[int], Memory]] = [POOL.malloc]


@contextmanager
def using_allocator(allocator: Callable[[int], Memory]) -> Iterator[None]:
    """Another allocator for this thread."""
    before = getattr(_HERE, "allocator", None)
    _HERE.allocator = allocator
    try:
        yield
    finally:
        _HERE.allocator = before


def made(root: np.ndarray) -> None:
    """Notes memory that an operation has made, and that it is written."""
    address = root.__array_interface__["data"][0]
    if address in DEVICE.memory:
        return
    found = (getattr(_HERE, "allocator", None) or _ALLOCATOR[-1])(root.nbytes)
    found.root = weakref.ref(root)
    DEVICE.memory[address] = found

    def dead() -> None:
        DEVICE.memory.pop(address).died()

    weakref.finalize(root, dead).atexit = False


def accessed(root: np.ndarray, writes: bool) -> None:
    """Notes an access by the current stream; Race unless it has an order to those before."""
    address = root.__array_interface__["data"][0]
    if address not in DEVICE.memory:
        made(root)
    accessed_by(current(), DEVICE.memory[address], writes)


def accessed_by(stream: Stream, memory: Memory, writes: bool) -> None:
    """The same of a stream."""
    if stream.is_capturing():  # (nothing is done now)
        return
    tick = stream.tick()
    if memory.written is None and not memory.read:
        memory.taken(stream)
    before = [("written", memory.written)] if memory.written else []
    before += [("read", access) for access in memory.read.items()] if writes else []
    for what, (other, when) in before:
        if stream.clock.get(other, 0) < when:
            kind = "writes" if writes else "reads"
            raise Race(
                f"stream {stream.ptr:#x} {kind} memory that stream {other:#x} has {what}, and does not wait for it"
            )
    if writes:
        memory.written, memory.read = (stream.ptr, tick), {}
    else:
        memory.read[stream.ptr] = tick


@contextmanager
def watched() -> Iterator[Device]:
    """A block in which accesses are looked at."""
    DEVICE.is_watched, DEVICE.wrong, POOL.free = True, [], {}
    try:
        yield DEVICE
    finally:
        DEVICE.is_watched = False


def modules(runtime: Any) -> types.SimpleNamespace:
    """cupy.cuda."""
    for name in ("streamCaptureModeGlobal", "streamCaptureModeThreadLocal", "streamCaptureModeRelaxed"):
        setattr(runtime, name, name)
    runtime.deviceSynchronize = _synchronize
    runtime.deviceGetPCIBusId = lambda device: f"0000:{int(os.environ.get('STAND_IN_GPU', '59')):02X}:00.0"
    return types.SimpleNamespace(
        runtime=runtime,
        Stream=Stream,
        ExternalStream=ExternalStream,
        Event=Event,
        MemoryPool=MemoryPool,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        get_current_stream=current,
        get_elapsed_time=lambda start, end: 1.5,
        using_allocator=using_allocator,
        set_allocator=lambda function: _ALLOCATOR.append(function),
    )


def _synchronize() -> None:
    """The host waits for all streams."""
    for stream in [*_STREAMS]:
        stream.settle()
        _merge(DEVICE.host, stream.clock)
