"""Copies and casts of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.fusion import evaluate
from ferro.cpu.kernels.conversions import converted
from ferro.cpu.kernels.entries import entry
from ferro.cpu.kernels.strided_copy import assign, copied, join  # noqa: F401 (writes.py takes it from here)
from ferro.cpu.namespace import cpu
from ferro.cpu.thresholds import COPY_LEAST, PROGRAM_LEAST
from ferro.native.workers import helpers

copy = copied


def cast(x: Any, dtype: Any) -> Any:
    """x as dtype; a complex number loses its imaginary part, as in PyTorch."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b" and x.dtype.kind != "b":
        return x != 0
    return converted(x, dtype)


def may_share_memory(x: Any, y: Any) -> bool:
    """Whether two arrays may show the same memory; False only where it is certain that they do not."""
    return np.may_share_memory(x, y)


def _overlaps_itself(x: Any) -> bool:
    """Whether two elements may be one place in memory, of which the last one that is written counts."""
    if x.flags.forc:
        return False
    reach = x.itemsize
    for step, n in sorted([(abs(step), n) for step, n in zip(x.strides, x.shape, strict=True) if n > 1]):
        if step < reach:
            return True
        reach += step * (n - 1)
    return False


@entry("changed number -> none +", "jit_small.fill")
def fill_(x: Any, value: Any) -> None:
    """Writes one number into all elements of x."""
    if x.size >= COPY_LEAST and not _overlaps_itself(x):
        assign((x, value))
    else:
        x.fill(value)


def filled(shape: tuple, dtype: Any, value: Any) -> Any:
    """An array of one number, in half the time of np.full."""
    out = np.empty(shape, dtype)
    cpu.fill_(out, value)
    return out


def write_(x: Any, value: Any) -> None:
    """Writes `value`, broadcast and cast to any dtype, into x; much of one dtype by all threads."""
    if (
        x.size >= COPY_LEAST
        and (helpers() or (type(value) is np.ndarray and value.ndim == 0))
        and type(value) is np.ndarray
        and value.dtype is x.dtype
        and x.flags.writeable
        and not _overlaps_itself(x)
        and not np.may_share_memory(x, value)
    ):
        assign((x, value))
    else:
        np.copyto(x, value, casting="unsafe")


@entry("changed = -> none +", "jit_small.add_into")
def add_(x: Any, value: Any) -> None:
    """Adds `value`, cast to the dtype of x, into x; much by all threads."""
    if x.size < PROGRAM_LEAST or type(value) is not np.ndarray or evaluate(_sum, x, value, out=x) is None:
        np.add(x, value, out=x, casting="unsafe")


def _sum(xp: Any, x: Any, y: Any) -> Any:
    return x + y
