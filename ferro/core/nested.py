"""A backward inside of many others goes on in another thread, whose stack is empty: nesting may go deeper than Python's stack."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from ferro.core.graph_task import STATE, Run
from ferro.native.thread_pool import stay_alone

DEEP = 30  # nested backwards per thread; each takes a dozen frames of Python, of which there are a thousand by default
DEEPEST = 3000  # nested backwards in all: what goes deeper has no end


def must_move(outer: Run) -> bool:
    """Whether a backward that begins now inside of `outer` is one too many for this thread; RecursionError if it is for all.

    Within a leaf's turn it stays: another thread would wait for the turn, which this one holds (see `deliver`).
    """
    if outer.depth >= DEEPEST:
        raise RecursionError(f"backward: more than {DEEPEST} calls of backward() inside each other")
    return outer.depth - STATE.floor >= DEEP and not STATE.turns


def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function that runs in a new thread, in the modes and within the backward of this one.

    An interrupt of this thread is raised when the other one has ended, which works on the same graph.
    """
    outer: Any = STATE.run
    context, outcome = copy_context(), []

    def work() -> None:
        stay_alone()
        STATE.run, STATE.floor = outer, outer.depth
        try:
            outcome.append((context.run(function, *args, **kwargs), None))
        except BaseException as e:  # noqa: BLE001  (raised again by the thread that waits)
            outcome.append((None, e))

    thread = threading.Thread(target=work, name="nested backward")
    thread.start()
    interrupt: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as e:  # noqa: BLE001  (likewise)
            interrupt = e
    result, error = outcome.pop()
    try:
        if interrupt is not None or error is not None:
            raise interrupt or error
        return result
    finally:
        del interrupt, error  # an error leads to this frame, which must not hold it
