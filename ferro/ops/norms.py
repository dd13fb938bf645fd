"""Norms and distances: of vectors, of matrices by their entries, between points, and what is scaled by a norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend, dtypes
from ferro.core.apply import apply, operands, promote, unary
from ferro.core.arguments import into, many_dims, need_tensor, one_dim, unlike
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.inplace import in_place
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.extrema import amax, amin
from ferro.ops.matrix_arguments import matrices, square
from ferro.ops.reductions import FLOAT32, cast, kept, need_inexact, sum

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "cdist",
    "cosine_similarity",
    "dist",
    "frobenius_norm",
    "norm",
    "norm_except_dim",
    "nuclear_norm",
    "pairwise_distance",
    "pdist",
    "renorm",
]

INF = math.inf


# -- vectors -----------------------------------------------------------------------------------------------------------


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


def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Tensor | None = None, dtype: Any = None
) -> Tensor:
    """The p-norm of the elements over the dimensions `dim`, as :func:`linalg.vector_norm`.

    - `input` (Tensor): any shape, floating or complex
    - `p` (number or str, default "fro"): "fro" is the 2-norm, over at most two dimensions; "nuc" the sum of the
      singular values (:func:`linalg.matrix_norm`)
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): elements are cast to it first

    RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[3.0, 4.0], [0.0, 2.0]]).norm(dim=1)
        tensor([5., 2.])
    """
    need_tensor("norm", "input", input)
    if isinstance(p, str):
        if p == "fro" and (dim is None or not isinstance(dim, (tuple, list)) or len(dim) <= 2):
            return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
        return matrix_norm(input, p, (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, out=out)


declare(
    "norm",
    [
        Sample(Arg(3, 4)),
        Sample(Arg(3, 4), 2),
        Sample(Arg(3, 4), 3, 1),
        Sample(Arg(3, 4), "fro", (0, 1)),
        Sample(Arg(2, 3), 1, 0, True),
        Sample(Arg(3, 4, make=away), INF, (0, 1)),
        Sample(Arg(values=[0.0, 0.0]), smooth=False, twice=False),
    ],
    complex=True,
)


# -- matrices ----------------------------------------------------------------------------------------------------------


def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of the matrices in the dimensions `dim`.

    - `A` (Tensor): (..., m, n), floating or complex
    - `ord` (number or str, default "fro"): "fro": the root of the sum of |a|²; 1 and -1: the largest and the smallest
      sum of |a| of a column, inf and -inf of a row; 2 and -2: the largest and the smallest singular value, "nuc" their
      sum
    - `dim` (pair of ints, default (-2, -1)): the dimensions of the matrices
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result

    RuntimeError for another `ord`, fewer than two dimensions and integers.

    Example::

        >>> import ferro
        >>> A = ferro.tensor([[3.0, 0.0], [0.0, -4.0]])
        >>> ferro.linalg.matrix_norm(A), ferro.linalg.matrix_norm(A, 1)
        (tensor(5.), tensor(4.))
    """
    name = "linalg.matrix_norm"
    a = need_tensor(name, "A", A)._data
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple, got {dim}")
    if a.ndim < 2:
        raise RuntimeError(f"{name}: the input tensor A must have at least 2 dimensions, got shape {list(a.shape)}")
    need_inexact(name, A)
    row, column = [one_dim(name, a.ndim, d) for d in dim]
    if row == column:
        raise RuntimeError(f"{name}: dims must be different, got {tuple(dim)}")
    if ord == "fro":
        result = vector_norm(A, 2, (row, column), keepdim, dtype=dtype)
    elif ord in (1, -1, INF, -INF):
        sums = vector_norm(A, 1, row if abs(ord) == 1 else column, True, dtype=dtype)
        result = _extreme(sums, ord, (row, column), keepdim)
    elif ord in ("nuc", 2, -2):
        result = _by_singular_values(
            A if dtype is None else cast(A, _norm_dtype(dtype, a.dtype)), ord, row, column, keepdim
        )
    else:
        raise RuntimeError(f"{name}: Order {ord} not supported; it is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2")
    return result if out is None else into(name, out, result)


