"""The text of kernels by hand: what stands in front of them, and the words that a dtype puts in."""

from __future__ import annotations

import re
from functools import cache

from ferro.cuda.printer import COMPUTED, HEAD, STORED

__all__ = ["ADDED", "COMPUTED_NAME", "FLOATS", "MMA", "PARTIAL", "both_ways", "text_of"]

FLOATS = tuple(STORED)
# What numbers are added in: a sum of many loses no digit of the dtype.
ADDED = {"float32": "double", "float64": "double", "float16": "float", "bfloat16": "float"}
# The dtypes of ADDED and of what is computed in, by name.
PARTIAL = {"float32": "float64", "float64": "float64", "float16": "float32", "bfloat16": "float32"}
COMPUTED_NAME = {"float32": "float32", "float64": "float64", "float16": "float32", "bfloat16": "float32"}

# What a kernel begins with: blocks have 256 threads, of which four blocks find registers (64 each) in a multiprocessor.
KERNEL = 'extern "C" __global__ void __launch_bounds__(256, 4)'

# Threads that work on a row together are a team: in a block of rows those along x (1, 2, ... 32, or a whole block), in a block
# of columns those along y. All threads of a block must call what a team does together.
TEAMS = """
struct Sum { template <class V> __device__ V operator()(V x, V y) const { return x + y; } };
struct Product { template <class V> __device__ V operator()(V x, V y) const { return x * y; } };
struct Largest { template <class V> __device__ V operator()(V x, V y) const { return larger(x, y); } };
struct Smallest { template <class V> __device__ V operator()(V x, V y) const { return smaller(x, y); } };
template <class V, class F> __device__ inline V across(V v, F f, V* shared) {
  for (int step = (blockDim.x < 32 ? blockDim.x : 32) / 2; step > 0; step /= 2)
    v = f(v, __shfl_xor_sync(0xffffffffu, v, step));
  if (blockDim.x <= 32) return v;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) v = f(v, shared[warp]);
  __syncthreads();
  return v;
}
template <class V, class F> __device__ inline V down(V v, F f, V* shared) {
  if (blockDim.y == 1) return v;
  shared[threadIdx.y * blockDim.x + threadIdx.x] = v;
  __syncthreads();
  v = shared[threadIdx.x];
  for (int y = 1; y < blockDim.y; ++y) v = f(v, shared[y * blockDim.x + threadIdx.x]);
  __syncthreads();
  return v;
}
template <bool columns> struct Team {
  place row;  // the number of the row, or of the column
  int first, count;  // which thread of the team this is, and of how many
  __device__ Team() {
    row = columns ? blockIdx.x * (place)blockDim.x + threadIdx.x : blockIdx.x * (place)blockDim.y + threadIdx.y;
    first = columns ? threadIdx.y : threadIdx.x;
    count = columns ? blockDim.y : blockDim.x;
  }
  // What f makes of the values of all threads of the team, in a fixed order; each of them gets it. `shared` has 256 places.
  template <class V, class F> __device__ V all(V v, F f, V* shared) const {
    return columns ? down(v, f, shared) : across(v, f, shared);
  }
};
"""

# d (16 x 8) += a (16 x 16) b (16 x 8), of 16-bit floats with sums in float, by a warp (PTX ISA, mma.m16n8k16). Lane l has of a the rows l / 4
# and l / 4 + 8, of b the column l / 4, of both the numbers l % 4 * 2 and the next and these + 8, of d the columns l % 4 * 2 and the next.
_MMA = """
__device__ inline void mma(float* d, const unsigned* a, const unsigned* b) {
#ifdef EMULATED
  emulated_mma<KIND>(d, a, b);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.NAME.NAME.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
"""
MMA = {
    dtype: _MMA.replace("KIND", STORED[dtype]).replace("NAME", name)
    for dtype, name in {"float16": "f16", "bfloat16": "bf16"}.items()
}


@cache
def text_of(body: str, dtype: str, **words: str) -> str:
    """The text for a dtype; `words` are put in beside S, T and A."""
    words = {"S": STORED[dtype], "T": COMPUTED[dtype], "A": ADDED[dtype], "KERNEL": KERNEL, **words}
    pattern = re.compile(r"\b(" + "|".join(words) + r")\b")
    return HEAD + TEAMS + pattern.sub(lambda found: words[found[1]], body)


def both_ways(kernel: str, **words: str) -> str:
    """A kernel for teams in rows and in columns, whose words KIND and COLUMNS say which; `words` are put in beside."""
    made = []
    for kind, columns in (("rows", "false"), ("columns", "true")):
        one = kernel.replace("KIND", kind).replace("COLUMNS", columns)
        for word, value in words.items():
            one = one.replace(word, value)
        made.append(one)
    return "".join(made)
