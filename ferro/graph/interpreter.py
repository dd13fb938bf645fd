"""Replay: runs a graph on real arrays, checks what it is given, and explains errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase
from ferro.graph.executor import Program
from ferro.graph.functions import resolved
from ferro.graph.ir import CAPTURED, OWN, Node, Value, c_order, copy_of, replaced
from ferro.graph.seats import SEATS
from ferro.graph.state import thing
from ferro.graph.there import device_of, shares
from ferro.linalg_errors import LinAlgError, Refused, raise_first


def run(graph: Any, given: Sequence, on_node: Callable | None = None) -> list:
    """The arrays of a graph's outputs for these inputs, tensors or arrays (behind which may stand the bound ones)."""
    return execute(graph, checked(graph, given), on_node)


def execute(
    graph: Any,
    given: Sequence,
    on_node: Callable | None = None,
    program: Any = None,
    within: Callable[[Callable[..., list]], list] | None = None,
) -> list:
    """The same, for tensors (or arrays) of all inputs, each once, and bound values, that have been checked.

    `program` runs the nodes in the place of the graph's own; ``within(call)`` calls what runs them.
    """
    for held_object in graph.held:
        thing(held_object)
    if program is None:
        program = graph.program(tells=on_node is not None)
    tensors = [*given, *constants(graph)] if graph.constants else given
    arrays = [t._data if isinstance(t, TensorBase) else t for t in tensors]
    try:
        with np.errstate(all="ignore"):
            if within is None:
                found = program.run(arrays, tensors, on_node)
            else:
                found = within(partial(program.run, arrays, tensors, on_node))
    except BaseException as error:
        _explain(program, error, tensors)
        raise
    return _results(graph, found, {id(a) for a in arrays} if OWN in graph.histories else ())


def taken(graph: Any, arrays: list, trip: int = 0) -> list:
    """The arrays of the outputs of a branch, or of a body in one of its trips, for those of its inputs, which are taken out of the list."""
    room = SEATS.node
    seat = None if room is None else room.seat(graph, trip)
    for held_object in graph.held:
        thing(held_object)
    program = graph.program(takes=True, seeks=seat is not None, tells=False)
    if graph.constants:
        arrays += constants(graph)
    given = {id(a) for a in arrays} if OWN in graph.histories else ()
    try:
        with np.errstate(all="ignore"):
            found = program.run(arrays, (), None, seat)
    except BaseException as error:
        _explain(program, error, ())
        raise
    finally:
        if room is not None:
            SEATS.node = room
            room.leave()
    return _results(graph, found, given)


def constants(graph: Any) -> list:
    """The arrays of constants, copies of those that the program writes into."""
    for value in graph.constants:
        if value.array is None:
            raise ValueError(
                f"interpret: the constant {value} has no array: give it to Graph.parse, or load the graph from a file"
            )
    return [copy_of(value.array) if value.written else value.array for value in graph.constants]


def _explain(program: Program, error: BaseException, tensors: Sequence) -> None:
    """Say in which node an error arose. What has been written counts as changed, though the program ends; LAPACK's refusals get words."""
    i, held = program.where(error.__traceback__)
    if i < 0:
        return
    for node in program.nodes[i + 1 :]:
        if node.function.startswith("tensor.count_changes"):
            args = replaced(
                node.args, lambda v: tensors[program.given[v]] if v in program.given else held[program.names[v]]
            )
            resolved(node.function, device_of(node))(*args)
    node = program.nodes[i]
    if isinstance(error, Refused):
        said = "LAPACK refuses a matrix: it is singular or not positive-definite, or an iteration does not converge (info {i})"
        try:
            raise_first(node.function, error.info, said)
        except LinAlgError as refused:
            refused.add_note(_place(node))
            raise
    if isinstance(error, Exception):
        error.add_note(_place(node))


def _results(graph: Any, found: list, given: Collection[int]) -> list:
    """The outputs: none shows the memory of a constant, and those that are to own theirs (gradients) share it with nothing.

    given: the identities of the arrays of inputs.
    """
    constants = [v.array for v in graph.constants if not v.written] if graph.constants else ()
    if OWN not in graph.histories:
        if constants:
            for i, array in enumerate(found):
                if graph.histories[i] != CAPTURED and _shows(array, constants):
                    found[i] = copy_of(array)
        return found
    seen = {*given, *map(id, constants)}
    for i, (array, history) in enumerate(zip(found, graph.histories, strict=True)):
        if history == OWN:
            shared = array.base is not None or id(array) in seen
        else:
            shared = history != CAPTURED and _shows(array, constants)
        if shared:
            found[i] = backend.xp_of(array).copy(array) if history == OWN else copy_of(array)
        seen.update((id(array), id(array.base)))
    return found


def _shows(array: Any, constants: Sequence) -> bool:
    """Whether an array shows the memory of a constant."""
    return any(array is c or (array.base is not None and shares(array, c)) for c in constants)


def _place(node: Node) -> str:
    made = ", ".join(map(repr, node.outputs))
    return f"(in a graph: node {made or 'without result'}, '{node.function}', from {node.line or 'an unknown line'})"


def checked(graph: Any, given: Sequence) -> list:
    """The tensors (or arrays) of inputs and bound values, each once, checked."""
    found, wanted, bound = list(given), list(graph.inputs), list(graph.bound)
    if len(found) == len(wanted) + len(bound):
        wanted += bound
    elif len(found) != len(wanted):
        raise ValueError(
            f"interpret: expected {len(wanted)} inputs (and perhaps {len(bound)} bound ones), got {len(found)}"
        )
    else:
        missing = [v for v in bound if v.tensor is None]
        if missing:
            raise ValueError(
                f"interpret: {len(missing)} bound values have no tensor here ({missing[0]} {missing[0].name!r}); give all {len(bound)} behind "
                "the inputs"
            )
        wanted, found = wanted + bound, found + _read(bound)
    held: dict[Value, Any] = {}
    for i, (value, x) in enumerate(zip(wanted, found, strict=True)):
        _check(i, value, _array(x))
        before = held.setdefault(value, x)
        if before is not x and _array(before) is not _array(x):
            raise ValueError(
                f"interpret: input {i} was the same tensor as another one when the graph was captured; now it differs"
            )
    return list(held.values())


def _read(bound: list[Value]) -> list:
    memo: dict[int, Any] = {}
    return [v.read(memo) for v in bound]


def _array(x: Any) -> Any:
    return x._data if isinstance(x, TensorBase) else x


def _check(i: int, value: Value, array: Any) -> None:
    name = f"input {i}" + (f" ({value.name!r})" if value.name else "")
    device = backend.device_of(array).type
    if device != (value.device or "cpu"):
        raise ValueError(
            f"interpret: {name} lies on the device {device!r}, the graph was captured for one on {value.device or 'cpu'!r}"
        )
    if array.shape != value.shape or array.dtype != value.dtype:
        raise ValueError(
            f"interpret: {name} is {array.dtype}{list(array.shape)}, the graph was captured for {value.dtype}{list(value.shape)}"
        )
    strides = c_order(value.shape) if value.strides is None else value.strides
    if array.size and any(
        n > 1 and s != array.itemsize * t for n, s, t in zip(array.shape, array.strides, strides, strict=True)
    ):
        raise ValueError(
            f"interpret: {name} lies in memory with the strides {[s // array.itemsize for s in array.strides]}, the graph was captured "
            f"for {list(strides)}"
        )
