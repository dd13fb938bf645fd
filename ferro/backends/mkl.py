"""MKL, Intel's library of linear algebra: whether NumPy, which ferro computes with, was built with it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

__all__ = ["is_available", "verbose"]

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether the products of matrices are MKL's: whether NumPy's are.

    Example::

        >>> import ferro
        >>> ferro.backends.mkl.is_available() in (True, False)
        True
    """
    config = cast("dict[str, Any]", np.show_config(mode="dicts"))
    return "mkl" in str(config.get("Build Dependencies", {}).get("blas", {}).get("name", "")).lower()


class verbose:
    """MKL's messages about its calls: VERBOSE_OFF does nothing, VERBOSE_ON is refused on entry.

    Raises:
        RuntimeError: on entry with VERBOSE_ON; ferro does not reach into NumPy's copy of MKL (MKL_VERBOSE=1 in the
            environment does).
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        if self.enable != VERBOSE_OFF:
            raise RuntimeError(
                "Failed to set MKL into verbose mode. Please consider to disable this verbose scope: ferro does not call MKL "
                "itself; where NumPy does, MKL_VERBOSE=1 in the environment switches its messages on"
            )
        return self

    def __exit__(self, *error: object) -> bool:
        return False
