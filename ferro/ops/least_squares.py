"""Pseudo-inverses, least squares and numerical ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend, return_types
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.ops.matrix_arguments import batches, matrices, one_dtype, square
from ferro.ops.products import adjoint
from ferro.ops.spectral import MATRICES, spread_matrix

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["pinverse"]

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _tolerances(name: str, a: Any, atol: Any, rtol: Any) -> tuple:
    """`atol` and `rtol` as numbers or arrays that broadcast against singular values.

    Without rtol it is max(m, n) eps, but 0 where atol is above 0; without atol that is 0.
    """
    found = []
    for label, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, TensorBase):
            if value._data.dtype.kind == "c":
                raise RuntimeError(f"{name}: {label} must be real, got a complex tensor")
            value = value._data[..., None]
        elif value is not None and not isinstance(value, (int, float)):
            raise TypeError(f"{name}: {label} must be a number or a Tensor, got {type(value).__name__}")
        found.append(value)
    absolute, relative = 0.0 if found[0] is None else found[0], found[1]
    if relative is None:
        default = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
        absolute = as_array(absolute)
        relative = backend.xp_of(absolute).where(absolute > 0, 0.0, default)
    return absolute, relative


# -- pseudo-inverses ---------------------------------------------------------------------------------------------------


@in_full_precision
def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse P of matrices, (..., n, m).

    - `A` (Tensor): (..., m, n)
    - `rcond` (float or Tensor, default None): the older name of `rtol`
    - `hermitian` (bool, default False): takes A as Hermitian, from its lower triangle, and the sizes of its eigenvalues
      for singular values
    - `atol`, `rtol` (float or Tensor, default None): singular values of at most max(atol, rtol s₁) count as zero; one
      number, or one per matrix; None: rtol is max(m, n) eps, or 0 if atol is positive
    - `out` (Tensor, default None): where to write the result

    The derivative is the one at constant rank: dP = -P dA P + P Pᴴ dAᴴ (I - A P) + (I - P A) dAᴴ Pᴴ P, to any order and
    also for matrices of deficient rank. RuntimeError for fewer than two dimensions. Source: Golub and Pereyra, The
    differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate, 1973, equation
    4.12.

    Example::

        >>> import ferro
        >>> ferro.linalg.pinv(ferro.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.2500]])
    """
    name = "linalg.pinv"
    if hermitian:
        square(name, A)
    else:
        matrices(name, A)
    absolute, relative = _tolerances(name, A._data, atol, rcond if rtol is None else rtol)
    result = pseudo_inverse(A, absolute, relative, bool(hermitian))
    return result if out is None else into(name, out, result)


@in_full_precision
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse, singular values of at most rcond times the largest counting as zero: see `linalg.pinv`."""
    matrices("pinverse", input, "input")
    return pseudo_inverse(input, 0.0, _tolerances("pinverse", input._data, None, rcond)[1], False)


def pseudo_inverse(x: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """The pseudo-inverse with tolerances that are numbers or arrays."""
    return apply(PINV, (x,), (atol, rtol, hermitian))


def _pinv_x(xp: Any, g: Any, x: Any, out: Any) -> Any:
    """Each product in the order in which the smaller of m and n is left over."""
    p, ph, gh = out, adjoint(out), adjoint(g)
    if x.shape[-2] >= x.shape[-1]:
        inner = xp.matmul(p, gh)
        return xp.matmul(gh - xp.matmul(x, inner), xp.matmul(p, ph)) + xp.matmul(
            ph, inner - xp.matmul(xp.matmul(inner, p), x) - xp.matmul(g, ph)
        )
    inner = xp.matmul(gh, p)
    return xp.matmul(inner - xp.matmul(x, xp.matmul(p, inner)) - xp.matmul(ph, g), ph) + xp.matmul(
        xp.matmul(ph, p), gh - xp.matmul(inner, x)
    )


PINV = Op(
    "linalg.pinv",
    lambda xp, x, /, atol, rtol, hermitian: xp.pseudo_inverse(x, atol, rtol, hermitian),
    x=_pinv_x,
    weight=1000.0,
    samples=[*map(Sample, MATRICES), Sample(MATRICES[0], rtol=0.01), Sample(MATRICES[0], 0.01)],
    complex=True,
)
declare("pinverse", [Sample(a) for a in MATRICES], complex=True)


singular(
    "linalg.pinv",
    "deficient rank",
    Sample(Arg(values=[[1.0, 1.0], [1.0, 1.0]])),
    "the derivative along the matrices of the same rank; the pseudo-inverse is not continuous in the other directions",
)


# -- ranks -------------------------------------------------------------------------------------------------------------


@in_full_precision
def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values are above max(atol, rtol s₁), as int64.

    - `A` (Tensor): (..., m, n)
    - `tol` (float or Tensor, default None): the older name of `atol`
    - `hermitian` (bool, default False): takes A as Hermitian, and the sizes of its eigenvalues for singular values
    - `atol`, `rtol` (float or Tensor, default None): one number, or one per matrix; None as in `linalg.pinv`
    - `out` (Tensor, default None): where to write the result

    The result is (...). Not differentiable. RuntimeError for fewer than two dimensions.

    Example::

        >>> import ferro
        >>> ferro.linalg.matrix_rank(ferro.ones(3, 2)).item()
        1
    """
    name = "linalg.matrix_rank"
    a = (square if hermitian else matrices)(name, A)._data
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = _tolerances(name, a, atol, rtol)
    xp = xp_of(a)
    sizes = abs(xp.eigvalsh(a, False)) if hermitian else xp.svdvals(a)
    return into(name, out, wrap(as_array(xp.count_above(sizes, absolute, relative))))


