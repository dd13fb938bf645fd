"""Checking: what must hold of a program behind every pass. PassError names the pass and what it broke."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.graph.errors import PassError
from ferro.graph.executor import arrays_in
from ferro.graph.formulas import stand_in
from ferro.graph.functions import PURE, effects, resolved
from ferro.graph.ir import COMPUTED, Node, Value, replaced, strides_of
from ferro.graph.there import device_of

MOST = 1 << 20  # elements of the operands of a node that is run to see the types of its results


class Interface:
    """What no pass may change: inputs, bound values, the types of outputs, and what has an effect, in its order."""

    def __init__(self, program: Any) -> None:
        self.inputs, self.bound = list(program.inputs), list(program.bound)
        self.outputs = [_type(v) for v in program.outputs]
        self.histories = list(program.histories)
        self.effects = _effects(program)
        self.by_data = {
            n.function for n in program.nodes if _other_types(n)
        }  # functions whose shapes depend on the data

    def check(self, program: Any, name: str) -> None:
        """PassError if the pass of that name broke something."""
        for what in ("inputs", "bound", "histories"):
            if getattr(self, what) != getattr(program, what):
                raise PassError(f"optimise: the pass {name!r} changed the {what} of the graph")
        if self.outputs != [_type(v) for v in program.outputs]:
            raise PassError(f"optimise: the pass {name!r} changed the types of outputs")
        if self.effects != _effects(program):
            raise PassError(f"optimise: the pass {name!r} moved or removed a write, a draw or a check")
        _check_order(program, name)
        for node in program.nodes:
            found = None if node.function in self.by_data else _other_types(node)
            if found:
                raise PassError(
                    f"optimise: behind the pass {name!r}, '{node.function}' gives {found}, and the graph says {list(map(_type, node.outputs))}"
                )


def _type(value: Value) -> tuple:
    return value.shape, value.dtype, _told(value.shape, value.strides)


def _told(shape: tuple, strides: tuple | None) -> tuple | None:
    """Strides without those of sizes of 1, which tell nothing."""
    return None if strides is None else tuple([s if n > 1 else 0 for s, n in zip(strides, shape, strict=True)])


def _effects(program: Any) -> list[str]:
    return [f"{n.function} {n.line}" for n in program.nodes if effects(n.function) != PURE]


def _check_order(program: Any, name: str) -> None:
    """Every value is made once, before it is read."""
    known = {*program.inputs, *program.bound, *program.constants}
    for node in program.nodes:
        for value in node.operands:
            if value not in known:
                raise PassError(
                    f"optimise: behind the pass {name!r}, '{node.function}' reads {value!r}, which nothing made before"
                )
        for i, value in enumerate(node.outputs):
            if value in known or (value.kind, value.node, value.index) != (COMPUTED, node, i):
                raise PassError(
                    f"optimise: behind the pass {name!r}, {value!r} is not what '{node.function}' alone makes"
                )
            known.add(value)
    for value in program.outputs:
        if value not in known:
            raise PassError(f"optimise: behind the pass {name!r}, nothing makes the output {value!r}")


def _other_types(node: Node) -> list[tuple]:
    """The types that a function gives of operands like those of a node, if the node says others; [] where it refuses such numbers."""
    if (
        device_of(node)
        or node.graphs
        or effects(node.function) != PURE
        or sum(int(np.prod(v.shape)) for v in node.operands) > MOST
    ):
        return []
    args, kwargs = replaced((node.args, node.kwargs), stand_in)
    try:
        with np.errstate(all="ignore"):
            made = list(arrays_in(resolved(node.function)(*args, **kwargs)))
    except Exception:  # noqa: BLE001 (of numbers that mean nothing)
        return []
    found = [(a.shape, a.dtype, _told(a.shape, strides_of(a))) for a in made]
    return found if found != [_type(v) for v in node.outputs] else []
