"""Replay: runs the nodes of a graph one after the other on real arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro import cpu
from ferro.core.base import TensorBase
from ferro.graph.functions import resolved
from ferro.graph.ir import CAPTURED, OWN, Node, Value, c_order, replaced
from ferro.graph.state import TAKES_TENSORS, thing
from ferro.linalg_errors import LinAlgError, Refused, raise_first


def run(graph: Any, given: Sequence, on_node: Callable | None = None) -> list:
    """The arrays of a graph's outputs for these inputs, tensors or arrays (behind which may stand the bound ones)."""
    tensors = _given(graph, given)
    for held_object in graph.held:
        thing(held_object)
    held = {value: _array(t) for value, t in tensors.items()}
    for value in graph.constants:
        if value.array is None:
            raise ValueError(
                f"interpret: the constant {value} has no array: give it to Graph.parse, or load the graph from a file"
            )
        held[value] = value.array.copy() if value.written else value.array
    last = _last_uses(graph)
    i = -1
    try:
        with np.errstate(all="ignore"):
            for i, node in enumerate(graph.nodes):
                made = _call(node, held, tensors)
                if on_node is not None:
                    on_node(node, made)
                for value in last.get(i, ()):
                    held.pop(value, None)
    except BaseException:
        for node in graph.nodes[i + 1 :] if i >= 0 else ():  # what has been written counts as changed
            if node.function.startswith("tensor.count_changes"):
                _call(node, held, tensors)
        raise
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


def _call(node: Node, held: dict[Value, Any], tensors: dict[Value, Any]) -> list:
    """Runs one node; returns the arrays that it made."""
    by = (lambda v: tensors.get(v, held.get(v))) if node.function in TAKES_TENSORS else held.__getitem__
    args, kwargs = replaced((node.args, node.kwargs), by)
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


def _given(graph: Any, given: Sequence) -> dict[Value, Any]:
    """The tensors (or arrays) of inputs and bound values, checked."""
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
    return held


def _read(bound: list[Value]) -> list:
    memo: dict[int, Any] = {}
    return [v.read(memo) for v in bound]


def _array(x: Any) -> Any:
    return x._data if isinstance(x, TensorBase) else x


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
