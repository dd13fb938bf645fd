"""Convolutions as products of matrices whose entries are looked up where they lie: implicit products, in one launch or two.

The three partial derivatives of one trilinear form (see Note [The convolution family] in ferro/cpu/convolution.py) are products A B of
each group: the result by channels, A by the weight, and B of windows that are never in memory. A block computes 64 x 64 entries of it
and goes over the sum in steps, whose entries lie in shared memory. Which element of an image an entry is, a table says: of each
number of the sum its channel and its place in the window. Numbers of 16 bits are multiplied by tensor cores (mma, sums in float),
others by threads, each for 4 x 4 entries. Of the gradient of a weight, whose sum is long and whose entries are few, blocks take parts; a
second launch adds these in order. Groups with few channels have a thread for each element of the result instead.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ferro import cpu
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import THREADS, has_mma, is_float, launch
from ferro.cuda.by_hand.reductions import added_up
from ferro.cuda.by_hand.texts import MMA, text_of
from ferro.cuda.driver import cupy

__all__ = ["conv", "conv_input", "conv_weight"]

# The numbers of a launch, as a kernel's parameters and as what it makes of them. (The emulation reads signatures: no macros.)
_NAMES = ["rows", "columns", "depth", "part", "groups", "taps", "area", "other", "size_z", "size_y", "size_x"]
_NAMES += ["other_y", "other_x", "step_z", "step_y", "step_x", "pad_z", "pad_y", "pad_x"]
GIVEN = ", ".join([f"place {name}" for name in _NAMES]) + ", const int* table, const S* images, const S* weight"
TAKEN = "{" + ", ".join([f"(int){name}" for name in _NAMES if name != "part"]) + ", table, images, weight}"

TEXT = """
// What a launch is given: entries of A are `rows` x `depth` of each group, of B `depth` x `columns`. Images that are read have `channels`
// of `area` elements, (size_z, size_y, size_x); those of the result, or of A in the gradient of a weight, have `other` elements.
struct Sums {
  int rows, columns, depth, groups, taps, area, other, size_z, size_y, size_x, other_y, other_x, step_z, step_y, step_x, pad_z, pad_y,
    pad_x;
  const int* table;  // of each number: channel, place in the window in z, y and x, times the dilation
  const S *images, *weight;
};
enum { FORWARD, TO_INPUT, TO_WEIGHT };
// What is known of a column of B before the sum, or in the gradient of a weight of a number of the sum.
struct Spot { int image, z, y, x; };
template <int kind> __device__ inline Spot spot_of(const Sums& s, int number) {
  const int at = number % s.other, x = at % s.other_x, y = at / s.other_x % s.other_y, z = at / s.other_x / s.other_y;
  if (kind == TO_INPUT) return {number / s.other, z + s.pad_z, y + s.pad_y, x + s.pad_x};
  return {number / s.other, z * s.step_z - s.pad_z, y * s.step_y - s.pad_y, x * s.step_x - s.pad_x};
}
// The element of the images that a spot and a number of the table name; 0 outside, and between the steps.
template <int kind> __device__ inline S element(const Sums& s, int group, const Spot& spot, int number) {
  const int* t = s.table + 4 * number;
  int z, y, x;
  if (kind == TO_INPUT) {
    z = spot.z - t[1], y = spot.y - t[2], x = spot.x - t[3];
    if (z < 0 || y < 0 || x < 0 || z % s.step_z || y % s.step_y || x % s.step_x) return S();
    z /= s.step_z, y /= s.step_y, x /= s.step_x;
  } else {
    z = spot.z + t[1], y = spot.y + t[2], x = spot.x + t[3];
    if (z < 0 || y < 0 || x < 0) return S();
  }
  if (z >= s.size_z || y >= s.size_y || x >= s.size_x) return S();
  const int per_group = kind == TO_WEIGHT ? s.columns / s.taps : s.depth / s.taps;
  const place channel = ((place)spot.image * s.groups + group) * per_group + t[0];
  return s.images[channel * s.area + (z * s.size_y + y) * s.size_x + x];
}
template <int kind> __device__ inline S of_a(const Sums& s, int group, int row, int number) {
  if (kind == FORWARD) return s.weight[((place)group * s.rows + row) * s.depth + number];
  if (kind == TO_INPUT) {
    const int out = number / s.taps, tap = number % s.taps;
    return s.weight[(((place)group * (s.depth / s.taps) + out) * s.rows + row) * s.taps + tap];
  }
  return s.weight[(((place)(number / s.other) * s.groups + group) * s.rows + row) * s.other + number % s.other];
}
template <int kind> __device__ inline S of_b(const Sums& s, int group, int number, int column, const Spot& spot) {
  return kind == TO_WEIGHT ? element<kind>(s, group, spot_of<kind>(s, number), column) : element<kind>(s, group, spot, number);
}
// Where an entry of the result lies.
template <int kind> __device__ inline place target(const Sums& s, int group, int row, int column) {
  if (kind == TO_WEIGHT) return ((place)group * s.rows + row) * s.columns + column;
  return (((place)(column / s.other) * s.groups + group) * s.rows + row) * s.other + column % s.other;
}
template <int kind, class O> __device__ inline void put_entry(const Sums& s, int group, int row, int column, T v, const S* bias, O* out) {
  if (row >= s.rows || column >= s.columns) return;
  if (bias) v += load(bias[group * s.rows + row]);
  store(out + target<kind>(s, group, row, column), v);
}
"""
# The tiles by threads: 16 numbers of the sum at once, each thread four rows by four columns.
THREADS_TEXT = """
template <int kind, class O>
__device__ inline void multiply(const Sums& s, int begin, int end, int group, const S* bias, O* out) {
  __shared__ T a[16][64], b[16][64];
  const int top = blockIdx.y * 64, left = blockIdx.x * 64, up = threadIdx.x / 16 * 4, side = threadIdx.x % 16 * 4;
  const int mine = threadIdx.x % 64, first = threadIdx.x / 64;
  const Spot spot = spot_of<kind>(s, left + mine < s.columns ? left + mine : 0);
  T sums[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
  for (int from = begin; from < end; from += 16) {
    for (int r = 0; r < 4; ++r) {
      const int number = first + 4 * r;
      const bool live = from + number < end;
      b[number][mine] = live && left + mine < s.columns ? load(of_b<kind>(s, group, from + number, left + mine, spot)) : T(0);
      // (the numbers of a row of A lie side by side: neighbouring threads read them)
      const int of_row = top + threadIdx.x / 16 + 16 * r, of_number = from + threadIdx.x % 16;
      a[threadIdx.x % 16][threadIdx.x / 16 + 16 * r] =
        of_number < end && of_row < s.rows ? load(of_a<kind>(s, group, of_row, of_number)) : T(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += a[k][up + i] * b[k][side + j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) put_entry<kind>(s, group, top + up + i, left + side + j, sums[i][j], bias, out);
}
"""
# The tiles by tensor cores: 32 numbers of the sum at once, each warp 16 rows by 32 columns. Rows of a tile are 40 long, so that
# the lanes of a warp read different banks.
TENSOR_TEXT = """
template <int kind, class O>
__device__ inline void multiply(const Sums& s, int begin, int end, int group, const S* bias, O* out) {
  __shared__ __align__(4) S a[64][40];
  __shared__ __align__(4) S b[64][40];
  const int top = blockIdx.y * 64, left = blockIdx.x * 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int up = warp / 2 * 16, side = warp % 2 * 32, mine = threadIdx.x % 64, first = threadIdx.x / 64;
  const Spot spot = spot_of<kind>(s, left + mine < s.columns ? left + mine : 0);
  float sums[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
  for (int from = begin; from < end; from += 32) {
    for (int r = 0; r < 8; ++r) {
      const int number = first + 4 * r;
      b[mine][number] =
        from + number < end && left + mine < s.columns ? of_b<kind>(s, group, from + number, left + mine, spot) : S();
      const int row = threadIdx.x / 32 + 8 * r, of_number = from + threadIdx.x % 32;
      a[row][threadIdx.x % 32] = of_number < end && top + row < s.rows ? of_a<kind>(s, group, top + row, of_number) : S();
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      unsigned of_rows[4];
      const int row = up + lane / 4, at = k + lane % 4 * 2;
      for (int i = 0; i < 4; ++i) of_rows[i] = *(const unsigned*)&a[row + i % 2 * 8][at + i / 2 * 8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        unsigned of_columns[2];
        for (int i = 0; i < 2; ++i) of_columns[i] = *(const unsigned*)&b[side + 8 * j + lane / 4][at + 8 * i];
        mma(sums[j], of_rows, of_columns);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i)
      put_entry<kind>(s, group, top + up + lane / 4 + i / 2 * 8, left + side + 8 * j + lane % 4 * 2 + i % 2, sums[j][i], bias, out);
}
"""
KERNELS = """
KERNEL conv_forward(GIVEN, const S* bias, S* out) {
  const Sums s = TAKEN;
  multiply<FORWARD>(s, 0, s.depth, blockIdx.z, bias, out);
}
KERNEL conv_to_input(GIVEN, const S* bias, S* out) {
  const Sums s = TAKEN;
  multiply<TO_INPUT>(s, 0, s.depth, blockIdx.z, bias, out);
}
KERNEL conv_to_weight(GIVEN, T* parts) {
  const Sums s = TAKEN;
  const int number = blockIdx.z / s.groups, begin = number * (int)part, end = begin + (int)part < s.depth ? begin + (int)part : s.depth;
  multiply<TO_WEIGHT>(s, begin, end, blockIdx.z % s.groups, (const S*)0, parts + (place)number * s.groups * s.rows * s.columns);
}
"""
SINGLE = """
// An element of the result for each thread: of groups with few channels.
template <int kind> __device__ inline void each(const Sums& s, const S* bias, S* out) {
  const place id = blockIdx.x * (place)blockDim.x + threadIdx.x;
  if (id >= (place)s.groups * s.rows * s.columns) return;
  const int column = id % s.columns, row = id / s.columns % s.rows, group = id / s.columns / s.rows;
  const Spot spot = spot_of<kind>(s, column);
  T sum = 0;
  for (int k = 0; k < s.depth; ++k) sum += load(of_a<kind>(s, group, row, k)) * load(of_b<kind>(s, group, k, column, spot));
  put_entry<kind>(s, group, row, column, sum, bias, out);
}
KERNEL conv_forward_single(GIVEN, const S* bias, S* out) {
  const Sums s = TAKEN;
  each<FORWARD>(s, bias, out);
}
KERNEL conv_to_input_single(GIVEN, const S* bias, S* out) {
  const Sums s = TAKEN;
  each<TO_INPUT>(s, bias, out);
}
"""
TILE = 64  # rows and columns of a block
KERNEL = 'extern "C" __global__ void __launch_bounds__(256, 2)'  # (sums of double and their entries take more than 64 registers)
FEW = 8  # rows of a group below which a block of tiles would be mostly empty
MOST = (1 << 31) - 1  # elements of an array, which numbers of 32 bits count
STEP = {True: 32, False: 16}  # numbers of the sum at once, with tensor cores and without
MOST_ALONG_Z = 65535  # blocks
WANTED = 512  # blocks among which a long sum is shared


def _text(dtype: str) -> str:
    products = MMA[dtype] + TENSOR_TEXT if dtype in MMA else THREADS_TEXT
    kernels = (KERNELS + SINGLE).replace("GIVEN", GIVEN).replace("TAKEN", TAKEN)
    return text_of(TEXT + products + kernels, dtype, KERNEL=KERNEL)


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype."""
    return [_text(dtype)]


@lru_cache(maxsize=256)
def _table(channels: int, kernel: tuple, area: tuple, dilation: tuple) -> Any:
    """Of each channel and element of a window: the channel, and the place in the window times the dilation, in three dimensions."""
    grid = np.stack(np.meshgrid(np.arange(channels), *[np.arange(k) for k in kernel], indexing="ij"), -1)
    return cupy().asarray((grid * [1, *dilation]).reshape(-1).astype(np.int32))


def _three(sizes: tuple, fill: int = 1) -> tuple:
    return (fill,) * (3 - len(sizes)) + tuple(sizes)


def _fits(x: Any, w: Any, b: Any, out: tuple, groups: int) -> bool:
    if not is_float(x, w, b) or not has_mma(x) or not w.size or len(out) > 3 or 0 in out or x.shape[1] == 0:
        return False
    return max(x.size, w.size, x.shape[0] * max(w.shape[0], groups * w.shape[1]) * math.prod(out)) <= MOST


def _launched(
    name: str, images: Any, weight: Any, sums: tuple, sizes: tuple, how: tuple, out: Any, bias: Any, parts: int = 1
) -> None:
    """A launch: sums is (rows, columns, depth) of each group, sizes those of the images, of the window and of the other images."""
    size, kernel, other = map(_three, sizes)
    stride, pad, dilation, groups = _three(how[0]), _three(how[1], 0), _three(how[2]), how[3]
    rows, columns, depth = sums
    taps = math.prod(kernel)
    channels = (columns if name == "conv_to_weight" else depth) // taps
    dtype, step = images.dtype.name, STEP[images.dtype.name in MMA]
    part = -(-depth // parts // step) * step if parts > 1 else depth
    table = _table(channels, kernel, size, dilation)
    places = (
        rows,
        columns,
        depth,
        part,
        groups,
        taps,
        math.prod(size),
        math.prod(other),
        *size,
        *other[1:],
        *stride,
        *pad,
    )
    biases = () if name == "conv_to_weight" else (0 if bias is None else bias,)
    if name != "conv_to_weight" and rows < FEW:
        blocks = (-(-groups * rows * columns // THREADS),)
        launch(_text(dtype), f"{name}_single", blocks, (THREADS,), *places, table, images, weight, *biases, out)
        return
    blocks = -(-columns // TILE), -(-rows // TILE), groups * parts
    launch(_text(dtype), name, blocks, (THREADS,), *places, table, images, weight, *biases, out)


def _plain(*arrays: Any) -> list[Any]:
    return [None if a is None else cupy().ascontiguousarray(a) for a in arrays]


@or_twin(cpu.conv)
def conv(x: Any, w: Any, b: Any, out: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """y[n,o,i] = Σ w[o,c,k] x[n,c,i stride - pad + k dilation] + b[o], of spatial shape `out`."""
    if not _fits(x, w, b, out, groups):
        return NotImplemented
    x, w, b = _plain(x, w, b)
    y = cupy().empty((x.shape[0], w.shape[0], *out), x.dtype)
    sums = w.shape[0] // groups, x.shape[0] * math.prod(out), math.prod(w.shape[1:])
    sizes = x.shape[2:], w.shape[2:], out
    _launched("conv_forward", x, w, sums, sizes, (stride, pad, dilation, groups), y, b)
    return y


@or_twin(cpu.conv_input)
def conv_input(y: Any, w: Any, b: Any, size: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """x[n,c,j] = Σ w[o,c,k] y[n,o,i] + b[c] over i stride - pad + k dilation = j, of spatial shape `size`."""
    if not _fits(y, w, b, size, groups):
        return NotImplemented
    y, w, b = _plain(y, w, b)
    x = cupy().empty((y.shape[0], groups * w.shape[1], *size), y.dtype)
    sums = w.shape[1], y.shape[0] * math.prod(size), w.shape[0] // groups * math.prod(w.shape[2:])
    sizes = y.shape[2:], w.shape[2:], size
    _launched("conv_to_input", y, w, sums, sizes, (stride, pad, dilation, groups), x, b)
    return x


@or_twin(cpu.conv_weight)
def conv_weight(x: Any, y: Any, kernel: tuple, stride: tuple, pad: tuple, dilation: tuple, groups: int) -> Any:
    """w[o,c,k] = Σ y[n,o,i] x[n,c,i stride - pad + k dilation], of spatial shape `kernel`."""
    rows, channels = y.shape[1] // groups, x.shape[1] // groups
    if (
        rows < FEW
        or not is_float(x, y)
        or not has_mma(x)
        or not y.size
        or not channels
        or 0 in kernel
        or len(kernel) > 3
        or max(x.size, y.size) > MOST
    ):
        return NotImplemented
    x, y = _plain(x, y)
    depth, columns = y.shape[0] * math.prod(y.shape[2:]), channels * math.prod(kernel)
    step = STEP[x.dtype.name in MMA]
    tiles = -(-rows // TILE) * -(-columns // TILE) * groups
    parts = max(1, min(WANTED // tiles, depth // (16 * step), MOST_ALONG_Z // groups))
    each = -(-depth // parts // step) * step if parts > 1 else depth
    parts = -(-depth // each)
    dtype = x.dtype.name
    some = cupy().empty((1, parts, groups * rows * columns), "float64" if dtype == "float64" else "float32")
    sizes = x.shape[2:], kernel, y.shape[2:]
    _launched("conv_to_weight", x, y, (rows, columns, depth), sizes, (stride, pad, dilation, groups), some, None, parts)
    w = some if parts == 1 else added_up(some, dtype, "float64" if dtype == "float64" else "float32")
    return w.astype(x.dtype, copy=False).reshape(groups * rows, channels, *kernel)
