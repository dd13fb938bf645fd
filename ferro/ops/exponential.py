"""Exponentials, logarithms, roots and powers, and the functions made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes, return_types
from ferro.core.apply import apply, binary, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.inplace import augmented, in_place
from ferro.core.into import binary_into, into, unary_into
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.operands import NUMBERS, of_array, operands, promote
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, binary_samples, declare, singular, unary_samples
from ferro.elementwise import elementwise
from ferro.ops.division import some_tensor

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["exp", "exp2", "exp2_", "exp_", "expit", "expm1", "expm1_", "float_power", "frexp", "ldexp", "ldexp_",
           "log", "log1p", "log1p_", "log2", "log2_", "log10", "log10_", "log_", "logaddexp", "logaddexp2", "logit",
           "logit_", "pow", "rsqrt", "rsqrt_", "sigmoid", "sigmoid_", "sqrt", "sqrt_", "xlogy", "xlogy_"]  # fmt: skip

INF, NAN, LN2, LN10 = math.inf, math.nan, math.log(2), math.log(10)


def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """eˣ.  d eˣ = eˣ dx."""
    return unary(EXP, input) if out is None else unary_into("exp", out, EXP, input)


EXP = Op(
    "exp",
    lambda xp, x: xp.exp(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * out.conj(),
    weight=2.0,
    samples=unary_samples(),
    complex=True,
)


def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2ˣ.  d 2ˣ = ln 2 · 2ˣ dx."""
    return unary(EXP2, input) if out is None else unary_into("exp2", out, EXP2, input)


