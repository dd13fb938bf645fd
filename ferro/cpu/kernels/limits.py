"""Numbers that a kernel and the function around it both go by."""

# A logsumexp is the largest logit and a logarithm: above this (by the bytes of a logit) float64 has lost digits of the latter.
FAR = {4: 1e9, 8: 1e3}
SMALL_SQUARES = 1e-280  # a sum of float64 squares above has lost nothing to their range

# Of sums (reduce.py, jit_reduce.py, jit_total.py):
GRAIN_OF_SUMS = 1 << 19  # elements that one thread takes in some 50 us
PIECE = 1 << 16  # numbers, of a few long rows or columns, that are taken together
FEW = 8  # tiles of columns, too few to share: the rows are cut as well
TILE = 1024  # columns that are taken together: their sums stay in the first-level cache
