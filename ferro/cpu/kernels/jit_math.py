"""Compiled kernels that need exp, tanh or erf: activations, softmax and cross-entropy.

The polynomials are minimax fits of our own (Remez exchange, 40 digits). Largest errors in units in the last place:
exp 1.0, tanh 1.4, erf 1.3, log1p 1.7, sigmoid 1.9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ferro.cpu.kernels.jit import by_precision, device, kernel, reduction, whole_registers

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64

# --- bits ------------------------------------------------------------------------------------------------------------


def _reinterpret(source: Any, target: Any, ir_target: Any) -> Any:
    """The bits of a `source` read as a `target`. A scalar's view() fails inside loops that are vectorised."""

    @intrinsic
    def convert(_context, x):  # Numba compares the names of the arguments
        def generate(_codegen, builder, _signature, args):
            return builder.bitcast(args[0], ir_target)

        return target(source), generate

    return convert


bits32 = _reinterpret(types.float32, types.int32, ir.IntType(32))
bits64 = _reinterpret(types.float64, types.int64, ir.IntType(64))
float32_of = _reinterpret(types.int32, types.float32, ir.FloatType())
float64_of = _reinterpret(types.int64, types.float64, ir.DoubleType())


@device
def _rank32(x):
    b = bits32(x)
    return i32(b ^ ((b >> i32(31)) & i32(0x7FFFFFFF)))  # Numba makes int64 of operations on int32


@device
def _rank64(x):
    b = bits64(x)
    return b ^ ((b >> i64(63)) & i64(0x7FFFFFFFFFFFFFFF))


@device
def _unrank32(b):
    return float32_of(i32(b ^ ((b >> i32(31)) & i32(0x7FFFFFFF))))


@device
def _unrank64(b):
    return float64_of(b ^ ((b >> i64(63)) & i64(0x7FFFFFFFFFFFFFFF)))


rank = by_precision(_rank32, _rank64)  # integers in the order of the floats, NaN beyond the infinity of its sign
unrank = by_precision(_unrank32, _unrank64)


@device
def largest(x):
    """The maximum of a row. LLVM vectorises the maximum of integers, but not of floats."""
    best = rank(x[0])
    for j in range(1, x.size):
        best = max(best, rank(x[j]))
    return unrank(best)


# --- functions of one number -----------------------------------------------------------------------------------------


@device
def _exp32(x):
    # e^x = 2^n e^r, the power of two applied in two halves so that results below 2^-126 round once
    c = min(max(x, f32(-104)), f32(89))
    n = np.floor(c * f32(1.4426950408889634) + f32(0.5))
    r = c - n * f32(0.693359375)
    r = r + n * f32(2.12194440e-4)
    p = f32(0.00138131795)
    p = p * r + f32(0.00836941883)
    p = p * r + f32(0.0416684562)
    p = p * r + f32(0.166665148)
    p = p * r + f32(0.499999931)
    y = p * (r * r) + r + f32(1)
    k = i32(n)
    half = k >> i32(1)
    y = y * float32_of(i32((half + i32(127)) << i32(23))) * float32_of(i32((k - half + i32(127)) << i32(23)))
    return x if math.isnan(x) else y


@device
def _exp64(x):
    c = min(max(x, f64(-746)), f64(710))
    n = np.floor(c * f64(1.4426950408889634) + f64(0.5))
    r = c - n * f64(0.693145751953125)
    r = r - n * f64(1.42860682030941723212e-6)
    p = f64(2.4998991969945732e-8)
    p = p * r + f64(2.7631687324728708e-7)
    p = p * r + f64(2.7557597187461963e-6)
    p = p * r + f64(2.4801489352296403e-5)
    p = p * r + f64(1.9841269486162524e-4)
    p = p * r + f64(0.001388888894691998508)
    p = p * r + f64(0.0083333333335076595913)
    p = p * r + f64(0.041666666666519152789)
    p = p * r + f64(0.16666666666666386307)
    p = p * r + f64(0.50000000000000117013)
    y = p * (r * r) + r + f64(1)
    k = i64(n)
    half = k >> i64(1)
    y = y * float64_of((half + i64(1023)) << i64(52)) * float64_of((k - half + i64(1023)) << i64(52))
    return x if math.isnan(x) else y


@device
def _tanh32(x):
    a = abs(x)
    z = a * a
    p = f32(-0.00571702794)
    p = p * z + f32(0.0206505715)
    p = p * z + f32(-0.053743493)
    p = p * z + f32(0.133314912)
    p = p * z + f32(-0.333332839)
    near = a + a * z * p
    far = f32(1) - f32(2) / (_exp32(a + a) + f32(1))
    return math.copysign(near if a < f32(0.625) else far, x)


@device
def _tanh64(x):
    a = abs(x)
    z = a * a
    p = f64(-1.610752634330152e-05)
    p = p * z + f64(7.721913713764996e-05)
    p = p * z + f64(-0.0002286332024234183)
    p = p * z + f64(0.0005863524641387243)
    p = p * z + f64(-0.0014549704698017811)
    p = p * z + f64(0.0035919915695055717)
    p = p * z + f64(-0.00886322131912906)
    p = p * z + f64(0.021869487601957296)
    p = p * z + f64(-0.0539682539324822)
    p = p * z + f64(0.13333333333264916)
    p = p * z + f64(-0.33333333333332876)
    near = a + a * z * p
    far = f64(1) - f64(2) / (_exp64(a + a) + f64(1))
    return math.copysign(near if a < f64(0.625) else far, x)


@device
def _erf32(x):
    a = abs(x)
    z = a * a
    p = f32(8.31675884e-5)
    p = p * z + f32(-0.00081300086)
    p = p * z + f32(0.0051999063)
    p = p * z + f32(-0.0268589414)
    p = p * z + f32(0.112836872)
    p = p * z + f32(-0.376126332)
    p = p * z + f32(0.12837917)
    near = x + x * p
    c = min(a, f32(4))  # beyond, erf is 1
    q = f32(0.000195936402)
    q = q * c + f32(-0.00304321142)
    q = q * c + f32(0.0222269041)
    q = q * c + f32(-0.103931576)
    q = q * c + f32(-0.637182258)
    q = q * c + f32(-1.12767563)
    q = q * c + f32(-0.000195674446)
    far = math.copysign(f32(1) - _exp32(q), x)
    return near if a < f32(0.93) or math.isnan(x) else far


@device
def _erf64(x):
    a = abs(x)
    z = a * a
    p = f64(5.945254692966e-11)
    p = p * z + f64(-1.1365661793395931e-09)
    p = p * z + f64(1.4657878770395011e-08)
    p = p * z + f64(-1.6350025065539813e-07)
    p = p * z + f64(1.6460972802586814e-06)
    p = p * z + f64(-1.4925593506029411e-05)
    p = p * z + f64(0.00012055331036866374)
    p = p * z + f64(-0.0008548326978741403)
    p = p * z + f64(0.005223977624780856)
    p = p * z + f64(-0.026866170645072893)
    p = p * z + f64(0.11283791670954857)
    p = p * z + f64(-0.3761263890318375)
    p = p * z + f64(0.1283791670955126)
    near = x + x * p
    c = min(a, f64(6))  # beyond, erf is 1
    u = c * f64(0.4) - f64(1.4)
    q = f64(4.1222495226835586e-05)
    q = q * u + f64(0.00031631161209354664)
    q = q * u + f64(0.0010089725581910838)
    q = q * u + f64(0.0018962812988038602)
    q = q * u + f64(0.0022525899508422957)
    q = q * u + f64(0.0017199175583537667)
    q = q * u + f64(0.0008936629195575211)
    q = q * u + f64(-0.00017813203641849152)
    q = q * u + f64(0.000807330862209372)
    q = q * u + f64(-0.002439295725772462)
    q = q * u + f64(0.005935005947888697)
    q = q * u + f64(-0.01438614101409563)
    q = q * u + f64(0.03412889459707005)
    q = q * u + f64(-0.08165076263943162)
    q = q * u + f64(0.20779342111196028)
    q = q * u + f64(-0.6652489708564336)
    q = q * u + f64(-1.8624374021790953)
    far = math.copysign(f64(1) - _exp64(q - c * c), x)
    return near if a < f64(1) or math.isnan(x) else far


@device
def _normal32(x):
    # Φ(-|x|) = erfc(a) / 2 with a = |x| / √2, and erfc(a) = exp(p(a) - a²): small results keep their digits up to a = 4
    a = abs(x) * f32(0.7071067811865476)
    c = min(a, f32(4))
    p = f32(-1.83161313e-5)
    p = p * c + f32(0.000206295439)
    p = p * c + f32(-0.000719301327)
    p = p * c + f32(-0.00101597374)
    p = p * c + f32(0.0199743688)
    p = p * c + f32(-0.103085859)
    p = p * c + f32(0.363435873)
    p = p * c + f32(-1.12838281)
    p = p * c + f32(3.74755696e-8)
    below = f32(0.5) * _exp32(p - a * a)
    return f32(1) - below if x > f32(0) else below


@device
def _normal64(x):
    return f64(0.5) * (f64(1) + _erf64(x * f64(0.7071067811865476)))


@device
def _log1p32(x):
    # for 0 <= x <= 1: log(1 + x) = log(2) e + log(1 + z) with |z| small and exact
    above = x > f32(0.41421356)
    z = (x - f32(1)) * f32(0.5) if above else x
    p = f32(0.0674663756)
    p = p * z + f32(-0.116756507)
    p = p * z + f32(0.118881629)
    p = p * z + f32(-0.124055896)
    p = p * z + f32(0.142195525)
    p = p * z + f32(-0.166679958)
    p = p * z + f32(0.200021186)
    p = p * z + f32(-0.250000096)
    p = p * z + f32(0.333333126)
    y = z + z * z * (z * p - f32(0.5))
    return y + f32(0.6931471805599453) if above else y


@device
def _log1p64(x):
    # log(1 + x) = 2 artanh(s)
    s = x / (f64(2) + x)
    z = s * s
    p = f64(0.17018585202268174)
    p = p * z + f64(0.08340096245074008)
    p = p * z + f64(0.12106087429583688)
    p = p * z + f64(0.13300973443956157)
    p = p * z + f64(0.15386559933043883)
    p = p * z + f64(0.1818174392452495)
    p = p * z + f64(0.22222223969739383)
    p = p * z + f64(0.28571428547853833)
    p = p * z + f64(0.40000000000157243)
    p = p * z + f64(0.6666666666666631)
    return f64(2) * s + s * z * p


exp = by_precision(_exp32, _exp64)
tanh = by_precision(_tanh32, _tanh64)
erf_ = by_precision(_erf32, _erf64)
normal = by_precision(_normal32, _normal64)  # the normal distribution function Φ
log1p = by_precision(_log1p32, _log1p64)  # of numbers between 0 and 1


@device
def sigmoid_(x):
    T = type(x)
    e = exp(-abs(x))
    q = (T(1) if x >= T(0) else e) / (T(1) + e)
    return q if x >= T(0) else e - e * q  # e / (1 + e), rounded less often


# --- activations -----------------------------------------------------------------------------------------------------


@kernel
def erf(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = erf_(x[i])


@kernel
def exponential(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def sigmoid(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = sigmoid_(x[i])


@kernel
def sigmoid_vjp(g, y, out):
    T = y.dtype.type
    for i in range(y.size):
        out[i] = g[i] * y[i] * (T(1) - y[i])


@kernel
def gelu(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = x[i] * normal(x[i])


@kernel
def gelu_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        out[i] = g[i] * (normal(v) + v * exp(v * v * T(-0.5)) * T(0.3989422804014327))


@kernel
def gelu_tanh(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        t = tanh((v + v * v * v * T(0.044715)) * T(0.7978845608028654))
        out[i] = v * T(0.5) * (T(1) + t)


@kernel
def gelu_tanh_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        square = v * v
        t = tanh(v * (T(1) + square * T(0.044715)) * T(0.7978845608028654))
        slope = v * (T(1) - t * t) * (T(1) + square * T(0.134145)) * T(0.7978845608028654)
        out[i] = g[i] * T(0.5) * ((T(1) + t) + slope)


@kernel
def silu(x, out):
    whole_registers()
    for i in range(x.size):
        out[i] = x[i] * sigmoid_(x[i])


@kernel
def silu_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        s = sigmoid_(x[i])
        out[i] = g[i] * s * (T(1) + x[i] * (T(1) - s))


@kernel
def mish(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        e = exp(min(x[i], T(20)))  # beyond, tanh(softplus(x)) is 1
        n = e * (e + T(2))
        out[i] = x[i] * (n / (n + T(2)))


@kernel
def mish_vjp(g, x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        e = exp(min(v, T(20)))
        n = e * (e + T(2))
        t = n / (n + T(2))
        slope = v * (e / (T(1) + e)) * (T(4) * (n + T(1)) / ((n + T(2)) * (n + T(2))))
        out[i] = g[i] * (t + slope)


@kernel
def softplus(x, beta, threshold, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        u = x[i] * T(beta)
        smooth = (max(u, T(0)) + log1p(exp(-abs(u)))) / T(beta)
        out[i] = x[i] if u > T(threshold) else smooth


@kernel
def softplus_vjp(g, x, beta, threshold, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        u = x[i] * T(beta)
        out[i] = g[i] if u > T(threshold) else g[i] * sigmoid_(u)


@device
def _expm1_32(x):
    # for x <= 0: 2^n (e^r - 1) + (2^n - 1)
    c = max(x, f32(-20))
    n = np.floor(c * f32(1.4426950408889634) + f32(0.5))
    r = c - n * f32(0.693359375)
    r = r + n * f32(2.12194440e-4)
    p = f32(0.00138131795)
    p = p * r + f32(0.00836941883)
    p = p * r + f32(0.0416684562)
    p = p * r + f32(0.166665148)
    p = p * r + f32(0.499999931)
    power = float32_of(i32((i32(n) + i32(127)) << i32(23)))
    y = power * (p * (r * r) + r) + (power - f32(1))
    return x if math.isnan(x) else y


@device
def _expm1_64(x):
    return math.expm1(x)


expm1 = by_precision(_expm1_32, _expm1_64)  # of numbers up to 0


@kernel
def elu(x, alpha, scale, input_scale, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        left = expm1((min(v, T(0))) * T(input_scale)) * T(alpha * scale)
        out[i] = v * T(scale) if v > T(0) else left


@kernel
def elu_vjp(g, x, alpha, scale, input_scale, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        left = exp((min(v, T(0))) * T(input_scale)) * T(alpha * scale * input_scale)
        out[i] = g[i] * left if v <= T(0) else g[i] * T(scale)


@kernel
def logsigmoid(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        v = x[i]
        out[i] = (min(v, T(0))) - log1p(exp(-abs(v)))


@kernel
def logaddexp(x, y, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.size):
        a, b = x[i], y[i]
        d = T(0) if a == b else -abs(a - b)  # infinity - infinity must not arise
        out[i] = (max(b, a)) + log1p(exp(d))


@device
def _log_from_one(s, like):
    """The logarithm of a float64 from 1 on, in the precision of `like`."""
    b = bits64(s)
    T = type(like)
    z = float64_of((b & i64(0x000FFFFFFFFFFFFF)) | i64(0x3FF0000000000000)) - f64(1)
    y = T((b >> i64(52)) - i64(1023)) * T(0.6931471805599453) + log1p(T(z))
    return T(s) if math.isnan(s) else y


@device
def _one_more(v, t, s):
    """log(s) + t and another exponent v: the larger of t and v, and the new s."""
    T = type(v)
    d = T(0) if v == t else v - t  # infinity - infinity must not arise
    e = f64(exp(-abs(d)))
    return (v if d > T(0) else t), (s * e + f64(1) if d > T(0) else s + e)


@kernel
def logcumsumexp(x, out):
    """Along the middle dimension: the largest element so far and the sum of the exponentials of the distances from it."""
    whole_registers()
    n, m = x.shape[1:]
    top, total = np.empty(m, x.dtype), np.empty(m)
    for k in range(x.shape[0]):
        if m == 1:
            t, s = x[k, 0, 0], f64(0)
            for i in range(n):
                t, s = _one_more(x[k, i, 0], t, s)
                out[k, i, 0] = t + _log_from_one(s, t)
            continue
        top[:] = x[k, 0]
        total[:] = 0
        for i in range(n):
            source, target = x[k, i], out[k, i]
            for j in range(m):
                t, s = _one_more(source[j], top[j], total[j])
                top[j], total[j] = t, s
                target[j] = t + _log_from_one(s, t)


# --- softmax of rows -------------------------------------------------------------------------------------------------


@reduction
def _sum(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@reduction
def _dot(x, y):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@reduction
def _sum_of_exp(x, top):
    """The sum of exp(x - top)."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total += exp(x[j] - top)
    return total


@reduction
def _exp_into(x, top, out):
    """out = exp(x - top), and its sum."""
    total = x.dtype.type(0)
    for j in range(x.size):
        e = exp(x[j] - top)
        out[j] = e
        total += e
    return total


@reduction
def _exp_in_place(x, top):
    """x = exp(x - top), and its sum. (With the same array twice, `_exp_into` is not vectorised.)"""
    total = x.dtype.type(0)
    for j in range(x.size):
        e = exp(x[j] - top)
        x[j] = e
        total += e
    return total


@kernel
def softmax(x, out):
    whole_registers()
    for i in range(x.shape[0]):
        total = _exp_into(x[i], largest(x[i]), out[i])
        scale = x.dtype.type(1) / total
        for j in range(x.shape[1]):
            out[i, j] *= scale


@kernel
def scaled_softmax(x, scale, first, causal):
    """In place the softmax of scale x; `causal`: of row i over its first `first` + i + 1 numbers, zeros behind them."""
    whole_registers()
    T = x.dtype.type
    for i in range(x.shape[0]):
        row = x[i, : min(first + i + 1, x.shape[1])] if causal else x[i]
        for j in range(row.size):
            row[j] *= T(scale)
        total = _exp_in_place(row, largest(row))
        factor = T(1) / total
        for j in range(row.size):
            row[j] *= factor
        x[i, row.size :] = T(0)


@kernel
def softmax_vjp(g, y, out):
    for i in range(y.shape[0]):
        total = _dot(g[i], y[i])
        for j in range(y.shape[1]):
            out[i, j] = (g[i, j] - total) * y[i, j]


@kernel
def scaled_softmax_vjp(g, y, scale):
    """In place of g its backward through softmax, times the scale."""
    for i in range(y.shape[0]):
        total = _dot(g[i], y[i])
        for j in range(y.shape[1]):
            g[i, j] = (g[i, j] - total) * y[i, j] * y.dtype.type(scale)


@kernel
def log_softmax(x, out):
    whole_registers()
    for i in range(x.shape[0]):
        top = largest(x[i])
        shift = x.dtype.type(math.log(_sum_of_exp(x[i], top)))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - top) - shift


@kernel
def log_softmax_vjp(g, y, out):
    whole_registers()
    for i in range(y.shape[0]):
        total = _sum(g[i])
        for j in range(y.shape[1]):
            out[i, j] = g[i, j] - exp(y[i, j]) * total


@kernel
def logsumexp(x, out):
    whole_registers()
    T = x.dtype.type
    for i in range(x.shape[0]):
        top = largest(x[i])
        if abs(top) == T(np.inf):  # infinity - infinity must not arise
            top = T(0)
        out[i] = top + T(math.log(_sum_of_exp(x[i], top)))


# --- softmax along a dimension that is not the last ------------------------------------------------------------------

# Arrays are (before, along, after); a tile is up to `width` neighbours in the last dimension, and all of `along`. Inner
# loops run over slices from 0: an index that might be negative, for all Numba knows, is not vectorised.


@device
def _tile(tile, width, after):
    """Which `before` a tile is in, its first column, and the one after its last."""
    tiles = (after + width - 1) // width
    first = (tile % tiles) * width
    return tile // tiles, first, min(first + width, after)


@device
def _largest_of_columns(x, first, stop, top):
    top[: stop - first] = x[0, first:stop]
    for j in range(1, x.shape[0]):
        row = x[j, first:stop]
        for k in range(row.size):
            v, t = row[k], top[k]
            top[k] = t if t >= v or math.isnan(t) else v  # nan wins


@kernel
def softmax_columns(x, width, first_tile, last_tile, out):
    whole_registers()
    T = x.dtype.type
    top, total = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, x.shape[2])
        _largest_of_columns(x[a], first, stop, top)
        total[:] = 0
        for j in range(x.shape[1]):
            row, result = x[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                e = exp(row[k] - top[k])
                result[k] = e
                total[k] += e
        for k in range(width):
            total[k] = T(1) / total[k]
        for j in range(x.shape[1]):
            result = out[a, j, first:stop]
            for k in range(result.size):
                result[k] *= total[k]


@kernel
def log_softmax_columns(x, width, first_tile, last_tile, out):
    whole_registers()
    T = x.dtype.type
    top, shift = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, x.shape[2])
        _largest_of_columns(x[a], first, stop, top)
        shift[:] = 0
        for j in range(x.shape[1]):
            row = x[a, j, first:stop]
            for k in range(row.size):
                shift[k] += exp(row[k] - top[k])
        for k in range(stop - first):
            shift[k] = T(math.log(shift[k]))
        for j in range(x.shape[1]):
            row, result = x[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = (row[k] - top[k]) - shift[k]


@kernel
def softmax_vjp_columns(g, y, width, first_tile, last_tile, out):
    total = np.empty(width, y.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, y.shape[2])
        total[:] = 0
        for j in range(y.shape[1]):
            g_row, row = g[a, j, first:stop], y[a, j, first:stop]
            for k in range(row.size):
                total[k] += g_row[k] * row[k]
        for j in range(y.shape[1]):
            g_row, row, result = g[a, j, first:stop], y[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = (g_row[k] - total[k]) * row[k]


@kernel
def log_softmax_vjp_columns(g, y, width, first_tile, last_tile, out):
    whole_registers()
    total = np.empty(width, y.dtype)
    for tile in range(first_tile, last_tile):
        a, first, stop = _tile(tile, width, y.shape[2])
        total[:] = 0
        for j in range(y.shape[1]):
            g_row = g[a, j, first:stop]
            for k in range(g_row.size):
                total[k] += g_row[k]
        for j in range(y.shape[1]):
            g_row, row, result = g[a, j, first:stop], y[a, j, first:stop], out[a, j, first:stop]
            for k in range(row.size):
                result[k] = g_row[k] - exp(row[k]) * total[k]


# --- cross-entropy ---------------------------------------------------------------------------------------------------


@reduction
def _sum_of_losses(x, top, shift, weight):
    """The weighted sum of -log(softmax(x)) over all classes; no weights: all are 1."""
    total = x.dtype.type(0)
    if weight.size:
        for j in range(x.size):
            total += weight[j] * (shift - (x[j] - top))
    else:
        for j in range(x.size):
            total += shift - (x[j] - top)
    return total


@kernel
def cross_entropy(x, target, weight, ignored, smoothing, losses, norms):
    whole_registers()
    T = x.dtype.type
    for i in range(x.shape[0]):
        top = largest(x[i])
        shift = T(math.log(_sum_of_exp(x[i], top)))
        norms[i] = f64(top) + f64(shift)
        t = target[i]
        if t == ignored:
            losses[i] = T(0)
            continue
        loss = shift - (x[i, t] - top)
        if weight.size:
            loss *= weight[t]
        if smoothing != 0:
            loss = T(1 - smoothing) * loss + T(smoothing / x.shape[1]) * _sum_of_losses(x[i], top, shift, weight)
        losses[i] = loss


@kernel
def cross_entropy_vjp(g, x, target, norms, weight, ignored, smoothing, out):
    whole_registers()
    T = x.dtype.type
    classes = x.shape[1]
    share = T(smoothing / classes)
    whole = _sum(weight) if weight.size else T(classes)
    for i in range(x.shape[0]):
        t = target[i]
        if t == ignored:
            for j in range(classes):
                out[i, j] = T(0)
            continue
        high = T(norms[i])  # x - norm in two steps, the first of which is exact where it matters
        low = T(norms[i] - f64(high))
        hit = T(1 - smoothing)
        if weight.size:
            hit *= weight[t]
        scale = g[i] * (hit + share * whole)
        for j in range(classes):
            out[i, j] = scale * exp((x[i, j] - high) - low)
        if smoothing != 0:
            if weight.size:
                for j in range(classes):
                    out[i, j] -= g[i] * share * weight[j]
            else:
                for j in range(classes):
                    out[i, j] -= g[i] * share
        out[i, t] -= g[i] * hit
