"""What asks `__torch_function__`, and how: functions that ask their arguments, and the switch that puts them in place.

Note [Overrides cost nothing until there are any].  A function of ferro does not look whether its arguments override it.
The first class that does, a subclass of Tensor, calls `enable`: the public names (``ferro.add``, ``Tensor.add``,
``ferro.nn.functional.relu``, ...) then stand for `Overridable`s, which look; ferro's own code goes on calling the functions
themselves.  Operators and attributes such as ``x.T`` are looked up on the subclass alone, where `adopt` puts ones that
ask.  Classes that are no tensors are not seen when they are made: they call `enable` once.

While a `TorchFunctionMode` is on somewhere, the operators and attributes of Tensor ask, too; when the last one ends all is
as it was.  Modes belong to the context (a thread, a task); what a mode asks for while it answers goes to the mode around it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any

from ferro.core import engine
from ferro.core.inplace import OPERANDS
from ferro.tensor import Tensor

namespaces = [
    "ferro",
    "ferro.nn.functional",
    "ferro.linalg",
    "ferro.fft",
    "ferro.special",
    "ferro.masked",
]  # (or `torch`)

# Special methods that stay Tensor's own: making, copying and showing an object; and the attributes that are tensors.
KEPT = frozenset(
    (
        "__array__",
        "__array_function__",
        "__array_namespace__",
        "__array_ufunc__",
        "__array_wrap__",
        "__deepcopy__",
        "__dir__",
        "__dlpack__",
        "__dlpack_device__",
        "__getattr__",
        "__hash__",
        "__init__",
        "__init_subclass__",
        "__iter__",
        "__new__",
        "__reduce_ex__",
        "__repr__",
        "__reversed__",
        "__setstate__",
    )
)
ATTRIBUTES = ("H", "T", "data", "imag", "mH", "mT", "real")
# The methods that operators stand for.
METHODS = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__pow__": "pow",
    "__ipow__": "pow_",
    "__ifloordiv__": "floor_divide_",
    "__matmul__": "matmul",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__ne__": "ne",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
}
SHOWN = frozenset(("__deepcopy__", "__reduce_ex__", "__repr__"))  # of which a mode is asked nevertheless
# (`backward` may run within itself, a hundred deep)
UNASKED = frozenset(("as_subclass", "backward", "from_numpy", "is_tensor"))


class _Quiet(threading.local):
    """Inside, on this thread, nobody is asked."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc: object) -> None:
        self.depth -= 1


quiet = _Quiet()


