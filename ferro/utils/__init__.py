"""Helpers around training: data loading, checkpointing, offloading of what is saved, and hook handles."""

from . import _pytree, checkpoint, data, deterministic, dlpack, hooks, offload
from .swapping import swap_tensors

__all__ = ["checkpoint", "data", "deterministic", "dlpack", "hooks", "offload", "swap_tensors"]
