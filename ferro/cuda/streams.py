"""Streams, events and the choice of a GPU: classes of PyTorch's that raise when they are made, since they are not there yet."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro.core.device import device as _Device
from ferro.cuda import driver

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "device",
    "device_of",
    "graph",
    "set_stream",
    "stream",
]

_HINT = "ferro computes on the CPU, where work is done when a call returns; ask cuda.is_available() first"


class _NeedsGPU:
    """A class of PyTorch's that holds something of a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        if driver.available():
            raise NotImplementedError(f"cuda.{cls.__name__} is not there yet: all work goes to CuPy's current stream")
        raise RuntimeError(
            f"Tried to instantiate dummy base class {cls.__name__}: torch.cuda.Stream requires CUDA support, and {_HINT}"
        )


class Stream(_NeedsGPU):
    """A queue of work for a GPU: RuntimeError without one, NotImplementedError with one."""


class ExternalStream(Stream):
    """A stream that another library has made: RuntimeError when it is made."""


class Event:
    """A mark in the work of a GPU, with the time at which it was reached; RuntimeError without a GPU.

    - `enable_timing` (bool, default False): whether `elapsed_time` may be asked
    - `blocking`, `interprocess` (bool, default False): as in PyTorch; `interprocess` is not there
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not driver.available():
            raise RuntimeError(
                f"Tried to instantiate dummy base class Event: torch.cuda.Event requires CUDA support, and {_HINT}"
            )
        return object.__new__(cls)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("cuda.Event: interprocess=True is not there")
        self._timed = enable_timing
        self._event = driver.cupy().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Any = None) -> None:
        """Sets the mark behind all work that the GPU has been given."""
        self._event.record()

    def query(self) -> bool:
        """Whether the GPU has reached the mark."""
        return bool(self._event.done)

    def synchronize(self) -> None:
        """Waits until the GPU has reached the mark."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this mark to another, both of which have been reached."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return float(driver.cupy().cuda.get_elapsed_time(self._event, end_event._event))


class CUDAGraph(_NeedsGPU):
    """Work of a GPU that was recorded to be repeated: RuntimeError when it is made."""


class graph(_NeedsGPU):
    """The block whose work a CUDAGraph records: RuntimeError when it is made."""


class StreamContext:
    """A block in a stream; in None, the only one that there is here, it changes nothing.

    >>> import ferro
    >>> with ferro.cuda.stream(None):
    ...     ferro.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            Stream()

    def __exit__(self, *exc: object) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """`StreamContext`, as programs write it."""
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    """Chooses a stream: None, and RuntimeError for others, which there are not."""
    if stream is not None:
        Stream()


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
