"""The threaded executor: a ready queue served by several threads, adding gradients in the serial executor's order.

See Note [Order of accumulation] in engine.py.  Every contribution to a gradient has a rank, its place in the serial
order.  A contribution that comes early waits in its slot; the next in order is added at once, outside the lock, by
whichever thread brought it.  Threads take the youngest ready node first; a thread goes on with a node that it made
ready itself if no younger one waits.
"""

from __future__ import annotations

import threading
from heapq import heappop, heappush, heappushpop
from typing import Any

from ferro.core import mode as _mode
from ferro.core.accumulate import add, conform
from ferro.core.accumulate_grad import leaf_ready
from ferro.core.backend import HOST
from ferro.core.errors import explain, freed_message
from ferro.core.graph_task import Run, enter_run, in_turn, wanted
from ferro.core.hooks import prepare
from ferro.core.node import FreedError, Node, OutputRef
from ferro.core.step import absent, gradients
from ferro.native.blas import blas_single
from ferro.native.thread_pool import in_worker, run_workers
from ferro.native.threads import get_num_threads

ALONE = 3  # nodes in a row that one thread runs while all others wait, before the run goes back to the serial executor


def execute(run: Run, ready: list) -> bool:
    """Runs what is left of a backward on several threads; False if only one may be used, or is of use any longer."""
    n = run.threads or get_num_threads()
    if n < 2 or in_worker() or in_turn():
        return False
    shared = Shared(run, ready)
    shared.others = n - 1
    with blas_single():
        run_workers(lambda index: shared.work(), n)
    shared.end()
    return not ready


class _Slot:
    """One gradient in the making: what has been added so far, and contributions that came before their turn."""

    __slots__ = ("busy", "next", "total", "value", "waiting")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.next = self.total = 0
        self.waiting: dict[int, Any] = {}
        self.busy = False


