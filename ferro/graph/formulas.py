"""The gradient formulas of an operation, run on the values of a node: what the engine does for a node of the tape.

What stands for values is given (`Given`): traced arrays, of which the engine's steps become nodes, or Tensors around
them, whose operations become nodes, so that they can be differentiated again. Stand-ins hold the places of numbers: arrays of
the right shape, dtype and layout, since a formula is a pure function that no number decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.device import DEVICE_BACKENDS
from ferro.core.op import Op
from ferro.core.plan import argument_names
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.graph.array import called
from ferro.graph.functions import gradient
from ferro.graph.ir import Node, Value, in_memory, replaced
from ferro.graph.there import device_of


def tensors_of(op: Op, node: Node) -> tuple:
    """The tensor inputs of a node: values, or None."""
    return tuple(node.args[0]) if op.variadic else node.args[: len(op.inputs)]


def outputs_of(op: Op, node: Node) -> list:
    """The outputs of a node (values, or None) without its aux values."""
    return node.results[: len(node.results) - len(op.aux)]


class Given:
    """What formulas get for the values of nodes: traced arrays. `array` gives that of a value."""

    recorded = False
    traced = True

    def __init__(self, array: Callable[[Value], Any], xp: Any) -> None:
        self.array, self.xp = array, xp

    def at(self, xp: Any) -> None:
        """The next formulas take their functions from here."""
        if not self.recorded:
            self.xp = xp

    def tensor(self, value: Value) -> Any:
        """What stands for an input or an output of a node."""
        return self.array(value)

    def aux(self, value: Value) -> Any:
        """What stands for an aux value."""
        return self.array(value)


class Cotangents(tuple):  # noqa: SLOT001 (a tuple has no other place for an attribute)
    """Those of the outputs of a loop; `begun`: by the numbers of inputs, what there is of their gradients already, to which it adds."""

    begun: dict[int, Any]


def gradients(op: Op, node: Node, want: list[int], gs: Any, given: Given) -> list:
    """The gradients by the inputs in `want`, of those of the outputs (None where there is none)."""
    g: Any = gs[0]
    if op.multi:
        g = gs[op.lone] if op.lone is not None else gs if node.graphs else tuple(gs)
    if g is None:
        return [None] * len(want)
    if given.recorded and given.traced and node.graphs:
        raise NotImplementedError(
            f"{op.name}: a derivative of its derivative is no graph, at {node.line}; ferro.compile takes it on the tape"
        )
    if op.joint is None:
        missing = [op.inputs[i] for i in want if op.inputs[i] not in op.formulas]
        if missing:
            raise NotImplementedError(
                f"{op.name}: the derivative by {', '.join(missing)} is not implemented, at {node.line}"
            )
        if given.recorded or op.multi or g.size < PROGRAM_LEAST or device_of(node):
            return [_run(op.formulas[op.inputs[i]], op, node, want, g, given) for i in want]
        return [_run_large(op.inputs[i], op, node, want, g, given) for i in want]
    found = _run(op.joint, op, node, want, g, given)
    return [found[i if op.variadic else op.diff.index(i)] for i in want]


def _run(formula: Any, op: Op, node: Node, want: list[int], g: Any, given: Given) -> Any:
    names = argument_names(formula)[2:]
    return formula(given.xp, g, *[_named(name, op, node, want, given) for name in names])


def _run_large(by: str, op: Op, node: Node, want: list[int], g: Any, given: Given) -> Any:
    names = argument_names(op.formulas[by])[2:]
    return called(
        f"gradient.{op.name}.{by}", gradient(op, by), g, *[_named(name, op, node, want, given) for name in names]
    )


def _named(name: str, op: Op, node: Node, want: list[int], given: Given) -> Any:
    """What a formula means by a name: see Op."""
    xs = tensors_of(op, node)
    if name == "needs":
        return tuple([i in want for i in (range(len(xs)) if op.variadic else op.diff)])
    if name in op.inputs:
        return replaced(xs if op.variadic else xs[op.inputs.index(name)], given.tensor)
    if name in op.output_names:
        return replaced(node.results[op.output_names.index(name)], given.tensor)
    if name in op.aux:
        return replaced(node.results[len(node.results) - len(op.aux) + op.aux.index(name)], given.aux)
    if name in op.params:
        return replaced(node.args[len(op.inputs) + op.params.index(name)], given.array)
    if name == "out":
        return replaced(tuple(node.results), given.tensor)
    if op.variadic:
        return tuple([x.shape for x in xs])
    x = xs[op.inputs.index(name.removesuffix("_shape"))]
    return None if x is None else x.shape


def stand_in(value: Value) -> Any:
    """An array like a value's, of numbers at which no function of matrices fails: ones, and more on the diagonals."""
    if value.array is not None and not value.written:
        return value.array
    floating = value.dtype.kind in "fcV"
    out = in_memory(value.shape, value.strides, value.dtype, np.ones if floating else np.zeros, value.device)
    if floating and out.ndim > 1 and out.size and all(out.strides[-2:]):
        i = np.arange(min(value.shape[-2:]))
        i = DEVICE_BACKENDS[value.device].from_host(i) if value.device else i
        out[..., i, i] += value.shape[-1]
    return out
