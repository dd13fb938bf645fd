"""Attention of 16-bit floats by tensor cores: forward in one launch, backward in two, in blocks of 64 rows and tiles of 32.

Each of four warps has 16 rows of queries (in the gradients of keys and values, of keys). Products of the rows with a tile are 16 x 32
numbers of which a lane holds those that mma gives it: two rows, and of each group of eight columns two. Maxima and sums
of a row go over four lanes. What is multiplied by the other side's columns (weights, or their gradient) is rounded to 16 bits and is
already as mma takes it; the tile of the other side lies turned in shared memory, so that pairs of its rows are side by side.
Sums are float. Masks, and what is kept for backward, are as in attention.py.
"""

from __future__ import annotations

__all__ = ["TENSOR_KERNELS", "shared_bytes"]

TENSOR_KERNELS = """
enum { COLUMNS = WIDTH, STEP = WIDTH + 8, TURNED = 40 };  // rows of tiles are longer, so that lanes read different banks
__device__ inline unsigned pair(float x, float y) {
  unsigned both;
  store((S*)&both, x);
  store((S*)&both + 1, y);
  return both;
}
// Rows of x from `start` on in a tile, with zeros around; and columns of 32 of them.
__device__ inline void fill(S* to, int rows, const S* x, int start, int count, int width) {
  for (int k = threadIdx.x; k < rows * COLUMNS; k += 128) {
    const int row = k / COLUMNS, column = k % COLUMNS;
    to[row * STEP + column] = start + row < count && column < width ? x[(place)(start + row) * width + column] : S();
  }
}
__device__ inline void fill_turned(S* to, const S* x, int start, int count, int width) {
  for (int k = threadIdx.x; k < 32 * COLUMNS; k += 128) {
    const int row = k / COLUMNS, column = k % COLUMNS;
    to[column * TURNED + row] = start + row < count && column < width ? x[(place)(start + row) * width + column] : S();
  }
}
// The products of 16 rows with 32 others.
__device__ inline void products(const S* own, const S* others, int lane, float (*sums)[4]) {
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) sums[j][i] = 0;
#pragma unroll 2
  for (int k = 0; k < COLUMNS; k += 16) {
    unsigned a[4], b[2];
    const int at = k + lane % 4 * 2;
    for (int i = 0; i < 4; ++i) a[i] = *(const unsigned*)(own + (lane / 4 + i % 2 * 8) * STEP + at + i / 2 * 8);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 2; ++i) b[i] = *(const unsigned*)(others + (8 * j + lane / 4) * STEP + at + 8 * i);
      mma(sums[j], a, b);
    }
  }
}
// sums += the weights of 16 rows and 32 others times the columns of these.
__device__ inline void add(float (*weights)[4], const S* turned, int lane, float (*sums)[4]) {
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = pair(weights[2 * k + i / 2][i % 2 * 2], weights[2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; ++n) {
      for (int i = 0; i < 2; ++i)
        b[i] = *(const unsigned*)(turned + (8 * n + lane / 4) * TURNED + 16 * k + lane % 4 * 2 + 8 * i);
      mma(sums[n], a, b);
    }
  }
}
__device__ inline void put(S* x, int first, int count, int width, int lane, float (*sums)[4], float low, float high) {
#pragma unroll
  for (int n = 0; n < COLUMNS / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * n + lane % 4 * 2 + i % 2;
      const int row = first + i / 2 * 8;
      if (row < count && column < width) store(x + (place)row * width + column, sums[n][i] * (i / 2 ? high : low));
    }
}
template <class F> __device__ inline float over_four(float v, F f) {
  v = f(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return f(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
KERNEL attention_forward_tensor(place all_queries, place all_keys, place blocks, place width, place depth, place causal, double scale,
                                const S* q, const S* k, const S* v, S* out, double* logs MASK_GIVEN) {
  extern __shared__ unsigned memory[];
  const int queries = all_queries, keys = all_keys;  // (32 bits take one register)
  S *own = (S*)memory, *tile = own + 64 * STEP, *turned = tile + 32 * STEP;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int start = blockIdx.x % (int)blocks * 64, first = start + warp * 16 + lane / 4;
  const place head = blockIdx.x / (int)blocks;
  MASK_OF_HEAD
  fill(own, 64, q + head * queries * width, start, queries, width);
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, sums[COLUMNS / 8][4];
  for (int n = 0; n < COLUMNS / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  const int last = causal && start + 64 < keys ? start + 64 : keys;
  for (int from = 0; from < last; from += 32) {
    __syncthreads();
    fill(tile, 32, k + head * keys * width, from, keys, width);
    fill_turned(turned, v + head * keys * depth, from, keys, depth);
    __syncthreads();
    float s[4][4];
    products(own + warp * 16 * STEP, tile, lane, s);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 8 * half;
      float most = -INFINITY, sum = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const int key = from + n / 2 * 8 + lane % 4 * 2 + n % 2;
        float x = s[n / 2][2 * half + n % 2] * T(scale);
        if (key >= keys || (causal && key > row)) x = -INFINITY;
        MASKED(x, row, key)
        most = larger(most, x);
        s[n / 2][2 * half + n % 2] = x;
      }
      const float now = larger(top[half], over_four(most, Largest())), keep = now == top[half] ? 1.0f : exp(top[half] - now);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        float& x = s[n / 2][2 * half + n % 2];
        x = x == -INFINITY ? 0.0f : exp(x - now);
        sum += x;
      }
      total[half] = total[half] * keep + over_four(sum, Sum());
#pragma unroll
      for (int n = 0; n < COLUMNS / 8; ++n) {
        sums[n][2 * half] *= keep;
        sums[n][2 * half + 1] *= keep;
      }
      top[half] = now;
    }
    add(s, turned, lane, sums);
  }
  float factors[2];
  for (int half = 0; half < 2; ++half) {
    factors[half] = IS_MASKED && total[half] == 0 ? 0.0f : 1 / total[half];
    const int row = first + 8 * half;
    if (lane % 4 == 0 && row < queries) logs[head * queries + row] = double(top[half]) + log(double(total[half]));
  }
  put(out + head * queries * depth, first, queries, depth, lane, sums, factors[0], factors[1]);
}
KERNEL attention_queries_tensor(place all_queries, place all_keys, place blocks, place width, place depth, place causal, double scale,
                                const S* g, const S* q, const S* k, const S* v, const double* logs, double* along, S* dq MASK_GIVEN) {
  extern __shared__ unsigned memory[];
  const int queries = all_queries, keys = all_keys;  // (32 bits take one register)
  S *own = (S*)memory, *slopes = own + 64 * STEP, *tile = slopes + 64 * STEP, *values = tile + 32 * STEP, *turned = values + 32 * STEP;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int start = blockIdx.x % (int)blocks * 64, first = start + warp * 16 + lane / 4;
  const place head = blockIdx.x / (int)blocks;
  MASK_OF_HEAD
  fill(own, 64, q + head * queries * width, start, queries, width);
  fill(slopes, 64, g + head * queries * depth, start, queries, depth);
  float part[2] = {0, 0}, log_sums[2], sums[COLUMNS / 8][4];
  for (int half = 0; half < 2; ++half)
    log_sums[half] = first + 8 * half < queries ? float(logs[head * queries + first + 8 * half]) : 0.0f;
  for (int n = 0; n < COLUMNS / 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  const int last = causal && start + 64 < keys ? start + 64 : keys;
  for (int pass = 0; pass < 2; ++pass) {
    for (int from = 0; from < last; from += 32) {
      __syncthreads();
      fill(tile, 32, k + head * keys * width, from, keys, width);
      fill(values, 32, v + head * keys * depth, from, keys, depth);
      if (pass == 1) fill_turned(turned, k + head * keys * width, from, keys, width);
      __syncthreads();
      float s[4][4], d[4][4];
      products(own + warp * 16 * STEP, tile, lane, s);
      products(slopes + warp * 16 * STEP, values, lane, d);
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int half = n % 4 / 2;
        const int row = first + 8 * half, key = from + n / 4 * 8 + lane % 4 * 2 + n % 2;
        float x = s[n / 4][n % 4] * T(scale);
        MASKED(x, row, key)
        const bool out = row >= queries || key >= keys || (causal && key > row) || (IS_MASKED && x == -INFINITY);
        const float p = out ? 0.0f : exp(x - log_sums[half]);
        if (pass == 0)
          part[half] += p * d[n / 4][n % 4];
        else
          s[n / 4][n % 4] = p * (d[n / 4][n % 4] - part[half]);
      }
      if (pass == 1) add(s, turned, lane, sums);
    }
    if (pass == 0) {
      for (int half = 0; half < 2; ++half) {
        part[half] = over_four(part[half], Sum());
        const int row = first + 8 * half;
        if (lane % 4 == 0 && row < queries) along[head * queries + row] = part[half];
      }
    }
  }
  put(dq + head * queries * width, first, queries, width, lane, sums, scale, scale);
}
KERNEL attention_keys_tensor(place all_queries, place all_keys, place blocks, place width, place depth, place causal, double scale, const S* g,
                             const S* q, const S* k, const S* v, const double* logs, const double* along, S* dk, S* dv MASK_GIVEN) {
  extern __shared__ unsigned memory[];
  const int queries = all_queries, keys = all_keys;  // (32 bits take one register)
  S *own = (S*)memory, *values = own + 64 * STEP, *tile = values + 64 * STEP, *slopes = tile + 32 * STEP;
  S *turned = slopes + 32 * STEP, *turned_slopes = turned + COLUMNS * TURNED;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int start = blockIdx.x % (int)blocks * 64, first = start + warp * 16 + lane / 4;
  const place head = blockIdx.x / (int)blocks;
  MASK_OF_HEAD
  fill(own, 64, k + head * keys * width, start, keys, width);
  fill(values, 64, v + head * keys * depth, start, keys, depth);
  float of_keys[COLUMNS / 8][4], of_values[COLUMNS / 8][4];
  for (int n = 0; n < COLUMNS / 8; ++n)
    for (int i = 0; i < 4; ++i) of_keys[n][i] = of_values[n][i] = 0;
  for (int from = causal ? start : 0; from < queries; from += 32) {
    __syncthreads();
    fill(tile, 32, q + head * queries * width, from, queries, width);
    fill(slopes, 32, g + head * queries * depth, from, queries, depth);
    fill_turned(turned, q + head * queries * width, from, queries, width);
    fill_turned(turned_slopes, g + head * queries * depth, from, queries, depth);
    __syncthreads();
    float s[4][4], d[4][4];
    products(own + warp * 16 * STEP, tile, lane, s);
    products(values + warp * 16 * STEP, slopes, lane, d);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int key = first + n % 4 / 2 * 8, row = from + n / 4 * 8 + lane % 4 * 2 + n % 2;
      float x = s[n / 4][n % 4] * T(scale);
      MASKED(x, row, key)
      const bool out = row >= queries || key >= keys || (causal && key > row) || (IS_MASKED && x == -INFINITY);
      const float p = out ? 0.0f : exp(x - float(logs[head * queries + row]));
      s[n / 4][n % 4] = p;
      d[n / 4][n % 4] = out ? 0.0f : p * (d[n / 4][n % 4] - float(along[head * queries + row]));
    }
    add(s, turned_slopes, lane, of_values);
    add(d, turned, lane, of_keys);
  }
  put(dk + head * keys * width, first, keys, width, lane, of_keys, scale, scale);
  put(dv + head * keys * depth, first, keys, depth, lane, of_values, 1, 1);
}
"""
# Tiles in shared memory: of 64 rows, of 32, and turned ones.
TILES = {"attention_forward": (1, 1, 1), "attention_queries": (2, 2, 1), "attention_keys": (2, 2, 2)}


def shared_bytes(name: str, columns: int) -> int:
    """The shared memory of a kernel for so many columns."""
    large, small, turned = TILES[name]
    return 2 * ((64 * large + 32 * small) * (columns + 8) + 40 * columns * turned)
