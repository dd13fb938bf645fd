"""Norms of matrices, or of tensors as vectors or matrices; condition numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY, HALF, type_name
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.extrema import amax, amin
from ferro.ops.matrix_arguments import matrices, square
from ferro.ops.norms import INF, _norm_dtype, away, vector_norm
from ferro.ops.reductions import cast, kept, need_inexact, sum

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["frobenius_norm", "norm", "nuclear_norm"]


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
        if a.dtype in HALF:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(FROM_NUMPY[a.dtype])}")
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


class MatrixNormMethods:
    """Methods of Tensor."""

    __slots__ = ()
    norm = norm
