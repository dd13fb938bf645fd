"""Maps of an arena: a picture of which bytes are used by which nodes."""

from __future__ import annotations

from html import escape
from typing import Any

from ferro.graph.planning.rows import report, rows

_WIDTH, _HEIGHT, _EDGE = 960, 480, 48
_COLOURS = {"value": "#4878a8", "folded": "#68a060", "scratch": "#c8a050"}


def svg(plan: Any) -> str:
    """A rectangle for each array: nodes from left to right, bytes from top to bottom; a line where the lower bound is."""
    nodes, size = max(len(plan.graph.nodes), 1), max(plan.arena_bytes, 1)
    wide, high = (_WIDTH - 2 * _EDGE) / nodes, (_HEIGHT - 2 * _EDGE) / size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect x="0" y="0" width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for a in plan.allocations:
        if a.offset is None:
            continue
        kind = "folded" if a.folded is not None else "value" if a.values else "scratch"
        line = plan.graph.nodes[a.node].line if a.node < len(plan.graph.nodes) else ""
        names = ", ".join(f"{v} {v.name}".strip() for v in a.values) or "scratch"
        said = f"{names}: {a.size} bytes at {a.offset}, nodes {a.node} to {a.last}; {line}"
        parts.append(
            f'<rect class="{kind}" data-offset="{a.offset}" data-bytes="{a.size}" data-first="{a.node}" data-last="{a.last}" '
            f'x="{_EDGE + a.node * wide:.3f}" y="{_EDGE + a.offset * high:.3f}" '
            f'width="{(a.last - a.node + 1) * wide:.3f}" height="{max(a.size * high, 0.2):.3f}" '
            f'fill="{_COLOURS[kind]}" fill-opacity="0.7" stroke="white" stroke-width="0.3"><title>{escape(said)}</title></rect>'
        )
    for name, value, colour in (("arena", plan.arena_bytes, "#333333"), ("lower bound", plan.lower_bound, "#b03030")):
        y = _EDGE + value * high
        parts.append(
            f'<line class="{name.replace(" ", "-")}" x1="{_EDGE}" x2="{_WIDTH - _EDGE}" y1="{y:.3f}" y2="{y:.3f}" stroke="{colour}"/>'
        )
    peak = _peak(plan)
    middle = _EDGE + (peak + 0.5) * wide
    said = f"{plan.arena_bytes} bytes, at most {plan.lower_bound} live at once (node {peak}); {len(plan.graph.nodes)} nodes from left to right"
    legend = {"values": "value", "in the place of an argument": "folded", "scratch of a function": "scratch"}
    spans = " ".join(f'<tspan fill="{_COLOURS[kind]}">{name}</tspan>' for name, kind in legend.items())
    parts += [
        f'<path class="peak" d="M{middle:.3f} {_EDGE}V{_HEIGHT - _EDGE}" stroke="#b03030" stroke-dasharray="4 4"/>',
        f'<text x="{_EDGE}" y="{_EDGE - 16}">{said}</text>',
        f'<text x="{_EDGE}" y="{_HEIGHT - 16}">{spans}</text>',
        "</svg>",
    ]
    return "\n".join(parts)


def _peak(plan: Any) -> int:
    """The node at which most bytes live."""
    change: dict[int, int] = {}
    for a in plan.allocations:
        if a.offset is not None and a.folded is None:
            change[a.node] = change.get(a.node, 0) + a.size
            change[a.last + 1] = change.get(a.last + 1, 0) - a.size
    most = now = node = 0
    for at in sorted(change):
        now += change[at]
        if now > most:
            most, node = now, at
    return node


def page(plan: Any) -> str:
    """A page of HTML with the map, the figures and a table of all arrays."""
    head = ("name", "kind", "bytes", "dtype", "shape", "offset", "first", "last", "folded", "line")
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(str(getattr(row, name)))}</td>" for name in head) + "</tr>" for row in rows(plan)
    )
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<title>Memory plan</title>\n'
        "<style>body{font:14px sans-serif}td,th{padding:0 .6em;text-align:left}</style>\n"
        f"{svg(plan)}\n<pre>{escape(report(plan))}</pre>\n"
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>\n{body}</table>\n"
    )
