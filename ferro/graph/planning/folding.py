"""Folding: results that come to lie in the place of an argument, which ends with the node.

Only elementwise functions do so, which read an element before they write the one at its place, if they make no other
array, and if a trial on random numbers gives the same bits either way.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ferro.core.op import OPS
from ferro.cpu.fusion import call_of, is_program
from ferro.cpu.kernels.loops import reads_again
from ferro.graph.chains import formula_of
from ferro.graph.executor import arrays_in, function_of_node
from ferro.graph.functions import ARRAY, BINARY, CHAINED, COMPARED, UNARY
from ferro.graph.ir import COMPUTED, Node, Value, laid_out, replaced
from ferro.graph.passes.elementwise_chains import CHAIN
from ferro.graph.planning.order import Order
from ferro.graph.planning.recording import Allocation
from ferro.graph.there import device_of
from ferro.native.arena import Arena, refusal

_OPERATORS = frozenset(f"array.{name}" for name in (*BINARY, *COMPARED, *UNARY) if name != "matmul")


def fold(
    graph: Any, allocations: list[Allocation], order: Order | None = None, users: dict[Allocation, int] | None = None
) -> None:
    """Sets `folded` of the allocations that lie in the place of an argument: as few as make the arena as small as if all did.

    (Loops of NumPy's and kernels are not faster in place, and some are slower.) With an `order`, all `users` of the argument come before.
    """
    candidates = candidates_of(graph, allocations)
    if order is not None and users is not None:
        candidates = {a: b for a, b in candidates.items() if order.precede(users[b] & ~(1 << a.node), a.node)}
    placed = [a for a in allocations if not a.reason]
    events = sorted([(a.birth, a.size) for a in placed] + [(a.death or 0, -a.size) for a in placed])
    live = np.cumsum([size for _, size in events])
    at = {birth: int(bytes_) for (birth, size), bytes_ in zip(events, live.tolist(), strict=True) if size > 0}
    least = max([at[a.birth] - (a.size if a in candidates else 0) for a in placed], default=0)
    tried: dict[Any, bool] = {}
    for result, source in candidates.items():
        if at[result.birth] > least:
            node, value = graph.nodes[result.node], source.values[0]
            key = _key(node, value)
            if key not in tried:
                tried[key] = may_lie_in(graph, result, source)
            if tried[key]:
                result.folded = source


def may_lie_in(graph: Any, result: Allocation, source: Allocation) -> bool:
    """Whether a trial agrees. On a device a function's results have memory of their own."""
    node = graph.nodes[result.node]
    return not device_of(node) and (bool(refusal()) or _same_in_place(node, source.values[0], result.size))


def candidates_of(graph: Any, allocations: list[Allocation], of_loop: bool = False) -> dict[Allocation, Allocation]:
    """The allocations that may lie in the place of an argument, if a trial agrees, and in which; of_loop: results of a body in that of
    what it is given.
    """
    found: dict[Allocation, Allocation] = {}
    by_node: dict[int, list[Allocation]] = {}
    for a in allocations:
        by_node.setdefault(a.node, []).append(a)
    of = {a.values[0]: a for a in allocations if a.values and a.whole}
    births = sorted([a.birth for a in allocations])
    for i, made in by_node.items():
        node = graph.nodes[i] if i < len(graph.nodes) else None
        if node is None or len(made) != 1 or len(node.outputs) != 1 or not is_elementwise(node):
            continue
        (result,) = made
        if not result.whole or (result.death is None and not of_loop) or result.values[0] is not node.outputs[0]:
            continue
        for value in dict.fromkeys(node.operands):
            source = of.get(value)
            size = math.prod(value.shape) * np.dtype(value.dtype).itemsize
            if (
                source is None
                or (source.reason and not of_loop)
                or not source.size == result.size == size
                or value.shape != node.outputs[0].shape
            ):
                continue
            if not _ends_there(source, result, births):
                continue
            found[result] = source
            break
    return found


def _ends_there(source: Allocation, result: Allocation, births: list[int]) -> bool:
    """Whether the argument is freed when the result has been made, before anything else is allocated, or another node reads it."""
    if source.death is None or source.death < result.birth or source.last != result.node:
        return False
    after = np.searchsorted(births, result.birth, "right")
    return bool(after == len(births) or source.death < births[after])


def is_elementwise(node: Node) -> bool:
    """Whether a node reads each element before it writes the result's at the same place, and never again."""
    if node.kwargs or len(node.outputs) != 1:
        return False
    if node.function in _OPERATORS:
        return True
    if node.function == CHAIN:
        steps, count = node.args[0], len(node.args) - 1
    else:
        arrays = list(dict.fromkeys(node.operands))
        if not all(isinstance(a, Value) or type(a) in (int, float) for a in node.args) or not arrays:
            return False
        if not node.function.startswith(CHAINED) and node.function not in OPS:
            return False
        count = len(arrays)
        steps = ((node.function, *[f"x{arrays.index(a)}" if isinstance(a, Value) else a for a in node.args]),)
    formula = formula_of(steps, ARRAY.__getitem__)
    function = call_of(formula, count)
    if function is not None:
        return not reads_again(function)
    return is_program(formula, np.dtype(np.float32), count)


def _key(node: Node, target: Value) -> Any:
    def said(value: Value) -> Any:
        return value.shape, str(value.dtype), value.strides, value is target

    return node.function, repr(replaced((node.args, node.kwargs), said))


def _same_in_place(node: Node, target: Value, size: int) -> bool:
    """Whether the function gives the same bits where the result lies in the place of an argument, for random numbers."""
    rng = np.random.default_rng(0)
    given = {v: _random(v, rng) for v in dict.fromkeys(node.operands)}
    function = function_of_node(node.function)

    def run() -> Any:
        args, kwargs = replaced((node.args, node.kwargs), given.__getitem__)
        return next(arrays_in(function(*args, **kwargs)))

    with np.errstate(all="ignore"):
        want = run()
        arena = Arena(size)
        memory: Any = (ctypes.c_char * size).from_address(arena.start)
        place = np.frombuffer(memory, target.dtype).reshape(target.shape)
        place[...] = given[target]
        given[target] = place
        table = np.array([size, arena.start, 0, -1, 0, 0], np.int64)
        start, before = table.ctypes.data, arena.now()
        try:
            arena.begin(start)
            got = run()
        finally:
            arena.end(before)
    same = got.ctypes.data == arena.start and got.tobytes() == want.tobytes()
    given.clear()
    del got, place, memory
    arena.close()
    return same


def _random(value: Value, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(value.dtype)
    if dtype.kind == "c":
        found = rng.normal(size=value.shape) + 1j * rng.normal(size=value.shape)
    elif dtype.kind in "fV":
        found = 3 * rng.normal(size=value.shape)
    else:
        found = rng.integers(0, 2 if dtype.kind == "b" else 7, value.shape)
    array = value.array if value.array is not None and value.kind != COMPUTED else found.astype(dtype)
    return laid_out(array, value.strides)
