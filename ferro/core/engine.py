"""The engine: runs the tape backward in descending order of sequence numbers (Kahn's algorithm with a priority queue).

Note [Order of accumulation].  A node runs when every node that contributes to its gradient has run, and of the nodes
that are ready the youngest runs first.  Sequence numbers grow along every edge of the tape, so the order of execution is
exactly descending sequence number, and contributions to one gradient are added in that order too (two edges of one node
in the order of its inputs).  The threaded executor (parallel.py) adds in the same order, hence equals this one bit for bit.

Note [Ownership].  A formula may return an array that somebody else still holds: the cotangent itself, a saved value, a
view.  The engine adds in place into, or hands to a leaf, only an array that nobody but itself refers to, which
Python's reference count tells exactly: views count as references to the array they view.
"""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from sys import getrefcount
from typing import Any

import numpy as np

from ferro import cpu
from ferro.core import mode as _mode
from ferro.core import worlds
from ferro.core.base import TensorBase, Unpacked, bump, check_guards, meta_of, position, wrap
from ferro.core.node import AccumulateGrad, Freed, FreedError, MultiNode, Node, Pick
from ferro.core.provenance import at, caller

ndarray, asarray = np.ndarray, np.asarray
LARGE = 4096  # elements above which adding in place is worth a look at the reference count
_leaf_locks = tuple(threading.Lock() for _ in range(64))


class Run:
    """What one backward needs to know: the graph's in-degrees, where gradients are wanted, and how to compute."""

    __slots__ = ("anomaly", "callbacks", "capture", "captured", "deps", "freed", "grads", "into_grad", "keep", "lock",
                 "needed", "observers", "record", "running", "scratch", "starts", "threads")  # fmt: skip

    def __init__(self, keep: bool, record: bool, capture: dict | None, threads: int | None) -> None:
        self.keep = keep
        self.record = record
        self.capture = (
            capture  # keys of positions: gradients are wanted there and nowhere else; None: accumulate at leaves
        )
        self.captured: dict = {}
        self.callbacks: list = []  # what queue_callback was given
        self.threads = threads if _mode.MULTITHREADING.get() else 1  # 1 forces the serial executor, None leaves the choice to the engine
        self.into_grad = False
        self.deps: dict = {}
        self.starts: list = []
        self.freed = Freed(caller(3))
        self.needed: Any = None
        self.grads: dict = {}
        mode = _mode.current()
        self.anomaly: Any = _mode.ANOMALY[0]
        self.running: Any = None  # in anomaly mode: the node whose formulas run
        self.observers = mode.observers
        self.scratch: dict | None = None  # what unpack hooks keep until this backward ends (see utils.checkpoint)
        self.lock = threading.RLock()  # hooks and other functions of the user run one at a time

    def reaches(self, where: Any) -> bool:
        """Whether this backward computes the gradient at a position."""
        node = where.node if type(where) is Pick else where
        return node in self.deps if self.needed is None else node in self.needed


def backward(roots: list, seeds: list, *, keep: bool, record: bool, capture: dict | None = None,
             threads: int | None = None, into_grad: bool = False) -> dict:  # fmt: skip
    """Runs backward from the tensors `roots` with the cotangents `seeds`; returns what `capture` asked for.

    into_grad: gradients of leaves that `capture` asks for are added to their ``.grad`` instead.
    """
    recording = record
    if _mode.ACTIVE and _mode.current().level:
        record = True  # on Tensors, through which the tangents of forward mode flow
    run = Run(keep, record, capture, threads)
    run.into_grad = into_grad
    starts = run.starts = [position(r) for r in roots]
    ready: list = []
    lone: list = []
    if len(starts) == 1 and type(starts[0]) is Node and capture is None:
        node = starts[0]
        discover(run, starts)
        run.deps[node] = 0
        ready.append((-node.seq, node, seeds[0] if record else seeds[0]._data))
    else:
        lone = _begin(run, starts, seeds, ready)
    del seeds
    previous = _mode.MODE.get()
    if previous is None or previous.silent:
        mode = None if record else _mode.SILENT
    else:
        mode = _mode.changed(grad=recording, inference=False)
    _mode.enter(mode)
    outer, _state.run = _state.run, run
    try:
        with np.errstate(all="ignore"):  # like PyTorch, inf and nan pass without a warning
            for node in lone:
                g = run.grads.pop(node)
                if isinstance(node, TensorBase):
                    leaf_ready(run, node, g)
                elif len(starts) == 1 and node.meta is not None:  # like PyTorch, a single root has its hooks run in any case
                    _run_tensor_hooks(run, node, g)
            g = None
            execute(run, ready)
        for callback in run.callbacks:  # which may queue more
            callback()
    finally:
        _state.run = outer
        _mode.leave(previous)
    return run.captured


