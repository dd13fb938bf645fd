"""Graphs with arrays on devices: where an array lies, what stands for it, and the functions of nodes there.

Note [Graphs of a device].  A value says on which device it lies, and a node calls the functions of the device of its values: the
operation's forward, the backend's function of that name, a method of its arrays. So the names are those of the CPU, and what a
capture notes is what eager runs there: no program, entry or chain of the CPU takes part. Views lie there as they do in NumPy's memory,
so what a pass asks of them it asks of NumPy's arrays of the same shapes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from ferro.batched.array import SERVING
from ferro.core import backend
from ferro.core.accumulate import add
from ferro.core.backend import HOST
from ferro.core.device import DEVICE_BACKENDS
from ferro.core.op import OPS
from ferro.elementwise import DECLARED
from ferro.graph.ir import Node, Value, values_in


def is_real(array: Any) -> bool:
    """Whether this is an array of numbers, of NumPy's or of a device, and stands for no other."""
    return type(array) is HOST or type(array) in SERVING


def shares(x: Any, y: Any) -> bool:
    """Whether two arrays may show the same memory."""
    if type(x) is HOST and type(y) is HOST:
        return np.may_share_memory(x, y)
    return type(x) is type(y) and bool(backend.xp_of(x).may_share_memory(x, y))


def as_array(found: Any) -> Any:
    """What a function gave as an array: NumPy's numbers too."""
    return found if type(found) in SERVING else np.asarray(found)


def device_name(array: Any) -> str:
    """The device on which an array lies; empty for the CPU."""
    found = backend.device_of(array).type
    return "" if found == "cpu" else found


def device_of(node: Node) -> str:
    """The device whose functions a node calls; empty for the CPU."""
    return device_in([*node.outputs, *values_in((*node.args, *node.kwargs.values()))])


def device_in(values: list[Value]) -> str:
    """The device on which some of these values lie; empty if they all lie on the CPU."""
    return next((v.device for v in values if v.device), "")


# -------------------------------------------------------------------- functions


def _method(name: str) -> Callable:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def fill(x: Any, value: Any) -> None:
    """Writes one number to all places of an array."""
    x.fill(value)


def total(*parts: Any) -> Any:
    """The sum of contributions to one gradient, added as the engine adds them: one after the other, in their order."""
    found = add(parts[0], parts[1])
    for part in parts[2:]:
        found = add(found, part)
    return as_array(found)


def _pieces(library: Any) -> Callable:
    def pieces(shape: tuple, gaps: bool, keys: tuple, *parts: Any) -> Any:
        out = (library.zeros if gaps else library.empty)(shape, parts[0].dtype)
        for key, part in zip(keys, parts, strict=True):
            out[key] = part
        return out

    return pieces


def forward_of(op: Any, module: Any) -> Callable:
    """The function of arrays and parameters by which eager computes an operation there."""
    return backend.whole(module, op) or partial(op.forward, module)


def _unless_recorded(module: Any, check: Callable) -> Callable:
    """A question to the data, which is not asked while a CUDA graph is recorded: nothing is computed then."""

    def asked(*args: Any) -> None:
        recording = getattr(module, "is_recording", None)
        if recording is None or not recording():
            check(*args)

    return asked


def _is_within(module: Any) -> Callable:
    def within(index: Any, low: int, high: int) -> None:
        if index.size and not module.is_within(index, low, high):
            raise IndexError(f"index out of range: one of [{low}, {high}) was expected")

    return within


@cache
def function_there(name: str, device: str, here: Callable | None) -> Callable | None:
    """The function of a node on a device, `here` being that of the CPU; None if there is none of that name."""
    module, op = DEVICE_BACKENDS[device], OPS.get(name)
    if op is not None:
        return forward_of(op, module)
    space, _, rest = name.partition(".")
    if name == "xp.from_host":
        return module.from_host
    if here is None:
        return None
    if space == "xp":
        return getattr(module, rest, None)
    if space == "numpy":
        return getattr(module.library, rest, None)
    if space == "elementwise":
        return partial(module.elementwise, DECLARED[rest])
    if space == "array":
        return _of_arrays(module, rest)
    if space == "check":
        return _unless_recorded(module, _is_within(module) if rest == "is_within" else here)
    return here if space in ("program", "random", "tensor") else None


def _of_arrays(module: Any, name: str) -> Callable:
    own: dict[str, Callable] = {
        "fill": fill,
        "total": total,
        "pieces": _pieces(module.library),
        "getitem": operator.getitem,
        "setitem": operator.setitem,
    }
    if name in own:
        return own[name]
    found = getattr(operator, f"__{name}__", None)
    if found is not None:
        return found
    return operator.attrgetter(name) if name in ("real", "imag", "T") else _method(name)
