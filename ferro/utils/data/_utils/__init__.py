"""Where programs for PyTorch look for the parts of `utils.data` that have no public name."""

from . import collate, pin_memory

__all__ = ["collate", "pin_memory"]