def _begin(run: Run, starts: list, seeds: list, ready: list) -> list:
    """Adds up the seeds of roots, and queues those that nothing leads to; returns the roots that are not to be run."""
    discover(run, [s.node if type(s) is Pick else s for s in starts])
    for start, seed in zip(starts, seeds, strict=True):
        g = seed if run.record else seed._data
        if type(start) is Pick:
            buffer = run.grads.get(start.node)
            if buffer is None:
                buffer = run.grads[start.node] = [None] * len(start.node.outputs)
            buffer[start.index] = add(buffer[start.index], g)
        else:
            run.grads[start] = add(run.grads.get(start), g)
        del g
    lone = []
    for node in dict.fromkeys([s.node if type(s) is Pick else s for s in starts]):
        if run.deps.setdefault(node, 0):
            continue
        if isinstance(node, TensorBase) or (run.needed is not None and node not in run.needed):
            lone.append(node)
        else:
            heappush(ready, (-node.seq, node, run.grads.pop(node)))
    return lone


class _State(threading.local):
    run: Run | None = None
    turns = 0  # how many leaves' turns the thread is in, see `deliver`


_state = _State()


def current_run() -> Run | None:
    """The backward that this thread is running formulas, hooks or functions for."""
    return _state.run


def in_turn() -> bool:
    """Whether this thread is in a leaf's turn: a backward begun there must not wait for other threads (see `deliver`)."""
    return _state.turns > 0


def enter_run(run: Run | None) -> Run | None:
    """Makes `run` the current one of this thread; returns the one before."""
    before, _state.run = _state.run, run
    return before


def queue_callback(callback: Any) -> None:
    """Runs `callback` when the backward now running in this thread has ended without error, in its modes."""
    if _state.run is None:
        raise RuntimeError(
            "queue_callback: callbacks can only be queued while a backward is running, from a hook or formula"
        )
    _state.run.callbacks.append(callback)


def discover(run: Run, starts: list) -> None:
    """Counts, for everything reachable, the edges that lead into it; with `capture` only what leads to a wanted gradient."""
    deps = run.deps
    stack = [s for s in dict.fromkeys(starts) if isinstance(s, Node)]
    if run.capture is not None:
        run.needed = _needed(stack, run.capture)
        for node in run.needed:
            for t in node.edges if isinstance(node, Node) else ():
                if type(t) is Pick:
                    t = t.node
                if t in run.needed:
                    deps[t] = deps.get(t, 0) + 1
        return
    visited = set(stack)
    pop, push = stack.pop, stack.append
    while stack:
        for t in pop().edges:
            if type(t) is Pick:
                t = t.node
            if t in deps:
                deps[t] += 1
                continue
            deps[t] = 1
            if isinstance(t, Node) and t not in visited:
                push(t)


def _needed(stack: list, capture: dict) -> dict:
    """Everything reachable from which a captured position can be reached (a dict used as an ordered set)."""
    wanted = {k[0] if type(k) is tuple else k for k in capture}
    reached = dict.fromkeys(stack)
    todo = list(stack)
    while todo:
        for t in todo.pop().edges:
            if type(t) is Pick:
                t = t.node
            if t not in reached:
                reached[t] = None
                if isinstance(t, Node):
                    todo.append(t)
    needed: dict = dict.fromkeys(wanted)
    nodes = sorted((n for n in reached if isinstance(n, Node)), key=lambda n: n.seq)
    for node in nodes:
        if any((t.node if type(t) is Pick else t) in needed for t in node.edges):
            needed[node] = None
    return {n: None for n in needed if n in reached}


