"""The polar factor of a matrix and the nuclear norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.batched.array import plain
from ferro.core.apply import unary
from ferro.core.op import Op
from ferro.ops.products import adjoint

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def polar_factor(x: Tensor) -> Tensor:
    """U Vᴴ, the gradient of the nuclear norm; singular vectors of singular values that are rounding error do not count.

    With P = Uᴴ dA V, its derivative within the spaces is U [(P - Pᴴ) / (sᵢ + sⱼ)] Vᴴ: equal singular values do no harm
    (Higham, "Functions of Matrices", section 8.2).  Where the rank falls, it is that at constant rank.
    """
    return unary(POLAR_FACTOR, x)


def _polar_x(xp: Any, g: Any, x: Any) -> Any:
    u, s, vh = xp.svd_factors(x, False)
    m, n = x.shape[-2:]
    keep = s > s[..., :1] * (max(m, n) * 2.0 ** (-23 if s.dtype.itemsize == 4 else -52))  # the spacing of numbers at 1
    one, safe = xp.where(keep, xp.ones_like(s), 0.0), xp.where(keep, s, 1.0)
    u, v = u * one[..., None, :], adjoint(vh) * one[..., None, :]
    gv, ugh = xp.matmul(g, v), xp.matmul(adjoint(g), u)
    inner = xp.matmul(adjoint(u), gv)
    core = (inner - adjoint(inner)) / (safe[..., None, :] + safe[..., :, None])
    result = xp.matmul(xp.matmul(u, core), adjoint(v))
    deficient = not plain(getattr(keep, "_data", keep)).all()
    if m > n or deficient:
        result = result + xp.matmul((gv - xp.matmul(u, inner)) / safe[..., None, :], adjoint(v))
    if n > m or deficient:
        result = result + xp.matmul(u, adjoint((ugh - xp.matmul(v, adjoint(inner))) / safe[..., None, :]))
    return result


POLAR_FACTOR = Op("polar_factor", lambda xp, x: xp.polar_factor(x), x=_polar_x, weight=1000.0)


def nuclear_norm_of(x: Tensor) -> Tensor:
    """The sum of the singular values of each matrix.  d|A|* = Re <U Vᴴ, dA>, of all subgradients the smallest."""
    return unary(NUCLEAR_NORM, x)


NUCLEAR_NORM = Op(
    "nuclear_norm",
    lambda xp, x: xp.nuclear_norm(x),
    weight=1000.0,
    x=lambda xp, g, x: g[..., None, None] * xp.polar_factor(x),
)
