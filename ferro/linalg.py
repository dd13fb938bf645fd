"""ferro.linalg: linear algebra under PyTorch's names."""

from ferro.ops.norms import linalg_norm as norm
from ferro.ops.norms import matrix_norm, vector_norm

__all__ = ["matrix_norm", "norm", "vector_norm"]
