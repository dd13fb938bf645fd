"""Norms of vectors and of tensors as vectors, and what is scaled by a norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import unary
from ferro.core.arguments import many_dims, need_tensor, one_dim
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.reductions import FLOAT32, cast, kept, need_inexact

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["norm_except_dim", "renorm"]


INF = math.inf


def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over the dimensions `dim`, real.

    - `x` (Tensor): any shape, floating or complex
    - `ord` (number, default 2): any real one, also negative; 0 counts the non-zero elements, inf and -inf take the
      largest and the smallest |x|
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result

    The gradient is sgn(x) (|x| / norm)^(ord - 1); it is 0 where x is 0 or the norm is 0, and everywhere for ord 0. For
    inf and -inf the elements of extreme |x| share it evenly. RuntimeError for integers, IndexError for a `dim` out of
    range.

    Example::

        >>> import ferro
        >>> ferro.linalg.vector_norm(ferro.tensor([3.0, -4.0])), ferro.linalg.vector_norm(ferro.tensor([3.0, -4.0]), 1)
        (tensor(5.), tensor(7.))
    """
    a = need_tensor("linalg.vector_norm", "x", x)._data
    if not isinstance(ord, (int, float)):
        raise TypeError(
            f"linalg.vector_norm: ord must be a number (also inf), got {ord!r}; names are for linalg.matrix_norm"
        )
    if a.dtype is not FLOAT32:
        need_inexact("linalg.vector_norm", x)
    dims = many_dims("linalg.vector_norm", a.ndim, dim)
    if dtype is not None:
        x = cast(x, _norm_dtype(dtype, a.dtype))
    if a.size == 0 and (ord < 0 or ord == INF):
        empty = [d for d in dims if a.shape[d] == 0]
        if empty:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm of a tensor of shape "
                f"{list(a.shape)} over dimension "
                f"{empty[0]}: it is empty, and this norm of nothing is not defined"
            )
    result = unary(VECTOR_NORM, x, (ord, dims, keepdim))
    return result if out is None else into("linalg.vector_norm", out, result)


def _norm_dtype(dtype: Any, have: Any) -> Any:
    """The dtype in which a norm is asked for, if the input may be cast to it."""
    want, own = dtypes.FROM_NUMPY[dtypes.to_numpy(dtype)], dtypes.FROM_NUMPY[have]
    if want.is_complex != own.is_complex or want.category < 2:
        kind = "complex" if own.is_complex else "real"
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex and {kind} as the input is, got {want}"
        )
    if dtypes.promote_types(own, want) is not want:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({own}) should be convertible without narrowing to {want}"
        )
    return want.np


def _vector_norm_x(xp: Any, g: Any, x: Any, out: Any, ord: float, dim: tuple, keepdim: bool) -> Any:
    if not keepdim and (ord != 2 or out.ndim):
        shape = kept(x.shape, dim)
        g, out = xp.reshape(g, shape), xp.reshape(out, shape)
    if ord == 2:
        return xp.over_norm(x, g, out)
    if ord == 0:
        return xp.zeros_like(x)
    if ord == 1:
        return g * xp.sgn(x)
    if math.isinf(ord):
        return g * xp.sgn(x) * xp.tie_weights(xp.abs(x), out, dim, True)
    # 0^(ord - 1) may be infinite: powers are taken of ones instead of zeros, which sgn(x) and the mask then remove
    # (one power of the quotient: two, of |x| and of the norm, round more)
    zero = out == 0
    out = xp.where(zero, 1.0, out)
    size = xp.where(x == 0, out, xp.abs(x))
    return xp.sgn(x) * ((size / out) ** (ord - 1) * xp.where(zero, 0.0, g))


_ORDS = (0, 0.5, 1, 1.5, 2, 2.5, 3, INF, -INF, -1, -2.0)
# second derivatives at these points are finite here and nan in PyTorch
_KINKS = [
    Sample(Arg(values=[0.0, 0.0]), o, smooth=False, twice=o in (1, 3, INF, -INF))
    for o in (0.5, 1, 1.5, 2, 3, INF, -INF, -1)
] + [Sample(Arg(values=[1.0, 0.0, -2.0]), o, smooth=False, twice=o in (1, 3)) for o in (0.5, 1, 1.5, 2.5, 3, -1)]


def away(rng: Any, shape: tuple) -> Any:
    """Distinct numbers well away from zero: a norm is smooth there."""
    x = permuted()(rng, shape)
    return x + np.sign(x) * 0.1


