"""The operations that branches and loops are, and the same for graphs that draw random numbers, which stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.core.op import Op
from ferro.graph.control import looping
from ferro.graph.control.derivatives import branches_taped, branches_vjp
from ferro.graph.control.loop_derivatives import scan_taped, scan_vjp, while_taped, while_vjp
from ferro.graph.control.running import branch, listed
from ferro.graph.operands import of_operands, operands_of

DRAWING = "random."  # before the name of an operation whose graphs draw random numbers
OPERATIONS: dict[str, Op] = {}


def _branches(xp: Any, xs: Any, /, graphs: tuple, repeats: tuple) -> tuple:
    index, *operands = listed(xs)
    return branch(index, of_operands(listed(operands), repeats), graphs)


def _while_loop(xp: Any, xs: Any, /, condition: Any, body: Any, count: int) -> tuple:
    return looping.while_loop(operands_of(listed(xs), count), condition, body, count)


def _scan(xp: Any, xs: Any, /, body: Any, count: int, slices: int, reverse: bool) -> tuple:
    return looping.scan(operands_of(listed(xs), count + slices), body, count, slices, reverse)


def _declare(name: str, forward: Callable, vjp: Callable, on_tape: Callable, varying: Callable | None = None) -> None:
    for full in (name, DRAWING + name):
        op = OPERATIONS[full] = Op(full, forward, variadic=True, outputs="*", diff=("xs",), vjp=vjp)
        op.on_tape = on_tape  # type: ignore[attr-defined]
        if varying is not None:
            op.varying = varying  # type: ignore[attr-defined]


_declare("cond", _branches, branches_vjp, branches_taped)
_declare("switch", _branches, branches_vjp, branches_taped)
_declare("while_loop", _while_loop, while_vjp, while_taped, lambda condition, body, count: count)
_declare("scan", _scan, scan_vjp, scan_taped, lambda body, count, slices, reverse: count + slices)
