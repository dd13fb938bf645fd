"""What is called behind each node of a planned run: poison for places that are dead, and a clock."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ferro.native.arena import Arena


class Poison:
    """Fills the arena with bytes that make nan, and each place again as soon as nothing lives there (in runs in order)."""

    def __init__(self, plan: Any, arena: Arena) -> None:
        self._arena, self._node = arena, -1
        in_order = plan.order == "serial"
        placed = [a for a in plan.allocations if a.offset is not None and in_order]
        # By the node behind which they are gone: places, and where arrays begin that may lie there.
        self._places: dict[int, list[tuple[int, int, list[int]]]] = {}
        where = [(a.offset + at, size) for a in placed for at, size in a.spread]
        starts, sizes = np.array([at for at, _ in where]), np.array([size for _, size in where])
        for a in placed:
            beside = starts[(starts < a.offset + a.size) & (a.offset < starts + sizes)].tolist()
            self._places.setdefault(a.gone, []).append((a.offset, a.size, list(dict.fromkeys(beside))))
        ctypes.memset(arena.start, 0xFF, plan.arena_bytes)

    def __call__(self, _node: Any, _arrays: Any) -> None:
        self._node += 1  # (no array may be made here: it would be taken for one of the run)
        for offset, size, beside in self._places.get(self._node, ()):
            if not any(self._arena.count(start) for start in beside):
                ctypes.memset(self._arena.start + offset, 0xFF, size)


class Clock:
    """Notes when each node ended, and on which thread."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self._spans: list[tuple[Any, int, int, int]] = []
        self._ended: dict[int, int] = {}
        self._begin = time.perf_counter_ns()

    def begin(self, _plan: Any, _arena: Arena) -> Callable[[Any, Any], None]:
        """The clock begins to run; what is called behind each node."""
        self._begin = time.perf_counter_ns()
        return self._note

    def _note(self, node: Any, _arrays: Any) -> None:
        now, thread = time.perf_counter_ns(), threading.get_ident()
        self._spans.append((node, thread, self._ended.get(thread, self._begin), now))
        self._ended[thread] = time.perf_counter_ns()

    def write(self, path: Any) -> None:
        """Writes the trace."""
        lanes = {thread: lane for lane, thread in enumerate(dict.fromkeys([span[1] for span in self._spans]))}
        numbers = {id(node): i for i, node in enumerate(self._plan.graph.nodes)}
        events = [
            {
                "ph": "X",
                "name": node.function,
                "pid": os.getpid(),
                "tid": lanes[thread],
                "ts": (start - self._begin) / 1000,
                "dur": (end - start) / 1000,
                "args": {"node": numbers[id(node)], "line": node.line, "module": node.module},
            }
            for node, thread, start, end in self._spans
        ]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), "utf-8")
