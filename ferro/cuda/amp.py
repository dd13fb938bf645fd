"""Old names: ``ferro.cuda.amp.autocast(...)`` and ``ferro.cuda.amp.GradScaler(...)``, which warn and, without a GPU, do nothing."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ferro import amp
from ferro.amp import autocast_mode, grad_scaler
from ferro.core import dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _warn(name: str, given: str = "'cuda', args...") -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({given})` instead. There is no GPU: for "
        f"mixed precision on the CPU, `amp.{name}` with 'cpu'.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):
    """``amp.autocast("cuda", ...)``; use ``amp.autocast("cpu")``."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """``amp.GradScaler("cuda", ...)``; use ``amp.GradScaler("cpu")``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: Any = None) -> Callable:
    """``amp.custom_fwd(device_type="cuda")``; use that."""
    _warn("custom_fwd", "args..., device_type='cuda'")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """``amp.custom_bwd(device_type="cuda")``; use that."""
    _warn("custom_bwd", "args..., device_type='cuda'")
    return functools.partial(amp.custom_bwd, device_type="cuda")(bwd)
