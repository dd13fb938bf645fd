"""__torch_function__: classes that say what the functions and methods of ferro do with their objects, as in PyTorch.

Note [Overrides cost nothing until there are any].  A function of ferro does not look whether its arguments override it.
The first class that does, a subclass of Tensor, calls `enable`: the public names (``ferro.add``, ``Tensor.add``,
``ferro.nn.functional.relu``, ...) then stand for `Overridable`s, which look; ferro's own code goes on calling the functions
themselves.  Operators and attributes such as ``x.T`` are looked up on the subclass alone, where `adopt` puts ones that
ask.  Classes that are no tensors are not seen when they are made: they call `enable` once.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any

from ferro.core.inplace import OPERANDS
from ferro.core.size import Size
from ferro.tensor import Tensor

NAMESPACES = ("ferro", "ferro.nn.functional", "ferro.linalg", "ferro.fft", "ferro.special", "ferro.masked")

# Special methods that stay Tensor's own: making, copying and showing an object; and the attributes that are tensors.
KEPT = frozenset((
    "__array__", "__deepcopy__", "__dlpack__", "__dlpack_device__", "__getattr__", "__hash__", "__init__",
    "__init_subclass__", "__iter__", "__new__", "__reduce_ex__", "__repr__", "__reversed__", "__setstate__",
))  # fmt: skip
ATTRIBUTES = ("H", "T", "data", "imag", "mH", "mT", "real")
# The methods that operators stand for.
METHODS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_",
    "__mod__": "remainder", "__imod__": "remainder_", "__pow__": "pow", "__ipow__": "pow_", "__ifloordiv__": "floor_divide_",
    "__matmul__": "matmul", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__eq__": "eq", "__ne__": "ne",
    "__neg__": "neg", "__pos__": "positive", "__abs__": "abs",
}  # fmt: skip
UNASKED = frozenset(("as_subclass", "backward"))  # (backward may run within itself, a hundred deep)


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
        _quiet.depth += 1

    def __exit__(self, *exc: object) -> None:
        _quiet.depth -= 1


class _Quiet(threading.local):
    depth = 0


_quiet = _Quiet()


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


@classmethod
def disabled(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """The ``__torch_function__`` of a class whose objects count as plain tensors: results are plain."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


_lock = threading.Lock()


class Overridable:
    """A function that first asks those of its arguments that override it; equal to the function itself."""

    def __init__(self, function: Callable, name: str = "") -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.__name__ = name or function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _quiet.depth:
            found = overriding((*args, *kwargs.values()))
            if found:
                return ask(self, found, args, kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __eq__(self, other: object) -> bool:
        return self.function is getattr(other, "function", other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)

    def __reduce__(self) -> Any:
        return Overridable, (self.function,)


class Operator(Overridable):
    """A special method that asks under the name of a method (``Tensor.add`` for ``+``) if there is one, as in PyTorch."""

    # Python calls the reflected method of a subclass first only if it differs from the class's own.
    __eq__: Any = object.__eq__
    __hash__: Any = object.__hash__

    def __init__(self, name: str, function: Callable) -> None:
        super().__init__(function)
        self.__name__ = name
        self.method = getattr(Tensor, METHODS[name]) if name in METHODS else self

    def __call__(self, *args: Any) -> Any:
        found = [] if _quiet.depth else overriding(args)
        if not found:
            return self.function(*args)
        if self.method is not self and not all(isinstance(a, OPERANDS) or overrides(type(a)) for a in args):
            return NotImplemented  # the stranger may know better
        return ask(self.method, found, args, {}, NotImplemented)


def overriding(args: Iterable[Any]) -> list:
    """Those of the arguments, and of the elements of tuples and lists among them, whose classes say what happens.

    One of each class, in order, a subclass before its bases.
    """
    found: list = []
    for arg in args:
        if type(arg) is Tensor or isinstance(arg, (int, float, str)):
            continue
        for a in arg if isinstance(arg, (tuple, list)) else (arg,):
            kind = type(a)
            if overrides(kind) and all(type(f) is not kind for f in found):
                place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
                found.insert(place, a)
    return found


def overrides(kind: type) -> bool:
    """Whether the objects of a class are asked."""
    rule = getattr(kind, "__torch_function__", None)
    return rule is not None and kind is not Tensor and getattr(rule, "__func__", rule) is not disabled.__func__


def ask(function: Any, found: list, args: tuple, kwargs: dict, otherwise: Any = None) -> Any:
    """What the first of the overriding arguments that knows an answer says; else `otherwise`, or TypeError."""
    kinds = tuple(type(a) for a in found)
    for a in found:
        answer = a.__torch_function__(function, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    if otherwise is not None:
        return otherwise
    names = "".join(f"\n  - tensor subclass {kind}" for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for '{function.__module__}.{function.__qualname__}'; "
        f"all __torch_function__ handlers returned NotImplemented:\n{names}"
    )


def enable() -> None:
    """Lets the public functions, and the methods of Tensor, ask arguments whose classes have ``__torch_function__``.

    A subclass of Tensor calls it when it is made; other classes with ``__torch_function__`` are not asked before.

    >>> import ferro
    >>> ferro.overrides.enable()
    >>> class Ones:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> ferro.exp(Ones())
    'exp'
    """
    with _lock:
        if isinstance(inspect.getattr_static(Tensor, "add"), Overridable):
            return
        for name in NAMESPACES:
            module = sys.modules[name]
            for key, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and not key.startswith("_") and takes_tensors(value):
                    setattr(module, key, Overridable(value))
        for key in dir(Tensor):
            value = inspect.getattr_static(Tensor, key)
            if isinstance(value, FunctionType) and not key.startswith("_") and key not in UNASKED:
                setattr(Tensor, key, Overridable(value, key))


def takes_tensors(function: FunctionType) -> bool:
    """Whether a public function may be given tensors: all whose home is among the operations, or in nn.functional."""
    return function.__module__.startswith(("ferro.ops.", "ferro.core.inplace", "ferro.nn.functional"))


def adopt(cls: type) -> None:
    """Gives a subclass of Tensor operators, and attributes such as ``x.T``, that ask it."""
    enable()
    for key in dir(Tensor):
        value = inspect.getattr_static(Tensor, key)
        if inspect.getattr_static(cls, key) is not value:
            continue  # its own
        if isinstance(value, FunctionType) and key.startswith("__") and key not in KEPT:
            setattr(cls, key, Operator(key, value))
        elif isinstance(value, property) and key in ATTRIBUTES:
            setattr(cls, key, property(Overridable(value.__get__), value.fset, doc=value.__doc__))


# -- for classes that override -----------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any of the arguments overrides functions."""
    return not _quiet.depth and bool(overriding(relevant_args))


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Asks `relevant_args` what ``public_api(*args, **kwargs)`` is; TypeError if none of them knows."""
    return ask(public_api, overriding(relevant_args), args, kwargs)


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
