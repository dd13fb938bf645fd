"""The functions of torch.nn.functional, family by family."""

from ferro.ops.einsum import bilinear
from ferro.ops.products import linear

__all__ = [name for name in dir() if not name.startswith("_")]
