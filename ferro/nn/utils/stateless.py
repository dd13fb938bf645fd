"""functional_call under its older name."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from ferro import func
from ferro.func.modules import exchanged

from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The same as `func.functional_call`; deprecated in PyTorch (FutureWarning)."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version "
        "of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    *,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> AbstractContextManager[None]:
    """A block within which `module` has the given tensors in the place of its parameters and buffers.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.stateless import _reparametrize_module
        >>> layer = ferro.nn.Linear(2, 1, bias=False)
        >>> with _reparametrize_module(layer, {"weight": ferro.tensor([[1.0, 2.0]])}):
        ...     layer(ferro.tensor([3.0, 4.0]))
        tensor([11.])
    """
    return exchanged(module, parameters_and_buffers, tie_weights, strict)
