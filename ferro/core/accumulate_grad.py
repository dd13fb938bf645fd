"""The end of the tape: the hooks of a leaf, and its gradient captured or added to ``.grad``."""

from __future__ import annotations

from typing import Any

from ferro.core.accumulate import accumulate
from ferro.core.backend import DEVICES, HOST
from ferro.core.base import meta_of
from ferro.core.graph_task import STATE, Run
from ferro.core.hooks import as_tensor, call_hooks, hook_result, run_prehooks
from ferro.core.owners import is_alone, is_sole
from ferro.core.shown import AccumulateGrad
from ferro.cpu.sparse_rows import Rows
from ferro.native import locks


def leaf_ready(run: Run, leaf: Any, gx: Any) -> None:
    """The gradient of a leaf is complete: run its hooks and capture it or add it to ``leaf.grad``."""
    meta = leaf._meta
    if gx is None and (meta is None or not (meta.hooks or meta.post or meta.end)):
        return
    owned = False
    if not run.record and gx is not None and type(gx) is not Rows:
        owned = is_sole(gx)
    if meta is not None and meta.hooks:
        with run.lock, run.user():
            gx = call_hooks(run, meta.hooks, gx, "of a leaf")
        # what a hook returned, and nobody keeps
        owned = not run.record and (type(gx) is HOST or type(gx) in DEVICES) and is_alone(gx)
    if run.capture is not None and not (run.into_grad and leaf in run.capture):
        run.captured[leaf] = gx
        return
    end = None if meta is None else meta.end
    if end is not None and end.prehooks:
        with run.lock, run.user():
            gx = run_prehooks(run, AccumulateGrad(leaf), gx)
        owned = not run.record and (type(gx) is HOST or type(gx) in DEVICES) and is_alone(gx)
    if gx is not None and leaf._node is not None:  # (None: requires_grad was switched off since)
        if meta is not None and meta.post:
            with run.lock:
                deliver(run, leaf, gx, owned)
        else:
            accumulate(leaf, gx, run.record, owned, run.freed.location)
    elif gx is None and meta is not None and meta.post:
        with run.lock, run.user():
            _run_post(leaf, meta)
    if end is not None and end.post:
        with run.lock, run.user():
            for hook in tuple(end.post.values()):
                result = hook((), (as_tensor(run, gx),))
                if result is not None:
                    hook_result(run, result, 0, "a hook of AccumulateGrad")


def _run_post(leaf: Any, meta: Any) -> None:
    """The post-accumulate hooks of a leaf."""
    for hook in tuple((meta.post or {}).values()):
        result = hook(leaf)
        if result is not None and result is not leaf:  # (of `lambda p: p.add_(...)`)
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def deliver(run: Run, leaf: Any, gx: Any, owned: bool) -> None:
    """Adds a gradient to ``leaf.grad`` and calls the post-accumulate hooks, in one turn of the leaf.

    A hook may use the gradient up (step, then set it to None); what another thread adds meanwhile would be lost.
    """
    meta = meta_of(leaf)
    turn = meta.turn
    if turn is None:
        turn = locks.once(meta, "turn", None, locks.new())
    with turn:
        accumulate(leaf, gx, run.record, owned, run.freed.location)
        STATE.turns += 1
        try:
            with run.user():
                _run_post(leaf, meta)
        finally:
            STATE.turns -= 1
