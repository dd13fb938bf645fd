"""Guards: what must be as it was at the capture for a graph to stand for a call, as one Python function that asks for all of it.

Note [Guards].  A guard is a place (places.py) and what must be found there. Each is one comparison in a function that is
written out once: ``check(args, kwargs)`` gives the tensors of the graph, its inputs and then its bound values, or the number
of the guard that failed. What the function of a program reads, hence what is guarded, `reading.py` finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ferro._overriding import MODES
from ferro.batched.levels import ALIVE
from ferro.core import dtypes, trees
from ferro.core import mode as _mode
from ferro.core.base import wrap
from ferro.core.history import history
from ferro.core.transforms import INSIDE
from ferro.graph.places import Place

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
IS, TYPE, EQUAL, LENGTH = "is", "type", "equal", "length"
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


class Guard(NamedTuple):
    """What must hold of the thing at a place: that it is `expected`, is of that type, equals it, or is of that type and length."""

    place: Place
    test: str
    expected: Any

    def failure(self, found: Any) -> str:
        """What is said where something else was found."""
        was = f"{self.expected[0].__name__} of {self.expected[1]}" if self.test == LENGTH else shown(self.expected)
        if self.test == LENGTH and type(found) is self.expected[0]:
            now = f"{type(found).__name__} of {len(found)}"
        else:
            now = f"a {type(found).__name__}" if self.test in (TYPE, LENGTH) else shown(found)
        now = "another one" if was == now else now
        return f"{self.place.name or 'something'} was {was}, now it is {now}"

    def holds(self, found: Any) -> bool:
        """Whether it holds of what was found."""
        if self.test == IS:
            return found is self.expected
        if self.test == TYPE:
            return type(found) is self.expected
        if self.test == LENGTH:
            return type(found) is self.expected[0] and len(found) == self.expected[1]
        return same(found, self.expected)


def shown(thing: Any) -> str:
    """A thing in an error: numbers and texts as they are, of others the name or the type."""
    text = getattr(thing, "__qualname__", None) or (repr(thing) if isinstance(thing, PLAIN) else "")
    return f"a {type(thing).__name__}" if not text else text if len(text) <= 60 else f"{text[:57]}..."


def same(x: Any, y: Any) -> bool:
    """Whether two things of the kinds that are compared are one to every program."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return (x == y and math.copysign(1.0, x) == math.copysign(1.0, y)) or (math.isnan(x) and math.isnan(y))
    if isinstance(x, (complex, np.generic)):
        return repr(x) == repr(y)
    return bool(x == y)


class Layout(NamedTuple):
    """What is asked of a tensor: class, dtype, shape, strides, and whether it requires a gradient."""

    cls: type
    dtype: Any
    shape: tuple
    strides: tuple | None  # None: there is nothing that they could change
    requires_grad: bool

    def __str__(self) -> str:
        grad = ", requires grad" if self.requires_grad else ""
        return f"{self.cls.__name__} of {self.dtype}{list(self.shape)}{grad}"


def layout_of(t: Any) -> Layout:
    """The layout of a tensor."""
    a = t._data
    return Layout(type(t), a.dtype, a.shape, a.strides if a.size and a.ndim else None, history(t) is not None)


def ambient() -> tuple:
    """What beside arguments decides what operations do, as far as a graph may depend on it; see Note [Ambient values]."""
    mode = _mode.current()
    return mode.grad, mode.inference, mode.cast, dtypes.default()


def unusual() -> bool:
    """Whether something is in force under which functions run as they are written: transforms, observers, hooks, forward mode."""
    mode = _mode.MODE.get()
    if ALIVE or INSIDE.get() or MODES.get():
        return True
    if mode is None:
        return False
    odd = mode.level or mode.pack or mode.anomaly or mode.observers
    return bool(odd or mode.barred is not None or not mode.threads)


