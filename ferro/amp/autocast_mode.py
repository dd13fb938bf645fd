"""Autocast: products in bfloat16 or float16, losses in float32, within a block."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ferro.autograd.grad_mode import _Context
from ferro.core import dtypes
from ferro.core.backend import accelerator
from ferro.core.base import TensorBase
from ferro.core.casting import asked
from ferro.core.device import device
from ferro.core.mode import changed, push, settle

_DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
_ALLOWED = (dtypes.bfloat16, dtypes.float16)
_CACHE = [True]


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for a type of device; RuntimeError for a type that nobody knows."""
    return _known(device_type) in _DEFAULTS


def _known(device_type: str) -> str:
    try:
        return device(device_type).type
    except RuntimeError as e:
        raise RuntimeError(f"Invalid device string: '{device_type}'; {e}") from None


class autocast(_Context):
    """Inside, products and convolutions run in a smaller dtype and losses in float32; also a decorator.

    - `device_type` (str): "cpu" or "cuda": which tensors are cast; "cuda" without a GPU changes nothing but for a warning
    - `dtype` (dtype, default None): bfloat16 or float16; None is bfloat16 for "cpu", float16 for "cuda"
    - `enabled` (bool, default True): False switches it off inside of another
    - `cache_enabled` (bool, default None): whether a parameter is cast once or at each use

    The dtype of the results says what was done; parameters keep theirs, and gradients come back in it. float64 is left
    alone. As all of ferro's modes it belongs to the context: a thread that is started inside does not have it. Source:
    Micikevicius et al., Mixed Precision Training, 2018.

    Example::

        >>> import ferro
        >>> x, w = ferro.ones(2, 3), ferro.ones(4, 3, requires_grad=True)
        >>> with ferro.autocast("cpu"):
        ...     y = ferro.nn.functional.linear(x, w)
        >>> y.dtype
        ferro.bfloat16
        >>> y.sum().backward()
        >>> w.grad.dtype
        ferro.float32
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"unsupported scalarType: User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type != "cpu" and accelerator() is None:
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in _ALLOWED:
            names, where = ", ".join([str(d).replace("ferro", "torch") for d in _ALLOWED]), device_type.upper()
            warnings.warn(
                f"In {where} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{where} Autocast only supports dtypes of {names} currently. {self.fast_dtype} was asked for.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = _CACHE[0] if cache_enabled is None else cache_enabled
        self.changes = {"cast+": (_known(device_type), self.fast_dtype.np if enabled else None)}

    def __enter__(self) -> autocast:  # type: ignore[override]
        push(self, self.changes)
        return self

    def __call__(self, func: Callable) -> Callable:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as a "
                "context manager? For example:\n    with torch.autocast(device_type=...):\n        output = model(input)"
            )
        return super().__call__(func)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a type of device."""
    return _asked_of(_known(device_type)) is not None


def _asked_of(kind: str) -> Any:
    """The NumPy dtype that is asked for on a type of device, or None."""
    return dict(asked() or ()).get(kind)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The low precision of autocast for a type of device: that in force, or that a block would take."""
    kind = _known(device_type)
    if kind not in _DEFAULTS:
        raise RuntimeError("unsupported scalarType")
    low = _asked_of(kind)
    return _DEFAULTS[kind] if low is None else dtypes.FROM_NUMPY[low]


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switches autocast on or off, from here on, in this context."""
    if is_autocast_available(device_type) and (device_type == "cpu" or accelerator() is not None):
        settle(changed(**{"cast+": (device_type, _DEFAULTS[device_type].np if enabled else None)}))


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Sets the low precision that autocast takes for a type of device unless one is given."""
    if is_autocast_available(device_type):
        _DEFAULTS[device_type] = dtype
        if _asked_of(device_type) is not None:
            settle(changed(**{"cast+": (device_type, dtype.np)}))


def is_autocast_cache_enabled() -> bool:
    """What `set_autocast_cache_enabled` said; ferro casts a parameter anew for each operation, and keeps no copies."""
    return _CACHE[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Accepted for PyTorch's sake: see :func:`is_autocast_cache_enabled`."""
    _CACHE[0] = bool(enabled)


def clear_autocast_cache() -> None:
    """Accepted for PyTorch's sake: there are no copies to forget."""


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: dtypes.dtype | None = None) -> Callable:
    """Decorator of the forward of a custom Function: with `cast_inputs`, it runs without autocast on inputs of that dtype.

    Without, it runs as it is, and `custom_bwd` runs backward in the same way.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type) and cast_inputs is None
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            given = {k: _as(v, cast_inputs) for k, v in kwargs.items()}
            return fwd(ctx, *[_as(v, cast_inputs) for v in args], **given)

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorator of the backward of a custom Function: it runs with or without autocast as forward did."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


def _as(value: Any, dtype: dtypes.dtype) -> Any:
    """Tensors, also those in lists, tuples and dicts, as another floating dtype; float64 and all else as they are."""
    if isinstance(value, TensorBase):
        given: Any = value
        return given.to(dtype) if given.is_floating_point() and given.dtype is not dtypes.float64 else given
    if isinstance(value, dict):
        return {k: _as(v, dtype) for k, v in value.items()}
    return type(value)([_as(v, dtype) for v in value]) if isinstance(value, (list, tuple)) else value
