"""What a profiler has seen: events, their averages, and lists of them as a table."""

from __future__ import annotations

from collections import defaultdict

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]


class FunctionEvent:
    """One thing that ran: `name`, `kind` ("forward", "backward", "exchange" or "user"), `thread`, and its time.

    Times are in microseconds: `cpu_time_total`, and `self_cpu_time_total` without what ran inside.
    """

    count = 1

    def __init__(self, name: str, kind: str, thread: int, start: int) -> None:
        self.name = self.key = name
        self.kind, self.thread, self.start = kind, thread, start
        self.end = start
        self.inside = 0
        self.sequence_nr = -1
        self.input_shapes: list = []
        self.stack: list[str] = []
        self.cpu_memory_usage = 0
        self.cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from begin to end."""
        return (self.end - self.start) / 1000

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds from begin to end, less those of the events inside."""
        return (self.end - self.start - self.inside) / 1000

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} ({self.kind}) {self.cpu_time_total:.1f} us on thread {self.thread}>"


class FunctionEventAvg:
    """The events of one name, added up."""

    def __init__(self, key: str, kind: str, events: list[FunctionEvent]) -> None:
        self.key, self.kind, self.count = key, kind, len(events)
        self.input_shapes, self.stack = events[0].input_shapes, events[0].stack
        self.cpu_time_total = sum(e.cpu_time_total for e in events)
        self.self_cpu_time_total = sum(e.self_cpu_time_total for e in events)
        self.cpu_time = self.cpu_time_total / self.count
        self.cpu_memory_usage = sum(e.cpu_memory_usage for e in events)

    def __repr__(self) -> str:
        return f"<FunctionEventAvg {self.key}: {self.count} calls, {self.cpu_time_total:.1f} us>"


_SORTS = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "count")


def hidden_share(events: list[FunctionEvent]) -> float:
    """The share of the time of exchanges in which operations or their backward ran as well."""
    exchanges = _union([(e.start, e.end) for e in events if e.kind == "exchange"])
    running = _union([(e.start, e.end) for e in events if e.kind in ("forward", "backward")])
    whole = sum(end - start for start, end in exchanges)
    both, i = 0, 0
    for start, end in exchanges:
        while i < len(running) and running[i][1] <= start:
            i += 1
        for other_start, other_end in running[i:]:
            if other_start >= end:
                break
            both += min(end, other_end) - max(start, other_start)
    return both / whole if whole else 0.0


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The times covered by some spans, in order and apart."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


class EventList(list):
    """Events, or averages of events, that can be shown as a table."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all events together."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One entry per name (and, if wanted, per shapes of the inputs and per innermost lines of the stack)."""
        groups: dict[tuple, list] = defaultdict(list)
        for e in self:
            groups[
                e.key, e.kind, str(e.input_shapes) if group_by_input_shapes else "", tuple(e.stack[:group_by_stack_n])
            ].append(e)
        return EventList([FunctionEventAvg(key[0], key[1], events) for key, events in groups.items()])

    def total_average(self) -> FunctionEventAvg:
        """Everything added up."""
        return FunctionEventAvg("Total", "", list(self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        top_level_events_only: bool = False,
        header: str | None = None,
        max_src_column_width: int = 75,
        max_shapes_column_width: int = 80,
    ) -> str:
        """The entries as text, sorted by one of cpu_time, cpu_time_total, self_cpu_time_total, cpu_memory_usage, count."""
        if sort_by is not None and sort_by not in _SORTS:
            raise ValueError(f"table: sort_by must be one of {', '.join(_SORTS)}, got {sort_by!r}")
        entries = [e for e in self if not top_level_events_only or getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            entries.sort(key=lambda e: -getattr(e, sort_by))
        whole = sum(e.self_cpu_time_total for e in self) or 1.0
        columns = ["Name", "Kind", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls"]
        extra = ["CPU Mem"] if any(e.cpu_memory_usage for e in entries) else []
        extra += ["Input Shapes"] if any(e.input_shapes for e in entries) else []
        rows = [[*columns, *extra]]
        for e in entries[: row_limit if row_limit >= 0 else None]:
            name = e.key if len(e.key) <= max_name_column_width else f"{e.key[: max_name_column_width - 3]}..."
            row = [
                name,
                e.kind,
                f"{100 * e.self_cpu_time_total / whole:.2f}%",
                _format_time(e.self_cpu_time_total),
                _format_time(e.cpu_time_total),
                _format_time(e.cpu_time),
                str(e.count),
            ]
            row += [str(e.cpu_memory_usage)] if "CPU Mem" in extra else []
            rows.append([*row, str(e.input_shapes)] if "Input Shapes" in extra else row)
        widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
        rule = "  ".join("-" * w for w in widths)
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(r, widths, strict=True)) for r in rows]
        return (
            "\n".join(
                [
                    *([header] if header else []),
                    rule,
                    lines[0],
                    rule,
                    *lines[1:],
                    rule,
                    f"Self CPU time total: {_format_time(sum(e.self_cpu_time_total for e in self))}",
                ]
            )
            + "\n"
        )

    __str__ = table


def _format_time(us: float) -> str:
    return f"{us:.3f}us" if us < 1000 else f"{us / 1000:.3f}ms" if us < 1e6 else f"{us / 1e6:.3f}s"
