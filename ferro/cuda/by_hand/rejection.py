"""Gamma, Poisson and binomial numbers by rejection, a thread for each number, from the words of draws.py.

A number takes one block of its draw. Its attempts count up the third word of that block's counter, which other draws leave 0: so how
often one number was rejected changes no other, what a draw takes of the stream is known before it runs, and a graph can record it. All
is computed in double. Sources: Marsaglia and Tsang, A simple method for generating gamma variables (2000); Hörmann, The transformed
rejection method for generating Poisson random variables (1993); Hörmann, The generation of binomial random variates (1993).
Bytes: the parameters and the result once.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ferro.cuda.by_hand.draws import WORDS
from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import text_of
from ferro.cuda.driver import cupy

__all__: list[str] = []  # (philox.py calls `rejected`; formulas do not)

KERNELS = """
// The attempts of one number: each has four words, two numbers of (0, 1).
struct Attempts {
  big seed, block;
  unsigned count;
  __device__ Attempts(place key, place start, const place* state, place number)
      : seed(state ? state[0] : key), block(start + number + (state ? state[1] : 0)), count(0) {}
  __device__ Words next() { return philox(seed, (unsigned)block, (unsigned)(block >> 32), ++count, 0); }
};
__device__ inline double not_a_number() { return NAN; }
__device__ inline double gamma_of(Attempts& from, double alpha) {
  if (alpha == 0) return 0;
  if (!(alpha > 0)) return not_a_number();
  double scale = 1, b = alpha - 1.0 / 3;
  if (alpha < 1) {
    scale = pow(inner(from.next(), 0), 1 / alpha);
    b += 1;
  }
  const double c = 1 / sqrt(9 * b);
  for (;;) {
    double z[2];
    normal_pair(from.next(), 0, z);
    const double x = z[0], y = 1 + c * x;
    if (y <= 0) continue;
    const double v = y * y * y, u = inner(from.next(), 0);
    if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + b * (1 - v + log(v))) return scale * b * v;
  }
}
// ln k! less Stirling's formula for it, (k + 1/2) ln(k + 1) - (k + 1) + ln sqrt(2 pi).
__device__ inline double tail(double k) {
  const double n = k + 1;
  if (k < 10) {
    double product = 1;
    for (int i = 2; i <= k; ++i) product *= i;
    return log(product) - ((k + 0.5) * log(n) - n + 0.9189385332046728);
  }
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / (n * n)) / (n * n)) / n;
}
// Counts numbers until their product falls below a bound: for small rates.
__device__ inline double products(Attempts& from, double rate) {
  const double least = exp(-rate);
  double product = 1;
  for (double k = 0;; k += 2) {
    const Words w = from.next();
    product *= inner(w, 0);
    if (!(product > least)) return k;
    product *= inner(w, 1);
    if (!(product > least)) return k + 1;
  }
}
__device__ inline double poisson_of(Attempts& from, double rate) {
  if (rate == 0) return 0;
  if (!(rate > 0 && rate < 1e19)) return not_a_number();
  if (rate < 10) return products(from, rate);
  const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double log_inverse = log(1.1239 + 1.1328 / (b - 3.4)), inside = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const Words w = from.next();
    const double u = inner(w, 0) - 0.5, v = inner(w, 1), edge = 0.5 - fabs(u);
    const double k = floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= inside) return k;
    if (k < 0 || (edge < 0.013 && v > edge)) continue;
    const double log_factorial = (k + 0.5) * log(k + 1) - (k + 1) + 0.9189385332046728 + tail(k);
    if (log(v) + log_inverse - log(a / (edge * edge) + b) <= k * log_rate - rate - log_factorial) return k;
  }
}
// Counts successes by the waiting times between them: for small means.
__device__ inline double waiting(Attempts& from, double n, double p) {
  const double log_miss = log1p(-p);
  double total = 0;
  for (double k = 0;; k += 2) {
    const Words w = from.next();
    total += ceil(log(inner(w, 0)) / log_miss);
    if (total > n) return k;
    total += ceil(log(inner(w, 1)) / log_miss);
    if (total > n) return k + 1;
  }
}
__device__ inline double transformed(Attempts& from, double n, double p) {
  const double mean = n * p, std = sqrt(mean * (1 - p)), odds = p / (1 - p), mode = floor((n + 1) * p);
  const double b = 1.15 + 2.53 * std, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double inside = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * std;
  const double at_mode = (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1))) + tail(mode) + tail(n - mode);
  for (;;) {
    const Words w = from.next();
    const double u = inner(w, 0) - 0.5, v = inner(w, 1), edge = 0.5 - fabs(u);
    const double k = floor((2 * a / edge + b) * u + mean + 0.5);
    if (k < 0 || k > n) continue;
    if (edge >= 0.07 && v <= inside) return k;
    const double bound = at_mode + (n + 1) * log((n - mode + 1) / (n - k + 1))
                         + (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) - tail(k) - tail(n - k);
    if (log(v * alpha / (a / (edge * edge) + b)) <= bound) return k;
  }
}
__device__ inline double binomial_of(Attempts& from, double n, double p) {
  if (n != n || p != p || !(n < 1e19)) return not_a_number();
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  const double rare = p > 0.5 ? 1 - p : p;
  const double k = n * rare < 10 ? waiting(from, n, rare) : transformed(from, n, rare);
  return p > 0.5 ? n - k : k;
}
KERNEL draw_gamma(place n, place key, place start, const place* state, const S* alpha, double least, S* out) {
  const place id = thread_number();
  if (id >= n) return;
  Attempts from(key, start, state, id);
  const double made = gamma_of(from, load(alpha[id]));
  store(out + id, T(made < least ? least : made));
}
KERNEL draw_poisson(place n, place key, place start, const place* state, const S* rate, S* out) {
  const place id = thread_number();
  if (id >= n) return;
  Attempts from(key, start, state, id);
  store(out + id, T(poisson_of(from, load(rate[id]))));
}
KERNEL draw_binomial(place n, place key, place start, const place* state, const S* count, const S* p, S* out) {
  const place id = thread_number();
  if (id >= n) return;
  Attempts from(key, start, state, id);
  store(out + id, T(binomial_of(from, load(count[id]), load(p[id]))));
}
"""


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    # (two blocks to a multiprocessor: with the registers of four, logarithms in double spill)
    return [text_of(WORDS + KERNELS, dtype, KERNEL='extern "C" __global__ void __launch_bounds__(256, 2)')]


def rejected(name: str, source: tuple, *parameters: Any) -> Any:
    """Numbers of "gamma", "poisson" or "binomial": parameters of one floating dtype and shape in C order, a block of the source for each."""
    first = parameters[0]
    out = cupy().empty(first.shape, first.dtype)
    limit = (float(ml_dtypes.finfo(np.dtype(first.dtype)).tiny),) if name == "gamma" else ()
    blocks = -(-first.size // THREADS)
    (text,) = texts(first.dtype.name)
    launch(text, f"draw_{name}", (blocks,), (THREADS,), first.size, *source, *parameters, *limit, out)
    return out