def _extreme(x: Any, ord: Any, dims: tuple, keepdim: bool) -> Any:
    """The largest (ord > 0; 0 of nothing) or the smallest element."""
    if ord > 0 and not all(x._data.shape[d] for d in dims):
        return sum(x, dims, keepdim)
    return (amax if ord > 0 else amin)(x, dims, keepdim)


def _by_singular_values(A: Any, ord: Any, row: int, column: int, keepdim: bool) -> Any:
    fn = backend.functional
    others = [d for d in range(A._data.ndim) if d not in (row, column)]
    x = fn.permute(A, (*others, row, column))
    if ord == "nuc":
        result = fn.nuclear_norm_of(x)
    else:
        values = fn.svdvals(x)
        result = _extreme(values, ord, (values._data.ndim - 1,), False)
    return fn.reshape(result, kept(A._data.shape, (row, column))) if keepdim else result


declare(
    "linalg.matrix_norm",
    [
        Sample(Arg(3, 4)),
        Sample(Arg(2, 3, 4), "fro", (0, 2), True),
        *[Sample(Arg(3, 4), o) for o in (1, -1, INF, -INF)],
        *[Sample(Arg(3, 4), o) for o in (2, -2, "nuc")],
        Sample(Arg(2, 3, 4), "nuc", (2, 0), True),
        Sample(Arg(2, 3, 3), 2, (1, 0)),
        Sample(Arg(0, 2), "nuc"),
        Sample(Arg(2, 3, 4), 1, (2, 0)),
        Sample(Arg(2, 3, 4), INF, (0, 1), True),
    ],
    complex=True,
)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values of matrices: the older form of :func:`linalg.matrix_norm`.

    - `input` (Tensor): of two or more dimensions
    - `dim` (pair of ints, default (-2, -1)): the dimensions of the matrices
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result

    RuntimeError for fewer dimensions.

    Example::

        >>> import ferro
        >>> ferro.nuclear_norm(ferro.tensor([[3.0, 0.0], [0.0, -4.0]])).round()
        tensor(7.)
    """
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of |x|² over dimensions: the older form of :func:`linalg.vector_norm`.

    - `input` (Tensor): any shape
    - `dim` (int or ints): the dimensions; empty: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.frobenius_norm(ferro.tensor([[3.0, 4.0]]), dim=1)
        tensor([5.])
    """
    return vector_norm(input, 2, dim, keepdim, out=out)


declare("nuclear_norm", [Sample(Arg(3, 4)), Sample(Arg(2, 3, 4), (0, 2), True)], complex=True)
declare(
    "frobenius_norm", [Sample(Arg(3, 4), ()), Sample(Arg(2, 3, 4), (0, 1), True), Sample(Arg(3, 4), 1)], complex=True
)


def linalg_norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, dtype: Any = None
) -> Tensor:
    """The norm of a vector (one `dim`) or a matrix (two).

    - `A` (Tensor): any shape, floating or complex
    - `ord` (number or str, default None): as in `vector_norm` or `matrix_norm`; None: the 2-norm of the elements
    - `dim` (int or pair of ints, default None): the dimensions; None: all, which are then one or two if `ord` is given
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): elements are cast to it first

    RuntimeError for another `ord` or number of dimensions.

    Example::

        >>> import ferro
        >>> ferro.linalg.norm(ferro.tensor([[3.0, 4.0], [0.0, 0.0]]), dim=1)
        tensor([5., 0.])
    """
    name = "linalg.norm"
    n = need_tensor(name, "A", A)._data.ndim
    dims = None if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"{name}: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if ord is not None and dims is None and n not in (1, 2):
        raise RuntimeError(f"{name}: If dim is not specified but ord is, the input must be 1D or 2D. Got {n}D.")
    if ord is not None and (isinstance(ord, str) or (dims is None and n == 2) or (dims is not None and len(dims) == 2)):
        return matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)


