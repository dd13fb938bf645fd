"""Containers of parameters: ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from ferro.tensor import Tensor

from ..parameter import Parameter
from .container import _pairs
from .module import Module


def _as_parameter(value: Any) -> Any:
    """A tensor becomes a parameter; everything else stays as it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.shape)
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype} of size {size}]"


class ParameterList(Module):
    """A list of parameters that are registered, so that an optimiser finds them; it has no `forward`.

    - `values` (tensors, default None): in order; a tensor that is no Parameter becomes one

    Example::

        >>> import ferro
        >>> weights = ferro.nn.ParameterList(ferro.ones(2, 2) for _ in range(3))
        >>> len(list(weights.parameters())), weights[0].requires_grad
        (3, True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        index = operator.index(index)
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range for a ParameterList of length {self._size}")
        return str(index % self._size)

    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(self._size)))
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_described(value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters that are registered, so that an optimiser finds them; it has no `forward`.

    - `parameters` (dict, pairs, or names, default None): a tensor that is no Parameter becomes one

    Example::

        >>> import ferro
        >>> weights = ferro.nn.ParameterDict({"scale": ferro.ones(2), "shift": ferro.zeros(2)})
        >>> [name for name, _ in weights.named_parameters()]
        ['scale', 'shift']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: Any) -> Any:
        if key not in self._keys:  # an AttributeError, as in PyTorch, where a key is an attribute
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{key}'")
        return getattr(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Index given to ParameterDict cannot be of type {type(key).__name__}, only str is allowed")
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which becomes `default` if it had none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A dictionary of the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dictionary with one value for all the given names."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        """Add or replace values, from a mapping or from pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, "
                f"but got {type(parameters).__name__}"
            )
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            # PyTorch sorts a plain dictionary, which decides the order of the parameters in an optimiser's state.
            parameters = sorted(parameters.items())
        for key, value in _pairs(parameters, "ParameterDict"):
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_described(value)}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
