"""Where older programs find the class of compiled modules."""

from ferro.compiler import OptimizedModule

__all__ = ["OptimizedModule"]
