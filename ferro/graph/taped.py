"""A graph run on the tape: its operations are recorded as eager records them, for backwards that no graph holds."""

from __future__ import annotations

from typing import Any

from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.core.op import OPS
from ferro.graph.executor import arrays_in
from ferro.graph.formulas import outputs_of, tensors_of
from ferro.graph.functions import effects, resolved
from ferro.graph.interpreter import constants
from ferro.graph.ir import Value, replaced


def taped(graph: Any, given: dict[Value, Any]) -> dict[Value, Any]:
    """Tensors for all values of a graph, for tensors of its inputs and bound values. What it writes (statistics) is not written again.

    NotImplementedError for a graph that draws random numbers, which would be others.
    """
    found: dict[Value, Any] = {**given, **dict(zip(graph.constants, constants(graph), strict=True))}
    for node in graph.nodes:
        what = effects(node.function)
        if what.random:
            raise NotImplementedError(
                f"'{node.function}' at {node.line} draws random numbers, in a compiled function whose gradient has no graph that can be "
                "differentiated: take it out of ferro.compile"
            )
        if what.writes:
            continue
        op = OPS.get(node.function)
        if op is not None and node.mask:
            xs = [None if v is None else _tensor(found[v]) for v in tensors_of(op, node)]
            params = replaced(node.args[1 if op.variadic else len(op.inputs) :], lambda v: _array(found[v]))
            again = getattr(op, "on_tape", None)  # (of a branch or a loop)
            made = backend.apply(op, tuple(xs), params) if again is None else tuple(again(tuple(xs), *params))
            several = made if isinstance(made, tuple) else (made,)
            found.update({v: t for v, t in zip(outputs_of(op, node), several, strict=again is None) if v is not None})
            continue
        args, kwargs = replaced((node.args, node.kwargs), lambda v: _array(found[v]))
        found.update(zip(node.outputs, arrays_in(resolved(node.function)(*args, **kwargs)), strict=False))
    return found


def _tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else wrap(x)


def _array(x: Any) -> Any:
    return x._data if isinstance(x, TensorBase) else x
