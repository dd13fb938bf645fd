"""Futures of exchanges: MPI goes on when it is asked, so whoever asks or waits for the Future asks MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.futures import Future


class _Asked(Future):
    """A Future that is completed by who asks for it: `_ask(wait)` completes what it comes from, if it can."""

    def _ask(self, wait: bool) -> None:
        raise NotImplementedError

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        if not self._done:
            self._ask(False)
        return self._done

    def wait(self) -> Any:
        """The value, as soon as there is one; raises the exception if that was set."""
        if not self._done:
            self._ask(True)
        return super().wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The Future of ``callback(self)``, which is called when this one is found to be done."""
        following = super().then(callback)
        return following if following._done else _Following(self, following)


class _Following(_Asked):
    """What `then` gives: asks the one before."""

    def __init__(self, before: Future, following: Future) -> None:
        super().__init__()
        self._before = before
        following._when_done(lambda done: self._complete(done._value, done._error))

    def _ask(self, wait: bool) -> None:
        if wait:
            self._before.wait()
        else:
            self._before.done()


class WorkFuture(_Asked):
    """The Future of the tensors that an exchange writes."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self._work = work
        self._ask(False)

    def _ask(self, wait: bool) -> None:
        if wait:
            self._work.wait()
        elif not self._work.is_completed():
            return
        if not self._done:
            self._complete(self._work.result(), None)
