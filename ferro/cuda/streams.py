"""Streams, events and the choice of a GPU: classes of PyTorch's over CuPy's; without a GPU they raise when they are made.

The current stream of a thread is CuPy's. What is recorded in another stream than the default one runs backward there, too
(following.py).
"""

from __future__ import annotations

from typing import Any, Self

from ferro.core.device import device as _Device
from ferro.cuda import driver
from ferro.cuda.devices import checked, needs_gpu
from ferro.cuda.following import follow, unfollow

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "set_stream",
    "stream",
]

_HINT = "ferro computes on the CPU, where work is done when a call returns; ask cuda.is_available() first"


class OfGPU:
    """The base of what belongs to a GPU: RuntimeError where there is none, as a build of PyTorch without CUDA answers."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not driver.available():
            raise RuntimeError(
                f"Tried to instantiate dummy base class {cls.__name__}: torch.cuda.Stream requires CUDA support, and {_HINT}"
            )
        return object.__new__(cls)


class Event(OfGPU):
    """A mark in the work of a GPU, with the time at which it was reached; RuntimeError without a GPU.

    - `enable_timing` (bool, default False): whether `elapsed_time` may be asked
    - `blocking` (bool, default False): whether `synchronize` lets the processor sleep
    - `interprocess` (bool, default False): NotImplementedError if True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("cuda.Event: interprocess=True is not there")
        self._timed, self._recorded = enable_timing, False
        self._event = driver.cupy().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Sets the mark behind all work that a stream, the current one if None, has been given."""
        self._event.record((stream or current_stream())._stream)
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Lets what a stream, the current one if None, is given from now on wait for the mark."""
        if self._recorded:
            (stream or current_stream())._stream.wait_event(self._event)

    def query(self) -> bool:
        """Whether the GPU has reached the mark; True where none was set."""
        return not self._recorded or bool(self._event.done)

    def synchronize(self) -> None:
        """Waits until the GPU has reached the mark."""
        if self._recorded:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this mark to another, both of which have been reached."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end_event._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(driver.cupy().cuda.get_elapsed_time(self._event, end_event._event))

    @property
    def cuda_event(self) -> int:
        """The address of CUDA's event."""
        return int(self._event.ptr)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


class Stream(OfGPU):
    """A queue of work for a GPU: what is in one stream runs in order, streams run beside each other. RuntimeError without a GPU.

    - `device` (device, default None): must be the first GPU
    - `priority` (int, default 0): a negative one goes before others

    Memory that was made in one stream and is read in another must live until that has run: see `Tensor.record_stream`. As a
    context manager a stream is the current one of the block.

    Example, on a machine with a GPU::

        side = ferro.cuda.Stream()
        side.wait_stream(ferro.cuda.current_stream())
        with ferro.cuda.stream(side):
            y = x @ x
        ferro.cuda.current_stream().wait_stream(side)
    """

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        checked(device)
        # CuPy, as CUDA, does not let such a stream wait for the default stream by itself; nor does PyTorch
        self._stream = driver.cupy().cuda.Stream(non_blocking=True, priority=priority or None)
        self.priority = priority

    @property
    def cuda_stream(self) -> int:
        """The address of CUDA's stream; 0 for the default one."""
        return int(self._stream.ptr)

    @property
    def device(self) -> _Device:
        """The GPU."""
        return _Device("cuda", 0)

    def query(self) -> bool:
        """Whether all work that it has been given is done."""
        return bool(self._stream.done)

    def synchronize(self) -> None:
        """Waits until it is."""
        self._stream.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """An event, a new one if None, as the mark behind all that the stream has been given."""
        found: Event = Event() if event is None else event
        found.record(self)
        return found

    def wait_event(self, event: Event) -> None:
        """Lets what comes wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Lets what comes wait for all that another stream has been given."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Self:
        StreamContext(self).__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        StreamContext(self).__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made and keeps alive, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        checked(device)
        self._stream, self.priority = driver.cupy().cuda.ExternalStream(int(stream_ptr)), 0


def _of(stream: Any) -> Stream:
    """A stream of CuPy's as one of PyTorch's."""
    found = object.__new__(Stream)
    found._stream, found.priority = stream, 0
    return found


@needs_gpu
def current_stream(device: Any = None) -> Stream:
    """The stream that this thread gives work to."""
    checked(device)
    return _of(driver.cupy().cuda.get_current_stream())


@needs_gpu
def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to where none is chosen."""
    checked(device)
    return _of(driver.cupy().cuda.Stream.null)


class StreamContext:
    """A block in a stream; None changes nothing.

    >>> import ferro
    >>> with ferro.cuda.stream(None):
    ...     ferro.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream._stream.__enter__()  # (CuPy keeps, by thread, what was current before)
            if self.stream.cuda_stream:
                follow(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            unfollow(self.stream)
            self.stream._stream.__exit__(None, None, None)


def stream(stream: Stream | None) -> StreamContext:
    """`StreamContext`, as programs write it."""
    return StreamContext(stream)


class _Chosen:
    """Stands for the stream that `set_stream` chose, in the chain of modes."""


_CHOSEN = _Chosen()


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one of this thread until another is set; None changes nothing."""
    if stream is None:
        return
    stream._stream.use()
    unfollow(_CHOSEN)
    if stream.cuda_stream:
        follow(_CHOSEN)


class device:
    """A block on a GPU, by its number or name; with a number below 0 it changes nothing, with another it raises when it begins.

    ValueError for another kind of device.
    """

    def __init__(self, device: Any) -> None:
        if isinstance(device, (str, _Device)):
            found = _Device(device)
            if found.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            self.idx: Any = found.index
        else:
            self.idx = device

    def __enter__(self) -> None:
        if self.idx == 0 and driver.available():
            return
        if self.idx is None or self.idx >= 0:
            raise RuntimeError(f"PyTorch was compiled without CUDA support: {_HINT}")

    def __exit__(self, *exc: object) -> None:
        pass


class device_of(device):
    """A block on the GPU of a tensor: for tensors on the CPU it changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)
