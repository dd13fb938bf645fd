"""Containers of modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self, overload

from .module import Module


class _NumberedModules(Module):
    """Children named "0", "1", ... with the manners of a list."""

    def _key(self, index: Any) -> str:
        """The name of the child at an index, which may be negative."""
        index = operator.index(index)
        size = len(self._modules)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range for a {type(self).__name__} of length {size}")
        return next(islice(self._modules, index % size, None))

    def _children(self) -> list[Any]:
        return list(self._modules.values())

    def _renumber(self, modules: Iterable[Any]) -> None:
        """Put `modules` in place of the children, numbered from 0."""
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._renumber(self._children())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at an index."""
        module = self[key]  # type: ignore[index]  # both subclasses define __getitem__
        del self[key]
        return module

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_NumberedModules):
    """Calls its modules one after another, each on the result of the one before.

    Takes modules, or one OrderedDict of names and modules.  It can be indexed, sliced, iterated and appended to; children are
    named "0", "1", ... or by the dictionary.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model(ferro.zeros(5, 4)).shape
        ferro.Size([5, 2])
        >>> model[0]
        Linear(in_features=4, out_features=8, bias=True)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __delitem__(self, index: int | slice) -> None:
        named = all(not key.isdigit() for key in self._modules)
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        if not named:  # numbers close up again; names of one's own stay
            self._renumber(self._children())

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at `index`; the later ones move up."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = self._children()
        modules.insert(index % size if index < 0 else index, module)
        self._renumber(modules)
        return self

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        _check_times(times)
        return Sequential(*(list(self) * times))

    def __rmul__(self, times: int) -> Sequential:
        return self * times

    def __imul__(self, times: int) -> Self:
        _check_times(times)
        modules = list(self)
        for _ in range(times - 1):
            self.extend(modules)
        return self


def _check_times(times: Any) -> None:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {Sequential}")


class ModuleList(_NumberedModules):
    """A list of modules that are registered as children, so that their parameters are found; it has no `forward`.

    - `modules` (modules, default None): in order

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        >>> x = ferro.zeros(2, 4)
        >>> for layer in layers:
        ...     x = layer(x)
        >>> len(list(layers.parameters()))
        6
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._children()[index])
        return self._modules[self._key(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at `index`; the later ones move up."""
        modules = self._children()
        modules.insert(index, module)
        self._renumber(modules)

    def __repr__(self) -> str:
        """Neighbours that print alike share a line: "(0-2): 3 x Linear(...)"."""
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            text = text.replace("\n", "\n  ")
            lines.append(f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}")
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules that are registered as children; it has no `forward`.

    - `modules` (dict, or pairs of name and module, default None): in order

    Example::

        >>> import ferro
        >>> heads = ferro.nn.ModuleDict({"class": ferro.nn.Linear(4, 3), "box": ferro.nn.Linear(4, 4)})
        >>> heads["box"](ferro.zeros(1, 4)).shape
        ferro.Size([1, 4])
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules, from a mapping or from pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, "
                f"but got {type(modules).__name__}"
            )
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(source: Any, owner: str) -> Iterator[tuple[Any, Any]]:
    """The pairs of a mapping or of an iterable of pairs."""
    if hasattr(source, "items"):
        yield from source.items()
        return
    for position, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{owner} update sequence element #{position} should be Iterable; is {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{owner} update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair
