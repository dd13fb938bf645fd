"""Hooks for `DistributedDataParallel.register_comm_hook`: 16-bit gradients (default_hooks), and matrices of low rank (powerSGD_hook)."""

from ferro import absent as _absent

from . import default_hooks, powerSGD_hook

__all__ = ["default_hooks", "powerSGD_hook"]

_absent.explain(__name__)
