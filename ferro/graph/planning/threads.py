"""Runs of a graph whose nodes go in any order that the data allow, on several threads of one budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from ferro.core import mode as _mode
from ferro.graph.executor import Program, operands_in
from ferro.graph.ir import Value
from ferro.graph.planning.order import Order
from ferro.graph.seats import SEATS
from ferro.native.arena import NEXT, Arena
from ferro.native.blas import blas_single
from ferro.native.thread_pool import in_worker, run_workers
from ferro.native.threads import get_num_threads


class Tasks(Program):
    """The graph as one function for each node, over a list that has a place for each value."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph, False)
        self.order = Order(graph)
        self.place = {v: k for k, v in enumerate(self.names)}
        kept = {*graph.outputs, *graph.inputs, *graph.bound}
        self.uses = [0] * len(self.place)  # how many nodes read a value, or make it; of what stays: one more
        self.read: list[list[int]] = []
        for node in graph.nodes:
            self.read.append([self.place[v] for v in dict.fromkeys((*node.operands, *node.outputs))])
            for k in self.read[-1]:
                self.uses[k] += 1
        for v in kept:
            self.uses[self.place[v]] += 1
        self.readers: list[list[int]] = [[] for _ in graph.nodes]
        for i, waits in enumerate(self.order.after):
            for k in waits:
                self.readers[k].append(i)
        self.functions: list[Callable] = [self.scope[f"node{i}"] for i in range(len(self.nodes))]
        self.results = [self.place[v] for v in graph.outputs]

    def _lines(self, graph: Any, own: list[Value]) -> list[str]:
        self.names = {v: f"V[{k}]" for k, v in enumerate(self.names)}
        lines: list[str] = []
        self.node_of = [-1]
        for i, node in enumerate(graph.nodes):
            found = self._call(i, node, operands_in(node))
            lines += [f"def node{i}(V, tensors):", *[f"    {line}" for line in found]]
            self.node_of += [i] * (len(found) + 1)
        lines.append("run = None")
        return lines

    def where(self, traceback: Any) -> tuple[int, dict[str, Any]]:
        """As of a program: the node in which a traceback goes through a function, and what its names stood for."""
        i, held = super().where(traceback)
        values = held.get("V", ())
        return i, {name: values[k] for name, k in zip(self.names.values(), self.place.values(), strict=True) if values}


class Run:
    """One run; `lock` guards what its threads share.

    tables: for each node, where its entries begin and end; arenas: one for each thread, of one memory; priority: of the nodes
    that may run, that of the least goes first; entering: for each thread, what is called before nodes with graphs; on_node: as of
    `interpret`.
    """

    def __init__(
        self,
        tasks: Tasks,
        tables: Sequence[tuple[int, int]],
        arenas: Sequence[Arena],
        priority: Callable[[int], Any],
        entering: Sequence[Callable[[int], None] | None] = (),
        on_node: Callable | None = None,
    ) -> None:
        self.tasks, self.tables, self.arenas, self.priority, self.on_node = tasks, tables, arenas, priority, on_node
        self.entering, self.copied = entering or [None] * len(arenas), 0
        self.values: list = []
        self.tensors: Sequence = ()
        self.uses = list(tasks.uses)
        self.waits = [len(waits) for waits in tasks.order.after]
        self.ready = [(priority(i), i) for i, n in enumerate(self.waits) if not n]
        heapify(self.ready)
        self.until = len(self.waits)  # nodes from this one on do not begin: it raised an error
        self.error: BaseException | None = None
        self.missed = self.stopped = False
        self.lock = threading.Condition(threading.Lock())
        self.running = 0
        self.mode = _mode.MODE.get()
        # What `interpreter.execute` asks of a program.
        self.nodes, self.given, self.names, self.where = tasks.nodes, tasks.given, tasks.names, tasks.where

    def run(self, arrays: Sequence, tensors: Sequence, _on_node: Any) -> list:
        """Runs all nodes; the arrays of the outputs. Of several errors the one of the first node is raised, as eager would."""
        self.values = [*arrays, *[None] * (len(self.tasks.place) - len(arrays))]
        self.tensors = tensors
        threads = 1 if in_worker() else get_num_threads()
        with blas_single():
            # (Of a run that is recorded one thread does all, beside others that sleep: kernels do not share then.)
            run_workers(self._work, threads, self._stop)
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return [self.values[k] for k in self.tasks.results]

    def _work(self, index: int) -> None:
        if index >= len(self.arenas):
            return
        arena = self.arenas[index]
        before = _mode.enter(self.mode)
        handler, room, copied = arena.now(), SEATS.node, SEATS.copied
        try:
            SEATS.node = None
            arena.begin(arena.none)
            with np.errstate(all="ignore"):
                while (i := self._take()) is not None:
                    self._call(i, arena, self.entering[index])
        finally:
            arena.end(handler)
            SEATS.node = room
            with self.lock:
                self.copied += SEATS.copied - copied
            _mode.leave(before)

    def _stop(self) -> None:
        """No more nodes begin: a thread was interrupted."""
        with self.lock:
            self.stopped = True
            self.lock.notify_all()

    def _take(self) -> int | None:
        with self.lock:
            while True:
                while self.ready and not self.stopped:
                    i = heappop(self.ready)[1]
                    if i < self.until:
                        self.running += 1
                        return i
                if not self.running or self.stopped:
                    self.lock.notify_all()
                    return None
                self.lock.wait()

    def _call(self, i: int, arena: Arena, enter: Callable[[int], None] | None) -> None:
        words, start, end = arena.words, *self.tables[i]
        words[NEXT] = arena.none if self.missed else start
        graphs = self.tasks.nodes[i].graphs
        try:
            if graphs and enter is not None and not self.missed:
                enter(i)
            self.tasks.functions[i](self.values, self.tensors)
        except BaseException as error:  # noqa: BLE001 (raised in the caller, interrupts included)
            with self.lock:
                self.running -= 1
                if i < self.until:
                    self.until, self.error = i, error
                self.lock.notify_all()
            return
        if graphs:
            SEATS.node = None
        elif words[NEXT] != end:
            self.missed = True
        words[NEXT] = arena.none
        if self.on_node is not None:
            self.on_node(self.tasks.nodes[i], [self.values[self.tasks.place[v]] for v in self.tasks.nodes[i].outputs])
        with self.lock:
            for k in self.tasks.read[i]:
                self.uses[k] -= 1
                if not self.uses[k]:
                    self.values[k] = None
            for k in self.tasks.readers[i]:
                self.waits[k] -= 1
                if not self.waits[k]:
                    heappush(self.ready, (self.priority(k), k))
            self.running -= 1
            self.lock.notify_all()
