"""Where the tensors come from that meet on two devices: what an error says of each of them.

A tensor with a history has the line in its node. Of others, new ones and those that were brought to a device, it is noted as soon as
there is a device beside the processor; nothing is before.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ferro.batched.array import SERVING
from ferro.core import backend, dtypes
from ferro.core.backend import HOST
from ferro.core.node import OutputRef
from ferro.core.provenance import CodeLocation, at, caller, outermost

# By the identity of arrays, as long as they live: that array, what made it, and where.
_MADE: dict[int, tuple[Any, str, CodeLocation]] = {}


def note(array: Any, name: str) -> None:
    """Notes that the operation `name`, which the program calls here, has made an array or brought it to its device."""
    kind = type(array)
    if (
        kind is not HOST and kind not in SERVING
    ) or not kind.__weakrefoffset__:  # (what is batched or stands for an array)
        return
    key = id(array)
    _MADE[key] = weakref.ref(array, lambda _: _MADE.pop(key, None)), name, caller(2)


def on_one_device(name: str, *tensors: Any) -> None:
    """Refuses tensors of two devices, for an operation that looks at their arrays itself; what has no dimension may be anywhere."""
    if not backend.DEVICES:
        return
    found: dict[str, tuple] = {}
    for t in tensors:
        array = getattr(t, "_data", None)
        if array is not None and array.ndim:
            device = backend.device_of(array)
            found.setdefault(device.type, (device, t, array))
    if len(found) > 1:
        raise two_devices(name, *sorted(found.values(), key=lambda of: of[0].type == "cpu"))


def two_devices(name: str, there: tuple[Any, Any, Any], here: tuple[Any, Any, Any]) -> RuntimeError:
    """The error of an operation whose tensors lie on two devices: (device, tensor, its array) of one on each."""
    return RuntimeError(
        f"{name}: Expected all tensors to be on the same device, but found at least two devices, {there[0].type} and {here[0].type}! "
        f"{_told(*there)}; {_told(*here)}. Bring one to the other with .to(device)."
    )


def _told(device: Any, tensor: Any, array: Any) -> str:
    """A tensor in words: its name in the program, shape and dtype, device, and the line that it comes from."""
    dtype = dtypes.FROM_NUMPY.get(array.dtype)
    what = f"{_name_of(tensor)} ({dtype.name if dtype else array.dtype} {list(array.shape)})"
    return f"{what} lies on {device}{_origin(tensor, array)}"


def _name_of(tensor: Any) -> str:
    """What the program calls a tensor where it calls the operation; "a tensor" if it has no name there."""
    found = outermost(sys._getframe(1)).f_locals
    return next((f"`{name}`" for name, value in found.items() if value is tensor), "a tensor")


def _origin(tensor: Any, array: Any) -> str:
    """Which operation it comes from, and its line: "" where neither is known."""
    node = tensor._node
    node = node.node if type(node) is OutputRef else node
    plan = getattr(node, "plan", None)
    if plan is not None:
        return f", a result of '{plan.op.name}'{at(node.location)}"
    mark = getattr(tensor._meta, "detached", None)
    if mark is not None:
        return f", without history since {mark}"
    made, name, location = _MADE.get(id(array), (None, "", None))
    return f", where '{name}' put it{at(location)}" if made is not None and made() is array else ""
