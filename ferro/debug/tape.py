"""Walking over a tape: the nodes and leaves behind a tensor, and the arrays that a node keeps."""

from __future__ import annotations

from typing import Any

from ferro.autograd._observer import arrays_of
from ferro.core.base import TensorBase
from ferro.core.history import position
from ferro.core.node import Freed, Node, OutputRef
from ferro.core.saved_values import Packed


def start(root: Any) -> Any:
    """The node (or leaf) that a tensor's gradient enters the tape at."""
    if not isinstance(root, TensorBase):
        raise TypeError(f"expected a tensor that requires grad, got {type(root).__name__}")
    where = position(root)
    if where is None:
        raise RuntimeError("the tensor does not require grad: there is no graph behind it")
    return where.node if type(where) is OutputRef else where


def inputs_of(node: Any) -> list:
    """The nodes and leaves that the gradients of a node go to."""
    return [t.node if type(t) is OutputRef else t for t in node.edges] if isinstance(node, Node) else []


def reachable(first: Any) -> list:
    """All nodes and leaves behind `first`, the youngest node first, then the leaves in the order they are met."""
    found: dict = {first: None}
    todo = [first]
    while todo:
        for t in inputs_of(todo.pop()):
            if t not in found:
                found[t] = None
                todo.append(t)
    nodes = sorted((n for n in found if isinstance(n, Node)), key=lambda n: -n.seq)
    return nodes + [t for t in found if not isinstance(t, Node)]


def is_freed(node: Any) -> bool:
    """Whether what the node had saved was freed by a backward."""
    return type(node.saved) is Freed


def kept(node: Any) -> list[tuple[str, Any, Any]]:
    """What a node keeps for backward: name, array, and the leaf it belongs to (None where it is no leaf)."""
    if is_freed(node) or not node.saved:
        return []
    names = node.plan.names or [f"saved {i}" for i in range(len(node.saved))]
    found: list = []
    for name, value in zip(names, node.saved, strict=False):
        for v in value if isinstance(value, tuple) else (value,):
            found += [(name, a, _leaf(v)) for a in arrays_of([_opened(v)])]
    return found


def _opened(value: Any) -> Any:
    """The tensor or array in the hands of a hook or a custom Function; what cannot be seen there is left out."""
    if type(value) is Packed:
        return _opened(value.value)
    if hasattr(value, "packed") and value.packed is not None:
        return _opened(value.packed)
    if hasattr(value, "data") and not isinstance(value, TensorBase) and hasattr(value.data, "dtype"):
        return value.data
    tensor = getattr(value, "tensor", value)
    return value if callable(tensor) else tensor


def _leaf(value: Any) -> Any:
    value = _opened(value)
    return value if isinstance(value, TensorBase) and not isinstance(value._node, (Node, OutputRef)) else None


def storage(array: Any) -> Any:
    """The array that owns the memory."""
    while getattr(array.base, "nbytes", None) is not None and hasattr(array.base, "dtype"):
        array = array.base
    return array


def readable(bytes: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if bytes < 1024:
            return f"{bytes:.0f} {unit}" if unit == "B" else f"{bytes:.1f} {unit}"
        bytes /= 1024
    return f"{bytes:.2f} GiB"
