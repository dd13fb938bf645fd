"""Streams, events and the choice of a GPU, where there is none: PyTorch's classes raise when they are made, blocks of None run."""

from __future__ import annotations

from typing import Any, NoReturn

from ferro.core.device import device as _Device

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
        raise RuntimeError(
            f"Tried to instantiate dummy base class {cls.__name__}: torch.cuda.Stream requires CUDA support, and {_HINT}"
        )


class Stream(_NeedsGPU):
    """A queue of work for a GPU: RuntimeError when it is made."""


class ExternalStream(Stream):
    """A stream that another library has made: RuntimeError when it is made."""


class Event(_NeedsGPU):
    """A mark in a queue of work: RuntimeError when it is made. `time.perf_counter()` measures on the CPU."""


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
        if self.idx is None or self.idx >= 0:
            raise RuntimeError(f"PyTorch was compiled without CUDA support: {_HINT}")

    def __exit__(self, *exc: object) -> None:
        pass


class device_of(device):
    """A block on the GPU of a tensor: for tensors on the CPU it changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)
