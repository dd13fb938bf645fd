"""cuBLAS's gemmEx of the stand-in: of addresses, by columns, as its manual says it."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import ml_dtypes
import numpy as np

from tests.cuda import stand_in_device
from tests.cuda.stand_in_device import DEVICE

_KINDS: dict[int, Any] = {2: np.float16, 14: ml_dtypes.bfloat16}  # cudaDataType_t


def _matrix(address: int, kind: int, rows: int, columns: int, step: int) -> np.ndarray:
    """The matrix by columns, `step` elements apart, at an address."""
    assert step >= max(rows, 1), "columns overlap"
    dtype = np.dtype(_KINDS[kind])
    count = (columns - 1) * step + rows
    raw = np.frombuffer(memoryview((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)), dtype)
    return np.lib.stride_tricks.as_strided(raw, (rows, columns), (dtype.itemsize, step * dtype.itemsize))


def _number(address: int) -> float:
    return ctypes.c_float.from_address(address).value


def gemm_ex(
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,
    a_type: int,
    lda: int,
    B: int,
    b_type: int,
    ldb: int,
    beta: int,
    C: int,
    c_type: int,
    ldc: int,
    compute: int,
    algo: int,
) -> None:
    """C ← alpha op(A) op(B) + beta C, of 16-bit floats in float32."""
    assert handle == HANDLE
    assert (compute, algo) == (68, -1), "CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT"
    assert min(m, n, k) > 0, "cuBLAS has no matrices without elements"
    assert a_type == b_type == c_type
    by, factor = _number(alpha), _number(beta)

    def work() -> None:
        stand_in_device.settle()
        a = _matrix(A, a_type, *((k, m) if transa else (m, k)), lda).astype(np.float32)
        b = _matrix(B, b_type, *((n, k) if transb else (k, n)), ldb).astype(np.float32)
        c = _matrix(C, c_type, m, n, ldc)
        product = (a.T if transa else a) @ (b.T if transb else b) * np.float32(by)
        c[...] = product + c.astype(np.float32) * np.float32(factor) if factor else product
        for address, writes in ((A, False), (B, False), (C, True)):
            if DEVICE.is_watched and address in DEVICE.memory:
                stand_in_device.accessed_by(stand_in_device.current(), DEVICE.memory[address], writes)

    work()
    stand_in_device.captured(work)


HANDLE = 17
MODULE = types.SimpleNamespace(gemmEx=gemm_ex)
