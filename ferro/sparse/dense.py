"""Dense tensors made sparse, and what dense ones answer to the questions that are asked of sparse ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ferro.core.layout import sparse_csc, sparse_csr

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _wants(what: str, layout: str) -> RuntimeError:
    return RuntimeError(
        f"{what} expected sparse {layout}tensor layout but got Strided: the tensor is dense (to_sparse() makes it sparse)"
    )


def _not_run(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the tensor is dense (to_sparse() makes it sparse)"
    )


class LayoutMethods:
    """Methods of Tensor."""

    __slots__ = ()

    def smm(self: Any, mat: Any) -> Any:
        """The product of a sparse matrix with a dense one, as a sparse matrix."""
        from ferro.sparse import smm

        return smm(self, mat)

    def sspaddmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """beta self + alpha mat1 @ mat2 as a sparse matrix: see `ferro.sspaddmm`.

        - `mat1` (Tensor): sparse, (m, k)
        - `mat2` (Tensor): dense, (k, n)
        - `beta`, `alpha` (number, default 1): factors

        Example::

            >>> import ferro
            >>> x = ferro.eye(2).to_sparse()
            >>> x.sspaddmm(x, ferro.ones(2, 2)).to_dense()
            tensor([[2., 1.],
                    [1., 2.]])
        """
        from ferro.sparse import sspaddmm

        return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
    ) -> Any:
        """What of the tensor is not zero, as a sparse tensor (see ``ferro.sparse``); gradients flow back to it.

        - `self` (Tensor): any shape
        - `sparse_dim` (int, default None): how many dimensions are sparse; None: all
        - `layout` (layout, default None): ferro.sparse_coo (None too), sparse_csr or sparse_csc
        - `blocksize` (pair of ints, default None): must be None
        - `dense_dim` (int, default None): must be None or 0

        Example::

            >>> import ferro
            >>> ferro.tensor([0.0, 5.0]).to_sparse().indices()
            tensor([[1]])
        """
        from ferro.sparse.making import from_dense

        return from_dense(self, sparse_dim, layout)

    def to_sparse_coo(self) -> Any:
        """The same, with the index of every value."""
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim: int | None = None) -> Any:
        """The same by rows, of a matrix."""
        return self.to_sparse(layout=sparse_csr)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """The same by columns, of a matrix."""
        return self.to_sparse(layout=sparse_csc)

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The tensor itself: it is dense."""
        return self if dtype is None else self.to(dtype)

    def sparse_mask(self, mask: Any) -> Any:
        """The elements at the indices of a sparse tensor, as a sparse tensor."""
        from ferro.sparse.indexing import sparse_mask

        return sparse_mask(self, mask)

    def sparse_dim(self) -> int:
        """How many dimensions are sparse: none."""
        return 0

    def dense_dim(self: Any) -> int:
        """How many dimensions are dense: all."""
        return self.ndim

    def is_coalesced(self) -> NoReturn:
        """RuntimeError: that is asked of COO tensors."""
        raise _wants("is_coalesced", "coordinate ")

    def coalesce(self) -> NoReturn:
        """RuntimeError: COO tensors are coalesced."""
        raise _wants("coalesce", "coordinate ")

    def indices(self) -> NoReturn:
        """RuntimeError: COO tensors have indices."""
        raise _wants("indices", "coordinate ")

    def values(self) -> NoReturn:
        """RuntimeError: sparse tensors have kept values."""
        raise _wants("values", "")

    def crow_indices(self) -> NoReturn:
        """RuntimeError: CSR matrices have them."""
        raise _wants("crow_indices", "row compressed ")

    def col_indices(self) -> NoReturn:
        """RuntimeError: CSR matrices have them."""
        raise _wants("col_indices", "row compressed ")

    def ccol_indices(self) -> NoReturn:
        """RuntimeError: CSC matrices have them."""
        raise _wants("ccol_indices", "column compressed ")

    def row_indices(self) -> NoReturn:
        """RuntimeError: CSC matrices have them."""
        raise _wants("row_indices", "column compressed ")

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> NoReturn:
        """NotImplementedError: COO tensors are resized so."""
        raise _not_run("sparse_resize_")

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> NoReturn:
        """NotImplementedError: COO tensors are resized so."""
        raise _not_run("sparse_resize_and_clear_")

    def _nnz(self) -> NoReturn:
        raise _not_run("_nnz")

    def _indices(self) -> NoReturn:
        raise _not_run("_indices")

    def _values(self) -> NoReturn:
        raise _not_run("_values")

    def _dimI(self) -> NoReturn:
        raise _not_run("_dimI")

    def _dimV(self) -> NoReturn:
        raise _not_run("_dimV")