class Shared:
    """What the threads of one backward share; `lock` guards all of it.

    Where but one branch is left the others have nothing to do, while the workers could share its kernels: the run goes
    back to the serial executor then.
    """

    others = 0  # threads besides the one that goes on

    def __init__(self, run: Run, ready: list) -> None:
        self.run = run
        self.ready = ready
        self.slots: dict = {}
        self.ranks: dict = {}
        self.running = 0
        self.idle = 0
        self.alone = 0  # nodes that one thread has run while all others waited
        self.done = False
        self.error: BaseException | None = None
        self.lock = threading.Condition(threading.Lock())
        self.mode = _mode.MODE.get()
        self._rank()

    def _rank(self) -> None:
        """Gives every edge that is still to be run its place in the order of additions to its target."""
        run = self.run
        nodes = {entry[1]: None for entry in self.ready}
        todo = list(nodes)
        while todo:
            for t in todo.pop().edges:
                t = t.node if type(t) is OutputRef else t
                if isinstance(t, Node) and t not in nodes and (run.needed is None or t in run.needed):
                    nodes[t] = None
                    todo.append(t)
        for node in sorted(nodes, key=lambda node: -node.seq):
            ranks = []
            for t in node.edges:
                where: Any = t.node if type(t) is OutputRef else t
                if run.needed is not None and where not in run.needed:
                    ranks.append(-1)
                    continue
                slot = self._slot(t)
                ranks.append(slot.total)
                slot.total += 1
            self.ranks[node] = ranks

    def _slot(self, t: Any) -> _Slot:
        key = (t.node, t.index) if type(t) is OutputRef else t
        slot = self.slots.get(key)
        if slot is None:
            so_far = self.run.grads.get(t.node if type(t) is OutputRef else t)
            slot = self.slots[key] = _Slot(so_far[t.index] if type(t) is OutputRef and so_far is not None else so_far)
        return slot

    def work(self) -> None:
        """Runs ready nodes until none is left or an error stops the run: the body of every thread."""
        before = _mode.enter(self.mode)
        outer = enter_run(self.run)
        node = None
        try:
            entry = self._take(None)
            while entry is not None:
                _, node, g = entry
                entry = None
                made_ready = self._process(node, g)
                g = None
                entry = self._take(made_ready)
        except FreedError:
            self._stop(RuntimeError(freed_message(node, self.run)))
        except BaseException as e:  # noqa: BLE001 (raised in the caller, interrupts included)
            if isinstance(e, Exception):
                explain(e, node, self.run)
            self._stop(e)
        finally:
            enter_run(outer)
            _mode.leave(before)

    def end(self) -> None:
        """Raises the first error of the threads, which have stopped."""
        error, self.error = (
            self.error,
            None,
        )  # its traceback leads to this object, and to this frame: no cycle must remain
        if error is not None:
            try:
                raise error
            finally:
                del error

    def _take(self, made_ready: list | None) -> tuple | None:
        """The next node for this thread: the youngest of those it just made ready and those that wait."""
        with self.lock:
            if made_ready is not None:
                self.running -= 1
                self.alone = self.alone + 1 if self.others and self.idle == self.others and not self.ready else 0
                if self.alone > ALONE and len(made_ready) == 1 and self._hand_back(made_ready[0]):
                    return None
                if made_ready and not self.done:
                    self.running += 1
                    for entry in made_ready[1:]:
                        heappush(self.ready, entry)
                    if self.idle and len(made_ready) > 1:
                        self.lock.notify(len(made_ready) - 1)
                    return heappushpop(self.ready, made_ready[0])
            while not self.ready and not self.done:
                if not self.running:
                    self.done = True
                    break
                self.idle += 1
                self.lock.wait()
                self.idle -= 1
            if self.done:
                self.lock.notify_all()
                return None
            self.running += 1
            return heappop(self.ready)

    def _hand_back(self, entry: tuple) -> bool:
        """Leaves the last branch to the serial executor; False if contributions wait that it could not add in order."""
        if self.done or any(slot.waiting for slot in self.slots.values()):
            return False
        grads, deps = self.run.grads, self.run.deps
        for key, slot in self.slots.items():
            if type(key) is tuple:
                node, index = key
                if not deps[node]:
                    grads.pop(node, None)
                    continue
                grads.setdefault(node, [None] * len(node.outputs))[index] = slot.value
            elif slot.value is None:
                grads.pop(key, None)
            else:
                grads[key] = slot.value
            slot.value = None
        heappush(self.ready, entry)
        self.done = True
        self.lock.notify_all()
        return True

    def _stop(self, error: BaseException) -> None:
        with self.lock:
            if self.error is None:
                self.error = error
            self.running -= 1
            self.done = True
            self.ready.clear()
            self.lock.notify_all()

    def _process(self, node: Any, g: Any) -> list:
        """Runs one node and delivers its gradients; returns the nodes this made ready."""
        run = self.run
        if node.meta is not None or run.capture is not None:
            with run.lock:
                g = prepare(run, node, g)
        gs = absent(run, node) if g is None else gradients(run, node, g)
        if not run.keep and node.plan.keeps and (run.needed is None or any(wanted(run, node))):
            node.saved = run.freed
        del g
        made_ready: list = []
        for j, (t, rank) in enumerate(zip(node.edges, self.ranks[node], strict=True)):
            if rank < 0:
                continue
            gx = gs[j]
            gs[j] = None
            if gx is not None:
                at = t if isinstance(t, (Node, OutputRef)) else t._data
                if gx.shape != at.shape or gx.dtype is not at.dtype or type(gx) is not HOST:
                    gx = conform(gx, at.shape, at.dtype, False)
            if self._deliver(t, rank, gx):
                del gx
                self._complete(t, made_ready)
            gx = None
        return made_ready

    def _deliver(self, t: Any, rank: int, gx: Any) -> bool:
        """Adds a contribution when its turn comes; True if this completed all that its target waits for."""
        slot = self.slots[(t.node, t.index) if type(t) is OutputRef else t]
        target = t.node if type(t) is OutputRef else t
        with self.lock:
            slot.waiting[rank] = gx
            gx = None
            if slot.busy:
                return False
            slot.busy = True
        last = False
        while True:
            with self.lock:
                if slot.next not in slot.waiting:
                    slot.busy = False
                    return last
                gx = slot.waiting.pop(slot.next)
                slot.next += 1
            before, slot.value = slot.value, None
            slot.value = add(before, gx)
            before = gx = None
            with self.lock:
                self.run.deps[target] -= 1
                last = self.run.deps[target] == 0

    def _complete(self, t: Any, made_ready: list) -> None:
        """The gradient of a target is complete: queue the node, or hand the gradient to the leaf."""
        if isinstance(t, OutputRef):
            node = t.node
            values = list(
                self.run.grads.get(node) or [None] * len(node.outputs)
            )  # what was complete before the hand-over
            for i in range(len(node.outputs)):
                slot = self.slots.get((node, i))
                if slot is not None:
                    values[i], slot.value = slot.value, None
            g: Any = values if any(v is not None for v in values) else None
            made_ready.append((-node.seq, node, g))
            return
        slot = self.slots[t]
        g, slot.value = slot.value, None
        if isinstance(t, Node):
            made_ready.append((-t.seq, t, g))
        else:
            leaf_ready(self.run, t, g)
