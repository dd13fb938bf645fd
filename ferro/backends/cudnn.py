"""cuDNN, NVIDIA's library of layers, which ferro does not have: its switches are kept and change nothing."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from ferro.backends.switches import AllowTF32, Operation, Precision, Switch, set_for_a_while

if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager

    enabled: bool
    benchmark: bool
    benchmark_limit: int | None
    deterministic: bool
    allow_tf32: bool
    fp32_precision: str

__all__ = ["flags", "is_acceptable", "is_available", "version"]

conv, rnn = Operation("cuda", "conv"), Operation("cuda", "rnn")


def is_available() -> bool:
    """Whether ferro computes with cuDNN: never.

    Example::

        >>> import ferro
        >>> ferro.backends.cudnn.is_available()
        False
    """
    return False


def version() -> int | None:
    """The version of cuDNN: None, for there is none."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would compute with this tensor: it computes on GPUs, so never."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> _GeneratorContextManager[None]:
    """The switches for a while, as a context manager or a decorator; None leaves one as it is.

    Example::

        >>> import ferro
        >>> with ferro.backends.cudnn.flags(enabled=False):
        ...     print(ferro.backends.cudnn.enabled)
        False
    """
    return set_for_a_while(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        deterministic=deterministic,
        fp32_precision=fp32_precision,
        allow_tf32=allow_tf32,
    )


class _CuDNN(types.ModuleType):
    enabled = Switch("set_enabled_cudnn")
    benchmark = Switch("set_benchmark_cudnn", False)
    benchmark_limit = None  # (as in PyTorch without cuDNN)
    deterministic = Switch("set_deterministic_cudnn", False)
    allow_tf32 = AllowTF32("set_allow_tf32_cublas", "cuda", "conv", "rnn")
    fp32_precision = Precision("cuda", "all")


sys.modules[__name__].__class__ = _CuDNN
