"""The LU factorisation with partial pivoting, its packed form and parts, and systems solved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend, return_types
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.into import into
from ferro.core.op import LINEAR, Op
from ferro.core.origins import on_one_device
from ferro.core.requirements import require, require_accepted
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.matrix_arguments import batches, fits, matrices, named, one_dtype, square
from ferro.ops.products import adjoint
from ferro.ops.solving import regular
from ferro.ops.triangles import solve_tri

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["lu", "lu_solve", "lu_unpack"]

_SINGULAR = (
    "U[{i},{i}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform "
    "the factorization, consider calling linalg.lu(A) or linalg.lu_factor_ex(A)"
)


# -- the factorisation -------------------------------------------------------------------------------------------------


@in_full_precision
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> return_types.linalg_lu_factor:
    """(LU, pivots) with A = P L U: L (its unit diagonal left out) and U packed in one matrix, pivots (int32) from 1.

    A: (..., m, n); LU: (..., m, n); pivots: (..., min(m, n)): in step i the rows i and pivots[i] are exchanged.
    RuntimeError where a pivot is zero (see `lu_factor_ex`), and for pivot=False, which LAPACK has not.

    With Φ = L⁻¹ Pᵀ dA U⁻¹ of a square A, dL = L tril(Φ, -1) and dU = triu(Φ) U; the columns beyond m of a wide A and the
    rows beyond n of a tall one follow by substitution (F. R. de Hoog, R. S. Anderssen and M. A. Lukas, "Differentiation of
    matrix functionals using triangular factorization", Math. Comp. 80 (2011)).

    >>> import ferro
    >>> LU, pivots = ferro.linalg.lu_factor(ferro.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> LU.tolist(), pivots.tolist()
    ([[4.0, 4.0], [0.25, 1.0]], [2, 2])
    """
    packed, pivots, info = _factor("linalg.lu_factor", A, pivot)
    require_accepted("linalg.lu_factor", info._data, _SINGULAR, RuntimeError)
    return named("linalg.lu_factor", return_types.linalg_lu_factor, (packed, pivots), out)


@in_full_precision
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> return_types.linalg_lu_factor_ex:
    """`linalg.lu_factor` without an error: (LU, pivots, info).

    - `A` (Tensor): (..., m, n)
    - `pivot` (bool, default True): exchanges rows; must be True on the CPU
    - `check_errors` (bool, default False): raises LinAlgError after all
    - `out` (tuple of three Tensors, default None): where to write them

    info is (...), int32: 0, or the number of the first zero pivot.

    Example::

        >>> import ferro
        >>> LU, pivots, info = ferro.linalg.lu_factor_ex(ferro.tensor([[1.0, 2.0], [2.0, 4.0]]))
        >>> info
        tensor(2, dtype=ferro.int32)
    """
    packed, pivots, info = _factor("linalg.lu_factor_ex", A, pivot)
    if check_errors:
        require_accepted("linalg.lu_factor_ex", info._data, _SINGULAR, RuntimeError)
    return named("linalg.lu_factor_ex", return_types.linalg_lu_factor_ex, (packed, pivots, info), out)


def lu(input: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The older form of `linalg.lu_factor_ex`: (LU, pivots), or (LU, pivots, info).

    - `input` (Tensor): (..., m, n)
    - `pivot` (bool, default True): exchanges rows; must be True on the CPU
    - `get_infos` (bool, default False): gives info, too; else a zero pivot raises RuntimeError
    - `out` (tuple of Tensors, default None): where to write them

    Example::

        >>> import ferro
        >>> LU, pivots = ferro.lu(ferro.tensor([[0.0, 1.0], [2.0, 0.0]]))
        >>> pivots
        tensor([2, 2], dtype=ferro.int32)
    """
    results = _factor("lu", input, pivot)
    return named("lu", return_types._lu_with_info, results, out) if get_infos else named("lu", tuple, results[:2], out)


@in_full_precision
def linalg_lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> return_types.linalg_lu:
    """(P, L, U) with A = P L U: a permutation, a lower triangle with unit diagonal, an upper triangle.

    A: (..., m, n); with k = min(m, n), P: (..., m, m), L: (..., m, k), U: (..., k, n).  The derivative (see `lu_factor`)
    is infinite where the leading k by k part of U is singular.

    >>> import ferro
    >>> P, L, U = ferro.linalg.lu(ferro.tensor([[1.0, 2.0], [4.0, 4.0]]))
    >>> (P @ L @ U).tolist()
    [[1.0, 2.0], [4.0, 4.0]]
    """
    packed, pivots, _ = _factor("linalg.lu", A, pivot)
    return named("linalg.lu", return_types.linalg_lu, (_permutation_matrix(packed, pivots), *_triangles(packed)), out)


def _factor(name: str, A: Any, pivot: bool) -> tuple:
    matrices(name, A)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU; pass pivot=True")
    return apply(LU_FACTOR, (A,))


def _lu_x(xp: Any, g: Any, lu: Any, pivots: Any) -> Any:
    """P L⁻ᴴ [tril(Lᴴ G_L, -1) + triu(G_U Uᴴ)] U⁻ᴴ for a square A; see `lu_factor` for the others."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    square = lu[..., :k, :k]
    lower, upper = xp.tril(square, -1), xp.triu(square, 0)
    gl, gu = xp.tril(g[..., :k, :k], -1), xp.triu(g[..., :k, :k], 0)
    below = gl + xp.matmul(adjoint(lower), gl)
    above = xp.matmul(gu, adjoint(upper))
    if n > m:
        below = below - xp.matmul(g[..., m:], adjoint(lu[..., m:]))
    if m > n:
        above = above - xp.matmul(adjoint(lu[..., n:, :]), g[..., n:, :])
    square_h, rows = adjoint(square), lu.ndim - 2
    found = xp.solve_tri(square_h, xp.tril(below, -1) + xp.triu(above, 0), False, False, False)
    if n > m:
        found = xp.cat((found, g[..., m:]), rows + 1)
    found = xp.solve_tri(square_h, found, True, True, True)
    if m > n:
        found = xp.cat((found, xp.solve_tri(square_h, g[..., n:, :], False, False, False)), rows)
    return xp.swap_rows(found, pivots, True)


_RECTANGLES = [
    Sample(Arg(*shape, make=regular))
    for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 3), (2, 1, 2, 3), (1, 1), (0, 0), (0, 2), (2, 0), (0, 2, 2), (3, 0, 2))
]

LU_FACTOR = Op(
    "linalg.lu_factor_ex",
    lambda xp, x: xp.lu_factor(x),
    outputs=("lu", "pivots", "info"),
    nondiff=("pivots", "info"),
    x=_lu_x,
    weight=50.0,
    samples=_RECTANGLES,
    complex=True,
)
declare("linalg.lu_factor", _RECTANGLES, complex=True)
declare("linalg.lu", _RECTANGLES, complex=True)
declare("lu", [*_RECTANGLES, Sample(Arg(2, 2, make=regular), get_infos=True)], complex=True)


singular(
    "linalg.lu",
    "deficient rank",
    Sample(Arg(values=[[1.0, 2.0], [2.0, 4.0]])),
    "the derivative of L has U⁻¹ in it: inf and nan",
)


# -- its parts ---------------------------------------------------------------------------------------------------------


def _triangles(packed: Any) -> tuple:
    """L and U of a packed factorisation."""
    m, n = packed._data.shape[-2:]
    k = min(m, n)
    eye = backend.functional.eye(m, k, dtype=FROM_NUMPY[packed._data.dtype], device=packed.device)
    return packed[..., :, :k].tril(-1) + eye, packed[..., :k, :].triu()


def _permutation_matrix(packed: Any, pivots: Any) -> Any:
    m = packed._data.shape[-2]
    return wrap(backend.xp_of(pivots._data).swap_rows(np.eye(m, dtype=packed._data.dtype), pivots._data, True))


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> return_types.lu_unpack:
    """(P, L, U) of a factorisation by `linalg.lu_factor`: A = P L U.

    - `LU_data` (Tensor): (..., m, n)
    - `LU_pivots` (Tensor): (..., min(m, n)), int32
    - `unpack_data` (bool, default True): False leaves L and U empty
    - `unpack_pivots` (bool, default True): False leaves P empty
    - `out` (tuple of three Tensors, default None): where to write them

    RuntimeError for pivots of another dtype or shape.

    Example::

        >>> import ferro
        >>> P, L, U = ferro.lu_unpack(*ferro.linalg.lu_factor(ferro.tensor([[0.0, 2.0], [1.0, 3.0]])))
        >>> P.tolist(), U.tolist()
        ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 3.0], [0.0, 2.0]])
    """
    name = "lu_unpack"
    matrices(name, LU_data, "LU_data")
    on_one_device(name, LU_data, LU_pivots)
    dtype = FROM_NUMPY[LU_data._data.dtype]
    P, L, U = (backend.functional.empty((0,), dtype=dtype, device=LU_data.device) for _ in range(3))
    if unpack_pivots:
        _check_pivots(name, LU_data, LU_pivots, "LU_pivots")
        P = _permutation_matrix(LU_data, LU_pivots)
    if unpack_data:
        L, U = _triangles(LU_data)
    return named(name, return_types.lu_unpack, (P, L, U), out)


def _check_pivots(name: str, packed: Any, pivots: Any, argument: str) -> None:
    """Refuses pivots that no factorisation of such a matrix has."""
    p = need_tensor(name, argument, pivots)._data
    *batch, m, n = packed._data.shape
    if p.dtype != np.int32:
        raise RuntimeError(
            f"{name}: {argument} must be a tensor of ferro.int32, got {FROM_NUMPY[p.dtype]}; "
            "use the pivots that linalg.lu_factor returns"
        )
    if not p.ndim or p.shape[-1] != min(m, n):
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix: "
            f"{min(m, n)} for a {m} by {n} matrix, got {argument} of shape {list(p.shape)}"
        )
    batches(name, tuple(batch), p.shape[:-1])
    require(
        (p >= 1) & (p <= m),
        RuntimeError,
        f"{name}: {argument} must lie between 1 and {m}, the number of rows",
        lambda: f", got {plain(p).min()} to {plain(p).max()}; use the pivots that linalg.lu_factor returns",
    )


def swap_rows(x: Any, pivots: Any, inverse: bool) -> Any:
    """Pᵀ X, the rows of X after the exchanges of an LU factorisation; inverse: P X."""
    return apply(SWAP_ROWS, (x, pivots), (inverse,))


SWAP_ROWS = Op(
    "linalg.swap_rows",
    lambda xp, x, pivots, /, inverse: xp.swap_rows(x, pivots, inverse),
    kind=LINEAR,
    x=lambda xp, g, pivots, inverse: xp.swap_rows(g, pivots, not inverse),
)


def _factors(shape: tuple, grad: bool = True) -> list:
    """Arguments (LU, pivots) of a square system."""
    steps = [[i + 1 + (i + 1 < shape[-1]) for i in range(shape[-1])]]
    count = int(np.prod(shape[:-2]))
    return [
        Arg(*shape, make=regular, grad=grad),
        Arg(*shape[:-1], dtype="int32", values=steps * count if count else np.zeros((0,))),
    ]


declare(
    "lu_unpack",
    [
        Sample(*_factors((3, 3))),
        Sample(*_factors((2, 2, 2))),
        Sample(*_factors((3, 3)), unpack_pivots=False),
        Sample(*_factors((3, 3), grad=False), unpack_data=False),
    ],
    complex=True,
)


# -- systems -----------------------------------------------------------------------------------------------------------


@in_full_precision
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution X of A X = B by the factors of `linalg.lu_factor`.

    - `LU` (Tensor): (..., n, n)
    - `pivots` (Tensor): (..., n), int32
    - `B` (Tensor): (..., n, k), or (..., k, n) with left=False
    - `left` (bool, default True): False solves X A = B
    - `adjoint` (bool, default False): takes Aᴴ for A
    - `out` (Tensor, default None): where to write the result

    Batches are broadcast. Differentiable by LU and B. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> LU, pivots = ferro.linalg.lu_factor(ferro.tensor([[0.0, 2.0], [1.0, 0.0]]))
        >>> ferro.linalg.lu_solve(LU, pivots, ferro.tensor([[2.0], [3.0]])).tolist()
        [[3.0], [1.0]]
    """
    result = _solved("linalg.lu_solve", LU, pivots, B, bool(left), bool(adjoint))
    return result if out is None else into("linalg.lu_solve", out, result)


