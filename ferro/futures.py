"""Results that come later: `Future`, set by one thread and waited for by others."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ferro.core.device import device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value, or an exception, that is set once.

    `devices` must be None or empty: RuntimeError or ValueError otherwise, since tensors live on the CPU, which needs none.

    Example::

        >>> import ferro
        >>> future = ferro.futures.Future()
        >>> later = future.then(lambda f: f.wait() + 1)
        >>> future.set_result(ferro.ones(()))
        >>> later.wait()
        tensor(2.)
    """

    def __init__(self, *, devices: Iterable[Any] | None = None) -> None:
        for d in devices or ():
            raise ValueError(
                f"Expected devices to have indices, got {device(d)}; a Future of tensors on the CPU needs none"
            )
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._done

    def wait(self) -> T:
        """The value, as soon as there is one; raises the exception if that was set."""
        with self._changed:
            while not self._done:
                self._changed.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> T:
        """The value, which must be there (RuntimeError); raises the exception if that was set."""
        if not self._done:
            raise RuntimeError("Future.value(): completed() is false: there is no result yet. wait() waits for it")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Sets the value, and runs the callbacks. RuntimeError if there is one, or an exception."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets the exception that `wait` and `value` will raise. RuntimeError as for `set_result`."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)

    def _when_done(self, callback: Callable[[Future], None]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The Future of ``callback(self)``, which is called as soon as this one is done (at once, if it is).

        An exception in the callback is a RuntimeError of the new Future.
        """
        if not callable(callback):
            raise TypeError(
                f"then(): incompatible function arguments: a function is needed, got {type(callback).__name__}"
            )
        following: Future[S] = Future()

        def run(future: Future) -> None:
            try:
                result = callback(future)
            except Exception as e:  # noqa: BLE001 - whatever it is, who waits gets it
                failure = RuntimeError(f"Got the following error when running the callback: {type(e).__name__}: {e}")
                failure.__cause__ = e
                following.set_exception(failure)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls ``callback(self)`` as soon as this is done; its exceptions are printed as a warning."""

        def run(future: Future) -> None:
            try:
                callback(future)
            except Exception:  # noqa: BLE001 - the other callbacks are called whatever it is
                warnings.warn(
                    "Got the following error when running the callback: " + traceback.format_exc(), stacklevel=2
                )

        self._when_done(run)


def collect_all(futures: Iterable[Future]) -> Future[list[Future]]:
    """The Future of the list of these, done when all are; it has the exception of one that has one."""
    given = list(futures)
    for f in given:
        if not isinstance(f, Future):
            raise TypeError(
                f"collect_all(): incompatible function arguments: Futures are needed, got {type(f).__name__}"
            )
    together: Future[list[Future]] = Future()
    lock, missing = threading.Lock(), [len(given)]

    def one_is_done(future: Future) -> None:
        with lock:
            missing[0] -= 1
            last = missing[0] == 0
        if last:
            finish()

    def finish() -> None:
        failed = next((f._error for f in given if f._error is not None), None)
        if failed is None:
            together.set_result(given)
        else:
            together.set_exception(failed)

    for f in given:
        f._when_done(one_is_done)
    if not given:
        finish()
    return together


def wait_all(futures: Iterable[Future]) -> list[Any]:
    """The values of all, in order, as soon as all are there; raises the exception of one that has one."""
    return [f.wait() for f in collect_all(futures).wait()]
