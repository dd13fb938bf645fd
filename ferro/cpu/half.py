"""16-bit floats: functions compute them in float32, and round once at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ferro.cpu.kernels.common import is_half, widened
from ferro.cpu.kernels.conversions import converted


def rounded_once(function: Callable) -> Callable:
    """A decorator: the function, where the first array holds 16-bit floats of all of them as float32; floats among its results
    are rounded to those of the first array.
    """

    @wraps(function)
    def whole(x: Any, *rest: Any) -> Any:
        if not is_half(x):
            return function(x, *rest)
        found = function(widened(x), *map(widened, rest))
        return tuple([_rounded(one, x.dtype) for one in found]) if type(found) is tuple else _rounded(found, x.dtype)

    return whole


def _rounded(x: Any, dtype: Any) -> Any:
    return converted(x, dtype) if x.dtype == np.float32 else x
