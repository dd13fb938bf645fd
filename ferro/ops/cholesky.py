"""The Cholesky factorisation of positive-definite matrices, and systems and inverses by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import plain
from ferro.core import backend, return_types
from ferro.core.apply import apply, unary
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.requirements import require_accepted
from ferro.core.samples import Arg, Sample, declare
from ferro.linalg_errors import Refused, raise_first
from ferro.ops.matrix_arguments import batches, matrices, named, one_dtype, square
from ferro.ops.products import adjoint, matmul
from ferro.ops.solving import regular
from ferro.ops.triangles import solve_tri

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cholesky", "cholesky_inverse", "cholesky_solve"]

_INDEFINITE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {i} is not positive-definite)."
)


@in_full_precision
def linalg_cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangular L with A = L Lᴴ, or with upper=True U = Lᴴ with A = Uᴴ U, of Hermitian positive-definite matrices.

    A: (..., n, n), of which only the lower (upper=True: the upper) triangle is read; LinAlgError names the first matrix
    that is not positive-definite.  dL = L Φ(L⁻¹ dA L⁻ᴴ), where Φ keeps the lower triangle and halves the diagonal
    (I. Murray, "Differentiation of the Cholesky decomposition", 2016, section 3).  The gradient is
    Hermitian (where that of L has a real diagonal, as L has).

    >>> import ferro
    >>> ferro.linalg.cholesky(ferro.tensor([[4.0, 2.0], [2.0, 2.0]])).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    return _checked("linalg.cholesky", A, upper, out)


@in_full_precision
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The older name of `linalg.cholesky`."""
    return _checked("cholesky", input, upper, out)


def _checked(name: str, A: Any, upper: bool, out: Any) -> Any:
    square(name, A)
    try:
        factor = unary(CHOLESKY, adjoint(A) if upper else A)
    except Refused as e:
        raise_first(name, e.info, _INDEFINITE)
        raise
    if upper:
        factor = adjoint(factor)
    return factor if out is None else into(name, out, factor)


@in_full_precision
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> return_types.linalg_cholesky_ex:
    """`linalg.cholesky` without an error: (L, info).

    - `A` (Tensor): (..., n, n), Hermitian, of which one triangle is read
    - `upper` (bool, default False): gives Lᴴ
    - `check_errors` (bool, default False): raises LinAlgError after all
    - `out` (tuple of two Tensors, default None): where to write both

    L is (..., n, n); info (...), int32: 0, or the order of the first leading minor that is not positive.

    Example::

        >>> import ferro
        >>> ferro.linalg.cholesky_ex(ferro.tensor([[1.0, 2.0], [2.0, 1.0]])).info.item()
        2
    """
    square("linalg.cholesky_ex", A)
    factor, info = apply(CHOLESKY_EX, (adjoint(A) if upper else A,))
    if upper:
        factor = adjoint(factor)
    if check_errors:
        require_accepted("linalg.cholesky_ex", info._data, _INDEFINITE)
    return named("linalg.cholesky_ex", return_types.linalg_cholesky_ex, (factor, info), out)


def _cholesky_x(xp: Any, g: Any, L: Any) -> Any:
    """L⁻ᴴ S L⁻¹, where S has the lower triangle of Lᴴ G / 2 and its mirror image."""
    lh = adjoint(L)
    m = xp.matmul(lh, xp.tril(g, 0))
    s = 0.5 * (xp.tril(m, 0) + adjoint(xp.tril(m, -1)))
    return adjoint(xp.solve_tri(lh, adjoint(xp.solve_tri(lh, s, True, True, False)), True, True, False))


def positive(rng: Any, shape: tuple) -> Any:
    """Symmetric positive-definite matrices far from singular."""
    x = regular(rng, shape)
    return x @ x.swapaxes(-1, -2) + 0.5 * np.eye(shape[-1])


# the gradient is the Hermitian one of several: finite differences of single elements see another
_POSITIVE = [
    Sample(Arg(3, 3, make=positive), smooth=False),
    Sample(Arg(2, 2, 2, make=positive), smooth=False),
    Sample(Arg(3, 3, make=positive), upper=True, smooth=False, complex=False),
    Sample(Arg(0, 0)),
    Sample(Arg(2, 0, 0)),
    Sample(Arg(0, 2, 2)),
    Sample(Arg(35, 35, make=positive), smooth=False),
]

