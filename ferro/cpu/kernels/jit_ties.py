"""A compiled kernel for the gradients of extrema: which elements of a row are the extremum, and their shares."""

from __future__ import annotations

from ferro.cpu.kernels.jit_rows import total_of
from ferro.native.jit import kernel


@kernel
def ties(x, best, share):
    """The rows of `share`: equal parts of 1 for the numbers of x that are the row's `best`, nan being nan, and 0 for the others."""
    T = x.dtype.type
    for i in range(x.shape[0]):
        row, found, one = x[i], share[i], best[i]
        for j in range(row.size):
            v = row[j]
            found[j] = T(1) if (v == one) | ((v != v) & (one != one)) else T(0)  # noqa: PLR0124 (nan)
        count = total_of(found)
        if count != T(1):
            for j in range(row.size):
                found[j] /= count
