"""Rectifiers: functions that are straight on both sides of a kink, relu and its kin."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import levels_of
from ferro.batched.draws import Draws
from ferro.core import backend
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_low_precision
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, INEXACT
from ferro.core.dtypes import float32 as _float32
from ferro.core.inplace import in_place
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.random import stream_of
from ferro.core.samples import Arg, Sample, declare, singular, unary_samples
from ferro.elementwise import elementwise

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["leaky_relu", "leaky_relu_", "prelu", "relu", "relu_", "rrelu", "rrelu_", "threshold", "threshold_"]


_FLOAT32 = _float32.np


def floating(name: str, *tensors: Any) -> None:
    """Refuses arguments that are no tensors of a real floating dtype."""
    for t in tensors:
        if t is None:
            continue
        try:
            dtype = t._data.dtype
        except AttributeError:
            dtype = need_tensor(name, "input", t)._data.dtype
        if dtype is _FLOAT32:  # (a look into a set of dtypes takes longer)
            continue
        if dtype not in INEXACT or dtype in COMPLEX:
            raise RuntimeError(
                f"{name}: not implemented for dtype {FROM_NUMPY[dtype]}; expected a "
                "real floating-point tensor (cast with .float())"
            )


def in_dtype(dtype: Any, *numbers: float) -> tuple:
    """Numbers that leave the dtype of an array as it is: Python's, whole where it holds integers."""
    return numbers if dtype in INEXACT else tuple(map(int, numbers))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).  d relu x = [x > 0] dx: 0 at the kink x = 0.

    Example::

        >>> import ferro
        >>> ferro.relu(ferro.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """
    if inplace:
        return relu_(input)
    dtype = need_tensor("relu", "input", input)._data.dtype
    if dtype is not _FLOAT32 and dtype.kind in "bc":
        raise RuntimeError(f"relu: {input.dtype} inputs are not supported; expected a floating-point or integer tensor")
    return unary(RELU, input)


@elementwise(entry="x")
def _relu(xp: Any, x: Any) -> Any:
    return xp.maximum(x, 0)


@elementwise(entry="x")
def _relu_slope(xp: Any, g: Any, out: Any) -> Any:
    return xp.where(out <= 0, 0, g)


RELU = Op(
    "relu",
    _relu,
    kind=ELEMENTWISE,
    x=_relu_slope,
    samples=[*unary_samples(), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)],
    path="nn.functional.relu",
)
relu_ = in_place(relu)
singular("relu", "0", Sample(Arg(values=[0.0])), "the left slope, as in PyTorch")


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value. The slope is [x > threshold].

    - `input` (Tensor): x, any shape, not bool or complex
    - `threshold` (float): the edge
    - `value` (float): what stands at and below the edge
    - `inplace` (bool, default False): writes the result into `input`

    The result has the shape of `input`. RuntimeError for bool and complex inputs.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.threshold(ferro.tensor([0.5, 1.5]), 1.0, -7.0)
        tensor([-7.0000,  1.5000])
    """
    if inplace:
        return threshold_(input, threshold, value)
    if need_tensor("threshold", "input", input)._data.dtype.kind in "bc":
        raise RuntimeError(f"threshold: not supported for {input.dtype}; expected a floating-point or integer tensor")
    return unary(THRESHOLD, input, (threshold, *in_dtype(input._data.dtype, value)))


@elementwise
def _threshold(xp: Any, x: Any, /, threshold: float, value: float) -> Any:
    return xp.where(x <= threshold, value, x)


@elementwise
def _threshold_slope(xp: Any, g: Any, x: Any, /, threshold: float) -> Any:
    return xp.where(x <= threshold, 0, g)


THRESHOLD = Op(
    "threshold",
    _threshold,
    kind=ELEMENTWISE,
    x=_threshold_slope,
    samples=[
        Sample(Arg(3, 4), 0.3, -2.0),
        Sample(Arg(), 0.1, 20.0),
        Sample(Arg(0, 2), 0, 1),
        Sample(Arg(values=[0.5, 1.0, 0.2]), 0.5, 0.0, smooth=False),
    ],
    path="nn.functional.threshold",
)
threshold_ = in_place(threshold, expanded=True)  # what it gives, it leaves as it is


def one_sided(name: str, method: Callable, slope: Callable[..., float]) -> Callable:
    """The in-place method of an activation, whose backward PyTorch refuses where the slope below 0 is negative.

    The result, all that PyTorch keeps, does not tell there which inputs were positive.
    """

    def refuse(g: Tensor) -> Tensor:
        raise RuntimeError(
            f"In-place {name} backward calculation is triggered with a negative slope which is not supported. This is caused "
            "by calling in-place forward function with a negative slope, please call out-of-place version instead."
        )

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        if out.requires_grad and slope(*args, **kwargs) < 0:
            out.register_hook(refuse)
        return out

    return checked


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope x. At the kink x = 0 the slope is negative_slope.

    - `input` (Tensor): any shape, floating
    - `negative_slope` (float, default 0.01): the slope on the left
    - `inplace` (bool, default False): writes the result into `input`

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.leaky_relu(ferro.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    if inplace:
        return leaky_relu_(input, negative_slope)
    floating("leaky_relu", input)
    return unary(LEAKY_RELU, input, (negative_slope,))


@elementwise(entry="x")
def _leaky_relu(xp: Any, x: Any, /, slope: float) -> Any:
    return xp.where(x > 0, x, x * slope)


@elementwise
def _leaky_relu_slope(xp: Any, g: Any, x: Any, /, slope: float) -> Any:
    return xp.where(x > 0, g, g * slope)


LEAKY_RELU = Op(
    "leaky_relu",
    _leaky_relu,
    kind=ELEMENTWISE,
    x=_leaky_relu_slope,
    samples=[*unary_samples(), Sample(Arg(3, 4), 0.3), Sample(Arg(values=[-1.0, 0.0, 2.0]), 0.5, smooth=False)],
    path="nn.functional.leaky_relu",
)
leaky_relu_ = one_sided("leakyReLu", in_place(leaky_relu), lambda negative_slope=0.01, inplace=False: negative_slope)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Any = None,
) -> Tensor:
    """leaky_relu with random slopes: x where x > 0, else a x.

    - `input` (Tensor): x, any shape, floating
    - `lower`, `upper` (float, default 0.125 and 1/3): between which a is drawn uniformly, for each element
    - `training` (bool, default False): False takes the mean of the two as a
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. In training the drawn slope belongs to every x <= 0 (0 too, where the slope is
    the derivative). RuntimeError where lower > upper and for dtypes that are not floating. Source: Xu, Wang, Chen and
    Li, Empirical Evaluation of Rectified Activations in Convolutional Network, 2015.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.rrelu(ferro.tensor([-1.0, 2.0]), 0.25, 0.75)
        tensor([-0.5000,  2.0000])
    """
    if inplace:
        return rrelu_(input, lower, upper, training, generator=generator)
    floating("rrelu", input)
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    x = input._data
    slopes = wrap(_slopes(x, lower, upper, stream_of(generator, x)))
    return input * slopes if slopes.dtype is input.dtype else (input.to(slopes.dtype) * slopes).to(input.dtype)


def _slopes(x: Any, lower: float, upper: float, numbers: Any) -> Any:
    """1 where x > 0, elsewhere uniform numbers of [lower, upper], drawn in float64 for these elements alone; at least in float32."""
    wide, d = np.dtype(np.float64), x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.float32)
    lower, upper = float(d.type(lower)), float(d.type(upper))
    if type(x) in backend.DEVICES:
        drawn: Any = wrap(numbers.uniform(x.shape, d, lower, upper))
        return drawn.masked_fill(wrap(x > 0), 1.0)._data
    if type(numbers) is Draws or levels_of(x):  # under vmap every slice has a number for each element
        return np.where(x > 0, 1.0, numbers.uniform(x.shape, wide) * (upper - lower) + lower).astype(d)
    slopes, drawn = np.ones(x.shape, d), ~(x > 0)
    slopes[drawn] = (numbers.uniform((int(np.count_nonzero(drawn)),), wide) * (upper - lower) + lower).astype(d)
    return slopes