declare(
    "linalg.matrix_rank",
    [
        *map(Sample, MATRICES),
        Sample(MATRICES[0], atol=1.5),
        Sample(Arg(values=[[1.0, 1.0], [1.0, 1.0]])),
        Sample(Arg(values=[[1.0, 2.0], [2.0, 4.0]]), hermitian=True),
    ],
    complex=True,
    differentiable=False,
)


# -- least squares -----------------------------------------------------------------------------------------------------


@in_full_precision
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> return_types.linalg_lstsq:
    """The X of least norm that minimises |A X - B|: (solution, residuals, rank, singular_values).

    - `A` (Tensor): (..., m, n)
    - `B` (Tensor): (..., m, k), or vectors (..., m) with the batch of A
    - `rcond` (float, default None): singular values of at most rcond s₁ count as zero; None: max(m, n) eps
    - `driver` (str, default None): "gels" (QR: A has full rank), "gelsy" (None too), "gelsd" or "gelss"; the last three
      have the same solution and are one singular value decomposition here

    residuals: |A X - B|² by column, (..., k), where m > n and all ranks are n, else empty (always for "gelsy"). rank is
    empty for "gels", singular_values for "gels" and "gelsy". LinAlgError for inf or nan, and for "gels" at deficient
    rank; RuntimeError for shapes that do not fit. The derivative is the one at constant rank, of any order, also for
    matrices of deficient rank: with R = B - A X, dX = P (dB - dA X) + P Pᴴ dAᴴ R + (I - P A) dAᴴ Pᴴ X. Source: Golub
    and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate,
    1973.

    Example::

        >>> import ferro
        >>> A, B = ferro.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), ferro.tensor([[1.0], [2.0], [3.0]])
        >>> ferro.linalg.lstsq(A, B, driver="gels").residuals
        tensor([9.])
    """
    name = "linalg.lstsq"
    s, t = matrices(name, A)._data.shape, need_tensor(name, "B", B)._data.shape
    if not t:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if not 0 <= len(s) - len(t) <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1, "
            f"got shapes {list(s)} and {list(t)}"
        )
    one_dtype(name, A, B)
    vector = len(t) == 1 or (len(s) - 1 == len(t) and s[:-1] == t)
    if vector:
        B, t = B.unsqueeze(-1), (*t, 1)
    if s[-2] != t[-2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-1 if vector else -2}), got shapes {list(s)} and {list(t)}"
        )
    batches(name, s[:-2], t[:-2])
    if driver is not None and driver not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(DRIVERS)}), got {driver!r}")
    driver = driver or "gelsy"
    cut = max(s[-2:]) * float(np.finfo(A._data.dtype).eps) if rcond is None else float(rcond)
    result = apply(LSTSQ, (A, B), (0.0 if driver == "gels" else cut, driver))
    return return_types.linalg_lstsq((result[0].squeeze(-1), *result[1:]) if vector else result)


def _lstsq_vjp(
    xp: Any, g: Any, needs: tuple, a: Any, b: Any, solution: Any, rcond: float, u: Any, inverse: Any, vh: Any
) -> tuple:
    gx, gr = g[:2]
    xh = adjoint(solution)
    rest = b - xp.matmul(a, solution)
    ga = gb = None
    if gx is not None:
        if u is None:  # recorded, or by QR
            p = xp.pseudo_inverse(a, 0.0, rcond, False)
        else:
            p = xp.matmul(adjoint(vh) * inverse[..., None, :], adjoint(u))
        ph = adjoint(p)
        gb = xp.matmul(ph, gx)
        if needs[0]:
            ga = xp.matmul(rest, adjoint(xp.matmul(p, gb))) - xp.matmul(gb, xh)
            ga = ga + xp.matmul(xp.matmul(ph, solution), adjoint(gx - xp.matmul(adjoint(a), gb)))
    if gr is not None and 0 not in gr.shape:
        pulled = 2 * rest * gr[..., None, :]
        gb = pulled if gb is None else gb + pulled
        if needs[0]:
            spread = xp.matmul(pulled, xh)
            ga = -spread if ga is None else ga - spread
    return ga, gb


_SYSTEMS = [
    (Arg(4, 2, make=spread_matrix), Arg(4, 3)),
    (Arg(2, 4, make=spread_matrix), Arg(2, 3)),
    (Arg(3, 3, make=spread_matrix), Arg(3)),
    (Arg(2, 3, 2, make=spread_matrix), Arg(2, 3)),
    (Arg(1, 3, 2, make=spread_matrix), Arg(2, 3, 1)),
    (Arg(0, 3, 2), Arg(0, 3, 1)),
]

LSTSQ = Op(
    "linalg.lstsq",
    lambda xp, a, b, /, rcond, driver: xp.lstsq(a, b, rcond, driver),
    outputs=("solution", "residuals", "rank", "singular_values"),
    nondiff=("rank", "singular_values"),
    aux=("u", "inverse", "vh"),
    vjp=_lstsq_vjp,
    diff=("a", "b"),
    weight=1000.0,
    complex=True,
    samples=[Sample(a, b, driver=d) for d in DRIVERS for a, b in _SYSTEMS],
)


class LeastSquaresMethods:
    """Methods of Tensor."""

    __slots__ = ()
    pinverse = pinverse
