"""The module of functions of batched arrays, with all its rules; imported when the first level begins."""

from ferro.batched import elementwise, indexing, layers, losses, products, protocol, shapes  # noqa: F401 (they enter rules)
from ferro.batched.rules import functions

__all__ = ["functions"]
