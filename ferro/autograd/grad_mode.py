"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode, as contexts and as decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ferro.core.mode import ACTIVE, MODE, changed, enter, leave


class _Context:
    """A mode for a block, a function, a generator, a coroutine or all methods of a class."""

    changes: dict[str, Any]

    def __enter__(self) -> None:
        self._previous = [*getattr(self, "_previous", ()), MODE.get()]
        enter(changed(**self.changes))

    def __exit__(self, *exc: object) -> None:
        leave(self._previous.pop())

    def clone(self) -> _Context:
        """A fresh context of the same kind."""
        fresh = object.__new__(type(self))
        fresh.changes = self.changes
        return fresh

    def __call__(self, function: Callable) -> Callable:
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return await function(*args, **kwargs)

            return coroutine

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _generator(self, function: Callable) -> Callable:
        """A generator runs in the mode between its yields, its consumer in its own."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            send: Any = generator.send
            value: Any = None
            while True:
                try:
                    with self.clone():
                        item = send(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield item
                    send = generator.send
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as e:  # noqa: BLE001 (thrown into the generator, interrupts included)
                    send, value = generator.throw, e

        return wrapped


class no_grad(_Context):
    """Nothing is recorded inside.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0], requires_grad=True)
        >>> with ferro.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    changes = {"grad": False}

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class enable_grad(_Context):
    """Recording goes on inside, also within no_grad."""

    changes = {"grad": True}

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class set_grad_enabled(_Context):
    """Recording on or off: from the call on, or for a block, after which the previous state returns."""

    def __init__(self, mode: bool) -> None:
        self.changes = {"grad": bool(mode)}
        self._before = MODE.get()
        self.mode = mode
        ACTIVE.append(None)
        MODE.set(changed(**self.changes))

    def __enter__(self) -> None:
        """The mode is on since the call."""

    def __exit__(self, *exc: object) -> None:
        leave(self._before)

    def clone(self) -> set_grad_enabled:
        """A fresh context of the same kind."""
        return set_grad_enabled(self.mode)

    def __call__(self, function: Callable) -> Callable:
        leave(self._before)  # used as a decorator: the call itself changes nothing
        return super().__call__(function)


class inference_mode(_Context):
    """no_grad, and results are inference tensors, which can never take part in recorded computations."""

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.changes = {"grad": False, "inference": True}
            return self(mode)
        self.changes = {"grad": False, "inference": True} if mode else {"inference": False}
        return self
