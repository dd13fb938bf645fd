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

from ferro.native.arena import Arena


class Poison:
    """Fills the arena with bytes that make nan, and each place again as soon as nothing lives there (in runs in order)."""

    def __init__(self, plan: Any, arena: Arena) -> None:
        self._arena, self._node = arena, -1
        in_order = plan.order == "serial"
        self._placed = [a for a in plan.allocations if a.offset is not None and in_order]
        ctypes.memset(arena.start, 0xFF, plan.arena_bytes)

    def __call__(self, _node: Any, _arrays: Any) -> None:
        self._node = now = self._node + 1
        live = [a for a in self._placed if a.node <= now < a.gone]
        for a in [a for a in self._placed if a.gone == now and not self._arena.count(a.offset)]:
            if not any(a.offset < b.offset + b.size and b.offset < a.offset + a.size for b in live):
                ctypes.memset(self._arena.start + a.offset, 0xFF, a.size)


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