def execute(run: Run, ready: list) -> None:
    """The serial executor.  `ready` is a heap of (-sequence, node, gradient); see Note [Order of accumulation]."""
    deps, grads, needed, record = run.deps, run.grads, run.needed, run.record
    may_share = run.threads != 1 and not record
    release, freed = not run.keep, run.freed
    general = record or needed is not None or run.capture is not None or run.anomaly is not None or bool(run.observers)
    node: Any = None
    g: Any = None
    gx: Any
    try:
        while True:
            if node is None:
                if not ready:
                    return
                _, node, g = heappop(ready)
            if may_share and ready and worth_sharing(ready, node, g):
                heappush(ready, (-node.seq, node, g))
                node = g = None
                if worlds.parallel(run, ready):
                    return
                may_share = False
                continue
            plan = node.plan
            edges = node.edges
            same = plan.same
            if general or plan.general or node.meta is not None or g is None:
                g = prepare(run, node, g)
                gs = absent(run, node) if g is None else gradients(run, node, g)
                same = False
            else:
                xp = cpu if type(g) is ndarray else worlds.world(g)
                formulas = plan.formulas
                if len(edges) == 1:
                    gx = formulas[0](xp, g, node)
                    t = edges[0]
                    same = same and type(gx) is ndarray and gx.dtype is node.dtype
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
                if kind is Pick:
                    gx = to_buffer(grads, t, gx, record)
                    t = t.node
                    kind = MultiNode
                elif gx is not None and not same:
                    a = gx._data if record else gx
                    at = t if kind is Node else t._data
                    if a.shape != at.shape or a.dtype is not at.dtype or type(a) is not ndarray:
                        gx = conform(gx, at.shape, at.dtype, record)
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


def to_buffer(grads: dict, pick: Pick, gx: Any, record: bool) -> Any:
    """Adds a gradient to its place in the list of a node with several outputs; returns the list."""
    node = pick.node
    buffer = grads.get(node)
    if buffer is None:
        buffer = grads[node] = [None] * len(node.outputs)
    if gx is not None:
        a = gx._data if record else gx
        if a.shape != pick.shape or a.dtype is not pick.dtype:
            gx = conform(gx, pick.shape, pick.dtype, record)
        buffer[pick.index] = add(buffer[pick.index], gx)
    return buffer


def absent(run: Run, node: Any) -> list:
    """What a node passes on that received no gradient: none, but functions of the user and hooks are called with None."""
    gs: list = [None] * len(node.edges)
    given = [None] * len(node.outputs) if isinstance(node, MultiNode) else None
    if node.plan.joint and node.plan.user:
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
    with run.lock:
        source = Unpacked(node)
    return _gradients(run, node, g, source)


def _gradients(run: Run, node: Any, g: Any, source: Any) -> list:
    """The same; `source` is the node, or what stands for it as the holder of its saved values."""
    needed, plan = run.needed, node.plan
    run.running = None if run.anomaly is None else node
    wants = None
    if needed is not None:
        wants = wanted(run, node)
        if not any(wants):
            return [None] * len(wants)
    xp = worlds.functional
    given = g
    if plan.op.multi:
        g = g[plan.op.lone] if plan.op.lone is not None else tuple(g)
        if g is None or (plan.op.lone is None and all(p is None for p in g)):
            return absent(run, node)
    if node.meta is not None and node.meta.guards:
        check_guards(node)
    if not run.record:
        some = next(p for p in g if p is not None) if type(g) is tuple else g
        xp = cpu if type(some) is ndarray else worlds.world(some)
    formulas = plan.recorded if run.record else plan.formulas
    if plan.joint:
        found = plan.user(run, given, node) if plan.user else formulas[0](xp, g, source)
        gs = [found[i] for i in (plan.spread or plan.indices)]
    elif wants is None:
        gs = [formula(xp, g, source) for formula in formulas]
    else:
        gs = [formula(xp, g, source) if want else None for formula, want in zip(formulas, wants, strict=True)]
    if node.meta is not None or run.anomaly is not None:
        gs = finish(run, node, gs, given)
    return gs


