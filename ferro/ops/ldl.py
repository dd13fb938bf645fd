"""The LDL factorisation of symmetric and Hermitian, not necessarily definite matrices, and systems solved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, return_types
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.into import into
from ferro.core.op import LINEAR, Op
from ferro.core.requirements import require, require_accepted
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.lu import swap_rows
from ferro.ops.matrix_arguments import batches, fits, matrices, named, one_dtype, square
from ferro.ops.products import adjoint
from ferro.ops.triangles import solve_tri

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = []

_SINGULAR = (
    "D[{i},{i}] is zero: the factorization is complete, but using it on ldl_solve would result in a division by zero. "
    "If you still want it, call linalg.ldl_factor_ex(A)"
)


@in_full_precision
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> return_types.linalg_ldl_factor:
    """(LD, pivots) with A = P L D Lᵀ Pᵀ, or (hermitian) P L D Lᴴ Pᵀ, D of blocks of size 1 and 2, as LAPACK packs them.

    A: (..., n, n), of which the lower triangle is read; LD: (..., n, n); pivots: (..., n), int32: a positive p exchanges
    the row with row p, two negative -p begin a block of size 2 and exchange its second row with row p (J. R. Bunch and
    L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", Math. Comp. 31
    (1977)).  RuntimeError where D is exactly singular.

    With M = L⁻¹ Pᵀ dA P L⁻ᵀ, dD is the part of M in the blocks of D and dL = L (part below them) D⁻¹; the gradient is
    symmetric (Hermitian).  PyTorch has no derivative.

    >>> import ferro
    >>> LD, pivots = ferro.linalg.ldl_factor(ferro.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> LD.tril().tolist(), pivots.tolist()
    ([[0.0, 0.0], [1.0, 0.0]], [-2, -2])
    """
    packed, pivots, info = _factor("linalg.ldl_factor", A, hermitian)
    require_accepted("linalg.ldl_factor", info._data, _SINGULAR, RuntimeError)
    return named("linalg.ldl_factor", return_types.linalg_ldl_factor, (packed, pivots), out)


@in_full_precision
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> return_types.linalg_ldl_factor_ex:
    """`linalg.ldl_factor` without an error: (LD, pivots, info).

    - `A` (Tensor): (..., n, n), symmetric
    - `hermitian` (bool, default False): takes a complex A as Hermitian
    - `check_errors` (bool, default False): raises LinAlgError after all
    - `out` (tuple of three Tensors, default None): where to write them

    info is (...), int32: 0, or the number of the first zero block of D. RuntimeError for matrices that are not square.

    Example::

        >>> import ferro
        >>> LD, pivots, info = ferro.linalg.ldl_factor_ex(ferro.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> info
        tensor(0, dtype=ferro.int32)
    """
    packed, pivots, info = _factor("linalg.ldl_factor_ex", A, hermitian)
    if check_errors:
        require_accepted("linalg.ldl_factor_ex", info._data, _SINGULAR, RuntimeError)
    return named("linalg.ldl_factor_ex", return_types.linalg_ldl_factor_ex, (packed, pivots, info), out)


def _factor(name: str, A: Any, hermitian: bool) -> tuple:
    return apply(LDL_FACTOR, (square(name, A),), (bool(hermitian),))


def _mirrored(x: Any, hermitian: bool) -> Any:
    return adjoint(x) if hermitian else x.swapaxes(-1, -2)


def _divided(xp: Any, ld: Any, pivots: Any, y: Any, hermitian: bool) -> Any:
    """D⁻¹ Y.  Rows of a block of two are scaled by its large off-diagonal element, as in LAPACK."""
    partners, pair = xp.ldl_blocks(pivots)
    d = xp.diagonal(ld, 0, ld.ndim - 2, ld.ndim - 1)
    below = xp.tril(ld, -1)
    both = below + _mirrored(below, hermitian)
    off = xp.gather(both, both.ndim - 1, partners[..., None])[..., 0]
    off = xp.where(pair, off, xp.ones_like(off))
    last = d.ndim - 1
    off_other = xp.gather(off, last, partners)[..., None]
    d_other = xp.gather(d, last, partners)[..., None] / off_other
    y_other = xp.gather(y, y.ndim - 2, xp.expand(partners[..., None], y.shape)) / off_other
    d, off, pair = d[..., None], off[..., None], pair[..., None]
    numerator = xp.where(pair, d_other * (y / off) - y_other, y)
    return numerator / xp.where(pair, (d / off) * d_other - 1, d)


def _ldl_x(xp: Any, g: Any, ld: Any, pivots: Any, hermitian: bool) -> Any:
    """P L⁻ᴴ (below(Lᴴ G_L D⁻ᴴ) + G_D) L⁻¹ Pᵀ, its symmetric or Hermitian part (L⁻¹ conjugated where A is symmetric)."""
    lower = xp.ldl_multipliers(ld, pivots, False)
    gl = xp.ldl_multipliers(g, pivots, False)
    gd = xp.tril(g, 0) - xp.ldl_multipliers(gl, pivots, True)
    lh = adjoint(lower)
    below = adjoint(_divided(xp, ld, pivots, adjoint(gl + xp.matmul(lh, gl)), hermitian))
    # what is not below the blocks is dropped; there is no exchange to be undone in that place
    middle = gd + below * xp.ldl_below(pivots, ld)
    middle = xp.solve_tri(lh, middle, True, True, True)
    middle = xp.solve_tri(lower if hermitian else lower.conj(), middle, False, False, True)
    exchanges = xp.ldl_exchanges(pivots)
    found = xp.swap_rows(middle, exchanges, True)
    found = xp.swap_rows(found.swapaxes(-1, -2), exchanges, True).swapaxes(-1, -2)
    return 0.5 * (found + _mirrored(found, hermitian))


def indefinite(rng: Any, shape: tuple) -> Any:
    """Symmetric matrices with small diagonals: LAPACK takes blocks of size 2."""
    x = rng.uniform(-1, 1, shape)
    x = x + x.swapaxes(-1, -2)
    return x * (1 - 0.95 * np.eye(shape[-1]))


_SYMMETRIC = [
    Sample(Arg(*shape, make=indefinite), smooth=False) for shape in ((4, 4), (2, 3, 3), (1, 1), (0, 0), (0, 2, 2))
]


def _by_lapack(x: Any) -> list:
    """LD, pivots and info, one matrix after another: PyTorch has values, but no derivative to compare with."""
    from scipy.linalg.lapack import get_lapack_funcs

    results = [np.zeros(x.shape, x.dtype), np.zeros(x.shape[:-1], np.int32), np.zeros(x.shape[:-2], np.int32)]
    for i in np.ndindex(x.shape[:-2]) if x.size else ():
        factor: Any = get_lapack_funcs("sytrf", (x[i],))
        for result, found in zip(results, factor(x[i], lower=1), strict=True):
            result[i] = found
    return [np.tril(results[0]), *results[1:]]


LDL_FACTOR = Op(
    "linalg.ldl_factor_ex",
    lambda xp, x, /, hermitian: xp.ldl_factor(x, hermitian),
    outputs=("ld", "pivots", "info"),
    nondiff=("pivots", "info"),
    x=_ldl_x,
    weight=50.0,
)
declare("linalg.ldl_factor_ex", _SYMMETRIC, complex=True, reference=_by_lapack)
declare("linalg.ldl_factor", _SYMMETRIC, complex=True, reference=lambda x: _by_lapack(x)[:2])


def ldl_multipliers(ld: Any, pivots: Any, inverse: bool) -> Any:
    """What L has below the blocks of D; inverse: the transpose of that linear map."""
    return apply(MULTIPLIERS, (ld, pivots), (inverse,))


MULTIPLIERS = Op(
    "linalg.ldl_multipliers",
    lambda xp, ld, pivots, /, inverse: xp.ldl_multipliers(ld, pivots, inverse),
    kind=LINEAR,
    ld=lambda xp, g, pivots, inverse: xp.ldl_multipliers(g, pivots, not inverse),
)


def ldl_blocks(pivots: Any) -> tuple:
    """For each row the other row of its block of two, or itself; and whether there is another."""
    partners, pair = backend.xp_of(pivots._data).ldl_blocks(pivots._data)
    return wrap(partners), wrap(pair)


def ldl_exchanges(pivots: Any) -> Any:
    """The exchanges of rows as `lu_factor` gives them."""
    return wrap(backend.xp_of(pivots._data).ldl_exchanges(pivots._data))


def ldl_below(pivots: Any, like: Any) -> Any:
    """Ones below the blocks of D, zeros elsewhere."""
    return wrap(backend.xp_of(pivots._data).ldl_below(pivots._data, like._data))


@in_full_precision
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """The solution X of A X = B by the factors of `linalg.ldl_factor`.

    - `LD` (Tensor): (..., n, n)
    - `pivots` (Tensor): (..., n), integers
    - `B` (Tensor): (..., n, k)
    - `hermitian` (bool, default False): as in `ldl_factor`
    - `out` (Tensor, default None): where to write the result

    X is (..., n, k); batches are broadcast. Differentiable by LD and B (in PyTorch it is not). RuntimeError for shapes
    that do not fit.

    Example::

        >>> import ferro
        >>> LD, pivots = ferro.linalg.ldl_factor(ferro.tensor([[0.0, 1.0], [1.0, 0.0]]))
        >>> ferro.linalg.ldl_solve(LD, pivots, ferro.tensor([[2.0], [3.0]])).tolist()
        [[3.0], [2.0]]
    """
    name = "linalg.ldl_solve"
    square(name, LD, "LD")
    matrices(name, B, "B")
    one_dtype(name, LD, B, "LD")
    fits(name, LD, B)
    p = need_tensor(name, "pivots", pivots)._data
    if p.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers, got {FROM_NUMPY[p.dtype]}")
    if p.shape != LD._data.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(p.shape)} and LD with shape {list(LD._data.shape)}"
        )
    sizes = abs(p)
    require(
        (sizes >= 1) & (sizes <= p.shape[-1]),
        RuntimeError,
        f"{name}: pivots must lie between 1 and {p.shape[-1]} or between -{p.shape[-1]} and -1; "
        "use the pivots that linalg.ldl_factor returns",
    )
    twos = f"{name}: negative pivots must come in twos; use the pivots that linalg.ldl_factor returns"
    require((p < 0) == ldl_blocks(pivots)[1]._data, RuntimeError, twos)
    n = p.shape[-1]
    batch = batches(name, p.shape[:-1], B._data.shape[:-2])
    LD, pivots, B = LD.expand(*batch, n, n), pivots.expand(*batch, n), B.expand(*batch, *B._data.shape[-2:])
    lower, exchanges = ldl_multipliers(LD, pivots, False), ldl_exchanges(pivots)
    y: Any = solve_tri(lower, swap_rows(B, exchanges, False), False, True, True)
    y = _divided(backend.functional, LD, pivots, y, hermitian)
    result = swap_rows(solve_tri(_mirrored(lower, hermitian), y, True, True, True), exchanges, True)
    return result if out is None else into(name, out, result)


def _by_elimination(ld: Any, pivots: Any, b: Any) -> Any:
    """The solution with the matrix multiplied out, for the pivots of the samples."""
    if not ld.size:
        return b
    d = np.tril(ld)
    d[2, :2] = 0
    d[0, 1] = d[1, 0]
    lower = np.eye(3, dtype=ld.dtype)
    lower[2, :2] = ld[2, :2]
    return np.linalg.solve(lower @ d @ lower.T, b)


_FACTORS = [Arg(3, 3, low=0.5), Arg(values=[-2, -2, 3], dtype="int32")]
declare(
    "linalg.ldl_solve",
    [
        Sample(*_FACTORS, Arg(3, 2)),
        Sample(*_FACTORS, Arg(3, 1), hermitian=True, complex=False),
        Sample(Arg(0, 0), Arg(0, dtype="int32"), Arg(0, 2)),
    ],
    complex=True,
    reference=_by_elimination,
)
