"""Numbers that a kernel and the function around it both go by."""

# A logsumexp is the largest logit and a logarithm: above this (by the bytes of a logit) float64 has lost digits of the latter.
FAR = {4: 1e9, 8: 1e3}
SMALL_SQUARES = 1e-280  # a sum of float64 squares above has lost nothing to their range