EXP2 = Op(
    "exp2",
    lambda xp, x: xp.exp2(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * out.conj() * LN2,
    weight=2.0,
    samples=unary_samples(),
    complex=True,
)


def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """eˣ - 1, exact for small x.  d = eˣ dx."""
    return unary(EXPM1, input) if out is None else unary_into("expm1", out, EXPM1, input)


EXPM1 = Op(
    "expm1",
    lambda xp, x: xp.expm1(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * (out + 1).conj(),
    weight=2.0,
    samples=unary_samples(-2, 2, 0.0, 1e-6),
    complex=True,
)


def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ln x: -inf at 0, nan below.  d ln x = dx / x."""
    return unary(LOG, input) if out is None else unary_into("log", out, LOG, input)


LOG = Op(
    "log",
    lambda xp, x: xp.log(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / x.conj(),
    weight=2.0,
    samples=unary_samples(0.2, 3.0, 0.0, -1.0, INF, smooth=False),
    complex=True,
)


def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log₂ x.  d = dx / (x ln 2)."""
    return unary(LOG2, input) if out is None else unary_into("log2", out, LOG2, input)


LOG2 = Op(
    "log2",
    lambda xp, x: xp.log2(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / (x.conj() * LN2),
    weight=2.0,
    samples=unary_samples(0.2, 3.0, 0.0, -1.0, smooth=False),
    complex=True,
)


def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log₁₀ x.  d = dx / (x ln 10)."""
    return unary(LOG10, input) if out is None else unary_into("log10", out, LOG10, input)


LOG10 = Op(
    "log10",
    lambda xp, x: xp.log10(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / (x.conj() * LN10),
    weight=2.0,
    samples=unary_samples(0.2, 3.0, 0.0, -1.0, smooth=False),
    complex=True,
)


def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ln(1 + x), exact for small x.  d = dx / (1 + x)."""
    if need_tensor("log1p", "input", input)._data.dtype in dtypes.COMPLEX:
        return into("log1p", out, log1p_complex(input), input)
    return unary(LOG1P, input) if out is None else unary_into("log1p", out, LOG1P, input)


LOG1P = Op(
    "log1p",
    lambda xp, x: xp.log1p(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, x: g / (x + 1).conj(),
    weight=2.0,
    samples=unary_samples(-0.8, 3.0, 0.0, 1e-8, -1.0, -2.0, smooth=False),
    complex=True,
)


def log1p_complex(x: Any) -> Any:
    """log1p of complex numbers, whose real part NumPy loses near 0."""
    return unary(LOG1P_COMPLEX, x)


LOG1P_COMPLEX = Op(
    "log1p_complex", lambda xp, x: xp.log1p_complex(x), kind=ELEMENTWISE, x=lambda xp, g, x: g / (x + 1).conj()
)


def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """√x, nan below 0.  d √x = dx / (2 √x): inf at 0."""
    return unary(SQRT, input) if out is None else unary_into("sqrt", out, SQRT, input)


SQRT = Op(
    "sqrt",
    lambda xp, x: xp.sqrt(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g / (out + out).conj(),
    samples=unary_samples(0.1, 3.0, 0.0, -1.0, INF, smooth=False),
    complex=True,
)
singular("sqrt", "0", Sample(Arg(values=[0.0])), "the limit from the right: the slope is infinite")


def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / √x.  d = -x^(-3/2) dx / 2."""
    return unary(RSQRT, input) if out is None else unary_into("rsqrt", out, RSQRT, input)


RSQRT = Op(
    "rsqrt",
    lambda xp, x: xp.rsqrt(x),
    floats=True,
    kind=ELEMENTWISE,
    x=lambda xp, g, out: g * (out * out * out).conj() * -0.5,
    samples=unary_samples(0.3, 3.0, 0.0, -1.0, INF, smooth=False),
    complex=True,
)


def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """σ(x) = 1 / (1 + e⁻ˣ), from 0 to 1.  d σ = σ (1 - σ) dx.

    Example::

        >>> import ferro
        >>> ferro.sigmoid(ferro.tensor([-100.0, 0.0, 100.0])).round(decimals=3)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return unary(SIGMOID, input) if out is None else unary_into("sigmoid", out, SIGMOID, input)


SIGMOID = Op(
    "sigmoid",
    lambda xp, x: xp.sigmoid(x),
    floats=True,
    kind=ELEMENTWISE,
    x=elementwise(lambda xp, g, out: g * (out * (1 - out)).conj(), name="sigmoid_slope", entry="x"),
    weight=3.0,
    samples=unary_samples(-4, 4, -100.0, 0.0, 100.0),
    complex=True,
)


expit = sigmoid


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """ln(x / (1 - x)), the inverse of σ; x is first clamped to [eps, 1 - eps] if eps is given.

    d = dx / (x (1 - x)); with eps it is 0 outside of the interval, without it nan outside of [0, 1].
    """
    real_operands("logit", input, eps)
    result = unary(LOGIT, need_tensor("logit", "input", input), (eps,))
    return result if out is None else into("logit", out, result, input)


def _logit_x(xp: Any, g: Any, x: Any, eps: float | None) -> Any:
    low, high, beyond = (0.0, 1.0, NAN) if eps is None else (eps, 1 - eps, 0.0)
    outside = (x < low) | (x > high)
    return xp.where(outside, beyond, g / (x * (1 - x)))


LOGIT = Op(
    "logit",
    lambda xp, x, /, eps: xp.logit(x, eps),
    floats=True,
    kind=ELEMENTWISE,
    x=_logit_x,
    weight=3.0,
    samples=[
        *unary_samples(0.05, 0.95, 0.0, 1.5, -0.5, smooth=False),
        Sample(Arg(values=[1.0, 0.5]), smooth=False),
        Sample(Arg(values=[-0.5, 0.1, 0.2, 0.5, 0.8, 0.9, 1.5]), 0.2, smooth=False, complex=False),
    ],
)


# -- powers ------------------------------------------------------------------------------------------------------------


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """x^y, of tensors or a tensor and a number.  d x^y = y x^(y-1) dx + x^y ln x dy.

    Conventions: 0⁰ = 1; the derivative by x is 0 where y = 0 and that by y is 0 where x = 0 and y ≥ 0.  A real negative
    base with a fractional exponent gives nan.
    """
    if isinstance(input, TensorBase) and isinstance(exponent, NUMBERS):
        result = power(input, exponent)
    elif isinstance(input, TensorBase) or isinstance(exponent, TensorBase):
        x, y = promote(*operands("pow", input, exponent))
        if x._data.dtype.kind == "b":
            raise NotImplementedError("pow: not defined for two bool operands; cast one of them to a number type")
        result = binary(POW, x, y)
    else:
        raise TypeError(
            f"pow: expected a tensor as input or exponent, got {type(input).__name__} and {type(exponent).__name__}"
        )
    return result if out is None else into("pow", out, result, input, exponent)


def power(x: Any, n: Any) -> Any:
    """x^n with a number n."""
    a = x._data
    if a.dtype not in dtypes.INEXACT or (type(n) is complex and a.dtype.kind != "c"):
        dtype = dtypes.result_np([a, n])
        if dtype.kind == "b":
            raise NotImplementedError("pow: not defined for two bool operands; cast one of them to a number type")
        if dtype.kind in "iu" and isinstance(n, int) and n < 0:
            raise RuntimeError(
                f"pow: Integers to negative integer powers are not allowed. The exponent is {n}; cast the base first"
            )
        if dtype is not a.dtype:
            x = apply(CAST, (x,), (dtype,))
    return unary(POW_NUMBER, x, (n,))


def _pow_number_x(xp: Any, g: Any, x: Any, n: Any) -> Any:
    if n == 2:
        return g * (x + x).conj()
    if n == 1:
        return g
    if n == 0:
        return xp.zeros_like(g)
    if n == 0.5:
        return g * (xp.rsqrt(x) * 0.5).conj()
    if n == -1:
        r = xp.reciprocal(x)
        return -(g * (r * r).conj())
    return g * (x ** (n - 1) * n).conj()


def _pow_x(xp: Any, g: Any, x: Any, y: Any) -> Any:
    return xp.where(y == 0, 0.0, g * (y * x ** (y - 1)).conj())


@elementwise
def _pow_exponent_slope(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    return g * xp.where((x == 0) & (y >= 0), 0.0, out * xp.log(x))


def _pow_y(xp: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    if y.dtype not in COMPLEX:
        return _pow_exponent_slope(xp, g, x, y, out)
    positive = (xp.real(y) >= 0) & (xp.imag(y) == 0)
    return g * xp.where((x == 0) & positive, 0.0, (out * xp.log(x)).conj())


COMPLEX = dtypes.COMPLEX | {dtypes.complex64, dtypes.complex128}  # as arrays and as tensors name them

POW_NUMBER = Op("pow_number", lambda xp, x, /, n: xp.power(x, n), kind=ELEMENTWISE, x=_pow_number_x)
POW_NUMBER.backward_name = "PowBackward0"  # as in PyTorch
POW = Op(
    "pow",
    lambda xp, x, y: xp.power(x, y),
    kind=ELEMENTWISE,
    x=_pow_x,
    y=_pow_y,
    weight=4.0,
    samples=[
        *binary_samples(0.2, 2.0, -2.0, 2.0, scalars=(0, 1, 2, 3, 0.5, -1, -1.5)),
        *[Sample(n, Arg(3, 4)) for n in (2, 0.5)],
        Sample(Arg(values=[-2.0, -1.5, -0.5]), 3, complex=False),
        Sample(
            Arg(values=[0.0, 0.0, 0.0, 0.0, -1.0, -2.0]),
            Arg(values=[0.0, 1.0, 2.0, -1.0, 2.0, 0.5]),
            smooth=False,
            complex=False,
        ),
        Sample(0, Arg(values=[0.0, 1.0, 2.0]), smooth=False, complex=False),
        *[Sample(Arg(values=[0.0, 1.0, -1.0]), n, smooth=False, complex=False) for n in (0, 1, 2, 0.5)],
    ],
    complex=True,
)
singular(
    "pow",
    "0 to the power 0",
    Sample(Arg(values=[0.0]), Arg(values=[0.0])),
    "0 ** 0 is 1 and 0 ** y is 0: the slope in y is -inf, of no use, so 0",
)
singular(
    "pow",
    "0 to the power 0.5",
    Sample(Arg(values=[0.0]), Arg(values=[0.5])),
    "the limit from the right: the slope is infinite",
)
singular("pow", "0 squared", Sample(Arg(values=[0.0]), 2), "smooth: no 0/0 may show")


def power_operator(self: Any, other: Any) -> Tensor:
    """self ** other."""
    kind = type(other)
    if (kind is int or kind is float) and self._data.dtype in dtypes.INEXACT:
        return unary(POW_NUMBER, self, (other,))
    if isinstance(other, NUMBERS):
        return power(self, other)
    if isinstance(other, np.ndarray):
        return pow(self, of_array("pow", other))
    return pow(self, other) if isinstance(other, (TensorBase, np.generic)) else NotImplemented


def swapped_power(self: Any, other: Any) -> Tensor:
    """other ** self."""
    if isinstance(other, np.ndarray):
        other = of_array("pow", other)
    return pow(other, self) if isinstance(other, (*NUMBERS, TensorBase, np.generic)) else NotImplemented


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """x^y computed in double precision: float64, or complex128 if an operand is complex."""
    is_complex = any(
        isinstance(v, complex) or (isinstance(v, TensorBase) and v._data.dtype.kind == "c") for v in (input, exponent)
    )
    dtype = (dtypes.complex128 if is_complex else dtypes.float64).np
    wide = [
        apply(CAST, (v,), (dtype,)) if isinstance(v, TensorBase) and v._data.dtype is not dtype else v
        for v in (input, exponent)
    ]
    result = pow(*[complex(v) if is_complex and isinstance(v, NUMBERS) else v for v in wide])
    return result if out is None else into("float_power", out, result, input, exponent)


declare("float_power", [*binary_samples(0.2, 2.0, -2.0, 2.0, scalars=(2, 0.5)), Sample(2, Arg(3))], complex=True)


# -- functions of two arguments ----------------------------------------------------------------------------------------


def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ln(eˣ + eʸ) without overflow.  d = (eˣ dx + eʸ dy) / (eˣ + eʸ)."""
    result = apply(LOGADDEXP, tuple(two_tensors("logaddexp", input, other)))
    return result if out is None else into("logaddexp", out, result, input, other)


LOGADDEXP = Op(
    "logaddexp",
    lambda xp, x, y: xp.logaddexp(x, y),
    kind=ELEMENTWISE,
    weight=4.0,
    x=lambda xp, g, x, y: g / (1 + xp.exp(y - x)).conj(),
    y=lambda xp, g, x, y: g / (1 + xp.exp(x - y)).conj(),
    samples=binary_samples(scalars=()),
    complex=True,
)
singular(
    "logaddexp",
    "both -inf",
    Sample(Arg(values=[-INF]), Arg(values=[-INF])),
    "the weights are 0/0, as in PyTorch (logsumexp gives 0 there)",
)


def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log₂(2ˣ + 2ʸ) without overflow.  d = (2ˣ dx + 2ʸ dy) / (2ˣ + 2ʸ)."""
    real_operands("logaddexp2", input, other)
    result = apply(LOGADDEXP2, tuple(two_tensors("logaddexp2", input, other)))
    return result if out is None else into("logaddexp2", out, result, input, other)


LOGADDEXP2 = Op(
    "logaddexp2",
    lambda xp, x, y: xp.logaddexp2(x, y),
    kind=ELEMENTWISE,
    weight=4.0,
    x=lambda xp, g, x, y: g / (1 + xp.exp2(y - x)),
    y=lambda xp, g, x, y: g / (1 + xp.exp2(x - y)),
    samples=binary_samples(scalars=()),
)


def two_tensors(name: str, x: Any, y: Any) -> list:
    """Two operands that must be tensors, promoted; a floating result is needed."""
    found = promote(need_tensor(name, "input", x), need_tensor(name, "other", y))
    if found[0]._data.dtype not in dtypes.INEXACT:
        raise NotImplementedError(
            f"{name}: defined for floating-point tensors, not for {found[0].dtype}; cast the operands first"
        )
    return found


def real_operands(name: str, x: Any, y: Any) -> None:
    """Refuses complex operands."""
    for v in (x, y):
        if isinstance(v, complex) or (isinstance(v, TensorBase) and v._data.dtype.kind == "c"):
            raise NotImplementedError(f"{name}: not defined for complex operands, got {getattr(v, 'dtype', v)}")


def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """x ln y, and 0 where x = 0 unless y is nan.  d = ln y dx + x / y dy; by x it is 0 where x = 0 and y ≤ 0."""
    some_tensor("xlogy", input, other)
    real_operands("xlogy", input, other)
    return binary(XLOGY, input, other) if out is None else binary_into("xlogy", out, XLOGY, input, other)


XLOGY = Op(
    "xlogy",
    lambda xp, x, y: xp.xlogy(x, y),
    floats=True,
    kind=ELEMENTWISE,
    weight=3.0,
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= 0), 0.0, xp.xlogy(g, y)),
    y=lambda xp, g, x, y: g * x / y,
    samples=[
        *binary_samples(-2.0, 2.0, 0.2, 2.0),
        Sample(2.0, Arg(3, low=0.3)),
        Sample(Arg(values=[0.0, 0.0, 1.0, 0.0]), Arg(values=[0.0, -1.0, 0.0, 2.0]), smooth=False),
    ],
)
singular(
    "xlogy",
    "0 ln 0",
    Sample(Arg(values=[0.0]), Arg(values=[0.0])),
    "the value is 0 by convention, and so is the slope ln y; x / y is 0/0",
)


def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x 2ʸ."""
    x, n = need_tensor("ldexp", "input", input), need_tensor("ldexp", "other", other)._data
    if x._data.dtype in dtypes.INEXACT and x._data.dtype.kind != "c" and n.dtype.kind in "iu":
        result = apply(LDEXP, (x, wrap(n)))
    else:
        result = x * pow(2.0, other)
    return result if out is None else into("ldexp", out, result, input, other)


# The derivative by x, which PyTorch gets wrong for negative integers y (it computes an integer power of 2).
LDEXP = Op(
    "ldexp",
    lambda xp, x, n: xp.ldexp(x, n),
    kind=ELEMENTWISE,
    x=lambda xp, g, n: xp.ldexp(g, n),
    samples=[
        Sample(Arg(3, 4), Arg(3, 4, dtype="int64", low=0, high=4)),
        Sample(Arg(3, 4), Arg(4)),
        Sample(Arg(), Arg(2)),
    ],
    complex=True,
)


def frexp(input: Tensor, *, out: tuple | None = None) -> return_types.frexp:
    """(m, n) with x = m 2ⁿ and ½ ≤ |m| < 1; n is int32.  d m = dx / 2ⁿ."""
    need_tensor("frexp", "input", input)
    if input._data.dtype not in dtypes.INEXACT or input._data.dtype.kind == "c":
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {input.dtype}")
    if out is not None:
        for part, t, wanted in (
            ("mantissa to have dtype float", out[0], input.dtype),
            ("exponent to have int dtype", out[1], dtypes.int32),
        ):
            if t.dtype is not wanted:
                said = part.replace("float", dtypes.META_NAMES[wanted])
                raise RuntimeError(f"torch.frexp() expects {said} but got {dtypes.META_NAMES[t.dtype]}")
    mantissa, exponent = apply(FREXP, (input,))
    if out is not None:
        mantissa, exponent = into("frexp", out[0], mantissa), into("frexp", out[1], exponent)
    return return_types.frexp((mantissa, exponent))


FREXP = Op(
    "frexp",
    lambda xp, x: xp.frexp(x),
    outputs=("mantissa", "exponent"),
    nondiff=("exponent",),
    x=lambda xp, g, exponent: xp.ldexp(g, -exponent),
    samples=[Sample(Arg(3, 4)), Sample(Arg()), Sample(Arg(0)), Sample(Arg(values=[0.0, 0.75, -6.0]), smooth=False)],
)

# In-place forms that torch has as functions too.
exp_, exp2_, expm1_, log_, log2_, log10_ = map(in_place, (exp, exp2, expm1, log, log2, log10))
log1p_, sqrt_, rsqrt_, sigmoid_ = map(in_place, (log1p, sqrt, rsqrt, sigmoid))
logit_, xlogy_, ldexp_ = in_place(logit), in_place(xlogy), in_place(ldexp)


def _float_power_(self: Any, exponent: Any) -> Any:
    """In-place version of :func:`float_power`; `self` must have the dtype of the result."""
    is_complex = "c" in (self._data.dtype.kind, exponent._data.dtype.kind if isinstance(exponent, TensorBase) else "")
    wanted = dtypes.complex128 if is_complex or isinstance(exponent, complex) else dtypes.float64
    if self._data.dtype != wanted.np:
        names = [_NAMES.get(d.name, d.name) for d in (dtypes.from_numpy(self._data.dtype), wanted)]
        raise RuntimeError(
            f"the base given to float_power_ has dtype {names[0]} but the operation's result requires dtype {names[1]}"
        )
    return _powered(self, exponent)


_powered = in_place(float_power)
_powered.__name__ = "float_power_"
_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}


class ExponentialMethods:
    """Methods of Tensor."""

    __slots__ = ()
    exp = exp
    exp_ = exp_
    exp2 = exp2
    exp2_ = exp2_
    expm1 = expm1
    expm1_ = expm1_
    log = log
    log_ = log_
    log2 = log2
    log2_ = log2_
    log10 = log10
    log10_ = log10_
    log1p = log1p
    log1p_ = log1p_
    sqrt = sqrt
    sqrt_ = sqrt_
    rsqrt = rsqrt
    rsqrt_ = rsqrt_
    sigmoid = sigmoid
    sigmoid_ = sigmoid_
    logit = logit
    logit_ = logit_
    pow = pow
    pow_ = in_place(
        pow,
        applied=lambda self, exponent: (POW_NUMBER, (self,), (exponent,)) if type(exponent) in (int, float) else None,
    )
    __ipow__ = augmented(pow_)
    __pow__, __rpow__ = power_operator, swapped_power
    float_power = float_power
    float_power_ = _float_power_
    logaddexp = logaddexp
    logaddexp2 = logaddexp2
    xlogy = xlogy
    xlogy_ = xlogy_
    ldexp = ldexp
    ldexp_ = ldexp_
    frexp = frexp
