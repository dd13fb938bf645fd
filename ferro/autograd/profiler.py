"""Profiler: how long each operation takes forward and backward, and on which thread."""

from __future__ import annotations

import functools
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ContextDecorator
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Self

from ferro.autograd._location import location
from ferro.autograd._observer import Observer, arrays_of, node_of
from ferro.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg, hidden_share
from ferro.core import mode as _mode
from ferro.core.apply import watched
from ferro.core.op import Op

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_nvtx", "profile", "record_function"]


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: never; the profiler here is one of its own."""
    return False


class emit_nvtx:
    """Ranges of operations for NVIDIA's profiler: RuntimeError when the block is entered, since there is no GPU.

    >>> import ferro
    >>> with ferro.autograd.profiler.emit_nvtx(enabled=False):
    ...     x = ferro.ones(2)
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> Self:
        if self.enabled:
            raise RuntimeError(
                "NVTX functions not installed. Are you sure you have a CUDA build? ferro computes on the CPU: "
                "`profiler.profile` measures operations"
            )
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was begun."""


def _profiler_enabled() -> bool:
    """Whether a profiler looks at what this context runs."""
    return any(isinstance(o, profile) for o in _mode.current().observers)


EXCHANGES = -1  # stands for a thread: the lane of exchanges between processes


class _Stacks(threading.local):
    """The events that are running in this thread, innermost last."""

    def __init__(self) -> None:
        self.open: list[FunctionEvent] = []


class profile(Observer):
    """Inside, every operation and every node of a backward is timed, with the thread it ran on.

    record_shapes: keep the shapes of inputs; profile_memory: the bytes of results; with_stack: the line of the program
    (slow).  The options of PyTorch's profiler that concern GPUs are accepted and change nothing.

    Example::

        >>> import ferro
        >>> x = ferro.ones(3, requires_grad=True)
        >>> with ferro.autograd.profiler.profile() as prof:
        ...     x.exp().sum().backward()
        >>> [e.name for e in prof.function_events]
        ['aten::exp', 'aten::sum', 'SumBackward0', 'ExpBackward0']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: Any = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.enabled = enabled
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.function_events = EventList()
        self.thread_names: dict[int, str] = {}
        self._stacks = _Stacks()

    def __str__(self) -> str:
        return str(self.function_events)

    def __enter__(self) -> Self:
        return super().__enter__() if self.enabled else self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            super().__exit__(*exc)
            self.function_events.sort(key=lambda e: e.start)

    # -- recording

    def begin(self, name: str, kind: str) -> FunctionEvent:
        """Starts an event in this thread."""
        thread = threading.get_ident()
        if thread not in self.thread_names:
            self.thread_names[thread] = threading.current_thread().name
        open = self._stacks.open
        event = FunctionEvent(name, kind, thread, perf_counter_ns())
        event.cpu_parent = open[-1] if open else None
        open.append(event)
        return event

    def finish(self, event: FunctionEvent) -> None:
        """Ends an event, whatever happened inside."""
        event.end = perf_counter_ns()
        open = self._stacks.open
        while open and open.pop() is not event:
            pass
        if event.cpu_parent is not None:
            event.cpu_parent.inside += event.end - event.start
        self.function_events.append(event)

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Times one operation."""
        event = self.begin(f"aten::{op.name}", "forward")
        try:
            result = watched(op, xs, params, mode)
        finally:
            self.finish(event)
        node = node_of(op, result)
        if node is not None:
            event.sequence_nr = node.seq
        if self.record_shapes:
            event.input_shapes = [[] if x is None else list(x._data.shape) for x in xs]
        if self.profile_memory:
            event.cpu_memory_usage = 0 if op.view else sum(a.nbytes for a in arrays_of([result]))
        if self.with_stack:
            event.stack = [str(location())]
        return result

    def backward(self, run: Any, node: Any, g: Any, rest: Any) -> list:
        """Times the formulas of one node."""
        event = self.begin(node.name(), "backward")
        event.sequence_nr = node.seq
        try:
            return rest()
        finally:
            self.finish(event)
            if self.record_shapes:
                event.input_shapes = [list(a.shape) for a in arrays_of([g])]

    def exchanged(self, name: str, start: int, end: int) -> None:
        """Notes an exchange between processes, that went on beside what this one ran (nanoseconds): it has a lane of its own."""
        self.thread_names.setdefault(EXCHANGES, "exchanges between processes")
        event = FunctionEvent(name, "exchange", EXCHANGES, start)
        event.end, event.inside = end, end - start
        self.function_events.append(event)

    # -- results

    def hidden(self) -> float:
        """The share of the time of exchanges between processes in which this one ran operations or their backward; 0 without any."""
        return hidden_share(self.function_events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events by name."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        return self.function_events.total_average()

    def table(self, **options: Any) -> str:
        """All events as a table (see `EventList.table`)."""
        return self.function_events.table(**options)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all events together."""
        return self.function_events.self_cpu_time_total

    def backward_times(self) -> dict[int, tuple[int, str]]:
        """For every node, by its sequence number: nanoseconds of its backward, and the name of the thread it ran on."""
        return {
            e.sequence_nr: (e.end - e.start, self.thread_names[e.thread])
            for e in self.function_events
            if e.kind == "backward"
        }

    def export_chrome_trace(self, path: str | os.PathLike) -> None:
        """Writes a trace for chrome://tracing or Perfetto: one lane per thread, arrows from forward to backward."""
        import json

        lanes = {thread: i for i, thread in enumerate(self.thread_names)}
        pid = os.getpid()
        events: list[dict] = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "ferro"}}]
        for thread, name in self.thread_names.items():
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": lanes[thread], "args": {"name": name}})
        forward: dict[int, FunctionEvent] = {}
        for e in self.function_events:
            args: dict[str, Any] = {"sequence number": e.sequence_nr} if e.sequence_nr >= 0 else {}
            if e.input_shapes:
                args["input shapes"] = e.input_shapes
            if e.stack:
                args["at"] = e.stack[0]
            lane = lanes[e.thread]
            events.append(
                {
                    "ph": "X",
                    "cat": e.kind,
                    "name": e.name,
                    "pid": pid,
                    "tid": lane,
                    "ts": e.start / 1000,
                    "dur": (e.end - e.start) / 1000,
                    "args": args,
                }
            )
            if e.kind == "forward" and e.sequence_nr >= 0:
                forward[e.sequence_nr] = e
            elif e.kind == "backward" and e.sequence_nr in forward:
                origin = forward[e.sequence_nr]
                link = {"cat": "forward to backward", "name": "gradient", "id": e.sequence_nr, "pid": pid}
                events.append({"ph": "s", "tid": lanes[origin.thread], "ts": origin.start / 1000, **link})
                events.append({"ph": "f", "bp": "e", "tid": lane, "ts": e.start / 1000, **link})
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), "utf-8")

    def export_stacks(self, path: str | os.PathLike, metric: str = "self_cpu_time_total") -> None:
        """Writes one line per location in the program, "location;operation microseconds", as flame graphs are made of."""
        if metric != "self_cpu_time_total":
            raise ValueError(f"export_stacks: metric should be self_cpu_time_total, got {metric!r}")
        totals: dict[str, float] = defaultdict(float)
        for e in self.function_events:
            if e.stack:
                totals[";".join([*reversed(e.stack), e.name])] += e.self_cpu_time_total
        Path(path).write_text("".join(f"{location} {int(us)}\n" for location, us in totals.items()), "utf-8")


class record_function(ContextDecorator):
    """Gives a part of the program a name in the profile that is on; off, it does nothing.

    Example::

        >>> import ferro
        >>> with ferro.autograd.profiler.profile() as prof:
        ...     with ferro.autograd.profiler.record_function("mine"):
        ...         _ = ferro.ones(2) * 2
        >>> [e.name for e in prof.function_events]
        ['mine', 'aten::mul']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else f"{name}({args})"
        self._open: list[tuple[int, list]] = []  # with the thread that entered

    def __enter__(self) -> Self:
        profiles = [o for o in _mode.current().observers if isinstance(o, profile)]
        self._open.append((threading.get_ident(), [(p, p.begin(self.name, "user")) for p in profiles]))
        return self

    def __exit__(self, *exc: object) -> None:
        thread = threading.get_ident()
        mine = [i for i, (entered, _) in enumerate(self._open) if entered == thread]
        for p, event in self._open.pop(mine[-1])[1] if mine else ():
            p.finish(event)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):  # one of its own per call: threads may call at once
                return function(*args, **kwargs)

        return named
