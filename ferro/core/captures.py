"""Captures of graphs that run: what their threads do beside computing (drawing random numbers, setting ``.grad``) is told to them.

A capture (ferro/graph/hooks.py) has `notes`, whether the calling thread is its own, and a method for each thing that it is told.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

CAPTURES: list[Any] = []


def capturing() -> Any:
    """The capture that this thread runs; None if it runs none."""
    return next((capture for capture in CAPTURES if capture.notes()), None)


def recomputing() -> AbstractContextManager:
    """What a checkpoint runs its function in when it runs it again: a capture marks what is computed inside."""
    capture = capturing() if CAPTURES else None
    return nullcontext() if capture is None else capture.recomputing()
