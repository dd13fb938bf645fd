"""Devices: where the data of a tensor live."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# The default devices of this context: the one that was set, if one was, and those of the blocks entered since.
_SET: ContextVar[device | None] = ContextVar("ferro_default_device", default=None)
_ENTERED: ContextVar[tuple[device, ...]] = ContextVar("ferro_devices_entered", default=())


# PyTorch's names; which of them there is says `check`.
TYPES = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)


class device:
    """A device such as ``ferro.device("cpu")`` or ``ferro.device("cuda", 0)``; compares equal to its like.

    As a context manager it is where the block's new tensors lie that name no device (:func:`set_default_device` says which functions
    heed it); RuntimeError for one that this machine or ferro has not.

    Example::

        >>> import ferro
        >>> with ferro.device("cpu"):
        ...     ferro.zeros(1).device
        device(type='cpu')
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        if not isinstance(type, str):
            raise TypeError(f"device: expected a string such as 'cpu' or 'cuda:0', got {type!r}")
        if ":" in type:
            if index is not None:
                raise RuntimeError(
                    f"device: type (string) must not include an index because index was passed explicitly: {type}"
                )
            type, _, number = type.partition(":")
            if not number.isdigit():
                raise RuntimeError(f"device: invalid index {number!r} in {type + ':' + number!r}")
            index = int(number)
        if type not in TYPES:
            raise RuntimeError(
                f"device: Expected one of {', '.join(TYPES)} device type at start of device string: {type}"
            )
        self.type, self.index = type, index

    def __enter__(self) -> device:
        known(self)
        _note(self)
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        entered = _ENTERED.get()
        for at in range(len(entered) - 1, -1, -1):  # blocks need not be left in the order in which they were entered
            if entered[at] is self:
                _ENTERED.set(entered[:at] + entered[at + 1 :])
                return

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple:
        return (device, (self.type, self.index))


CPU = device("cpu")
DEVICE_BACKENDS: dict[str, Any] = {}  # the backends of other devices by their type, see core/backend.py
# Backends that are loaded when their device is first named: functions that register one, or say why there is none.
LAZY: dict[str, Callable[[], str | None]] = {}
# Whether another device than the processor was ever the default one: as long as not, functions that make tensors do not ask.
_CHOSEN: list[bool] = []


def _note(chosen: device) -> None:
    if chosen.type != CPU.type and not _CHOSEN:
        _CHOSEN.append(True)


def set_default_device(device: Any) -> None:
    """Sets the device of new tensors that name none, a device or its name; None for the CPU.

    As in PyTorch, functions that make a tensor from sizes, numbers or sequences heed it, random ones too. What shares memory with
    something (`from_numpy`, `frombuffer`), is like a tensor (`zeros_like`) or has a tensor among its arguments does not.
    RuntimeError for a device that this machine or ferro has not.

    Example::

        >>> import ferro
        >>> ferro.set_default_device("cpu")
        >>> ferro.get_default_device()
        device(type='cpu')
    """
    chosen = None if device is None else known(device)
    if chosen is not None:
        _note(chosen)
    _SET.set(chosen)


def get_default_device() -> device:
    """The device of new tensors that name none."""
    entered = _ENTERED.get()
    found = entered[-1] if entered else _SET.get() or CPU
    return found if found.type == CPU.type or found.index is not None else device(found.type, 0)


def wanted(given: Any) -> Any:
    """The device that an argument names; where it is None, the default one unless that is the processor."""
    if given is not None or not _CHOSEN:
        return given
    found = get_default_device()
    return None if found.type == CPU.type else found


class NoDeviceError(RuntimeError, AssertionError):
    """A GPU is asked for: PyTorch raises AssertionError where it is built without them, RuntimeError where there is none."""


def check(given: Any) -> device:
    """The device an argument names; RuntimeError for one that this machine or ferro has not."""
    if given is None:
        return CPU
    d = device(given) if not isinstance(given, device) else given
    if d.type in ("cuda", "xpu"):
        why = LAZY[d.type]() if d.type in LAZY else "this build of ferro computes on the CPU"
        why = why or "what is asked for is made on the CPU only"
        raise NoDeviceError(
            f"Torch not compiled with {d.type.upper()} enabled: device {str(d)!r} is not available: {why}. Ask "
            f"{d.type}.is_available() first"
        )
    if d.type == "meta":
        raise RuntimeError(
            "device 'meta' is not available: ferro has no tensors without numbers. Make the model on the CPU, or with "
            "nn.utils.skip_init, which leaves its numbers unset; load_state_dict(state, assign=True) takes the loaded "
            "tensors themselves"
        )
    if d.type != "cpu":
        raise RuntimeError(f"device {str(d)!r} is not available: this build of ferro computes on the CPU")
    return d


def known(given: Any) -> device:
    """The device an argument names, which may be that of a registered backend; RuntimeError for any other."""
    d = device(given) if given is not None and not isinstance(given, device) else given
    if d is None or d.type == "cpu":
        return check(d)
    if d.type not in DEVICE_BACKENDS and (d.type not in LAZY or LAZY[d.type]() is not None):
        return check(d)
    if d.index:
        raise RuntimeError(
            f"device {str(d)!r} is not available: ferro uses one GPU, {d.type}:0; CUDA_VISIBLE_DEVICES chooses which one that is"
        )
    return d
