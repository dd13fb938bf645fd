"""Whether nobody else refers to an object, told by its reference count.

What `getrefcount` shows for an object that one local variable holds depends on the version: every function that it is
handed to adds one, or none since CPython 3.14, where arguments are borrowed from the caller's variable.  So the count is
looked at in one function, called in one way, and what it shows there is measured at import: for an object that a
function's caller alone holds, and for one that something else holds as well.  If these do not differ, nothing is sole.

What is borrowed is invisible: two frames may hold an object of which there is one count, if one was called, at
whatever distance, by the other.  So the caller's variable must have a reference of its own: it comes from a list, a
dictionary or an attribute, or is what a function returned, and is not an argument in its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np


def count(x: Any) -> int:
    """What getrefcount shows here."""
    return getrefcount(x)


def is_sole(array: Any) -> bool:
    """In a function that was called with a local variable of its caller: whether that alone refers to the array's memory."""
    return array.base is None and count(array) == SOLE and _has_own_memory(array)


def is_shared(x: Any) -> bool:
    """In the function whose local variable `x` is: whether anything else refers to the object."""
    return count(x) != SOLE_HERE


def is_alone(array: Any) -> bool:
    """In the function whose local variable `array` is: whether that alone refers to its memory."""
    return array.base is None and count(array) == SOLE_HERE and _has_own_memory(array)


UNSHARED: dict[
    type, Callable[[Any], bool]
] = {}  # by types of arrays on devices: whether no other array lies in the memory of one


def _has_own_memory(array: Any) -> bool:
    """Whether the memory of an array that has no base may be written, and is no other's."""
    flag = getattr(array.flags, "writeable", None)
    if flag is None:
        unshared = UNSHARED.get(type(array))
        return unshared is not None and unshared(array)
    return flag


class _Holder:
    __slots__ = ("array",)


def _look(array: Any) -> int:
    """The way of `is_sole`: an argument that is handed on."""
    return _as_is_sole(array)


def _as_is_sole(array: Any) -> int:
    return count(array)


def _look_here(array: Any) -> int:
    """The way of `is_shared`."""
    return count(array)


def _suspended(array: Any) -> Any:
    """A generator whose frame holds the array."""
    yield
    yield array


def _calibrate(look: Any) -> int:
    """The count of a sole object on the way of `look`; 0, which no object has, if one that is shared shows the same."""
    made: list[Any] = [np.empty(1)]
    array = made[0]
    made[0] = None
    sole = look(array)
    shared = []
    made[0] = array
    shared.append(look(array))
    made[0] = None
    holder = _Holder()
    holder.array = array
    shared.append(look(array))
    del holder
    generator = _suspended(array)
    shared.append(look(array))
    next(generator)
    shared.append(look(array))
    del generator
    view = array[:]
    shared.append(look(array))
    del view
    second = array
    shared.append(look(array))
    del second
    again = look(array)
    return sole if sole == again and min(shared) > sole else 0


SOLE = _calibrate(_look)
SOLE_HERE = _calibrate(_look_here)
