"""The functions inside gelu of NumPy arrays, whose loops have better numerics than their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cpu.elementwise import primitive
from ferro.native.extensions import special

__all__ = ["gelu", "gelu_slope"]

_ROOT_HALF = 0.7071067811865476  # 1 / √2
_NORMAL = 0.3989422804014327  # 1 / √(2 π)
_FAR = 40  # beyond, the normal density is 0


def _normal(x: Any) -> Any:
    """2 Φ(x); of float32 by erfc, which keeps its digits where it is small, as the loop does."""
    return special("erfc")(x * -_ROOT_HALF) if x.dtype.itemsize == 4 else 1 + special("erf")(x * _ROOT_HALF)


def _gelu(x: Any) -> Any:
    """x Φ(x)."""
    return x * 0.5 * _normal(x)


def _gelu_slope(x: Any) -> Any:
    """Φ(x) + x φ(x)."""
    x = np.minimum(np.maximum(x, -_FAR), _FAR)
    return 0.5 * _normal(x) + x * np.exp(x * x * -0.5) * _NORMAL


gelu = primitive("gelu", _gelu, entry="x")
gelu_slope = primitive("gelu_slope", _gelu_slope)
