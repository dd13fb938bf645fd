"""compile: a function that is captured when it is called for the second time, and replayed from then on.

Note [Compiled functions].  The call that is captured runs eagerly, for real, and what it gives is eager's; so no call runs
the program's code twice, and a capture that fails costs nothing but its time. Later calls ask the guards of each capture
(guards.py) and replay the first one whose guards hold. A signature is captured when it is seen for the second time, since
programs begin their state in the first call; after so many captures the function runs as it is written, and says so once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ferro._compiling import GENERATION, RECORDERS, STANCE
from ferro.core import trees
from ferro.core.backend import DEVICES, xp_of
from ferro.core.captures import CAPTURES
from ferro.core.notices import warn_once
from ferro.graph import text
from ferro.graph.calls import Call
from ferro.graph.compare import same_bits
from ferro.graph.errors import CaptureError, ChangedError, ShapeError
from ferro.graph.graph import Graph
from ferro.graph.guards import Check, layout_of, unusual
from ferro.graph.places import places
from ferro.graph.tracing import GIVEN, MADE, Followed, follow

_FERRO = str(Path(__file__).parents[1]) + "/"
MOST = 8  # captures of a function


def equal(x: Graph, y: Graph) -> bool:
    """Whether two graphs are one: the same text, constants and objects."""
    if len(x.constants) != len(y.constants) or [h.thing for h in x.held] != [h.thing for h in y.held]:
        return False
    same = all(same_bits(a.array, b.array) for a, b in zip(x.constants, y.constants, strict=True))
    return same and text.printed(x) == text.printed(y)


def _depth() -> int:
    """How far up from the function that asks the program is."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FERRO):
        frame, depth = frame.f_back, depth + 1
    return depth


class Explanation(NamedTuple):
    """What became of the calls of a compiled function.

    - `graphs`: the captures; `replays`, `eager`: how many calls ran a graph, or ran as written
    - `misses`: for each capture but the first, the guard of the last one that failed, with both values
    - `fallbacks`: why calls were not captured, with the line
    - `seconds`: spent on captures
    - `plans`: the memory plans by which graphs and their backwards run by now
    """

    graphs: list
    replays: int
    eager: int
    misses: list
    fallbacks: list
    seconds: float
    plans: list

    def __str__(self) -> str:
        lines = [
            f"{len(self.graphs)} captures in {self.seconds:.3f} s, {self.replays} calls replayed, {self.eager} ran as written"
        ]
        lines += [f"graph {i}: {g!r}" for i, g in enumerate(self.graphs)]
        lines += [f"memory: {p!r}" for p in self.plans]
        lines += [f"captured again: {m}" for m in self.misses]
        lines += [f"not captured: {f}" for f in self.fallbacks]
        return "\n".join(lines)


class _Entry:
    """One capture: its guards, and what to run when they hold."""

    def __init__(self, followed: Followed, args: tuple, kwargs: dict, before: Sequence[_Entry]) -> None:
        self.graph = Graph(*followed.parts)
        self.call = Call(self.graph)
        if not _asks_first(self.graph.nodes):
            raise NotImplementedError(
                "numbers that say how arrays are divided are found out behind a write or a random number"
            )
        self.pure = not any(node.effect for node in self.graph.nodes)
        leaves, structure = trees.flatten((args, kwargs))
        self.numbers = {i: number.fixed[0] for i, number in followed.numbers.items()}
        self.like = self._like(before)
        self.free = frozenset([i for i, fixed in self.numbers.items() if self.like and not fixed])
        check = self.guards = Check(leaves, structure, followed.recorder.required, self.free, list(self.numbers))
        for value in self.graph.bound:
            check.bound(value)
        for guard in followed.guards:
            check.guard(guard)
        for tensor, has in followed.recorder.found_grads():
            check.has_grad(tensor, has)
        self.check = check.function()
        given = {id(t): i for i, t in enumerate(self._given(followed))}
        self.origins = [(kind, given[id(x)] if kind == GIVEN else x) for kind, x in followed.origins]
        self.structure = trees.flatten(followed.result)[1]
        self.single = self.structure == trees.LEAF and self.origins[0][0] == MADE

    def _like(self, before: Sequence[_Entry]) -> list[_Entry]:
        """The captures with other floats that gave the same graph: this one stands for them, and for any floats; see Note [Numbers]."""
        if all(self.numbers.values()):
            return []
        return [e for e in before if e.numbers == self.numbers and equal(e.graph, self.graph)]

    def _given(self, followed: Followed) -> list:
        """The tensors of the capture in the order of `call.given`."""
        inputs = dict(zip(self.graph.inputs, followed.recorder.inputs, strict=False))
        return [inputs.get(v, v.tensor) for v in self.call.given]

    def run(self, tensors: tuple) -> Any:
        """What the function gives for these inputs and bound values."""
        made = self.call(tensors)
        if self.single:
            return made[0]
        leaves = [made[x] if kind == MADE else tensors[x] if kind == GIVEN else x for kind, x in self.origins]
        return trees.unflatten(self.structure, leaves)


