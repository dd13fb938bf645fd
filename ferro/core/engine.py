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
from ferro.core.base import TensorBase, bump, check_guards, meta_of, position, unpacked, wrap
from ferro.core.node import FREED, FreedError, MultiNode, Node, Pick

ndarray, asarray = np.ndarray, np.asarray
LARGE = 4096  # elements above which adding in place is worth a look at the reference count
_leaf_locks = tuple(threading.Lock() for _ in range(64))


class Run:
    """What one backward needs to know: the graph's in-degrees, where gradients are wanted, and how to compute."""

    __slots__ = ("anomaly", "capture", "captured", "deps", "grads", "keep", "lock", "needed", "observers", "record", "scratch",
                 "threads")  # fmt: skip

    def __init__(self, keep: bool, record: bool, capture: dict | None, threads: int | None) -> None:
        self.keep = keep
        self.record = record
        self.capture = (
            capture  # keys of positions: gradients are wanted there and nowhere else; None: accumulate at leaves
        )
        self.captured: dict = {}
        self.threads = threads  # 1 forces the serial executor, None leaves the choice to the engine
        self.deps: dict = {}
        self.needed: Any = None
        self.grads: dict = {}
        mode = _mode.current()
        self.anomaly: Any = mode.anomaly
        self.observers = mode.observers
        self.scratch: dict | None = None  # what unpack hooks keep until this backward ends (see utils.checkpoint)
        self.lock = threading.RLock()  # hooks and other functions of the user run one at a time


def backward(roots: list, seeds: list, *, keep: bool, record: bool, capture: dict | None = None,
             threads: int | None = None) -> dict:  # fmt: skip
    """Runs backward from the tensors `roots` with the cotangents `seeds`; returns what `capture` asked for."""
    run = Run(keep, record, capture, threads)
    starts = [position(r) for r in roots]
    ready: list = []
    discover(run, [s.node if type(s) is Pick else s for s in starts])
    for start, seed in zip(starts, seeds, strict=True):
        g = seed if record else seed._data
        if type(start) is Pick:
            buffer = run.grads.get(start.node)
            if buffer is None:
                buffer = run.grads[start.node] = [None] * len(start.node.outputs)
            buffer[start.index] = add(buffer[start.index], g)
        else:
            run.grads[start] = add(run.grads.get(start), g)
    seen = set()
    del g
    for start in starts:
        node = start.node if type(start) is Pick else start
        if node in seen or run.deps.get(node, 0):
            continue
        if run.needed is not None and isinstance(node, Node) and node not in run.needed:
            if len(starts) == 1 and node.meta is not None:  # like PyTorch, a single root has its hooks run in any case
                _run_prehooks(run, node, run.grads[node], type(start) is Pick)
            continue
        seen.add(node)
        if isinstance(node, TensorBase):
            leaf_ready(run, node, run.grads.pop(node))
        else:
            heappush(ready, (-node.seq, node, run.grads.pop(node)))
    del seeds, start
    mode = _mode.changed(grad=record, inference=False)
    previous = _mode.MODE.get()
    _mode.enter(mode)
    _state.depth += 1
    outer, _state.run = _state.run, run
    try:
        with np.errstate(all="ignore"):  # like PyTorch, inf and nan pass without a warning
            execute(run, ready)
    finally:
        _state.depth -= 1
        _state.run = outer
        _mode.leave(previous)
    if _state.depth == 0:
        _run_callbacks()
    return run.captured


class _State(threading.local):
    depth = 0
    callbacks: list | None = None
    run: Run | None = None


_state = _State()


def current_run() -> Run | None:
    """The backward that this thread is running formulas, hooks or functions for."""
    return _state.run


def enter_run(run: Run | None) -> Run | None:
    """Makes `run` the current one of this thread; returns the one before."""
    before, _state.run = _state.run, run
    return before


def queue_callback(callback: Any) -> None:
    """Runs `callback` when the backward now running in this thread has ended."""
    if _state.depth == 0:
        raise RuntimeError(
            "queue_callback: callbacks can only be queued while a backward is running, from a hook or formula"
        )
    if _state.callbacks is None:
        _state.callbacks = []
    _state.callbacks.append(callback)


def _run_callbacks() -> None:
    while _state.callbacks:
        _state.callbacks.pop(0)()


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
    release = not run.keep
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
                            node.saved = FREED
                        node, g = t, gx
                        gx = None
                        continue
                    gs = [gx]
                elif len(edges) == 2:
                    gs = [formulas[0](xp, g, node), formulas[1](xp, g, node)]
                else:
                    gs = [formula(xp, g, node) for formula in formulas]
            if release and plan.keeps:
                node.saved = FREED
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
        raise RuntimeError(freed_message(node)) from None
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
    if node.meta is None or not node.meta.packed or node.saved is FREED:
        return _gradients(run, node, g)
    packed = node.saved
    with run.lock:
        node.saved = unpacked(node)
    try:
        return _gradients(run, node, g)
    finally:
        node.saved = packed


