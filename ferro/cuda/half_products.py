"""Products of matrices of 16-bit floats that are added to what is there, rounded once: cuBLAS's gemmEx, called by itself.

CuPy's own products begin at nothing; what is added to them afterwards would be rounded a second time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.cuda.driver import cupy, module

__all__ = ["add_product"]

KINDS = {"float16": 2, "bfloat16": 14}  # cudaDataType_t: CUDA_R_16F, CUDA_R_16BF
IN_FLOAT = 68  # cublasComputeType_t: CUBLAS_COMPUTE_32F
ANY_WAY = -1  # cublasGemmAlgo_t: CUBLAS_GEMM_DEFAULT


def add_product(out: Any, x: Any, y: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
    """out ← alpha x y + beta out for matrices of one 16-bit dtype, computed in float32; `out` lies in C order, and beta is not 0.

    cuBLAS reads by columns: what it sees is the transposed equation, outᵀ ← alpha yᵀ xᵀ + beta outᵀ.
    """
    (rows, inner), columns = x.shape, y.shape[1]
    (y, y_turned), (x, x_turned) = _by_columns(y), _by_columns(x)
    kind, factors = KINDS[out.dtype.name], np.array([alpha, beta], np.float32)
    at = factors.ctypes.data
    module("cupy_backends.cuda.libs.cublas").gemmEx(
        cupy().cuda.get_cublas_handle(),
        y_turned,
        x_turned,
        columns,
        rows,
        inner,
        at,
        y.data.ptr,
        kind,
        inner if y_turned else columns,
        x.data.ptr,
        kind,
        rows if x_turned else inner,
        at + factors.itemsize,
        out.data.ptr,
        kind,
        columns,
        IN_FLOAT,
        ANY_WAY,
    )


def _by_columns(x: Any) -> tuple[Any, int]:
    """A matrix that lies in C order or is the transpose of one that does, a copy if need be, and whether it is the latter."""
    if x.flags.c_contiguous or not x.flags.f_contiguous:
        return cupy().ascontiguousarray(x), 0
    return x, 1
