"""Products of sparse matrices with dense and sparse ones, with vectors, and in batches."""

from __future__ import annotations

from typing import Any

from ferro import functional as F
from ferro.batched.array import numbers
from ferro.batched.near import host
from ferro.batched.near import near as np
from ferro.core.base import wrap
from ferro.core.dtypes import type_name
from ferro.core.layout import sparse_coo, sparse_csr, strided, title
from ferro.sparse.elementwise import add, mul
from ferro.sparse.indexing import runs
from ferro.sparse.rules import as_coo, into, refused, rule
from ferro.sparse.shapes import transpose
from ferro.sparse.tensor import SparseTensor, is_dense, is_sparse


def times_dense(x: Any, y: Any) -> Any:
    """A sparse matrix times a dense one of any dtypes."""
    dtype = F.result_type(x.kept, y)
    rows, columns = x.place
    return F.sparse_mm(x.kept.to(dtype), y.to(dtype), rows, columns, x.extent[0])


def times_sparse(x: Any, y: Any) -> Any:
    """The product of two sparse matrices: every value of x with the values of y in the row of its column."""
    kind = sparse_coo if x.kind is sparse_coo else sparse_csr
    x, y = as_coo(x).merged(), as_coo(y).merged()
    begin = np.searchsorted(y.place[0], numbers(y.extent[0] + 1, y.place))
    counts = np.diff(begin)[x.place[1]]
    left = np.repeat(numbers(x._nnz(), x.place), counts)
    right = runs(begin[x.place[1]], counts)
    kept = x.kept.index_select(0, wrap(left.astype(np.int64))) * y.kept.index_select(0, wrap(right.astype(np.int64)))
    place = np.stack([x.place[0][left], y.place[1][right]]).astype(np.int64)
    return SparseTensor(place, kept, (x.extent[0], y.extent[1])).merged().as_layout(kind)


def _matrices(name: str, x: Any, y: Any) -> None:
    for t, what in ((x, "mat1"), (y, "mat2")):
        if t.ndim != 2 or (is_sparse(t) and t.dense_dim()):
            raise RuntimeError(
                f"{name}: {what} must be a matrix without dense dimensions, got the shape {list(t.shape)}"
            )
    if x.shape[1] != y.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]})"
        )


def _kinds(name: str, mat1: Any, mat2: Any) -> None:
    """Refuses a first factor that is dense, and a second one that is sparse."""
    if not is_sparse(mat1):
        raise RuntimeError(
            f"{name}: tensor.sspaddmm(...) can only be called on sparse tensors: expected 'mat1' to have sparse layout, got "
            "'mat1' with layout Strided"
        )
    if is_sparse(mat2):
        raise RuntimeError(f"{name}: expected 'mat2' to have strided layout, got 'mat2' with layout Sparse")


def _same_dtype(x: Any, y: Any) -> None:
    if x.dtype != y.dtype:
        raise RuntimeError(f"mm: mat1 dtype {type_name(x.dtype)} does not match mat2 dtype {type_name(y.dtype)}")


@rule("mm", "spmm", "dsmm", compressed=True)
def mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of two matrices, at least one sparse."""
    _matrices("mm", input, mat2)
    _same_dtype(input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        found = times_sparse(input, mat2)
    elif is_sparse(input):
        found = times_dense(input, mat2)
    else:
        found = times_dense(transpose(mat2, 0, 1), input.t()).t()
    return found if out is None else into(out, found)


def reduced_mm(x: Any, y: Any, reduce: str) -> Any:
    """A CSR matrix times a dense one with the mean, maximum or minimum of the products of a row; rows without values give 0.

    Of equal products the first gets the gradient.
    """
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: sparse_mm_reduce: reduce type of {reduce} has not been enabled.")
    if not (is_sparse(x) and is_dense(y)) or x.kind is not sparse_csr:
        raise RuntimeError(
            f"sparse.mm: sparse_mm_reduce: expect self to be SparseCsr, got {title(x.layout)}, and a dense tensor of the layout "
            f"Strided, got {title(y.layout)}"
        )
    _matrices("sparse_mm_reduce", x, y)
    _same_dtype(x, y)
    if reduce == "sum":
        return times_dense(x, y)
    counts = np.bincount(x.place[0], minlength=x.extent[0])
    if reduce == "mean":
        return times_dense(x, y) / wrap(np.maximum(counts, 1)[:, None].astype(y._data.dtype))
    if not x._nnz():
        return times_dense(x, y)
    products = x.kept.unsqueeze(1) * y.index_select(0, wrap(x.place[1]))
    full = np.flatnonzero(counts)
    starts = np.cumsum(counts[full]) - counts[full]
    a = products.detach()._data
    extreme = _of_runs("maximum" if reduce == "amax" else "minimum", a, starts, x.place[0])
    among = np.repeat(extreme, counts[full], axis=0)
    order = np.where((a == among) | np.isnan(a), numbers(len(a), a)[:, None], len(a))  # (nan is its own extreme)
    picked = products.gather(0, wrap(_of_runs("minimum", order, starts, x.place[0])))
    return picked.new_zeros((x.extent[0], y.shape[1])).index_copy(0, wrap(full), picked)


def _of_runs(name: str, a: Any, starts: Any, rows: Any) -> Any:
    """The maxima or minima of runs of rows of an array: those between `starts`, which have one number in `rows`.

    CuPy's ufuncs have no `reduceat`: there each row takes in those 1, 2, 4, ... behind it that belong to its run.
    """
    if isinstance(a, host.ndarray):
        return getattr(host, name).reduceat(a, starts)
    step, function = 1, getattr(np, name)
    while step < len(a):
        near, far = a[:-step], a[step:]
        within = (rows[:-step] == rows[step:])[:, None]
        a = np.concatenate([np.where(within, function(near, far), near), a[len(a) - step :]])
        step *= 2
    return a[starts]


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha mat1 @ mat2 at the indices of a CSR matrix."""
    for x, what, kind in ((input, "self", sparse_csr), (mat1, "mat1", strided), (mat2, "mat2", strided)):
        if x.layout is not kind:
            raise refused(
                "sparse_sampled_addmm", f"expected {what} to have the layout {title(kind)}, got {title(x.layout)}"
            )
        if x.dtype != input.dtype:
            raise RuntimeError(
                f"sampled_addmm: Expected {what} and self to have the same dtype, got {x.dtype} and {input.dtype}"
            )
    _matrices("sampled_addmm", mat1, mat2)
    for d, x, what in ((0, mat1, "mat1"), (1, mat2, "mat2")):
        if input.shape[d] != x.shape[d]:
            raise RuntimeError(
                f"sampled_addmm: self.shape[{d - 2}] must match {what}.shape[{d - 2}], got {input.shape[d]} and {x.shape[d]}"
            )
    found = F.sampled_mm(mat1, mat2.t(), *input.place) * alpha
    found = input.with_values(found if beta == 0 else found + input.kept * beta)
    return found if out is None else into(out, found)


