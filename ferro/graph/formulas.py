"""The gradient formulas of an operation, run on the values of a node: what the engine does for a node of the tape.

A formula gets traced arrays in the place of saved values, so the steps that it makes are noted. Stand-ins hold their
places: arrays of the right shape, dtype and layout, since a formula is a pure function that no number decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core.op import Op
from ferro.core.plan import argument_names
from ferro.cpu.thresholds import PROGRAM_LEAST
from ferro.graph.array import called
from ferro.graph.functions import gradient
from ferro.graph.ir import Node, Value, c_order, replaced


def tensors_of(op: Op, node: Node) -> tuple:
    """The tensor inputs of a node: values, or None."""
    return tuple(node.args[0]) if op.variadic else node.args[: len(op.inputs)]


def outputs_of(op: Op, node: Node) -> list:
    """The outputs of a node (values, or None) without its aux values."""
    return node.results[: len(node.results) - len(op.aux)]


def gradients(op: Op, node: Node, want: list[int], gs: list, array: Any, xp: Any) -> list:
    """The gradients by the inputs in `want`, of those of the outputs (None where there is none). array: the array of a value."""
    g: Any = gs[0]
    if op.multi:
        g = gs[op.lone] if op.lone is not None else tuple(gs)
    if g is None:
        return [None] * len(want)
    if op.joint is None:
        missing = [op.inputs[i] for i in want if op.inputs[i] not in op.formulas]
        if missing:
            raise NotImplementedError(
                f"{op.name}: the derivative by {', '.join(missing)} is not implemented, at {node.line}"
            )
        if op.multi or g.size < PROGRAM_LEAST:
            return [_run(op.formulas[op.inputs[i]], op, node, want, g, array, xp) for i in want]
        return [_run_large(op.inputs[i], op, node, want, g, array) for i in want]
    found = _run(op.joint, op, node, want, g, array, xp)
    return [found[i if op.variadic else op.diff.index(i)] for i in want]


def _run(formula: Any, op: Op, node: Node, want: list[int], g: Any, array: Any, xp: Any) -> Any:
    names = argument_names(formula)[2:]
    return formula(xp, g, *[_named(name, op, node, want, array) for name in names])


def _run_large(by: str, op: Op, node: Node, want: list[int], g: Any, array: Any) -> Any:
    names = argument_names(op.formulas[by])[2:]
    return called(
        f"gradient.{op.name}.{by}", gradient(op, by), g, *[_named(name, op, node, want, array) for name in names]
    )


def _named(name: str, op: Op, node: Node, want: list[int], array: Any) -> Any:
    """What a formula means by a name: see Op."""
    xs = tensors_of(op, node)
    if name == "needs":
        return tuple([i in want for i in (range(len(xs)) if op.variadic else op.diff)])
    if name in op.inputs:
        found = xs if op.variadic else xs[op.inputs.index(name)]
    elif name in op.output_names:
        found = node.results[op.output_names.index(name)]
    elif name in op.aux:
        found = node.results[len(node.results) - len(op.aux) + op.aux.index(name)]
    elif name in op.params:
        found = node.args[len(op.inputs) + op.params.index(name)]
    elif name == "out":
        found = tuple(node.results)
    elif op.variadic:
        return tuple([x.shape for x in xs])
    else:
        x = xs[op.inputs.index(name.removesuffix("_shape"))]
        return None if x is None else x.shape
    return replaced(found, array)


def stand_in(value: Value) -> Any:
    """An array like a value's, of numbers at which no function of matrices fails: ones, and more on the diagonals."""
    if value.array is not None and not value.written:
        return value.array
    strides = c_order(value.shape) if value.strides is None else value.strides
    reach = [s * (n - 1) for s, n in zip(strides, value.shape, strict=True)] if 0 not in value.shape else []
    first = -sum(r for r in reach if r < 0)
    held = np.zeros(first + sum(r for r in reach if r > 0) + 1, value.dtype)
    size = held.itemsize
    out = np.lib.stride_tricks.as_strided(held[first:], value.shape, [s * size for s in strides])
    if value.dtype.kind in "fcV":
        held[...] = 1
        if out.ndim > 1 and out.size and all(strides[-2:]):
            i = np.arange(min(value.shape[-2:]))
            out[..., i, i] += value.shape[-1]
    return out
