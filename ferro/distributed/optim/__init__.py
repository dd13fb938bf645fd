"""Optimisers whose state is divided among the ranks."""

from ferro import absent as _absent

from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]

_absent.explain(__name__)
