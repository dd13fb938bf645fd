"""Backends: which module of array functions (`xp`) serves which type of array. No other file of the core knows NumPy's arrays by name.

Note [Backends].  A backend is a type of arrays and a module with the functions of `ferro.cpu` under the same names, for
those operations that are to run on it; of the functions in `ferro/xp.py` it has those that it does better than they. An
array has shape, dtype (NumPy's), ndim, size, itemsize, strides, flags, Python's operators, indexing, and the methods
that formulas use: conj, real, imag, T, reshape, astype, copy, fill, item, sum and their like. Its `base` is None only if no
other array shows its memory. Numbers, 0-d arrays of NumPy's among them, may stand wherever a function takes an array.

Where the memory is not the processor's, the module has a `device` (the device type, such as "privateuseone"), and
``from_host(array)`` and ``to_host(array)``, which copy; ``library``, which has NumPy's names for these arrays, for vmap; perhaps
``pinned(array)``, ``is_pinned(array)`` and ``from_pinned(array)`` for copies that nobody waits for. Then ``tensor.to(device)`` and
``device=`` bring tensors there, 0-d tensors are brought along where they meet others, and all else that meets must lie on one device.

A module that looks at operations, not at the steps they are made of, has ``whole(op)``: the function of (arrays,
parameters) that stands for the operation's forward, and ``large_formulas(plan)``, the formulas for gradients that are large
arrays. The graphs that are captured have both, and ``require(array, error, message)``, which notes a condition of the data instead
of asking it (requirements.py; ferro/graph/array.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import LIBRARIES, SERVING, Batched, plain
from ferro.batched.array import new_array as _new_batched
from ferro.core.device import CPU, DEVICE_BACKENDS, LAZY, device
from ferro.xp import complete

# The arrays that lie in the memory of the processor: those of the backend which is always there. The short forms of
# the tape, in Python and in machine code, ask whether an array is one of these and leave any other to the general form.
HOST = np.ndarray

_MODULES: dict[type, Any] = {}
DEVICES: list[type] = []  # the types whose arrays lie on devices of their own

# What lies above those who use it, and enters itself: the class Tensor (ferro.tensor), the functions of tensors
# (ferro.functional), the recorder (core/apply.py), and the function that Tensor.backward is (autograd/backward.py).
tensor_class: Any = None
functional: Any = None
apply: Any = None
backward: Any = None


def register(array_type: type, module: Any) -> None:
    """Makes tensors of another type of arrays possible; see Note [Backends]. TypeError for a type that has a backend already."""
    if module_of(array_type) is not None:
        raise TypeError(f"register: {array_type.__name__} has a backend already")
    name = getattr(module, "device", None)
    if name is not None:
        if name in DEVICE_BACKENDS:
            raise ValueError(f"register: the device type {name} has a backend already")
        DEVICE_BACKENDS[name] = module
        DEVICES.append(array_type)
        SERVING[array_type] = module
        library = getattr(module, "library", None)
        if library is not None:
            LIBRARIES[array_type] = library
    complete(module)
    _MODULES[array_type] = module


def enter(array_type: type, module: Any) -> None:
    """The same for what stands for arrays of a device that has a backend."""
    complete(module)
    DEVICES.append(array_type)
    _MODULES[array_type] = module


def module_of(array_type: type) -> Any:
    """The module of array functions that serves a type of arrays; None if there is none."""
    return cpu if array_type is HOST else _MODULES.get(array_type)


def beside(array: Any, given: Any) -> Any:
    """A NumPy array, brought to the backend of `array` where that lies on another device."""
    if type(array) is HOST:
        return given
    bring = getattr(xp_of(plain(array)), "from_host", None)
    return given if bring is None or type(given) is not HOST else bring(given)


def on_host(array: Any) -> Any:
    """The array, brought to the processor where it lies on a device; what is no array as it is."""
    bring = None if isinstance(array, (HOST, np.generic)) else getattr(_MODULES.get(type(array)), "to_host", None)
    return array if bring is None else bring(array)


def new_array(like: Any, shape: tuple, make: Any, *args: Any) -> Any:
    """make(shape, *args), a NumPy array, on the backend of `like`; where that is batched, one for each slice."""
    if type(like) is HOST:
        return make(shape, *args)
    return _new_batched(like, shape, lambda s: beside(like, make(s, *args)))


def asked(array: Any, what: str) -> None:
    """Tells the backend of an array that the program is about to wait for its numbers."""
    tell = getattr(_MODULES.get(type(array)), "asked", None)
    if tell is not None:
        tell(what)


def is_host(array: Any) -> bool:
    """Whether an array lies in memory as NumPy's do: it is one, or stands for one while a graph is captured."""
    return type(array) is HOST or getattr(array, "stands_for_host", False)


