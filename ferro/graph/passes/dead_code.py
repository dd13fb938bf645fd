"""Dead code: nodes that no result needs. What writes, draws or checks stays, and so does what may raise by its data."""

from __future__ import annotations

from typing import Any

from ferro.core.dtypes import INEXACT
from ferro.core.op import OPS
from ferro.core.plan import ELEMENTWISE, LINEAR, MULTILINEAR
from ferro.graph.functions import PURE, effects
from ferro.graph.ir import Node
from ferro.graph.passes.memory import may_share

# Of integers and masks, these raise for no numbers at all.
_ANY_DTYPE = frozenset(
    (
        *(
            "add",
            "sub",
            "mul",
            "neg",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "where",
            "to_copy",
            "clone",
            "logical_and",
            "logical_or",
        ),
        *(
            f"array.{n}"
            for n in ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "invert", "astype")
        ),
        *(
            "array.copy",
            "xp.where",
            "xp.isnan",
            "xp.isinf",
            "xp.isfinite",
            "xp.logical_not",
            "xp.zeros_like",
            "xp.ones_like",
        ),
    )
)
# Of floating numbers, beside the operations that are elementwise or linear, and views.
_FLOATS = frozenset(
    (
        *(
            "amax",
            "amin",
            "conv",
            "gelu",
            "group_norm",
            "layer_norm",
            "linear",
            "log_softmax",
            "matmul",
            "mean",
            "mse_loss",
            "rms_norm",
        ),
        *("scaled_dot_product_attention", "softmax", "std", "sum", "var"),
        *(f"array.{n}" for n in ("abs", "matmul", "mean", "pieces", "sum", "total", "truediv")),
        *(
            f"xp.{n}"
            for n in ("exp", "log", "matmul", "mean", "mm", "mv", "outer", "sqrt", "sum", "channel_sum", "leading_sum")
        ),
    )
)
_KINDS = frozenset((ELEMENTWISE, LINEAR, MULTILINEAR))


def never_raises(node: Node) -> bool:
    """Whether there are no data for which a node would raise."""
    name, op = node.function, OPS.get(node.function)
    if name in _ANY_DTYPE or may_share(node):
        return len(node.operands) == 1 or name in _ANY_DTYPE
    if any(v.dtype not in INEXACT for v in node.operands):
        return False
    if op is not None and op.kind in _KINDS and not name.startswith("linalg."):
        return True
    return name in _FLOATS or name.startswith("elementwise.")


def dead_code(program: Any) -> int:
    """Removes what nothing needs; returns how many nodes and constants there were."""
    needed = set(program.outputs)
    kept = []
    for node in reversed(program.nodes):
        if effects(node.function) != PURE or not needed.isdisjoint(node.outputs) or not never_raises(node):
            kept.append(node)
            needed.update(node.operands)
    constants = [v for v in program.constants if v in needed]
    count = len(program.nodes) - len(kept) + len(program.constants) - len(constants)
    program.keep(reversed(kept))
    program.constants = constants
    return count
