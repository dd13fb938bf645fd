"""A compiled product of a few rows with a matrix that is read transposed, as layers of small batches have it: by dot products."""

from __future__ import annotations

from ferro.native.jit import kernel, reduction, whole_registers


@reduction
def _eight(a, b, c, d, x, y):
    """The products of four rows with two."""
    p = q = r = s = t = u = v = w = x.dtype.type(0)
    for j in range(x.size):
        p += a[j] * x[j]
        q += b[j] * x[j]
        r += c[j] * x[j]
        s += d[j] * x[j]
        t += a[j] * y[j]
        u += b[j] * y[j]
        v += c[j] * y[j]
        w += d[j] * y[j]
    return p, q, r, s, t, u, v, w


@kernel
def dots(start, stop, x, w, out):
    """out = x wᵀ for the groups of four rows of w from `start` to `stop`: these stay in the first cache, with x, while all rows of
    x meet them. Groups and pairs that have less are filled up with the last row, computed as in any other.
    """
    whole_registers()
    last, end = len(w) - 1, len(x) - 1
    for group in range(start, stop):
        i = 4 * group
        j, k, m = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        for r in range(0, end + 1, 2):
            s = min(r + 1, end)
            found = _eight(w[i], w[j], w[k], w[m], x[r], x[s])
            out[r, i], out[r, j], out[r, k], out[r, m] = found[0], found[1], found[2], found[3]
            out[s, i], out[s, j], out[s, k], out[s, m] = found[4], found[5], found[6], found[7]
