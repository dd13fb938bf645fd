"""QR decompositions, and products of Householder reflectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import return_types
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.matrix_arguments import matrices, named, one_dtype
from ferro.ops.products import adjoint
from ferro.ops.spectral import MATRICES

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["geqrf", "orgqr", "ormqr", "qr"]

MODES = ("reduced", "r", "complete")


# -- QR ----------------------------------------------------------------------------------------------------------------


@in_full_precision
def linalg_qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> return_types.linalg_qr:
    """A = Q R as (Q, R), for A (..., m, n) and k = min(m, n): Q has orthonormal columns, R is upper triangular.

    mode "reduced": Q (..., m, k), R (..., k, n); "complete": Q (..., m, m), R (..., m, n); "r": an empty Q, R as
    reduced.  The diagonal of R is real; its signs are LAPACK's choice.

    With C = Qᴴ dA R⁻¹ split into a skew-Hermitian and an upper triangular part, the first is Qᴴ dQ and the second dR R⁻¹
    (Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
    experimental design", section 3; for wide matrices Roberts and Roberts, "QR and LQ decomposition matrix
    backpropagation algorithms").  Derivatives are inf or nan where the first k columns are linearly dependent.

    Raises RuntimeError for another mode, and in backward for "r" (which has no Q) and for "complete" with
    m > n (where the last columns of Q are an arbitrary basis).

        >>> import ferro
        >>> Q, R = ferro.linalg.qr(ferro.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> (Q @ R).round()
        tensor([[3., 1.],
                [4., 2.]])
    """
    matrices("linalg.qr", A)
    if mode not in MODES:
        raise RuntimeError(
            f"linalg.qr: qr received unrecognized mode {mode!r} but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return named("linalg.qr", return_types.linalg_qr, qr_factors(A, mode), out)


@in_full_precision
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> return_types.qr:
    """(Q, R), reduced, or complete with some=False: the older form of `linalg.qr`."""
    matrices("qr", input, "input")
    return named("qr", return_types.qr, qr_factors(input, "reduced" if some else "complete"), out)


def qr_factors(x: Tensor, mode: str) -> tuple:
    """(Q, R)."""
    return apply(QR, (x,), (mode,))


def _qr_x(xp: Any, g: Any, Q: Any, R: Any, mode: str) -> Any:
    gq, gr = g
    if mode == "r":
        raise RuntimeError(
            "linalg.qr: The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to differentiate through it."
        )
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > ncols: the last "
            "columns of Q are an arbitrary basis; use mode='reduced'"
        )
    if m >= n:
        return _square_qr(xp, gq, Q, gr, R)
    if gq is None:
        gq = xp.zeros_like(Q)
    if gr is None:
        gr = xp.zeros_like(R)
    # A = [X, Y] with X = Q R₁ square and Y = Q R₂: R₂ = Qᴴ Y hands its cotangent on to Q and Y
    r1, r2, g1, g2 = R[..., :m], R[..., m:], gr[..., :m], gr[..., m:]
    gy = xp.matmul(Q, g2)
    inner = xp.matmul(adjoint(Q), gq) + xp.matmul(r2, adjoint(g2))
    gx = xp.solve_tri(
        adjoint(r1), xp.matmul(Q, inner + _reflected(xp, xp.matmul(g1, adjoint(r1)) - inner)), False, False, False
    )
    return xp.cat([gx, gy], len(gx.shape) - 1)


def _square_qr(xp: Any, gq: Any, q: Any, gr: Any, r: Any) -> Any:
    """The gradient where R is square; one of its parts may be absent."""
    if gr is None:
        rest = -xp.matmul(adjoint(q), gq)
    else:
        rest = xp.matmul(gr, adjoint(r))
        if gq is not None:
            rest = rest - xp.matmul(adjoint(q), gq)
    found = xp.matmul(q, _reflected(xp, rest))
    return xp.solve_tri(adjoint(r), found if gq is None else gq + found, False, False, False)


def _reflected(xp: Any, x: Any) -> Any:
    """The Hermitian matrices with the upper triangles of x, of the diagonal the real part."""
    above = xp.triu(x, 1)
    if getattr(x, "_data", x).dtype.kind != "c":
        return xp.triu(x, 0) + adjoint(above)
    on = xp.tril(xp.triu(x, 0), 0)
    return above + adjoint(above) + (on + on.conj()) / 2


QR = Op("linalg.qr", lambda xp, x, /, mode: xp.qr_factors(x, mode), outputs=("Q", "R"), x=_qr_x, weight=500.0)
# The signs are LAPACK's, which PyTorch need not share.
declare(
    "linalg.qr",
    [Sample(Arg(*s)) for s in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 3), (2, 2, 0))],
    complex=True,
    reference=lambda a: tuple(np.linalg.qr(a)),
)
declare(
    "qr",
    [Sample(Arg(2, 3), False), Sample(Arg(3, 3), some=False)],
    complex=True,
    reference=lambda a: tuple(np.linalg.qr(a, "complete")),
)


singular(
    "linalg.qr",
    "dependent columns",
    Sample(Arg(values=[[1.0, 2.0], [0.0, 0.0]])),
    "the last columns of Q are not continuous there: no finite number would be right",
)


# -- reflectors --------------------------------------------------------------------------------------------------------


def geqrf(input: Tensor, *, out: Any = None) -> return_types.geqrf:
    """(a, tau): the QR decomposition as LAPACK leaves it, R on and above the diagonal of a, reflectors below it.

    Not differentiable, as in PyTorch: raises NotImplementedError in backward; use `linalg.qr`.
    """
    matrices("geqrf", input, "input")
    return named("geqrf", return_types.geqrf, apply(GEQRF, (input,)), out)


def _geqrf_x(xp: Any, g: Any) -> Any:
    raise NotImplementedError("geqrf: the derivative for 'geqrf' is not implemented; linalg.qr has one")


def _raw_qr(a: Any) -> tuple:
    h, tau = np.linalg.qr(a, "raw")
    return h.swapaxes(-1, -2), tau


GEQRF = Op("geqrf", lambda xp, x: xp.geqrf(x), outputs=("a", "tau"), x=_geqrf_x, weight=500.0)
declare("geqrf", [Sample(a) for a in MATRICES], complex=True, differentiable=False, reference=_raw_qr)


def _need_reflectors(name: str, a: Any, tau: Any) -> None:
    matrices(name, a, "input")
    s, t = a._data.shape, tau._data.shape
    if len(t) != len(s) - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
            f"{len(t)} and input.ndim is equal to {len(s)}"
        )
    if t[:-1] != s[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2] = {list(s[:-2])}, "
            f"but got {list(t[:-1])}"
        )
    one_dtype(name, a, tau, "input", "tau")


@in_full_precision
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of H₁ ... H_k for A (..., m, n) with m >= n and tau (..., k) with k <= n.

    Hᵢ = I - tauᵢ v vᴴ, where v is column i of A with 1 on the diagonal and 0 above it.  See `ormqr` for the derivative.

        >>> import ferro
        >>> A = ferro.tensor([[3.0], [4.0]])
        >>> ferro.linalg.householder_product(*ferro.geqrf(A))
        tensor([[-0.6000],
                [-0.8000]])
    """
    name = "linalg.householder_product"
    _need_reflectors(name, A, tau)
    m, n = A._data.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {m} and {n}")
    if n < tau._data.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1], got {n} and {tau._data.shape[-1]}"
        )
    result = apply(HOUSEHOLDER, (A, tau))
    return result if out is None else into(name, out, result)


@in_full_precision
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`linalg.householder_product`."""
    return householder_product(input, input2, out=out)


@in_full_precision
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Q C, for a square Q = H₁ ... H_k that is given by reflectors.

    - `input` (Tensor): the reflectors, (..., p, q) with p = m (left=False: n), as `geqrf` gives them
    - `tau` (Tensor): (..., min(p, q))
    - `other` (Tensor): C, (..., m, n)
    - `left` (bool, default True): False gives C Q
    - `transpose` (bool, default False): takes Qᴴ for Q
    - `out` (Tensor, default None): where to write the result

    Q = I - V T Vᴴ with T = (I + D S)⁻¹ D, where D = diag(tau) and S is the part of Vᴴ V above the diagonal (freed of
    1/tau, compared with the source). The derivative is that of this expression: one triangular solve, and regular for
    every tau, also where a reflector is singular. RuntimeError for shapes that do not fit. Source: Joffrain, Low,
    Quintana-Ortí, van de Geijn and Van Zee, Accumulating Householder transformations, revisited, 2006, theorem 1.

    Example::

        >>> import ferro
        >>> ferro.ormqr(ferro.zeros(2, 2), ferro.zeros(2), ferro.tensor([[1.0], [2.0]]))  # no reflection
        tensor([[1.],
                [2.]])
    """
    name = "ormqr"
    s, t = [need_tensor(name, argument, x)._data.shape for argument, x in (("input", input), ("other", other))]
    for argument, shape in (("input", s), ("other", t)):
        if len(shape) < 2:
            raise RuntimeError(
                f"torch.ormqr: {argument} must have at least 2 dimensions. It has the shape {list(shape)}"
            )
    side = -2 if left else -1
    if t[side] != s[-2]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2], got shapes {list(t)} and {list(s)}"
        )
    if need_tensor(name, "tau", tau)._data.ndim and tau._data.shape[-1] != min(t[side], s[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1]), which is "
            f"{min(t[side], s[-1])}, got {tau._data.shape[-1]}"
        )
    matrices(name, other, "other")
    _need_reflectors(name, input, tau)
    one_dtype(name, input, other, "input", "other")
    if len(s) != len(t) or s[:-2] != t[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2] = {list(s[:-2])}, but got "
            f"{list(t[:-2])}"
        )
    result = apply(ORMQR, (input, tau, other), (bool(left), bool(transpose)))
    return result if out is None else into(name, out, result)


