"""Where the user's program stands: file, line and function of the innermost frame outside the library, and the module it is in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = f"{Path(__file__).resolve().parent.parent}/"
_EXAMPLES = f"{_PACKAGE}examples/"  # written like a user's program, so shown like one


class Location(NamedTuple):
    """A place in the user's program, and the path of the nn module whose forward ran there ("" outside of one)."""

    file: str
    line: int
    function: str
    module: str

    def __str__(self) -> str:
        inside = f", in module '{self.module}'" if self.module else ""
        return f"{self.file}:{self.line} in {self.function}{inside}"


def _is_own(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)


def location(modules: bool = True) -> Location:
    """The line of the user's program that led here; with `modules` also the path of the module it is in."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back
    code = frame.f_code
    path = module_path() if modules else ""
    return Location(code.co_filename, frame.f_lineno, code.co_name, path)


def module_path() -> str:
    """The path of the nn module whose forward is running, from the outermost module down: ``"0.attention.query"``.

    Modules are recognised on the stack by their `forward`, so nothing has to be noted while nobody asks.
    """
    found: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and code.co_varnames:
            owner = frame.f_locals.get(code.co_varnames[0])
            if hasattr(owner, "_modules") and (not found or found[-1] is not owner):
                found.append(owner)
        frame = frame.f_back
    if not found:
        return ""
    path = type(found[-1]).__name__
    for outer, inner in zip(reversed(found), list(reversed(found))[1:], strict=False):
        name = next((n for n, m in outer.named_modules() if m is inner and n), type(inner).__name__)
        path += f".{name}"
    return path
