"""The classical orthogonal polynomials, of a degree given per element.

They have no derivative in PyTorch; here all have, to any order, because the derivative of a polynomial is one of the
next order: C^λₙ' = 2λ C^(λ+1)ₙ₋₁ (Gegenbauer) and L^αₙ' = -L^(α+1)ₙ₋₁ (Laguerre), by section 18.9 of the NIST Digital
Library of Mathematical Functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import operands, promote
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.division import some_tensor

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__: list[str] = []  # public in ferro.special

CHEBYSHEV_T = Op(
    "chebyshev_polynomial_t",
    lambda xp, x, n: xp.chebyshev_polynomial_t(x, n),
    kind=ELEMENTWISE,
    weight=50.0,
    x=lambda xp, g, x, n: g * n * xp.gegenbauer(x, n - 1, 1.0),
)
GEGENBAUER = Op(
    "gegenbauer",
    lambda xp, x, n, /, order: xp.gegenbauer(x, n, order),
    kind=ELEMENTWISE,
    weight=50.0,
    x=lambda xp, g, x, n, order: g * (2 * order) * xp.gegenbauer(x, n - 1, order + 1),
)
GEGENBAUER_PAIR = Op(
    "gegenbauer_pair",
    lambda xp, x, n, /, order, sign: xp.gegenbauer_pair(x, n, order, sign),
    kind=ELEMENTWISE,
    weight=100.0,
    x=lambda xp, g, x, n, order, sign: g * (2 * order) * xp.gegenbauer_pair(x, n - 1, order + 1, sign),
)
LAGUERRE = Op(
    "laguerre",
    lambda xp, x, n, /, order: xp.laguerre(x, n, order),
    kind=ELEMENTWISE,
    weight=50.0,
    x=lambda xp, g, x, n, order: -(g * xp.laguerre(x, n - 1, order + 1)),
)
HERMITE_H = Op(
    "hermite_polynomial_h",
    lambda xp, x, n: xp.hermite_polynomial_h(x, n),
    kind=ELEMENTWISE,
    weight=50.0,
    x=lambda xp, g, x, n: g * (n * 2) * xp.hermite_polynomial_h(x, n - 1),
)
HERMITE_HE = Op(
    "hermite_polynomial_he",
    lambda xp, x, n: xp.hermite_polynomial_he(x, n),
    kind=ELEMENTWISE,
    weight=50.0,
    x=lambda xp, g, x, n: g * n * xp.hermite_polynomial_he(x, n - 1),
)


def argument_and_degree(name: str, x: Any, n: Any) -> tuple[Any, Any]:
    """The two operands as tensors of one floating dtype; the degree is rounded towards zero."""
    some_tensor(name, x, n)
    x, n = promote(*operands(name, x, n))
    dtype = x._data.dtype
    if dtype in dtypes.HALF or dtype.kind == "c":
        raise NotImplementedError(f"{name}: not defined for {x.dtype}; the argument must be float32 or float64")
    if dtype not in dtypes.INEXACT:
        dtype = dtypes.default().np
    x, n = [t if t._data.dtype is dtype else apply(CAST, (t,), (dtype,)) for t in (x, n)]
    return x, n.detach().trunc()


def gegenbauer(x: Tensor, n: Any, order: float) -> Tensor:
    """Gegenbauer's polynomial C^λₙ(x) of the order λ."""
    return apply(GEGENBAUER, (x, n), (order,))


def gegenbauer_pair(x: Tensor, n: Any, order: float, sign: int) -> Tensor:
    """Cₙ ± Cₙ₋₁, two of Gegenbauer's polynomials of the order λ."""
    return apply(GEGENBAUER_PAIR, (x, n), (order, sign))


def laguerre(x: Tensor, n: Any, order: float) -> Tensor:
    """Laguerre's generalised polynomial L^αₙ(x) of the order α."""
    return apply(LAGUERRE, (x, n), (order,))


