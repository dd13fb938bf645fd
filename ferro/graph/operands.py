"""Which arguments of a node with branches or a loop are which operands of its graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def of_operands(values: Sequence, repeats: Sequence[int]) -> list:
    """Of something for each argument behind the first, that of each operand: its first."""
    found, place = [], 0
    for n in repeats:
        found.append(values[place])
        place += n
    return found


def arguments(operands: Sequence, varying: int) -> tuple:
    """The operands of a loop as its node has them: invariants first, and what begins or is cut from the last to the first.

    That is the order in which contributions to gradients come in eager.
    """
    return (*operands[varying:], *operands[:varying][::-1])


def operands_of(xs: Sequence, varying: int) -> list:
    """The operands of a loop in their order, of the arguments of its node."""
    count = len(xs) - varying
    return [*xs[count:][::-1], *xs[:count]]


def inputs_of(node: Any) -> list:
    """What the inputs of a node's graphs are at first (None: nothing is given); of a stacked operand they get slices."""
    args, what = node.args, node.function.rpartition(".")[2]
    if what == "branch":
        return list(args[1])
    if what in ("cond", "switch"):
        return of_operands(args[0][1:], args[2])
    if what == "reversed_loop":
        begun = sum(type(s) is int for s in args[4])
        return [*[args[1][s] if type(s) is int else None for s in args[4]], *args[1][begun:]]
    return operands_of(args[0], args[3] if what == "while_loop" else args[2] + args[3])
