"""graph: the tape behind a tensor as DOT text, as SVG, and as a text tree for terminals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ferro.core.dtypes import FROM_NUMPY
from ferro.core.node import Node
from ferro.debug import layout
from ferro.debug.locations import location_of
from ferro.debug.tape import inputs_of, is_freed, kept, reachable, readable, start, storage

_ARROW = """<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0 0 6 3 0 6z"/></marker></defs>"""


class _Vertex:
    """What is shown of a node or leaf."""

    def __init__(self, what: Any, names: dict[int, str], times: Mapping[int, tuple[float, Any]]) -> None:
        self.is_leaf = not isinstance(what, Node)
        self.details: list[str] = []
        self.location = ""
        if self.is_leaf:
            self.title = names.get(id(what), "leaf")
            self.shape = _shape(what._data.shape, what._data.dtype)
            self.saved = 0
            return
        self.title = what.plan.op.name
        outs = getattr(what, "outputs", None) or ((what.shape, what.dtype),)
        self.shape = ", ".join(_shape(*o) for o in outs if o is not None)
        arrays = {
            id(storage(a)): storage(a).nbytes
            for _, a, leaf in kept(what)
            if leaf is None and (a.ndim or a.flags.writeable)
        }
        self.saved = sum(arrays.values())
        if is_freed(what) and what.plan.keeps:
            self.details.append("freed")
        elif self.saved:
            self.details.append(f"saves {readable(self.saved)}")
        if what.seq in times:
            nanoseconds, thread = times[what.seq]
            self.details.append(f"backward {nanoseconds / 1000:.1f} us ({thread})")
        where = location_of(what)
        if where is not None:
            self.location = f"{Path(where.file).name}:{where.line}" + (f" {where.module}" if where.module else "")

    def line(self) -> str:
        """Everything in one line."""
        return "  ".join(
            [f"{self.title} {self.shape}", *self.details, *([f"@ {self.location}"] if self.location else [])]
        )


def _shape(shape: Any, dtype: Any) -> str:
    return f"{list(shape)} {str(FROM_NUMPY[dtype]).rpartition('.')[2]}"


