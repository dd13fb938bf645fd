"""One step of backward: the gradients of a node's inputs, by its formulas, on arrays or on Tensors."""

from __future__ import annotations

from typing import Any

from ferro import cpu
from ferro.batched.levels import ALIVE
from ferro.core import backend
from ferro.core.graph_task import Run, wanted
from ferro.core.hooks import finish
from ferro.core.node import Freed, MultiNode
from ferro.core.saved_values import Unpacked, check_guards
from ferro.cpu.thresholds import PROGRAM_LEAST


def cotangent(op: Any, g: Any) -> Any:
    """The cotangent that the formulas of an operation take; None if there is none."""
    if not op.multi or g is None:
        return g
    if op.lone is not None:
        return g[op.lone]
    for part in g:
        if part is not None:
            return tuple(g)
    return None


def lie_here(parts: tuple) -> bool:
    """Whether the cotangents of several outputs are arrays of the processor."""
    return all(part is None or type(part) is backend.HOST for part in parts)


def together(plan: Any, g: Any, node: Any) -> list:
    """The gradients of arrays by a joint formula, or of an operation with several outputs, where nobody looks on."""
    if plan.joint:
        found = plan.formulas[0](cpu, g, node)
        return [found[i] for i in plan.spread or plan.indices]
    return [formula(cpu, g, node) for formula in plan.formulas]


def absent(run: Run, node: Any) -> list:
    """What a node passes on that received no gradient: none, but functions of the user and hooks are called with None."""
    gs: list = [None] * len(node.edges)
    called = node.plan.joint and node.plan.user and not node.writes_view
    given = [None] * len(node.outputs) if isinstance(node, MultiNode) else None
    if called:
        found = node.plan.user(run, given, node)
        gs = [found[i] for i in node.plan.indices]
    return gs if node.meta is None else finish(run, node, gs, given)


def gradients(run: Run, node: Any, g: Any) -> list:
    """The gradients of a node's inputs, one per edge (None where there is none): the general form."""
    return observed(run, node, g, run.observers) if run.observers else _with_saved(run, node, g)


def observed(run: Run, node: Any, g: Any, observers: tuple) -> list:
    """The same in the hands of the observers that were switched on when backward began."""
    if not observers:
        return _with_saved(run, node, g)
    return observers[-1].backward(run, node, g, lambda: observed(run, node, g, observers[:-1]))


def _with_saved(run: Run, node: Any, g: Any) -> list:
    if node.meta is None or not node.meta.packed or type(node.saved) is Freed:
        return _gradients(run, node, g, node)
    with run.lock, run.user():
        source = Unpacked(node)
    return _gradients(run, node, g, source)


def _gradients(run: Run, node: Any, g: Any, source: Any) -> list:
    """The same; `source` is the node, or what stands for it as the holder of its saved values."""
    needed = run.needed
    run.running = None if run.anomaly is None else node
    wants = None
    if needed is not None:
        wants = wanted(run, node)
        if not any(wants):
            return [None] * len(wants)
    gs = formulas_of(run, node, g, source, wants)
    if gs is None:
        return absent(run, node)
    if node.meta is not None or run.anomaly is not None:
        gs = finish(run, node, gs, g)
    return gs


def formulas_of(run: Run, node: Any, g: Any, source: Any, wants: list | None) -> list | None:
    """What the formulas of a node give, those in `wants` alone if it is given; None if the gradient is absent."""
    plan, given = node.plan, g
    xp = backend.functional
    if plan.op.multi:
        g = g[plan.op.lone] if plan.op.lone is not None else tuple(g)
        if g is None or (plan.op.lone is None and all(p is None for p in g)):
            return None
    if node.meta is not None and node.meta.guards:
        check_guards(node)
    if not run.record:
        some = next(p for p in g if p is not None) if type(g) is tuple else g
        xp = backend.xp_of(some) if not ALIVE else backend.xp_beside(some, node.saved)
    formulas = plan.recorded if run.record else plan.formulas
    if not (run.record or plan.general or isinstance(g, tuple) or ALIVE):
        # those of the serial loop: written out, they may give an array in another order, whose sums round otherwise
        if g.size >= PROGRAM_LEAST:
            formulas = backend.large_formulas(xp, plan)
        elif xp is cpu and source is node:
            formulas = plan.small
    if plan.joint:
        found = plan.user(run, given, node) if plan.user else formulas[0](xp, g, source)
        return [found[i] for i in (plan.spread or plan.indices)]
    if wants is None:
        return [formula(xp, g, source) for formula in formulas]
    return [formula(xp, g, source) if want else None for formula, want in zip(formulas, wants, strict=True)]
