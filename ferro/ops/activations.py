"""Activations: the elementwise functions between the layers of a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.draws import Draws
from ferro.core import backend
from ferro.core.apply import apply, unary
from ferro.core.arguments import into, need_tensor, one_dim
from ferro.core.base import wrap
from ferro.core.casting import in_low_precision
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, INEXACT, largest, type_name
from ferro.core.dtypes import float32 as _float32
from ferro.core.inplace import in_place
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.random import stream_of
from ferro.core.samples import Arg, Sample, declare, singular, unary_samples

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["celu", "celu_", "elu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
           "hardtanh_", "leaky_relu", "leaky_relu_", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu",
           "rrelu_", "selu", "selu_", "silu", "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
           "threshold_"]  # fmt: skip


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


RELU = Op(
    "relu",
    lambda xp, x: xp.relu(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, out: xp.relu_vjp(g, out),
    samples=[*unary_samples(), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)],
    path="nn.functional.relu",
)
relu_ = in_place(relu)
singular("relu", "0", Sample(Arg(values=[0.0])), "the left slope, as in PyTorch")


def relu_vjp(g: Tensor, out: Tensor) -> Tensor:
    """g where out > 0, else 0: the backward of relu, on Tensors."""
    return backend.functional.where(out <= 0, 0, g)


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
    return unary(HARDTANH, input, (min_val, max_val))


def _inside(xp: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    return xp.where((x <= low) | (x >= high), 0, g)


HARDTANH = Op(
    "hardtanh",
    lambda xp, x, /, low, high: xp.hardtanh(x, low, high),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, low, high: xp.once(_inside, g, x, low, high, kernel="hardtanh_vjp"),
    samples=[*unary_samples(), Sample(Arg(3, 4), -0.5, 0.25), Sample(Arg(values=[-1.0, 1.0, 0.0]), smooth=False)],
    path="nn.functional.hardtanh",
)
hardtanh_ = in_place(hardtanh)


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
    return unary(THRESHOLD, input, (threshold, value))


THRESHOLD = Op(
    "threshold",
    lambda xp, x, /, threshold, value: xp.threshold(x, threshold, value),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, threshold: xp.where(x <= threshold, 0, g),
    samples=[
        Sample(Arg(3, 4), 0.3, -2.0),
        Sample(Arg(), 0.1, 20.0),
        Sample(Arg(0, 2), 0, 1),
        Sample(Arg(values=[0.5, 1.0, 0.2]), 0.5, 0.0, smooth=False),
    ],
    path="nn.functional.threshold",
)
threshold_ = in_place(threshold, expanded=True)  # what it gives, it leaves as it is


def _one_sided(name: str, method: Callable, slope: Callable[..., float]) -> Callable:
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


def _left(xp: Any, g: Any, x: Any, slope: Any) -> Any:
    return xp.where(x > 0, g, g * slope)


LEAKY_RELU = Op(
    "leaky_relu",
    lambda xp, x, /, slope: xp.leaky_relu(x, slope),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, slope: xp.once(_left, g, x, slope, kernel="leaky_relu_vjp"),
    samples=[*unary_samples(), Sample(Arg(3, 4), 0.3), Sample(Arg(values=[-1.0, 0.0, 2.0]), 0.5, smooth=False)],
    path="nn.functional.leaky_relu",
)
leaky_relu_ = _one_sided("leakyReLu", in_place(leaky_relu), lambda negative_slope=0.01, inplace=False: negative_slope)


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
    slopes = wrap(_slopes(x, lower, upper, stream_of(generator)))
    return input * slopes if slopes.dtype is input.dtype else (input.to(slopes.dtype) * slopes).to(input.dtype)


def _slopes(x: Any, lower: float, upper: float, numbers: Any) -> Any:
    """1 where x > 0, elsewhere uniform numbers of [lower, upper], drawn in float64 for these elements alone; at least in float32."""
    wide, d = np.dtype(np.float64), x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.float32)
    lower, upper = float(d.type(lower)), float(d.type(upper))
    if type(x) is not np.ndarray or isinstance(numbers, Draws):  # under vmap every slice has a number for each element
        return np.where(x > 0, 1.0, numbers.uniform(x.shape, wide) * (upper - lower) + lower).astype(d)
    slopes, drawn = np.ones(x.shape, d), ~(x > 0)
    slopes[drawn] = (numbers.uniform((int(np.count_nonzero(drawn)),), wide) * (upper - lower) + lower).astype(d)
    return slopes


declare(
    "nn.functional.rrelu",
    [Sample(Arg(3, 4)), Sample(Arg(5), 0.1, 0.5), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)],
)
rrelu_ = _one_sided(
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
    x=lambda xp, g, x, w: xp.once(_left, g, x, w),
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


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha (eˣ - 1). At x = 0 the slope is that of the left branch, alpha.

    - `input` (Tensor): any shape, floating
    - `alpha` (float, default 1.0): minus the limit on the left
    - `inplace` (bool, default False): writes the result into `input`

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.elu(ferro.tensor([-100.0, 2.0]))
        tensor([-1.,  2.])
    """
    if inplace:
        return elu_(input, alpha)
    floating("elu", input)
    return unary(ELU, input, (alpha, 1.0, 1.0))


