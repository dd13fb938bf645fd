"""Captures of graphs that run: what their threads do beside computing (drawing random numbers, setting ``.grad``) is told to them.

A capture (ferro/graph/hooks.py) has `notes`, whether the calling thread is its own, and a method for each thing that it is told.
"""

from __future__ import annotations

from typing import Any

CAPTURES: list[Any] = []


def capturing() -> Any:
    """The capture that this thread runs; None if it runs none."""
    return next((capture for capture in CAPTURES if capture.notes()), None)