@in_full_precision
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The solution X of A X = B by the factors of `linalg.lu_factor`: the older form of `linalg.lu_solve`.

    - `input` (Tensor): B, (..., n, k)
    - `LU_data` (Tensor): (..., n, n)
    - `LU_pivots` (Tensor): (..., n), int32
    - `out` (Tensor, default None): where to write the result

    Batches are broadcast. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.lu_solve(ferro.tensor([[2.0], [8.0]]), *ferro.lu(ferro.tensor([[2.0, 0.0], [0.0, 4.0]])))
        tensor([[1.],
                [2.]])
    """
    result = _solved("lu_solve", LU_data, LU_pivots, input, True, False)
    return result if out is None else into("lu_solve", out, result)


def _solved(name: str, LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> Any:
    square(name, LU, "LU")
    matrices(name, B, "B")
    one_dtype(name, LU, B, "LU")
    fits(name, LU, B, left)
    _check_pivots(name, LU, pivots, "pivots")
    return lu_packed_solve(LU, pivots, B, left, adjoint)


def lu_packed_solve(lu: Any, pivots: Any, b: Any, left: bool, adjoined: bool) -> Any:
    """`linalg.lu_solve` for arguments that fit: exchanges of rows and two triangular systems, either way round."""
    if not left:  # Xᴴ solves the adjoint system
        return adjoint(lu_packed_solve(lu, pivots, adjoint(b), True, not adjoined))
    if adjoined:
        lh = adjoint(lu)
        return swap_rows(solve_tri(lh, solve_tri(lh, b, False, True, False), True, True, True), pivots, True)
    return solve_tri(lu, solve_tri(lu, swap_rows(b, pivots, False), False, True, True), True, True, False)


declare(
    "linalg.lu_solve",
    [
        Sample(*_factors((3, 3)), Arg(3, 2)),
        Sample(*_factors((3, 3)), Arg(2, 3), left=False),
        Sample(*_factors((3, 3)), Arg(3, 2), adjoint=True),
        Sample(*_factors((2, 2, 2)), Arg(2, 1, 2, 2), left=False, adjoint=True),
        Sample(*_factors((2, 2)), Arg(3, 2, 1)),
    ],
    complex=True,
)
declare("lu_solve", [Sample(Arg(3, 2), *_factors((3, 3))), Sample(Arg(2, 2, 1), *_factors((2, 2, 2)))], complex=True)


class LUMethods:
    """Methods of Tensor."""

    __slots__ = ()
    lu, lu_solve = lu, lu_solve
