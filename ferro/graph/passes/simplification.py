"""Simplification: nodes that give what is there already, to the last bit: views of views, copies, factors of one, casts and back.

Every rule holds for infinities, nans and -0.0: ``x - 0.0`` is x, ``x + 0.0`` is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.graph.ir import CONSTANT, Node, Value, replaced
from ferro.graph.passes.geometry import Geometry, Place
from ferro.graph.passes.memory import Memory, may_share

_COPIES = frozenset(("clone", "array.copy", "xp.copy"))
_CASTS = frozenset(("to_copy", "array.astype", "xp.cast"))
_NEGATIVES = frozenset(("neg", "array.neg"))
_MUL, _DIV = ("mul", "array.mul"), ("div", "array.truediv")
_ADD, _SUB = ("add", "array.add"), ("sub", "array.sub")
_RESHAPES = frozenset(("reshape", "array.reshape", "xp.reshape"))


def simplification(program: Any) -> int:
    """Replaces nodes by what they give; returns how many were replaced, or read something simpler now."""
    memory, geometry = Memory(program), Geometry()
    places: dict[Place, Value] = {}
    count = 0
    kept = []
    for node in program.nodes:
        program.read(node)
        if not program.stays(node):
            count += _shorter(program, node, memory, geometry)
            if _is_view_again(program, node, geometry, places) or _is_there(program, node, memory):
                count += 1
                continue
        elif may_share(node):
            geometry.note(node)
        kept.append(node)
    program.keep(kept)
    return count


# -- views -------------------------------------------------------------------------------------------------------------


def _is_view_again(program: Any, node: Node, geometry: Geometry, places: dict[Place, Value]) -> bool:
    """Whether all results of a node show what other values show; these stand for them then."""
    if not geometry.note(node):
        return False
    root = geometry.array(node.operands[0])[0]
    places.setdefault(geometry.place(root), root)
    found = [places.setdefault(geometry.place(v), v) for v in node.outputs]
    if any(v is w for v, w in zip(node.outputs, found, strict=True)):
        return False
    for value, by in zip(node.outputs, found, strict=True):
        program.replace(value, by)
    return True


def _shorter(program: Any, node: Node, memory: Memory, geometry: Geometry) -> bool:
    """Has a node read the operand of its operand, where it gives the same of it; whether it does."""
    before = node.operands[0].node if len(node.operands) == 1 else None
    if before is None or len(before.operands) != 1:
        return False
    source = before.operands[0]
    if node.function in _RESHAPES and before.function in _RESHAPES:
        found, wanted = geometry.views(node, source), geometry.views(node, before.outputs[0])
        same = found is not None and wanted is not None and _same_places(found, wanted)
    else:
        same = _is_one_cast(before, node, source, memory)
    if same:
        node.args, node.kwargs = replaced((node.args, node.kwargs), lambda _: source)
        program.rewritten(node)
    return same


def _same_places(found: list, wanted: list) -> bool:
    return all(
        (r, a.ctypes.data, a.strides) == (s, b.ctypes.data, b.strides)
        for (r, a), (s, b) in zip(found, wanted, strict=True)
    )


# -- values ------------------------------------------------------------------------------------------------------------


def _is_there(program: Any, node: Node, memory: Memory) -> bool:
    """Whether a value holds what the node would compute, and may stand for it; it does then."""
    found = _source(node, memory)
    if found is None or len(node.outputs) != 1:
        return False
    source, since = found
    value = node.outputs[0]
    if (source.shape, source.dtype, source.strides) != (value.shape, value.dtype, value.strides):
        return False
    if not memory.may_stand_for(source, value, memory.place[since]):
        return False
    program.replace(value, source)
    memory.join(value, source)
    return True


def _source(node: Node, memory: Memory) -> tuple[Value, Node] | None:
    """The value whose numbers a node gives, and the node that read it first."""
    name, operands = node.function, node.operands
    if name in _COPIES or (name in _CASTS and operands[0].dtype == node.outputs[0].dtype):
        return operands[0], node
    before = operands[0].node if len(operands) == 1 else None
    if before is not None and len(before.operands) == 1 and not memory.written(operands[0]):
        source = before.operands[0]
        if name in _NEGATIVES and before.function in _NEGATIVES:
            return source, before
        if name in _CASTS and before.function in _CASTS and source.dtype == node.outputs[0].dtype:
            return (source, before) if lossless(source.dtype, operands[0].dtype) else None
    found = _without_effect(node)
    return None if found is None else (found, node)


def _without_effect(node: Node) -> Value | None:
    """The operand of a sum or product whose other operand changes nothing."""
    if len(node.args) != 2 or node.kwargs:
        return None
    x, y = node.args
    if node.function in (*_MUL, *_ADD) and number(y) is None:
        x, y = y, x
    if not isinstance(x, Value) or x.dtype.kind not in "fiu":
        return None
    if node.function in (*_MUL, *_DIV):
        return x if one(y) else None
    if node.function in _ADD:
        return x if zero(y, x.dtype, negative=True) else None
    return x if node.function in _SUB and zero(y, x.dtype, negative=False) else None


def number(arg: Any) -> Any:
    """The number that an argument is, a literal or a constant of one element; None if it is none."""
    if type(arg) in (int, float):
        return np.asarray(arg)
    if isinstance(arg, Value) and arg.kind == CONSTANT and not arg.written and type(arg.array) is np.ndarray:
        return arg.array if arg.array.size == 1 and arg.array.dtype.kind in "fiu" else None
    return None


def one(arg: Any) -> bool:
    """Whether an argument is the number 1."""
    found = number(arg)
    return found is not None and bool((found == 1).all())


def zero(arg: Any, dtype: Any, negative: bool) -> bool:
    """Whether an argument is 0 where it is computed with arrays of a dtype: -0.0, if that is asked for and they are floating."""
    found = number(arg)
    if found is None or bool((found != 0).any()):
        return False
    return dtype.kind != "f" or bool(np.signbit(found).all()) is negative


# -- casts -------------------------------------------------------------------------------------------------------------


def lossless(dtype: Any, to: Any) -> bool:
    """Whether every number of a dtype is one of another."""
    if dtype.kind not in "bfiu" or to.kind not in "fiu" or not np.can_cast(dtype, to, "safe"):
        return False
    return to.kind != "f" or dtype.kind in "bf" or 8 * dtype.itemsize <= np.finfo(to).nmant + 1


def _is_one_cast(before: Node, node: Node, source: Value, memory: Memory) -> bool:
    """Whether a cast of a cast is one cast of `source`: the first one loses nothing, and none goes to integers of what has fractions."""
    if node.function not in _CASTS or before.function not in _CASTS:
        return False
    middle, last = before.outputs[0], node.outputs[0]
    if source.strides != middle.strides or source.dtype == last.dtype or not lossless(source.dtype, middle.dtype):
        return False
    if last.dtype.kind not in "fc" or (source.dtype.kind in "iu" and middle.dtype.kind == "f"):
        return False
    return not memory.written(middle) and not memory.written(source, memory.place[before], memory.place[node])