def is_numpy(array: Any) -> bool:
    """Whether an array is NumPy's own: for what looks at its elements to take a shorter way, and never does while a graph is captured."""
    return type(array) is HOST


def is_writable(array: Any) -> bool:
    """Whether an array may be written to: those of a backend that has no such mark may."""
    return getattr(array.flags, "writeable", True)


def device_of(array: Any) -> device:
    """The device on which an array lies."""
    module = None if type(array) is HOST else xp_of(plain(array))
    name = getattr(module, "device", None)
    return CPU if name is None else device(name, getattr(module, "index", None))


def address(array: Any) -> int:
    """The address of the first element of an array; 0 if there is none."""
    if not array.size:
        return 0
    found = getattr(_MODULES.get(type(array)), "address", None)
    return array.ctypes.data if found is None else found(array)


def moved(array: Any, to: device, waits: bool = True) -> Any:
    """The array on a device, itself if it lies there; if it need not be waited for, from pinned memory while the program goes on."""
    at = device_of(array)
    if at.type == to.type:
        return array
    if type(array) is Batched:
        return Batched(moved(array.physical, to, waits), array.level)
    host = array if at is CPU else xp_of(array).to_host(array)
    if to.type == CPU.type:
        return host
    module = DEVICE_BACKENDS[to.type]
    return module.from_host(host) if waits or not hasattr(module, "from_pinned") else module.from_pinned(host)


def on_device(asked: str) -> Any:
    """The module of the device whose arrays other libraries hand over; RuntimeError where there is none."""
    module = accelerator()
    if module is None:
        raise RuntimeError(
            f"{asked}: the array lies on a GPU, and ferro has no device to take it: ask cuda.is_available() first"
        )
    return module


def is_pinned(array: Any) -> bool:
    """Whether an array of the processor's lies in memory that some device can copy from while the program goes on."""
    return type(array) is HOST and any(
        module.is_pinned(array) for module in DEVICE_BACKENDS.values() if hasattr(module, "is_pinned")
    )


def accelerator() -> Any:
    """The module of a device other than the processor whose memory can be copied to from pinned memory; None if there is none."""
    for name, load in LAZY.items():
        if name in DEVICE_BACKENDS or load() is None:
            return DEVICE_BACKENDS[name]
    return None


def whole(xp: Any, op: Any) -> Any:
    """What a backend has in the place of an operation's forward function; None if that runs."""
    found = getattr(xp, "whole", None)
    return None if found is None else found(op)


def large_formulas(xp: Any, plan: Any) -> tuple:
    """The formulas of a plan for gradients that are large arrays of a backend."""
    if xp is cpu:
        return plan.large or plan.for_large()
    found = getattr(xp, "large_formulas", None)
    return plan.formulas if found is None else found(plan)


def xp_beside(array: Any, saved: Any) -> Any:
    """The module of array functions where an array meets the saved values of a node."""
    if (type(array) is HOST or type(array) in SERVING) and type(saved) is tuple:
        found = {
            type(getattr(v, "_data", v)) for value in saved for v in (value if type(value) is tuple else (value,))
        } & {*_MODULES}
        others = found - {*SERVING}  # (what is batched decides before a device)
        if others or (found and type(array) is HOST):
            return _MODULES[next(iter(others or found))]
    return xp_of(array)


def deciding(xp: Any, array: Any) -> Any:
    """The module that serves an array beside others that `xp` serves: a device decides before NumPy's, what is batched before a device."""
    found = xp_of(array)
    if xp is cpu:
        return found
    if type(array) in DEVICES:
        return xp if getattr(xp, "device", None) or not getattr(xp, "stands_for_host", False) else found
    return xp if getattr(xp, "device", None) and getattr(array, "stands_for_host", False) else found


def xp_of(array: Any) -> Any:
    """The module of array functions that serves an array; TypeError if there is none."""
    if type(array) is HOST or isinstance(array, (HOST, np.generic)):
        return cpu
    if type(array) in _MODULES:
        return _MODULES[type(array)]
    raise TypeError(f"no backend serves {type(array).__name__}; ferro computes on numpy.ndarray")
