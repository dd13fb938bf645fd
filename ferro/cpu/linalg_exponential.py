"""The exponential of square NumPy matrices, for whole stacks at once.

Scaling and squaring of Padé approximants: Al-Mohy and Higham, "A new scaling and squaring algorithm for the matrix
exponential" (SIAM J. Matrix Anal. Appl. 31, 2009), algorithm 6.1, with norms of powers instead of estimates; degrees
and bounds for single precision from Higham, "The scaling and squaring method for the matrix exponential revisited".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cpu.half import rounded_once
from ferro.cpu.products import matmul
from ferro.native.blas import blas_single

__all__ = ["matrix_exp"]

# degree m -> bound on the scaled norm up to which the approximant [m/m] has the accuracy of the dtype
_BOUNDS = {
    "f": {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660},
    "d": {3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1, 9: 2.097847961257068, 13: 4.25},
}


def _coefficients(m: int) -> list[float]:
    """Of the numerator of [m/m], the constant first, made integers."""
    f = math.factorial
    return [float(f(2 * m - k) // (f(m - k) * f(k))) for k in range(m + 1)]


_PADE = {m: _coefficients(m) for m in (3, 5, 7, 9, 13)}


def _norm(x: Any) -> Any:
    """The largest sum of a column, as float64."""
    return abs(x).sum(-2).max(-1).astype(np.float64)


@rounded_once
def matrix_exp(x: Any) -> Any:
    """e^X; all nan where a matrix contains inf or nan."""
    n = x.shape[-1]
    if not x.size:
        return np.zeros(x.shape, x.dtype)
    flat = x.reshape(-1, n, n)
    finite = np.isfinite(flat).all((-2, -1))
    if not finite.all():
        flat = np.where(finite[:, None, None], flat, np.zeros((), x.dtype))
    out = _exp(flat)
    if not finite.all():
        out[~finite] = np.nan
    return out.reshape(x.shape)


def _exp(x: Any) -> Any:
    exponent = np.frexp(_norm(x))[1]
    powers = [_times_two_to(x, -exponent)]  # of norm below 1: none overflows
    powers.append(matmul(powers[0], powers[0]))
    powers.append(matmul(powers[1], powers[1]))
    powers.append(matmul(powers[2], powers[1]))
    powers.append(matmul(powers[2], powers[2]))
    degrees, squarings = _plan(powers, exponent, "f" if x.real.dtype == np.float32 else "d")
    shift = exponent - squarings
    out = np.empty_like(x)
    for m in set(degrees.tolist()):
        chosen = degrees == m
        part = powers if chosen.all() else [p[chosen] for p in powers]
        scaled = [_times_two_to(p, shift[chosen] * k) for p, k in zip(part, (1, 2, 4, 6, 8), strict=True)]
        out[chosen] = _approximant(scaled, m)
    for i in range(int(squarings.max())):
        more = squarings > i
        if more.all():
            out = matmul(out, out)
        else:
            part = out[more]
            out[more] = matmul(part, part)
    return out


def _times_two_to(x: Any, exponent: Any) -> Any:
    """x 2^exponent, in two steps lest the factor overflow where the product does not."""
    half = exponent // 2
    real = x.real.dtype
    for e in (half, exponent - half):
        x = x * np.ldexp(1.0, e).astype(real)[:, None, None]
    return x


def _plan(powers: list, exponent: Any, char: str) -> tuple:
    """The degree of the approximant and the number of squarings for each matrix, from its powers 1, 2, 4, 6 and 8."""
    bounds = _BOUNDS[char]
    roots = [_norm(p) ** (1 / k) for p, k in zip(powers[2:], (4, 6, 8), strict=True)]
    size = np.ldexp(np.minimum(np.maximum(roots[0], roots[1]), np.maximum(roots[1], roots[2])), exponent)
    growth = _growth(powers[0], max(bounds))
    last = max(bounds)
    squarings = np.maximum(np.ceil(np.log2(np.maximum(size, 1e-300) / bounds[last])), 0).astype(np.int64)
    squarings += _extra(growth, exponent - squarings, last, char)
    degrees = np.full(exponent.shape, last)
    for m in sorted(bounds, reverse=True)[1:]:
        enough = (size < bounds[m]) & (_extra(growth, exponent, m, char) == 0)
        degrees[enough] = m
        squarings[enough] = 0
    return degrees, squarings


def _growth(x: Any, m: int) -> dict[int, Any]:
    """log2 of the norms of |X|^(2k + 1) over that of X, for k up to m."""
    a = abs(x).astype(np.float64)
    row = np.ones((len(a), 1, a.shape[-1]))
    found = {}
    for k in range(1, 2 * m + 2):
        row = np.matmul(row, a)
        if k % 2:
            found[k // 2] = row.max((-2, -1))
    return {k: np.log2(np.maximum(v, 1e-300) / np.maximum(found[0], 1e-300)) for k, v in found.items()}


def _extra(growth: dict, exponent: Any, m: int, char: str) -> Any:
    """Squarings beyond those for the norm, where rounding in the approximant needs them (the l of algorithm 6.1)."""
    f = math.factorial
    leading = math.log2(f(m) ** 2 / (f(2 * m) * f(2 * m + 1))) + (24 if char == "f" else 53)
    return np.maximum(np.ceil((leading + growth[m] + 2.0 * m * exponent) / (2 * m)), 0).astype(np.int64)


def _approximant(powers: list, m: int) -> Any:
    """[m/m] at the matrix of the powers 1, 2, 4, 6 and 8."""
    b = _PADE[m]
    x, even = powers[0], powers[1:]
    if m == 13:
        x2, x4, x6 = even[:3]
        odd = matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2) + (b[7] * x6 + b[5] * x4 + b[3] * x2)
        v = matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2) + (b[6] * x6 + b[4] * x4 + b[2] * x2)
    else:
        odd, v = b[3] * even[0], b[2] * even[0]
        for k, power in enumerate(even[1 : m // 2], 2):
            odd, v = odd + b[2 * k + 1] * power, v + b[2 * k] * power
    i = np.arange(x.shape[-1])
    odd[..., i, i] += b[1]
    v[..., i, i] += b[0]
    u = matmul(x, odd)
    with blas_single():
        out = 2 * np.linalg.solve(v - u, u)
    out[..., i, i] += 1  # (V - U)⁻¹ (V + U) as I + 2 (V - U)⁻¹ U, which keeps the digits of small results
    return out