CHOLESKY_EX = Op(
    "linalg.cholesky_ex",
    lambda xp, x: xp.cholesky_ex(x),
    outputs=("L", "info"),
    nondiff=("info",),
    x=_cholesky_x,
    weight=50.0,
    samples=_POSITIVE,
    complex=True,
)
CHOLESKY = Op(
    "linalg.cholesky", lambda xp, x: xp.cholesky(x), weight=50.0, x=lambda xp, g, out: _cholesky_x(xp, g, out)
)
CHOLESKY.backward_name = CHOLESKY_EX.backward_name  # as in PyTorch
declare("linalg.cholesky", _POSITIVE, complex=True)
declare("cholesky", _POSITIVE, complex=True)


# -- with the factor ---------------------------------------------------------------------------------------------------


@in_full_precision
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The solution X of A X = B by a Cholesky factor.

    - `input` (Tensor): B, (..., n, k)
    - `L` (Tensor): (..., n, n), of which one triangle is read: A = L Lᴴ
    - `upper` (bool, default False): takes L as the upper factor U, A = Uᴴ U
    - `out` (Tensor, default None): where to write the result

    X is (..., n, k); batches are broadcast. The gradient by L is a triangle. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.cholesky_solve(ferro.tensor([[4.0], [4.0]]), 2 * ferro.eye(2)).tolist()
        [[1.0], [1.0]]
    """
    name = "cholesky_solve"
    matrices(name, input, "b")
    square(name, L)
    one_dtype(name, input, L, "b", "A")
    s, t = L._data.shape, input._data.shape
    if s[-1] != t[-2]:
        raise RuntimeError(
            f"{name}: Incompatible matrix sizes: each A matrix is {s[-2]} by {s[-1]} "
            f"but each b matrix is {t[-2]} by {t[-1]}"
        )
    batches(name, s[:-2], t[:-2])
    lower = adjoint(L) if upper else L
    result = solve_tri(adjoint(lower), solve_tri(lower, input, False, True, False), True, True, False)
    return result if out is None else into(name, out, result)


def _multiplied(factor: Any) -> Any:
    """L Lᴴ of NumPy arrays.  (PyTorch's gradients by L have entries above the triangle, which is not read.)"""
    lower = np.tril(factor)
    return lower @ lower.conj().swapaxes(-1, -2)


declare(
    "cholesky_solve",
    [
        Sample(Arg(3, 2), Arg(3, 3, make=regular)),
        Sample(Arg(2, 3, 1), Arg(3, 3, make=regular)),
        Sample(Arg(2, 1), Arg(3, 2, 2, make=regular)),
        Sample(Arg(0, 2), Arg(0, 0)),
    ],
    complex=True,
    reference=lambda b, factor: np.linalg.solve(_multiplied(factor), b),
)


@in_full_precision
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A = L Lᴴ (upper=True: of A = Uᴴ U, U in the place of L), of which one triangle is read.

    L: (..., n, n); LinAlgError for a zero on the diagonal.  As L⁻ᴴ L⁻¹; the gradient by L is a triangle.

    >>> import ferro
    >>> ferro.cholesky_inverse(2 * ferro.eye(2)).tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """
    name = "cholesky_inverse"
    data = plain(square(name, L)._data)
    zero = data.diagonal(0, -2, -1) == 0
    if data.shape[-1]:
        require_accepted(
            name,
            zero.any(-1) * (zero.argmax(-1) + 1),
            "The diagonal element {i} is zero, the inversion could not be completed because the input matrix is singular.",
        )
    eye = backend.functional.eye(data.shape[-1], dtype=FROM_NUMPY[data.dtype], device=L.device)
    y = solve_tri(adjoint(L) if upper else L, eye, False, True, False)
    result = matmul(adjoint(y), y)
    return result if out is None else into(name, out, result)


declare(
    "cholesky_inverse",
    [Sample(Arg(3, 3, make=regular)), Sample(Arg(2, 2, 2, make=regular)), Sample(Arg(0, 0)), Sample(Arg(0, 2, 2))],
    complex=True,
    reference=lambda factor: np.linalg.inv(_multiplied(factor)),
)


class CholeskyMethods:
    """Methods of Tensor."""

    __slots__ = ()
    cholesky, cholesky_inverse, cholesky_solve = cholesky, cholesky_inverse, cholesky_solve
