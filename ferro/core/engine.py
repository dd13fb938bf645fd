"""The engine: runs the tape backward in descending order of sequence numbers (Kahn's algorithm with a priority queue).

Note [Order of accumulation].  A node runs when every node that contributes to its gradient has run, and of the nodes
that are ready the youngest runs first.  Sequence numbers grow along every edge of the tape, so the order of execution is
exactly descending sequence number, and contributions to one gradient are added in that order too (two edges of one node
in the order of its inputs).  The threaded executor (parallel.py) adds in the same order, hence equals this one bit for bit.

The engine's parts: this loop, a step of it (step.py), what one backward knows (graph_task.py), sums of gradients
(accumulate.py; those of leaves: accumulate_grad.py), whether they may be made in place (owners.py), threads (parallel.py, device_threads.py).
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import SERVING, levels_of
from ferro.batched.levels import ALIVE, RUNNING
from ferro.core import backend, device_threads, parallel
from ferro.core import mode as _mode
from ferro.core.accumulate import add, conform, to_buffer
from ferro.core.accumulate_grad import leaf_ready
from ferro.core.backend import HOST
from ferro.core.base import TensorBase
from ferro.core.device_threads import belongs_there
from ferro.core.errors import explain, freed_message
from ferro.core.graph_task import STATE, Run, wanted
from ferro.core.history import position
from ferro.core.hooks import prepare, run_tensor_hooks
from ferro.core.nested import in_thread, must_move
from ferro.core.node import NAMED, FreedError, MultiNode, Node, OutputRef
from ferro.core.primitives import leave_levels
from ferro.core.saved_values import check_guards
from ferro.core.step import absent, cotangent, gradients, lie_here, together
from ferro.cpu.sparse_rows import Rows
from ferro.cpu.thresholds import HEAVY, HEAVY_IF_ASKED, PROGRAM_LEAST, SHARE_LEAST, VERY_HEAVY
from ferro.native.threads import get_num_threads

_SEQUENCE = attrgetter("seq")


def backward(
    roots: list,
    seeds: list,
    *,
    keep: bool,
    record: bool,
    capture: dict | None = None,
    threads: int | None = None,
    into_grad: bool = False,
) -> dict:
    """Runs backward from the tensors `roots` with the cotangents `seeds`; returns what `capture` asked for.

    into_grad: gradients of leaves that `capture` asks for are added to their ``.grad`` instead.
    """
    outer = STATE.run
    if outer is not None and must_move(outer):
        return in_thread(
            backward, roots, seeds, keep=keep, record=record, capture=capture, threads=threads, into_grad=into_grad
        )
    recording = record
    if _mode.ACTIVE and _mode.current().level:
        record = True  # on Tensors, through which the tangents of forward mode flow
    run = Run(keep, record, capture, threads)
    run.into_grad = into_grad
    if outer is not None:
        run.inside(outer)
    if ALIVE:
        begin_levels(run, roots, seeds)
    starts = run.starts = [position(r) for r in roots]
    ready: list = []
    lone = _begin(run, starts, seeds, ready)
    del seeds
    mode = _mode.MODE.get()
    if mode is None or mode.silent:
        run.mode = None if record else _mode.SILENT
    else:
        run.mode = _mode.changed(grad=recording, inference=False)
    before = (
        _mode.enter(run.mode) if record and run.mode is not mode else None
    )  # see Note [Modes of backward] in graph_task.py
    STATE.run = run
    try:
        with np.errstate(all="ignore"):  # like PyTorch, inf and nan pass without a warning
            for node in lone:
                g = run.grads.pop(node)
                if isinstance(node, TensorBase):
                    leaf_ready(run, node, g)
                elif (
                    len(starts) == 1 and node.meta is not None
                ):  # like PyTorch, a single root has its hooks run in any case
                    run_tensor_hooks(run, node, g)
            g = None
            execute(run, ready)
        run.end()
    except Exception as error:
        run.fail(error)
        raise
    finally:
        STATE.run = outer
        if before is not None:
            _mode.leave(before)
    return run.captured


def _begin(run: Run, starts: list, seeds: list, ready: list) -> list:
    """Adds up the seeds of roots, and queues those that nothing leads to; returns the roots that are not to be run."""
    if len(starts) == 1 and type(starts[0]) is Node:  # the common case, without more ado
        node, g = starts[0], seeds[0] if run.record else seeds[0]._data
        discover(run, starts)
        if run.needed is None or node in run.needed:
            run.deps[node] = 0
            ready.append((-node.seq, node, g))
            return []
        run.grads[node] = g
        return [node]
    discover(run, [s.node if type(s) is OutputRef else s for s in starts])
    for start, seed in zip(starts, seeds, strict=True):
        g = seed if run.record else seed._data
        if type(start) is OutputRef:
            buffer = run.grads.get(start.node)
            if buffer is None:
                buffer = run.grads[start.node] = [None] * len(start.node.outputs)
            buffer[start.index] = add(buffer[start.index], g)
        else:
            run.grads[start] = add(run.grads.get(start), g)
        del g
    lone = []
    for node in dict.fromkeys([s.node if type(s) is OutputRef else s for s in starts]):
        if run.deps.setdefault(node, 0):
            continue
        if isinstance(node, TensorBase) or (run.needed is not None and node not in run.needed):
            lone.append(node)
        else:
            heappush(ready, (-node.seq, node, run.grads.pop(node)))
    return lone


def discover(run: Run, starts: list) -> None:
    """Counts, for everything reachable, the edges that lead into it; with `capture` only what leads to a wanted gradient."""
    deps = run.deps
    stack = [s for s in dict.fromkeys(starts) if isinstance(s, Node)]
    if run.capture is not None:
        run.needed, run.partial = _needed(stack, run.capture)
        for node in run.needed:
            for t in node.edges if isinstance(node, Node) else ():
                if type(t) is OutputRef:
                    t = t.node
                if t in run.needed:
                    deps[t] = deps.get(t, 0) + 1
        return
    visited = set(stack)
    pop, push = stack.pop, stack.append
    while stack:
        for t in pop().edges:
            if type(t) is OutputRef:
                t = t.node
            if t in deps:
                deps[t] += 1
                continue
            deps[t] = 1
            if isinstance(t, Node) and t not in visited:
                push(t)


def _needed(stack: list, capture: dict) -> tuple[dict, set]:
    """Everything reachable from which a captured position can be reached (a dict used as an ordered set).

    And the nodes among it that are captured themselves, or have an edge that leads elsewhere.
    """
    wanted = {k[0] if type(k) is tuple else k for k in capture}
    reached = dict.fromkeys(stack)
    nodes = list(stack)
    for node in nodes:
        for t in node.edges:
            if type(t) is OutputRef:
                t = t.node
            if t not in reached:
                reached[t] = None
                if isinstance(t, Node):
                    nodes.append(t)
    needed: dict = dict.fromkeys(wanted)
    partial = set(wanted)
    for node in sorted(nodes, key=_SEQUENCE):
        leads = [(t.node if type(t) is OutputRef else t) in needed for t in node.edges]
        if True in leads:
            needed[node] = None
            if False in leads:
                partial.add(node)
    return {n: None for n in needed if n in reached}, partial


def execute(run: Run, ready: list) -> None:
    """The serial executor.  `ready` is a heap of (-sequence, node, gradient); see Note [Order of accumulation]."""
    deps, grads, needed, record = run.deps, run.grads, run.needed, run.record
    may_share = run.threads != 1 and not record and not ALIVE
    many = 2 if run.threads else 2 * get_num_threads()  # who names a number of threads wants them to be used
    release, freed = not run.keep, run.freed
    watched = run.anomaly is not None or bool(run.observers) or bool(ALIVE)
    partial = run.partial
    functional = backend.functional
    node: Any = None
    g: Any = None
    gx: Any
    try:
        while True:
            if node is None:
                if not ready:
                    return
                _, node, g = heappop(ready)
            if may_share and ready and (threads := sharing(ready, node, g, many, deps)) is not None:
                heappush(ready, (-node.seq, node, g))
                node = g = None
                if threads.execute(run, ready):
                    return
                may_share = False
                continue
            plan = node.plan
            edges = node.edges
            same = plan.same
            meta = node.meta
            general = watched or node in partial
            if meta is not None and not (general or meta.hooked()):
                if cotangent(plan.op, g) is not None:  # what no formula reads may have been changed
                    check_guards(node)
                meta = None
            if general or plan.general or meta is not None or g is None:
                u = None if record or general or plan.user or meta is not None else cotangent(plan.op, g)
                if type(u) is HOST or (type(u) is tuple and lie_here(u)):
                    gs = together(plan, u, node)
                    u = None  # see Note [Ownership]
                else:
                    g = prepare(run, node, g)
                    gs = absent(run, node) if g is None else gradients(run, node, g)
                same = False
            elif record:
                gs = [formula(functional, g, node) for formula in plan.recorded]
                same = False
            else:
                if type(g) is HOST:
                    xp = cpu
                    formulas = plan.small if g.size < PROGRAM_LEAST else plan.large or plan.for_large()
                else:
                    xp, formulas = backend.xp_of(g), plan.formulas
                if len(edges) == 1:
                    gx = formulas[0](xp, g, node)
                    t = edges[0]
                    same = same and type(gx) is HOST and gx.dtype is node.dtype
                    # a link of a chain: the gradient goes on without lists and queue
                    if same and type(t) is Node and deps[t] == 1 and not ready and t not in grads:
                        if release and plan.keeps:
                            node.saved = freed
                        node, g = t, gx
                        gx = None
                        continue
                    gs = [gx]
                elif len(edges) == 2:
                    gs = [formulas[0](xp, g, node), formulas[1](xp, g, node)]
                else:
                    gs = [formula(xp, g, node) for formula in formulas]
            if release and plan.keeps and (needed is None or any(wanted(run, node))):
                node.saved = freed
            g = node = None  # only `gs` refers to the new gradients now: see Note [Ownership]
            for j, t in enumerate(edges):
                gx = gs[j]
                kind = type(t)
                if kind is not Node and kind in NAMED:
                    kind = NAMED[kind]
                if kind is OutputRef:
                    if ALIVE and gx is not None:
                        gx = leave_levels(run, t.node, gx)
                    gx = to_buffer(grads, t, gx, record)
                    t = t.node
                    kind = MultiNode
                elif gx is not None and not same:
                    a = gx._data if record else gx
                    at = t if kind is Node else t._data
                    if a.shape != at.shape or a.dtype is not at.dtype or type(a) is not HOST:
                        if ALIVE:
                            gx = leave_levels(run, t, gx)
                        if kind is Node and type(gx) is Rows:  # only a leaf keeps them
                            gx = gx.dense()
                        gx = conform(gx, at.shape, at.dtype, record)
                    a = None  # see Note [Ownership]
                if needed is not None and t not in needed:
                    continue
                count = deps[t] = deps[t] - 1
                if kind is not MultiNode and (count or grads):
                    before = grads.pop(t, None)
                    if before is not None:
                        gx = before if gx is None else add(before, gx)
                        before = None
                    if count and gx is not None:
                        grads[t] = gx
                if count:
                    continue
                if kind is Node:
                    if node is None and not ready:
                        node, g = t, gx
                        continue
                elif kind is MultiNode:
                    del grads[t]
                else:
                    gs[j] = None
                    leaf_ready(run, t, gx)
                    continue
                if node is not None:
                    heappush(ready, (-node.seq, node, g))
                    node = None
                heappush(ready, (-t.seq, t, gx))
            gx = None
    except FreedError:
        raise RuntimeError(freed_message(node, run)) from None
    except Exception as e:
        explain(e, node, run)
        raise


def begin_levels(run: Run, roots: list, seeds: list) -> None:
    """Notes the levels of vmap that the roots and cotangents have themselves: these gradients keep throughout."""
    if (run.into_grad or run.capture is None) and RUNNING.get():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
            "instead or call backward() outside of functorch transforms. (ferro: ferro.func.grad and ferro.func.vjp.)"
        )
    for t in (*roots, *[s for s in seeds if s is not None]):
        run.levels.update(levels_of(t._data))


def sharing(ready: list, node: Any, g: Any, many: int, deps: dict) -> Any:
    """What runs the ready nodes in several threads from here on; None where these gain nothing.

    A device is given its work by one thread, which gains where a branch on the processor is heavy.
    """
    if SERVING and (there := belongs_there((0, node, g))) is not belongs_there(ready[0]):
        here, its = ready[0][1:] if there else (node, g)
        return device_threads if weight(here, its) > HEAVY or _heavy_behind(here) else None
    return parallel if worth_sharing(ready, node, g, many, deps) else None


def worth_sharing(ready: list, node: Any, g: Any, many: int, deps: dict) -> bool:
    """Whether several threads gain by running ready nodes at the same time: where there are `many`, and heavy ones.

    Of a few branches, and of lighter ones, the kernels are better shared by the workers (native/workers.py). Where the
    other node is light yet (a branch that ends in a sum, one of many as a rule; the next of a chain from which branches
    part), what lies behind counts.
    """
    if (type(g) is HOST and g.size < SHARE_LEAST) or type(g) in SERVING:  # the common case costs no more than this
        return False
    mine, heavy = weight(node, g), HEAVY_IF_ASKED if many == 2 else HEAVY
    if mine <= heavy:
        return False
    _, other, its = ready[0]
    if mine > VERY_HEAVY:
        if type(its) is HOST and its.size == 1:
            return _heavy_behind(other)
        if len(ready) + 1 < many and _free_behind(other, deps) >= many:
            return True
    return len(ready) + 1 >= many and weight(other, its) > heavy


def _free_behind(node: Any, deps: dict) -> int:
    """How many very heavy nodes wait for `node` and for nothing else that is to be run; of the nearest six dozen."""
    left: dict = {}
    near, found = [node], 0
    for n in near:
        for t in n.edges:
            t = t.node if type(t) is OutputRef else t
            left[t] = left.get(t, deps.get(t, 0)) - 1
            if left[t] == 0 and isinstance(t, Node) and len(near) < 72:
                near.append(t)
                found += type(t) is Node and math.prod(t.shape) * t.plan.op.weight > VERY_HEAVY
    return found


def _heavy_behind(node: Any) -> bool:
    """Whether one of the nearest dozen nodes behind `node` is very heavy."""
    near = [node]
    for n in near:
        for t in n.edges:
            if isinstance(t, Node):
                if math.prod(t.shape) * t.plan.op.weight > VERY_HEAVY:
                    return True
                if len(near) < 12:
                    near.append(t)
    return False


def weight(node: Any, g: Any) -> float:
    """A rough cost of a node's formulas in nanoseconds."""
    if g is None:
        return 0.0
    size = sum(p.size for p in g if p is not None) if type(g) is list else g.size
    return size * node.plan.op.weight
