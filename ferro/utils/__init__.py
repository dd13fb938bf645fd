"""Helpers around training: data loading, checkpointing, offloading of what is saved, and hook handles."""

from . import checkpoint, data, hooks, offload

__all__ = ["checkpoint", "data", "hooks", "offload"]
