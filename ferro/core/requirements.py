"""Conditions of the data: what raises if it does not hold. A graph that is captured asks again in each replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.backend import HOST
from ferro.linalg_errors import LinAlgError, raise_first


def perhaps(some: Any) -> bool:
    """Whether anything in a boolean array is true; True where nobody knows, in a graph that is captured.

    For what is spared if nothing is: doing it must not change a bit then.
    """
    some = plain(some)
    return not isinstance(some, (bool, np.generic, HOST)) or bool(some.any() if not isinstance(some, bool) else some)


def warned(some: Any, message: str) -> bool:
    """Whether a condition of the data (a bool, or an array of one element) is true: then the caller's caller is warned.

    True where nobody knows, in a graph that is captured: each replay asks, and may warn.
    """
    some = plain(some)
    if isinstance(some, (bool, np.generic, HOST)):
        if some:
            warnings.warn(message, UserWarning, stacklevel=3)
        return bool(some)
    ask = getattr(backend.xp_of(some), "warned", None)
    if ask is None:
        return warned(bool(some), message)
    ask(some, message)
    return True


def fixed(array: Any) -> list:
    """The numbers of an array that say how other arrays are divided, as a list; a captured graph is for these numbers alone."""
    ask = None if type(array) is HOST else getattr(backend.xp_of(array), "fixed", None)
    return array.tolist() if ask is None else ask(array)


def require_accepted(name: str, info: Any, message: str, error: type[Exception] = LinAlgError) -> None:
    """`raise_first` for what LAPACK said of matrices; a captured graph asks again in each replay."""
    info = plain(info)
    ask = None if isinstance(info, (np.generic, HOST)) else getattr(backend.xp_of(info), "require_accepted", None)
    if ask is None:
        raise_first(name, backend.on_host(info), message, error)
    else:
        ask(name, info, message, error.__name__)


def require(holds: Any, kind: type[Exception], message: str, more: Callable[[], str] | None = None) -> None:
    """Raises `kind` with a message unless all of a boolean array is true; ``more()`` is the end of the message, read from the data."""
    holds = plain(holds)
    if not isinstance(holds, (bool, np.generic, HOST)):
        ask = getattr(backend.xp_of(holds), "require", None)
        if ask is not None:
            ask(holds, kind.__name__, message)
            return
        recording = getattr(backend.xp_of(holds), "is_recording", None)
        if recording is not None and recording():  # (nothing is computed now that could be asked)
            return
        backend.asked(holds, "a condition of the data")
    if not (holds if isinstance(holds, bool) else holds.all()):
        raise kind(message if more is None else message + more())
