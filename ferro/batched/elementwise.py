"""Batching rules of functions that compute element by element: the slices broadcast as the arrays would."""

from __future__ import annotations

from typing import Any

from ferro.batched.array import Batched
from ferro.batched.rules import BY_ELEMENT, RULES, declare, each

UNARY = """abs acos acosh airy_ai airy_ai_prime angle asin asinh atan atanh bessel_j0 bessel_j1 bessel_y0 bessel_y1 ceil conj cos
    cosh digamma entr erf erfc erfcx erfinv exp exp2 expm1 floor frac frexp gelu gelu_slope i0 i0e i1 i1e imag isfinite isinf isnan signbit
    lgamma log log10 log1p log1p_complex log2 log_ndtr logical_not modified_bessel_k0 modified_bessel_k1 ndtr ndtri real
    reciprocal rsqrt scaled_modified_bessel_k0 scaled_modified_bessel_k1 sgn sigmoid sign sin sinc sinh
    spherical_bessel_j0 sqrt tan tanh trunc copy contiguous"""
OF_MEMORY = ("contiguous", "copy", "imag", "real")  # where their results lie is their own matter
_before = {*RULES, *OF_MEMORY}
declare(**each("e", UNARY))
# with parameters that are numbers
declare(
    **each(
        "e - ...",
        """bessel_i_of_order bessel_ie_of_order bessel_j_of_order spherical_j_of_order logit nan_to_num round cast""",
    )
)
declare(
    **each(
        "e e",
        """atan2 complex copysign div_floor div_trunc floor_divide gcd lcm fmax fmin fmod heaviside hypot igamma igammac
    ldexp logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum nextafter polar power
    remainder xlog1py xlogy zeta chebyshev_polynomial_t hermite_polynomial_h
    hermite_polynomial_he standard_gamma_grad""",
    )
)
declare(**each("e e e", "add_scaled clamp dirichlet_grad lerp lerp_number where masked_fill"))
declare(**each("e e - ...", "laguerre gegenbauer gegenbauer_pair"))
declare(addcmul="e e e e", addcdiv="e e e e", polygamma="- e", elementwise="- e ...")
BY_ELEMENT.update(RULES.keys() - _before)


def _typed(f: Any, level: Any, value: Any, like: Any) -> Any:
    return value.astype(like.dtype) if type(value) is Batched else f(value, like.physical)


RULES["typed"] = _typed
