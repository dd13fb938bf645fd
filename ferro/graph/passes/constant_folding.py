"""Constant folding: a node of constants alone is computed now, and its result is a constant of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.graph.executor import arrays_in
from ferro.graph.functions import resolved
from ferro.graph.ir import CONSTANT, Node, Value, copy_of, replaced, strides_of
from ferro.graph.passes.memory import RESULT, Memory
from ferro.graph.there import device_of

MOST = 1 << 20  # bytes of a result; a greater one must not be greater than what it is made of


def constant_folding(program: Any) -> int:
    """Computes what depends on no input and no bound value; returns how many nodes there are fewer.

    What is written into stays a node.
    """
    memory = Memory(program)
    kept = []
    for node in program.nodes:
        program.read(node)
        found = _folded(program, node, memory)
        if found is None:
            kept.append(node)
            continue
        for value, array in zip(node.outputs, found, strict=True):
            program.replace(value, program.constant(array))
    count = len(program.nodes) - len(kept)
    program.keep(kept)
    return count


def _folded(program: Any, node: Node, memory: Memory) -> list | None:
    """The results of a node that may be constants."""
    operands = node.operands
    if program.stays(node) or not operands or node.graphs or not all(map(_is_known, operands)):
        return None
    if any(memory.written(v) or _is_seen_twice(program, v, memory) for v in node.outputs):
        return None
    size = sum(_bytes(v) for v in node.outputs)
    if size > max(MOST, sum(_bytes(v) for v in dict.fromkeys(operands))):
        return None
    args, kwargs = replaced((node.args, node.kwargs), lambda v: v.array)
    try:
        with np.errstate(all="ignore"):
            made = [copy_of(a) for a in arrays_in(resolved(node.function, device_of(node))(*args, **kwargs))]
    except Exception:  # noqa: BLE001 (whatever it raises, a replay raises it)
        return None
    if [(a.shape, a.dtype, strides_of(a)) for a in made] != [(v.shape, v.dtype, v.strides) for v in node.outputs]:
        return None
    return made


def _is_known(value: Value) -> bool:
    return value.kind == CONSTANT and not value.written and value.array is not None


def _is_seen_twice(program: Any, value: Value, memory: Memory) -> bool:
    """Whether the caller gets the memory of a value by something else, too: each of them would be a copy."""
    if not memory.seen(value) & RESULT:
        return False
    group = memory.group(value)
    return [memory.group(v) for v in program.outputs].count(group) > 1 or value not in program.outputs


def _bytes(value: Value) -> int:
    return int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize
