"""Determinants of NumPy arrays and their derivatives of every order, at singular matrices too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.cpu.kernels import factor
from ferro.cpu.lapack import SMALL, native
from ferro.cpu.linalg_solve import lu_factor
from ferro.native.blas import blas_single

__all__ = ["cofactors", "det", "slogdet"]


def det(x: Any) -> Any:
    """The determinants of (a stack of) square matrices."""
    char = x.dtype.char
    with blas_single():
        return np.asarray(native("det", f"{char}->{char}", np.linalg.det, x))


def _squares(make: Make) -> Iterator[tuple]:
    for n in (*sides(SMALL + 1), 100):
        yield (make(n, n),)
        yield (make(2, n, n),)


@by_kernels("log_determinants", _squares, lambda _, found: found[:2])
def slogdet(x: Any) -> tuple:
    """(det A / |det A|, ln |det A|, LU, pivots); (0, -inf) for a singular matrix. Of small matrices no factors: None."""
    if x.shape[-1] <= SMALL:
        char = x.dtype.char
        sign, log = native("slogdet", f"{char}->{char}{x.real.dtype.char}", np.linalg.slogdet, x)
        return np.asarray(sign), np.asarray(log), None, None
    lu, pivots, _ = lu_factor(x)
    if factor.ready(x):
        return *factor.log_determinants(lu, pivots), lu, pivots
    diagonal = lu.diagonal(0, -2, -1)
    exchanges = np.count_nonzero(pivots != np.arange(1, pivots.shape[-1] + 1), axis=-1)
    sign = np.sign(diagonal).prod(-1) * (1 - 2 * (exchanges % 2))
    with np.errstate(divide="ignore"):
        log = np.log(abs(diagonal)).sum(-1)
    return np.asarray(sign, x.dtype), np.asarray(log), lu, pivots


def cofactors(xs: tuple) -> Any:
    """The matrix C of derivatives by A of Dᵐdet(A)[E₁, ..., Eₘ], for xs = (A, E₁, ..., Eₘ) of one shape.

    With m = 0 these are the cofactors: d det A = Σ C dA.  Where A is well conditioned, C = det(A) A⁻ᵀ and its
    derivative serve; elsewhere the singular value decomposition, in which no quotient appears (`_by_svd`).
    """
    a, directions = xs[0], xs[1:]
    if not a.size:
        return np.zeros(a.shape, a.dtype)
    m = len(directions)
    with np.errstate(all="ignore"), blas_single():
        if m > 1:
            return _by_svd(a, directions)
        inverse = _inverse(a)
        condition = _norm(a) * _norm(inverse)
        # what is lost of the digits: the condition number; at second order its square
        good = condition < np.finfo(a.dtype).eps ** (-1 / 3 if m == 0 else -1 / 5)
        c = np.linalg.det(a)[..., None, None] * inverse.swapaxes(-1, -2)
        if m:
            e = directions[0]
            product = inverse @ e
            trace = np.trace(product, axis1=-2, axis2=-1)[..., None, None]
            c = trace * c - c @ product.swapaxes(-1, -2)
        good &= np.isfinite(c).all((-2, -1))
        if not good.all():
            bad = ~good
            c = np.array(c)
            c[bad] = _by_svd(a[bad], tuple([e[bad] for e in directions]))
    return c.astype(a.dtype, copy=False)


def _inverse(a: Any) -> Any:
    """A⁻¹, all nan if a matrix of the stack is singular."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full(a.shape, np.nan, a.dtype)
        return np.stack([_inverse(b) for b in a])


def _norm(a: Any) -> Any:
    return abs(a).sum(-2).max(-1)


def _by_svd(a: Any, directions: tuple) -> Any:
    """C by A = U S Vᴴ: with Fₖ = Uᴴ Eₖ V, det of the sum S + Σ tₖ Fₖ is a polynomial that needs no quotient.

    Its coefficient at t₁ ... tₘ is Σ_i P(i) Σ_σ sgn σ Π Fₖ[iₖ, i_σ(k)], over distinct i₁, ..., iₘ and permutations σ, P(i)
    the product of the other singular values.  (G. W. Stewart, "On the adjugate matrix", Linear Algebra Appl. 283 (1998),
    for m = 0; R. Bhatia and T. Jain, "Higher order derivatives and perturbation bounds for determinants", Linear
    Algebra Appl. 431 (2009), for any m.)
    """
    n, m = a.shape[-1], len(directions)
    fine = np.isfinite(a).all((-2, -1))
    if not fine.all():  # LAPACK's iteration would not converge: nan for the matrices concerned
        out = np.full(a.shape, np.nan, a.dtype)
        out[fine] = _by_svd(a[fine], tuple([e[fine] for e in directions]))
        return out
    wide = np.result_type(a.dtype, np.float64)
    u, s, vh = np.linalg.svd(a.astype(wide))
    phase = np.linalg.det(u) * np.linalg.det(vh)
    uh, v = u.conj().swapaxes(-1, -2), vh.conj().swapaxes(-1, -2)
    f = [uh @ e.astype(wide) @ v for e in directions]
    others = _products_of_others(s, m + 1)
    middle = np.zeros(a.shape, wide)
    letters = "abcdefghijkl"[: m + 1]
    diagonal = np.arange(n)
    for sigma in permutations(range(m + 1)):
        factors = [f"...{letters[k]}{letters[sigma[k]]}" for k in range(m)]
        last, to = letters[m], letters[sigma[m]]
        target = f"...{last}" if last == to else f"...{last}{to}"
        term = _sign(sigma) * np.einsum(",".join([f"...{letters}", *factors]) + "->" + target, others, *f)
        if last == to:
            middle[..., diagonal, diagonal] += term
        else:
            middle += term
    return (phase[..., None, None] * (u.conj() @ middle @ vh.conj())).astype(a.dtype)


def _sign(sigma: tuple) -> int:
    """The sign of a permutation."""
    inversions = sum(1 for i, p in enumerate(sigma) for q in sigma[i + 1 :] if q < p)
    return -1 if inversions % 2 else 1


def _products_of_others(s: Any, k: int) -> Any:
    """For all i₁, ..., iₖ the product of the elements of s that have other numbers; 0 where two of the i are equal.

    Mantissas and exponents are multiplied apart: a part of the product may overflow where the whole does not.
    """
    n = s.shape[-1]
    mantissa, exponent = np.frexp(s)
    exponent = exponent.astype(np.int64)
    same = np.eye(n, dtype=bool)
    repeated = np.zeros((n,) * k, bool)
    for step in range(1, k):
        mantissa = np.where(same, 1, mantissa[..., None, :])
        exponent = np.where(same, 0, exponent[..., None, :])
        shapes = [[n if d in (i, step) else 1 for d in range(k)] for i in range(step)]
        for shape in shapes:
            repeated |= same.reshape(shape)
    one, zero = np.ones((*mantissa.shape[:-1], 1)), np.zeros((*mantissa.shape[:-1], 1), np.int64)
    before = np.concatenate([one, mantissa[..., :-1]], -1).cumprod(-1)
    after = np.concatenate([one, mantissa[..., :0:-1]], -1).cumprod(-1)[..., ::-1]
    low = np.concatenate([zero, exponent[..., :-1]], -1).cumsum(-1)
    high = np.concatenate([zero, exponent[..., :0:-1]], -1).cumsum(-1)[..., ::-1]
    product = np.ldexp(before * after, np.clip(low + high, -(2**20), 2**20).astype(np.int32))
    return np.where(repeated, 0, product) if k > 1 else product
