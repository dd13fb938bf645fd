"""testing: comparing results up to rounding, and making tensors to test with."""

from ferro import absent as _absent
from ferro.testing.comparison import assert_allclose, assert_close
from ferro.testing.making import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_absent.explain(__name__)
