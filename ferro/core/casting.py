"""Autocast: which operations run in the low precision that a block asked for, and which in float32 whatever they are given.

The lists are those of PyTorch's CPU.  An operation on neither runs as it is; where dtypes mix, type promotion decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.mode import ACTIVE, MODE, switched
from ferro.core.primitives import CAST

P = ParamSpec("P")
T = TypeVar("T")

LOW = frozenset(
    (
        "addbmm",
        "addmm",
        "baddbmm",
        "bmm",
        "conv",
        "conv_input",
        "conv_transpose",
        "convolution",
        "einsum",
        "linear",
        "linear_map",
        "matmul",
        "mm",
        "scaled_dot_product_attention",
    )
)
FULL = frozenset(
    (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "ctc_loss",
        "huber_loss",
        "l1_loss",
        "mse_loss",
        "nll_loss",
        "prod",
        "smooth_l1_loss",
    )
)
_SINGLE = np.dtype(np.float32)


def cast_inputs(op: Any, xs: tuple, low: Any) -> tuple:
    """The inputs of an operation as it takes them while `low` is asked for; casts are recorded."""
    name = op.name
    if name in LOW:
        return _cast(xs, low)
    return _cast(xs, _SINGLE) if name in FULL else xs


def _cast(xs: Any, dtype: Any) -> tuple:
    """Tensors, also in lists and tuples, as another precision."""
    return tuple(
        [
            backend.apply(CAST, (x,), (dtype,))
            if _differs(x, dtype)
            else type(x)(_cast(x, dtype))
            if type(x) in (list, tuple)
            else x
            for x in xs
        ]
    )


def lowered(*xs: Any) -> tuple:
    """Operands in the low precision that is asked for, if one is."""
    low = asked()
    return xs if low is None else _cast(xs, low)


def _differs(x: Any, dtype: Any) -> bool:
    """Whether something is a tensor of single or half precision, and of another dtype."""
    if not isinstance(x, TensorBase):
        return False
    have = x._data.dtype
    return have is not dtype and have.itemsize <= 4 and FROM_NUMPY[have].is_floating_point


def asked() -> Any:
    """The low precision that is asked for (a NumPy dtype), or None."""
    return mode.cast if ACTIVE and (mode := MODE.get()) is not None else None


def brought_together(one: Any, other: Any) -> bool:
    """Whether autocast gives operands of two NumPy dtypes the same precision."""
    return asked() is not None and all(FROM_NUMPY[d].is_floating_point and d.itemsize <= 4 for d in (one, other))


def in_full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """A function of several operations that takes tensors as float32 where a low precision is asked for."""
    return _taking(function, lambda low: _SINGLE)


def in_low_precision(function: Callable[P, T]) -> Callable[P, T]:
    """A function of several operations that takes tensors in the low precision that is asked for."""
    return _taking(function, lambda low: low)


def _taking(function: Callable[P, T], dtype: Callable) -> Callable[P, T]:
    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        low = asked()
        if low is None:
            return function(*args, **kwargs)
        wanted = dtype(low)
        given = _cast((*args, *kwargs.values()), wanted)
        with switched(cast=None):  # what it is made of runs as it is
            return function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))

    return wrapped
