"""Errors of graphs."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A function does what a graph cannot hold: Python asks for a number, say. Names the line and what to do instead."""


class ChangedError(ValueError):
    """A replay met other numbers than those that its graph was captured for, where they say how arrays are divided."""


class ShapeError(ValueError):
    """A replay gives an array of another shape than the capture: it depends on the data."""


class GraphFormatError(ValueError):
    """A text or file is no graph: damaged, foreign, or made by a newer version."""


class PassError(RuntimeError):
    """A pass broke a graph, which `optimise` found in its debug mode."""


class PlanError(RuntimeError):
    """A memory plan would let two arrays share memory that live at the same time, which `verify` found."""
