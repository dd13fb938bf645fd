"""Work: an exchange that goes on while the program does, and how long it is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ferro.futures import Future

from .errors import DistBackendError
from .futures import WorkFuture


class Work:
    """An exchange that goes on, which `async_op=True` gives: with one process it is done when it is made.

    Tensors that are read must not be changed, and those that are written not be read, before `wait`.
    """

    def __init__(self, result: Sequence[Any] = (), pending: Any = None, end: Callable[[], None] | None = None) -> None:
        self._result, self._pending, self._end = list(result), pending, end
        self._error: BaseException | None = None
        if pending is None:
            self._ended()

    def _ended(self) -> None:
        self._pending, end, self._end = None, self._end, None
        self._error = None
        if end is not None:
            end()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end: True. DistBackendError when the time is over (None: the group's), with the ranks that have not come."""
        seconds = seconds_of(timeout)
        if self._pending is not None:
            try:
                self._pending.wait(seconds)
            except DistBackendError as error:
                self._error = error
                raise
            self._ended()
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        if self._pending is not None and self._pending.done():
            self._ended()
        return self._pending is None

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed()

    def exception(self) -> BaseException | None:
        """What the last `wait` raised; None if nothing went wrong, or if it has ended since."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that were written."""
        return self._result

    def get_future(self) -> Future:
        """The Future of the result: it is done when this is, which it asks for when it is asked."""
        return WorkFuture(self)


def seconds_of(timeout: Any) -> float | None:
    """A timeout in seconds; None for None, TypeError for what is no timedelta."""
    if timeout is None:
        return None
    if not isinstance(timeout, timedelta):
        raise TypeError(f"timeout must be a datetime.timedelta, got {timeout!r}")
    return timeout.total_seconds()
