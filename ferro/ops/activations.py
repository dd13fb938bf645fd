"""Smooth activations: elu, gelu, silu, mish, softplus and their kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.dtypes import COMPLEX, INEXACT
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.layout import ITERATED
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.samples import Arg, Sample, declare, unary_samples
from ferro.elementwise import elementwise
from ferro.ops.clipped_activations import hardshrink
from ferro.ops.rectifiers import floating, one_sided, prelu, relu, relu_

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "logsigmoid",
    "mish",
    "selu",
    "selu_",
    "silu",
    "softplus",
    "softsign",
    "tanhshrink",
]


_NORMAL = 0.3989422804014327  # 1 / √(2 π)
_ROOT_TWO_OVER_PI = 0.7978845608028654  # √(2 / π)
_CUBIC = 0.044715  # the coefficient of gelu's approximation by tanh


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


@elementwise(entry="x")
def _elu(xp: Any, x: Any, /, alpha: float, scale: float, input_scale: float) -> Any:
    left = xp.expm1(xp.minimum(x, 0) * input_scale) * (alpha * scale)
    return xp.where(x > 0, x * scale, left)


@elementwise
def _elu_slope(xp: Any, g: Any, x: Any, /, alpha: float, scale: float, input_scale: float) -> Any:
    left = xp.where(x < 0, x, 0)  # keeps exp from overflowing in the branch that is not taken
    return xp.where(x <= 0, g * xp.exp(left * input_scale) * (alpha * scale * input_scale), g * scale)


ELU = Op(
    "elu",
    _elu,
    kind=ELEMENTWISE,
    x=_elu_slope,
    weight=2.0,
    path="nn.functional.elu",
    samples=[*unary_samples(), Sample(Arg(3, 4), 0.3), Sample(Arg(values=[-1.0, 0.0, 2.0]), 2.0, smooth=False)],
)
elu_ = one_sided("elu", in_place(elu), lambda alpha=1.0, inplace=False: alpha)


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
celu_ = one_sided("elu", in_place(celu), lambda alpha=1.0, inplace=False: alpha)


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
    return unary(GELU if approximate == "none" else GELU_BY_TANH, input)


@elementwise(entry="x")
def _gelu_backward(xp: Any, g: Any, x: Any) -> Any:
    return g * xp.gelu_slope(x)


GELU = Op("gelu", lambda xp, x: xp.gelu(x), kind=ELEMENTWISE, x=_gelu_backward, weight=5.0, path="nn.functional.gelu")


def gelu_slope(x: Tensor) -> Tensor:
    """Φ(x) + x φ(x), the slope of gelu."""
    return unary(GELU_SLOPE, x)


def _gelu_curvature(xp: Any, g: Any, x: Any) -> Any:
    near = xp.clamp(x, -40, 40)  # beyond, the normal density is 0
    square = near * near
    return g * (2 - square) * xp.exp(square * -0.5) * _NORMAL


GELU_SLOPE = Op("slope.gelu", lambda xp, x: xp.gelu_slope(x), kind=ELEMENTWISE, x=_gelu_curvature, weight=5.0)


@elementwise
def _gelu_by_tanh(xp: Any, x: Any) -> Any:
    return x * 0.5 * (1 + xp.tanh((x + x * x * x * _CUBIC) * _ROOT_TWO_OVER_PI))


@elementwise
def _gelu_by_tanh_slope(xp: Any, g: Any, x: Any) -> Any:
    near = xp.clamp(x, -64, 64)  # beyond, the slope is 0 or 1, also at infinity
    square = near * near
    t = xp.tanh(near * (1 + square * _CUBIC) * _ROOT_TWO_OVER_PI)
    inner = near * (1 - t * t) * (1 + square * (3 * _CUBIC)) * _ROOT_TWO_OVER_PI
    return g * 0.5 * ((1 + t) + inner)


GELU_BY_TANH = Op("by_tanh.gelu", _gelu_by_tanh, kind=ELEMENTWISE, x=_gelu_by_tanh_slope, weight=5.0)
declare(
    "nn.functional.gelu",
    [
        *unary_samples(-4, 4, -10.0, 0.0, 10.0),
        Sample(Arg(3, 4), approximate="tanh"),
        Sample(Arg(values=[-10.0, 0.0, 9.0]), approximate="tanh"),
    ],
)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), also called swish.  d silu = s (1 + x (1 - s)) dx with s = sigmoid(x)."""
    if inplace:
        return silu_(input)
    if need_tensor("silu", "input", input)._data.dtype not in INEXACT:
        raise RuntimeError(
            f"silu: not implemented for dtype {input.dtype}; expected a floating-point tensor (cast with .float())"
        )
    return unary(SILU, input)


