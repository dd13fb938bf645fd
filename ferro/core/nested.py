"""A backward inside of many others goes on in another thread, whose stack is empty: the depth of nesting has no limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ferro.core.run import STATE

DEEP = 30  # nested backwards per thread; each takes a dozen frames of Python, of which there are a thousand by default


def must_move() -> bool:
    """Whether a backward that begins now is one too many for this thread.

    Within a leaf's turn it stays: another thread would wait for the turn, which this one holds (see `deliver`).
    """
    return STATE.depth >= DEEP and not STATE.turns


def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function that runs in a new thread, in the modes and within the backward of this one."""
    outer, context, outcome = STATE.run, copy_context(), []

    def work() -> None:
        STATE.run = outer
        try:
            outcome.append((context.run(function, *args, **kwargs), None))
        except BaseException as e:  # noqa: BLE001  (raised again by the thread that waits)
            outcome.append((None, e))

    thread = threading.Thread(target=work, name="nested backward")
    thread.start()
    thread.join()
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result