def _elu_slope(xp: Any, g: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    left = xp.where(x < 0, x, 0)  # keeps exp from overflowing in the branch that is not taken
    return xp.where(x <= 0, g * xp.exp(left * input_scale) * (alpha * scale * input_scale), g * scale)


ELU = Op(
    "elu",
    lambda xp, x, /, alpha, scale, input_scale: xp.elu(x, alpha, scale, input_scale),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, alpha, scale, input_scale: xp.once(
        _elu_slope, g, x, alpha, scale, input_scale, kernel="elu_vjp"
    ),
    weight=2.0,
    path="nn.functional.elu",
    samples=[*unary_samples(), Sample(Arg(3, 4), 0.3), Sample(Arg(values=[-1.0, 0.0, 2.0]), 2.0, smooth=False)],
)
elu_ = _one_sided("elu", in_place(elu), lambda alpha=1.0, inplace=False: alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled elu whose activations keep mean 0 and variance 1 (Klambauer et al. 2017, Self-Normalizing Neural
    Networks).
    """
    if inplace:
        return selu_(input)
    floating("selu", input)
    return unary(ELU, input, (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0))


declare("nn.functional.selu", [*unary_samples(), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)])
selu_ = in_place(selu)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0): an elu with a continuous slope (1 at x = 0).

    - `input` (Tensor): any shape, floating
    - `alpha` (float, default 1.0): minus the limit on the left, not 0
    - `inplace` (bool, default False): writes the result into `input`

    RuntimeError for alpha = 0.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.celu(ferro.tensor([-100.0, 2.0]), alpha=3.0)
        tensor([-3.,  2.])
    """
    if inplace:
        return celu_(input, alpha)
    floating("celu", input)
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    return unary(ELU, input, (alpha, 1.0, 1.0 / alpha))


declare(
    "nn.functional.celu", [*unary_samples(), Sample(Arg(3, 4), 0.5), Sample(Arg(values=[-1.0, 0.0, 2.0]), smooth=False)]
)
celu_ = _one_sided("elu", in_place(celu), lambda alpha=1.0, inplace=False: alpha)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """x Φ(x) with the normal distribution function Φ, or its approximation by tanh. d gelu = (Φ(x) + x φ(x)) dx.

    - `input` (Tensor): any shape, floating
    - `approximate` (str, default "none"): "none" or "tanh"

    RuntimeError for another approximation. Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, sections 2
    and 4.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.gelu(ferro.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    floating("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh. Got {approximate!r}")
    return unary(GELU, input, (approximate,))


GELU = Op(
    "gelu",
    lambda xp, x, /, approximate: xp.gelu(x, approximate),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, approximate: xp.gelu_vjp(g, x, approximate),
    weight=5.0,
    path="nn.functional.gelu",
    samples=[
        *unary_samples(-4, 4, -10.0, 0.0, 10.0),
        Sample(Arg(3, 4), approximate="tanh"),
        Sample(Arg(values=[-10.0, 0.0, 9.0]), approximate="tanh"),
    ],
)


def gelu_vjp(g: Tensor, x: Tensor, approximate: str) -> Tensor:
    """g times the slope of gelu at x: the backward of gelu, on Tensors."""
    F = backend.functional
    x = F.clamp(x, -40, 40)  # beyond, the slope is 0 or 1
    square = x * x
    if approximate == "tanh":
        t = F.tanh(x * (1 + square * 0.044715) * 0.7978845608028654)
        return g * 0.5 * ((1 + t) + x * (1 - t * t) * (1 + square * (3 * 0.044715)) * 0.7978845608028654)
    return g * (0.5 * (1 + F.erf(x * 0.7071067811865476)) + x * F.exp(square * -0.5) * 0.3989422804014327)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), also called swish.  d silu = s (1 + x (1 - s)) dx with s = sigmoid(x)."""
    if inplace:
        return silu_(input)
    if need_tensor("silu", "input", input)._data.dtype not in INEXACT:
        raise RuntimeError(
            f"silu: not implemented for dtype {input.dtype}; expected a floating-point tensor (cast with .float())"
        )
    return unary(SILU, input)


SILU = Op(
    "silu",
    lambda xp, x: xp.silu(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.silu_vjp(g, x),
    weight=4.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    path="nn.functional.silu",
)
silu_ = in_place(silu)


def silu_vjp(g: Tensor, x: Tensor) -> Tensor:
    """g times the (conjugate) slope of silu at x: the backward of silu, on Tensors."""
    F = backend.functional
    s = F.sigmoid(x)
    near = x if x._data.dtype in COMPLEX else F.clamp(x, -800, 800)  # beyond, the slope is 0 or 1
    return g * (s + near * s * (1 - s)).conj()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)).  d mish = (t + x sigmoid(x) (1 - t^2)) dx with t = tanh(softplus(x))."""
    if inplace:
        return mish_(input)
    floating("mish", input)
    return unary(MISH, input)


def mish_vjp(g: Tensor, x: Tensor) -> Tensor:
    """g times the slope of mish at x: the backward of mish, on Tensors."""
    F = backend.functional
    x = F.clamp(x, -800, 40)  # beyond, the slope is 0 or 1
    t = F.tanh(softplus(x, 1.0, 20.0))
    return g * (t + x * F.sigmoid(x) * (1 - t * t))


MISH = Op(
    "mish",
    lambda xp, x: xp.mish(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.mish_vjp(g, x),
    weight=6.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    path="nn.functional.mish",
)
mish_ = in_place(mish)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """log(1 + e^(beta x)) / beta, without overflow: a smooth relu. d softplus = sigmoid(beta x) dx.

    - `input` (Tensor): x, any shape, floating
    - `beta` (float, default 1): how sharp the bend is
    - `threshold` (float, default 20): where beta x is larger, the result is x itself (slope 1 there)
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for dtypes that are not floating.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.softplus(ferro.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """
    floating("softplus", input)
    result = unary(SOFTPLUS, input, (beta, threshold))
    return result if out is None else into("softplus", out, result, input)


SOFTPLUS = Op(
    "softplus",
    lambda xp, x, /, beta, threshold: xp.softplus(x, beta, threshold),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, beta, threshold: xp.softplus_vjp(g, x, beta, threshold),
    weight=4.0,
    path="nn.functional.softplus",
    samples=[
        *unary_samples(-4, 4, -100.0, 0.0, 100.0),
        Sample(Arg(3, 4), 2.0),
        Sample(Arg(3, 4, low=-4, high=4), 1.0, 1.0),
        Sample(Arg(values=[2.0, 0.5, 3.0]), 1.0, 2.0, smooth=False),
    ],
)


def softplus_vjp(g: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    """g times the slope of softplus at x: the backward of softplus, on Tensors.  Its own slope is 0 from the threshold
    on.
    """
    F = backend.functional
    scaled = x * beta
    return F.where(scaled > threshold, g, g * F.sigmoid(F.where(scaled >= threshold, threshold, scaled)))


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow.  d logsigmoid = sigmoid(-x) dx."""
    floating("logsigmoid", input)
    return unary(LOGSIGMOID, input)


LOGSIGMOID = Op(
    "logsigmoid",
    lambda xp, x: xp.logsigmoid(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.softplus_vjp(g, x, -1.0, 1e30),  # g sigmoid(-x), in one pass
    weight=4.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    path="nn.functional.logsigmoid",
    layout=ITERATED,
)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x relu6(x + 3) / 6.  The slope is 0 up to x = -3, x / 3 + 1/2 up to x = 3, then 1 (at 3 too)."""
    if inplace:
        return hardswish_(input)
    floating("hardswish", input)
    return unary(HARDSWISH, input)


def _hardswish_slope(xp: Any, g: Any, x: Any) -> Any:
    return xp.where(x <= -3, 0, xp.where(x < 3, g * (x / 3 + 0.5), g))


HARDSWISH = Op(
    "hardswish",
    lambda xp, x: xp.hardswish(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.once(_hardswish_slope, g, x, kernel="hardswish_vjp"),
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


def _hardsigmoid_slope(xp: Any, g: Any, x: Any) -> Any:
    return xp.where((x > -3) & (x < 3), g / 6, 0)


HARDSIGMOID = Op(
    "hardsigmoid",
    lambda xp, x: xp.hardsigmoid(x),
    kind=ELEMENTWISE,
    x=lambda xp, g, x: xp.once(_hardsigmoid_slope, g, x, kernel="hardsigmoid_vjp"),
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


def _outside(xp: Any, g: Any, x: Any, lambd: float) -> Any:
    return xp.where((x >= -lambd) & (x <= lambd), 0, g)


HARDSHRINK = Op(
    "hardshrink",
    lambda xp, x, /, lambd: xp.hardshrink(x, lambd),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, lambd: xp.once(_outside, g, x, lambd, kernel="shrink_vjp"),
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


SOFTSHRINK = Op(
    "softshrink",
    lambda xp, x, /, lambd: xp.softshrink(x, lambd),
    kind=ELEMENTWISE,
    x=lambda xp, g, x, lambd: xp.once(_outside, g, x, lambd, kernel="shrink_vjp"),
    path="nn.functional.softshrink",
    samples=[*unary_samples(), Sample(Arg(3, 4), 1.0), Sample(Arg(values=[-0.5, 0.5, 0.0]), smooth=False)],
)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh x."""
    return input - input.tanh()


declare("nn.functional.tanhshrink", unary_samples(-3, 3), complex=True)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


declare("nn.functional.softsign", unary_samples(-3, 3, 0.0, smooth=False), complex=True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a sigmoid(b), where a and b are the halves of the input along `dim` (Dauphin et al. 2017, Gated Convolutional
    Networks).
    """
    floating("glu", input)
    if input._data.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    dim = one_dim("glu", input._data.ndim, dim)
    size = input._data.shape[dim]
    if size % 2:
        raise RuntimeError(f"glu: Halving dimension must be even, but dimension {dim} is size {size}")
    return input.narrow(dim, 0, size // 2) * input.narrow(dim, size // 2, size // 2).sigmoid()


declare(
    "nn.functional.glu",
    [Sample(Arg(4)), Sample(Arg(3, 4)), Sample(Arg(4, 3), 0), Sample(Arg(2, 2, 3), 1), Sample(Arg(0, 2))],
)


class ActivationMethods:
    """Methods of Tensor."""

    __slots__ = ()
    relu = relu
    relu_ = relu_
    hardshrink = hardshrink
    prelu = prelu
