"""Special functions: the error function and the normal distribution, gamma and zeta functions, entropies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, binary, unary
from ferro.core.arguments import need_tensor
from ferro.core.inplace import in_place
from ferro.core.into import binary_into, into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, binary_samples, declare, unary_samples
from ferro.elementwise import elementwise
from ferro.ops.division import some_tensor
from ferro.ops.exponential import real_operands

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["digamma", "erf", "erf_", "erfc", "erfc_", "erfinv", "igamma", "igammac", "lgamma", "mvlgamma",
           "polygamma"]  # fmt: skip

INF, NAN, SQRT_PI, SQRT_2PI = math.inf, math.nan, math.sqrt(math.pi), math.sqrt(2 * math.pi)


def real_unary(op: Op, input: Any, out: Any, params: tuple = ()) -> Any:
    """A function of one real tensor; integers are computed as the default dtype."""
    if need_tensor(op.name, "input", input)._data.dtype.kind == "c":
        raise NotImplementedError(f"{op.name}: not defined for complex tensors, got {input.dtype}")
    result = unary(op, input, params)
    return result if out is None else into(op.name, out, result, input)


# -- the error function and the normal distribution --------------------------------------------------------------------


def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erf x = 2/√π ∫₀ˣ exp(-t²) dt.  d erf x = 2/√π exp(-x²) dx."""
    return real_unary(ERF, input, out)


@elementwise
def _erf_slope(xp: Any, g: Any, x: Any) -> Any:
    return g * xp.exp(-(x * x)) * (2 / SQRT_PI)


ERF = Op(
    "erf",
    lambda xp, x: xp.erf(x),
    floats=True,
    kind=ELEMENTWISE,
    x=_erf_slope,
    weight=8.0,
    samples=unary_samples(-2, 2, 0.0, 6.0, -6.0, INF),
)


def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 - erf x, accurate for large x."""
    return real_unary(ERFC, input, out)


ERFC = Op(
    "erfc",
    lambda xp, x: xp.erfc(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.exp(-(x * x)) * (-2 / SQRT_PI),
    weight=8.0,
    samples=unary_samples(-2, 2, 0.0, 6.0, -6.0),
)


def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x²) erfc x, without overflow.  d = (2 x erfcx x - 2/√π) dx."""
    return real_unary(ERFCX, input, out)


