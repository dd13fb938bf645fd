"""Looking into a program while it runs: where nan comes from, what is kept for backward, what the graph looks like."""

from .graph import Graph, graph
from .locations import locations
from .memory import MemoryReport, memory
from .nan_guard import NonFiniteError, nan_guard

__all__ = ["Graph", "MemoryReport", "NonFiniteError", "graph", "locations", "memory", "nan_guard"]
