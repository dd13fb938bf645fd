"""ferro.linalg: linear algebra under PyTorch's names."""

from ferro.linalg_errors import LinAlgError
from ferro.ops.cholesky import cholesky_ex
from ferro.ops.cholesky import linalg_cholesky as cholesky
from ferro.ops.determinants import det
from ferro.ops.determinants import linalg_slogdet as slogdet
from ferro.ops.diagonals import matrix_diagonal as diagonal
from ferro.ops.eigenvalues import eig, eigh, eigvals, eigvalsh
from ferro.ops.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from ferro.ops.least_squares import lstsq, matrix_rank, pinv
from ferro.ops.lu import linalg_lu as lu
from ferro.ops.lu import linalg_lu_solve as lu_solve
from ferro.ops.lu import lu_factor, lu_factor_ex
from ferro.ops.matrix_chains import multi_dot
from ferro.ops.matrix_functions import linalg_vander as vander
from ferro.ops.matrix_functions import matrix_exp
from ferro.ops.matrix_norms import cond, matrix_norm
from ferro.ops.matrix_norms import linalg_norm as norm
from ferro.ops.norms import vector_norm
from ferro.ops.orthogonal import householder_product
from ferro.ops.orthogonal import linalg_qr as qr
from ferro.ops.products import matmul
from ferro.ops.solving import inv_ex, matrix_power, solve, solve_ex
from ferro.ops.solving import inverse as inv
from ferro.ops.spectral import linalg_svd as svd
from ferro.ops.spectral import svdvals
from ferro.ops.tensor_equations import tensorinv, tensorsolve
from ferro.ops.triangles import solve_triangular
from ferro.ops.vector_products import linalg_cross as cross
from ferro.ops.vector_products import vecdot

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
