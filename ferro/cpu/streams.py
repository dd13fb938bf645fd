"""What programs for any device ask the module of theirs: the CPU has one stream, in which work is done when a call returns."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """The stream of the CPU: what is said to it is done already."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Waits for what is done."""

    def record_event(self) -> None:
        """Marks what is done."""

    def wait_event(self, event: Any) -> None:
        """Waits for what is done."""


class Event:
    """A mark in that stream."""

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def query(self) -> bool:
        """Whether the work before it is done: True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Marks what is done."""

    def synchronize(self) -> None:
        """Waits for what is done."""

    def wait(self, stream: Any = None) -> None:
        """Waits for what is done."""


class StreamContext:
    """A block in a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


_ONLY = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream of the CPU."""
    return _ONLY


def stream(stream: Any) -> StreamContext:
    """A block in a stream: it changes nothing."""
    return StreamContext(stream)


def synchronize(device: Any = None) -> None:
    """Waits for the CPU, which is done."""


def current_device() -> str:
    """The name of the device: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Chooses the device, of which there is one."""


def device_count() -> int:
    """The number of CPUs as PyTorch counts: 1."""
    return 1


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


def is_initialized() -> bool:
    """Whether it can be used: True."""
    return True
