"""Levels: one for every run of a function under vmap, with its batch size and the way it draws random numbers."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

# One entry for every level that is running, or of which batched arrays are left: while it is empty, backward need not
# look for them.
ALIVE: list[None] = []
# The levels whose functions are running in this context, outermost first.
RUNNING: ContextVar[tuple[Level, ...]] = ContextVar("ferro_vmap_levels", default=())
_numbers = itertools.count(1)


class Level:
    """One run of a function under vmap.

    number: grows with every level, so an inner one has the greater; begin: the tape's sequence number when it began;
    transform: whether it is one of a program's transforms, or a batch of gradients or tangents that autograd computes at once.
    """

    __slots__ = ("begin", "entered", "number", "randomness", "size", "transform")

    def __init__(self, size: int, randomness: str, begin: int, transform: bool = True) -> None:
        self.transform = transform
        self.number, self.size, self.randomness, self.begin = next(_numbers), size, randomness, begin
        self.entered = ALIVE.append(None)

    def __del__(self, pop: Any = ALIVE.pop) -> None:
        if hasattr(self, "entered"):
            pop()

    def __repr__(self) -> str:
        return f"<vmap level {self.number} of size {self.size}>"


class running_outside:
    """Context manager: inside, code runs as around the function of `level`."""

    __slots__ = ("before", "level")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> None:
        self.before = RUNNING.get()
        RUNNING.set(tuple([level for level in self.before if level is not self.level]))

    def __exit__(self, *exc: object) -> None:
        RUNNING.set(self.before)


class running:
    """Context manager: inside, the function of `level` runs."""

    __slots__ = ("before", "level")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> Level:
        self.before = RUNNING.get()
        RUNNING.set((*self.before, self.level))
        return self.level

    def __exit__(self, *exc: object) -> None:
        RUNNING.set(self.before)
