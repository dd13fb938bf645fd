"""Functions of NumPy arrays behind their entries in machine code, which answer for most arrays; see native/jit_entries.py.

All entries of a dtype are one file of machine code, loaded when ferro is imported: names are bound to entries once, and
what stands in front of a function does not change while the process lives.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ferro.cpu.kernels.entry_table import LAYOUTS, SINGLE, WRITTEN
from ferro.native import isa, readiness
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


def _functions(code: str) -> dict[str, Any]:
    """What is compiled into the entries for a dtype, by name."""
    from ferro.native import jit_entries

    found: dict[str, Any] = {}
    totals = import_module(f"{_PACKAGE}.jit_total")
    for module, layouts in [*LAYOUTS.items(), *(SINGLE.items() if code == "f4" else ())]:
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
