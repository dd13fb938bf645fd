"""What a GPU does not compute here: functions that the processor computes meanwhile, and errors that name the function and the device.

A trip to the processor is never silent: the first of each function warns, and `TRIPS` counts all. A function that changes its arguments is
not taken there: it raises.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import IN_PLACE, Batched, NotPlain, top
from ferro.batched.levels import ALIVE
from ferro.batched.rules import call
from ferro.cuda.driver import cupy
from ferro.cuda.waiting import MODE, WAITS, waits

TRIPS: Counter[str] = Counter()  # how often the processor computed a function for the GPU, by its name


class Lacking(NotImplementedError):
    """CuPy has not what a formula asks for."""


def named(name: str, function: Callable) -> Callable:
    """The function; where CuPy lacks what it asks for, the processor computes it. NumPy's arrays of no dimension become numbers,
    which CuPy takes.
    """
    instead = elsewhere(name)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if MODE[0] and name in WAITS:
            waits(name)
        if ALIVE and top(args) is not None:  # (a slice of a vmap beside an array that all slices share)
            if name.endswith("_") and type(args[0]) is not Batched:
                raise NotPlain(IN_PLACE)
            return call(name, *args, **kwargs)
        try:
            return function(*[a[()] if type(a) is np.ndarray and not a.ndim else a for a in args], **kwargs)
        except Lacking:
            return instead(*args, **kwargs)

    return run


def elsewhere(name: str) -> Callable:
    """What stands in the place of a function that is not there: that of the processor, and the way there and back."""

    def travel(*args: Any, **kwargs: Any) -> Any:
        if name.endswith("_"):
            raise Lacking(f"{name} is not there on device 'cuda' yet; .cpu() brings a tensor to where it is")
        TRIPS[name] += 1
        if TRIPS[name] == 1:
            warnings.warn(
                f"{name} is not there on device 'cuda': the CPU computes it, and its arrays travel there and back, now and each time. "
                "ferro.cuda.missing.TRIPS counts how often",
                stacklevel=2,
            )
        waits(name)
        given = {key: _each(_to_host, value) for key, value in kwargs.items()}
        return _each(_to_device, getattr(cpu, name)(*_each(_to_host, args), **given))

    travel.__name__ = travel.__qualname__ = name
    return travel


def _each(change: Callable, value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_each(change, v) for v in value])
    return change(value)


def _to_host(value: Any) -> Any:
    return value.get() if type(value) is cupy().ndarray else value


def _to_device(value: Any) -> Any:
    return cupy().asarray(value) if isinstance(value, (np.ndarray, np.generic)) else value
