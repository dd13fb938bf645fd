"""The arguments of `Module.to`, taken apart, for libraries whose modules have a `to` of their own."""

from __future__ import annotations

from typing import Any

from ferro.nn.modules import _conversion


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The device, dtype (None for what is left open), `non_blocking` and memory format that the arguments of `to` ask for.

    >>> import ferro
    >>> ferro._C._nn._parse_to("cpu", ferro.float64)
    (device(type='cpu'), ferro.float64, False, None)
    """
    device, dtype, memory_format = _conversion._parse_to(args, kwargs)
    by_place = [flag for flag in args if isinstance(flag, bool)]
    return device, dtype, bool(by_place[0] if by_place else kwargs.get("non_blocking", False)), memory_format
