"""Functions of one operation with their `out=`: where nothing is recorded, the result is computed where it belongs."""

from __future__ import annotations

from typing import Any

from ferro.core.apply import binary, unary
from ferro.core.arguments import into
from ferro.core.op import Op
from ferro.core.writes import written


def binary_into(name: str, out: Any, op: Op, x: Any, y: Any) -> Any:
    """The function `name`, which applies an operation to x and y as they are, with its `out=`."""
    done = written(op, out, x, y, f"{name}(out=)")
    return into(name, out, binary(op, x, y), x, y) if done is None else done


def unary_into(name: str, out: Any, op: Op, x: Any) -> Any:
    """The function `name`, which applies an operation to x as it is, with its `out=`."""
    done = written(op, out, x, None, f"{name}(out=)")
    return into(name, out, unary(op, x), x) if done is None else done
