"""Declarations of programs, and what they compute with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import ferro

Program = Callable[[Callable], Iterator[Any]]


class Case(NamedTuple):
    """A program, and whether its function is replayed (how often it is captured) or runs as written (why)."""

    program: Program
    captures: int
    why: str | None


CASES: dict[str, Case] = {}


def replayed(captures: int = 1) -> Callable[[Program], Program]:
    """Registers a program whose last calls are replays, after so many captures."""

    def register(program: Program) -> Program:
        CASES[program.__name__] = Case(program, captures, None)
        return program

    return register


def as_written(why: str) -> Callable[[Program], Program]:
    """Registers a program that no graph holds, and what the warning says of it."""

    def register(program: Program) -> Program:
        CASES[program.__name__] = Case(program, 0, why)
        return program

    return register


def numbers(*shape: int, seed: int = 0) -> Any:
    """Numbers between -1 and 1."""
    return ferro.from_numpy(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))


def leaf(*shape: int, seed: int = 0) -> Any:
    """The same, requiring a gradient."""
    return numbers(*shape, seed=seed).requires_grad_()
