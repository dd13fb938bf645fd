"""Ranges for NVIDIA's profiler, which this build has not: RuntimeError in PyTorch's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is no GPU. `profiler.record_function` names a part of a program."""
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build? ferro computes on the CPU: "
        "profiler.record_function names a part of a program"
    )


mark = range_end = range_pop = range_push = range_start = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for a block of code: RuntimeError on entry."""
    range_push(msg.format(*args, **kwargs))
    yield
