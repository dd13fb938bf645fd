"""A DistributedDataParallel that is compiled: its module is captured as graphs, and the exchanges between processes go on around them."""

from __future__ import annotations

from typing import Any

from ferro._compiling import Calls, compiled
from ferro.compiler import OptimizedModule

from .distributed import DistributedDataParallel


@compiled.register(DistributedDataParallel)
class OptimizedParallel(OptimizedModule):
    """What `compile` gives for a DistributedDataParallel."""

    def __init__(self, mod: DistributedDataParallel, calls: Calls | None = None) -> None:
        super().__init__(mod, calls)
        if calls is not None:
            calls.fn = mod.module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, hooks included."""
        model: Any = self._orig_mod
        before = model.__dict__.get("_calls")
        model.__dict__["_calls"] = self.__dict__["_calls"]
        try:
            return model(*args, **kwargs)
        finally:
            model.__dict__["_calls"] = before
