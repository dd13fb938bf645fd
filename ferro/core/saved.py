"""What a node keeps, as its attributes: ``node._saved_self``, ``node._raw_saved_self.register_hooks(pack, unpack)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ferro.core import dtypes
from ferro.core.base import TensorBase, wrap
from ferro.core.device import CPU
from ferro.core.node import Freed, Node, node_meta
from ferro.core.operands import is_constant
from ferro.core.packing import packed
from ferro.core.saved_values import Packed, Unpacked, check_guards, saved_tensors
from ferro.core.size import Size

# PyTorch's names for inputs whose names differ here, by their position.
_POSITIONS = {"self": 0, "input": 0, "other": 1, "mat2": 1, "exponent": 1, "tensor1": 1, "tensor2": 2, "weight": 1}
# And for parameters.
_PARAMETERS = {"exponent": "n", "min": "low", "max": "high"}
_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed): {} "
    "has let go of what it saved. Specify retain_graph=True if the saved tensors are needed after backward()."
)


class InputMetadata(NamedTuple):
    """What a node knows of a gradient that it takes."""

    shape: Size
    dtype: Any
    device: Any = CPU


def metadata(kinds: Any) -> tuple:
    """The InputMetadata of outputs (the inputs of a node's backward) of such shapes and dtypes; None without derivative."""
    return tuple([None if k is None else InputMetadata(Size(k[0]), dtypes.FROM_NUMPY[k[1]]) for k in kinds])


def freed(node: Node) -> str:
    """The error of reading what a node has saved when it is gone."""
    return _FREED.format(node.name())


def attributes(node: Node) -> list[str]:
    """The names of the attributes `attribute` knows for a node."""
    if node.plan is None or getattr(node.plan, "user", None) is not None:
        return []
    found = []
    for name, kind in zip(node.plan.names, node.plan.kinds, strict=True):
        own = _torch_name(node, name)
        found.append(f"_saved_{own}")
        if kind == "tensor" or kind.startswith("array"):
            found.append(f"_raw_saved_{own}")
    return found


def attribute(node: Node, name: str) -> Any:
    """The value of an attribute ``_saved_...`` or ``_raw_saved_...``."""
    raw = name.startswith("_raw")
    wanted = name.removeprefix("_raw").removeprefix("_saved_")
    index = _index(node, wanted)
    if index is None:
        raise AttributeError(
            f"{node.name()} has no attribute {name!r}; it has {', '.join(attributes(node)) or 'no saved values'}"
        )
    if raw:
        return SavedTensor.of(node, index)
    if type(node.saved) is Freed:
        raise RuntimeError(freed(node))
    return _value(node, index)


def _torch_name(node: Node, name: str) -> str:
    op = node.plan.op
    stem = name.removesuffix("_shape")
    if stem in op.inputs and len(op.inputs) <= 2 and not op.variadic:
        own = ("self", "other")[op.inputs.index(stem)]
        return own if stem == name else f"{own}_sym_sizes"
    if name in op.output_names:
        return f"result{op.output_names.index(name)}" if op.multi else "result"
    return name


def _index(node: Node, wanted: str) -> int | None:
    """The position in ``node.saved`` of what PyTorch calls `wanted`."""
    plan = node.plan
    names = getattr(plan, "names", ())
    if not names:
        return None
    for i, name in enumerate(names):
        if wanted in (name, _torch_name(node, name)) or _PARAMETERS.get(wanted) == name:
            return i
    position = _POSITIONS.get(wanted)
    if position is not None and position < len(plan.op.inputs) and plan.op.inputs[position] in names:
        return names.index(plan.op.inputs[position])
    return None


def _value(node: Node, index: int) -> Any:
    """One saved value: a tensor with its history, a 0-d tensor for a number that was an operand, or a parameter."""
    if node.meta is not None and node.meta.guards:
        check_guards(node)
    kind = node.plan.kinds[index]
    if kind == "plain":
        value = node.saved[index]
        return value.item() if isinstance(value, np.generic) else value
    source = Unpacked(node) if node.meta is not None and node.meta.packed else node
    (value,) = saved_tensors(source, [(kind, index)], ())
    return wrap(value._data.copy()) if isinstance(value, TensorBase) and is_constant(value) else value


def check_registration(node: Node | None, value: Any, pack_hook: Any, unpack_hook: Any) -> None:
    """Raises where hooks cannot be registered on the saved `value` of a node."""
    for what, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
        if not callable(hook):
            raise TypeError(
                f"register_hooks: incompatible function arguments: {what} must be callable, got {type(hook).__name__}"
            )
    if node is None or type(node.saved) is Freed:
        raise RuntimeError(
            "Calling register_hooks on a saved tensor after it has been freed. Specify retain_graph=True if the saved tensors "
            "are needed after backward()."
        )
    if value is None:
        raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
    if type(value) is Packed:
        raise RuntimeError(
            "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
            "allowed at a time."
        )


class SavedTensor:
    """The place of one saved tensor: hooks can be registered on it.  A node's ``_raw_saved_...`` gives one."""

    _node: Node
    _index: int

    def __init__(self) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden; take it from a node: y.grad_fn._raw_saved_self"
        )

    @classmethod
    def of(cls, node: Node, index: int) -> SavedTensor:
        """The saved value number `index` of a node."""
        slot = object.__new__(cls)
        slot._node, slot._index = node, index
        return slot

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Keeps ``pack_hook(tensor)`` from now on instead of the tensor, which ``unpack_hook`` gives back when it is needed."""
        i = self._index
        node: Any = self._node
        value = None if type(node.saved) is Freed else node.saved[i]
        check_registration(node, value, pack_hook, unpack_hook)
        _value(node, i)  # raises if it has been changed in place
        kept = packed(value, pack_hook, unpack_hook)
        saved: Any = node.saved
        node.saved = (*saved[:i], kept, *saved[i + 1 :])
        node_meta(node).packed = True
