"""A program as a graph: values in single static assignment form, and the nodes that make them.

Note [Graphs].  A node calls a function by its name (functions.py) with arguments, in which values, tuples of values and
literals stand where arrays and parameters stood. Nodes are kept in the order in which eager ran them, and replay runs
them in that order on real arrays: a view is a view again, and a write is a write. So what a graph gives with writes in it is
right without any analysis; what moves or removes nodes (passes/) leaves writes, and what they may reach, alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ferro.core import backend
from ferro.core.device import DEVICE_BACKENDS
from ferro.core.provenance import line_of
from ferro.cpu.shape import geometry

INPUT, BOUND, CONSTANT, COMPUTED = "input", "bound", "constant", "computed"
GRAD, FOREIGN, OWN, CAPTURED, SPENT = (
    "grad",
    "foreign",
    "own",
    "captured",
    "spent",
)  # what is said of outputs, see Graph

HELD = ("generator", "optimizer", "scheduler")  # kinds of objects of the program that nodes work with


class Value:
    """An array of a graph: what it is and where it comes from.

    kind: an input is given at each call; a bound value is the array of `tensor` (a parameter, a global), read anew at each
    call, at `places` if it was found at some; a constant is `array`, copied at each call if the program writes into it (`written`); else it is output
    number `index` of `node`. strides (in elements) are those of the capture; None: C order. requires_grad is that of
    the tensor, of inputs and bound values.
    """

    __slots__ = (
        "array",
        "device",
        "dtype",
        "index",
        "kind",
        "name",
        "node",
        "number",
        "places",
        "requires_grad",
        "shape",
        "strides",
        "tensor",
        "written",
    )

    def __init__(self, kind: str, shape: tuple, dtype: Any, number: int = -1) -> None:
        self.kind, self.shape, self.dtype, self.number = kind, shape, dtype, number
        self.node: Node | None = None
        self.index = 0
        self.name = ""
        self.array: Any = None
        self.tensor: Any = None
        self.strides: tuple | None = None
        self.places: Any = ()
        self.device = ""  # on which it lies; empty for the CPU
        self.requires_grad = self.written = False

    def read(self, memo: dict[int, Any]) -> Any:
        """The tensor that a bound value is now: what stands where the function found it (memo: see Place.read)."""
        if not self.places:
            return self.tensor
        found = [place.read(memo) for place in self.places]
        if any(t is not found[0] for t in found):
            raise ValueError(
                f"{self.name or 'a tensor'} was found at {len(found)} places, which hold different ones now: capture again"
            )
        if not hasattr(found[0], "_data"):
            raise ValueError(
                f"{self.name or 'a tensor'} is no longer where the function found it: there is {found[0]!r}"
            )
        return found[0]

    def __repr__(self) -> str:
        return f"%{self.number}"


class Held:
    """An object of the program that a node works with: a generator of random numbers, say.

    `thing` is the object; None in a graph that was read from a text, until somebody sets it. None in the place of a generator
    means the default one of the thread that runs the graph.
    """

    __slots__ = ("kind", "name", "thing")

    def __init__(self, kind: str, name: str, thing: Any = None) -> None:
        self.kind, self.name, self.thing = kind, name, thing

    def __repr__(self) -> str:
        return f"held({self.kind!r}, {self.name!r})"


class GraphBase:
    """The base of Graph, by which a graph is known among the arguments of a node: the body of a loop, say."""

    nodes: list[Node]


class Inner(NamedTuple):
    """Stands in the text of a node for one of the graphs among its arguments: which one."""

    number: int


class Node:
    """A call of a function: `args` and `kwargs` hold values and literals; `outputs` are the values it makes.

    effect: it writes into memory, or may raise, so it stays where it is; `line` is where the program made the call, `module`
    the path of the innermost module it ran in; `of` says to which forward node a backward node belongs (a number). Of an
    operation, `mask` has the bits of those tensors through which eager would send a gradient, and `foreign` of
    those whose history lies outside of the graph (a custom Function's). `absent` has the bits of results that are None.
    `again` numbers the recomputation of a checkpoint that the node belongs to (0: none): it takes time to spare memory, so no pass
    may put in its place what was computed before.
    """

    __slots__ = (
        "absent",
        "again",
        "args",
        "contents",
        "effect",
        "foreign",
        "function",
        "kwargs",
        "location",
        "mask",
        "module",
        "of",
        "outputs",
    )

    def __init__(self, function: str, args: tuple, kwargs: dict | None = None, effect: bool = False) -> None:
        self.function, self.args, self.kwargs, self.effect = function, args, kwargs or {}, effect
        self.outputs: list[Value] = []
        self.contents: tuple | None = None  # args, kwargs and foreign for a functional graph: see functional.py
        self.location: Any = None  # a location of provenance.py, or its text
        self.module = ""
        self.of: int | None = None
        self.mask = self.foreign = self.absent = self.again = 0

    @property
    def results(self) -> list[Value | None]:
        """What the function gives: the outputs, and None where it gives None among others."""
        made = iter(self.outputs)
        count = len(self.outputs) + self.absent.bit_count()
        return [None if self.absent >> i & 1 else next(made) for i in range(count)]

    @property
    def operands(self) -> list[Value]:
        """The values that the node reads, in the order of its arguments."""
        found: list[Value] = []
        _collect(self.args, found)
        if self.kwargs:
            _collect(tuple(self.kwargs.values()), found)
        return found

    @property
    def line(self) -> str:
        """Where the program made the call, as "file:line in function"; "" if it is not known."""
        place = self.location
        if place is None or isinstance(place, str):
            return place or ""
        code = place[0]
        return f"{code.co_filename}:{line_of(place)} in {code.co_name}"

    @property
    def graphs(self) -> list[Any]:
        """The graphs among the arguments: branches, bodies."""
        found: list[Any] = []
        with_graphs((*self.args, *self.kwargs.values()), lambda g: found.append(g))
        return found

    def __repr__(self) -> str:
        return f"Node({self.function!r}, line {self.line!r})"


def values_in(arg: Any) -> list[Value]:
    """The values among arguments, tuples, lists, dictionaries and slices of arguments."""
    found: list[Value] = []
    _collect((arg,), found)
    return found


def _collect(args: Any, found: list[Value]) -> None:
    for a in args:
        kind = type(a)
        if kind is Value:
            found.append(a)
        elif issubclass(kind, (tuple, list)):
            _collect(a, found)
        elif kind is dict:
            _collect(a.values(), found)
        elif kind is slice:
            _collect((a.start, a.stop, a.step), found)


def replaced(arg: Any, by: Any) -> Any:
    """Arguments with ``by(value)`` in the place of each value."""
    kind = type(arg)
    if kind is Value:
        return by(arg)
    if kind is tuple or kind is list:
        return kind([by(a) if type(a) is Value else replaced(a, by) for a in arg])
    if kind is dict:
        return {k: replaced(a, by) for k, a in arg.items()}
    if issubclass(kind, (tuple, list)):
        return kind([replaced(a, by) for a in arg])
    if kind is slice:
        return slice(replaced(arg.start, by), replaced(arg.stop, by), replaced(arg.step, by))
    return arg


def with_graphs(arg: Any, by: Callable) -> Any:
    """Arguments with ``by(graph)`` in the place of each graph, and of each that stands for one."""
    kind = type(arg)
    if kind is Inner or issubclass(kind, GraphBase):
        return by(arg)
    return kind([with_graphs(a, by) for a in arg]) if kind is tuple or kind is list else arg


def renumber(values: Iterable[Value]) -> None:
    """Numbers values in their order."""
    for i, value in enumerate(values):
        value.number = i


def c_order(shape: tuple) -> tuple:
    """The strides, in elements, of an array in C order."""
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def strides_of(array: Any) -> tuple | None:
    """The strides of an array, in elements; None if it lies in C order (those of sizes 0 and 1 tell nothing)."""
    if array.flags.c_contiguous:
        return None
    return tuple([s // array.itemsize for s in array.strides])


def in_memory(shape: tuple, strides: tuple | None, dtype: Any, make: Callable = np.empty, device: str = "") -> Any:
    """A new array of `make` with these strides, in elements (None: C order): negative ones, gaps and repetitions included."""
    module = DEVICE_BACKENDS[device] if device else None
    if strides is None or 0 in shape:
        return make(shape, dtype) if module is None else module.from_host(make(shape, dtype))
    reach = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
    first = -sum(r for r in reach if r < 0)
    held = make(first + sum(r for r in reach if r > 0) + 1, dtype)
    if module is not None:
        held = module.from_host(held)
        return module.as_strided(held, shape, strides, first, geometry(held))
    return np.lib.stride_tricks.as_strided(held[first:], shape, [s * held.itemsize for s in strides])


def laid_out(array: Any, strides: tuple | None) -> Any:
    """A copy of an array with these strides, in elements (None: C order)."""
    device = backend.device_of(array)
    out = in_memory(array.shape, strides, array.dtype, device="" if device.type == "cpu" else device.type)
    out[...] = array
    return out


def copy_of(array: Any) -> Any:
    """A copy of an array that lies in memory as it does."""
    return laid_out(array, strides_of(array))
