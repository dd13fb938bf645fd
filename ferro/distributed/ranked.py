"""A script as one rank: its lines begin with the rank, and it finds RANK, WORLD_SIZE and LOCAL_RANK in its environment."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from .group import launched


class Prefixed:
    """A stream whose lines begin with some words; what is left of a line is written when it ends."""

    def __init__(self, stream: Any, words: str) -> None:
        self._stream, self._words, self._line = stream, words, ""

    def write(self, text: str) -> int:
        """Writes the lines that are complete."""
        *lines, self._line = (self._line + text).split("\n")
        if lines:
            self._stream.write("".join([f"{self._words}{line}\n" for line in lines]))
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Lines are written when they end."""

    def close_line(self) -> None:
        """Writes what has no end yet."""
        if self._line:
            self.write("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run(script: Sequence[str]) -> None:
    """Runs a script with its arguments as the rank that mpiexec says."""
    found = launched()
    if found is not None:
        rank, size = found
        os.environ.update(RANK=rank, WORLD_SIZE=size)
        os.environ.setdefault("LOCAL_RANK", rank)
        sys.stdout, sys.stderr = (Prefixed(stream, f"[{rank}] ") for stream in (sys.stdout, sys.stderr))  # type: ignore[assignment]
    sys.argv = list(script)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script[0])))  # noqa: PTH100, PTH120 (as Python itself does)
    try:
        runpy.run_path(script[0], run_name="__main__")
    finally:
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "close_line", bool)()
