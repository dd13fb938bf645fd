"""The seam between the tape in Python and its recorder in machine code: says which functions exist in both languages.

Note [Two recorders].  A function of the tape in Python says what happens. For the most frequent calls the recorder in
machine code does the same faster, and calls the function in Python for all others. FERRO_TAPE=python in the environment
leaves the recorder out: breakpoints in `apply` are hit then, while kernels and entries run as ever.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ferro.native import slots  # noqa: F401 (its table must be there before the code is loaded)
from ferro.native.entries import EntryFile

# The functions in machine code, under the names of those in Python, by the module that says them.
VERSIONS = {
    "ferro.native.jit_recorder": ("wrap", "unary", "binary"),
    "ferro.native.jit_recorder_apply": ("apply", "joined"),
    "ferro.native.jit_recorder_views": ("viewed", "parted"),
    "ferro.native.jit_recorder_writes": ("written", "computed_into", "assigned"),
}
STANDING: dict[str, Any] = {}
"""What the names stand for in this process, filled as `accelerated` meets the functions."""


def _is_wanted() -> bool:
    """Whether the recorder in machine code may stand before the functions in Python."""
    wanted = os.environ.get("FERRO_TAPE", "").strip().lower()
    if wanted not in ("", "machine", "python"):
        raise ValueError(f"FERRO_TAPE is {wanted!r}; it may be 'machine' or 'python'")
    return wanted != "python"


WANTED = _is_wanted()


def accelerated(function: Any) -> Any:
    """A decorator: a function of the tape behind its version in machine code, if there is one in this process."""
    name = function.__name__
    if not any(name in names for names in VERSIONS.values()):
        raise LookupError(f"{name} has no version in machine code; see VERSIONS in {__name__}")
    code = FILE.code if WANTED else None
    STANDING[name] = function if code is None else code.function(name, name, function)
    return STANDING[name]


def _functions() -> dict[str, Any]:
    return {name: getattr(import_module(module), name) for module, names in VERSIONS.items() for name in names}


FILE = EntryFile("tape", tuple(VERSIONS), _functions)
