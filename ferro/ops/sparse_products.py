"""Products with a sparse matrix, as functions of its values and of the dense factor; what ferro.sparse multiplies with.

Each derivative of the one is the other: by the values of a sparse matrix it is the elements of a product of dense matrices
at its indices, and the derivative of such elements by a factor is a product with a sparse matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.op import MULTILINEAR, Op

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def sparse_mm(values: Tensor, y: Tensor, rows: Any, columns: Any, count: int) -> Tensor:
    """The matrix with `count` rows and the values[k] at (rows[k], columns[k]), times the dense matrix `y` of the same dtype.

    rows, columns: int64 arrays of NumPy; indices that occur twice count twice.
    """
    return apply(SPARSE_MM, (values, y), (rows, columns, count))


SPARSE_MM = Op(
    "sparse_mm",
    kind=MULTILINEAR,
    weight=20.0,
    forward=lambda xp, values, y, /, rows, columns, count: xp.sparse_mm(values, y, rows, columns, count),
    values=lambda xp, g, y, rows, columns: xp.sampled_mm(g, y.conj(), rows, columns),
    y=lambda xp, g, values, y_shape, rows, columns: xp.sparse_mm(values.conj(), g, columns, rows, y_shape[0]),
)


def sampled_mm(x: Tensor, y: Tensor, rows: Any, columns: Any) -> Tensor:
    """The elements (rows[k], columns[k]) of x @ y.T, without the others."""
    return apply(SAMPLED_MM, (x, y), (rows, columns))


SAMPLED_MM = Op(
    "sampled_mm",
    kind=MULTILINEAR,
    weight=20.0,
    forward=lambda xp, x, y, /, rows, columns: xp.sampled_mm(x, y, rows, columns),
    x=lambda xp, g, y, x_shape, rows, columns: xp.sparse_mm(g, y.conj(), rows, columns, x_shape[0]),
    y=lambda xp, g, x, y_shape, rows, columns: xp.sparse_mm(g, x.conj(), columns, rows, y_shape[0]),
)
