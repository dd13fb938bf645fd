"""ferro.signal: signal processing under PyTorch's names."""

from ferro.signal import windows

__all__ = ["windows"]
