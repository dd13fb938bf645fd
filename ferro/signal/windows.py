"""ferro.signal.windows: window functions under PyTorch's names."""

from ferro.ops.cosine_windows import blackman, general_cosine, general_hamming, hamming, hann, nuttall
from ferro.ops.windows import bartlett, cosine, exponential, gaussian, kaiser

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]  # fmt: skip
