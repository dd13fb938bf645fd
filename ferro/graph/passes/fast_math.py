"""fast_math: rules of real numbers that floating ones do not keep to the last bit; they run only if they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.graph.ir import Node, Value
from ferro.graph.passes.memory import Memory
from ferro.graph.passes.simplification import number

_ADDS = frozenset(("add", "array.add", "sub", "array.sub"))
_MUL, _DIV = ("mul", "array.mul"), ("div", "array.truediv")


def fast_math(program: Any) -> int:
    """Leaves out ``x + 0`` and ``x - 0`` (which change -0.0), makes ``(x * a) * b`` one product and ``x / a`` a product.

    Returns how many nodes were left out or became others. a and b are numbers.
    """
    memory = Memory(program)
    count = 0
    kept = []
    for node in program.nodes:
        program.read(node)
        if not program.stays(node) and len(node.args) == 2 and not node.kwargs:
            if _without_zero(program, node, memory):
                count += 1
                continue
            count += _as_product(program, node) + _one_product(program, node, memory)
        kept.append(node)
    program.keep(kept)
    return count


def _alike(x: Any, node: Node) -> bool:
    value = node.outputs[0]
    return (
        isinstance(x, Value)
        and value.dtype.kind == "f"
        and (x.shape, x.dtype, x.strides) == (value.shape, value.dtype, value.strides)
    )


def _without_zero(program: Any, node: Node, memory: Memory) -> bool:
    x, y = node.args
    if node.function in ("add", "array.add") and number(y) is None:
        x, y = y, x
    found = number(y)
    if node.function not in _ADDS or found is None or bool((found != 0).any()) or not _alike(x, node):
        return False
    if not memory.may_stand_for(x, node.outputs[0], memory.place[node]):
        return False
    program.replace(node.outputs[0], x)
    memory.join(node.outputs[0], x)
    return True


def _factor(node: Node | None) -> tuple[Value, Any] | None:
    """The array and the number of a product of such."""
    if node is None or node.function not in _MUL or len(node.args) != 2:
        return None
    x, y = node.args
    if number(y) is None:
        x, y = y, x
    found = number(y)
    return None if found is None or not _alike(x, node) else (x, found)


def _as_product(program: Any, node: Node) -> bool:
    x, y = node.args
    found = number(y)
    if node.function not in _DIV or found is None or not _alike(x, node) or bool((found == 0).any()):
        return False
    program.rewritten(node)
    node.function = _MUL[_DIV.index(node.function)]
    node.args = (x, _constant(program, node, 1 / found.astype(np.float64)))
    return True


def _one_product(program: Any, node: Node, memory: Memory) -> bool:
    outer = _factor(node)
    inner = None if outer is None else _factor(outer[0].node)
    if outer is None or inner is None or memory.written(outer[0]):
        return False
    before = outer[0].node
    if memory.written(inner[0], memory.place[before], memory.place[node]):  # type: ignore[index]
        return False
    both = outer[1].astype(np.float64) * inner[1].astype(np.float64)
    program.rewritten(node)
    node.args = (inner[0], _constant(program, node, both))
    return True


def _constant(program: Any, node: Node, value: Any) -> Value:
    return program.constant(np.asarray(value, node.outputs[0].dtype).reshape(()))
