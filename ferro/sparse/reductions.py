"""Sums, norms and softmax over dimensions of sparse tensors."""

from __future__ import annotations

import math
from typing import Any

from ferro import functional as F
from ferro.batched.near import near as np
from ferro.batched.near import zeros_near
from ferro.core.base import wrap
from ferro.core.mode import is_grad_enabled
from ferro.sparse.conversions import to
from ferro.sparse.rules import into, one_dim, rule
from ferro.sparse.tensor import SparseTensor


@rule("sum", compressed=True)
def sum(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None, out: Any = None) -> Any:
    """sparse_sum; the gradient by a leaf of the sum over all dimensions is dense, as in PyTorch."""
    total = sparse_sum(input, dim, keepdim, dtype=dtype)
    everything = dim is None or (isinstance(dim, (tuple, list)) and not dim)
    if everything and input.requires_grad and input.is_leaf and is_grad_enabled():
        total = total + input.everywhere().to(total.dtype)
    return total if out is None else into(out, total)


def sparse_sum(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
    """The sum over all dimensions (dense), or over some: sparse as long as a sparse dimension is left."""
    if keepdim is not True and keepdim is not False:
        keepdim, dtype = False, keepdim
    kept = input.kept if dtype is None else input.kept.to(dtype)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return kept.sum()
    n = input.sparse_dim()
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = {one_dim("sum", input, d) for d in given}
    if len(dims) < len(given):
        raise RuntimeError(f"sum: dim appears multiple times in the list of dims {list(given)}")
    dense = [d - n + 1 for d in dims if d >= n]
    if dense:
        kept = kept.sum(dense, keepdim=keepdim)
    left = [d for d in range(n) if d not in dims]
    extent = tuple([1 if d in dims else s for d, s in enumerate(input.extent) if keepdim or d not in dims])
    if not left:
        return kept.sum(0).reshape(extent)
    place = np.stack(
        [np.zeros_like(input.place[d]) if d in dims else input.place[d] for d in range(n) if keepdim or d not in dims]
    )
    return SparseTensor(place, kept, extent).merged()


@rule("norm", compressed=True)
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """The norm of all values."""
    if dtype is not None and p in ("fro", None):
        raise ValueError("dtype argument is not supported in frobenius norm")
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims and {one_dim("norm", input, d) for d in dims} != set(range(input.ndim)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
        )
    return F.norm(input.merged().kept.reshape(-1), 2 if p in ("fro", None) else p)


@rule("any", compressed=True)
def any(input: Any) -> Any:
    """Whether a value is not zero."""
    return F.any(input.merged().kept)


@rule("softmax")
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax along a dimension over the kept values alone."""
    return _softmax(input, dim, dtype, log=False)


@rule("log_softmax")
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """The logarithm of softmax over the kept values alone."""
    return _softmax(input, dim, dtype, log=True)


def _softmax(input: Any, dim: int, dtype: Any, log: bool) -> Any:
    """Softmax, or its logarithm."""
    me = input.merged() if dtype is None else to(input, dtype).coalesce()
    d, n = one_dim("softmax", me, dim), me.sparse_dim()
    if d >= n:
        return me.with_values((F.log_softmax if log else F.softmax)(me.kept, d - n + 1))
    others = np.delete(me.place, d, axis=0)
    shape = tuple([s for k, s in enumerate(me.extent[:n]) if k != d])
    flat = (
        np.ravel_multi_index(tuple(others), shape)
        if shape and others.size
        else zeros_near((me._nnz(),), me.place, np.int64)
    )
    _, where = np.unique(flat, return_inverse=True)
    group = wrap(where.reshape(-1).astype(np.int64))
    count = int(where.max()) + 1 if where.size else 0
    largest = me.kept.detach().new_full((count, *me.kept.shape[1:]), -math.inf)
    largest = largest.index_reduce(0, group, me.kept.detach(), "amax")
    shifted = me.kept - largest.index_select(0, group)
    total = shifted.new_zeros(largest.shape).index_add(0, group, shifted.exp())
    if log:
        return me.with_values(shifted - total.log().index_select(0, group))
    return me.with_values(shifted.exp() / total.index_select(0, group))
