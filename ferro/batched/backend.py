"""The module of functions of batched arrays, with all its rules; imported when the first level begins."""

from ferro.batched import (  # (they enter rules)
    elementwise,  # noqa: F401
    indexing,  # noqa: F401
    layers,  # noqa: F401
    losses,  # noqa: F401
    products,  # noqa: F401
    protocol,  # noqa: F401
    questions,  # noqa: F401
    shapes,  # noqa: F401
)
from ferro.batched.rules import functions

__all__ = ["functions"]