class Check:
    """The function that asks for all guards of one graph: see Note [Guards]."""

    def __init__(
        self,
        leaves: list,
        structure: Any,
        required: dict[int, bool],
        free: frozenset = frozenset(),
        floats: Sequence[int] = (),
    ) -> None:
        """`floats`: the places of arguments that are numbers of the graph, behind its tensors; those of `free` may be any."""
        self.required = required  # of tensors that the function told otherwise, whether they required a gradient before
        self.scope: dict[str, Any] = {
            "array": np.ndarray,
            "same": same,
            "asarray": np.asarray,
            "wrap": wrap,
            "flatten": trees.flatten,
        }
        self.scope |= {"mode": _mode.MODE.get, "ambient": ambient, "dtype": dtypes.default, "type": type, "len": len}
        self.lines: list[str] = []
        self.names: dict[tuple, str] = {}  # the variables of places: (that of the parent, kind, key)
        self.dicts: dict[str, str] = {}  # the variables of the __dict__ of things, by theirs
        self.empty: list[tuple[str, Guard]] = []  # containers without entries, which are asked for together
        self.layouts: list[Any] = []
        self.last: list[Any] = []  # of bound values, the arrays that fitted: those of the last call
        self.failures: list[Callable[[tuple, dict], str]] = []  # what is said, by the number of the guard
        self.tensors: list[str] = []  # the names of inputs and bound values
        self.scope |= {"last": self.last, "fits": self._fits}
        self._ambient()
        self._arguments(leaves, structure, free)
        for i in floats:
            self.lines.append(f"n{i} = wrap(asarray(a{i}))")
            self.tensors.append(f"n{i}")
            self.layouts.append(None)
            self.last.append(None)

    def _const(self, thing: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = thing
        return name

    def _fail(self, say: Callable[[tuple, dict], str]) -> str:
        self.failures.append(say)
        return f"return {len(self.failures) - 1}"

    def _ambient(self) -> None:
        now = ambient()
        names = ("grad mode", "inference mode", "autocast", "the default dtype")

        def say(args: tuple, kwargs: dict) -> str:
            changed = [f"{n} was {a}, now {b}" for n, a, b in zip(names, now, ambient(), strict=True) if a != b]
            return "; ".join(changed) or "a mode changed"

        fail = self._fail(say)
        if now[:3] == (True, False, None):
            self.lines.append(f"if mode() is not None or dtype() is not {self._const(now[3])}: {fail}")
        else:
            self.lines.append(f"if ambient() != {self._const(now)}: {fail}")

    def _arguments(self, leaves: list, structure: Any, free: frozenset) -> None:
        """The arguments: their nesting, the layout of tensors, and what all others are."""
        names = [f"a{i}" for i in range(len(leaves))]
        unpack = f"{', '.join(names)}, = " if names else ""
        flat = structure.parts[0]
        say = self._fail(lambda args, kwargs: "the arguments are nested otherwise")
        if not structure.parts[1].parts and all(p is trees.LEAF or p == trees.LEAF for p in flat.parts):
            self.lines.append(f"if len(args) != {len(leaves)} or kwargs: {say}")
            self.lines += [f"{unpack}args"] if names else []
        else:
            self.lines.append(
                f"leaves, structure = flatten((args, kwargs))\n    if structure != {self._const(structure)}: {say}"
            )
            self.lines += [f"{unpack}leaves"] if names else []
        self.leaves = dict(zip(map(id, leaves), names, strict=False))
        seen: dict[int, str] = {}
        for i, (name, leaf) in enumerate(zip(names, leaves, strict=True)):
            before = seen.get(id(leaf))
            if hasattr(leaf, "_data") and before is not None:
                fail = self._fail(lambda a, k, i=i: f"argument {i} was the same tensor as another one")
                self.lines.append(f"if {name} is not {before}: {fail}")
            elif hasattr(leaf, "_data"):
                seen[id(leaf)] = name
                self.tensor(name, self._before(leaf), f"argument {i}", lambda a, k, i=i: trees.flatten((a, k))[0][i])
            elif i in free:
                fail = self._fail(lambda a, k, i=i: f"argument {i} was a float, now it is another thing")
                self.lines.append(f"if type({name}) is not float: {fail}")
            else:
                self._leaf(i, name, leaf)
        own = list(seen.values())
        if len(own) > 1:
            some = " or ".join(f"{x} is {y}" for j, x in enumerate(own) for y in own[:j])
            self.lines.append(f"if {some}: {self._fail(lambda a, k: 'two arguments are one tensor now')}")

    def _before(self, t: Any) -> Layout:
        """The layout of a tensor before the function ran."""
        found = layout_of(t)
        return found._replace(requires_grad=self.required.get(id(t), found.requires_grad))

    def _leaf(self, i: int, name: str, leaf: Any) -> None:
        def say(args: tuple, kwargs: dict) -> str:
            was, now = shown(leaf), shown(trees.flatten((args, kwargs))[0][i])
            return f"argument {i} was {was}, now it is {now if now != was else 'another one'}"

        known = self._const(leaf)
        if isinstance(leaf, PLAIN):
            self.lines.append(f"if {name} is not {known} and not same({name}, {known}): {self._fail(say)}")
        else:
            self.lines.append(f"if {name} is not {known}: {self._fail(say)}")

    def tensor(
        self, name: str, layout: Layout, called: str, find: Callable[[tuple, dict], Any], kept: bool = False
    ) -> None:
        """Asks for the layout of the tensor in a variable. kept: the array of the last call need not be looked at again."""

        def say(args: tuple, kwargs: dict) -> str:
            t = find(args, kwargs)
            if not hasattr(t, "_data") or type(t._data) is not np.ndarray:
                return f"{called} was a {layout}, now it is a {type(t).__name__}"
            now = layout_of(t)
            more = f" (strides {layout.strides}, now {now.strides})" if str(now) == str(layout) else ""
            return f"{called} was a {layout}, now it is a {now}{more}"

        fail, i = self._fail(say), len(self.tensors)
        standing = "None" if layout.requires_grad else "not None"
        self.lines.append(f"if type({name}) is not {self._const(layout.cls)} or {name}._node is {standing}: {fail}")
        self.lines.append(f"d = {name}._data")
        if kept:
            self.lines.append(f"if d is not last[{i}] and not fits({i}, d): {fail}")
        else:
            dtype = self._const(layout.dtype)
            tests = [
                "type(d) is not array",
                f"(d.dtype is not {dtype} and d.dtype != {dtype})",
                f"d.shape != {layout.shape!r}",
            ]
            tests += [f"d.strides != {layout.strides!r}"] if layout.strides is not None else []
            self.lines.append(f"if {' or '.join(tests)}: {fail}")
        self.tensors.append(name)
        self.layouts.append(layout)
        self.last.append(None)

    def _fits(self, i: int, array: Any) -> bool:
        """Whether the array of a bound value is as it was; it is kept, as the program keeps it."""
        _, dtype, shape, strides, _ = self.layouts[i]
        fits = (
            type(array) is np.ndarray
            and array.dtype == dtype
            and array.shape == shape
            and strides in (None, array.strides)
        )
        if fits:
            self.last[i] = array
        return fits

    # -- places --------------------------------------------------------------------------------------------------------

    def at(self, place: Place) -> str:
        """The variable of what is at a place, after the lines that read it."""
        if place.parent is None:
            return self._variable((id(place.key),), lambda: self._const(place.key))
        before, key, kind = self.at(place.parent), place.key, place.kind
        known = (before, kind, key if isinstance(key, (str, int, tuple)) else id(key))
        if known in self.names:
            return self.names[known]
        name = repr(key) if type(key) in (str, int) else self._const(key)
        text = {
            "item": f"{before}[{name}]",
            "cell": f"{before}.__closure__[{name}].cell_contents",
            "global": f"{before}.__globals__[{name}]",
            "class": f"type({before}).{key}",
            "grad": f"{before}._meta.grad",
        }.get(kind, f"{before}.{key}")
        if kind == "attribute":
            if before not in self.dicts:
                self.dicts[before] = f"x{len(self.dicts)}"
                self.lines.append(f"{self.dicts[before]} = {before}.__dict__")
            text = f"{self.dicts[before]}[{name}]"
        found = self.names[known] = f"o{len(self.names)}"
        self.lines.append(f"{found} = {text}")
        return found

    def _variable(self, known: tuple, make: Callable[[], str]) -> str:
        if known not in self.names:
            self.names[known] = make()
        return self.names[known]

    def guard(self, guard: Guard) -> None:
        """Asks for one guard."""
        name, expected = self.at(guard.place), guard.expected
        if guard.test == TYPE and name in self.tensors:
            return
        if guard.test == LENGTH and not expected[1]:
            self.empty.append((name, guard))
            return
        fail = self._fail(lambda args, kwargs: guard.failure(_read(guard.place)))
        if guard.test == LENGTH:
            kind, count = self._const(expected[0]), expected[1]
            self.lines.append(f"if type({name}) is not {kind} or len({name}) != {count}: {fail}")
            return
        known = repr(expected) if expected is None or type(expected) is bool else self._const(expected)
        self.lines.append(
            {
                IS: f"if {name} is not {known}: {fail}",
                TYPE: f"if type({name}) is not {known}: {fail}",
                EQUAL: f"if {name} is not {known} and not same({name}, {known}): {fail}",
            }[guard.test]
        )

    def _ask_for_empty(self) -> None:
        """Asks for all containers that had no entries."""

        def say(args: tuple, kwargs: dict) -> str:
            return next(
                (g.failure(found) for _, g in self.empty if not g.holds(found := _read(g.place))),
                "a container has entries",
            )

        if self.empty:
            self.lines.append(f"if {' or '.join(dict.fromkeys([name for name, _ in self.empty]))}: {self._fail(say)}")

    def bound(self, value: Any) -> None:
        """Reads a bound value where the function found it; all places must show the same tensor."""
        called = value.name or "a tensor"
        if not value.places:
            name = self._const(value.tensor)
        else:
            name = self.at(value.places[0])
            for place in value.places[1:]:
                other = self.at(place)
                fail = self._fail(
                    lambda a, k: f"{called} was one tensor at {len(value.places)} places, now there are several"
                )
                self.lines.append(f"if {other} is not {name}: {fail}")
        self.leaves[id(value.tensor)] = name
        self.tensor(
            name,
            self._before(value.tensor),
            called,
            lambda a, k: _read(value.places[0]) if value.places else value.tensor,
            True,
        )

    def has_grad(self, tensor: Any, has: bool) -> None:
        """Asks whether a tensor has a ``.grad``, where Python decided by it."""
        name = self.leaves[id(tensor)]
        fail = self._fail(
            lambda a, k: (
                f"a tensor of shape {list(tensor.shape)} had {'a' if has else 'no'} .grad, now it has {'none' if has else 'one'}"
            )
        )
        self.lines.append(f"if ({name}._meta is not None and {name}._meta.grad is not None) is not {has}: {fail}")

    def function(self) -> Callable[[tuple, dict], Any]:
        """``check(args, kwargs)``: a tuple of tensors, or the number of what failed."""
        self._ask_for_empty()
        gone = self._fail(lambda args, kwargs: "what the function read is no longer there")
        body = "\n    ".join(self.lines)
        source = (
            f"def check(args, kwargs):\n  try:\n    {body}\n    return ({''.join(f'{n}, ' for n in self.tensors)})\n"
            f"  except (AttributeError, KeyError, IndexError, TypeError, ValueError):\n    {gone}\n"
        )
        exec(compile(source, "<guards>", "exec"), self.scope)
        return self.scope["check"]


def _read(place: Place) -> Any:
    return place.read({})
