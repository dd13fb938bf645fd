"""Calling a node of the tape by itself: ``y.grad_fn(g)`` gives the gradients of its inputs."""

from __future__ import annotations

from typing import Any

from ferro.core import mode as _mode
from ferro.core.accumulate import accumulate, conform, own
from ferro.core.base import TensorBase, wrap
from ferro.core.errors import freed_message
from ferro.core.graph_task import Run, enter_run
from ferro.core.node import Freed, FreedError, MultiNode
from ferro.core.saved_values import Unpacked
from ferro.core.step import formulas_of


def call(node: Any, grads: tuple) -> Any:
    """The gradients of a node's inputs (None where none is wanted; alone if there is one input), given those of its outputs.

    Hooks are not called and nothing is freed.  Raises TypeError for another number of gradients than the node has outputs,
    what is not a Tensor, or (as in PyTorch) the node of a custom Function.
    """
    if node.plan.user:
        raise TypeError(
            f"'{node.name()}' object is not callable; its method apply() calls the backward of the Function"
        )
    run, given = _begun(node, grads, len(node.outputs) if isinstance(node, MultiNode) else 1)
    outer = enter_run(run)
    try:
        g = given if isinstance(node, MultiNode) else given[0]
        packed = node.meta is not None and node.meta.packed and type(node.saved) is not Freed
        gs = None if g is None else formulas_of(run, node, g, Unpacked(node) if packed else node, None)
    except FreedError:
        raise RuntimeError(freed_message(node, run)) from None
    finally:
        enter_run(outer)
    found: list = [None] * node.plan.arity
    for i, edge, gx in zip(node.plan.indices, node.edges, gs or (), strict=gs is not None):
        if gx is not None:
            at = edge._data if isinstance(edge, TensorBase) else edge
            gx = conform(gx, at.shape, at.dtype, run.record)
            found[i] = gx if run.record else wrap(own(gx))
    return tuple(found) if len(found) != 1 else found[0]


def add(node: Any, leaf: TensorBase, grads: tuple) -> None:
    """What the end of the tape at a leaf does with the gradient that it is given. Raises as `call` does."""
    run, given = _begun(node, grads, 1)
    if given[0] is not None:
        accumulate(leaf, given[0], run.record, False, run.freed.location)


def _begun(node: Any, grads: tuple, count: int) -> tuple[Run, list]:
    """The run of one node, and the gradients that it is given: tensors where it is recorded, else arrays."""
    if len(grads) != count:
        raise TypeError(f"{node.name()}: expected {count} arguments, got {len(grads)} instead")
    for i, g in enumerate(grads):
        if g is not None and not isinstance(g, TensorBase):
            raise TypeError(
                f"{node.name()}: argument {i} is not a Variable, but {type(g).__name__}; give a Tensor or None"
            )
    run = Run(True, _mode.is_grad_enabled(), None, 1)
    run.mode = _mode.MODE.get()
    run.anomaly = None
    given: list = [None if g is None else g if run.record else g._data for g in grads]
    return run, given
