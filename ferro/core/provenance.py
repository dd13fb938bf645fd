"""Where in the user's program something happened: noted in passing, and put into words when an error asks for it.

Note [Provenance].  A location is a code object and the offset of an instruction in it: two attributes of a frame, read in
some ten nanoseconds, that hold on to nothing of the user's. File, line and source text are looked up when an error has
to be explained. Noted are: for a node that saves values, where its operation ran; for a change in place, where and
through which view; for a freed graph, which backward freed it; for a tensor that lost its history, where and why.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
from collections import deque
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

CodeLocation = tuple[CodeType, int]

_PACKAGE = f"{Path(__file__).resolve().parent.parent}/"
_EXAMPLES = f"{_PACKAGE}examples/"  # written like a user's program, so shown like one

OUTSIDE: set[str] = set()  # files met so far that belong to the user's program
_INSIDE = {
    contextlib.__file__,
    functools.__file__,
}  # and those that do not: these two may stand between it and the library


def outermost(frame: FrameType) -> FrameType:
    """The innermost frame of the user's program at or below `frame`."""
    while (file := frame.f_code.co_filename) not in OUTSIDE:
        if file in _INSIDE:
            back = frame.f_back
            if back is None:
                break
            frame = back
        else:
            inside = file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)
            (_INSIDE if inside else OUTSIDE).add(file)
    return frame


def caller(depth: int = 1) -> CodeLocation:
    """The location in the user's program that led here (`depth`: how many frames above are known to be the library's)."""
    try:
        frame = sys._getframe(depth)
    except ValueError:  # the operation itself is the bottom of the stack
        frame = sys._getframe(1)
    if frame.f_code.co_filename not in OUTSIDE:
        frame = outermost(frame)
    return frame.f_code, frame.f_lasti


def line_of(location: CodeLocation) -> int:
    """The line number of a location."""
    code, offset = location
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def described(location: CodeLocation | None) -> str:
    """A location for people: file, line, function and what stands there; "" if it is not known."""
    if location is None:
        return ""
    code, line = location[0], line_of(location)
    text = linecache.getline(code.co_filename, line).strip()
    function = "" if code.co_name == "<module>" else f" in {code.co_name}"
    return f"{code.co_filename}:{line}{function}" + (f" (`{text}`)" if text else "")


def at(location: CodeLocation | None) -> str:
    """The same as the end of a clause."""
    return f" at {described(location)}" if location is not None else ""


# What left the tape as numbers, the latest last: a tensor made of them later bears no trace of where they came from.
departures: deque[tuple[str, Any]] = deque(maxlen=4)


def departed(how: str) -> None:
    """Notes that values of a tensor with a history left the tape as numbers."""
    departures.append((how, caller(2)))