declare(
    "linalg.norm",
    [
        Sample(Arg(3, 4)),
        Sample(Arg(5), 3),
        Sample(Arg(3, 4), INF),
        Sample(Arg(3, 4), None, 1),
        Sample(Arg(2, 3, 4), "fro", (0, 1)),
        Sample(Arg(2, 3), 3, 1, True),
    ],
    complex=True,
)


@in_full_precision
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number |A| |A⁻¹| of (..., n, n) matrices in the norm `p`, one of :func:`matrix_norm`'s; inf if singular.

    p None or 2: the ratio of the largest to the smallest singular value, -2: its inverse; also for (..., m, n).

        >>> import ferro
        >>> ferro.linalg.cond(ferro.tensor([[2.0, 0.0], [0.0, 0.5]])).item()
        4.0
    """
    name = "linalg.cond"
    shape = matrices(name, A)._data.shape
    fn = backend.functional
    if p in (None, 2, -2):
        values = fn.svdvals(A)
        if not min(shape[-2:]):
            result = sum(values, len(shape) - 2)
        else:
            large, small = values[..., 0], values[..., -1]
            result = small / large if p == -2 else large / small
    elif p in ("fro", "nuc", 1, -1, INF, -INF):
        square(f"{name}(ord={p})", A)
        inverse, info = fn.inv_ex(A)[:2]
        result = matrix_norm(A, p) * matrix_norm(inverse, p) if shape[-1] else sum(sum(A.abs(), -1), -1)
        if plain(info._data).any():
            result = fn.where(info == 0, result, INF)
    else:
        raise RuntimeError(
            f"{name} got an invalid norm type: {p!r}; it is None, 2, -2, 'fro', 'nuc', 1, -1, inf or -inf"
        )
    return result if out is None else into(name, out, result)


def _near_one(rng: Any, shape: tuple) -> Any:
    """Regular matrices with distinct singular values."""
    return np.diag(np.arange(1.0, shape[-1] + 1)) + rng.uniform(-0.2, 0.2, shape)


declare(
    "linalg.cond",
    [
        *[Sample(Arg(3, 3, make=_near_one), o) for o in (None, 2, -2)],
        Sample(Arg(2, 2, 2, make=_near_one)),
        Sample(Arg(3, 2, make=away)),
    ],
    complex=True,
)


_ZERO = Arg(values=[[0.0, 0.0], [0.0, 0.0]])
singular("linalg.matrix_norm", "'nuc' of the zero matrix", Sample(_ZERO, "nuc"), "of the subgradients the smallest")
singular(
    "linalg.matrix_norm",
    "'nuc' of deficient rank",
    Sample(Arg(values=[[3.0, 0.0], [4.0, 0.0]]), "nuc"),
    "of the subgradients the smallest; second: along the matrices of the same rank",
)
singular(
    "linalg.matrix_norm",
    "'nuc', equal singular values",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]]), "nuc"),
    "the norm is smooth there: the derivative of the polar factor does not divide by differences",
)
singular("linalg.matrix_norm", "2-norm of the zero matrix", Sample(_ZERO, 2), "of the subgradients the smallest")
singular(
    "linalg.matrix_norm",
    "2-norm, equal singular values",
    Sample(Arg(values=[[2.0, 0.0], [0.0, 2.0]]), 2),
    "the largest singular values share the gradient evenly, as in amax",
)


# -- distances ---------------------------------------------------------------------------------------------------------


def dist(input: Tensor, other: Any, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors, 0-d.

    - `input`, `other` (Tensor): of shapes that broadcast
    - `p` (number, default 2): of the norm

    RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.dist(ferro.tensor([3.0, 4.0]), ferro.zeros(2))
        tensor(5.)
    """
    return vector_norm(input - other, p)


