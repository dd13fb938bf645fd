"""Stream and Event on the CPU, where work is done when a call returns: they construct, and there is nothing to wait for."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from ferro import absent
from ferro.core.device import CPU
from ferro.core.device import device as _Device

__all__ = ["Event", "Stream", "get_device_module"]


def _place(given: Any) -> _Device:
    """The device of a stream or an event; RuntimeError unless it is the CPU."""
    if given is None:
        return CPU
    if isinstance(given, int):
        raise RuntimeError("Cannot access accelerator device when none is available. ferro computes on the CPU")
    found = _Device(given)
    if found.type != "cpu":
        raise RuntimeError(
            f"PyTorch is not linked with support for {found.type} devices: ferro computes on the CPU, leave the device out"
        )
    return found


class Event:
    """A mark in a stream, which on the CPU nobody can set: `query` and `wait` find all work done, `record` raises.

    - `device` (device, default None): must be None or "cpu"
    - `enable_timing` (bool, default False): whether `elapsed_time` may be asked (it raises here all the same)
    - `blocking`, `interprocess` (bool, default False): no effect on the CPU

    >>> import ferro
    >>> ferro.Event().query()
    True
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device, self.event_id, self._timed = _place(device), 0, enable_timing

    def query(self) -> bool:
        """Whether the work before the mark is done: True."""
        return True

    def synchronize(self) -> None:
        """Waits until the work before the mark is done: it is."""

    def wait(self, stream: Any = None) -> None:
        """Lets a stream wait for the mark: its work is done."""

    def record(self, stream: Any = None) -> None:
        """RuntimeError: the CPU has no marks; `time.perf_counter()` measures."""
        raise RuntimeError(
            "cpu backend doesn't support events. Work is done when a call returns: time.perf_counter() measures it"
        )

    def elapsed_time(self, end_event: Any) -> float:
        """ValueError: nothing has been recorded."""
        if not (self._timed and getattr(end_event, "_timed", False)):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError(
            "Both events must be recorded before calculating elapsed time. On the CPU they cannot be: time.perf_counter()"
        )

    def __repr__(self) -> str:
        return f"torch.Event device_type=cpu, device_index=-1, event_flag={int(self._timed)}, event_id=0"


class Stream:
    """The order in which work is done, of which the CPU has one; all streams are equal, and a block in one changes nothing.

    >>> import ferro
    >>> with ferro.Stream("cpu") as stream:
    ...     stream.query()
    True
    """

    device_index, device_type, stream_id = -1, 0, 0

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _place(device)

    def query(self) -> bool:
        """Whether all work is done: True."""
        return True

    def synchronize(self) -> None:
        """Waits until all work is done: it is."""

    def wait_event(self, event: Any) -> None:
        """Lets what comes wait for an event: its work is done."""

    def wait_stream(self, stream: Any) -> None:
        """RuntimeError: the CPU has no marks to wait for."""
        raise RuntimeError(
            "cpu backend doesn't support events. Work is done when a call returns: leave wait_stream() out"
        )

    def record_event(self, event: Any = None) -> Any:
        """RuntimeError: the CPU has no marks; `time.perf_counter()` measures."""
        Event().record() if event is None else event.record(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash((self.device_type, self.stream_id))

    def __repr__(self) -> str:
        return "torch.Stream device_type=cpu, device_index=-1, stream_id=0"


def get_device_module(device: Any = None) -> ModuleType:
    """The module that asks after a device: that of the CPU (None), `cuda`, `mps`, `xpu`, `mtia`; RuntimeError for others.

    >>> import ferro
    >>> ferro.get_device_module("cuda").is_available()
    False
    """
    kind = "cpu" if device is None else _Device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu", "mtia"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    root = absent.ROOTS[-1]  # `torch`, while ferro stands for it
    return sys.modules.get(f"{root}.{kind}") or import_module(f"{root}.{kind}")