@rule("mv", compressed=True)
def mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    """A sparse matrix times a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {input.ndim} Tensor Dim: {vec.ndim}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"mv: expected self.size(-1) == vec.size(-1), got {list(input.shape)} and {list(vec.shape)}")
    found = times_dense(input, vec.unsqueeze(1)).squeeze(1)
    return found if out is None else into(out, found)


@rule("matmul", compressed=True)
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The product of two matrices, or of a matrix and a vector."""
    if is_sparse(input) and other.ndim == 1:
        return mv(input, other, out=out)
    return bmm(input, other, out=out) if input.ndim == 3 else mm(input, other, out=out)


@rule("__rmatmul__", compressed=True)
def rmatmul(self: Any, other: Any) -> Any:
    """other @ self."""
    return matmul(other, self)


@rule("linear", compressed=True)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias, where one of the two matrices is sparse."""
    found = mm(input, transpose(weight, 0, 1) if is_sparse(weight) else weight.t())
    if bias is None:
        return found
    return found + bias


@rule("bmm", compressed=True)
def bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """Sparse matrices times dense ones, in batches."""
    if not is_sparse(input) or not is_dense(mat2) or input.ndim != 3 or mat2.ndim != 3:
        raise refused("bmm", "only a sparse tensor of three dimensions times a dense one is supported")
    b, n, m = input.extent
    if mat2.shape[0] != b or mat2.shape[1] != m:
        raise RuntimeError(f"bmm: shapes cannot be multiplied ({list(input.shape)} and {list(mat2.shape)})")
    k = mat2.shape[2]
    place = np.stack([input.place[0] * n + input.place[1], input.place[0] * m + input.place[2]])
    found = times_dense(SparseTensor(place, input.kept, (b * n, b * m)), mat2.reshape(b * m, k)).reshape(b, n, k)
    return found if out is None else into(out, found)


@rule("addmm", "sparse_addmm", compressed=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha mat1 @ mat2."""
    product = mm(mat1, mat2)
    if is_sparse(product) != is_sparse(input):
        raise refused("addmm", "the product and what it is added to must both be sparse or both dense")
    scaled = product if alpha == 1 else mul(product, alpha) if is_sparse(product) else product * alpha
    if is_sparse(product):
        found = add(input if beta == 1 else mul(input, beta), scaled)
    else:
        found = scaled if beta == 0 else (input if beta == 1 else input * beta) + scaled
    return found if out is None else into(out, found)


@rule("addmm_", compressed=True)
def addmm_(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """The in-place form of addmm."""
    return self.copy_(addmm(self, mat1, mat2, beta=beta, alpha=alpha))


@rule("hspmm", compressed=True)
def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """A sparse matrix times a dense one as a hybrid tensor: the rows that have values."""
    _matrices("hspmm", mat1, mat2)
    _kinds("hspmm", mat1, mat2)
    me = mat1.merged()
    rows, where = np.unique(me.place[0], return_inverse=True)
    small = SparseTensor(
        np.stack([where.reshape(-1), me.place[1]]).astype(np.int64), me.kept, (rows.size, me.extent[1]), True
    )
    found = SparseTensor(rows[None].astype(np.int64), times_dense(small, mat2), (mat1.extent[0], mat2.shape[1]), True)
    return found if out is None else out.take(found)


@rule("smm", compressed=True)
def smm(input: Any, mat: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    _kinds("sspaddmm", mat1=input, mat2=mat)
    return hspmm(input, mat).to_dense().to_sparse()


@rule("sspaddmm", "saddmm", compressed=True)
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha mat1 @ mat2 as a sparse matrix, mat1 sparse, mat2 dense."""
    found = add(input if beta == 1 else mul(input, beta), mul(smm(mat1, mat2), alpha))
    return found if out is None else out.take(found)