declare(
    "dist",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(3, 4), Arg(4), 3),
        Sample(Arg(3), Arg(3), 1),
        Sample(Arg(3), Arg(3), 0.5),
        Sample(Arg(4), Arg(4), INF),
        Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 2.0]), smooth=False, twice=False),
    ],
    complex=True,
)
singular(
    "dist", "equal points", Sample(Arg(values=[1.0, 2.0]), Arg(values=[1.0, 2.0])), "of the subgradients the smallest"
)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension.

    - `x1`, `x2` (Tensor): (..., D), with broadcasting
    - `p` (float, default 2.0): of the norm
    - `eps` (float, default 1e-06): added to the differences, so that the norm has a slope at 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1

    The result is (...), or (..., 1) with `keepdim`. RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pairwise_distance(ferro.tensor([[3.0, 4.0]]), ferro.zeros(1, 2), eps=0.0)
        tensor([5.])
    """
    diff = x1 - x2 + eps
    return vector_norm(diff, p, max(diff._data.ndim - 1, 0), keepdim)


declare(
    "nn.functional.pairwise_distance",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(4), Arg(3, 4), p=3.0, keepdim=True),
        Sample(Arg(3, 4), Arg(3, 4), 1.0, 0.1),
    ],
)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine x1·x2 / (max(|x1|, eps) max(|x2|, eps)) over a dimension.

    - `x1`, `x2` (Tensor): of shapes that broadcast
    - `dim` (int, default 1): the dimension of the vectors, which the result does not have
    - `eps` (float, default 1e-08): the least norm; where a norm is below, the gradient treats it as the norm, not as a
      constant

    RuntimeError for shapes that do not broadcast, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.cosine_similarity(ferro.tensor([[1.0, 0.0]]), ferro.tensor([[3.0, 4.0]]))
        tensor([0.6000])
    """
    name = "cosine_similarity"
    x, y = promote(*operands(name, x1, x2))
    need_inexact(name, x)
    try:
        shape = np.broadcast_shapes(x._data.shape, y._data.shape)
    except ValueError:
        raise unlike(name, [x._data.shape, y._data.shape]) from None
    d = one_dim(name, len(shape), dim)
    fn = backend.functional
    x, y = [t if t._data.shape == shape else fn.expand(t, shape) for t in (x, y)]
    x, y = x / _at_least(vector_norm(x, 2, d, True), eps), y / _at_least(vector_norm(y, 2, d, True), eps)
    return sum(x * y.conj() if x._data.dtype.kind == "c" else x * y, d)


def _at_least(size: Any, eps: float) -> Any:
    """The norm, at least eps in value, with the norm's derivative."""
    if plain(size._data < eps).any():
        floored = backend.xp_of(size._data).clamp(size._data, np.asarray(eps, size._data.dtype), None)
        size = size + (wrap(floored) - size.detach())
    return size


