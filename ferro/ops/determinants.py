"""Determinants, their signs and logarithms, and the matrix of cofactors with its derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import return_types
from ferro.core.apply import apply
from ferro.core.dtypes import COMPLEX
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.comparison import eq
from ferro.ops.matrix_arguments import named, square
from ferro.ops.products import adjoint
from ferro.ops.solving import regular

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["det", "logdet", "slogdet"]


def det(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants (...) of square matrices (..., n, n).

    d det A = Σ Cᵢⱼ dAᵢⱼ with the cofactors C, which exist at singular matrices too: derivatives of every order are those
    of the polynomial, whatever the rank.

    >>> import ferro
    >>> a = ferro.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    >>> ferro.linalg.det(a).backward()
    >>> a.grad.round(decimals=5).tolist()
    [[4.0, -2.0], [-2.0, 1.0]]
    """
    result = apply(DET, (square("linalg.det", input),))
    return result if out is None else into("linalg.det", out, result)


def _deficient(rank: int) -> Any:
    """A `make` for matrices of a given rank."""

    def make(rng: Any, shape: tuple) -> Any:
        x, y = rng.uniform(-1, 1, (*shape[:-1], rank)), rng.uniform(-1, 1, (*shape[:-2], rank, shape[-1]))
        return x @ y

    return make


_SQUARE = [
    Sample(Arg(3, 3, make=regular)),
    Sample(Arg(2, 2, 2, make=regular)),
    Sample(Arg(1, 1, low=0.5)),
    Sample(Arg(2, 1, 4, 4, make=regular)),
    Sample(Arg(0, 2, 2)),
    Sample(Arg(0, 0)),
]

DET = Op(
    "linalg.det",
    lambda xp, x: xp.det(x),
    weight=50.0,
    x=lambda xp, g, x: g[..., None, None] * xp.cofactors((x,)).conj(),
    samples=_SQUARE,
    complex=True,
)
declare("det", _SQUARE, complex=True)


def cofactors(xs: tuple) -> Any:
    """The derivative by A of the m-th derivative of det at A along E₁, ..., Eₘ, for xs = (A, E₁, ..., Eₘ)."""
    return apply(COFACTORS, tuple(xs))


def _cofactors_vjp(xp: Any, g: Any, needs: tuple, xs: tuple) -> list:
    """The family is closed: the derivative by A takes the cotangent as one direction more, that by Eₖ in the place of Eₖ."""
    h = g.conj()
    moved = [(*xs, h), *[(*xs[:k], h, *xs[k + 1 :]) for k in range(1, len(xs))]]
    return [xp.cofactors(m).conj() if wanted else None for m, wanted in zip(moved, needs, strict=False)]


COFACTORS = Op(
    "linalg.cofactors", lambda xp, xs: xp.cofactors(xs), variadic=True, vjp=_cofactors_vjp, diff=("xs",), weight=100.0
)


def linalg_slogdet(A: Tensor, *, out: Any = None) -> return_types.linalg_slogdet:
    """(sign, logabsdet): det A = sign exp(logabsdet), of square matrices (..., n, n); (0, -inf) at a singular one.

    d logabsdet = Re tr(A⁻¹ dA), d sign = i sign Im tr(A⁻¹ dA): inf or nan at a singular matrix.

    >>> import ferro
    >>> sign, logabsdet = ferro.linalg.slogdet(ferro.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    results = apply(SLOGDET, (square("linalg.slogdet", A),))
    return named("linalg.slogdet", return_types.linalg_slogdet, results, out)


def slogdet(input: Tensor, *, out: Any = None) -> return_types.slogdet:
    """(sign, logabsdet) of square matrices: `linalg.slogdet`."""
    return named("slogdet", return_types.slogdet, apply(SLOGDET, (square("slogdet", input),)), out)


def _slogdet_x(xp: Any, g: Any, x: Any, sign: Any, lu: Any, pivots: Any) -> Any:
    """c A⁻ᴴ with c = g_log - i Im(conj(g_sign) sign); the inverse by the factors of forward where they were kept."""
    g_sign, g_log = g
    c: Any = None
    if g_sign is not None:
        product = g_sign.conj() * sign
        c = 0.5 * (product.conj() - product)
    if g_log is not None:
        c = g_log if c is None else g_log + c
    if lu is None:
        return c[..., None, None] * adjoint(xp.inv_ex(x)[0])
    n = len(x.shape)
    return xp.lu_packed_solve(
        lu, pivots, xp.diag_embed(c[..., None] * xp.ones_like(x[..., 0]), 0, n - 2, n - 1), True, True
    )


SLOGDET = Op(
    "linalg.slogdet",
    lambda xp, x: xp.slogdet(x),
    outputs=("sign", "logabsdet"),
    aux=("lu", "pivots"),
    x=_slogdet_x,
    weight=50.0,
    samples=_SQUARE,
    complex=True,
)
declare("slogdet", _SQUARE, complex=True)


def logdet(input: Tensor) -> Tensor:
    """ln det A of square matrices (..., n, n): nan where det A < 0 (of a real A), -inf where it is 0.

    d ln det A = tr(A⁻¹ dA); the gradient is 0 where the value is nan.

    >>> import ferro
    >>> ferro.logdet(ferro.eye(2)).item()
    0.0
    """
    sign, logabsdet = apply(SLOGDET, (square("logdet", input),))
    if sign._data.dtype in COMPLEX:
        return sign.log() + logabsdet
    return logabsdet.masked_fill(eq(sign, -1), math.nan)


declare(
    "logdet",
    [
        *_SQUARE,
        Sample(
            Arg(3, 3, make=lambda rng, shape: -np.eye(3) + 0.1 * rng.uniform(-1, 1, shape)), complex=False, smooth=False
        ),
    ],
    complex=True,
)


_RANK_ONE = Sample(Arg(values=[[1.0, 2.0], [2.0, 4.0]]))
singular("linalg.det", "rank one less than the order", _RANK_ONE, "the cofactors: det is a polynomial")
singular(
    "linalg.det",
    "rank two less than the order",
    Sample(Arg(values=[[0.0, 0.0], [0.0, 0.0]])),
    "det is a polynomial: the gradient is 0, the second derivative is not",
)
singular("linalg.slogdet", "a singular matrix", _RANK_ONE, "ln |det A| has a pole there")
singular("logdet", "a singular matrix", _RANK_ONE, "ln det A has a pole there")
singular(
    "logdet",
    "a negative determinant",
    Sample(Arg(values=[[1.0, 0.0], [0.0, -1.0]])),
    "the value is nan, whatever A is nearby",
)


class DeterminantMethods:
    """Methods of Tensor."""

    __slots__ = ()
    det, logdet, slogdet = det, logdet, slogdet
