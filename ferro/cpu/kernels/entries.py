"""Functions of NumPy arrays behind their entries in machine code, which answer for most arrays; see native/jit_entries.py.

All entries of a dtype are one file of machine code, loaded when ferro is imported: names are bound to entries once, and
what stands in front of a function does not change while the process lives.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ferro.cpu.kernels.entry_table import LAYOUTS, WRITTEN
from ferro.elementwise import Elementwise
from ferro.native import isa, readiness, registry
from ferro.native.entries import EntryFile

DTYPES = {"f4": np.float32, "f8": np.float64}
_PACKAGE = "ferro.cpu.kernels"
_SOURCES = (
    *[f"{_PACKAGE}.{module}" for module in (*LAYOUTS, *WRITTEN, "jit_total", "entry_table")],
    "ferro.native.jit_entries",
)


def entry(function: Any, name: str = "") -> Any:
    """A decorator: the function behind the entries of its name, as far as there is machine code of them."""
    name = name or function.__name__
    if name in readiness.FUSED and not isa.has_fma():
        return function
    for file in reversed(FILES.values()):
        if file.code is not None and name in file.code.entries:
            function = file.code.function(name, name, function)
    return function


def entry_of(function: Elementwise, behind: Any) -> Any:
    """The function of Python behind the entries of an elementwise function."""
    name = function.__name__
    file = ELEMENTWISE[name] = EntryFile(
        name, (*registry.sources(name), "ferro.native.jit_entries"), partial(_of_elementwise, function)
    )
    if file.code is None or (name in readiness.FUSED and not isa.has_fma()):
        return behind
    for entry_name in file.code.entries:
        behind = file.code.function(name, entry_name, behind)
    return behind


def _of_elementwise(function: Elementwise) -> dict[str, Any]:
    """What is compiled into the entries of an elementwise function, for each dtype."""
    from ferro.native import jit_entries

    kernel, numbers = registry.compiler(function.__name__), " number" * function.numbers
    layout = f"{function.entry}{' =' * (function.arrays - 1)}{numbers} -> x +"
    return {code: jit_entries.make(kernel, layout, np.dtype(code).type) for code in "fd"}


def _functions(code: str) -> dict[str, Any]:
    """What is compiled into the entries for a dtype, by name."""
    from ferro.native import jit_entries

    found: dict[str, Any] = {}
    totals = import_module(f"{_PACKAGE}.jit_total")
    for module, layouts in LAYOUTS.items():
        kernels = import_module(f"{_PACKAGE}.{module}")
        for names, layout in layouts.items():
            for name in names.split():
                large = getattr(totals, name) if "dims" in layout and "+" in layout else None
                found[name] = jit_entries.make(getattr(kernels, name), layout, DTYPES[code], large)
    for module, names in WRITTEN.items():
        written = import_module(f"{_PACKAGE}.{module}").entries(DTYPES[code])
        found.update(zip(names.split(), written, strict=True))
    return found


FILES = {code: EntryFile(code, _SOURCES, partial(_functions, code)) for code in DTYPES}
ELEMENTWISE: dict[str, EntryFile] = {}  # by the name of the function
