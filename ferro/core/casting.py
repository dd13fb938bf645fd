"""Autocast: which operations run in the low precision that a block asked for, and which in float32 whatever they are given.

The lists are PyTorch's, one for the CPU and one for "cuda".  An operation on neither runs as it is; where dtypes mix, type promotion
decides.  A block asks for the tensors of one type of device: precisions are pairs of that and a NumPy dtype.
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
# On a GPU float16 is the rule, whose range exponentials, powers and sums leave soon.
FULL_ON_CUDA = FULL | frozenset(
    (
        "acos",
        "asin",
        "cosh",
        "cumprod",
        "cumsum",
        "erfinv",
        "exp",
        "expm1",
        "group_norm",
        "layer_norm",
        "linalg.vector_norm",
        "log",
        "log10",
        "log1p",
        "log2",
        "log_softmax",
        "norm_at_least",
        "pow",
        "pow_number",
        "reciprocal",
        "rsqrt",
        "sinh",
        "softmax",
        "softplus",
        "sum",
        "tan",
    )
)
_FULL = {"cpu": FULL, "cuda": FULL_ON_CUDA}
_SINGLE = np.dtype(np.float32)


def cast_inputs(op: Any, xs: tuple, casts: tuple) -> tuple:
    """The inputs of an operation as it takes them while these precisions are asked for; casts are recorded."""
    wanted = _wanted(op.name, casts)
    return _cast(xs, wanted) if wanted else xs


@functools.cache
def _wanted(name: str, casts: tuple) -> dict[str, Any]:
    """The dtypes that an operation takes, by type of device."""
    if name in LOW:
        return dict(casts)
    return {device: _SINGLE for device, _ in casts if name in _FULL[device]}


def _cast(xs: Any, wanted: dict[str, Any]) -> tuple:
    """Tensors, also in lists and tuples, in the precisions that are wanted on their devices."""
    return tuple([_cast_one(x, wanted) for x in xs])


def _cast_one(x: Any, wanted: dict[str, Any]) -> Any:
    if type(x) in (list, tuple):
        return type(x)(_cast(x, wanted))
    if not isinstance(x, TensorBase):
        return x
    have, dtype = x._data.dtype, wanted.get(backend.device_of(x._data).type)
    if dtype is None or have is dtype or have.itemsize > 4 or not FROM_NUMPY[have].is_floating_point:
        return x
    return backend.apply(CAST, (x,), (dtype,))


def lowered(*xs: Any) -> tuple:
    """Operands in the low precision that is asked for, if one is."""
    casts = asked()
    return xs if casts is None else _cast(xs, dict(casts))


def asked() -> tuple | None:
    """The low precisions that are asked for, pairs of a type of device and a NumPy dtype; None if there are none."""
    return mode.cast if ACTIVE and (mode := MODE.get()) is not None else None


def brought_together(one: Any, other: Any) -> bool:
    """Whether autocast gives operands of two NumPy dtypes the same precision."""
    return asked() is not None and all(FROM_NUMPY[d].is_floating_point and d.itemsize <= 4 for d in (one, other))


def in_full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """A function of several operations that takes tensors as float32 where a low precision is asked for."""
    return _taking(function, lambda casts: dict.fromkeys([device for device, _ in casts], _SINGLE))


def in_low_precision(function: Callable[P, T]) -> Callable[P, T]:
    """A function of several operations that takes tensors in the low precision that is asked for."""
    return _taking(function, dict)


def _taking(function: Callable[P, T], wanted: Callable) -> Callable[P, T]:
    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        casts = asked()
        if casts is None:
            return function(*args, **kwargs)
        given = _cast((*args, *kwargs.values()), wanted(casts))
        with switched(cast=None):  # what it is made of runs as it is
            return function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))

    return wrapped
