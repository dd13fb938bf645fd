"""What libraries touch of PyTorch's quantisation when they are imported; there are no quantised tensors."""

from ferro import absent as _absent

from . import quantization

__all__ = ["quantization"]

_absent.explain(__name__)