def _gradients(run: Run, node: Any, g: Any) -> list:
    needed, plan = run.needed, node.plan
    wanted = None
    if needed is not None:
        wanted = [(t.node if type(t) is Pick else t) in needed for t in node.edges]
        if not any(wanted):
            return [None] * len(wanted)
    xp = worlds.functional
    given = g
    if plan.op.multi:
        g = g[plan.op.lone] if plan.op.lone is not None else tuple(g)
        if g is None or (plan.op.lone is None and all(p is None for p in g)):
            return absent(run, node)
    if not run.record:
        some = next(p for p in g if p is not None) if type(g) is tuple else g
        xp = cpu if type(some) is ndarray else worlds.world(some)
    formulas = plan.recorded if run.record else plan.formulas
    if plan.joint:
        found = plan.user(run, given, node) if plan.user else formulas[0](xp, g, node)
        gs = [found[i] for i in (plan.spread or plan.indices)]
    elif wanted is None:
        gs = [formula(xp, g, node) for formula in formulas]
    else:
        gs = [formula(xp, g, node) if want else None for formula, want in zip(formulas, wanted, strict=True)]
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
    if meta is not None and (meta.pre or meta.retained or meta.prehooks):
        with run.lock:
            g = _run_prehooks(run, node, g, multi)
    if run.capture is not None:
        if multi:
            for i, p in enumerate(g):
                if (node, i) in run.capture:
                    run.captured[node, i] = p
        elif node in run.capture:
            run.captured[node] = g
    if meta is not None and meta.guards and g is not None:
        check_guards(node)
    return g


def _run_prehooks(run: Run, node: Any, g: Any, multi: bool) -> Any:
    meta: Any = node.meta
    whole = g is None and isinstance(node, MultiNode)
    if g is None:
        values: list = [None] * (len(node.outputs) if whole else 1)
    else:
        values = list(g) if multi else [g]
    for i in sorted({*(meta.pre or ()), *(meta.retained or ())}):
        for hook in tuple((meta.pre or {}).get(i, {}).values()):
            values[i] = call_hook(run, hook, values[i], node.name())
        keeper = (meta.retained or {}).get(i)
        keeper = keeper() if keeper is not None else None
        if keeper is not None and values[i] is not None:
            accumulate(keeper, values[i], run.record, False)
    if meta.prehooks:
        for hook in tuple(meta.prehooks.values()):
            given = tuple([None if v is None else as_tensor(run, v) for v in values])
            result = hook(given)
            if result is not None:
                result = result if isinstance(result, tuple) else (result,)
                if len(result) != len(values):
                    raise RuntimeError(
                        f"a prehook of {node.name()} returned {len(result)} gradients; expected {len(values)}"
                    )
                values = [None if r is None else (r if run.record else r._data) for r in result]
    if whole and all(v is None for v in values):
        return None
    return values if multi or whole else values[0]


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
                    result = result if isinstance(result, tuple) else (result,)
                    if len(result) != len(full):
                        raise RuntimeError(
                            f"a hook of {node.name()} returned {len(result)} gradients; expected {len(full)}"
                        )
                    gs = [
                        None if result[i] is None else (result[i] if run.record else result[i]._data)
                        for i in node.plan.indices
                    ]
    return gs


# -- leaves ------------------------------------------------------------------------------------------------------------


def leaf_ready(run: Run, leaf: Any, gx: Any) -> None:
    """The gradient of a leaf is complete: run its hooks and capture it or add it to ``leaf.grad``."""
    meta = leaf._meta
    if gx is None and (meta is None or not (meta.hooks or meta.post)):
        return
    owned = False
    if not run.record and gx is not None:
        owned = gx.base is None and getrefcount(gx) == HELD_BY_CALLER and gx.flags.writeable
    if meta is not None and meta.hooks:
        with run.lock:
            for hook in tuple(meta.hooks.values()):
                gx = call_hook(run, hook, gx, "of a leaf")
        owned = False
    if run.capture is not None:
        run.captured[leaf] = gx
        return
    if gx is not None:
        accumulate(leaf, gx, run.record, owned)
    if meta is not None and meta.post:
        with run.lock:
            for hook in tuple(meta.post.values()):
                hook(leaf)


def accumulate(leaf: Any, gx: Any, record: bool, owned: bool) -> None:
    """Adds a gradient to ``leaf.grad``: in place, except in a recorded backward."""
    with _leaf_locks[(id(leaf) >> 6) & 63]:
        meta = meta_of(leaf)
        grad = meta.grad
        if record:
            meta.grad = worlds.functional.clone(gx) if grad is None else grad + gx
        elif grad is None:
            like = leaf._data
            if not owned or gx.strides != like.strides:
                gx = np.array(gx, order="K" if gx.strides == like.strides else "C", copy=True)
            meta.grad = wrap(gx)
        else:
            if grad._data.shape != gx.shape:
                raise RuntimeError(
                    f"the .grad of shape {list(grad._data.shape)} cannot take a gradient of shape {list(gx.shape)}"
                )
            np.add(grad._data, gx, out=grad._data, casting="unsafe")
            if grad._counter is not None:
                bump(grad, "backward")


# -- errors ------------------------------------------------------------------------------------------------------------


def freed_message(node: Any) -> str:
    """Why a second backward through the same graph fails, and what helps."""
    return (f"Trying to backward through the graph a second time ({node.name()}, output shape {list(node.shape or ())}): its saved "
            "values were freed by an earlier backward() or grad(). If a tensor is kept from one iteration to the next "
            "(a hidden state, a running loss), detach() it; if the graph itself is to be used twice, specify "
            "retain_graph=True the first time.")  # fmt: skip


def explain(e: Exception, node: Any, run: Run) -> None:
    """Adds to an exception which node was running (in anomaly mode: and where it ran forward)."""
    if node is not None and not getattr(e, "_ferro_noted", False):
        shape = list(node.shape) if node.shape is not None else [list(o[0]) if o else None for o in node.outputs]
        e.add_note(f"raised while running backward of '{node.plan.op.name}' ({node.name()}), output shape {shape}")
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
