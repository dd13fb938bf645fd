"""The version of PyTorch that ferro follows, as a string that also compares by its numbers."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|rc|dev)\.?(\d*))?(?:\+([\w.]+))?")
_STAGES = ("dev", "a", "b", "rc", None)  # the last is the release


class TorchVersion(str):
    """A version as a string that also compares by numbers: with strings such as "2.10" and with tuples such as (2, 10).

    Raises: TypeError for a comparison by `<` and its like with anything else.

    Example::

        >>> from ferro.torch_version import TorchVersion
        >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
        (True, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        pair = _pair(self, other)
        return pair if pair is NotImplemented else pair[0] < pair[1]

    def __le__(self, other: Any) -> bool:
        pair = _pair(self, other)
        return pair if pair is NotImplemented else pair[0] <= pair[1]

    def __gt__(self, other: Any) -> bool:
        pair = _pair(self, other)
        return pair if pair is NotImplemented else pair[0] > pair[1]

    def __ge__(self, other: Any) -> bool:
        pair = _pair(self, other)
        return pair if pair is NotImplemented else pair[0] >= pair[1]

    def __eq__(self, other: object) -> bool:
        pair = _pair(self, other)
        return pair if pair is NotImplemented else pair[0] == pair[1]

    __hash__ = str.__hash__


def _pair(mine: str, other: Any) -> Any:
    """What stands for the two in a comparison: their numbers, or the strings if one is no version."""
    if isinstance(other, (tuple, list)):
        other = ".".join(map(str, other))
    elif not isinstance(other, str):
        return NotImplemented
    a, b = _VERSION.fullmatch(mine), _VERSION.fullmatch(other)
    return (_key(a), _key(b)) if a and b else (str(mine), str(other))


def _key(found: re.Match[str]) -> tuple[Any, ...]:
    """The place of a version among others (PEP 440): zeros at the end say nothing, "2.14.0a0" lies before "2.14"."""
    numbers, stage, count, local = found.groups()
    release = tuple(map(int, re.sub(r"(\.0+)+$", "", numbers).split(".")))
    return release, _STAGES.index(stage), int(count or 0), local or ""
