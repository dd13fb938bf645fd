"""ferro.linalg: linear algebra under PyTorch's names."""

from ferro.ops.norms import linalg_norm as norm
from ferro.ops.norms import matrix_norm, vector_norm
from ferro.ops.parts import matrix_diagonal as diagonal
from ferro.ops.products import inverse as inv
from ferro.ops.products import linalg_cross as cross
from ferro.ops.products import matmul, matrix_power, multi_dot, vecdot

__all__ = [
    "cross",
    "diagonal",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "vecdot",
    "vector_norm",
]
