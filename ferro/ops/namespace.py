"""torch.ops: operations by the names and overloads that ATen gives them, and those that programs define (`library`)."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from ferro.core import backend


class Packet:
    """An operation by name: called, or called as one of its overloads (``aten.add.Tensor``), which are one function here."""

    def __init__(self, name: str, function: Any, space: str = "aten") -> None:
        self._name, self._function, self._space = name, function, space

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Packet:
        if overload.startswith("_"):
            raise AttributeError(f"The underlying op of '{self._space}.{self._name}' has no overload name '{overload}'")
        return Packet(f"{self._name}.{overload}", self._function, self._space)

    def __repr__(self) -> str:
        return f"{self._space}.{self._name}"


class Namespace:
    """The operations of ferro, of its tensors' methods and of nn.functional, as attributes."""

    def __getattr__(self, name: str) -> Packet:
        package = sys.modules[__name__.partition(".")[0]]
        places = (package, backend.tensor_class, package.nn.functional)
        function = (
            None if name.startswith("__") else next((f for p in places if callable(f := getattr(p, name, None))), None)
        )
        if function is None:
            raise AttributeError(
                f"'_OpNamespace' 'aten' object has no attribute '{name}': ferro has no operation of that name"
            )
        return Packet(name, function)

    def __repr__(self) -> str:
        return "ferro.ops.aten"


class Defined:
    """The operations that programs have defined in a namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Packet:
        if name not in self.operations:
            raise AttributeError(f"'_OpNamespace' {self.name!r} object has no attribute {name!r}")
        return Packet(name, self.operations[name], self.name)

    def __repr__(self) -> str:
        return f"ferro.ops.{self.name}"


def load_library(path: str) -> NoReturn:
    """OSError: libraries of C++ operations are for PyTorch's C++ tensors.  Packages that ask go on without theirs."""
    raise OSError(f"Could not load this library: {path}: it is made for PyTorch's C++ tensors, which ferro has not")


aten = Namespace()
NAMESPACES: dict[str, Any] = {"aten": aten, "load_library": load_library}  # what `ops` answers