def conform(gx: Any, shape: tuple, dtype: Any, record: bool) -> Any:
    """A gradient with the shape and dtype of what it belongs to: broadcasting undone, the real part for a real input."""
    if isinstance(gx, np.generic):
        gx = asarray(gx)
    a = gx._data if record else gx
    if a.shape != shape:
        n = a.ndim - len(shape)
        if n < 0 or any(s != a.shape[n + i] and s != 1 for i, s in enumerate(shape)):
            raise RuntimeError(
                f"a derivative formula returned a gradient of shape {list(a.shape)} for a tensor of shape {list(shape)}"
            )
        dims = tuple(range(n)) + tuple(n + i for i, s in enumerate(shape) if s == 1 and a.shape[n + i] != 1)
        xp = worlds.functional if record else cpu
        gx = xp.sum(gx, dims, False) if dims else gx
        gx = xp.reshape(gx, shape)
    a = gx._data if record else gx
    if a.dtype is not dtype:
        if a.dtype.kind == "c" and dtype.kind != "c":
            gx = worlds.functional.real(gx) if record else a.real
            a = gx._data if record else gx
        if a.dtype is not dtype:
            gx = worlds.apply(worlds.CAST, (gx,), (dtype,)) if record else a.astype(dtype)
    return gx


def add(before: Any, gx: Any) -> Any:
    """before + gx, in place where the engine alone holds `before`; either may be None."""
    if before is None:
        return gx
    if type(before) is ndarray:
        if gx is None:
            return before
        if (
            before.size > LARGE
            and before.base is None
            and getrefcount(before) == HELD_BY_CALLER
            and before.flags.writeable
        ):
            return np.add(before, gx, out=before)
        total = before + gx
        return total if type(total) is ndarray else asarray(total)
    return before if gx is None else before + gx


def held_by_caller(array: Any) -> int:
    """The count getrefcount shows for an array that only a caller's local variable (and the argument) holds."""
    return getrefcount(array)


def own(array: Any) -> Any:
    """The array, or a copy if anything but a caller's local variable refers to its memory."""
    if array.base is None and getrefcount(array) == HELD_BY_CALLER and array.flags.writeable:
        return array
    return array.copy()


def _calibrate() -> int:
    array = np.empty(1)
    return held_by_caller(array)


HELD_BY_CALLER = _calibrate()


# -- hooks and captures ------------------------------------------------------------------------------------------------


def key_of(where: Any) -> Any:
    """The dictionary key of a position: equal for the Picks of one output."""
    return (where.node, where.index) if type(where) is Pick else where


def prepare(run: Run, node: Any, g: Any) -> Any:
    """What precedes a node's formulas: hooks on its outputs' gradients, retained and captured gradients, guards."""
    meta = node.meta
    multi = type(g) is list
    if meta is not None and (meta.pre or meta.retained):
        with run.lock:
            g = _run_tensor_hooks(run, node, g)
    if run.capture is not None and g is not None:
        if multi:
            for i, p in enumerate(g):
                if (node, i) in run.capture:
                    run.captured[node, i] = p
        elif node in run.capture:
            run.captured[node] = g
    if meta is not None and meta.prehooks and (run.needed is None or any(wanted(run, node))):
        with run.lock:
            g = _run_prehooks(run, node, g)
    return g


def wanted(run: Run, node: Any) -> list:
    """Which of a node's edges lead to a gradient that is asked for, where only some are."""
    return [(t.node if type(t) is Pick else t) in run.needed for t in node.edges]


