"""oneDNN (once MKL-DNN), Intel's library of layers, which ferro does not have: its switches are kept and change nothing."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from ferro.backends.switches import Operation, Precision, Switch, set_for_a_while

if TYPE_CHECKING:
    from contextlib import _GeneratorContextManager

    enabled: bool
    deterministic: bool
    fp32_precision: str

__all__ = ["flags", "is_acl_available", "is_available", "verbose"]

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

matmul, conv, rnn = (Operation("mkldnn", name) for name in ("matmul", "conv", "rnn"))


def is_available() -> bool:
    """Whether ferro computes with oneDNN: never, its convolutions and products are kernels of its own and NumPy's BLAS.

    Example::

        >>> import ferro
        >>> ferro.backends.mkldnn.is_available()
        False
    """
    return False


def is_acl_available() -> bool:
    """Whether oneDNN computes with Arm's Compute Library: never."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> _GeneratorContextManager[None]:
    """The switches for a while, as a context manager or a decorator; `allow_tf32` is for Intel's GPUs and does nothing here.

    Example::

        >>> import ferro
        >>> with ferro.backends.mkldnn.flags(enabled=False):
        ...     print(ferro.backends.mkldnn.enabled)
        False
    """
    return set_for_a_while(
        sys.modules[__name__], enabled=enabled, deterministic=deterministic, fp32_precision=fp32_precision
    )


class verbose:
    """oneDNN's messages about its kernels: VERBOSE_OFF does nothing, any other `level` is refused on entry.

    Raises:
        RuntimeError: on entry with another level, as there is no oneDNN that could speak.
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        if self.level != VERBOSE_OFF:
            raise RuntimeError(
                "Failed to set MKLDNN into verbose mode. Please consider to disable this verbose scope: ferro computes "
                "without oneDNN"
            )
        return self

    def __exit__(self, *error: object) -> bool:
        return False


class _OneDNN(types.ModuleType):
    enabled = Switch("set_enabled_mkldnn")
    deterministic = Switch("set_deterministic_mkldnn", False)
    allow_tf32 = None  # (as in PyTorch without Intel's GPUs)
    fp32_precision = Precision("mkldnn", "all")


sys.modules[__name__].__class__ = _OneDNN
