"""What the Python of a function reads while it is captured, besides tensors: guards are made of it; and what no replay would do again.

Note [Reading].  A profile function sees each call of Python and of C. When a function of the program begins, what its code
names is looked up where it will be found: globals, cells of closures, attributes of the objects that it was given. Reading
what a code names needs no bytecode, and names too much rather than too little: an attribute of that name that is not
read costs a comparison. Functions of ferro's modules (`ferro.nn`) count as the program's, since they read the attributes of
layers; nothing else of ferro does, whose state is guarded by name (`guards.ambient`).
"""

from __future__ import annotations

import enum
import gc
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ferro.core.base import TensorBase
from ferro.core.device import device
from ferro.core.dtypes import dtype
from ferro.graph.guards import EQUAL, IS, LENGTH, MISSING, PLAIN, TYPE, Guard, shown
from ferro.graph.places import Place
from ferro.nn.modules.container import ModuleDict, ModuleList, Sequential
from ferro.nn.modules.module import Module
from ferro.optim.lr_scheduler.base import LRScheduler
from ferro.optim.optimizer import Optimizer

_FERRO = str(Path(__file__).parents[1]) + "/"
_LAYERS = _FERRO + "nn/modules/"
_LIBRARIES = tuple(str(Path(sysconfig.get_paths()[name])) + "/" for name in ("stdlib", "platstdlib"))
_ARRAYS = (str(Path(np.__file__).parent) + "/",)
PROGRAM, LAYER, LIBRARY, OWN = "program", "layer", "library", "own"
_VALUES = (*PLAIN, np.generic, np.dtype, dtype, device, enum.Enum, range, frozenset)
_DYNAMIC = frozenset(("getattr", "vars", "__dict__", "__getattribute__", "hasattr"))
_MOST = 10_000  # things of containers
_CHANGING = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"),
        *("remove", "reverse", "setdefault", "sort", "update"),
    )
)
# Functions of C whose results, or deeds, are not the same in each call.
_IMPURE_MODULES = frozenset(
    ("time", "_random", "random", "posix", "nt", "_io", "_socket", "select", "_thread", "numpy.random")
)
_IMPURE = frozenset((print, input, open))
_HARMLESS = frozenset(("fspath", "allocate_lock", "get_ident"))


