"""The kernels that are declared: which module each stands in, and what Numba makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

_QUEUE = "ferro.native.jit_work_queue"
_module_of: dict[str, str] = dict.fromkeys(("set_up", "wake", "serve"), _QUEUE)  # by the name of the kernel

_printed: list[tuple[str, Mapping[str, Any], Callable[[Any], str]]] = []  # see `declare_printed`


def declare(package: str, modules: dict[str, str]) -> None:
    """Enter the kernels of a package: for each of its modules, which need Numba and are imported late, their names."""
    for module, names in modules.items():
        _module_of.update(dict.fromkeys(names.split(), f"{package}.{module}"))


def declare_printed(module: str, names: Mapping[str, Any], text: Callable[[Any], str]) -> None:
    """Enter kernels that are printed: ``printed(name)`` of the module makes one of text(names[name]). `names` may still grow."""
    _printed.append((module, names, text))


def _text(name: str) -> tuple[str, ...]:
    """A "=" and the text of a kernel, if it is printed."""
    return tuple([f"={text(names[name])}" for _, names, text in _printed if name in names])


def names(module: str) -> list[str]:
    """The kernels that stand in a module and are not printed."""
    return [name for name, place in _module_of.items() if place == module]


def _module(name: str) -> str:
    found = _module_of.get(name)
    return found or next(module for module, names, _ in _printed if name in names)


def modules() -> tuple[str, ...]:
    """What all kernels are made from."""
    plain = {*_module_of.values(), *[module for module, _, _ in _printed]}
    return (*sorted(plain), *sorted([_text(name)[0] for _, names, _ in _printed for name in names]))


def sources(name: str) -> tuple[str, ...]:
    """The modules that a kernel's machine code is made from, and behind a "=" the text of one that is printed."""
    return (_module(name), *_text(name))


@cache
def compiler(name: str, in_rows: bool = False) -> Any:
    """The function that Numba makes of a kernel, or of its parallel version; this imports Numba."""
    module = import_module(_module(name))
    function = getattr(module, name) if name in _module_of else module.printed(name)
    if not in_rows:
        return function
    # (one function may make several kernels, and the name of a printed one says what its text is)
    return import_module(_QUEUE).parallel_version(function, f"{name}_{function.py_func.__name__}")
