"""Devices: where the data of a tensor live."""

from __future__ import annotations

from typing import Any


class device:
    """A device such as ``ferro.device("cpu")`` or ``ferro.device("cuda", 0)``; compares equal to its like."""

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
        if type not in ("cpu", "cuda", "meta"):
            raise RuntimeError(f"device: expected one of cpu, cuda device type at start of device string: {type}")
        self.type, self.index = type, index

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


def check(given: Any) -> device:
    """The device an argument names; RuntimeError for one that this machine or ferro has not."""
    if given is None:
        return CPU
    d = device(given) if not isinstance(given, device) else given
    if d.type != "cpu":
        raise RuntimeError(f"device {str(d)!r} is not available: this build of ferro computes on the CPU")
    return d
