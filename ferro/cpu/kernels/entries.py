"""Functions of NumPy arrays behind their entries in machine code, which answer for most arrays; see native/jit_entries.py.

A function says its entry where it is defined: `@entry(layout, kernel)`, or `declare` for one that is not our own. All entries
of a dtype are one file of machine code, which is loaded when ferro.cpu has been imported and all are declared: then its
names are bound to entries once, and what stands in front of a function does not change while the process lives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import numpy as np

from ferro.cpu.kernels.loops import reads_again
from ferro.elementwise import Elementwise
from ferro.native import isa, readiness, registry
from ferro.native.entries import EntryFile
from ferro.native.jit_layouts import is_elementwise

DTYPES = {"f4": np.float32, "f8": np.float64}
_PACKAGE = "ferro.cpu.kernels"


class Declared(NamedTuple):
    """What an entry is made of; modules are those of cpu/kernels."""

    layout: str  # see Note [Layouts] in native/jit_layouts.py; empty for an entry that none describes
    kernel: str  # "module.function"; without a layout the function gives, for a dtype, entries by name
    large: str  # the kernel for large arrays where the layout has dims; two where one array repeats the other, see jit_entries.make


DECLARED: dict[str, Declared] = {}
FILES: dict[str, EntryFile] = {}  # by dtype; there are none until all entries are declared
ELEMENTWISE: dict[str, EntryFile] = {}  # by the name of the function


def declare(name: str, layout: str, kernel: str, large: str = "") -> None:
    """Say what the entry of a function is made of; see `Declared`."""
    DECLARED[name] = Declared(layout, kernel, large)


def entry(layout: str, kernel: str, large: str = "") -> Callable[[Any], Any]:
    """A decorator: the function has an entry, which stands before it in ferro.cpu."""

    def declared(function: Any) -> Any:
        declare(function.__name__, layout, kernel, large)
        return function

    return declared


def with_entry(function: Any, name: str = "") -> Any:
    """The function behind the entries of its name, as far as there is machine code of them."""
    name = name or function.__name__
    if name in readiness.FUSED and not isa.has_fma():
        return function
    for file in reversed(FILES.values()):
        if file.code is not None and name in file.code.entries:
            function = file.code.function(name, name, function)
    return _behind_own(function, name)


def _behind_own(function: Any, name: str) -> Any:
    """The function behind the entries that an elementwise function of its name has for each dtype."""
    file = ELEMENTWISE.get(name)
    for entry_name in file.code.entries if file is not None and file.code is not None else ():
        function = file.code.function(name, entry_name, function)  # type: ignore[union-attr]
    return function


def into_place(function: Any) -> tuple[Any, Any] | None:
    """The entries, for float32 and float64, that may write the result into an array that there is; None where there are none.

    `function` is an elementwise one behind its entries. These two have nothing behind them: they give None where Python has to
    choose. Which array they write into, `want` in native/jit_entries.py says.
    """
    name = function.__name__
    if not isinstance(function, BuiltinFunctionType) or function.__self__ is None:
        return None
    if name in ELEMENTWISE:
        found = [(ELEMENTWISE[name].code, code) for code in "fd"]
    elif name in DECLARED and DECLARED[name].layout and is_elementwise(DECLARED[name].layout):
        found = [(FILES[code].code, name) for code in DTYPES]
    else:
        return None
    if any(code is None or entry_name not in code.entries for code, entry_name in found):
        return None
    f4, f8 = [code.function(name, entry_name, _left_to_python) for code, entry_name in found]
    return f4, f8


def _left_to_python(*_: Any) -> None:
    """What stands behind entries that somebody else stands behind."""


def bind(namespace: dict[str, Any]) -> None:
    """Put the entries that are declared before the functions of a namespace. What is declared later has none."""
    kernels = [kernel for made in DECLARED.values() for kernel in (made.kernel, *made.large.split()) if kernel]
    modules = sorted({kernel.partition(".")[0] for kernel in kernels})
    sources = (*[f"{_PACKAGE}.{module}" for module in modules], "ferro.native.jit_entries")
    mark = hashlib.blake2b(repr(sorted(DECLARED.items())).encode(), digest_size=4).hexdigest()
    for code in DTYPES:
        FILES[code] = EntryFile(f"{code}{mark}", sources, partial(_functions, code, dict(DECLARED)))
    for name in DECLARED.keys() & namespace.keys():
        namespace[name] = with_entry(namespace[name], name)


def _functions(code: str, declared: dict[str, Declared]) -> dict[str, Any]:
    """What is compiled into the entries for a dtype, by name; this imports Numba."""
    from ferro.native import jit_entries

    dtype = DTYPES[code]

    @cache
    def kernel(path: str) -> Any:
        module, _, name = path.partition(".")
        return getattr(import_module(f"{_PACKAGE}.{module}"), name)

    @cache
    def written(path: str) -> dict[str, Any]:
        return kernel(path)(dtype)

    return {
        name: jit_entries.make(kernel(made.kernel), made.layout, dtype, *map(kernel, made.large.split()))
        if made.layout
        else written(made.kernel)[name]
        for name, made in declared.items()
    }


def entry_of(function: Elementwise, behind: Any) -> Any:
    """The function of Python behind the entries of an elementwise function."""
    name, numbers = function.__name__, " number" * function.numbers
    again = " again" * reads_again(function)
    layout = f"{function.entry}{' =' * (function.arrays - 1)}{numbers} -> x{again} +"
    sources = (*registry.sources(name), f"={layout}", "ferro.native.jit_entries")
    ELEMENTWISE[name] = EntryFile(name, sources, partial(_of_elementwise, name, layout))
    return behind if name in readiness.FUSED and not isa.has_fma() else _behind_own(behind, name)


def _of_elementwise(name: str, layout: str) -> dict[str, Any]:
    """What is compiled into the entries of an elementwise function, for each dtype."""
    from ferro.native import jit_entries

    kernel = registry.compiler(name)
    return {code: jit_entries.make(kernel, layout, np.dtype(code).type) for code in "fd"}
