"""Parameter and Buffer: tensors that a module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any, Self

from ferro.core import tape
from ferro.core.base import wrap
from ferro.ops.creation import empty
from ferro.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is a module's to learn: a leaf that shares the data of the given one and asks for a gradient."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        param = _sharing(cls, data)
        return param.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _parameter, (type(self), self.data, self.requires_grad, self.__dict__)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


tape.fill(Parameter=Parameter)


class Buffer(Tensor):
    """A tensor of a module's state that is not learned; persistent=False keeps it out of `state_dict`."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        buffer = _sharing(cls, data)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), persistent=self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _buffer, (type(self), self.data, self.persistent)


def _sharing(cls: type[Tensor], data: Tensor | None) -> Any:
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: expected a ferro.Tensor as data, got {type(data).__name__}")
    return wrap(data._data, None, cls)


def _parameter(cls: type[Parameter], data: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Parameter:
    param = cls(data, requires_grad)
    param.__dict__.update(attributes)
    return param


def _buffer(cls: type[Buffer], data: Tensor, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent)