declare(
    "nn.functional.rrelu",
    [Sample(Arg(3, 4)), Sample(Arg(5), 0.1, 0.5), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)],
)
rrelu_ = one_sided(
    "leakyReLu",
    in_place(rrelu),
    lambda lower=1 / 8, upper=1 / 3, training=False, inplace=False, generator=None: 0 if training else lower + upper,
)


@in_low_precision
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else w x. At the kink x = 0 the slope in x is w.

    - `input` (Tensor): x, any shape, floating
    - `weight` (Tensor): w, one element, or one for each channel (dimension 1), in the dtype of x

    RuntimeError for another number of weights.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.prelu(ferro.tensor([-1.0, 2.0]), ferro.tensor([0.5]))
        tensor([-0.5000,  2.0000])
    """
    floating("prelu", input, weight)
    shape, n = input._data.shape, weight._data.size
    if weight._data.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._data.ndim}")
    if input._data.dtype is not weight._data.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    if n != 1:
        if not shape:
            raise RuntimeError(f"prelu: Not allow zero-dim input tensor with {n} weights; expected one weight")
        channels = shape[1] if len(shape) > 1 else 1
        if n != channels:
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. Found "
                f"parameter numbers = {n} and channel size = {channels} (input of shape "
                f"{list(shape)})."
            )
    if len(shape) != weight._data.ndim:
        weight = weight.reshape([-1 if d == min(1, len(shape) - 1) else 1 for d in range(len(shape))])
    return apply(PRELU, (input, weight))


PRELU = Op(
    "prelu",
    lambda xp, x, w: xp.prelu(x, w),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, w: xp.where(x > 0, g, g * w),
    w=lambda xp, g, x: xp.where(x > 0, 0, g * x),
    samples=[
        Sample(Arg(3, 4), Arg(1)),
        Sample(Arg(2, 3, 2), Arg(3)),
        Sample(Arg(5), Arg()),
        Sample(Arg(), Arg(1)),
        Sample(Arg(0, 3), Arg(3)),
        Sample(Arg(values=[-1.0, 0.0, 2.0]), Arg(values=[0.25]), smooth=False, twice=False),
    ],
    path="nn.functional.prelu",
)