declare(
    "nn.functional.cosine_similarity",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(3, 4), Arg(3, 4), 0),
        Sample(Arg(4), Arg(3, 4), dim=-1),
        Sample(Arg(2, 3, 2), Arg(2, 3, 2), 2, 0.5),
    ],
)
singular(
    "nn.functional.cosine_similarity",
    "a zero vector",
    Sample(Arg(values=[0.0, 0.0]), Arg(values=[1.0, 0.0]), dim=0),
    "divided by eps, as the function is written",
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
    result = fn.where(large, input / (fn.where(large, size, 1.0) + 1e-7) * maxnorm, input)  # (1 / size² may be 0)
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

MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@in_full_precision
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = MODES[0]) -> Tensor:
    """The p-norm distances between the rows of two matrices.

    - `x1` (Tensor): (..., P, M)
    - `x2` (Tensor): (..., R, M), with leading dimensions that broadcast
    - `p` (float, default 2.0): of the norm, not negative
    - `compute_mode` (str, default "use_mm_for_euclid_dist_if_necessary"): for p = 2: "use_mm_for_euclid_dist" takes
      |x|² + |y|² - 2 x·y, "donot_use_mm_for_euclid_dist" the differences; the default the former from 26 rows on

    The result is (..., P, R). The gradient at distance 0 is 0; for p = inf the components of extreme difference share
    it. RuntimeError for a negative p and shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.cdist(ferro.tensor([[0.0, 0.0]]), ferro.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    for label, x in (("X1", x1), ("X2", x2)):
        if need_tensor("cdist", label.lower(), x)._data.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {label} got: {x._data.ndim}D")
        if x._data.dtype.kind in "biuc":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {label} got: {dtypes.FROM_NUMPY[x._data.dtype]}"
            )
    a, b = x1._data.shape, x2._data.shape
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns. X1: {a[-1]} (shape {list(a)}), X2: {b[-1]} "
            f"(shape {list(b)})"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    mode = MODES[0] if compute_mode is None else compute_mode
    if mode not in MODES:
        raise ValueError(
            f"cdist: {compute_mode!r} is not a valid value for compute_mode; it is one of {', '.join(MODES)}"
        )
    if p == 2 and a[-1] and (mode == MODES[1] or (mode == MODES[0] and (a[-2] > 25 or b[-2] > 25))):
        return apply(EUCLIDEAN, tuple(promote(x1, x2)))
    fn = backend.functional
    # (the distance of rows without elements is 0 for every p, also inf)
    return vector_norm(fn.unsqueeze(x1, -2) - fn.unsqueeze(x2, -3), p if a[-1] else 2.0, -1)


declare(
    "cdist",
    [
        *[Sample(Arg(3, 4, make=away), Arg(2, 4), p) for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF)],
        Sample(Arg(2, 3, 4), Arg(2, 4)),
        Sample(Arg(3, 4), Arg(2, 4), 2.0, MODES[1]),
        Sample(Arg(2, 3, 4), Arg(2, 4), 2.0, MODES[1]),
        Sample(Arg(values=[[1.0, 2.0]]), Arg(values=[[1.0, 2.0], [0.0, 0.0]]), smooth=False),
    ],
)
singular(
    "cdist",
    "equal points",
    Sample(Arg(values=[[1.0, 2.0]]), Arg(values=[[1.0, 2.0]])),
    "of the subgradients the smallest",
)


def _pulls(xp: Any, g: Any, out: Any) -> Any:
    """g / distance, 0 at distance 0: how strongly each pair is pulled together."""
    zero = out == 0
    return xp.where(zero, 0.0, g / xp.where(zero, 1.0, out))


def _euclidean_x(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    w = _pulls(xp, g, out)
    return x * xp.sum(w, (len(w.shape) - 1,), True) - w @ y


def _euclidean_y(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    w = _pulls(xp, g, out)
    n = len(w.shape)
    w = xp.permute(w, (*range(n - 2), n - 1, n - 2))
    return y * xp.sum(w, (n - 1,), True) - w @ x


EUCLIDEAN = Op("euclidean", lambda xp, x, y: xp.euclidean(x, y), x=_euclidean_x, y=_euclidean_y)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances between the rows of a matrix: those of (0, 1), (0, 2), ..., (1, 2), ... in one vector.

    - `input` (Tensor): (N, M)
    - `p` (number, default 2): of the norm, not negative

    The result is (N (N - 1) / 2). RuntimeError for other shapes and a negative p.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pdist(ferro.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))[:2]
        tensor([5., 1.])
    """
    a = need_tensor("pdist", "input", input)._data
    if a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {a.ndim}D")
    if a.dtype.kind in "biuc":
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {dtypes.FROM_NUMPY[a.dtype]}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    i, j = np.triu_indices(a.shape[0], 1)
    rows = backend.functional.index_select
    return vector_norm(rows(input, 0, wrap(i)) - rows(input, 0, wrap(j)), p if a.shape[1] else 2.0, 1)


declare(
    "pdist",
    [
        *[Sample(Arg(4, 3, make=away), p) for p in (0.5, 1, 2, 3)],
        Sample(Arg(2, 5)),
        Sample(Arg(1, 3)),
        Sample(Arg(values=[[1.0, 2.0], [1.0, 2.0]]), smooth=False),
    ],
)


class NormMethods:
    """Methods of Tensor."""

    __slots__ = ()
    dist = dist
    norm = norm
    renorm = renorm
    renorm_ = in_place(renorm)
