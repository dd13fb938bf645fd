"""torch.ops.aten: operations by the names and overloads that ATen gives them."""

from __future__ import annotations

import sys
from typing import Any

from ferro.core import backend


class Packet:
    """An operation under ATen's name: called, or called as one of its overloads (``aten.add.Tensor``), which are one function here."""

    def __init__(self, name: str, function: Any) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Packet:
        if overload.startswith("_"):
            raise AttributeError(f"The underlying op of 'aten.{self._name}' has no overload name '{overload}'")
        return Packet(f"{self._name}.{overload}", self._function)

    def __repr__(self) -> str:
        return f"aten.{self._name}"


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


aten = Namespace()
