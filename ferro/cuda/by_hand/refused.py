"""Matrices that cuSOLVER refuses: which leading minor is not positive, which pivot is zero, and what a singular system gives all the same.

CuPy keeps cuSOLVER's words to itself. A block takes a matrix that is marked as refused and eliminates it row by row; others end at once, so
nobody has to look at the marks. That takes long for large matrices, which are refused once in a program.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from ferro.cuda.by_hand.launching import THREADS, launch
from ferro.cuda.by_hand.texts import KERNEL
from ferro.cuda.driver import cupy
from ferro.cuda.printed_complex import COMPLEX_HEAD
from ferro.cuda.printer import HEAD

__all__ = ["first_minors", "solved_anyway"]

TYPES = {"float32": "float", "float64": "double", "complex64": "Complex64", "complex128": "Complex128"}
TEXT = """
__device__ inline float conjugate(float x) { return x; }
__device__ inline double conjugate(double x) { return x; }
template <class R> __device__ inline R real_of(R x) { return x; }
template <class R> __device__ inline R real_of(Complex<R> x) { return x.re; }
template <class R> __device__ inline R size_of(R x) { return fabs(x); }
template <class R> __device__ inline R size_of(Complex<R> x) { return fabs(x.re) + fabs(x.im); }
// Of each refused matrix, by its lower triangle, the order of the first leading minor that is not positive; `work` is used up.
KERNEL first_minors(place n, const bool* refused, T* work, int* info) {
  if (!refused[blockIdx.x]) return;
  T* a = work + blockIdx.x * n * n;
  for (place k = 0; k < n; ++k) {
    const auto d = real_of(a[k * n + k]);
    if (!(d > 0)) {
      if (threadIdx.x == 0) info[blockIdx.x] = k + 1;
      return;
    }
    const place left = n - k - 1;
    for (place t = threadIdx.x; t < left * left; t += blockDim.x) {
      const place i = k + 1 + t / left, j = k + 1 + t % left;
      if (j <= i) a[i * n + j] = a[i * n + j] - a[i * n + k] * conjugate(a[j * n + k]) * T(1 / d);
    }
    __syncthreads();
  }
}
// The systems of refused matrices, by elimination with exchanges of rows: x (n, m) becomes the solution, info the first pivot that is 0.
KERNEL solve_anyway(place n, place m, const bool* refused, T* work, T* right, int* info) {
  __shared__ place chosen;
  if (!refused[blockIdx.x]) return;
  T *a = work + blockIdx.x * n * n, *x = right + blockIdx.x * n * m;
  bool whole = true;
  for (place k = 0; k < n; ++k) {
    if (threadIdx.x == 0) {
      place p = k;
      for (place i = k + 1; i < n; ++i)
        if (size_of(a[i * n + k]) > size_of(a[p * n + k])) p = i;
      chosen = p;
    }
    __syncthreads();
    const place p = chosen;
    if (p != k)
      for (place j = threadIdx.x; j < n + m; j += blockDim.x) {
        T *up = j < n ? a + k * n + j : x + k * m + j - n, *down = j < n ? a + p * n + j : x + p * m + j - n;
        const T kept = *up;
        *up = *down;
        *down = kept;
      }
    __syncthreads();
    const T d = a[k * n + k];
    if (size_of(d) == 0) {
      if (whole && threadIdx.x == 0) info[blockIdx.x] = k + 1;
      whole = false;
    } else {
      const place left = n - k - 1, width = left + m;
      for (place t = threadIdx.x; t < left * width; t += blockDim.x) {
        const place i = k + 1 + t / width, j = t % width;
        const T factor = a[i * n + k] / d;
        if (j < left)
          a[i * n + k + 1 + j] = a[i * n + k + 1 + j] - factor * a[k * n + k + 1 + j];
        else
          x[i * m + j - left] = x[i * m + j - left] - factor * x[k * m + j - left];
      }
    }
    __syncthreads();
  }
  for (place c = threadIdx.x; c < m; c += blockDim.x)
    for (place k = n - 1; k >= 0; --k) {
      if (size_of(x[k * m + c]) == 0) continue;
      x[k * m + c] = x[k * m + c] / a[k * n + k];
      for (place i = 0; i < k; ++i) x[i * m + c] = x[i * m + c] - x[k * m + c] * a[i * n + k];
    }
}
"""


@cache
def _text(dtype: str) -> str:
    body = re.sub(r"\b(T|KERNEL)\b", lambda found: TYPES[dtype] if found[1] == "T" else KERNEL, TEXT)
    return HEAD + COMPLEX_HEAD + body


def texts(dtype: str) -> list[str]:
    """The texts of this family for a dtype of real numbers: of these and of complex ones."""
    return [
        _text(each) for each in (dtype, {"float32": "complex64", "float64": "complex128"}.get(dtype)) if each in TYPES
    ]


def first_minors(work: Any, refused: Any, info: Any) -> None:
    """Writes into info (int32) the first minor that is not positive of each of the matrices in C order that is refused (bool)."""
    n = work.shape[-1]
    if work.size:
        launch(_text(work.dtype.name), "first_minors", (info.size,), (THREADS,), n, refused, work, info)


def solved_anyway(work: Any, right: Any, refused: Any) -> Any:
    """The first zero pivots (int32) of matrices in C order; those that are refused are used up, and their right sides become solutions."""
    info = cupy().zeros(refused.shape, np.int32)
    if work.size:
        given = (work.shape[-1], right.shape[-1], refused, work, right, info)
        launch(_text(work.dtype.name), "solve_anyway", (info.size,), (THREADS,), *given)
    return info