VECTOR_NORM = Op(
    "linalg.vector_norm",
    lambda xp, x, /, ord, dim, keepdim: xp.vector_norm(x, ord, dim, keepdim),
    x=_vector_norm_x,
    samples=[
        *[Sample(Arg(3, 4, make=away), o) for o in _ORDS],
        *[Sample(Arg(3, 4, make=away), o, 1) for o in _ORDS],
        Sample(Arg(make=away)),
        Sample(Arg(2, 3, 2, make=away), 3, (0, 2), True),
        Sample(Arg(0, 2), 2, 0),
        Sample(Arg(values=[3.0, -3.0, 1.0]), INF, smooth=False),
        *_KINKS,
    ],
    complex=True,
)
singular("linalg.vector_norm", "0, p = 2", Sample(Arg(values=[0.0, 0.0])), "of the subgradients the smallest")
singular("linalg.vector_norm", "0, p = 1", Sample(Arg(values=[0.0, 0.0]), 1), "of the subgradients the smallest")
singular(
    "linalg.vector_norm",
    "ties, p = inf",
    Sample(Arg(values=[1.0, -1.0]), float("inf")),
    "the largest share the gradient evenly",
)
singular(
    "linalg.vector_norm",
    "0 among others, p = 0.5",
    Sample(Arg(values=[0.0, 1.0]), 0.5),
    "0 in place of an infinite slope",
)


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(|x|_p, eps) over the dimensions `dim`.

    - `input` (Tensor): x, any shape, floating
    - `p` (float, default 2.0): of the norm
    - `dim` (int or ints, default 1): the dimensions of the vectors
    - `eps` (float, default 1e-12): the least norm: a vector of zeros stays zero
    - `out` (Tensor, default None): where to write the result

    The result has the shape of x. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.normalize(ferro.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    result = input / backend.functional.clamp_min(vector_norm(input, p, dim, True), eps)
    return result if out is None else into("normalize", out, result)


declare(
    "nn.functional.normalize",
    [
        Sample(Arg(3, 4)),
        Sample(Arg(3, 4), 1.0, 0),
        Sample(Arg(2, 3, 2), p=3.0, dim=-1),
        Sample(Arg(4), dim=0),
        Sample(Arg(values=[[0.0, 0.0], [3.0, 4.0]]), smooth=False, twice=False),
    ],
    complex=True,
)
singular(
    "nn.functional.normalize", "0", Sample(Arg(values=[0.0, 0.0]), dim=0), "divided by eps, as the function is written"
)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of each slice along `dim`, shaped to divide `v` by it; with dim=-1 that of all elements together.

    >>> import ferro
    >>> ferro.norm_except_dim(ferro.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    own = one_dim("norm_except_dim", v.dim(), dim)
    others = tuple([d for d in range(v.dim()) if d != own])
    return vector_norm(v, pow, others, True) if others else v.abs()


declare(
    "norm_except_dim", [Sample(Arg(3, 4)), Sample(Arg(3, 4), 2, 1), Sample(Arg(2, 3, 2), 2, -1), Sample(Arg(3), 2, 0)]
)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Every slice along `dim` whose p-norm is above `maxnorm`, scaled down to it; the others as they are.

    - `input` (Tensor): of two or more dimensions
    - `p` (float): of the norm, positive
    - `dim` (int): the dimension of the slices
    - `maxnorm` (float): not negative
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for a p or maxnorm out of range and fewer dimensions.

    Example::

        >>> import ferro
        >>> ferro.renorm(ferro.tensor([[3.0, 4.0], [0.0, 0.5]]), 2, 0, 1.0)
        tensor([[0.6000, 0.8000],
                [0.0000, 0.5000]])
    """
    name = "renorm"
    n = need_tensor(name, "input", input)._data.ndim
    if n < 2:
        raise RuntimeError(f"{name}: input needs at least 2 dimensions, got {n} dimensions")
    if p <= 0:
        raise RuntimeError(f"{name}: p must be positive, got {p}: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"{name}: expected maxnorm to be >= 0 but got {maxnorm}")
    need_inexact(name, input)
    d = one_dim(name, n, dim)
    size = vector_norm(input, p, [k for k in range(n) if k != d], True)
    fn, large = backend.functional, size > maxnorm
    # (1 / size² may be 0, so what is divided comes before the factor; slices that stay are divided by 1)
    result = input / fn.where(large, size + 1e-7, 1.0) * fn.where(large, maxnorm, fn.ones_like(size))
    return result if out is None else into(name, out, result)


declare(
    "renorm",
    [
        Sample(Arg(3, 4, make=away), 2, 0, 1.0),
        Sample(Arg(3, 4, make=away), 1, 1, 2.0),
        Sample(Arg(2, 3, 2, make=away), 3, -1, 0.5),
        Sample(Arg(3, 4), 2, 0, 100.0),
    ],
    complex=True,
)


class NormMethods:
    """Methods of Tensor."""

    __slots__ = ()
    renorm = renorm
    renorm_ = in_place(renorm)
