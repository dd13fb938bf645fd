"""Replay: runs the nodes of a graph one after the other on real arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro import cpu
from ferro.graph.functions import resolved
from ferro.graph.ir import CAPTURED, OWN, Node, Value, c_order, replaced
from ferro.linalg_errors import LinAlgError, Refused, raise_first


def run(graph: Any, arrays: list, on_node: Callable | None = None) -> list:
    """The arrays of a graph's outputs for these inputs (behind which may stand the bound ones)."""
    held = _given(graph, arrays)
    for value in graph.constants:
        if value.array is None:
            raise ValueError(
                f"interpret: the constant {value} has no array: give it to Graph.parse, or load the graph from a file"
            )
        held[value] = value.array.copy() if value.written else value.array
    last = _last_uses(graph)
    with np.errstate(all="ignore"):
        for i, node in enumerate(graph.nodes):
            made = _call(graph, node, held)
            if on_node is not None:
                on_node(node, made)
            for value in last.get(i, ()):
                held.pop(value, None)
    return _results(graph, [held[v] for v in graph.outputs], [held[v] for v in (*graph.inputs, *graph.bound)])


def _results(graph: Any, found: list, given: list) -> list:
    """The outputs: none shows the memory of a constant, and those that are to own theirs (gradients) share it with nothing."""
    constants = [v.array for v in graph.constants if not v.written]
    taken = {id(a) for a in given}
    for i, (array, history) in enumerate(zip(found, graph.histories, strict=True)):
        if history == OWN:
            shared = array.base is not None or id(array) in taken
        else:
            near = constants if history != CAPTURED else ()
            shared = any(array is c or (array.base is not None and np.may_share_memory(array, c)) for c in near)
        if shared:
            found[i] = cpu.copy(array)
        taken.update((id(array), id(array.base)))
    return found


def _call(graph: Any, node: Node, held: dict[Value, Any]) -> list:
    """Runs one node; returns the arrays that it made."""
    args, kwargs = replaced((node.args, node.kwargs), held.__getitem__)
    try:
        found = resolved(node.function)(*args, **kwargs)
    except Refused as e:
        said = "LAPACK refuses a matrix: it is singular or not positive-definite, or an iteration does not converge (info {i})"
        try:
            raise_first(node.function, e.info, said)
        except LinAlgError as error:
            error.add_note(_place(node))
            raise
        raise
    except Exception as e:
        e.add_note(_place(node))
        raise
    made = list(arrays_in(found))
    if len(made) != len(node.outputs):
        raise ValueError(f"'{node.function}' gave {len(made)} arrays, where the graph has {len(node.outputs)}")
    for value, array in zip(node.outputs, made, strict=True):
        if array.shape != value.shape or array.dtype != value.dtype:
            raise ValueError(
                f"{value} = {node.function}: the capture saw {value.dtype}{list(value.shape)}, this run gives {array.dtype}{list(array.shape)}: "
                "the shape depends on the data"
            )
        held[value] = array
    return made


def _place(node: Node) -> str:
    made = ", ".join(map(repr, node.outputs))
    return f"(in a graph: node {made or 'without result'}, '{node.function}', from {node.line or 'an unknown line'})"


def arrays_in(found: Any) -> Any:
    """The arrays that a function gave."""
    if isinstance(found, (tuple, list)):
        for f in found:
            yield from arrays_in(f)
    elif found is not None:
        yield np.asarray(found)


def _given(graph: Any, arrays: list) -> dict[Value, Any]:
    """The arrays of inputs and bound values, checked."""
    wanted, bound = list(graph.inputs), list(graph.bound)
    if len(arrays) == len(wanted) + len(bound):
        wanted += bound
    elif len(arrays) != len(wanted):
        raise ValueError(
            f"interpret: expected {len(wanted)} inputs (and perhaps {len(bound)} bound ones), got {len(arrays)}"
        )
    else:
        missing = [v for v in bound if v.tensor is None]
        if missing:
            raise ValueError(
                f"interpret: {len(missing)} bound values have no tensor here ({missing[0]} {missing[0].name!r}); give all {len(bound)} behind "
                "the inputs"
            )
        wanted, arrays = wanted + bound, arrays + [v.tensor._data for v in bound]
    held: dict[Value, Any] = {}
    for i, (value, array) in enumerate(zip(wanted, arrays, strict=True)):
        _check(i, value, array)
        if held.setdefault(value, array) is not array:
            raise ValueError(
                f"interpret: input {i} was the same tensor as another one when the graph was captured; now it differs"
            )
    return held


def _check(i: int, value: Value, array: Any) -> None:
    name = f"input {i}" + (f" ({value.name!r})" if value.name else "")
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


def _last_uses(graph: Any) -> dict[int, list[Value]]:
    """By the number of a node, the values that no later one reads, nor any output is."""
    kept = {*graph.outputs, *graph.inputs, *graph.bound}
    last: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in (*node.operands, *node.outputs):
            last[value] = i
    found: dict[int, list[Value]] = {}
    for value, i in last.items():
        if value not in kept:
            found.setdefault(i, []).append(value)
    return found
