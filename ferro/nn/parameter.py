"""Parameter and Buffer: tensors that a module registers by being assigned."""

from typing import Any

from ferro.tensor import Tensor


class Parameter(Tensor):
    """A tensor that is a module's to learn: a leaf that shares the data of `data` and asks for a gradient."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> "Parameter":
        return _leaf(cls, data, requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """All is done in `__new__`; the signature is here for the reader and for pickle."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Parameter":
        return _deepcopy(self, memo)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not learned; `persistent=False` keeps it out of `state_dict`."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> "Buffer":
        return _leaf(cls, data, False)

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> "Buffer":
        return _deepcopy(self, memo)
