"""Values kept within limits: clamp and its one-sided forms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.inplace import in_place
from ferro.core.into import applied_into, into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import constant, operands, promote
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.core.writes import FLOATS
from ferro.elementwise import elementwise
from ferro.ops.comparison import NAN

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_"]


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """min(max(x, lower), upper): x kept between two bounds.

    - `input` (Tensor): x, any shape, not complex
    - `min`, `max` (Tensor or number, default None): lower and upper, one of which may be None; where lower > upper, the
      result is upper
    - `out` (Tensor, default None): where to write the result

    The result has the broadcast shape; nan stays nan. The cotangent passes where lower ≤ x ≤ upper, edges included; a
    tensor bound gets it where it was taken. RuntimeError for no bound, NotImplementedError for complex tensors.

    Example::

        >>> import ferro
        >>> ferro.tensor([-2.0, 0.5, 3.0]).clamp(-1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    dtype = need_tensor("clamp", "input", input)._data.dtype
    if type(min) in PLAIN and type(max) in PLAIN and min is not max and dtype in REAL:  # the frequent case
        op, params = _between(min, max, dtype)
        return unary(op, input, params) if out is None else applied_into("clamp", out, op, (input,), params)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    for v in (input, min, max):
        if isinstance(v, complex) or (isinstance(v, TensorBase) and v._data.dtype.kind == "c"):
            raise NotImplementedError("clamp is not supported for complex types: complex numbers have no order")
    if any(isinstance(b, TensorBase) for b in (min, max)):
        given = operands("clamp", *[t for t in (input, min, max) if t is not None])
        x, *bounds = promote(*given)
        low = bounds.pop(0) if min is not None else None
        result = apply(CLAMP_TENSOR, (x, low, bounds[0] if bounds else None))
    else:
        x, dtype = input, dtypes.result_np([input._data, *[b for b in (min, max) if b is not None]])
        if dtype is not x._data.dtype:
            x = apply(CAST, (x,), (dtype,))
        result = unary(CLAMP, x, tuple([None if b is None else constant(b, dtype)._data for b in (min, max)]))
    return result if out is None else into("clamp", out, result, input)


def _between(low: Any, high: Any, dtype: Any) -> tuple:
    """The operation that keeps real numbers between two bounds, numbers of which one may be None, and its parameters."""
    if dtype in FLOATS and not any(b is not None and math.isnan(b) for b in (low, high)):  # (nan goes into the result)
        if low is None:
            return AT_MOST, (float(high),)
        return (AT_LEAST, (float(low),)) if high is None else (BETWEEN, (float(low), float(high)))
    return CLAMP, _bounds(low, high, dtype)


def _clamp_in_place(self: Any, min: Any = None, max: Any = None) -> tuple | None:
    """What `clamp_` applies to floats."""
    if type(min) not in PLAIN or type(max) not in PLAIN or min is max:
        return None
    op, params = _between(min, max, self._data.dtype)
    return op, (self,), params


def _bounds(low: Any, high: Any, dtype: Any) -> tuple:
    """Two bounds as 0-d arrays, kept for the next use as those of `constant` are."""
    key = (low, high, dtype.num)
    found = _kept.get(key) if low != 0 != high else None  # 0.0 and -0.0 would be equal keys
    if found is None:
        if len(_kept) > 1024:
            _kept.clear()
        found = _kept[key] = tuple([None if b is None else constant(b, dtype)._data for b in (low, high)])
    return found


_kept: dict[tuple, tuple] = {}
PLAIN = (float, int, type(None))
REAL = dtypes.INEXACT - dtypes.COMPLEX


def _inside(x: Any, low: Any, high: Any) -> Any:
    """Where low ≤ x ≤ high."""
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


def _clamp_low(xp: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    taken = x < low if high is None else (x < low) & (low < high)
    return xp.where(taken, g, 0.0)


def _clamp_high(xp: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    taken = x > high if low is None else (x > high) | (high < low)
    return xp.where(taken, g, 0.0)


CLAMP = Op(
    "clamp",
    lambda xp, x, /, low, high: xp.clamp(x, low, high),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, low, high: xp.where(_inside(x, number(low), number(high)), g, 0.0),
    samples=[
        Sample(Arg(3, 4), -1, 1.5),
        Sample(Arg(3), min=0.5),
        Sample(Arg(3), max=0.5),
        Sample(Arg(3), 1, -1),
        Sample(Arg(0), 0),
        Sample(Arg(values=[-1.0, 0.0, 0.5, 1.0, 2.0, NAN]), 0.0, 1.0, smooth=False),
        Sample(Arg(3, 4), Arg(4, high=0), Arg(3, 1, low=0.5)),
        Sample(Arg(3, 4), min=Arg(4)),
        Sample(Arg(3), max=Arg(3)),
        Sample(
            Arg(values=[1.0, 2.0, 3.0, 0.0]),
            Arg(values=[1.0, 3.0, 2.0, 1.0]),
            Arg(values=[1.0, 2.0, 2.0, 3.0]),
            smooth=False,
        ),
    ],
)
CLAMP_TENSOR = Op(
    "clamp_tensor",
    lambda xp, x, low, high: xp.clamp(x, low, high),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, low, high: xp.where(_inside(x, low, high), g, 0.0),
    low=_clamp_low,
    high=_clamp_high,
)
singular("clamp", "at a limit", Sample(Arg(values=[0.0, 1.0]), 0.0, 1.0), "the side on which clamp is the identity")
singular("clamp", "min > max", Sample(Arg(values=[0.5]), 1.0, 0.0), "the result is max, whatever x")


@elementwise(entry="x")
def _at_least(xp: Any, x: Any, /, low: float) -> Any:
    return xp.maximum(x, low)


@elementwise(entry="x")
def _at_most(xp: Any, x: Any, /, high: float) -> Any:
    return xp.minimum(x, high)


@elementwise(entry="x")
def _between_bounds(xp: Any, x: Any, /, low: float, high: float) -> Any:
    return xp.minimum(xp.maximum(x, low), high)


@elementwise(entry="x")
def _at_least_slope(xp: Any, g: Any, x: Any, /, low: float) -> Any:
    return xp.where(x >= low, g, 0)


@elementwise(entry="x")
def _at_most_slope(xp: Any, g: Any, x: Any, /, high: float) -> Any:
    return xp.where(x <= high, g, 0)


@elementwise(entry="x")
def _between_bounds_slope(xp: Any, g: Any, x: Any, /, low: float, high: float) -> Any:
    return xp.where((x >= low) & (x <= high), g, 0)


# Floats between numbers: `clamp` has their samples.
AT_LEAST = Op("clamp_at_least", _at_least, kind=ELEMENTWISE, x=_at_least_slope)
AT_MOST = Op("clamp_at_most", _at_most, kind=ELEMENTWISE, x=_at_most_slope)
BETWEEN = Op("clamp_between", _between_bounds, kind=ELEMENTWISE, x=_between_bounds_slope)
AT_LEAST.backward_name = AT_MOST.backward_name = BETWEEN.backward_name = "ClampBackward0"  # that of `clamp`


def number(bound: Any) -> Any:
    """The Python number in a 0-d array."""
    return None if bound is None else bound.item()


def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """max(x, min)."""
    return into("clamp_min", out, clamp(input, min, None), input, min)


def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """min(x, max)."""
    return into("clamp_max", out, clamp(input, None, max), input, max)


for _name in ("clamp_min", "clamp_max"):
    declare(
        _name,
        [Sample(Arg(3, 4), 0.5), Sample(Arg(3, 4), Arg(4)), Sample(Arg(values=[0.0, 1.0, NAN]), 0.0, smooth=False)],
    )

clip = clamp

# In-place forms that torch has as functions too.
clamp_ = in_place(clamp, applied=_clamp_in_place)
clamp_max_ = in_place(clamp_max, applied=lambda self, max: _clamp_in_place(self, None, max))
clamp_min_ = in_place(clamp_min, applied=lambda self, min: _clamp_in_place(self, min))
clip_ = clamp_


class ClampMethods:
    """Methods of Tensor."""

    __slots__ = ()
    clamp, clip, clamp_min, clamp_max = clamp, clamp, clamp_min, clamp_max
    clamp_ = clip_ = clamp_
    clamp_min_, clamp_max_ = clamp_min_, clamp_max_