@classmethod
def disabled(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """The ``__torch_function__`` of a class whose objects count as plain tensors: results are plain."""
    with quiet:
        return func(*args, **(kwargs or {}))


MODES: ContextVar[tuple] = ContextVar("ferro_function_modes", default=())  # the TorchFunctionModes that are on


class Overridable:
    """A function that first asks those of its arguments that override it; equal to the function itself."""

    __module__ = "ferro.overrides"  # where pickles look for it

    def __init__(self, function: Callable, name: str = "") -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.__name__ = name or function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        modes = MODES.get() if switch.entered else ()
        found = [] if quiet.depth else overriding((*args, *kwargs.values()))
        return ask(self, found, args, kwargs, modes) if found or modes else self.function(*args, **kwargs)

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
        modes = MODES.get() if switch.entered else ()
        found = [] if quiet.depth else overriding(args)
        if not (found or modes):
            return self.function(*args)
        if self.method is not self and not all(isinstance(a, OPERANDS) or overrides(type(a)) for a in args):
            return NotImplemented  # the stranger may know better
        return ask(self.method, found, args, {}, modes, NotImplemented)


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
    """Whether the objects of a class are asked. PyTorch's own are not: they would ask the function that asks them."""
    if kind.__module__.partition(".")[0] == "torch":
        return False
    rule = getattr(kind, "__torch_function__", None)
    return rule is not None and kind is not Tensor and getattr(rule, "__func__", rule) is not disabled.__func__


def ask(function: Any, found: list, args: tuple, kwargs: dict, modes: tuple = (), otherwise: Any = None) -> Any:
    """What the innermost of the modes, or else the first of the overriding arguments that knows an answer, says.

    If none knows: `otherwise`, or TypeError.
    """
    kinds = tuple(type(a) for a in found)
    if modes:
        MODES.set(modes[:-1])
        try:
            answer = modes[-1].__torch_function__(function, kinds, args, kwargs)
        finally:
            MODES.set(modes)
        if answer is not NotImplemented:
            return answer
    for a in found:  # (the mode is on again, as in PyTorch)
        answer = a.__torch_function__(function, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    if otherwise is not None:
        return otherwise
    names = [f"\n  - mode object {mode!r}" for mode in modes[-1:]] + [f"\n  - tensor subclass {kind}" for kind in kinds]
    raise TypeError(
        f"Multiple dispatch failed for '{function.__module__}.{function.__qualname__}'; "
        f"all __torch_function__ handlers returned NotImplemented:\n{''.join(names)}"
    )


def unasked(function: Callable) -> Callable:
    """The function, which runs as if no mode were on."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        modes = MODES.get()
        MODES.set(())
        try:
            return function(*args, **kwargs)
        finally:
            MODES.set(modes)

    return wrapped


# -- which names ask ---------------------------------------------------------------------------------------------------


class _Replaced:
    """Attributes of modules and classes that stand for others, and what they stand for."""

    def __init__(self) -> None:
        self.before: dict[tuple[Any, str], Any] = {}

    def put(self, owner: Any, key: str, value: Any) -> None:
        self.before[owner, key] = vars(owner).get(key, _replaced_nothing)
        setattr(owner, key, value)

    def undo(self) -> None:
        for (owner, key), value in self.before.items():
            if value is _replaced_nothing:  # it was inherited
                delattr(owner, key)
            else:
                setattr(owner, key, value)
        self.before.clear()


_replaced_nothing = object()


class _Switch:
    """What asks by now: nothing, the public functions and methods, or while modes are on all of Tensor."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entered = 0  # modes, in all contexts
        self.lasting = False
        self.functions, self.everything = _Replaced(), _Replaced()

    def enable(self) -> None:
        with self.lock:
            self.lasting = True
            self._functions()

    def enter(self) -> None:
        with self.lock:
            if not self.entered:
                self._functions()
                self._everything()
            self.entered += 1

    def leave(self) -> None:
        with self.lock:
            self.entered -= 1
            if not self.entered:
                self.everything.undo()
                if not self.lasting:
                    self.functions.undo()

    def _functions(self) -> None:
        if self.functions.before:
            return
        for name in namespaces:
            module = sys.modules[name]
            for key, value in list(vars(module).items()):
                if (
                    isinstance(value, FunctionType)
                    and not key.startswith("_")
                    and key not in UNASKED
                    and takes_tensors(value)
                ):
                    self.functions.put(module, key, Overridable(value))
        for key in dir(Tensor):
            value = inspect.getattr_static(Tensor, key)
            if isinstance(value, FunctionType) and not key.startswith("_") and key not in UNASKED:
                self.functions.put(Tensor, key, Overridable(value, key))

    def _everything(self) -> None:
        for key in dir(Tensor):
            value = inspect.getattr_static(Tensor, key)
            if isinstance(value, property):
                setter = value.fset and Overridable(value.__set__)
                self.everything.put(
                    Tensor, key, property(Overridable(value.__get__), setter, value.fdel, value.__doc__)
                )
            elif isinstance(value, FunctionType) and key.startswith("__") and (key not in KEPT or key in SHOWN):
                self.everything.put(Tensor, key, Operator(key, value))
        self.everything.put(Tensor, "backward", Overridable(original("backward"), "backward"))
        autograd = sys.modules["ferro.autograd"]
        for key in ("backward", "grad"):
            self.everything.put(autograd, key, Overridable(getattr(autograd, key)))
        self.everything.put(engine, "backward", unasked(engine.backward))  # recorded formulas are ferro's own code


switch = _Switch()


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
    switch.enable()


def takes_tensors(function: FunctionType) -> bool:
    """Whether a public function may be given tensors: all whose home is among the operations, or in nn.functional."""
    return function.__module__.startswith(("ferro.ops.", "ferro.core.inplace", "ferro.nn.functional", "ferro.sparse"))


def original(key: str) -> Any:
    """An attribute of Tensor as it is where no mode is on."""
    before = switch.everything.before.get((Tensor, key))
    if before is None:
        return inspect.getattr_static(Tensor, key)
    return (
        before if before is not _replaced_nothing else next(vars(c)[key] for c in Tensor.__mro__[1:] if key in vars(c))
    )


def adopt(cls: type) -> None:
    """Gives a subclass of Tensor operators, and attributes such as ``x.T``, that ask it."""
    enable()
    for key in dir(Tensor):
        if inspect.getattr_static(cls, key) is not inspect.getattr_static(Tensor, key):
            continue  # its own
        value = original(key)
        if isinstance(value, FunctionType) and key.startswith("__") and key not in KEPT:
            setattr(cls, key, Operator(key, value))
        elif isinstance(value, property) and key in ATTRIBUTES:
            setattr(cls, key, property(Overridable(value.__get__), value.fset, doc=value.__doc__))
