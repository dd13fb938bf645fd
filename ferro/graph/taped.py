"""A graph on the tape: its operations, or the formulas of its gradients, are recorded as eager records them, for backwards that no graph holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.core.op import OPS
from ferro.core.plan import argument_names
from ferro.graph.executor import arrays_in
from ferro.graph.formulas import outputs_of, tensors_of
from ferro.graph.functions import effects, resolved
from ferro.graph.interpreter import constants
from ferro.graph.ir import Value, replaced
from ferro.graph.sweep import RecordedSweep
from ferro.graph.there import device_of


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
        found.update(
            zip(node.outputs, arrays_in(resolved(node.function, device_of(node))(*args, **kwargs)), strict=False)
        )
    return found


class TapedSweep(RecordedSweep):
    """The gradients of a graph by eager's recorded formulas, on the tensors that a call had: formulas may decide by numbers.

    `given` are the tensors of all inputs and bound values, `kept` those of what the call kept; where a formula names another value,
    the operations are recorded once more.
    """

    def __init__(
        self, graph: Any, wrts: list[Value], given: dict[Value, Any], kept: dict[Value, Any], seeds: dict[Value, Any]
    ) -> None:
        self.given_tensors, self.kept = given, given | kept
        self.begun_with = iter(seeds.values())
        super().__init__(graph, list(seeds), wrts, apart=True)
        self.given.traced = False

    def begin(self, seed: Value) -> Any:
        """The tensor of a cotangent."""
        return next(self.begun_with)

    def array(self, value: Value) -> Any:
        """The numbers of a value."""
        return _array(self.tensor(value))

    def tensor(self, value: Value) -> Any:
        """The tensor of a value, with its history."""
        found = self.kept.get(value)
        return _tensor(self.again[value]) if found is None else found

    @cached_property
    def again(self) -> dict[Value, Any]:
        """Tensors of all values, computed again."""
        return taped(self.graph, self.given_tensors)

    def contributions(self, value: Value, most: int) -> Sequence:
        """What is added up to the gradient of a value, not more than `most` tensors."""
        parts = self.parts.get(value, [])
        return parts if len(parts) <= most else [*parts[: most - 1], sum(parts[most:], parts[most - 1])]


def named_inputs(graph: Any) -> set[Value]:
    """The operands that gradient formulas name, which eager saves."""
    found: set[Value] = set()
    for node in graph.nodes:
        op = OPS.get(node.function)
        if op is None or not node.mask:
            continue
        some = [op.formulas.get(x) for i, x in enumerate(op.inputs) if node.mask >> i & 1]
        names = {n for f in ([op.joint] if op.joint else some) if f is not None for n in argument_names(f)[2:]}
        xs = tensors_of(op, node)
        found.update([x for i, x in enumerate(xs) if x is not None and op.inputs[0 if op.variadic else i] in names])
    return found


def _tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else wrap(x)


def _array(x: Any) -> Any:
    return x._data if isinstance(x, TensorBase) else x
