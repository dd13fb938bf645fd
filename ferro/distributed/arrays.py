"""The functions for arrays of the processor, and those of the same names for arrays of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core.backend import is_host
from ferro.cuda import driver

__all__ = ["in_order", "is_host", "numpy_of"]


def numpy_of(array: Any) -> Any:
    """NumPy, or CuPy for an array of a GPU."""
    return np if is_host(array) else driver.cupy()


def in_order(array: Any) -> Any:
    """A copy with the elements one behind the other."""
    return numpy_of(array).array(array, order="C")
