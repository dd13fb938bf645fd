"""Helpers around training: data loading and hook handles."""

from . import data, hooks

__all__ = ["data", "hooks"]
