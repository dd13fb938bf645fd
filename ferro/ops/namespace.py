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


def _to_copy(self: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """A copy in another dtype; `options` are those of `Tensor.to`."""
    kept = {
        name: value
        for name, value in options.items()
        if name in ("memory_format", "non_blocking") and value is not None
    }
    return self.to(dtype=dtype or self.dtype, device=device, copy=True, **kept)


def _slice(self: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """``self[start:end:step]`` along a dimension."""
    return self[(*(slice(None),) * (dim % self.dim()), slice(start, end, step))]


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"aten.{name}: an inner function of PyTorch's, which ferro has not; use sparse.mm")

    return refuse


# Operations of ATen that have no public name, or another meaning under it.
_ATEN = {
    "_pin_memory": lambda self, device=None: self.pin_memory(),
    "_sparse_mm_reduce_impl": _refused("_sparse_mm_reduce_impl"),
    "_sparse_addmm": lambda self, mat1, mat2, *, beta=1, alpha=1: self.addmm(mat1, mat2, beta=beta, alpha=alpha),
    "_to_copy": _to_copy,
    "alias": lambda self: self.view(self.shape),
    "index": lambda self, indices: self[tuple(slice(None) if i is None else i for i in indices)],
    "slice": _slice,
}


class Namespace:
    """The operations of ferro, of its tensors' methods and of nn.functional, as attributes."""

    def __getattr__(self, name: str) -> Packet:
        package = sys.modules[__name__.partition(".")[0]]
        places = (package, backend.tensor_class, package.nn.functional)
        function = _ATEN.get(name)
        if function is None and not name.startswith("__"):
            function = next((f for p in places if callable(f := getattr(p, name, None))), None)
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