def _ormqr_vjp(xp: Any, g: Any, needs: tuple, a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> tuple:
    if not left:
        ga, gt, gc = _ormqr_vjp(xp, adjoint(g), needs, a, tau, adjoint(c), True, not transpose)
        return ga, gt, None if gc is None else adjoint(gc)
    gc = xp.ormqr(a, tau, g, True, not transpose) if needs[2] else None
    if not (needs[0] or needs[1]):
        return None, None, gc
    return (*_reflectors_vjp(xp, g, a, tau, c, transpose), gc)


def _reflectors_vjp(xp: Any, g: Any, a: Any, tau: Any, c: Any, transpose: bool) -> tuple:
    """The gradients by the vectors and factors: back through C - V T Vᴴ C, T = (I + D S)⁻¹ D and S = triu(Vᴴ V, 1)."""
    k, n = tau.shape[-1], len(tau.shape) - 1
    d = xp.diag_embed(tau, 0, n, n + 1)
    v = xp.tril(a[..., :k], -1) + _identity_columns(xp, a, k)
    s = xp.triu(xp.matmul(adjoint(v), v), 1)
    ds = tau[..., :, None] * s
    t = xp.solve_tri(ds, d, True, True, True)
    w = xp.matmul(adjoint(v), c)
    z = xp.matmul(adjoint(t) if transpose else t, w)
    gz = -xp.matmul(adjoint(v), g)
    gt = xp.matmul(w, adjoint(gz)) if transpose else xp.matmul(gz, adjoint(w))
    gw = xp.matmul(t if transpose else adjoint(t), gz)
    b = xp.solve_tri(adjoint(ds), gt, False, True, True)
    gtau = xp.diagonal(b - xp.matmul(b, adjoint(xp.matmul(s, t))), 0, n, n + 1)
    gs = -xp.triu(tau.conj()[..., :, None] * xp.matmul(b, adjoint(t)), 1)
    gv = xp.matmul(c, adjoint(gw)) - xp.matmul(g, adjoint(z)) + xp.matmul(v, gs + adjoint(gs))
    ga = xp.tril(gv, -1)
    if a.shape[-1] > k:
        ga = xp.cat([ga, xp.zeros_like(a[..., k:])], n + 1)
    return ga, gtau


def _identity_columns(xp: Any, a: Any, k: int) -> Any:
    """The first k columns of identity matrices as high as a."""
    n = len(a.shape) - 2
    top = xp.diag_embed(xp.ones_like(a[..., 0, :k]), 0, n, n + 1) if k else a[..., :0, :0]
    return xp.cat([top, xp.zeros_like(a[..., k:, :k])], n) if a.shape[-2] > k else top


def _householder_vjp(xp: Any, g: Any, needs: tuple, a: Any, tau: Any) -> tuple:
    return _reflectors_vjp(xp, g, a, tau, _identity_columns(xp, a, a.shape[-1]), False)


_REFLECTORS = [
    Sample(Arg(4, 3), Arg(3)),
    Sample(Arg(4, 3), Arg(2)),
    Sample(Arg(3, 3), Arg(3)),
    Sample(Arg(2, 3, 2), Arg(2, 2)),
    Sample(Arg(3, 0), Arg(0)),
    Sample(Arg(0, 3, 2), Arg(0, 2)),
    Sample(Arg(3, 2), Arg(0)),
]

HOUSEHOLDER = Op(
    "linalg.householder_product",
    lambda xp, a, tau: xp.householder_product(a, tau),
    vjp=_householder_vjp,
    diff=("a", "tau"),
    weight=100.0,
    samples=_REFLECTORS,
    complex=True,
)
declare("orgqr", _REFLECTORS[:2], complex=True)

ORMQR = Op(
    "ormqr",
    lambda xp, a, tau, c, /, left, transpose: xp.ormqr(a, tau, c, left, transpose),
    vjp=_ormqr_vjp,
    diff=("a", "tau", "c"),
    weight=100.0,
    complex=True,
    samples=[
        *[Sample(Arg(4, 3), Arg(3), Arg(4, 2), left=True, transpose=t) for t in (False, True)],
        *[Sample(Arg(4, 3), Arg(3), Arg(2, 4), False, t) for t in (False, True)],
        Sample(Arg(3, 5), Arg(3), Arg(3, 2)),
        Sample(Arg(2, 3, 2), Arg(2, 2), Arg(2, 3, 1)),
        Sample(Arg(3, 2), Arg(2), Arg(3, 0)),
    ],
)


class OrthogonalMethods:
    """Methods of Tensor."""

    __slots__ = ()
    geqrf, orgqr, ormqr, qr = geqrf, orgqr, ormqr, qr
