"""Normalisation over the last dimensions: layer norm, and by the root mean square."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample
from ferro.ops.activations import floating

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["layer_norm", "native_layer_norm", "rms_norm"]


def _trailing(name: str, input: Tensor, normalized_shape: Any, weight: Any, bias: Any = None) -> int:
    """The number of dimensions in `normalized_shape`, which must be the last ones of the input and the shape of the
    weights.
    """
    if type(normalized_shape) is not tuple:
        normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    n = len(normalized_shape)
    shape = need_tensor(name, "input", input)._data.shape
    if shape[-n:] != normalized_shape or not n:
        if not n:
            raise RuntimeError(
                f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., "
                "containing at least one element, but got normalized_shape = []"
            )
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size {list(shape)}"
        )
    for label, t in (("weight", weight), ("bias", bias)):
        if t is not None and need_tensor(name, label, t)._data.shape != normalized_shape:
            raise RuntimeError(
                f"{name}: Expected {label} to be of same shape as normalized_shape, but "
                f"got {label} of shape {list(t._data.shape)} and normalized_shape = "
                f"{list(normalized_shape)}"
            )
    return n


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias.

    - `input` (Tensor): x, (..., *normalized_shape)
    - `normalized_shape` (sequence of ints): the last dimensions of x
    - `weight`, `bias` (Tensor, default None): in the shape `normalized_shape`
    - `eps` (float, default 1e-05): keeps the root away from 0
    - `cudnn_enable` (bool, default True): no effect

    The result has the shape of x. With r = 1 / sqrt(var + eps), z the normalised x and h = w g: dx = r (h - mean h - z
    mean(h z)), dw = Σ g z, db = Σ g. RuntimeError for shapes that do not fit. Source: Ba, Kiros and Hinton, Layer
    Normalization, 2016.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.layer_norm(ferro.tensor([[1.0, 3.0]]), [2], eps=0.0)
        tensor([[-1.,  1.]])
    """
    n = _trailing("layer_norm", input, normalized_shape, weight, bias)
    floating("layer_norm", input, weight, bias)
    return apply(LAYER_NORM, (input, weight, bias), (n, eps))


LAYER_NORM = Op(
    "layer_norm",
    lambda xp, x, weight, bias, /, n, eps: xp.layer_norm(x, weight, bias, n, eps),
    aux=("mean", "rstd"),
    vjp=lambda xp, g, x, weight, mean, rstd, n, eps, needs: xp.layer_norm_vjp(g, x, weight, mean, rstd, n, eps, needs),
    diff=("x", "weight", "bias"),
    weight=3.0,
    path="nn.functional.layer_norm",
    samples=[
        Sample(Arg(3, 4), (4,)),
        Sample(Arg(3, 4), (4,), Arg(4), Arg(4)),
        Sample(Arg(2, 3, 4), (3, 4), Arg(3, 4)),
        Sample(Arg(5), (5,), Arg(5), None, 1e-2),
        Sample(Arg(2, 2, 3), (3,), Arg(3), Arg(3)),
        Sample(Arg(0, 3), (3,), Arg(3), Arg(3)),
    ],
)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """y = x / sqrt(mean(x²) + eps) over the last dimensions, times weight.

    - `input` (Tensor): x, (..., *normalized_shape), floating
    - `normalized_shape` (sequence of ints): the last dimensions of x
    - `weight` (Tensor, default None): in the shape `normalized_shape`
    - `eps` (float, default None): keeps the root away from 0; None: the machine epsilon of the dtype

    The result has the shape of x. With r = 1 / sqrt(mean(x²) + eps), z = r x and h = w g: dx = r (h - z mean(h z)), dw
    = Σ g z. RuntimeError for shapes that do not fit and for a dtype that is not floating. Source: Zhang and Sennrich,
    Root Mean Square Layer Normalization, 2019.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.rms_norm(ferro.tensor([[1.0, 7.0]]), [2], eps=0.0)
        tensor([[0.2000, 1.4000]])
    """
    n = _trailing("rms_norm", input, normalized_shape, weight)
    dtype = input._data.dtype
    if dtype not in dtypes.INEXACT:
        raise RuntimeError(
            f"rms_norm: not implemented for dtype {input.dtype}; expected a floating-point tensor (cast with .float())"
        )
    if eps is None:
        eps = dtypes.finfo(input.dtype if dtype not in dtypes.HALF else dtypes.float32).eps
    if dtype in dtypes.COMPLEX:
        dims = tuple(range(input._data.ndim - n, input._data.ndim))
        out = input * ((input * input).mean(dims, True) + eps).rsqrt()
        return out if weight is None else out * weight
    return apply(RMS_NORM, (input, weight), (n, eps))


RMS_NORM = Op(
    "rms_norm",
    lambda xp, x, weight, /, n, eps: xp.rms_norm(x, weight, n, eps),
    aux=("rstd",),
    vjp=lambda xp, g, x, weight, rstd, n, eps, needs: xp.rms_norm_vjp(g, x, weight, rstd, n, eps, needs),
    diff=("x", "weight"),
    weight=3.0,
    path="nn.functional.rms_norm",
    complex=True,
    samples=[
        Sample(Arg(3, 4), (4,)),
        Sample(Arg(3, 4), (4,), Arg(4), 1e-3),
        Sample(Arg(2, 3, 4), (3, 4), Arg(3, 4)),
        Sample(Arg(5), (5,)),
        Sample(Arg(0, 3), (3,), Arg(3)),
    ],
)


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple:
    """layer_norm with its statistics: (result, mean, 1 / sqrt(var + eps)); only the result is differentiable.

    - `input` (Tensor): (..., *normalized_shape)
    - `normalized_shape` (sequence of ints): the last dimensions of `input`
    - `weight`, `bias` (Tensor or None): in the shape `normalized_shape`
    - `eps` (float): keeps the root away from 0

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> y, mean, scale = ferro.native_layer_norm(ferro.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
        >>> y, mean, scale
        (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    n = len(tuple(normalized_shape))
    _, *found = backend.xp_of(input._data).layer_norm(input._data, None, None, n, eps)
    mean, rstd = found
    lead = (*input._data.shape[: input._data.ndim - n], *[1] * n)
    return out, wrap(mean.reshape(lead)), wrap(rstd.reshape(lead))