def _asks_first(nodes: list) -> bool:
    """Whether numbers that must be those of the capture are asked for before anything is drawn or written, so that another graph may run."""
    effects = [node.function for node in nodes if node.effect]
    last = max((i for i, name in enumerate(effects) if name == "check.equals"), default=0)
    return all(name.startswith("check.") for name in effects[:last])


def _device_of(fn: Callable, args: tuple, kwargs: dict) -> Any:
    """The backend of a device on which tensors lie among the arguments, or among what the function reaches; None if none does."""
    given = trees.flatten((args, kwargs))[0]
    reached = (some[0].read({}) for some in places(fn, args, kwargs).tensors.values())
    found = next(filter(_lies_there, chain(given, reached)), None)
    return None if found is None else xp_of(found._data)


def _lies_there(value: Any) -> bool:
    return type(getattr(value, "_data", None)) in DEVICES


class Compiled:
    """A function and its captures."""

    def __init__(
        self,
        fn: Callable,
        name: str,
        fullgraph: bool = False,
        most: int | None = None,
        graphs: list | None = None,
        recorded: bool = False,
    ) -> None:
        self.fn, self.name, self.fullgraph, self.recorded = fn, name, fullgraph, recorded
        self.graphs: list = [] if graphs is None else graphs
        self.most = MOST if most is None else most
        self.generation = GENERATION[0]
        self.forget()

    def forget(self) -> None:
        """Drops all captures."""
        self.entries: list[_Entry] = []
        self.graphs.clear()
        self.seen: dict[Any, int] = {}
        self.replays = self.eager = 0
        self.misses: list[str] = []
        self.fallbacks: list[str] = []
        self.seconds = 0.0
        self.given_up = self.fixed = False  # fixed: float arguments are no numbers of graphs
        self.module: Any = None  # the backend of a device other than the processor, where it has tensors of one
        self.there: Any = None  # what records it there
        self.changed = ""  # what the last replay said that met other numbers

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        if STANCE[0] != "force_eager":
            for entry in self.entries:
                found = entry.check(args, kwargs)
                if type(found) is tuple:
                    if CAPTURES or unusual() or self.generation != GENERATION[0]:
                        break
                    self.replays += 1
                    try:
                        return entry.run(found)
                    except ChangedError as error:
                        self.replays -= 1
                        self.changed = str(error)
                    except ShapeError as error:
                        if not entry.pure:
                            raise
                        self.replays -= 1
                        self._give_up(str(error))
                        break
        return self._other(args, kwargs)

    def _other(self, args: tuple, kwargs: dict) -> Any:
        """A call without a graph."""
        if self.generation != GENERATION[0]:
            self.forget()
            self.generation = GENERATION[0]
        stance = STANCE[0]
        if stance == "force_eager" or self.given_up or CAPTURES or unusual():
            return self._as_written(args, kwargs)
        if DEVICES and self.module is None:
            self.module = _device_of(self.fn, args, kwargs)
        if self.module is not None:
            return self._on_device(self.module, args, kwargs)
        if stance == "fail_on_recompile" and self.entries:
            raise RuntimeError(
                f"{self.name}: no graph fits this call, and the stance is fail_on_recompile: {self._miss(args, kwargs)}"
            )
        if stance == "eager_on_recompile" and self.entries:
            return self._as_written(args, kwargs)
        if not self.fullgraph and not self._seen_before(args, kwargs):
            return self._as_written(args, kwargs)
        if len(self.entries) >= self.most:
            self._give_up(f"it was captured {self.most} times, the last time because {self._miss(args, kwargs)}")
            return self._as_written(args, kwargs)
        return self._captured(args, kwargs)

    def _on_device(self, module: Any, args: tuple, kwargs: dict) -> Any:
        """A call with tensors of a device other than the processor, whose backend may record it."""
        if not self.recorded or module.device not in RECORDERS:
            if not self.fallbacks:
                self.fallbacks.append(
                    f"its tensors lie on the device {module.device}, where it runs as it is written; "
                    'mode="reduce-overhead" records it'
                )
            return self._as_written(args, kwargs)
        if self.there is None:
            self.there = RECORDERS[module.device](self.fn, self.name, self.most)
        before = self.there.replays
        found = self.there(args, kwargs)
        self.replays += self.there.replays - before
        self.eager += before == self.there.replays
        return found

    def _as_written(self, args: tuple, kwargs: dict) -> Any:
        self.eager += 1
        return self.fn(*args, **kwargs)

    def _seen_before(self, args: tuple, kwargs: dict) -> bool:
        leaves, structure = trees.flatten((args, kwargs))
        key = (structure, *[layout_of(x) if hasattr(x, "_data") else type(x) for x in leaves])
        try:
            count = self.seen[key] = self.seen.get(key, 0) + 1
        except TypeError:  # (a key of a dictionary that has no hash)
            return True
        return count > 1

    def _miss(self, args: tuple, kwargs: dict) -> str:
        entry = self.entries[-1]
        found = entry.check(args, kwargs)
        return self.changed if type(found) is tuple else entry.guards.failures[found](args, kwargs)

    def _captured(self, args: tuple, kwargs: dict) -> Any:
        """One call, eagerly, and its graph for the next ones."""
        begin = time.perf_counter()
        miss = self._miss(args, kwargs) if self.entries else ""
        followed = follow(self.fn, args, kwargs, self.fullgraph, self.fixed)
        if followed is None:  # another thread captures
            return self._as_written(args, kwargs)
        reason = followed.reason
        if reason is None:
            try:
                entry = _Entry(followed, args, kwargs, self.entries)
            except (NotImplementedError, CaptureError) as error:
                if followed.numbers:  # a formula asked for a float: from now on floats are part of the program
                    self.fixed = True
                else:
                    reason = str(error)
            else:
                if self.entries:
                    self.misses.append(miss)
                self.entries = [*[e for e in self.entries if e not in entry.like], entry]
                self.graphs[:] = [e.graph for e in self.entries]
        self.seconds += time.perf_counter() - begin
        if reason is not None:
            self.eager += 1
            self._give_up(reason)
        return followed.result

    def _give_up(self, why: str) -> None:
        """The function runs as it is written from now on, which is said once."""
        if self.fullgraph:
            raise CaptureError(f"{self.name}: {why}")
        self.given_up = True
        self.fallbacks.append(why)
        warn_once(f"compile: {self.name} runs as it is written: {why}", stacklevel=_depth())

    def explain(self) -> Explanation:
        """What became of the calls so far."""
        lists = list(self.misses), list(self.fallbacks)
        plans = [p for e in self.entries for p in e.call.plans()]
        return Explanation(list(self.graphs), self.replays, self.eager, *lists, self.seconds, plans)
