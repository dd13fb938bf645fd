"""The recorder in machine code: it stands before functions of the tape, calls what they call, and makes tensors and nodes."""

from __future__ import annotations

from typing import Any

from ferro.native import slots  # noqa: F401 (its table must be there before the code is loaded)
from ferro.native.entries import EntryFile


def accelerated(function: Any) -> Any:
    """A decorator: machine code before a function of the tape, its fallback, where there is some. See jit_recorder.py."""
    code = FILE.code
    return function if code is None else code.function(function.__name__, function.__name__, function)


def _functions() -> dict[str, Any]:
    from ferro.native import jit_recorder, jit_recorder_views

    found = {name: getattr(jit_recorder, name) for name in ("wrap", "unary", "binary", "joined", "apply")}
    return {**found, **{name: getattr(jit_recorder_views, name) for name in ("viewed", "parted")}}


FILE = EntryFile("tape", ("ferro.native.jit_recorder", "ferro.native.jit_recorder_views"), _functions)
