"""Softmax along one dimension, its logarithm, and relatives."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend, dtypes
from ferro.core.apply import unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.layout import DENSE
from ferro.core.op import Op
from ferro.core.random import stream_of
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.activations import floating

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]

_SAMPLES = [
    Sample(Arg(5), 0),
    Sample(Arg(3, 4), 1),
    Sample(Arg(3, 4), 0),
    Sample(Arg(2, 3, 2), -2),
    Sample(Arg(), 0),
    Sample(Arg(0, 3), 1),
    Sample(Arg(3, 0), 1),
    Sample(Arg(2, 3, low=900, high=1000), 1),
    Sample(Arg(2, 3), 1, dtype=dtypes.float64),
]


_PLAIN = (dtypes.float32.np, dtypes.float64.np)


def _prepare(name: str, input: Tensor, dim: Any, third: Any, dtype: Any) -> tuple:
    """The input cast to `dtype`, and `dim` as a non-negative number."""
    if dtype is None and type(dim) is int and type(third) is int and isinstance(input, TensorBase):
        a = input._data
        n = a.ndim
        if -n <= dim < n and a.dtype in _PLAIN:
            return input, dim if dim >= 0 else dim + n
    ndim = need_tensor(name, "input", input)._data.ndim
    if dtype is None and isinstance(
        third, dtypes.dtype
    ):  # torch.softmax takes the dtype where nn.functional's has _stacklevel
        dtype = third
    if dtype is not None:
        input = input.to(dtype)
    floating(name, input)
    if dim is None:
        dim = 0 if ndim in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated; here it is dim={dim}. Pass dim.",
            UserWarning,
            stacklevel=3,
        )
    return input, one_dim(name, ndim, dim)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: Any = 3, dtype: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Positive numbers whose sum along `dim` is 1: p = exp(x) / sum exp(x), without overflow.

    dp = p (dx - sum p dx).  A slice that is -inf throughout gives nan, as in PyTorch.

    The result has the shape of `input`.

    - `input` (Tensor): x, any shape
    - `dim` (int, default None): the dimension over which the sum is 1; None warns and takes 0, or 1 for two and four or
      more dimensions
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result

    Example::

        >>> import ferro
        >>> ferro.softmax(ferro.tensor([[1.0, 1.0], [0.0, 1000.0]]), dim=1)
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]])
    """
    input, dim = _prepare("softmax", input, dim, _stacklevel, dtype)
    result = unary(SOFTMAX, input, (dim,))
    return result if out is None else into("softmax", out, result)


SOFTMAX = Op(
    "softmax",
    lambda xp, x, /, dim: xp.softmax(x, dim),
    x=lambda xp, g, out, dim: xp.softmax_vjp(g, out, dim),
    weight=3.0,
    samples=_SAMPLES,
    layout=DENSE,
)
declare("nn.functional.softmax", _SAMPLES)
singular(
    "softmax",
    "all -inf",
    Sample(Arg(values=[float("-inf"), float("-inf")]), 0),
    "0/0, as in PyTorch: a row in which everything is masked has no probabilities",
)


def softmax_vjp(g: Tensor, out: Tensor, dim: int) -> Tensor:
    """The backward of softmax, on Tensors."""
    product = g * out
    return product - out * product.sum((dim,), True)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: Any = 3, dtype: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """The logarithm of :func:`softmax` along `dim`: x - log Σ exp(x), exact where softmax itself would round to 0.

    - `input` (Tensor): x, any shape
    - `dim` (int, default None): the dimension over which the exponentials sum to 1; None warns and chooses as `softmax`
      does
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. The derivative is dx - Σ p dx with p = softmax(x). IndexError for a `dim` out
    of range.

    Example::

        >>> import ferro
        >>> ferro.log_softmax(ferro.tensor([0.0, 1000.0]), dim=0)
        tensor([-1000.,     0.])
    """
    input, dim = _prepare("log_softmax", input, dim, _stacklevel, dtype)
    result = unary(LOG_SOFTMAX, input, (dim,))
    return result if out is None else into("log_softmax", out, result)


LOG_SOFTMAX = Op(
    "log_softmax",
    lambda xp, x, /, dim: xp.log_softmax(x, dim),
    x=lambda xp, g, out, dim: xp.log_softmax_vjp(g, out, dim),
    weight=3.0,
    samples=_SAMPLES,
    layout=DENSE,
)
declare("nn.functional.log_softmax", _SAMPLES)


def log_softmax_vjp(g: Tensor, out: Tensor, dim: int) -> Tensor:
    """The backward of log_softmax, on Tensors."""
    return g - backend.functional.exp(out) * g.sum((dim,), True)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x): positive numbers whose sum along `dim` is 1, the largest for the smallest x.

    - `input` (Tensor): any shape
    - `dim` (int, default None): the dimension over which the sum is 1; None warns and chooses as `softmax` does
    - `dtype` (dtype, default None): elements are cast to it first

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.softmin(ferro.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    return softmax(-input, dim, _stacklevel, dtype)


declare("nn.functional.softmin", _SAMPLES)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, generator: Any = None
) -> Tensor:
    """A sample of the relaxed categorical distribution: softmax((logits + Gumbel noise) / tau).

    - `logits` (Tensor): (..., C), not normalised
    - `tau` (float, default 1): the temperature; small ones give nearly one-hot samples
    - `hard` (bool, default False): gives a one-hot sample whose gradient is that of the soft one (section 2.2)
    - `eps` (float, default 1e-10): no effect
    - `dim` (int, default -1): the dimension of the classes
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `logits`. The numbers on which it depends come from `generator` or the default one.
    Source: Jang, Gu and Poole, Categorical Reparameterization with Gumbel-Softmax, 2017.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.gumbel_softmax(ferro.zeros(2, 3), hard=True).sum(1)
        tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", UserWarning, stacklevel=2)
    floating("gumbel_softmax", logits)
    x = logits._data
    with np.errstate(divide="ignore"):
        waits = as_array(stream_of(generator, x).exponential(x.shape, x.dtype))
        noise = -backend.xp_of(waits).log(waits)
    soft = softmax((logits + wrap(backend.beside(x, as_array(noise).astype(x.dtype)))) / tau, dim)
    if not hard:
        return soft
    p = soft._data
    axis = one_dim("gumbel_softmax", p.ndim, dim)
    one = np.zeros_like(p)
    np.put_along_axis(one, p.argmax(axis=axis, keepdims=True), 1, axis)
    return wrap(one) - soft.detach() + soft


class SoftmaxMethods:
    """Methods of Tensor."""

    __slots__ = ()
    softmax = softmax
    log_softmax = log_softmax
