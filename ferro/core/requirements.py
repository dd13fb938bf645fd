"""Conditions of the data: what raises if it does not hold. A graph that is captured asks again in each replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.backend import HOST


def require(holds: Any, kind: type[Exception], message: str, more: Callable[[], str] | None = None) -> None:
    """Raises `kind` with a message unless all of a boolean array is true; ``more()`` is the end of the message, read from the data."""
    holds = plain(holds)
    if not isinstance(holds, (bool, np.generic, HOST)):
        ask = getattr(backend.xp_of(holds), "require", None)
        if ask is not None:
            ask(holds, kind.__name__, message)
            return
    if not (holds if isinstance(holds, bool) else holds.all()):
        raise kind(message if more is None else message + more())
