"""The lists of functions that ask ``__torch_function__``, for tests of classes that have one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ferro import _overriding
from ferro.tensor import Tensor

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "is_tensor_method_or_property",
    "resolve_name",
]


def _functions(owner: Any) -> dict[str, Any]:
    """The public functions of a module, or methods of a class, whether they ask by now or not."""
    found = {name: inspect.getattr_static(owner, name) for name in dir(owner) if not name.startswith("_")}
    return {name: f for name, f in found.items() if isinstance(f, (FunctionType, _overriding.Overridable))}


def _asks(name: str, f: Any) -> bool:
    f = f.function if isinstance(f, _overriding.Overridable) else f
    return name not in _overriding.UNASKED and _overriding.takes_tensors(f)


def _spaces() -> list[Any]:
    return [sys.modules[name] for name in _overriding.namespaces if name != "torch"]


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions of each namespace, and the methods of Tensor, that ask ``__torch_function__``.

    >>> import ferro
    >>> ferro.exp in ferro.overrides.get_overridable_functions()[ferro]
    True
    """
    found = {space: [f for name, f in _functions(space).items() if _asks(name, f)] for space in _spaces()}
    found[Tensor] = [f for name, f in _functions(Tensor).items() if name not in _overriding.UNASKED]
    return found


def get_ignored_functions() -> set[Callable]:
    """The public functions that ask nobody: they take no tensors, or make them.

    >>> import ferro
    >>> ferro.is_tensor in ferro.overrides.get_ignored_functions()
    True
    """
    return {f for space in _spaces() for name, f in _functions(space).items() if not _asks(name, f)}


def get_testing_overrides() -> dict[Callable, Callable]:
    """For each function that asks, one with the same arguments that returns -1; TypeError for other arguments.

    >>> import ferro
    >>> ferro.overrides.get_testing_overrides()[ferro.exp](ferro.ones(1))
    -1
    """
    return {f: _minus_one(f) for functions in get_overridable_functions().values() for f in functions}


def _minus_one(f: Any) -> Callable:
    signature = inspect.signature(f.function if isinstance(f, _overriding.Overridable) else f)

    def answer(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    answer.__signature__ = signature  # type: ignore[attr-defined]
    return answer


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is a method of Tensor only, or reads an attribute of it (``Tensor.shape.__get__``).

    Many methods are the public function of that name, and count as such.

    >>> import ferro
    >>> is_method = ferro.overrides.is_tensor_method_or_property
    >>> is_method(ferro.Tensor.add_), is_method(ferro.Tensor.shape.__get__), is_method(ferro.exp)
    (True, True, False)
    """
    if getattr(func, "__name__", "") == "__get__":
        return True
    functions = {f for space in _spaces() for f in _functions(space).values()}
    return func in set(_functions(Tensor).values()) and func not in functions


def resolve_name(f: Any) -> str | None:
    """The public name of a function that asks, as PyTorch spells it; None of others.

    >>> import ferro
    >>> ferro.overrides.resolve_name(ferro.exp), ferro.overrides.resolve_name(ferro.Tensor.add_)
    ('torch.exp', 'torch.Tensor.add_')
    """
    for space in _spaces():
        for name, known in _functions(space).items():
            if known == f and _asks(name, known):
                return f"torch{space.__name__.removeprefix('ferro')}.{name}"
    names = [name for name, known in _functions(Tensor).items() if known == f]
    return f"torch.Tensor.{names[0]}" if names else None