def _unpicked(node: Any, g: Any) -> tuple[list, bool]:
    """The gradients of a node's outputs as a list, and whether it has several."""
    multi = type(g) is list or (g is None and isinstance(node, MultiNode))
    return (list(g) if g is not None else [None] * len(node.outputs)) if multi else [g], multi


def _run_tensor_hooks(run: Run, node: Any, g: Any) -> Any:
    meta: Any = node.meta
    values, multi = _unpicked(node, g)
    for i in dict.fromkeys((*(meta.pre or ()), *(meta.retained or ()))):
        for hook in tuple((meta.pre or {}).get(i, {}).values()):
            values[i] = call_hook(run, hook, values[i], node.name())
        keeper = (meta.retained or {}).get(i)
        keeper = keeper() if keeper is not None else None
        if keeper is not None and values[i] is not None:
            accumulate(keeper, values[i], run.record, False, run.freed.place)
    return _repicked(values, multi)


def _repicked(values: list, multi: bool) -> Any:
    if all(v is None for v in values):
        return None
    return values if multi else values[0]


def _run_prehooks(run: Run, node: Any, g: Any) -> Any:
    values, multi = _unpicked(node, g)
    for hook in tuple(node.meta.prehooks.values()):
        result = hook(tuple([as_tensor(run, v) for v in values]))
        if result is not None:
            values = hook_result(run, result, len(values), f"a prehook of {node.name()}")
    return _repicked(values, multi)


def hook_result(run: Run, result: Any, count: int, who: str) -> list:
    """The gradients that a node's hook returned, checked."""
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but {who} returned '{type(result).__name__}'; return a tuple of {count} gradients, or None")
    if len(result) != count:
        raise RuntimeError(f"{who} has returned an incorrect number of values: {len(result)} gradients; expected {count}")
    for r in result:
        if r is not None and not isinstance(r, TensorBase):
            raise TypeError(f"{who} must return Tensors or None in its tuple, but returned a {type(r).__name__}")
    return [None if r is None else (r if run.record else r._data) for r in result]


def as_tensor(run: Run, g: Any) -> Any:
    """A gradient as a hook sees it."""
    return g if run.record or g is None else wrap(g)


def call_hook(run: Run, hook: Any, g: Any, where: str) -> Any:
    """Calls one tensor hook; its result, if any, replaces the gradient."""
    result = hook(as_tensor(run, g))
    if result is None:
        return g
    if not isinstance(result, TensorBase):
        raise TypeError(f"a hook on a gradient ({where}) must return None or a Tensor, not {type(result).__name__}")
    if g is None:
        raise RuntimeError(f"a hook on a gradient ({where}): can't replace a None gradient with a non-None value")
    a = g._data if run.record else g
    if result._data.shape != a.shape:
        raise RuntimeError(f"a hook on a gradient ({where}) has changed the size of value: {list(result._data.shape)} "
                           f"instead of {list(a.shape)}")  # fmt: skip
    if result._data.dtype is not a.dtype:
        raise RuntimeError(
            f"a hook on a gradient ({where}) has changed the type of value: {result._data.dtype} instead of {a.dtype}"
        )
    return result if run.record else result._data


def finish(run: Run, node: Any, gs: list, g: Any) -> list:
    """What follows a node's formulas: anomaly check and post hooks."""
    if run.anomaly is not None:
        run.anomaly.check(run, node, gs)
    meta = node.meta
    if meta is not None and meta.post:
        with run.lock:
            outs = g if type(g) is list else [g]
            given = tuple([None if p is None else as_tensor(run, p) for p in outs])
            for hook in tuple(meta.post.values()):
                full: list = [None] * node.plan.arity
                for i, gx in zip(node.plan.indices, gs, strict=True):
                    full[i] = None if gx is None else as_tensor(run, gx)
                result = hook(tuple(full), given)
                if result is not None:
                    result = hook_result(run, result, len(full), f"a hook of {node.name()}")
                    gs = [result[i] for i in node.plan.indices]
    return gs