class Graph:
    """A picture of a tape: `dot()`, `svg()`, `tree()` (which print shows) and `save(path)`."""

    def __init__(self, root: Any, names: Mapping[str, Any] | None, times: Mapping[int, tuple[float, Any]]) -> None:
        labels = {id(t): name for name, t in (names or {}).items()}
        found = reachable(start(root))
        number = {id(n): i for i, n in enumerate(found)}
        self.vertices = [_Vertex(n, labels, times) for n in found]
        self.edges = {i: [number[id(t)] for t in inputs_of(n)] for i, n in enumerate(found)}

    def dot(self) -> str:
        """The graph in the language of Graphviz; arrows point the way the values went."""
        lines = ["digraph tape {", "  node [shape=box, fontname=monospace, fontsize=10];"]
        for i, v in enumerate(self.vertices):
            label = "\\n".join(_quoted(part) for part in (v.title, v.shape, *v.details, v.location) if part)
            style = ', style=filled, fillcolor="#cfe8ff"' if v.is_leaf else ', style="filled,bold"' if i == 0 else ""
            lines.append(f'  n{i} [label="{label}"{style}];')
        lines += [f"  n{t} -> n{i};" for i, targets in self.edges.items() for t in targets]
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self) -> str:
        """The graph as a picture, laid out in layers, the tensor itself at the bottom."""
        from html import escape  # here: `import ferro` stays light

        places, width, height = layout.positions(self.edges, list(range(len(self.vertices))))
        size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
        font = 'font-family="monospace" font-size="10" text-anchor="middle"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>', _ARROW]
        half = layout.HEIGHT / 2
        for i, targets in self.edges.items():
            x, y = places[i]
            for t in targets:
                tx, ty = places[t]
                bend = (y - ty) / 2 - half
                parts.append(
                    f'<path d="M{tx:g} {ty + half:g}C{tx:g} {ty + half + bend:g} {x:g} {y - half - bend:g} {x:g} {y - half:g}" '
                    'fill="none" stroke="#555" marker-end="url(#tip)"/>'
                )
        for i, v in enumerate(self.vertices):
            x, y = places[i]
            colour = "#cfe8ff" if v.is_leaf else "#ffe0b0" if v.saved else "#ffffff"
            parts.append(
                f'<g><title>{escape(v.line())}</title><rect x="{x - layout.WIDTH / 2:g}" y="{y - half:g}" width="{layout.WIDTH:g}" '
                f'height="{layout.HEIGHT:g}" rx="4" fill="{colour}" stroke="{"#c00" if i == 0 else "#555"}"/>'
            )
            for k, text in enumerate([v.title, v.shape, ", ".join(v.details)]):
                parts.append(f'<text x="{x:g}" y="{y - half + 13 + 13 * k:g}">{escape(_cut(text))}</text>')
            parts.append("</g>")
        return "\n".join([*parts, "</svg>"]) + "\n"

    _repr_svg_ = svg

    def tree(self) -> str:
        """The graph as indented text: below each line what it was computed from, one step deeper per branch.

        The longest way on stays at its depth, and what lies on such a way is shown there only: chains and residual
        connections of any length stay narrow.  Elsewhere it is named by its number.
        """
        height = [0] * len(self.vertices)
        uses = [0] * len(self.vertices)
        for i in reversed(range(len(self.vertices))):
            height[i] = max((height[t] + 1 for t in self.edges[i]), default=0)
            for t in self.edges[i]:
                uses[t] += 1
        main = {i: max(range(len(ts)), key=lambda k: height[ts[k]]) for i, ts in self.edges.items() if ts}
        on_main = {self.edges[i][k] for i, k in main.items()}
        lines: list[str] = []
        shown: set[int] = set()
        todo = [(0, "", "", True)]
        while todo:
            i, depth, mark, on_way = todo.pop()
            v = self.vertices[i]
            label = f"#{i} " if uses[i] > 1 else ""
            if i in shown or (not on_way and i in on_main and not v.is_leaf):
                lines.append(f"{depth}{mark}{label}{v.title} (shown {'above' if i in shown else 'below'})")
                continue
            shown.add(i)
            lines.append(f"{depth}{mark}{label}{v.line()}")
            targets = self.edges[i]
            if targets:
                todo.append((targets[main[i]], depth, "" if len(targets) == 1 else "└ ", True))
                todo += [(t, f"{depth}│ ", "", False) for k, t in reversed(list(enumerate(targets))) if k != main[i]]
        return "\n".join(lines) + "\n"

    __str__ = tree

    def save(self, path: str | Path) -> None:
        """Writes the picture in the form that the file's suffix names: .dot, .svg or .txt."""
        forms = {".dot": self.dot, ".svg": self.svg, ".txt": self.tree}
        form = forms.get(Path(path).suffix)
        if form is None:
            raise ValueError(f"Graph.save: the suffix must be one of {', '.join(forms)}, got {Path(path).name!r}")
        Path(path).write_text(form(), "utf-8")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _cut(text: str, most: int = 23) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def graph(root: Any, names: Mapping[str, Any] | None = None, profile: Any = None) -> Graph:
    """The tape behind a tensor as a picture.  It works for graphs of any depth, and for graphs that backward has freed.

    names: names for leaves, for example ``dict(model.named_parameters())``; profile: a `ferro.profiler.profile` in which a
    backward of this graph ran, to show the time and thread of every node.

    Example::

        >>> import ferro
        >>> x = ferro.ones(3, requires_grad=True)
        >>> print(ferro.debug.graph(x.exp().sum(), names={"x": x}))
        sum [] float32
        exp [3] float32  saves 12 B  @ ...
        x [3] float32
        <BLANKLINE>
    """
    return Graph(root, names, {} if profile is None else profile.backward_times())
