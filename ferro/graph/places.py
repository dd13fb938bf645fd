"""Where a function finds the tensors that it reads: each run of its graph looks there anew.

A parameter is found as ``model.0.weight`` is by Python, step by step from the function: a cell of its closure, attributes, the
tables of modules, items of containers, globals; ``w.grad`` at w. What no such walk reaches (a tensor behind a C object,
say) stays the tensor that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ferro.core.base import TensorBase
from ferro.core.random import Generator
from ferro.nn.modules.module import Module
from ferro.optim.lr_scheduler.base import LRScheduler
from ferro.optim.optimizer import Optimizer

_TABLES = ("_parameters", "_buffers", "_modules")  # of a module
_MOST = 100_000  # objects that a walk looks at
_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda o, key: o[key],
    "attribute": lambda o, key: o.__dict__[key],
    "cell": lambda o, key: o.__closure__[key].cell_contents,
    "global": lambda o, key: o.__globals__[key],
    "part": lambda o, key: getattr(o, key),
    "class": lambda o, key: getattr(type(o), key),
    "grad": lambda o, _: o._meta.grad,
}


class Place:
    """A step from an object to what it holds: `parent` is the place of that object, or None where the walk begins (at `key`).

    kind: item, attribute (of its __dict__), cell, global, part (getattr), class (an attribute of its class), grad.
    """

    __slots__ = ("key", "kind", "name", "parent")

    def __init__(self, parent: Place | None, kind: str, key: Any, name: str = "") -> None:
        self.parent, self.kind, self.key, self.name = parent, kind, key, name

    def read(self, memo: dict[int, Any]) -> Any:
        """What is there now; None if nothing is. memo: what places held that were read in this run."""
        if self.parent is None:
            return self.key
        found = memo.get(id(self), memo)
        if found is memo:
            try:
                found = _STEPS[self.kind](self.parent.read(memo), self.key)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError):
                found = None
            memo[id(self)] = found
        return found


class Found(NamedTuple):
    """What a walk found, by identity: the places of tensors, names, and of all other things that it entered one place."""

    tensors: dict[int, list[Place]]
    names: dict[int, str]
    things: dict[int, tuple[Place, Any]]


def places(fn: Any, args: tuple, kwargs: dict) -> Found:
    """Where `fn` finds what it reaches when it is called with these arguments."""
    found: dict[int, list[Place]] = {}
    names: dict[int, str] = {}
    seen: dict[int, tuple[Place, Any]] = {}
    roots = [Place(None, "", thing) for thing in (kwargs, args, fn)]
    todo: list[tuple[Place, Any]] = [(place, place.key) for place in roots]
    while todo and len(seen) < _MOST:
        place, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = place, thing
        for kind, key, inside in _inside(thing):
            named = thing.__code__.co_freevars[key] if kind == "cell" else key
            own = Place(place, kind, key, _name(place.name, kind, named))
            if issubclass(type(inside), TensorBase):  # (isinstance asks the object, which may be a stand-in that warns)
                if thing is not args and thing is not kwargs:
                    found.setdefault(id(inside), []).append(own)
                    names.setdefault(id(inside), own.name)
            elif _is_walked(inside):
                todo.append((own, inside))
            if issubclass(type(inside), (Generator, LRScheduler, Optimizer)):
                names.setdefault(id(inside), own.name)
    return Found(found, names, seen)


def _name(before: str, kind: str, key: Any) -> str:
    if kind == "part" or key in _TABLES:
        return before or ("self" if key == "__self__" else "")
    if kind == "item" and not (type(key) is str and key.isidentifier()):
        return f"{before}[{key!r}]" if type(key) in (str, int) else before
    return f"{before}.{key}".strip(".")


def _is_walked(thing: Any) -> bool:
    kind = type(thing)
    if issubclass(kind, (dict, Module, Optimizer, MethodType, LRScheduler)) or kind in (list, tuple):
        return True
    if kind is FunctionType:
        return not _is_own(thing.__module__)
    return not (_is_own(kind.__module__) or issubclass(kind, (type, ModuleType))) and hasattr(thing, "__dict__")


def _is_own(module: str | None) -> bool:
    return module is None or module in ("ferro", "builtins") or module.startswith(("ferro.", "numpy"))


def _inside(thing: Any) -> Iterator[tuple[str, Any, Any]]:
    """What an object holds: (kind, key, what is there)."""
    if isinstance(thing, Optimizer):
        yield "part", "state", thing.state
    elif isinstance(thing, dict):
        yield from [("item", key, inside) for key, inside in list(thing.items())]
    elif type(thing) in (list, tuple):
        yield from [("item", i, inside) for i, inside in enumerate(thing)]
    elif type(thing) is MethodType:
        yield from _parts(thing, "__self__", "__func__")
    elif type(thing) is FunctionType:
        yield from _of_function(thing)
    else:
        yield from [("attribute", key, inside) for key, inside in list(getattr(thing, "__dict__", {}).items())]


def _parts(thing: Any, *names: str) -> Iterator[tuple]:
    yield from [("part", name, attrgetter(name)(thing)) for name in names]


def _of_function(function: Any) -> Iterator[tuple]:
    for i, cell in enumerate(function.__closure__ or ()):
        try:
            yield "cell", i, cell.cell_contents
        except ValueError:  # (empty yet)
            continue
    names = function.__globals__
    yield from [("global", name, names[name]) for name in _names(function.__code__) if name in names]
    if function.__defaults__:
        yield from _parts(function, "__defaults__")
    if function.__kwdefaults__:
        yield from _parts(function, "__kwdefaults__")
    if hasattr(function, "__wrapped__"):
        yield from _parts(function, "__wrapped__")


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals (and of attributes) in a code, and in codes inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
