"""Plan: where each array of a graph's runs lies in one arena, and the runs.

Note [Plans].  A plan comes from a recording (recording.py): the arrays that a run makes, with the events at which they begin and end.
Those that end within the run get offsets in one arena (offsets.py); results, and what else outlives the run, stay outside. At
a run NumPy's handler hands out these places in the order of the recording (native/arena.py); where a run differs from it, the
arrays from there on lie outside, and the next run is recorded instead. So what a run gives never depends on the plan.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ferro.core.backend import address
from ferro.core.base import TensorBase, wrap
from ferro.graph import interpreter
from ferro.graph.planning.bodies import Options, inners_of
from ferro.graph.planning.folding import fold as fold_in_place
from ferro.graph.planning.joining import joined, kept_in
from ferro.graph.planning.offsets import lower_bound, placed
from ferro.graph.planning.out import array_of, targets_of, written
from ferro.graph.planning.pictures import page, svg
from ferro.graph.planning.places import apart_in, blocks_of, chains_of, users_of
from ferro.graph.planning.recording import EVENTS, Allocation, Recorder, by_values, dry_run
from ferro.graph.planning.rooms import Rooms
from ferro.graph.planning.rows import Row, report, rows
from ferro.graph.planning.table import Table
from ferro.graph.planning.threads import Run, Tasks
from ferro.graph.planning.verify import verify
from ferro.graph.planning.watching import Clock, Poison
from ferro.graph.seats import SEATS
from ferro.graph.there import as_array
from ferro.native.arena import OUTSIDE, Arena, refusal
from ferro.native.threads import get_num_threads

_RECORDINGS = 8  # of one plan: a program whose arrays change at every run is not recorded again and again
_MISSES = 2  # from so many on a node whose arrays change does no harm to those behind it, at a store before each node


class Plan:
    """A memory plan of a graph; `Graph.plan` makes it.

    - `arena_bytes` (int): the size of the arena
    - `lower_bound` (int): the most bytes in it that live at once: no arena is smaller
    - `allocations`: what a run allocates, in the order in which it does
    - `runs`, `recordings`: how many runs there were, and how many of them were recorded
    - `replays`: how many runs were one launch of a CUDA graph
    - `outside`, `copied`: bytes that the last run allocated outside of the arena, and that its loops copied
    """

    def __init__(self, graph: Any, order: str, options: Options, ahead: bool) -> None:
        self.graph, self.order, self.options = graph, order, options
        self.tasks: Any = Tasks(graph) if order == "any" else None
        self.priority: Callable[[int], Any] = int  # of several nodes that may run, the one of the least goes first
        self.allocations: list[Allocation] = []
        self.arena_bytes = self.lower_bound = self.runs = self.recordings = self.replays = 0
        self.outside = self.missed = self.copied = 0
        self.addresses: dict[Any, int] = {}  # of inputs and bound values, in the last run
        self._arenas: list[Arena] = []
        self._table: Table | None = None
        self._stale = not ahead  # whether the next run is recorded
        refused = self._by_values(graph)
        self.inners = {} if refused else inners_of(graph, options)
        self._kept = kept_in(graph, self.inners)
        self._seeks = bool(self.inners)  # whether each node begins with entries of its own
        self._released, self._refusal = False, refused
        self._room = EVENTS
        self._lock = threading.Lock()
        if ahead and refused:
            self._settle(by_values(graph), [(2 * i, 2 * i + 2) for i in range(len(graph.nodes))])
        elif ahead:
            recorder = dry_run(graph)
            self._settle(recorder.allocations(), recorder.windows())

    def _by_values(self, graph: Any) -> str:
        """Why the plan is made of what the graph says alone; empty if a run is recorded for it."""
        return refusal()

    @property
    def start(self) -> int | None:
        """The address of the arena; None while there is none."""
        return self._arenas[0].start if self._arenas else None

    @property
    def refusal(self) -> str:
        """Why arrays do not lie in an arena on this machine; empty if they do."""
        return refusal()

    # -- the plan ------------------------------------------------------------------------------------------------------

    def _settle(self, allocations: list[Allocation], windows: list[tuple[int, int]]) -> None:
        """Makes the plan for these allocations; the events of each node lie in its window."""
        allocations = joined(
            self.graph, allocations, windows, self.inners, self.options.fold and self.tasks is None, self._kept
        )
        results = {*self.graph.outputs}
        for a in allocations:
            if a.death is None:
                a.reason = "result" if results.intersection(a.values) else "outlives the run"
        order = None if self.tasks is None else self.tasks.order
        users = {} if order is None else users_of(self.graph, allocations)
        if self.options.fold:
            fold_in_place(self.graph, allocations, order, users)
        self.allocations = allocations
        chains = chains_of(allocations)
        blocks = blocks_of(self.graph, chains)
        self.lower_bound = lower_bound(blocks)
        apart = None if order is None else apart_in(order, chains, users)
        distinct = order is not None or self._seeks
        found, self.arena_bytes = placed(blocks, apart, distinct, self.options.reuse)
        for chain, offset in zip(chains, found, strict=True):
            for a in chain:
                a.offset = offset
        self._retire()

    def _retire(self) -> None:
        """The next run gets another arena: this one has another size, or somebody holds an array in it."""
        for arena in self._arenas:
            arena.close()
        self._arenas, self._table = [], None

    def _opened(self, count: int) -> list[Arena]:
        """So many arenas of one memory, one for each thread of a run."""
        if not self._arenas:
            self._arenas.append(Arena(self.arena_bytes))
        while len(self._arenas) < count:
            self._arenas.append(Arena(0, self._arenas[0]))
        return self._arenas[:count]

    def _table_of(self, targets: dict[int, Any]) -> Table:
        """The handler's table; the one of runs that write their results nowhere in particular is kept."""
        arenas = self._arenas
        bound = self._bound(targets)
        if not all(arena.lend(t) for arena in arenas for t in targets.values()):
            bound = {}
        order = None if self.tasks is None else self.tasks.order
        count = len(self.graph.nodes) if order is not None or self._seeks else 0
        table = Table(self.allocations, arenas[0], bound, count, order)
        if self.inners:
            table.rooms = self._rooms_of(table)
        if not targets:
            self._table = table
        return table

    def _rooms_of(self, table: Table) -> Rooms:
        """The places within nodes that run graphs."""
        rooms = Rooms(self._arenas[0])
        for i, inner in self.inners.items():
            rooms.add(i, inner, self.allocations, table.address)
        rooms.close()
        return rooms

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, *inputs: Any, out: Sequence[Any] | None = None, poison: bool = False) -> list:
        """The graph's outputs, as tensors, for tensors or arrays of its inputs (behind which may stand the bound values).

        - `out` (tensors, one for each output; None: a new one): the results are written there
        - `poison` (bool): the arena is full of nan at first, and each place again as soon as its array has ended

        ValueError for inputs or `out` of another number, shape, dtype or layout, and for `out` that shares memory with an input
        or another `out`; RuntimeError after `release`.
        """
        if self._released:
            raise RuntimeError("run: the plan was released; make another one with graph.plan()")
        given = interpreter.checked(self.graph, [x if isinstance(x, TensorBase) else as_array(x) for x in inputs])
        own = (*dict.fromkeys(self.graph.inputs), *self.graph.bound)
        self.addresses = {v: address(array_of(x)) for v, x in zip(own, given, strict=True)}
        targets = None if out is None else targets_of(self.graph, out, given)
        found = [wrap(a) for a in self.execute(given, targets, Poison if poison else None)]
        return found if out is None else [t if o is None else o for t, o in zip(found, out, strict=True)]

    def execute(self, given: Sequence, targets: dict[int, Any] | None = None, watch: Any = None) -> list:
        """The arrays of the outputs for tensors (or arrays) of all inputs and bound values, which have been checked.

        ``watch(plan, arena)`` gives what is called behind each node of a planned run, if it gives anything.
        """
        busy = self._refusal or not self._lock.acquire(blocking=False)  # (by another thread, or by this one further up)
        if busy:
            self.runs += 1
            return written(interpreter.execute(self.graph, given), targets)
        try:
            self.runs += 1
            if self._stale and self.recordings < _RECORDINGS:
                return written(self._recorded(given), targets)
            return self._planned(given, targets, watch)
        finally:
            if self._released:
                self._retire()
            self._lock.release()

    def _recorded(self, given: Sequence) -> list:
        """A run that is recorded, and planned by for the next one."""
        recorder = Recorder(self.graph, self._room)
        if self.tasks is None:
            found = interpreter.execute(self.graph, given, recorder, within=recorder.run)
        else:
            none = recorder.arena.none
            tables = [(none, none)] * len(self.graph.nodes)
            run = Run(self.tasks, tables, [recorder.arena], int, on_node=recorder)
            found = interpreter.execute(self.graph, given, program=run, within=recorder.run)
        self.recordings += 1
        if recorder.full:
            self._room *= 4
        else:
            self._stale = False
            self._settle(recorder.allocations(), recorder.windows())
        return found

    def _planned(self, given: Sequence, targets: dict[int, Any] | None, watch: Any) -> list:
        return self._in_order(given, targets, watch) if self.tasks is None else self._in_any(given, targets, watch)

    def _miss(self) -> None:
        """A run went another way than the plan: the next one is recorded. After some of these each node has entries of its own."""
        self._stale, self.missed = True, self.missed + 1
        self._seeks = self._seeks or self.missed >= _MISSES

    def _in_order(self, given: Sequence, targets: dict[int, Any] | None, watch: Any) -> list:
        arena = self._arenas[0] if self._arenas else self._opened(1)[0]
        table = self._table
        if table is None or targets:
            table = self._table_of(targets or {})
        start, end = table.parts[0]
        words, on_node = arena.words, None if watch is None else watch(self, arena)
        program = seat = None
        if len(table.parts) > 1:
            program = self.graph.program(tells=on_node is not None, seeks=True)
            seat = words, table.starts, table.entering(arena)
        words[OUTSIDE] = 0

        def within(call: Callable[..., list]) -> list:
            before, at, room, copied = arena.now(), 0, SEATS.node, SEATS.copied
            try:
                SEATS.node = None
                arena.begin(start)
                return call(seat)
            finally:
                at = arena.end(before)
                SEATS.node, self.copied = room, SEATS.copied - copied
                if at != end and program is None:
                    self._miss()
                self.outside = words[OUTSIDE]

        try:
            found = interpreter.execute(self.graph, given, on_node, program, within)
            return written(found, targets) if targets else found
        finally:
            arena.settle()
            if arena.live:
                self._retire()

    def _in_any(self, given: Sequence, targets: dict[int, Any] | None, watch: Any) -> list:
        arenas = self._opened(max(get_num_threads(), 1))
        table = self._table
        if table is None or targets:
            table = self._table_of(targets or {})
        for arena in arenas:
            arena.words[OUTSIDE] = 0
        on_node = None if watch is None else watch(self, arenas[0])
        run = Run(self.tasks, table.parts, arenas, self.priority, [table.entering(a) for a in arenas], on_node)
        try:
            found = interpreter.execute(self.graph, given, program=run)
            if targets:
                found = written(found, targets)
            run.values = []
            return found
        finally:
            if run.missed:
                self._miss()
            self.copied = run.copied
            self.outside = sum([arena.words[OUTSIDE] for arena in arenas])
            for arena in arenas:
                arena.settle()
            if any(arena.live for arena in arenas):
                self._retire()

    def _bound(self, targets: dict[int, Any]) -> dict[Allocation, int]:
        """The allocations that are to be made in memory of the caller, and where it is."""
        of = {a.values[0]: a for a in self.allocations if a.values and a.whole and a.offset is None}
        found: dict[Allocation, int] = {}
        for i, target in targets.items():
            a = of.get(self.graph.outputs[i])
            if a is not None and a.size == target.nbytes and target.flags.c_contiguous:
                found.setdefault(a, target.ctypes.data)
        return found

    def trace(self, path: Any, *inputs: Any) -> None:
        """Runs the graph once, for these inputs, and writes when each node ran on which thread: a Chrome trace (chrome://tracing, Perfetto)."""
        clock = Clock(self)
        given = interpreter.checked(self.graph, [x if isinstance(x, TensorBase) else as_array(x) for x in inputs])
        self.execute(given, watch=clock.begin)
        clock.write(path)

    def release(self) -> None:
        """Gives the arena back, at once or at the end of a run that goes on; the plan cannot run any more."""
        self._released = True
        if self._lock.acquire(blocking=False):
            try:
                self._retire()
            finally:
                self._lock.release()

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def table(self) -> list[Row]:
        """A row for each value and each piece of scratch: what it is, where it lies, and from which node to which; see Row."""
        return rows(self)

    def report(self) -> str:
        """The plan in figures: the arena, what folding and reuse spare, scratch, what lies outside, and what is copied."""
        return report(self)

    def verify(self) -> None:
        """Asks the graph whether the plan is right, without the planner: PlanError says what is wrong.

        Every array lies within the arena at the beginning of a cache line, and shares memory only with those whose readers are all
        behind it or before it; results lie outside.
        """
        verify(self)

    def svg(self) -> str:
        """A map of the arena: from left to right the nodes, from top to bottom the bytes."""
        return svg(self)

    def html(self, path: Any) -> None:
        """Writes a page with the map, the report and the table, on which every array has its name, size and line."""
        Path(path).write_text(page(self), "utf-8")

    def __repr__(self) -> str:
        return f"<Plan: {self.arena_bytes} bytes (at least {self.lower_bound}), {len(self.allocations)} arrays, {self.runs} runs>"
