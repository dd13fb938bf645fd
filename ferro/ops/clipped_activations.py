"""Activations that are clipped: hardtanh, hardsigmoid and hardswish, and the two shrinkages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.apply import unary
from ferro.core.arguments import need_tensor
from ferro.core.dtypes import largest, type_name
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.samples import Arg, Sample, declare, unary_samples
from ferro.elementwise import elementwise
from ferro.ops.rectifiers import floating, in_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "relu6", "softshrink"]


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).  The slope is 1 between the edges, 0 at and beyond them."""
    return hardtanh(input, 0, 6, inplace)


declare("nn.functional.relu6", [*unary_samples(-4, 10), Sample(Arg(values=[0.0, 6.0, 7.0]), smooth=False)])


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clamped to [min_val, max_val]. The slope is 1 between the edges, 0 at and beyond them.

    - `input` (Tensor): x, any shape, not bool or complex
    - `min_val`, `max_val` (float, default -1.0 and 1.0): the edges
    - `inplace` (bool, default False): writes the result into `input`

    The result has the shape of `input`. ValueError for edges in the wrong order, RuntimeError for bool and complex
    inputs.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.hardtanh(ferro.tensor([-2.0, 0.5, 3.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if inplace:
        return hardtanh_(input, min_val, max_val)
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    dtype = need_tensor("hardtanh", "input", input)._data.dtype
    if dtype.kind in "bc" or (dtype.kind == "u" and min_val < 0):
        raise RuntimeError(
            f"hardtanh: not supported for {input.dtype} with min_val={min_val}; expected a floating-point tensor"
        )
    return unary(HARDTANH, input, (min_val, max_val) if dtype.kind == "f" else in_dtype(dtype, min_val, max_val))


@elementwise(entry="x")
def _hardtanh(xp: Any, x: Any, /, low: float, high: float) -> Any:
    return xp.minimum(xp.maximum(x, low), high)


@elementwise
def _hardtanh_slope(xp: Any, g: Any, x: Any, /, low: float, high: float) -> Any:
    return xp.where((x <= low) | (x >= high), 0, g)


HARDTANH = Op(
    "hardtanh",
    _hardtanh,
    kind=ELEMENTWISE,
    x=_hardtanh_slope,
    samples=[*unary_samples(), Sample(Arg(3, 4), -0.5, 0.25), Sample(Arg(values=[-1.0, 1.0, 0.0]), smooth=False)],
    path="nn.functional.hardtanh",
)
hardtanh_ = in_place(hardtanh)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x relu6(x + 3) / 6.  The slope is 0 up to x = -3, x / 3 + 1/2 up to x = 3, then 1 (at 3 too)."""
    if inplace:
        return hardswish_(input)
    floating("hardswish", input)
    return unary(HARDSWISH, input)


def _gate(xp: Any, x: Any) -> Any:
    return xp.minimum(xp.maximum(x + 3, 0), 6) / 6


@elementwise(entry="x")
def _hardswish(xp: Any, x: Any) -> Any:
    return x * _gate(xp, x)


@elementwise
def _hardswish_slope(xp: Any, g: Any, x: Any) -> Any:
    return xp.where(x <= -3, 0, xp.where(x < 3, g * (x / 3 + 0.5), g))


HARDSWISH = Op(
    "hardswish",
    _hardswish,
    kind=ELEMENTWISE,
    x=_hardswish_slope,
    samples=[*unary_samples(-4, 4), Sample(Arg(values=[-3.0, 3.0, 0.0]), smooth=False)],
    path="nn.functional.hardswish",
)
hardswish_ = in_place(hardswish)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6.  The slope is 1/6 for |x| < 3, else 0 (at the edges too)."""
    if inplace:
        return hardsigmoid_(input)
    floating("hardsigmoid", input)
    return unary(HARDSIGMOID, input)


@elementwise
def _hardsigmoid_slope(xp: Any, g: Any, x: Any) -> Any:
    return xp.where((x > -3) & (x < 3), g / 6, 0)


HARDSIGMOID = Op(
    "hardsigmoid",
    elementwise(_gate, name="hardsigmoid", entry="x"),
    kind=ELEMENTWISE,
    x=_hardsigmoid_slope,
    path="nn.functional.hardsigmoid",
)
# not compared with PyTorch, whose slope in double precision is 1/6 rounded to single precision
declare(
    "nn.functional.hardsigmoid",
    [*unary_samples(-4, 4), Sample(Arg(values=[-3.0, 3.0, 0.0]), smooth=False)],
    reference=lambda x: np.asarray(np.clip(x / 6 + 0.5, 0, 1)),
)
hardsigmoid_ = in_place(hardsigmoid)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x where |x| > lambd, else 0. The slope is [|x| > lambd].

    - `input` (Tensor): any shape, floating
    - `lambd` (float, default 0.5): the edge
    - `out` (Tensor, default None): where to write the result

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.hardshrink(ferro.tensor([-1.0, 0.25]))
        tensor([-1.,  0.])
    """
    floating("hardshrink", input)
    result = unary(HARDSHRINK, input, (lambd,))
    return result if out is None else into("hardshrink", out, result, input)


@elementwise(entry="x")
def _hardshrink(xp: Any, x: Any, /, lambd: float) -> Any:
    return xp.where(abs(x) <= lambd, 0, x)


@elementwise
def _shrink_slope(xp: Any, g: Any, x: Any, /, lambd: float) -> Any:
    return xp.where((x >= -lambd) & (x <= lambd), 0, g)


HARDSHRINK = Op(
    "hardshrink",
    _hardshrink,
    kind=ELEMENTWISE,
    x=_shrink_slope,
    path="nn.functional.hardshrink",
    samples=[*unary_samples(), Sample(Arg(3, 4), 1.0), Sample(Arg(values=[-0.5, 0.5, 0.0]), smooth=False)],
)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards 0 by lambd, 0 where |x| <= lambd. The slope is [|x| > lambd].

    - `input` (Tensor): any shape, floating
    - `lambd` (float, default 0.5): not negative
    - `out` (Tensor, default None): where to write the result

    RuntimeError for a negative lambd.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.softshrink(ferro.tensor([-1.0, 0.25]))
        tensor([-0.5000,  0.0000])
    """
    floating("softshrink", input)
    if not 0 <= lambd < 1e4 and not 0 <= lambd <= largest(input._data.dtype):
        raise RuntimeError(
            f"softshrink: lambda must be in range [0, {largest(input._data.dtype):g}] for input dtype {type_name(input.dtype)}, "
            f"but found {lambd:g}"
        )
    result = unary(SOFTSHRINK, input, (lambd,))
    return result if out is None else into("softshrink", out, result, input)


@elementwise(entry="x")
def _softshrink(xp: Any, x: Any, /, lambd: float) -> Any:
    return x - xp.minimum(xp.maximum(x, -lambd), lambd)


SOFTSHRINK = Op(
    "softshrink",
    _softshrink,
    kind=ELEMENTWISE,
    x=_shrink_slope,
    path="nn.functional.softshrink",
    samples=[*unary_samples(), Sample(Arg(3, 4), 1.0), Sample(Arg(values=[-0.5, 0.5, 0.0]), smooth=False)],
)
