"""What a GPU does not compute here: errors that name the function and the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np


class Lacking(NotImplementedError):
    """CuPy has not what a formula asks for."""


def named(name: str, function: Callable) -> Callable:
    """The function, whose NotImplementedError says its name and the device. NumPy's arrays of no dimension become numbers, which
    CuPy takes.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*[a[()] if type(a) is np.ndarray and not a.ndim else a for a in args], **kwargs)
        except Lacking as error:
            said = str(error)
            if "device 'cuda'" in said:
                raise
            raise Lacking(
                f"{name} is not there on device 'cuda': CuPy has not {said}; .cpu() brings a tensor to where it is"
            ) from None

    return run


def refusal(name: str) -> Callable:
    """What stands in the place of a function that is not there."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Lacking(f"{name} is not there on device 'cuda' yet; .cpu() brings a tensor to where it is")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse
