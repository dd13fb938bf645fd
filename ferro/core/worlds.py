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
one_step: Any = None  # from the array of a base to that of a view, as steps; None if there is none
COPY_SLICES: Any = None  # the history of a base after a write through a view


def world(array: Any) -> Any:
    """The module of array functions for an array that is not a NumPy one."""
    if isinstance(array, (ndarray, np.generic)):
        return cpu
    raise TypeError(f"no world of arrays serves {type(array).__name__}; ferro computes on numpy.ndarray")