@elementwise(entry="x")
def _silu(xp: Any, x: Any) -> Any:
    return x * xp.sigmoid(x)


@elementwise(entry="x")
def _silu_slope(xp: Any, g: Any, x: Any) -> Any:
    # s (1 + x (1 - s)) with s = σ(x) and 1 - s = σ(-x); beyond 800 the slope is 0 or 1, also at infinity
    near = x if x.dtype in COMPLEX else xp.clamp(x, -800, 800)
    return g * (xp.sigmoid(x) * (1 + near * xp.sigmoid(-x))).conj()  # (kernels compute one exponential for both)


SILU = Op(
    "silu",
    _silu,
    kind=ELEMENTWISE,
    x=_silu_slope,
    weight=4.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    path="nn.functional.silu",
)
silu_ = in_place(silu)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)).  d mish = (t + x sigmoid(x) (1 - t^2)) dx with t = tanh(softplus(x))."""
    if inplace:
        return mish_(input)
    floating("mish", input)
    return unary(MISH, input)


@elementwise(entry="x")
def _mish(xp: Any, x: Any) -> Any:
    # tanh(log(1 + eˣ)) = n / (n + 2) with n = eˣ (eˣ + 2); it is 1 from 20 on
    e = xp.exp(xp.minimum(x, 20))
    n = e * (e + 2)
    return x * (n / (n + 2))


@elementwise(entry="x")
def _mish_slope(xp: Any, g: Any, x: Any) -> Any:
    # t + x (1 - t²) σ(x), where 1 - t² = 4 (n + 1) / (n + 2)²; beyond 20 it is 1 to rounding, below -800 it is 0
    near = xp.clamp(x, -800, 20)
    e = xp.exp(near)
    n = e * (e + 2)
    return g * (n / (n + 2) + near * (e / (1 + e)) * (4 * (n + 1) / ((n + 2) * (n + 2))))


MISH = Op(
    "mish",
    _mish,
    kind=ELEMENTWISE,
    x=_mish_slope,
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


@elementwise(entry="x")
def _softplus(xp: Any, x: Any, /, beta: float, threshold: float) -> Any:
    u = x * beta
    return xp.where(u > threshold, x, (xp.maximum(u, 0) + xp.log1p(xp.exp(-abs(u)))) / beta)


@elementwise
def _softplus_slope(xp: Any, g: Any, x: Any, /, beta: float, threshold: float) -> Any:
    u = x * beta
    near = xp.where(u >= threshold, threshold, u)  # (there the second derivative is 0)
    return xp.where(u > threshold, g, g * xp.sigmoid(near))


SOFTPLUS = Op(
    "softplus",
    _softplus,
    kind=ELEMENTWISE,
    x=_softplus_slope,
    weight=4.0,
    path="nn.functional.softplus",
    samples=[
        *unary_samples(-4, 4, -100.0, 0.0, 100.0),
        Sample(Arg(3, 4), 2.0),
        Sample(Arg(3, 4, low=-4, high=4), 1.0, 1.0),
        Sample(Arg(values=[2.0, 0.5, 3.0]), 1.0, 2.0, smooth=False),
    ],
)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow.  d logsigmoid = sigmoid(-x) dx."""
    floating("logsigmoid", input)
    return unary(LOGSIGMOID, input)


@elementwise(name="logsigmoid", entry="x")
def log_of_sigmoid(xp: Any, x: Any) -> Any:
    """ln σ(x)."""
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-abs(x)))


@elementwise
def _logsigmoid_slope(xp: Any, g: Any, x: Any) -> Any:
    return g * xp.sigmoid(-x)


LOGSIGMOID = Op(
    "logsigmoid",
    log_of_sigmoid,
    kind=ELEMENTWISE,
    x=_logsigmoid_slope,
    weight=4.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    path="nn.functional.logsigmoid",
    layout=ITERATED,
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
