"""What recording leaves: the node of a call, with what its formulas need saved, or the mark of a history that ends."""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe
from typing import Any

from ferro.core.base import LEAF, DetachedMark, new
from ferro.core.history import history
from ferro.core.mode import ACTIVE, current
from ferro.core.node import Node, OutputRef, next_sequence, node_meta
from ferro.core.op import Op
from ferro.core.plan import Plan
from ferro.core.provenance import OUTSIDE, caller, outermost


def record(
    plan: Any, edges: tuple, xs: Any, arrays: Any, outs: tuple, params: tuple, noted: bool = False, cls: Any = Node
) -> Any:
    """A node for one call of an operation: of its inputs `xs`, whose arrays are `arrays`, outputs and aux values, and parameters.

    edges: where the gradients of the inputs in the plan go; noted: whether to note where the program is. The caller of
    this one is called by the library; a MultiNode still needs its `outputs`.
    """
    node = cls()
    node.plan = plan
    node.edges = edges
    node.saved = plan.save(xs, arrays, outs, params)
    if cls is Node:
        out = outs[0]
        node.shape = out.shape
        node.dtype = out.dtype
    else:
        node.shape = node.dtype = None
    node.seq = next_sequence()
    node.meta = None
    if noted:  # as `caller` does
        try:
            frame = _getframe(3)
        except ValueError:
            frame = _getframe(1)
        code = frame.f_code
        if code.co_filename not in OUTSIDE:
            frame = outermost(frame)
            code = frame.f_code
        node.code = code
        node.offset = frame.f_lasti
    if plan.saves_inputs:
        for i in range(len(xs)) if plan.op.variadic else plan.saves_inputs:
            x = xs[i]
            if x is not None and (v := x._counter) is not None and v.n:
                guard(node, v)
    return node


def edges_of(plan: Plan, xs: Sequence) -> tuple:
    """Where the gradients of the inputs in a plan go."""
    found = []
    for i in plan.indices:
        n = xs[i]._node
        found.append(xs[i] if n is LEAF else n)
    return tuple(found)


def output_of(node: Any, index: int, shape: tuple, dtype: Any) -> OutputRef:
    """The history of one output of a node with several."""
    found: Any = new(OutputRef)
    found.node = node
    found.index = index
    found.shape = shape
    found.dtype = dtype
    return found


def needs_gradient(op: Op, xs: tuple) -> int:
    """Bits of the differentiable inputs that need a gradient."""
    mask = 0
    for i in range(len(xs)) if op.variadic else op.diff:
        x = xs[i]
        if x is not None and history(x) is not None:
            mask |= 1 << i
    return mask


def guard(node: Node, v: Any) -> None:
    """Notes the version at which a node saved an input whose storage has been changed before."""
    if v.inference:
        made = f" (this one was made under {v.detached})" if v.detached is not None else ""
        raise RuntimeError(
            f"{node.plan.op.name}: Inference tensors cannot be saved for backward{made}. To work around you can make a clone to "
            "get a normal tensor and use it in autograd."
        )
    meta = node_meta(node)
    if meta.guards is None:
        meta.guards = []
    meta.guards.append((v, v.n, None))


def mark_detached(t: Any, detached: Any, op: Op, xs: tuple, location: Any = None) -> None:
    """Gives a result without history the mark of how it lost it: to a mode, to the operation, or before."""
    for k, x in enumerate(xs):
        if x is None:
            continue
        meta, n = x._meta, x._node
        if type(meta) is DetachedMark and (n is None or (k == 0 and t._meta is None)):
            mark = meta
        elif n is None:
            if meta is None:
                continue
            mark = meta.detached
        elif detached is not None:
            mark = detached
        elif ACTIVE and not current().grad:
            continue
        else:
            mark = DetachedMark(op.name, location or caller(2), x, t._data.dtype)
        if mark is not None:
            if t._meta is None:
                t._meta = mark
            else:
                t._meta.detached = mark
            return
