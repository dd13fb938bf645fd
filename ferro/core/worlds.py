"""The worlds of arrays: which module of functions (`xp`) serves which kind of array.  Upper layers register theirs here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu

ndarray = np.ndarray

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
WORLDS: dict[type, Any] = {}  # of arrays other than NumPy's, by their class
with_levels: Any = None  # an array with the levels of what is to be written into it
leave_levels: Any = None  # a gradient, batched at the levels of a vmap, outside of the function that ran there
one_step: Any = None  # from the array of a base to that of a view, as steps; None if there is none
sparse_of: Any = None  # the sparse tensor of Rows
complex_half: Any = None  # a tensor as one of complex32
sparse_tensor: Any = None  # the class of sparse tensors, once there may be any
sparse_empty: Any = None  # zeros() and empty() of a sparse layout
COPY_SLICES: Any = None  # the history of a base after a write through a view


def levels_of(array: Any) -> list:
    """The levels of vmap that an array is batched at."""
    found = []
    while type(array) is not ndarray and hasattr(array, "level"):
        found.append(array.level)
        array = array.physical
    return found


def world_of(array: Any, saved: Any) -> Any:
    """The world in which an array meets the saved values of a node."""
    if type(array) is ndarray and type(saved) is tuple:
        for value in saved:
            for v in value if type(value) is tuple else (value,):
                a = getattr(v, "_data", v)
                if type(a) in WORLDS:
                    return WORLDS[type(a)]
    return world(array)


def world(array: Any) -> Any:
    """The module of array functions for an array that is not a NumPy one."""
    if isinstance(array, (ndarray, np.generic)):
        return cpu
    if type(array) in WORLDS:
        return WORLDS[type(array)]
    raise TypeError(f"no world of arrays serves {type(array).__name__}; ferro computes on numpy.ndarray")
