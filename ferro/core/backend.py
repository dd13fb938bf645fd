"""Backends: which module of array functions (`xp`) serves which type of array. No other file of the core knows NumPy's arrays by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu
from ferro.xp import complete

# The arrays that lie in the memory of the processor: those of the backend which is always there. The short forms of
# the tape, in Python and in machine code, ask whether an array is one of these and leave any other to the general form.
HOST = np.ndarray

_MODULES: dict[type, Any] = {}

# Registered by ferro.tensor and ferro.functional, which lie above the core; `apply` by core.apply (it needs base.py).
tensor_class: Any = None
functional: Any = None
apply: Any = None
backward: Any = None
forward_mode: Any = None
write_tangents: Any = None
tangents_of: Any = None
parallel: Any = None
CAST: Any = None  # cast to a dtype
CLONE: Any = None
VIEW_PUT: Any = None  # a copy of a base with new content in a view of it
with_levels: Any = None  # an array with the levels of what is to be written into it
leave_levels: Any = None  # a gradient, batched at the levels of a vmap, outside of the function that ran there
one_step: Any = None  # from the array of a base to that of a view, as steps; None if there is none
sparse_of: Any = None  # the sparse tensor of Rows
complex_half: Any = None  # a tensor as one of complex32
sparse_tensor: Any = None  # the class of sparse tensors, once there may be any
sparse_empty: Any = None  # zeros() and empty() of a sparse layout
COPY_SLICES: Any = None  # the history of a base after a write through a view


def register(array_type: type, module: Any) -> None:
    """Makes tensors of another type of arrays possible: `module` has the functions of `ferro.cpu` under the same names.

    TypeError for a type that has a backend already.
    """
    if array_type is HOST or array_type in _MODULES:
        raise TypeError(f"register: {array_type.__name__} has a backend already")
    complete(module)
    _MODULES[array_type] = module


def levels_of(array: Any) -> list:
    """The levels of vmap that an array is batched at."""
    found = []
    while type(array) is not HOST and hasattr(array, "level"):
        found.append(array.level)
        array = array.physical
    return found


def xp_beside(array: Any, saved: Any) -> Any:
    """The module of array functions where an array meets the saved values of a node."""
    if type(array) is HOST and type(saved) is tuple:
        for value in saved:
            for v in value if type(value) is tuple else (value,):
                a = getattr(v, "_data", v)
                if type(a) in _MODULES:
                    return _MODULES[type(a)]
    return xp_of(array)


def xp_of(array: Any) -> Any:
    """The module of array functions that serves an array; TypeError if there is none."""
    if isinstance(array, (HOST, np.generic)):
        return cpu
    if type(array) in _MODULES:
        return _MODULES[type(array)]
    raise TypeError(f"no backend serves {type(array).__name__}; ferro computes on numpy.ndarray")