# -- leaves ------------------------------------------------------------------------------------------------------------


def leaf_ready(run: Run, leaf: Any, gx: Any) -> None:
    """The gradient of a leaf is complete: run its hooks and capture it or add it to ``leaf.grad``."""
    meta = leaf._meta
    if gx is None and (meta is None or not (meta.hooks or meta.post or meta.end)):
        return
    owned = False
    if not run.record and gx is not None:
        owned = gx.base is None and getrefcount(gx) == HELD_BY_CALLER and gx.flags.writeable
    if meta is not None and meta.hooks:
        with run.lock:
            for hook in tuple(meta.hooks.values()):
                gx = call_hook(run, hook, gx, "of a leaf")
        owned = False
    if run.capture is not None and not (run.into_grad and leaf in run.capture):
        run.captured[leaf] = gx
        return
    end = None if meta is None else meta.end
    if end is not None and end.prehooks:
        with run.lock:
            gx = _run_prehooks(run, AccumulateGrad(leaf), gx)
        owned = False
    if gx is not None and leaf._node is not None:  # (None: requires_grad was switched off since)
        if meta is not None and meta.post:
            with run.lock:
                deliver(leaf, gx, run.record, owned and (end is None or not end.post), run.freed.place)
        else:
            accumulate(leaf, gx, run.record, owned and (end is None or not end.post), run.freed.place)
    elif gx is None and meta is not None and meta.post:
        with run.lock:
            for hook in tuple(meta.post.values()):
                hook(leaf)
    if end is not None and end.post:
        with run.lock:
            for hook in tuple(end.post.values()):
                result = hook((), (as_tensor(run, gx),))
                if result is not None:
                    hook_result(run, result, 0, "a hook of AccumulateGrad")


def deliver(leaf: Any, gx: Any, record: bool, owned: bool, place: Any) -> None:
    """Adds a gradient to ``leaf.grad`` and calls the post-accumulate hooks, in one turn of the leaf.

    A hook may use the gradient up (step, then set it to None); what another thread adds meanwhile would be lost.
    """
    meta = meta_of(leaf)
    turn = meta.turn
    if turn is None:
        fresh = threading.RLock()
        turn = meta.turn  # see Note [Made once] in node.py
        if turn is None:
            turn = meta.turn = fresh
    with turn:
        accumulate(leaf, gx, record, owned, place)
        _state.turns += 1
        try:
            for hook in tuple((meta.post or {}).values()):
                hook(leaf)
        finally:
            _state.turns -= 1


def accumulate(leaf: Any, gx: Any, record: bool, owned: bool, place: Any) -> None:
    """Adds a gradient to ``leaf.grad``: in place, except in a recorded backward (called at `place`)."""
    with _leaf_locks[(id(leaf) >> 6) & 63]:
        meta = meta_of(leaf)
        grad = meta.grad
        if record:
            meta.grad = worlds.functional.clone(gx) if grad is None else grad + gx
        elif grad is None:
            like = leaf._data
            if not owned or gx.strides != like.strides:
                gx = _laid_out(gx, like)
            meta.grad = wrap(gx)
        else:
            total = grad._data
            if total.shape != gx.shape:
                raise RuntimeError(f"the .grad of shape {list(total.shape)} cannot take a gradient of shape {list(gx.shape)}")
            if 0 in total.strides:
                _refuse_overlap(total)
            np.add(total, gx, out=total, casting="unsafe")
            bump(grad, "backward", place)


def _refuse_overlap(grad: Any) -> None:
    if any(s == 0 and n > 1 for s, n in zip(grad.strides, grad.shape, strict=True)):
        raise RuntimeError("backward: a gradient cannot be added to a .grad of which more than one element refers to a single memory location (it "
                           "was expanded). Please clone() the tensor before assigning it to .grad.")  # fmt: skip


