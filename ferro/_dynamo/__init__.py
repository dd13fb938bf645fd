"""Settings of PyTorch's compiler that programs change (``torch._dynamo.config.suppress_errors = True``): kept, without effect.

They could change nothing, since nothing is compiled.  Names that PyTorch does not have are refused.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ferro._dynamo import eval_frame
from ferro.compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
)
from ferro.core.base import TensorBase

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "eval_frame", "is_compiling",
           "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "reset", "set_stance"]  # fmt: skip


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Tells a compiler that a tensor stays where it is: there is none, and nothing changes."""
    _tensor("mark_static_address", t)


def mark_static(t: Any, index: Any = None) -> None:
    """Tells a compiler that a tensor's size stays: nothing changes."""
    if not isinstance(t, type):
        _tensor("mark_static", t)


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Tells a compiler that a tensor's size along dimensions varies: nothing changes."""
    _tensor("mark_dynamic", t)


def _tensor(name: str, t: Any) -> None:
    if not isinstance(t, TensorBase):
        raise TypeError(f"{name} expects a tensor but received {type(t).__name__}")


class Config(ModuleType):
    """Values by name, importable as a module; a name that is not there cannot be set, as in PyTorch."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(name)
        self.__dict__.update(values, __spec__=ModuleSpec(name, None))
        sys.modules[name] = self

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self.__name__.replace('ferro', 'torch')}.{name} does not exist in ferro, which compiles nothing"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        self.__dict__[name] = value

    @contextlib.contextmanager
    def patch(self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> Iterator[None]:
        """Other values within a block, or within a decorated function."""
        changes = {**({arg1: arg2} if isinstance(arg1, str) else arg1 or {}), **kwargs}
        before = {name: getattr(self, name) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            self.__dict__.update(before)


config = Config(
    "ferro._dynamo.config",
    accumulated_cache_size_limit=256,
    accumulated_recompile_limit=256,
    allow_unspec_int_on_nn_module=False,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    cache_size_limit=8,
    capture_dynamic_output_shape_ops=False,
    capture_scalar_outputs=False,
    compiled_autograd=False,
    disable=False,
    dynamic_shapes=True,
    error_on_recompile=False,
    force_parameter_static_shapes=True,
    guard_nn_modules=True,
    inline_inbuilt_nn_modules=True,
    numpy_default_complex="complex128",
    optimize_ddp=True,
    recompile_limit=8,
    skip_nnmodule_hook_guards=True,
    specialize_float=False,
    specialize_int=False,
    suppress_errors=False,
    trace_numpy=True,
    verbose=False,
)
