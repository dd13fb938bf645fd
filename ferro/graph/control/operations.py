"""The operations that branches and loops are, and the same for graphs that draw random numbers, which stay where they are."""

from __future__ import annotations

from typing import Any

from ferro.core.op import Op
from ferro.graph.control.derivatives import branches_taped, branches_vjp, of_operands
from ferro.graph.control.running import branch

DRAWING = "random."  # before the name of an operation whose graphs draw random numbers


def _branches(xp: Any, xs: Any, /, graphs: tuple, repeats: tuple) -> tuple:
    return branch(xs[0], of_operands(xs[1:], repeats), graphs)


OPERATIONS: dict[str, Op] = {}
for _name in ("cond", "switch"):
    for _prefix in ("", DRAWING):
        _op = Op(_prefix + _name, _branches, variadic=True, outputs="*", diff=("xs",), vjp=branches_vjp)
        _op.on_tape = branches_taped  # type: ignore[attr-defined]
        OPERATIONS[_op.name] = _op
