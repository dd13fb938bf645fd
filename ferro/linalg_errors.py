"""LinAlgError: the error for a matrix that an algorithm of linear algebra cannot handle."""

from __future__ import annotations

from typing import Any

import numpy as np


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or an iteration does not converge: `ferro.linalg.LinAlgError`."""


def raise_first(name: str, info: Any, message: str, error: type[Exception] = LinAlgError) -> None:
    """Raises for the first matrix whose LAPACK `info` is not 0; `{i}` in the message is that number.

    In a batch the error names the matrix: its number if there is one batch dimension, else its index.
    """
    if np.count_nonzero(info):
        where = tuple(np.argwhere(info)[0].tolist())
        batch = "" if not where else f"(Batch element {where[0] if len(where) == 1 else where}): "
        raise error(f"{name}: {batch}{message.format(i=int(info[where]))}") from None


class Refused(Exception):
    """What an operation without an output for `info` raises; its caller knows the words for it."""

    def __init__(self, info: Any):
        super().__init__()
        self.info = info


def accepted(info: Any) -> None:
    """Raises `Refused` unless LAPACK has accepted all matrices."""
    if np.count_nonzero(info):
        raise Refused(info)
