"""Attention without its matrix of weights: forward in one launch, backward in two, in blocks of 32 queries and 32 keys.

A warp has four rows (queries, in the gradients of keys and values keys) in shared memory and goes over the other side in tiles of 32, a
lane for each: products with the tile, running maximum and sum (Dao et al., FlashAttention, 2022), and sums over the tile by
columns, 32 of them at a time. Backward computes the weights anew from the logarithm of each row's sum; sum p dp is found in a first
pass over the keys. A mask, boolean or added, is read where it lies, by its strides: 0 where it is broadcast; its own gradient takes
the matrix of weights and is the formula's. 16-bit floats go by tensor cores (attention_tensor.py). Memory: the arrays, and a float64
for each query.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cuda.by_hand.attention_tensor import TENSOR_KERNELS, shared_bytes
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import has_mma, is_float, launch
from ferro.cuda.by_hand.reductions import merged, two
from ferro.cuda.by_hand.texts import MMA, text_of
from ferro.cuda.driver import cupy
from ferro.cuda.twins import formula_of

__all__ = ["attention", "attention_vjp"]

TEXT = """
// Four rows of each of eight warps, and a tile of the other side, in shared memory; rows of a tile are one longer than they are wide,
// so that lanes read different banks.
struct Shared {
  T* memory;
  // `count` rows of x from `start` on; zeros behind the last.
  __device__ const T* rows(const S* x, place start, place count, int width, int step) {
    T* to = memory;
    memory += 32 * step;
    fill(to, x, start, count, width, step);
    return to;
  }
  static __device__ void fill(T* to, const S* x, place start, place count, int width, int step) {
    for (int k = threadIdx.x; k < 32 * width; k += 256) {
      const int row = k / width, column = k % width;
      to[row * step + column] = start + row < count ? load(x[(start + row) * width + column]) : T(0);
    }
  }
};
__device__ inline void products(const T* own, const T* tile, int width, T scale, T* s) {
  const T* other = tile + threadIdx.x % 32 * (width + 1);
  for (int r = 0; r < 4; ++r) s[r] = 0;
  for (int d = 0; d < width; ++d) {
    const T t = other[d];
#pragma unroll
    for (int r = 0; r < 4; ++r) s[r] += own[r * width + d] * t;
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) s[r] *= scale;
}
// sums[r][c] += the sum over the rows of the tile of p[r] of that lane times column c.
__device__ inline void add(const T* p, const T* tile, int width, T (*sums)[CHUNKS]) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < 32; ++j) {
    T each[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) each[r] = __shfl_sync(0xffffffffu, p[r], j);
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int column = lane + 32 * c;
      const T t = column < width ? tile[j * (width + 1) + column] : T(0);
#pragma unroll
      for (int r = 0; r < 4; ++r) sums[r][c] += each[r] * t;
    }
  }
}
__device__ inline void put(S* x, place first, place count, int width, T (*sums)[CHUNKS], const T* factors) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
      if (first + r < count && lane + 32 * c < width) store(x + (first + r) * width + lane + 32 * c, sums[r][c] * factors[r]);
}
template <class V, class F> __device__ inline V over_warp(V v, F f) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}
KERNEL attention_forward(place queries, place keys, place blocks, place width, place depth, place causal, double scale, const S* q,
                         const S* k, const S* v, S* out, double* logs MASK_GIVEN) {
  extern __shared__ T memory[];
  const place head = blockIdx.x / blocks, start = blockIdx.x % blocks * 32, first = start + threadIdx.x / 32 * 4;
  const int lane = threadIdx.x % 32;
  Shared shared{memory};
  const T* own = shared.rows(q + head * queries * width, start, queries, width, width) + threadIdx.x / 32 * 4 * width;
  T* tile = shared.memory;
  k += head * keys * width;
  v += head * keys * depth;
  MASK_OF_HEAD
  T top[4], sums[4][CHUNKS];
  A total[4];
  for (int r = 0; r < 4; ++r) {
    top[r] = -INFINITY;
    total[r] = 0;
    for (int c = 0; c < CHUNKS; ++c) sums[r][c] = 0;
  }
  const place last = causal && start + 32 < keys ? start + 32 : keys;
  for (place from = 0; from < last; from += 32) {
    __syncthreads();
    Shared::fill(tile, k, from, keys, width, width + 1);
    __syncthreads();
    T s[4];
    products(own, tile, width, scale, s);
    __syncthreads();
    Shared::fill(tile, v, from, keys, depth, depth + 1);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const place key = from + lane;
      if (key >= keys || (causal && key > first + r)) s[r] = -INFINITY;
      MASKED(s[r], first + r, key)
      const T now = larger(top[r], over_warp(s[r], Largest()));
      const T keep = now == top[r] ? T(1) : exp(top[r] - now);
      s[r] = s[r] == -INFINITY ? T(0) : exp(s[r] - now);
      total[r] = total[r] * keep + over_warp(A(s[r]), Sum());
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) sums[r][c] *= keep;
      top[r] = now;
    }
    add(s, tile, depth, sums);
  }
  T factors[4];
  for (int r = 0; r < 4; ++r) {
    factors[r] = T(IS_MASKED && total[r] == 0 ? 0 : 1 / total[r]);
    if (lane == 0 && first + r < queries) logs[head * queries + first + r] = double(top[r]) + log(double(total[r]));
  }
  put(out + head * queries * depth, first, queries, depth, sums, factors);
}
// The gradient of the queries, and of each query the sum over the keys of p dp.
KERNEL attention_queries(place queries, place keys, place blocks, place width, place depth, place causal, double scale, const S* g,
                         const S* q, const S* k, const S* v, const double* logs, double* along, S* dq MASK_GIVEN) {
  extern __shared__ T memory[];
  const place head = blockIdx.x / blocks, start = blockIdx.x % blocks * 32, first = start + threadIdx.x / 32 * 4;
  const int lane = threadIdx.x % 32;
  Shared shared{memory};
  const T* own = shared.rows(q + head * queries * width, start, queries, width, width) + threadIdx.x / 32 * 4 * width;
  const T* slope = shared.rows(g + head * queries * depth, start, queries, depth, depth) + threadIdx.x / 32 * 4 * depth;
  T *tile = shared.memory, *values = tile + 32 * (width + 1);
  k += head * keys * width;
  v += head * keys * depth;
  MASK_OF_HEAD
  T sums[4][CHUNKS], factors[4];
  A part[4];
  for (int r = 0; r < 4; ++r) {
    part[r] = 0;
    factors[r] = scale;
    for (int c = 0; c < CHUNKS; ++c) sums[r][c] = 0;
  }
  const place last = causal && start + 32 < keys ? start + 32 : keys;
  for (int pass = 0; pass < 2; ++pass) {
    for (place from = 0; from < last; from += 32) {
      __syncthreads();
      Shared::fill(tile, k, from, keys, width, width + 1);
      Shared::fill(values, v, from, keys, depth, depth + 1);
      __syncthreads();
      T s[4], d[4];
      products(own, tile, width, scale, s);
      products(slope, values, depth, 1, d);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const place row = first + r, key = from + lane;
        MASKED(s[r], row, key)
        const bool out = row >= queries || key >= keys || (causal && key > row) || (IS_MASKED && s[r] == -INFINITY);
        const T p = out ? T(0) : T(exp(T(s[r] - logs[head * queries + row])));
        if (pass == 0)
          part[r] += p * d[r];
        else
          s[r] = p * (d[r] - T(part[r]));
      }
      if (pass == 1) add(s, tile, width, sums);
    }
    if (pass == 0) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        part[r] = over_warp(part[r], Sum());
        if (lane == 0 && first + r < queries) along[head * queries + first + r] = part[r];
      }
    }
  }
  put(dq + head * queries * width, first, queries, width, sums, factors);
}
KERNEL attention_keys(place queries, place keys, place blocks, place width, place depth, place causal, double scale, const S* g,
                      const S* q, const S* k, const S* v, const double* logs, const double* along, S* dk, S* dv MASK_GIVEN) {
  extern __shared__ T memory[];
  const place head = blockIdx.x / blocks, start = blockIdx.x % blocks * 32, first = start + threadIdx.x / 32 * 4;
  const int lane = threadIdx.x % 32;
  Shared shared{memory};
  const T* own = shared.rows(k + head * keys * width, start, keys, width, width) + threadIdx.x / 32 * 4 * width;
  const T* value = shared.rows(v + head * keys * depth, start, keys, depth, depth) + threadIdx.x / 32 * 4 * depth;
  T *tile = shared.memory, *slopes = tile + 32 * (width + 1);
  q += head * queries * width;
  g += head * queries * depth;
  MASK_OF_HEAD
  T of_keys[4][CHUNKS], of_values[4][CHUNKS], scales[4], ones[4];
  for (int r = 0; r < 4; ++r) {
    scales[r] = scale;
    ones[r] = 1;
    for (int c = 0; c < CHUNKS; ++c) of_keys[r][c] = of_values[r][c] = 0;
  }
  for (place from = causal ? start : 0; from < queries; from += 32) {
    __syncthreads();
    Shared::fill(tile, q, from, queries, width, width + 1);
    Shared::fill(slopes, g, from, queries, depth, depth + 1);
    __syncthreads();
    T s[4], d[4];
    products(own, tile, width, scale, s);
    products(value, slopes, depth, 1, d);
    const place row = from + lane;
    const double log_sum = row < queries ? logs[head * queries + row] : 0, level = row < queries ? along[head * queries + row] : 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const place key = first + r;
      MASKED(s[r], row, key)
      const bool out = row >= queries || key >= keys || (causal && key > row) || (IS_MASKED && s[r] == -INFINITY);
      s[r] = out ? T(0) : T(exp(T(s[r] - log_sum)));
      d[r] = s[r] * (d[r] - T(level));
    }
    add(s, slopes, depth, of_values);
    add(d, tile, width, of_keys);
  }
  put(dk + head * keys * width, first, keys, width, of_keys, scales);
  put(dv + head * keys * depth, first, keys, depth, of_values, ones);
}
"""
THREADS = {True: 128, False: 256}  # of a block, by tensor cores and without
ROWS = {True: 64, False: 32}  # of a block
# What a mask puts into the text: "" is no mask.
GIVEN = ", place near, place far_step, place near_step, place row_step, place column_step, const {}* mask"
OF_HEAD = "mask += head / near * far_step + head % near * near_step;"
MASKS = {
    "": ("", "", "", "false"),
    "bool": (
        GIVEN.format("bool"),
        OF_HEAD,
        "if (ROW < queries && KEY < keys && !mask[(ROW) * row_step + (KEY) * column_step]) X = -INFINITY;",
        "true",
    ),
    "added": (
        GIVEN.format("S"),
        OF_HEAD,
        "if (ROW < queries && KEY < keys) X += load(mask[(ROW) * row_step + (KEY) * column_step]);",
        "true",
    ),
}
_MASKED = re.compile(r"MASKED\(([^,]+), ([^,]+), ([^)]+)\)")
MOST_WIDE = {"float32": 128, "float64": 64, "float16": 128, "bfloat16": 128}  # columns for which there are registers


@cache
def _text(dtype: str, chunks: int, mask: str = "") -> str:
    given, of_head, masked, is_masked = MASKS[mask]
    tensor = dtype in MMA
    body = (
        (MMA[dtype] + TENSOR_KERNELS if tensor else TEXT)
        .replace(" MASK_GIVEN", given)
        .replace("MASK_OF_HEAD", of_head)
        .replace("IS_MASKED", is_masked)
    )
    body = _MASKED.sub(lambda m: masked.replace("ROW", m[2]).replace("KEY", m[3]).replace("X", m[1]), body)
    kernel = f'extern "C" __global__ void __launch_bounds__({THREADS[tensor]}, 2)'
    return text_of(body, dtype, CHUNKS=str(chunks), WIDTH=str(32 * chunks), KERNEL=kernel)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [_text(dtype, chunks, mask) for mask in MASKS for chunks in (1, 2, 4) if 32 * chunks <= MOST_WIDE[dtype]]


def _takes(q: Any, k: Any, v: Any, mask: Any) -> bool:
    """Whether kernels compute the attention of these arrays (..., rows, columns)."""
    if not is_float(q, k, v) or not has_mma(q) or not k.size or not v.size or q.ndim < 2:
        return False
    if mask is not None and mask.dtype.kind != "b" and mask.dtype != q.dtype:
        return False
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    return alike and max(q.shape[-1], v.shape[-1]) <= MOST_WIDE[q.dtype.name]


def _placed(mask: Any, q: Any, k: Any) -> tuple:
    """A mask as the kernels take it: its steps between heads of two dimensions, rows and columns, 0 where it is broadcast; and itself."""
    if mask is None:
        return ()
    whole = cupy().broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    steps = [(n, s // mask.itemsize) for n, s in zip(whole.shape, whole.strides, strict=True)]
    heads = merged(steps[:-2])
    if len(heads) > 2:
        return _placed(cupy().ascontiguousarray(whole), q, k)
    (_, far_step), (near, near_step) = two(heads)
    return near, far_step, near_step, steps[-2][1], steps[-1][1], mask


def _start(name: str, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, *arrays: Any) -> None:
    width, depth = q.shape[-1], v.shape[-1]
    rows, dtype = (k if name == "attention_keys" else q).shape[-2], q.dtype.name
    tensor, chunks = dtype in MMA, 1 << (-(-max(width, depth) // 32) - 1).bit_length()
    blocks, heads = -(-rows // ROWS[tensor]), math.prod(q.shape[:-2])
    shared = shared_bytes(name, 32 * chunks) if tensor else q.dtype.itemsize * _elements(name, width, depth)
    sizes = q.shape[-2], k.shape[-2], blocks, width, depth, int(causal), float(scale)
    text = _text(dtype, chunks, "" if mask is None else "bool" if mask.dtype.kind == "b" else "added")
    given = (*sizes, *arrays, *_placed(mask, q, k))
    launch(text, f"{name}_tensor" if tensor else name, (heads * blocks,), (THREADS[tensor],), *given, shared=shared)


def _elements(name: str, width: int, depth: int) -> int:
    """The numbers in the shared memory of a block: its rows, and tiles whose rows are one longer."""
    if name == "attention_forward":
        return 32 * width + 32 * (max(width, depth) + 1)
    return 32 * (width + depth) + 32 * (width + 1 + depth + 1)


@or_twin(cpu.attention)
def attention(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple:
    """softmax(scale q kᵀ + mask) v, and the logarithms of the sums that the weights are divided by; 0 in rows that are blocked throughout."""
    if not _takes(q, k, v, mask):
        return NotImplemented
    out = cupy().empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    logs = cupy().empty(q.shape[:-1], np.float64)
    q, k, v = [cupy().ascontiguousarray(a) for a in (q, k, v)]
    _start("attention_forward", q, k, v, mask, scale, causal, q, k, v, out, logs)
    return out, logs


@or_twin(cpu.attention_vjp)
def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, p: Any, scale: float, causal: bool, needs: tuple) -> tuple:
    """The backward of attention by q, k, v and an added mask."""
    if not _takes(q, k, v, mask):
        return NotImplemented
    if needs[3]:
        weights = formula_of(cpu.attention)(q, k, v, mask, scale, causal)[1]
        return formula_of(cpu.attention_vjp)(g, q, k, v, mask, weights, scale, causal, needs)
    g, q, k, v = cupy().ascontiguousarray(g, q.dtype), *[cupy().ascontiguousarray(a) for a in (q, k, v)]
    along = cupy().empty(p.shape, np.float64)
    dq, dk, dv = [cupy().empty(a.shape, a.dtype) for a in (q, k, v)]
    _start("attention_queries", q, k, v, mask, scale, causal, g, q, k, v, p, along, dq)
    if needs[1] or needs[2]:
        _start("attention_keys", q, k, v, mask, scale, causal, g, q, k, v, p, along, dk, dv)
    return *[d if need else None for d, need in zip((dq, dk, dv), needs, strict=False)], None