ERFCX = Op(
    "erfcx",
    lambda xp, x: xp.erfcx(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x, out: g * (x * out * 2 - 2 / SQRT_PI),
    weight=20.0,
    samples=unary_samples(-2, 2, 0.0, 6.0),
    path="special.erfcx",
)


def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of erf on (-1, 1), ±inf at ±1.  d = √π/2 exp(erfinv² x) dx."""
    return real_unary(ERFINV, input, out)


ERFINV = Op(
    "erfinv",
    lambda xp, x: xp.erfinv(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * xp.exp(out * out) * (SQRT_PI / 2),
    weight=20.0,
    samples=unary_samples(-0.9, 0.9, 0.0, 1.0, -1.0, 2.0, smooth=False),
)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Φ(x), the distribution function of the normal distribution.  d Φ = exp(-x²/2) / √(2π) dx."""
    return real_unary(NDTR, input, out)


NDTR = Op(
    "ndtr",
    lambda xp, x: xp.ndtr(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.exp(x * x * -0.5) * (1 / SQRT_2PI),
    weight=8.0,
    samples=unary_samples(-2, 2, 0.0),
    path="special.ndtr",
)


def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ln Φ(x), accurate far to the left.  d = √(2/π) / erfcx(-x/√2) dx."""
    return real_unary(LOG_NDTR, input, out)


LOG_NDTR = Op(
    "log_ndtr",
    lambda xp, x: xp.log_ndtr(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / xp.erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    weight=20.0,
    samples=unary_samples(-2, 2, 0.0, -30.0),
    path="special.log_ndtr",
)


def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of Φ on (0, 1), ∓inf at the ends.  d = √(2π) exp(y²/2) dx with y = ndtri x."""
    return real_unary(NDTRI, input, out)


NDTRI = Op(
    "ndtri",
    lambda xp, x: xp.ndtri(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * xp.exp(out * out * 0.5) * SQRT_2PI,
    weight=20.0,
    samples=unary_samples(0.05, 0.95, 0.0, 1.0, 2.0, smooth=False),
    path="special.ndtri",
)


# -- entropies ---------------------------------------------------------------------------------------------------------


def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x ln x; 0 at 0, -inf below.  d = -(1 + ln x) dx: inf at 0."""
    return real_unary(ENTR, input, out)


ENTR = Op(
    "entr",
    lambda xp, x: xp.entr(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: -(g * (xp.log(x) + 1)),
    weight=4.0,
    samples=unary_samples(0.1, 3.0, 0.0, -1.0, 1.0, NAN, smooth=False),
    path="special.entr",
)


def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x ln(1 + y), and 0 where x = 0 unless y is nan.

    d = ln(1 + y) dx + x / (1 + y) dy; by x it is 0 where x = 0 and y ≤ -1.
    """
    some_tensor("xlog1py", input, other)
    real_operands("xlog1py", input, other)
    return binary(XLOG1PY, input, other) if out is None else binary_into("xlog1py", out, XLOG1PY, input, other)


XLOG1PY = Op(
    "xlog1py",
    lambda xp, x, y: xp.xlog1py(x, y),
    floats=True,
    kind=ELEMENTWISE,
    weight=4.0,
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= -1), 0.0, xp.xlog1py(g, y)),
    y=lambda xp, g, x, y: g * x / (y + 1),
    samples=[
        *binary_samples(-2.0, 2.0, -0.7, 2.0),
        Sample(2.0, Arg(3, low=-0.5)),
        Sample(Arg(values=[0.0, 0.0, 1.0]), Arg(values=[-1.0, -2.0, -1.0]), smooth=False),
    ],
    path="special.xlog1py",
)


# -- gamma and zeta ----------------------------------------------------------------------------------------------------


def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ln |Γ(x)|, inf at 0 and the negative integers.  d = ψ(x) dx."""
    return real_unary(LGAMMA, input, out)


LGAMMA = Op(
    "lgamma",
    lambda xp, x: xp.lgamma(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.digamma(x),
    weight=20.0,
    samples=unary_samples(0.2, 4.0, -0.5, -1.7, 10.0),
)


def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ψ(x) = d ln Γ(x) / dx.  d ψ = ψ' dx."""
    return real_unary(DIGAMMA, input, out)


DIGAMMA = Op(
    "digamma",
    lambda xp, x: xp.digamma(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g * xp.polygamma(1, x),
    weight=20.0,
    samples=unary_samples(0.2, 4.0, -0.5, -1.7, 10.0),
)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of ψ."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n. It is {n}")
    return real_unary(POLYGAMMA, need_tensor("polygamma", "input", input), out, (int(n),))


POLYGAMMA = Op(
    "polygamma",
    lambda xp, x, /, n: xp.polygamma(n, x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x, n: g * xp.polygamma(n + 1, x),
    weight=100.0,
    samples=[Sample(n, Arg(*s, low=0.3, high=3)) for n in (0, 1, 2, 3) for s in ((), (3, 4))],
)


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of ψ."""
    return polygamma(n, self)


def polygamma_in_place(input: Tensor, n: int) -> Tensor:
    """The n-th derivative of ψ, the operand first."""
    return polygamma(n, input)


polygamma_in_place.__name__ = "polygamma"


def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """ln of the multivariate gamma function: p (p-1)/4 ln π + Σ ln Γ(x - j/2) over 0 ≤ j < p."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    if p > 1000:  # (one call for each p: 2**70 would not end)
        raise ValueError(f"mvlgamma: p has to be at most 1000, got {p}")
    result = lgamma(input)
    for j in range(1, p):
        result = result + lgamma(input - j / 2)
    if p > 1:
        result = result + p * (p - 1) / 4 * math.log(math.pi)
    return result if out is None else into("mvlgamma", out, result, input)


declare("mvlgamma", [Sample(Arg(3, 4, low=2.1, high=5), p) for p in (1, 2, 3)])


def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """P(a, x), the regularised lower incomplete gamma function.  d = x^(a-1) e^-x / Γ(a) dx; by a there is none."""
    result = apply(IGAMMA, incomplete("igamma", input, other))
    return result if out is None else into("igamma", out, result, input, other)


def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Q(a, x) = 1 - P(a, x).  d = -x^(a-1) e^-x / Γ(a) dx; by a there is none."""
    result = apply(IGAMMAC, incomplete("igammac", input, other))
    return result if out is None else into("igammac", out, result, input, other)


def incomplete(name: str, a: Any, x: Any) -> tuple:
    """The two operands, floating tensors of one dtype."""
    a, x = promote(need_tensor(name, "input", a), need_tensor(name, "other", x))
    if x._data.dtype not in dtypes.INEXACT or x._data.dtype.kind == "c":
        raise NotImplementedError(
            f"{name}: defined for floating-point tensors, not for {x.dtype}; cast the operands first"
        )
    return a, x


def no_derivative(name: str, argument: str) -> Any:
    """The formula of a derivative that has no closed form."""
    raise NotImplementedError(
        f"the derivative for '{name}: {argument}' is not implemented. Use detach() on that argument."
    )


def _density(xp: Any, a: Any, x: Any) -> Any:
    return xp.exp((a - 1) * xp.log(x) - x - xp.lgamma(a))


GAMMAS = [
    Sample(Arg(*a, low=0.5, high=3, grad=False), Arg(*b, low=0.3, high=4))
    for a, b in [((3, 4), (3, 4)), ((4,), (3, 1)), ((), ())]
]

IGAMMA = Op(
    "igamma",
    lambda xp, a, x: xp.igamma(a, x),
    kind=ELEMENTWISE,
    a=lambda xp, g: no_derivative("igamma", "input"),
    x=lambda xp, g, a, x: g * _density(xp, a, x),
    weight=150.0,
    samples=GAMMAS,
)
IGAMMAC = Op(
    "igammac",
    lambda xp, a, x: xp.igammac(a, x),
    kind=ELEMENTWISE,
    a=lambda xp, g: no_derivative("igammac", "input"),
    x=lambda xp, g, a, x: -(g * _density(xp, a, x)),
    weight=150.0,
    samples=GAMMAS,
)


def zeta(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """ζ(x, y) = Σ 1 / (k + y)^x over k ≥ 0, Hurwitz' zeta function.  d = -x ζ(x + 1, y) dy; by x there is none."""
    some_tensor("zeta", input, other)
    real_operands("zeta", input, other)
    return binary(ZETA, input, other) if out is None else binary_into("zeta", out, ZETA, input, other)


ZETA = Op(
    "zeta",
    lambda xp, x, y: xp.zeta(x, y),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g: no_derivative("zeta", "input"),
    y=lambda xp, g, x, y: -(g * x * xp.zeta(x + 1, y)),
    weight=200.0,
    samples=[
        Sample(Arg(*a, low=1.5, high=4, grad=False), Arg(*b, low=0.5, high=3))
        for a, b in [((3, 4), (4,)), ((), ()), ((2,), ())]
    ]
    + [Sample(2.5, Arg(3, low=0.5, high=3))],
    path="special.zeta",
)

gammaln, gammainc, gammaincc, psi, multigammaln = lgamma, igamma, igammac, digamma, mvlgamma

# In-place forms that torch has as functions too.
erf_, erfc_ = map(in_place, (erf, erfc))


class SpecialMethods:
    """Methods of Tensor."""

    __slots__ = ()
    erf = erf
    erf_ = erf_
    erfc = erfc
    erfc_ = erfc_
    erfinv = erfinv
    erfinv_ = in_place(erfinv)
    lgamma = lgamma
    lgamma_ = in_place(lgamma)
    digamma = digamma
    digamma_ = in_place(digamma)
    polygamma = polygamma_method
    polygamma_ = in_place(polygamma_in_place)
    mvlgamma = mvlgamma
    mvlgamma_ = in_place(mvlgamma)
    igamma = igamma
    igamma_ = in_place(igamma)
    igammac = igammac
    igammac_ = in_place(igammac)