def _laid_out(gx: Any, like: Any) -> Any:
    """A copy of a gradient that lies in memory like the leaf it belongs to; in C order if the leaf has gaps."""
    if gx.strides == like.strides or like.flags.c_contiguous:
        return np.array(gx, order="K" if gx.strides == like.strides else "C", copy=True)
    out = np.empty_like(like, gx.dtype)
    if out.strides != like.strides:
        return np.array(gx, order="C", copy=True)
    np.copyto(out, gx)
    return out


# -- errors ------------------------------------------------------------------------------------------------------------


def freed_message(node: Any, run: Run) -> str:
    """Why a second backward through the same graph fails, where the graphs meet, and what helps."""
    freed = node.saved
    text = (f"Trying to backward through the graph a second time: the values that '{node.plan.op.name}' ({node.name()}"
            f"{_shape_of(node)}) saved{at(node.place)} were freed")  # fmt: skip
    if type(freed) is not Freed:
        return f"{text}. Specify retain_graph=True the first time."
    text += f" by the backward{at(freed.place)}. "
    joint = _joint(node, run, freed.seq)
    if joint is None:
        return text + ("If a tensor is kept from one iteration to the next (a hidden state, a running loss), detach() it; for several losses "
                       "call backward() once, on their sum; if the graph itself is to be used twice, specify retain_graph=True the "
                       "first time.")  # fmt: skip
    young, old, came = joint
    if isinstance(young, Node):
        how = f"into '{young.plan.op.name}'{at(_place_near(young, came))}"
    else:
        how = "into this backward"
    return text + (f"The result of '{old.plan.op.name}'{at(old.place)} was made before that backward and leads {how}: if it is "
                   "kept from one iteration to the next (a hidden state, a running loss), detach() it. If the graph itself is to be "
                   "used twice, specify retain_graph=True the first time.")  # fmt: skip


def _shape_of(node: Any) -> str:
    return "" if node.shape is None else f", output shape {list(node.shape)}"


def _joint(target: Any, run: Run, seq: int) -> tuple | None:
    """The edge on a way from the roots to `target` where what is older than `seq` begins; None if the roots are older."""
    came: dict = {s.node if type(s) is Pick else s: None for s in run.starts}
    todo = list(came)
    while todo:
        node = todo.pop()
        if node is target:
            break
        for t in node.edges if isinstance(node, Node) else ():
            t = t.node if type(t) is Pick else t
            if t not in came:
                came[t] = node
                todo.append(t)
    young, old = came.get(target), target
    while young is not None and young.seq < seq:
        young, old = came[young], young
    return None if young is None else (young, old, came)


def _place_near(node: Any, came: dict) -> Any:
    """The place of a node, or of the nearest one on the way from the roots to it that noted its place."""
    while node is not None and node.place is None:
        node = came[node]
    return None if node is None else node.place


def explain(e: Exception, node: Any, run: Run) -> None:
    """Adds to an exception which node was running (in anomaly mode: and where it ran forward)."""
    if node is not None and not getattr(e, "_ferro_noted", False):
        shape = list(node.shape) if node.shape is not None else [list(o[0]) if o else None for o in node.outputs]
        ran = f", which ran forward{at(node.place)}" if node.place is not None else ""
        if node.plan.user:
            ran += f"; its backward is defined{at(node.plan.definition)}"
        e.add_note(f"raised while running backward of '{node.plan.op.name}' ({node.name()}), output shape {shape}{ran}")
        e._ferro_noted = True  # type: ignore[attr-defined]
        if run.anomaly is not None:
            run.anomaly.explain(node)


def worth_sharing(ready: list, node: Any, g: Any) -> bool:
    """Whether two ready nodes are heavy enough to run at the same time (a hand-over costs tens of microseconds)."""
    if type(g) is ndarray and g.size < 2000:  # the common case costs no more than this
        return False
    return weight(node, g) > 40_000 and weight(ready[0][1], ready[0][2]) > 40_000


def weight(node: Any, g: Any) -> float:
    """A rough cost of a node's formulas in nanoseconds."""
    if g is None:
        return 0.0
    size = sum(p.size for p in g if p is not None) if type(g) is list else g.size
    return size * node.plan.op.weight
