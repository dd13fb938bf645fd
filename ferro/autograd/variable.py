"""Variable: what tensors that require grad were called before they were tensors; programs still reach the engine by it."""

from __future__ import annotations

from typing import Any

from ferro.core.base import TensorBase, wrap
from ferro.core.graph_task import queue_callback


class _Engine:
    """What ``Variable._execution_engine`` offers."""

    queue_callback = staticmethod(queue_callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TensorBase)


class Variable(metaclass=_VariableMeta):
    """``Variable(tensor, requires_grad=False)`` is a tensor that shares the data of `tensor`; every tensor is an instance."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        t: Any = wrap(data._data)
        return t.requires_grad_(requires_grad) if requires_grad else t