def chebyshev_polynomial_t(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Tₙ(x), Chebyshev's polynomial of the first kind: Tₙ(cos t) = cos nt.  d = n Uₙ₋₁(x) dx."""
    return into(
        "chebyshev_polynomial_t", out, apply(CHEBYSHEV_T, argument_and_degree("chebyshev_polynomial_t", input, n))
    )


def chebyshev_polynomial_u(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Uₙ(x), Chebyshev's polynomial of the second kind: Uₙ(cos t) = sin (n+1)t / sin t."""
    return into(
        "chebyshev_polynomial_u", out, gegenbauer(*argument_and_degree("chebyshev_polynomial_u", input, n), 1.0)
    )


def chebyshev_polynomial_v(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Vₙ(x), Chebyshev's polynomial of the third kind: Uₙ(x) - Uₙ₋₁(x)."""
    x, n = argument_and_degree("chebyshev_polynomial_v", input, n)
    return into("chebyshev_polynomial_v", out, gegenbauer_pair(x, n, 1.0, -1))


def chebyshev_polynomial_w(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Wₙ(x), Chebyshev's polynomial of the fourth kind: Uₙ(x) + Uₙ₋₁(x)."""
    x, n = argument_and_degree("chebyshev_polynomial_w", input, n)
    return into("chebyshev_polynomial_w", out, gegenbauer_pair(x, n, 1.0, 1))


def shifted_chebyshev_polynomial_t(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Tₙ(2x - 1)."""
    x, n = argument_and_degree("shifted_chebyshev_polynomial_t", input, n)
    return chebyshev_polynomial_t(x * 2 - 1, n, out=out)


def shifted_chebyshev_polynomial_u(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Uₙ(2x - 1)."""
    x, n = argument_and_degree("shifted_chebyshev_polynomial_u", input, n)
    return chebyshev_polynomial_u(x * 2 - 1, n, out=out)


def shifted_chebyshev_polynomial_v(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Vₙ(2x - 1)."""
    x, n = argument_and_degree("shifted_chebyshev_polynomial_v", input, n)
    return chebyshev_polynomial_v(x * 2 - 1, n, out=out)


def shifted_chebyshev_polynomial_w(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Wₙ(2x - 1)."""
    x, n = argument_and_degree("shifted_chebyshev_polynomial_w", input, n)
    return chebyshev_polynomial_w(x * 2 - 1, n, out=out)


def hermite_polynomial_h(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Hₙ(x), Hermite's polynomial for the weight exp(-x²).  d = 2n Hₙ₋₁(x) dx."""
    return into("hermite_polynomial_h", out, apply(HERMITE_H, argument_and_degree("hermite_polynomial_h", input, n)))


def hermite_polynomial_he(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Heₙ(x), Hermite's polynomial for the weight exp(-x²/2).  d = n Heₙ₋₁(x) dx."""
    return into("hermite_polynomial_he", out, apply(HERMITE_HE, argument_and_degree("hermite_polynomial_he", input, n)))


def laguerre_polynomial_l(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Lₙ(x), Laguerre's polynomial."""
    return into("laguerre_polynomial_l", out, laguerre(*argument_and_degree("laguerre_polynomial_l", input, n), 0.0))


def legendre_polynomial_p(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Pₙ(x), Legendre's polynomial."""
    return into("legendre_polynomial_p", out, gegenbauer(*argument_and_degree("legendre_polynomial_p", input, n), 0.5))


def _numpy(series: str, *substitution: float) -> Any:
    """NumPy's polynomial of degree 3, after a linear substitution of the argument, as reference."""

    def function(x: Any) -> Any:
        from numpy import polynomial

        scale, shift = substitution or (1, 0)
        return getattr(polynomial, series).basis(3)(x * scale + shift).astype(x.dtype)

    return function


def _plain(*coefficients: float) -> Any:
    """A polynomial by its coefficients, highest power first, as reference."""

    def function(x: Any) -> Any:
        value = x * 0
        for c in coefficients:
            value = value * x + c
        return value

    return function


CUBIC = [Sample(Arg(3, 4), 3), Sample(Arg(), 3), Sample(Arg(0), 3)]
for _name, _reference in [
    ("chebyshev_polynomial_t", _numpy("Chebyshev")),
    ("chebyshev_polynomial_u", _plain(8, 0, -4, 0)),
    ("chebyshev_polynomial_v", _plain(8, -4, -4, 1)),
    ("chebyshev_polynomial_w", _plain(8, 4, -4, -1)),
    ("shifted_chebyshev_polynomial_t", _numpy("Chebyshev", 2, -1)),
    ("shifted_chebyshev_polynomial_u", _plain(64, -96, 40, -4)),
    ("shifted_chebyshev_polynomial_v", _plain(64, -112, 56, -7)),
    ("shifted_chebyshev_polynomial_w", _plain(64, -80, 24, -1)),
    ("hermite_polynomial_h", _numpy("Hermite")),
    ("hermite_polynomial_he", _numpy("HermiteE")),
    ("laguerre_polynomial_l", _numpy("Laguerre")),
    ("legendre_polynomial_p", _numpy("Legendre")),
]:
    declare(f"special.{_name}", CUBIC, reference=_reference)
