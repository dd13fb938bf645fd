"""Tensors without data that PyTorch's compiler passes around: there are none, so that nothing is one."""

from ferro._subclasses import fake_tensor

__all__ = ["fake_tensor"]
