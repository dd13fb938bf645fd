"""__torch_function__: classes that say what the functions and methods of ferro do with their objects, as in PyTorch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

from ferro._overridable import (
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)
from ferro._overriding import (
    MODES,
    Overridable,  # noqa: F401 (pickles look for it here)
    ask,
    disabled,  # noqa: F401 (a rule of classes that never ask)
    enable,
    namespaces,  # noqa: F401 (the modules whose functions ask; ferro.as_torch adds one)
    overriding,
    quiet,
    switch,
)
from ferro.core.size import Size
from ferro.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "enable",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class DisableTorchFunctionSubclass:
    """Context manager: on this thread, functions and methods ask nobody inside.

    >>> import ferro
    >>> class Marked(ferro.Tensor): ...
    >>> x = Marked([1.0])
    >>> with ferro.overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__, type(x).__name__
    ('Tensor', 'Marked')
    """

    def __enter__(self) -> None:
        quiet.__enter__()

    def __exit__(self, *exc: object) -> None:
        quiet.__exit__()


def by_default(cls: Any, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """Tensor's own ``__torch_function__``: the tensors that a function makes have the class of the one it was given."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        return converted(func(*args, **(kwargs or {})), cls)


def converted(result: Any, cls: Any) -> Any:
    """A result with tensors of the class `cls`."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and not isinstance(result, Size):
        return type(result)([converted(r, cls) for r in result])
    return result


# -- modes -------------------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Context manager: inside, ``__torch_function__`` of a subclass says what the functions and methods of ferro do.

    It is asked for all of them, also those that make tensors or take plain ones; a function that it calls goes to the mode
    around it, if there is one, to classes that override, or runs.  NotImplemented leaves the answer to the classes.

    Example::

        >>> import ferro
        >>> class Log(ferro.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = ferro.ones(2) * 3
        ones
        mul
    """

    def __init__(self) -> None: ...

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """What ``func(*args, **kwargs)`` is; `types` are the classes among the arguments that override."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        switch.enter()
        MODES.set((*MODES.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        modes = MODES.get()
        mine = [i for i, mode in enumerate(modes) if mode is self]
        if mine:  # (else it was entered in another context)
            MODES.set(modes[: mine[-1]] + modes[mine[-1] + 1 :])
        switch.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The old spelling of ``with Mode(...)``."""
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            UserWarning,
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing: every function runs."""

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """The function itself."""
        return func(*args, **(kwargs or {}))


# -- for classes that override -----------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any of the arguments, or a mode, overrides functions."""
    return bool(MODES.get()) or (not quiet.depth and bool(overriding(relevant_args)))


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Asks the mode and `relevant_args` what ``public_api(*args, **kwargs)`` is; TypeError if none of them knows."""
    return ask(public_api, overriding(relevant_args), args, kwargs, MODES.get())


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorator: a function that asks those of its arguments that ``dispatcher(*args)`` returns.

    >>> import ferro
    >>> @ferro.overrides.wrap_torch_function(lambda x: (x,))
    ... def twice(x):
    ...     return x + x
    >>> twice(ferro.ones(1))
    tensor([2.])
    """

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate
