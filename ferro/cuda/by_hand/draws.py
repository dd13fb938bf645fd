"""Random numbers by counter: Philox4x32-10, and the distributions and the dropout that are made of its words.

Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (SC11). Block b of a seed is four words of 32 bits, a function
of the seed and of b. A draw of n numbers begins at a block and takes whole blocks: which words belong to element i of it depends on
nothing else, and so neither on the launch nor on the GPU. A thread makes one block and stores what comes of it at once. `state`, if there
is one, has the seed and a block to which `start` is added: a recorded graph reads them at each replay.
Bytes: the result once; of dropout the input and the result, in backward again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.driver import cupy

__all__: list[str] = []  # (generator.py calls these; formulas do not)

WORDS = """
typedef unsigned long long big;
struct Words { unsigned v[4]; };
__device__ inline Words philox(big whole, unsigned a, unsigned b, unsigned c, unsigned d) {
  unsigned k = (unsigned)whole, l = (unsigned)(whole >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned of_a = __umulhi(0xD2511F53u, a), of_c = __umulhi(0xCD9E8D57u, c);
    const unsigned low_a = 0xD2511F53u * a, low_c = 0xCD9E8D57u * c;
    a = of_c ^ b ^ k;
    b = low_c;
    c = of_a ^ d ^ l;
    d = low_a;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  return Words{{a, b, c, d}};
}
// The words of block `start + number` of a draw.
__device__ inline Words words_of(place key, place start, const place* state, place number) {
  const big block = (big)(start + number + (state ? state[1] : 0));
  return philox((big)(state ? state[0] : key), (unsigned)block, (unsigned)(block >> 32), 0, 0);
}
// Numbers of [0, 1) with the digits that a float has, and a double.
__device__ inline void unit(const Words& w, int k, float* u) { *u = (w.v[k] & 0xFFFFFFu) * 5.9604644775390625e-08f; }
__device__ inline void unit(const Words& w, int k, double* u) {
  *u = (((big)w.v[2 * k] << 32 | w.v[2 * k + 1]) & 0x1FFFFFFFFFFFFFull) * 1.1102230246251565e-16;
}
// A number of (0, 1), of 52 bits, from two words.
__device__ inline double inner(const Words& w, int k) {
  return ((((big)w.v[2 * k] << 32 | w.v[2 * k + 1]) & 0xFFFFFFFFFFFFFull) + 0.5) * 2.220446049250313e-16;
}
// Two normal numbers from the k-th two numbers of a block (Box and Muller, 1958).
__device__ inline void normal_pair(const Words& w, int k, float* z) {
  const float u = w.v[2 * k] * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
  const float r = sqrt(-2 * log(u));
  sincospi(w.v[2 * k + 1] * 4.656612873077393e-10f, z + 1, z);
  z[0] *= r;
  z[1] *= r;
}
__device__ inline void normal_pair(const Words& w, int k, double* z) {
  double u;
  unit(w, 1, &u);
  const double r = sqrt(-2 * log(inner(w, 0)));
  sincospi(2 * u, z + 1, z);
  z[0] *= r;
  z[1] *= r;
}
template <class V, int count> struct __align__(sizeof(V) * count < 16 ? sizeof(V) * count : 16) Pack { V v[count]; };
// The numbers from `first` on of n: at once where there are as many.
template <class V, int count> __device__ inline void put(V* out, place first, place n, const Pack<V, count>& made) {
  if (first + count <= n) {
    *(Pack<V, count>*)(out + first) = made;
  } else {
    for (int k = 0; k < count; ++k)
      if (first + k < n) out[first + k] = made.v[k];
  }
}
__device__ inline place thread_number() { return blockIdx.x * (place)blockDim.x + threadIdx.x; }
"""
KERNELS = """
enum { EACH = 16 / sizeof(T) };  // numbers of a block
KERNEL draw_uniform(place n, place key, place start, const place* state, double low, double high, S* out) {
  const place id = thread_number();
  if (id * EACH >= n) return;
  const Words w = words_of(key, start, state, id);
  Pack<S, EACH> made;
  S bound;
  store(&bound, T(high));
  for (int k = 0; k < EACH; ++k) {
    T u;
    unit(w, k, &u);
    store(made.v + k, u * (T(high) - T(low)) + T(low));
    if (load(made.v[k]) >= load(bound)) store(made.v + k, T(low));  // rounded up to the bound that is left out
  }
  put(out, id * EACH, n, made);
}
KERNEL draw_normal(place n, place key, place start, const place* state, double mean, double std, S* out) {
  const place id = thread_number();
  if (id * EACH >= n) return;
  const Words w = words_of(key, start, state, id);
  Pack<S, EACH> made;
  for (int k = 0; k < EACH; k += 2) {
    T z[2];
    normal_pair(w, k / 2, z);
    store(made.v + k, T(mean) + T(std) * z[0]);
    store(made.v + k + 1, T(mean) + T(std) * z[1]);
  }
  put(out, id * EACH, n, made);
}
// True where a word is below a bound of [0, 2^32].
KERNEL draw_coins(place n, place key, place start, const place* state, double bound, bool* out) {
  const place id = thread_number();
  if (id * 4 >= n) return;
  const Words w = words_of(key, start, state, id);
  Pack<bool, 4> made;
  for (int k = 0; k < 4; ++k) made.v[k] = w.v[k] < bound;
  put(out, id * 4, n, made);
}
KERNEL draw_coins_of(place n, place key, place start, const place* state, const S* chance, bool* out) {
  const place id = thread_number();
  if (id * EACH >= n) return;
  const Words w = words_of(key, start, state, id);
  for (int k = 0; k < EACH; ++k) {
    T u;
    unit(w, k, &u);
    if (id * EACH + k < n) out[id * EACH + k] = u < load(chance[id * EACH + k]);
  }
}
// x where a word is below a bound, times a factor; elsewhere x times 0.
KERNEL drop(place n, place key, place start, const place* state, double bound, double factor, const S* x, S* out) {
  const place id = thread_number();
  if (id * 4 >= n) return;
  const Words w = words_of(key, start, state, id);
  Pack<S, 4> made;
  const bool whole = id * 4 + 4 <= n && (big)x % sizeof(Pack<S, 4>) % 16 == 0;  // (a view may begin anywhere)
  if (whole) made = *(const Pack<S, 4>*)(x + id * 4);
  for (int k = 0; k < 4; ++k) {
    if (!whole && id * 4 + k < n) made.v[k] = x[id * 4 + k];
    if (id * 4 + k < n) store(made.v + k, load(made.v[k]) * (w.v[k] < bound ? T(factor) : T(0)));
  }
  put(out, id * 4, n, made);
}
// low + floor(count w / 2^64) of 64 bits w; low + w where count is 0.
KERNEL draw_whole(place n, place key, place start, const place* state, place low, place count, place* out) {
  const place id = thread_number();
  if (id * 2 >= n) return;
  const Words w = words_of(key, start, state, id);
  Pack<place, 2> made;
  for (int k = 0; k < 2; ++k) {
    const big v = (big)w.v[2 * k] << 32 | w.v[2 * k + 1];
    made.v[k] = (place)((big)low + (count ? __umul64hi(v, (big)count) : v));
  }
  put(out, id * 2, n, made);
}
"""
OTHERS = """
// Distributions with one parameter or two: MADE of a number u of (0, 1), of the next one t, in double.
KERNEL draw_made(place n, place key, place start, const place* state, double a, double b, S* out) {
  const place id = thread_number();
  if (id >= n) return;
  const Words w = words_of(key, start, state, id);
  const double u = inner(w, 0), t = inner(w, 1);
  store(out + id, T(MADE));
}
"""
# What is made of u and t, both of (0, 1), with parameters a and b.
MADE = {
    "exponential": "-log(u) / a",
    "cauchy": "a + b * tan(3.141592653589793 * (u - 0.5))",
    "geometric": "ceil(log(u) / a)",
    "log_normal": "exp(a + b * (sqrt(-2 * log(u)) * cospi(2 * t)))",
}


def _text(dtype: str) -> str:
    return text_of(WORDS + KERNELS, dtype)


def _text_of_others(dtype: str, name: str) -> str:
    return text_of(WORDS + OTHERS, dtype, MADE=MADE[name])


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [_text(dtype), *[_text_of_others(dtype, name) for name in MADE]]


def each(dtype: Any) -> int:
    """How many numbers of a dtype a block gives."""
    return 2 if np.dtype(dtype).itemsize == 8 else 4


def _start(name: str, text: str, per: int, n: int, source: tuple, *rest: Any) -> None:
    blocks = -(-n // (per * THREADS))
    launch(text, name, (blocks,), (THREADS,), n, *source, *rest)


# `source`: the seed and the first block, both signed, and the state or 0. n > 0 of all of these.


def uniform(n: int, dtype: Any, source: tuple, low: float, high: float) -> Any:
    """n numbers of [low, high)."""
    out = cupy().empty(n, dtype)
    _start("draw_uniform", _text(out.dtype.name), each(dtype), n, source, float(low), float(high), out)
    return out


def normal(n: int, dtype: Any, source: tuple, mean: float, std: float) -> Any:
    """n normal numbers."""
    out = cupy().empty(n, dtype)
    _start("draw_normal", _text(out.dtype.name), each(dtype), n, source, float(mean), float(std), out)
    return out


def made(name: str, n: int, dtype: Any, source: tuple, a: float, b: float) -> Any:
    """n numbers of a distribution in MADE, a block for each."""
    out = cupy().empty(n, dtype)
    _start("draw_made", _text_of_others(out.dtype.name, name), 1, n, source, float(a), float(b), out)
    return out


def whole(n: int, source: tuple, low: int, count: int) -> Any:
    """n integers of [low, low + count), both signed as int64; a count of 0 stands for 2^64."""
    out = cupy().empty(n, np.int64)
    _start("draw_whole", _text("float32"), 2, n, source, low, count, out)
    return out


def coins(n: int, source: tuple, chance: Any) -> Any:
    """n truths, of which each is true with a probability: a number, or an array of n floats in C order."""
    out = cupy().empty(n, np.bool_)
    if isinstance(chance, float):
        _start("draw_coins", _text("float32"), 4, n, source, math.ldexp(chance, 32), out)
    else:
        _start("draw_coins_of", _text(chance.dtype.name), each(chance.dtype), n, source, chance, out)
    return out


def dropped(x: Any, source: tuple, chance: float) -> Any:
    """x, floats in C order, divided by the probability with which elements stay, the others 0."""
    out = cupy().empty(x.shape, x.dtype)
    bound, factor = math.ldexp(chance, 32), 1 / chance
    _start("drop", _text(x.dtype.name), 4, x.size, source, bound, factor, x, out)
    return out
