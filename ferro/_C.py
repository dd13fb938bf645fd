"""What libraries ask of PyTorch's C++ part: nothing is traced, and nobody counts which functions are used."""

from __future__ import annotations

from ferro.core.random import Generator
from ferro.overrides import DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunctionSubclass", "Generator"]


def _log_api_usage_once(event: str, /) -> None:
    """PyTorch counts the use of its parts for those who run it; here nothing is counted."""


def _get_tracing_state() -> None:
    """The tracer that is at work: None."""
