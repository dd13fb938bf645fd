"""Helpers around training: data loading, checkpointing, offloading of what is saved, and hook handles."""

from . import checkpoint, data, hooks, offload
from .swapping import swap_tensors

__all__ = ["checkpoint", "data", "hooks", "offload", "swap_tensors"]
