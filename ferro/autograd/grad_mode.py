"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode and their kin, as contexts and as decorators."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from sys import _getframe
from threading import get_ident
from typing import Any

from ferro.core.base import DetachedMark, version_of
from ferro.core.mode import MODE, Mode, changed, current, pull, push, push_mode, settle, silent
from ferro.core.provenance import caller

_OFF = {"grad": False}
_HERE: dict[tuple, Mode] = {}


class _Context:
    """A mode for a block, a function, a generator, a coroutine or an asynchronous generator."""

    changes: dict[str, Any]
    subject: Any = None  # the function that the mode decorates

    def __enter__(self) -> None:
        previous = MODE.get()
        if self.changes is _OFF and (previous is None or previous.silent):
            if self.subject is not None:
                mode = silent(self._mark())
            else:
                frame = _getframe(1)
                mode = _HERE.get((id(frame.f_code), frame.f_lasti, self.__class__)) or self._here()
            push_mode(self, _OFF, previous, mode)
        else:
            push(self, {**self.changes, "detached": self._mark()})

    def _here(self) -> Mode:
        """The mode that nothing but switches recording off, entered at the place of the ``with``; the same each time."""
        code, offset = location = caller(3)
        key = (id(code), offset, self.__class__)  # (the mark keeps the code alive)
        mode = _HERE.get(key)
        if mode is None:
            if len(_HERE) > 1000:
                _HERE.clear()
            mode = _HERE[key] = silent(DetachedMark(self.__class__.__name__, location))
        return mode

    def _mark(self) -> DetachedMark | None:
        """What marks results that the mode leaves without a history."""
        if self.changes is not _OFF and self.changes.get("grad", True):
            return None
        name = self.__class__.__name__
        if self.subject is None:
            return DetachedMark(name, caller(3))
        code = getattr(self.subject, "__code__", None)
        subject = getattr(self.subject, "__name__", type(self.subject).__name__)
        return DetachedMark(f"{name}, the decorator of {subject}()", caller() if code is None else (code, 0))

    def __exit__(self, *exc: object) -> None:
        pull(self)

    def clone(self) -> _Context:
        """A fresh context of the same kind."""
        fresh = object.__new__(type(self))
        fresh.changes, fresh.subject = self.changes, self.subject
        return fresh

    def __call__(self, function: Callable) -> Callable:
        self.subject = function
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated: only making the object runs in the mode, not its methods, and the class "
                "becomes a function. Decorate __init__ or the methods instead.",
                FutureWarning,
                stacklevel=2,
            )
            make = function
            function = lambda *args, **kwargs: make(*args, **kwargs)  # noqa: E731 (what the class becomes)
        if inspect.isgeneratorfunction(function):
            return self._generator(function)
        if inspect.isasyncgenfunction(function):
            return self._async_generator(function)

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

    def _async_generator(self, function: Callable) -> Callable:
        """The same for an asynchronous generator."""

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            send: Any = generator.asend
            value: Any = None
            while True:
                try:
                    with self.clone():
                        item = await send(value)
                except StopAsyncIteration:
                    return
                try:
                    value = yield item
                    send = generator.asend
                except GeneratorExit:
                    with self.clone():
                        await generator.aclose()
                    raise
                except BaseException as e:  # noqa: BLE001 (thrown into the generator, interrupts included)
                    send, value = generator.athrow, e

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

    changes = _OFF

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class enable_grad(_Context):
    """Recording goes on inside, also within no_grad."""

    changes = {"grad": True}

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class _Standing(_Context):
    """What holds from the call on, or for a block, after which returns what was before the call."""

    _called: tuple | None = None  # the thread that made the call, and the mode before, while no block has been entered

    def _call(self) -> None:
        self._called = get_ident(), MODE.get()
        settle(changed(**self.changes))

    def _before(self) -> tuple:
        """A tuple of the mode before the call, if the call was in this thread and nothing has been made of it yet."""
        called = self._called
        if called is None or called[0] != get_ident():
            return ()
        self._called = None
        return called[1:]

    def __enter__(self) -> None:
        called = self._before()
        mode = changed(**self.changes)
        push_mode(self, self.changes, called[0] if called else MODE.get(), mode)

    def __call__(self, function: Callable) -> Callable:
        for mode in self._before():  # used as a decorator: the call itself changes nothing
            settle(mode)
        return super().__call__(function)


class set_grad_enabled(_Standing):
    """Recording on or off: from the call on, or for a block, after which the previous state returns."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.changes = {"grad": mode}
        self.changes["detached"] = self._mark()
        self.mode = mode
        self._call()

    def clone(self) -> _Context:
        """A fresh context of the same kind."""
        fresh = super().clone()
        fresh.changes = {"grad": self.mode}
        fresh.changes["detached"] = fresh._mark()
        return fresh


class inference_mode(_Context):
    """no_grad, and results are inference tensors, which can never take part in recorded computations."""

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.changes = {"grad": False, "inference": True, "level": 0}
            return self(mode)
        if not isinstance(mode, bool):
            raise TypeError(f"inference_mode(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.changes = {"grad": False, "inference": True, "level": 0} if mode else {"grad": True, "inference": False}
        return self


class set_multithreading_enabled(_Standing):
    """Whether backward may run independent branches on several threads: from the call on, or for a block.

    The gradients are bit for bit the same either way.
    """

    def __init__(self, mode: bool) -> None:
        self.changes = {"threads": bool(mode)}
        self.mode = mode
        self._call()


def is_multithreading_enabled() -> bool:
    """Whether backward may use several threads here."""
    return current().threads


class _force_original_view_tracking(_Context):
    """Accepted for PyTorch's sake: ferro replays the steps of a view in any case."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass

    def clone(self) -> _force_original_view_tracking:
        """A fresh context of the same kind."""
        return _force_original_view_tracking(self.mode)


class _unsafe_preserve_version_counter(_Context):
    """In-place changes inside do not count: for those who put the same content back before backward reads it."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tuple(tensors) if isinstance(tensors, (tuple, list)) else (tensors,)
        self._before = [(v, v.n) for v in map(version_of, self.tensors)]

    def __enter__(self) -> None:
        """The counts that return are those at the call."""

    def __exit__(self, *exc: object) -> None:
        for v, n in self._before:
            v.n = n

    def clone(self) -> _unsafe_preserve_version_counter:
        """A fresh context of the same kind."""
        return _unsafe_preserve_version_counter(self.tensors)
