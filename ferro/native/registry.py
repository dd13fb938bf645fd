"""The kernels that are declared: which module each stands in, and what Numba makes of it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

_QUEUE = "ferro.native.jit_work_queue"
_module_of: dict[str, str] = dict.fromkeys(("set_up", "wake", "serve"), _QUEUE)  # by the name of the kernel


def declare(package: str, modules: dict[str, str]) -> None:
    """Enter the kernels of a package: for each of its modules, which need Numba and are imported late, their names."""
    for module, names in modules.items():
        _module_of.update(dict.fromkeys(names.split(), f"{package}.{module}"))


def modules() -> tuple[str, ...]:
    """The modules of all kernels."""
    return tuple(sorted(set(_module_of.values())))


def sources(name: str) -> tuple[str, ...]:
    """The modules that a kernel's machine code is made from.

    "name.rows" is the parallel version of a kernel, which works in chunks of rows: see jit_work_queue.py.
    """
    plain, _, rows = name.partition(".")
    return (_module_of[plain], _QUEUE) if rows else (_module_of[plain],)


@cache
def compiler(name: str) -> Any:
    """The function that Numba makes of a kernel; this imports Numba."""
    plain, _, rows = name.partition(".")
    function = getattr(import_module(_module_of[plain]), plain)
    return import_module(_QUEUE).parallel_version(function) if rows else function