class Reading:
    """Context manager: within, what the program of a capture reads becomes `guards`; what cannot be repeated ends the capture."""

    def __init__(self, things: dict[int, tuple[Place, Any]], recorder: Any) -> None:
        self.things, self.recorder = dict(things), recorder
        self.guards: list[Guard] = []
        # Things, attributes that they do not have, and how those are called.
        self._absent: list[tuple[Any, str, str]] = []
        self._tensors: list[tuple[Place, Any]] = []
        self._done: set = set()
        self._kinds: dict[CodeType, str] = {}
        self._before: list[Any] = []
        self._ids: set[int] | None = None
        self._functions: dict[CodeType, list[FunctionType]] | None = None
        self._outer: Any = None
        self._collects = False

    def __enter__(self) -> Reading:
        self._before = gc.get_objects()
        self._collects = gc.isenabled()
        gc.disable()  # (what gc calls, finalisers and callbacks, is not the program)
        self._outer = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(self._outer)
        if self._collects:
            gc.enable()
        self._functions = None

    def done(self) -> None:
        """Ends the capture if the function changed what it reads."""
        if self.recorder.reason is None:
            self._look_for_changes()
        self._before, self._ids, self._done = [], None, set()

    # -- events --------------------------------------------------------------------------------------------------------

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            if self.recorder.thread is not None:
                kind = self._kind(frame.f_code)
                if kind in (PROGRAM, LAYER):
                    self._enter(frame, kind)
        elif event == "c_call" and self.recorder.thread is not None:
            why = self._impure(arg) if self._is_of_program(frame) else ""
            if why:
                self.recorder.end(
                    f"capture: {why}, at {frame.f_code.co_filename}:{frame.f_lineno}; a replay would not do it again"
                )

    def _kind(self, code: CodeType) -> str:
        kind = self._kinds.get(code)
        if kind is None:
            name = code.co_filename
            if name.startswith(_FERRO):
                kind = LAYER if name.startswith(_LAYERS) else OWN
            elif name.startswith(_ARRAYS) or name.startswith("<frozen"):
                kind = OWN
            elif name.startswith(_LIBRARIES) and "site-packages" not in name:
                kind = LIBRARY
            else:
                kind = PROGRAM
            self._kinds[code] = kind
        return kind

    def _is_of_program(self, frame: Any) -> bool:
        """Whether the program runs there, or a library that it called."""
        while (kind := self._kind(frame.f_code)) == LIBRARY and frame.f_back is not None:
            frame = frame.f_back
        return kind == PROGRAM

    def _impure(self, function: Any) -> str:
        """What a function of C does that is not the same in each call; "" if nothing is known."""
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if type(function) is BuiltinFunctionType and function in _IMPURE:
            return f"the function calls {name}()"
        module = getattr(function, "__module__", None)
        if module is None and owner is not None and not isinstance(owner, ModuleType):
            kind = owner if isinstance(owner, type) else type(owner)
            module = kind.__module__
            if kind.__module__ == "datetime" and name in ("now", "utcnow", "today"):
                return f"the function asks for the time ({name})"
            if name in _CHANGING and type(owner).__module__ in ("builtins", "collections") and self._is_old(owner):
                return f"the function changes a {type(owner).__name__} that was there before ({name})"
        module = str(module)
        if name not in _HARMLESS and (module in _IMPURE_MODULES or module.startswith("numpy.random")):
            return f"the function calls {module}.{name}"
        return ""

    def _is_old(self, thing: Any) -> bool:
        """Whether a thing was there before the capture."""
        if self._ids is None:
            self._ids = set(map(id, self._before))
        return id(thing) in self.things or id(thing) in self._ids

    # -- what a function can see ---------------------------------------------------------------------------------------

    def _enter(self, frame: Any, kind: str) -> None:
        code = frame.f_code
        names = code.co_names
        variables = frame.f_locals
        for name in (*code.co_varnames[: _arguments(code)], *code.co_freevars):
            thing = variables.get(name, MISSING)
            if thing is not MISSING and (id(thing), code) not in self._done and _has_attributes(thing):
                self._done.add((id(thing), code))
                place = self._place(thing, name)
                if place is not None:
                    self._attributes(place, thing, names)
        if code in self._done:
            return
        self._done.add(code)
        if kind == PROGRAM or any(type(frame.f_globals.get(n)) in (dict, list) for n in names):
            root = Place(None, "", frame.f_globals)
            for name in _all_names(code):
                found = frame.f_globals.get(name, MISSING)
                if found is not MISSING and (kind == PROGRAM or isinstance(found, (dict, list))):
                    self._visit(Place(root, "item", name, name), found, names)
        if code.co_freevars:
            for function in self._functions_of(code):
                self._cells(function, names)

    def _functions_of(self, code: CodeType) -> list[FunctionType]:
        """The functions with this code that were there before."""
        if self._functions is None:
            self._functions = {}
            for thing in (*self._before, *[thing for _, thing in self.things.values()]):
                if type(thing) is FunctionType and thing.__closure__:
                    self._functions.setdefault(thing.__code__, []).append(thing)
        return self._functions.get(code, [])

    def _cells(self, function: FunctionType, names: tuple) -> None:
        place = self._place(function, function.__name__)
        assert place is not None
        for i, name in enumerate(function.__code__.co_freevars):
            try:
                found = function.__closure__[i].cell_contents  # type: ignore[index]
            except ValueError:  # (empty yet)
                continue
            self._visit(Place(place, "cell", i, name), found, names)

    def _place(self, thing: Any, name: str) -> Place | None:
        """Where a thing is; None if the function made it."""
        found = self.things.get(id(thing))
        if found is None:
            if type(thing) is not FunctionType and not self._is_old(thing):
                return None
            found = self.things[id(thing)] = Place(None, "", thing, name), thing
        return found[0]

    def _visit(self, place: Place, thing: Any, names: tuple) -> None:
        """Guards what is at a place, and what is inside as far as the names of a code reach."""
        known = place.parent.key if place.parent and place.parent.parent is None else place.parent
        key = id(known), place.kind, place.key
        again, kind = key in self._done, type(thing)
        self._done.add(key)
        if issubclass(kind, _VALUES) or (kind in (tuple, slice) and _is_value(thing)):
            guard: Guard | None = Guard(place, EQUAL, thing)
        elif issubclass(kind, TensorBase):
            guard = Guard(place, TYPE, kind)
            self._tensors.append((place, thing))
        elif issubclass(kind, np.ndarray) or hasattr(kind, "__next__"):
            what = "NumPy array" if issubclass(kind, np.ndarray) else "iterator"
            why = (
                "whose numbers may change; make it a tensor before"
                if what == "NumPy array"
                else "which each call moves on"
            )
            self.recorder.end(f"capture: the function reads the {what} {place.name or 'of an object'}, {why}")
            return
        else:
            guard = self._inside(place, thing, names, again)
        if guard is not None and not again:
            self.guards.append(guard)

    def _inside(self, place: Place, thing: Any, names: tuple, again: bool) -> Guard | None:
        """The guard of a thing that holds others, which are visited."""
        self.things.setdefault(id(thing), (place, thing))
        kind = type(thing)
        if issubclass(kind, (list, tuple, dict, set)):
            if not again:
                self._container(place, thing, names)
            return None
        walked = isinstance(thing, Module) or (_has_attributes(thing) and not _is_whole(thing))
        if (walked or (isinstance(thing, ModuleType) and self._is_program(thing))) and (
            id(thing),
            names,
        ) not in self._done:
            self._done.add((id(thing), names))
            self._attributes(place, thing, names)
        return Guard(place, TYPE if walked else IS, kind if walked else thing)

    def _is_program(self, module: ModuleType) -> bool:
        name = getattr(module, "__file__", None) or ""
        return not name.startswith((_FERRO, *_LIBRARIES, *_ARRAYS)) or "site-packages" in name

    def _container(self, place: Place, thing: Any, names: tuple) -> None:
        if isinstance(thing, set):
            self.guards.append(Guard(place, EQUAL, set(thing)))
            return
        if len(thing) > _MOST:
            self.recorder.end(
                f"capture: the function reads {place.name or 'a container'}, which has {len(thing)} entries"
            )
            return
        self.guards.append(Guard(place, LENGTH, (type(thing), len(thing))))
        for key, inside in list(thing.items()) if isinstance(thing, dict) else list(enumerate(thing)):
            if isinstance(key, (*PLAIN, tuple)) or not isinstance(thing, dict):
                self._visit(Place(place, "item", key, f"{place.name}[{shown(key)}]"), inside, names)

    def _attributes(self, place: Place, thing: Any, names: tuple) -> None:
        """Guards the attributes of an object that a code names."""
        held = getattr(thing, "__dict__", {})
        wanted = list(held) if _DYNAMIC.intersection(names) and not isinstance(thing, ModuleType) else names
        for name in wanted:
            own = f"{place.name}.{name}" if place.name else name
            if name in held:
                self._visit(Place(place, "attribute", name, own), held[name], names)
                continue
            if isinstance(thing, Module):
                for table in ("_parameters", "_buffers", "_modules"):
                    if name in held[table]:
                        inside = Place(place, "attribute", table, own)
                        self._visit(Place(inside, "item", name, own), held[table][name], names)
                        break
            static = _static(type(thing), name) if not isinstance(thing, (ModuleType, type)) else MISSING
            if static is MISSING:
                self._absent.append((thing, name, own))
            elif isinstance(static, _VALUES) or type(static) in (list, dict, tuple):
                self._visit(Place(place, "class", name, own), static, names)
            elif (
                hasattr(type(static), "__get__")
                and type(static).__name__ == "member_descriptor"
                and hasattr(thing, name)
            ):
                self._visit(Place(place, "part", name, own), getattr(thing, name), names)
        if isinstance(thing, (ModuleList, ModuleDict, Sequential)):
            inside = Place(place, "attribute", "_modules", place.name)
            self._visit(inside, held["_modules"], names)

    # -- at the end ----------------------------------------------------------------------------------------------------

    def _look_for_changes(self) -> None:
        for guard in self.guards:
            found = guard.place.read({})
            if not guard.holds(found):
                self.recorder.end(
                    f"capture: the function changes what it reads, which a replay would not do again: {guard.failure(found)}"
                )
                return
        for place, tensor in self._tensors:
            if place.read({}) is not tensor:
                self.recorder.end(
                    f"capture: the function puts another tensor at {place.name}; write into it with copy_() instead"
                )
                return
        for thing, name, more in self._absent:
            if name in getattr(thing, "__dict__", {}):
                self.recorder.end(f"capture: the function sets {more}, which a replay would not do again")
                return


def _arguments(code: CodeType) -> int:
    more = bool(code.co_flags & 4) + bool(code.co_flags & 8)  # (*args, **kwargs)
    return code.co_argcount + code.co_kwonlyargcount + more


def _all_names(code: CodeType) -> Iterator[str]:
    """The names in a code, and in codes inside of it (comprehensions, lambdas)."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_names(constant)


def _is_value(thing: Any) -> bool:
    if isinstance(thing, slice):
        return all(isinstance(part, PLAIN) for part in (thing.start, thing.stop, thing.step))
    return all(_is_value(t) if type(t) in (tuple, slice) else isinstance(t, _VALUES) for t in thing)


def _has_attributes(thing: Any) -> bool:
    return not isinstance(thing, (TensorBase, *_VALUES, list, dict, set)) and (
        hasattr(thing, "__dict__") or hasattr(type(thing), "__slots__")
    )


def _is_whole(thing: Any) -> bool:
    """Whether a thing is guarded by its identity alone."""
    return isinstance(thing, (type, ModuleType, Optimizer, LRScheduler)) or (
        callable(thing) and not isinstance(thing, Module)
    )


def _static(kind: type, name: str) -> Any:
    """The attribute of a class, without calling anything."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING
