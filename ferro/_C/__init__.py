"""What libraries ask of PyTorch's C++ part: nothing is traced, and nobody counts which functions are used."""

from __future__ import annotations

from ferro._C import _functorch, _nn
from ferro._overriding import disabled as _disabled_torch_function_impl
from ferro.core.device import get_default_device
from ferro.core.random import Generator
from ferro.core.transforms import INSIDE
from ferro.overrides import DisableTorchFunctionSubclass
from ferro.tensor import Tensor

__all__ = ["DisableTorchFunctionSubclass", "Generator", "Graph", "_disabled_torch_function_impl", "_functorch", "_nn"]

_TensorMeta = type(Tensor)  # which libraries name in annotations


def _log_api_usage_once(event: str, /) -> None:
    """PyTorch counts the use of its parts for those who run it; here nothing is counted."""


def _get_tracing_state() -> None:
    """The tracer that is at work: None."""


def _are_functorch_transforms_active() -> bool:
    """Whether a function is being transformed (vmap, grad, jvp, ...) in this thread.

    >>> import ferro
    >>> ferro._C._are_functorch_transforms_active()
    False
    """
    return bool(INSIDE.get())


def _get_default_device() -> str:
    """The type of the device of new tensors."""
    return get_default_device().type


class Graph:
    """A traced program, which annotations name: TypeError when one is made."""

    def __init__(self, *args: object) -> None:
        raise TypeError(
            "torch._C.Graph: nothing is traced in ferro. Instead: `debug.graph` shows a computation (docs/names.md)"
        )
