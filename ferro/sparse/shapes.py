"""Other shapes: dimensions exchanged, put in, grown; tensors in a row."""

from __future__ import annotations

import math
from typing import Any

from ferro import functional as F
from ferro.batched.near import near as np
from ferro.core.layout import sparse_coo, sparse_csc, sparse_csr, title
from ferro.sparse import making
from ferro.sparse.rules import one_dim, refused, rule
from ferro.sparse.tensor import SparseTensor, is_sparse


@rule("transpose", "swapaxes", "swapdims", compressed=True)
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two sparse dimensions, or two dense ones, exchanged."""
    a, b = one_dim("transpose", input, dim0), one_dim("transpose", input, dim1)
    n = input.sparse_dim()
    extent = list(input.extent)
    if a == b or not extent:
        return input.with_values(input.another())
    extent[a], extent[b] = extent[b], extent[a]
    if input.kind is not sparse_coo:  # the columns of the one are the rows of the other
        kind = sparse_csc if input.kind is sparse_csr else sparse_csr
        return SparseTensor(input.place[::-1], input.another(), tuple(extent), True, kind)
    if (a < n) != (b < n):
        raise RuntimeError(
            f"transpose: transposed dimensions must be both sparse or both dense, got {dim0} and {dim1} with {n} sparse dimensions"
        )
    if a < n:
        place = input.place.copy()
        place[[a, b]] = place[[b, a]]
        return SparseTensor(place, input.another(), tuple(extent), input._nnz() < 2)
    return SparseTensor(input.place, input.kept.transpose(a - n + 1, b - n + 1), tuple(extent), input.unique)


@rule("t", compressed=True)
def t(input: Any) -> Any:
    """The transposed matrix."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, input.ndim - 1) if input.ndim == 2 else input


def _not_compressed(x: Any) -> None:
    """RuntimeError for a matrix that would change its layout in place."""
    if x.kind is not sparse_coo:
        raise RuntimeError(f"transpose_: in-place transposition is not supported for {title(x.kind)} layout")


@rule("transpose_", "swapaxes_", "swapdims_", compressed=True)
def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """The in-place form of transpose."""
    _not_compressed(self)
    return self.take(transpose(self, dim0, dim1))


@rule("t_", compressed=True)
def t_(self: Any) -> Any:
    """The in-place form of t."""
    _not_compressed(self)
    return self.take(t(self))


@rule("permute")
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order, sparse ones among themselves and dense ones among themselves."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [one_dim("permute", input, d) for d in order]
    n = input.sparse_dim()
    if sorted(order) != list(range(input.ndim)) or sorted(order[:n]) != list(range(n)):
        raise RuntimeError(
            f"permute: {tuple(order)} does not order the {n} sparse and {input.dense_dim()} dense dimensions among themselves"
        )
    kept = input.kept.permute(0, *[d - n + 1 for d in order[n:]])
    return SparseTensor(input.place[order[:n]], kept, tuple([input.extent[d] for d in order]), input._nnz() < 2)


@rule("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """A dimension of size 1 put in."""
    n = input.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"unsqueeze: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    d = dim % n
    s = input.sparse_dim()
    extent = (*input.extent[:d], 1, *input.extent[d:])
    if d <= s:
        return SparseTensor(
            np.concatenate([input.place[:d], np.zeros_like(input.place[:1]), input.place[d:]]),
            input.another(),
            extent,
            input.unique,
        )
    return SparseTensor(input.place, input.kept.unsqueeze(d - s + 1), extent, input.unique)


@rule("stack")
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Sparse tensors one behind the other along a new dimension."""
    if not all(is_sparse(x) for x in tensors):
        raise refused("stack", "sparse tensors are stacked with sparse ones only")
    return cat([unsqueeze(x, dim) for x in tensors], dim, out=out)


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Sparse tensors in a row along a dimension."""
    tensors = list(tensors)
    if not all(is_sparse(x) for x in tensors):
        raise RuntimeError(
            "Concatenating sparse tensors, but a dense tensor was found at position "
            f"{next(i for i, x in enumerate(tensors) if not is_sparse(x))}."
        )
    first = tensors[0]
    d, n = one_dim("cat", first, dim), first.sparse_dim()
    for i, x in enumerate(tensors):
        if x.sparse_dim() != n or x.dense_dim() != first.dense_dim():
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {n}, {first.dense_dim()}, but tensor at position "
                f"{i} has {x.sparse_dim()}, {x.dense_dim()}."
            )
        if [s for k, s in enumerate(x.extent) if k != d] != [s for k, s in enumerate(first.extent) if k != d]:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.extent)} (except in the concatenating dimension), but found "
                f"shape: {list(x.extent)} at position {i}."
            )
    extent = list(first.extent)
    starts = np.cumsum([0, *[x.extent[d] for x in tensors]])
    extent[d] = int(starts[-1])
    places, kept = [], []
    for x, start in zip(tensors, starts, strict=False):
        place, values = x.place.copy(), x.kept
        if d < n:
            place[d] += start
        else:
            before, after = list(values.shape), list(values.shape)
            k = d - n + 1
            before[k], after[k] = int(start), int(starts[-1] - start - x.extent[d])
            values = F.cat([values.new_zeros(before), values, values.new_zeros(after)], k)
        places.append(place)
        kept.append(values)
    found = SparseTensor(np.concatenate(places, axis=1), F.cat(kept), tuple(extent))
    return found if out is None else out.take(found)


@rule("hstack", "column_stack")
def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Sparse tensors beside each other."""
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1, out=out)


@rule("vstack", "row_stack")
def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Sparse matrices, or vectors as rows, below each other."""
    return cat([unsqueeze(x, 0) if x.ndim == 1 else x for x in tensors], 0, out=out)


@rule("resize_as_", compressed=True)
def resize_as_(self: Any, other: Any, **ignored: Any) -> Any:
    """Takes the shape of another sparse tensor."""
    if not (is_sparse(self) and is_sparse(other)):
        raise RuntimeError("resize_as_: a dense tensor and a sparse one do not take each other's shape")
    return resize(self, other.extent, other.sparse_dim(), other.dense_dim())


@rule("sparse_resize_")
def resize(x: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Takes a shape; dimensions of a tensor with values only grow, their elements keep their order in memory."""
    size = making.countable(tuple(size))
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
        )
    if not x._nnz():
        return x.take(making.none(size, sparse_dim, x.dtype))
    n = x.sparse_dim()
    on = "on a non-empty sparse tensor is not supported"
    for what, old, new in (("sparse", n, sparse_dim), ("dense", x.dense_dim(), dense_dim)):
        if old != new:
            raise RuntimeError(f"changing the number of {what} dimensions (from {old} to {new}) {on}")
    for what, old, new in (("sparse", x.extent[:n], size[:n]), ("dense", x.extent[n:], size[n:])):
        if any(b < a for a, b in zip(old, new, strict=True)):
            raise RuntimeError(f"shrinking the size of {what} dimensions (from {list(old)} to {list(new)}) {on}")
    shape = (x._nnz(), *size[n:])
    more = x.kept.new_zeros(math.prod(shape) - x.kept.numel())
    return x.take(SparseTensor(x.place, F.cat([x.kept.reshape(-1), more]).reshape(shape), size, x.unique))
