"""Sparse tensors: those of which only some elements are kept, with their indices (COO), by rows (CSR) or columns (CSC).

The kept values are a dense tensor that records; operations on sparse tensors are dense operations on indices and values,
so that gradients of any order, and tangents, flow to the values and to dense operands.
"""

from __future__ import annotations

from typing import Any

from ferro.core import backend
from ferro.core.layout import sparse_csc, sparse_csr
from ferro.sparse.invariants import check_sparse_tensor_invariants, checked
from ferro.sparse.legacy import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)

__all__ = ["BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
           "ShortTensor", "addmm", "check_sparse_tensor_invariants", "hspmm", "log_softmax", "mm", "sampled_addmm", "smm", "softmax",
           "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "spdiags", "sspaddmm", "sum"]  # fmt: skip


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    pin_memory: bool = False,
) -> Any:
    """A tensor that is zero but for values[k] at indices[:, k]; values with the same index are added up.

    - `indices` (Tensor or array, default None): integers, (sparse dimensions, n)
    - `values` (Tensor or array, default None): n elements, or n dense tensors, which are the last dimensions of the
      result
    - `size` (ints, default None): its shape; None: just large enough
    - `dtype` (dtype, default None): None: that of the values
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where the values do
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `check_invariants` (bool, default None): checks that indices said to be coalesced are
    - `is_coalesced` (bool, default None): says that the indices are in order, each once
    - `pin_memory` (bool, default False): no effect on the CPU

    ``sparse_coo_tensor(size)`` has no values. Raises RuntimeError for sizes that do not fit and for indices out of the
    size.

    Example::

        >>> import ferro
        >>> x = ferro.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
    """
    from ferro.sparse.making import coo

    return coo(indices, values, size, dtype, device, requires_grad, is_coalesced, checked(check_invariants))


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> Any:
    """A matrix by rows: values[crow_indices[r] : crow_indices[r + 1]] lie in row r, in the columns of the same part of
    col_indices.

    - `crow_indices` (Tensor or array): where each row begins, and the end, (rows + 1), integers
    - `col_indices` (Tensor or array): columns, (n), integers
    - `values` (Tensor or array): (n)
    - `size` (ints, default None): its shape; None: just large enough
    - `dtype` (dtype, default None): None: that of the values
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where the values do
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `check_invariants` (bool, default None): refuses indices of a row that are not in order
    - `pin_memory` (bool, default False): no effect on the CPU

    Raises RuntimeError for indices that do not fit.

    Example::

        >>> import ferro
        >>> ferro.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
    """
    return sparse_compressed_tensor(
        crow_indices,
        col_indices,
        values,
        size,
        dtype=dtype,
        layout=sparse_csr,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> Any:
    """A matrix by columns: values[ccol_indices[c] : ccol_indices[c + 1]] lie in column c, in the rows of the same part
    of row_indices.

    - `ccol_indices` (Tensor or array): where each column begins, and the end, (columns + 1), integers
    - `row_indices` (Tensor or array): rows, (n), integers
    - `values` (Tensor or array): (n)
    - `size` (ints, default None): its shape; None: just large enough
    - `dtype` (dtype, default None): None: that of the values
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where the values do
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `check_invariants` (bool, default None): refuses indices of a column that are not in order
    - `pin_memory` (bool, default False): no effect on the CPU

    Raises RuntimeError for indices that do not fit.

    Example::

        >>> import ferro
        >>> ferro.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3.0, 5.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 5.]])
    """
    return sparse_compressed_tensor(
        ccol_indices,
        row_indices,
        values,
        size,
        dtype=dtype,
        layout=sparse_csc,
        device=device,
        requires_grad=requires_grad,
        check_invariants=check_invariants,
    )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    pin_memory: bool = False,
) -> Any:
    """A matrix by rows or by columns: see `sparse_csr_tensor` and `sparse_csc_tensor`.

    - `compressed_indices` (Tensor or array): where each row (or column) begins, and the end
    - `plain_indices` (Tensor or array): the columns (or rows), (n)
    - `values` (Tensor or array): (n)
    - `size` (ints, default None): its shape; None: just large enough
    - `dtype` (dtype, default None): None: that of the values
    - `layout` (layout, default None): ferro.sparse_csr or ferro.sparse_csc; must be given
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where the values do
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `check_invariants` (bool, default None): refuses indices that are not in order
    - `pin_memory` (bool, default False): no effect on the CPU

    Raises RuntimeError for indices and layouts that do not fit.

    Example::

        >>> import ferro
        >>> ferro.sparse_compressed_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], layout=ferro.sparse_csr).shape
        ferro.Size([2, 3])
    """
    from ferro.sparse.making import compressed

    if layout not in (sparse_csr, sparse_csc):
        raise RuntimeError(
            f"sparse_compressed_tensor: expected sparse compressed tensor layout (sparse_csr or sparse_csc) but got {layout}"
        )
    name = f"{layout.name}_tensor"
    return compressed(
        name,
        compressed_indices,
        plain_indices,
        values,
        size,
        dtype,
        device,
        requires_grad,
        layout,
        checked(check_invariants),
    )


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of a sparse matrix with a dense one (dense) or a sparse one (sparse).

    reduce: of a CSR matrix and a dense one, "sum", or "mean", "amax" or "amin" of the products of each row in place of their sum;
    RuntimeError for others.

    >>> import ferro
    >>> graph = ferro.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]).to_sparse_csr()
    >>> ferro.sparse.mm(graph, ferro.tensor([[1.0], [2.0], [6.0]]), "mean")
    tensor([[4.],
            [0.],
            [1.]])
    """
    from ferro.sparse.products import matmul, reduced_mm

    return matmul(mat1, mat2) if reduce is None else reduced_mm(mat1, mat2, reduce)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha (mat1 @ mat2), computed at the indices of a CSR matrix only.

    - `input` (Tensor): (m, n), by rows (CSR)
    - `mat1`, `mat2` (Tensor): dense, (m, k) and (k, n)
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is by rows. RuntimeError for shapes and layouts that do not fit.

    Example::

        >>> import ferro
        >>> graph = ferro.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse_csr()
        >>> ferro.sparse.sampled_addmm(graph, ferro.ones(2, 3), ferro.ones(3, 2)).to_dense()
        tensor([[0., 4.],
                [4., 0.]])
    """
    from ferro.sparse.products import sampled_addmm as rule

    return rule(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta mat + alpha mat1 @ mat2 with a sparse first factor.

    - `mat` (Tensor): dense, (m, n)
    - `mat1` (Tensor): sparse, (m, k)
    - `mat2` (Tensor): dense, (k, n)
    - `beta`, `alpha` (number, default 1): factors

    The result is dense, (m, n). RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        >>> ferro.sparse.addmm(ferro.ones(2, 2), x, ferro.ones(2, 2))
        tensor([[3., 3.],
                [1., 1.]])
    """
    from ferro.sparse.products import addmm as rule

    return rule(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum over all dimensions (dense), or over some: sparse as long as a sparse dimension is left."""
    from ferro.sparse.reductions import sparse_sum

    return sparse_sum(input, dim, dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax along a dimension over the kept values alone: what is not kept counts as minus infinity."""
    from ferro.sparse.reductions import softmax as rule

    return rule(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    from ferro.sparse.reductions import log_softmax as rule

    return rule(input, dim, dtype)


def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """A sparse matrix times a dense one as a hybrid tensor: those rows of the product that have values."""
    from ferro.sparse.products import hspmm as rule

    return rule(mat1, mat2, out=out)


def smm(input: Any, mat: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    from ferro.sparse.products import smm as rule

    return rule(input, mat)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha mat1 @ mat2 as a sparse matrix.

    - `input`, `mat1` (Tensor): sparse, (m, n) and (m, k)
    - `mat2` (Tensor): dense, (k, n)
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        >>> ferro.sparse.sspaddmm(x, x, ferro.ones(2, 2)).to_dense()
        tensor([[2., 4.],
                [0., 0.]])
    """
    from ferro.sparse.products import sspaddmm as rule

    return rule(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with the rows of `diagonals` on some of its diagonals.

    - `diagonals` (Tensor): (k, n), or (n) for one
    - `offsets` (Tensor): which, (k), int64; positive ones lie above the main diagonal
    - `shape` (pair of ints): of the matrix
    - `layout` (layout, default None): ferro.sparse_coo (None too), sparse_csr or sparse_csc

    RuntimeError for shapes that do not fit and offsets that are repeated. Element j of a row stands in column j.

    Example::

        >>> import ferro
        >>> ferro.sparse.spdiags(ferro.tensor([[1.0, 2.0, 3.0]]), ferro.tensor([1]), (3, 3)).to_dense()
        tensor([[0., 2., 0.],
                [0., 0., 3.],
                [0., 0., 0.]])
    """
    from ferro.sparse.making import diagonals as make

    return make(diagonals, offsets, shape, layout)
