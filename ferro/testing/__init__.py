"""testing: comparing results up to rounding, and making tensors to test with."""

from ferro.testing.comparison import assert_allclose, assert_close
from ferro.testing.making import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
