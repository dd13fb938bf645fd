"""A location in the user's program as observers and debugging tools show it: file, line, function, and the nn module it is in."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ferro.core.provenance import CodeLocation, caller, line_of


class Location(NamedTuple):
    """A location in the user's program, and the path of the nn module whose forward ran there ("" outside of one)."""

    file: str
    line: int
    function: str
    module: str

    def __str__(self) -> str:
        inside = f", in module '{self.module}'" if self.module else ""
        return f"{self.file}:{self.line} in {self.function}{inside}"


def location(modules: bool = True) -> Location:
    """The line of the user's program that led here; with `modules` also the path of the module it is in."""
    return located(caller(), module_path() if modules else "")


def located(location: CodeLocation, module: str = "") -> Location:
    """A location that the tape noted."""
    return Location(location[0].co_filename, line_of(location), location[0].co_name, module)


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
