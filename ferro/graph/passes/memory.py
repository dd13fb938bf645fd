"""Memory: which values of a program may share memory, who writes into it, and who sees it from outside.

Note [Aliases].  A value and its views are one group; so are all that come from outside, since any two inputs may share memory.
What a pass puts in the place of a value must show the same numbers until its last reading, and nobody may see the
difference between one piece of memory and two: the program by writing, its caller by writing into results or inputs.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from ferro.core.op import OPS
from ferro.graph.functions import written_by
from ferro.graph.ir import BOUND, CAPTURED, OWN, Node, Value, values_in

# Who sees the memory of a group: the caller, who may also write into it, or only the graph of the backward.
OUTSIDE, RESULT, PASSED_ON = 1, 2, 4
_CALLERS = OUTSIDE | RESULT

# Functions whose results may show the memory of an argument, beside the operations that are declared views.
_ARRAY_VIEWS = (
    "T",
    "diagonal",
    "getitem",
    "imag",
    "ravel",
    "real",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
    "view",
)
_XP_VIEWS = (
    *("as_complex", "as_real", "diagonal", "expand", "imag", "movedim", "narrow", "permute", "real", "reshape"),
    *("select", "slice_get", "split", "squeeze", "swapaxes", "transpose", "unfold", "unsqueeze", "value_scatter"),
)
VIEWS = frozenset((*(f"array.{n}" for n in _ARRAY_VIEWS), *(f"xp.{n}" for n in _XP_VIEWS), "unsafe_split"))


def may_share(node: Node) -> bool:
    """Whether results of a node may show the memory of its operands."""
    op = OPS.get(node.function)
    if op is not None and op.view:
        return True
    if node.function == "array.getitem" and any(True for _ in values_in(node.args[1:])):
        return False  # (arrays as keys: a copy)
    return node.function in VIEWS


def _handed_over(node: Node) -> list[Value]:
    """The values whose memory belongs to tensors of the program behind a node, or before it: a ``.grad``, say."""
    if not node.function.startswith(("tensor.", "program.")):
        return []
    return node.outputs if node.function == "tensor.accumulate_grad" else [*node.operands, *node.outputs]


class Memory:
    """See Note [Aliases]. It is made for the nodes that a program has at that moment, whose places it numbers."""

    def __init__(self, program: Any) -> None:
        self._parent: dict[Value, Value] = {}
        self._seen: dict[Value, int] = {}
        self._writes: dict[Value, list[int]] = {}
        self.place = {node: i for i, node in enumerate(program.nodes)}
        outside = Value(BOUND, (), None)
        self._seen[outside] = OUTSIDE
        for value in (*program.inputs, *program.bound):
            self.join(value, outside)
        for i, node in enumerate(program.nodes):
            first = node.outputs[:1]
            for value in (*node.outputs[1:], *(node.operands if may_share(node) else ())):
                self.join(value, *first)
            for value in _handed_over(node):
                self.join(value, outside)
            for value in written_by(node):
                self._writes.setdefault(self.group(value), []).append(i)
        for value, history in zip(program.outputs, program.histories, strict=True):
            if history != OWN:
                group = self.group(value)
                self._seen[group] = self._seen.get(group, 0) | (PASSED_ON if history == CAPTURED else RESULT)

    def group(self, value: Value) -> Value:
        """The value that names the group of another one."""
        found = value
        while (parent := self._parent.get(found, found)) is not found:
            found = parent
        while value is not found:
            self._parent[value], value = found, self._parent[value]
        return found

    def join(self, value: Value, other: Value | None = None) -> None:
        """Makes one group of two."""
        if other is None or (a := self.group(value)) is (b := self.group(other)):
            return
        self._parent[a] = b
        self._seen[b] = self._seen.pop(a, 0) | self._seen.get(b, 0)
        if a in self._writes:
            self._writes[b] = sorted([*self._writes.pop(a), *self._writes.get(b, ())])

    def written(self, value: Value, after: int = -1, before: int | None = None) -> bool:
        """Whether a node writes into the memory of a value, between two nodes if they are given."""
        places = self._writes.get(self.group(value), ())
        k = bisect_left(places, after + 1)
        return k < len(places) and (before is None or places[k] < before)

    def seen(self, value: Value) -> int:
        """Who sees the memory of a value beside the program."""
        return self._seen.get(self.group(value), 0)

    def may_stand_for(self, by: Value, value: Value, after: int) -> bool:
        """Whether nobody sees that `by` stands for a copy of it that the program made, `value`: nodes behind the one at `after` read it."""
        if self.written(value) or self.written(by, after):
            return False
        a, b = self.seen(value), self.seen(by)
        return not (a & _CALLERS and b) and not (b & _CALLERS and a)
