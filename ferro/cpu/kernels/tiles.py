"""The tile of a product that stays in registers: its size by the instruction set, and the dtypes there are kernels for.

It is 12 rows by two vectors in the 32 registers of AVX-512, and 6 rows by two vectors in the 16 of AVX2; what remains holds
two vectors of b and spread numbers of a. Without AVX2 and FMA there is none, and BLAS and LAPACK compute.
"""

from __future__ import annotations

import numpy as np

from ferro.native import isa

_BYTES, _MANY = isa.registers()
ROWS, VECTORS = 12 if _MANY else 6, 2
COLUMNS = {size: VECTORS * _BYTES // size for size in (4, 8)}  # by the size of a number
FEW = 320  # rows of a up to which reading b where it lies costs less than copying it
# rows of a, at most, whose dot products with the columns of b are quicker than tiles, by the size of a number
DOTS = {4: 11, 8: 11 if _MANY else 6}
DTYPES = (np.dtype(np.float32), np.dtype(np.float64)) if isa.LEVEL in ("avx2", "avx512") else ()
PANEL = 16  # columns of a matrix that is factored, or reflectors, that are taken together
