"""Streams, events and graphs of a GPU: classes that programs name in annotations, and contexts that change nothing.

Making one raises, as in a build of PyTorch without CUDA.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any


class _NeedsGPU:
    """A class of PyTorch's that holds something of a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"Tried to instantiate dummy base class {cls.__name__}: torch.cuda.{cls.__name__} requires CUDA support, and ferro "
            "computes on the CPU only, where work is done when a call returns. Ask cuda.is_available() first"
        )


class Stream(_NeedsGPU):
    """A queue of work for a GPU: RuntimeError when it is made."""


class ExternalStream(Stream):
    """A stream that another library has made: RuntimeError when it is made."""


class Event(_NeedsGPU):
    """A place in a queue of work: RuntimeError when it is made."""


class CUDAGraph(_NeedsGPU):
    """Work of a GPU that was recorded to be repeated: RuntimeError when it is made."""


class graph(_NeedsGPU):
    """The block whose work a CUDAGraph records: RuntimeError when it is made."""


class StreamContext:
    """``with cuda.stream(None)``: None, the stream of a machine without GPUs, is the one there is, and nothing changes.

    >>> import ferro
    >>> with ferro.cuda.stream(None):
    ...     x = ferro.ones(2)
    """

    def __init__(self, stream: None) -> None:
        if stream is not None:
            raise TypeError(
                f"cuda.stream: a cuda.Stream or None is needed, got {type(stream).__name__}; there is no GPU, so None"
            )
        self.stream = stream

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing changes back."""


class device:
    """``with cuda.device(-1)``: a negative index changes nothing; a GPU's own raises, since there is none.

    Raises: ValueError for another kind of device, AssertionError for a GPU when the block is entered.
    """

    def __init__(self, device: Any) -> None:
        from ferro.core.device import device as Device

        if isinstance(device, (str, Device)):
            named = Device(device) if isinstance(device, str) else device
            if named.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {named}")
            device = 0 if named.index is None else named.index
        self.idx = 0 if device is None else int(device)

    def __enter__(self) -> None:
        """AssertionError for a GPU: there is none."""
        if self.idx >= 0:
            raise AssertionError(
                f"Torch not compiled with CUDA enabled: cuda.device({self.idx}) needs a GPU, and ferro computes on the CPU only. "
                "Ask cuda.is_available() first"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing changes back."""


class device_of(device):
    """``with cuda.device_of(x)``: the tensor is on the CPU, and nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device())


stream = StreamContext
