"""What profilers are told of exchanges between processes: from when to when each went on."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from ferro.autograd import profiler
from ferro.core import mode as _mode


def note(name: str, start: int, end: int) -> None:
    """Tells the profilers of this context of an exchange that is over (nanoseconds)."""
    for observer in _mode.current().observers:
        if isinstance(observer, profiler.profile):
            observer.exchanged(name, start, end)


def noted(name: str) -> Callable[[], None] | None:
    """An exchange begins: what is to be called at its end, None where nobody looks.

    Whoever looked at the beginning is told, even where it has left its context since.
    """
    seen = [o for o in _mode.current().observers if isinstance(o, profiler.profile)]
    if not seen:
        return None
    start = perf_counter_ns()

    def end() -> None:
        for one in seen:
            one.exchanged(name, start, perf_counter_ns())

    return end
