"""Parts of sparse tensors: slices, rows by their numbers, the elements at the indices of another tensor."""

from __future__ import annotations

import math
from typing import Any

from ferro.batched.array import numbers
from ferro.batched.near import near as np
from ferro.core import backend
from ferro.core.base import wrap
from ferro.sparse.rules import one_dim, refused, rule, same_shape
from ferro.sparse.tensor import SparseTensor, is_sparse


def runs(starts: Any, counts: Any) -> Any:
    """counts[0] numbers from starts[0] on, then counts[1] from starts[1] on, and so forth."""
    return numbers(int(counts.sum()), counts) - np.repeat(np.cumsum(counts) - counts - starts, counts)


@rule("index_select")
def index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> Any:
    """The slices with these numbers along a dimension."""
    d, n = one_dim("index_select", input, dim), input.sparse_dim()
    wanted = backend.beside(input.place, index._data.reshape(-1).astype(np.int64))
    size = input.extent[d]
    if wanted.size and (wanted.min() < -size or wanted.max() >= size):
        raise IndexError(
            f"index_select(): index contains {wanted.min() if wanted.min() < -size else wanted.max()} that is out of range for tensor "
            f"of size {list(input.extent)} at dimension {d}"
        )
    wanted = np.where(wanted < 0, wanted + size, wanted)
    extent = (*input.extent[:d], wanted.size, *input.extent[d + 1 :])
    if d >= n:
        return SparseTensor(input.place, input.kept.index_select(d - n + 1, wrap(wanted)), extent, input.unique)
    order = np.argsort(input.place[d], kind="stable")
    ordered = input.place[d][order]
    begin, end = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
    counts = end - begin
    which = order[runs(begin, counts)].astype(np.int64)
    place = input.place[:, which]
    place[d] = np.repeat(numbers(wanted.size, wanted), counts)
    found = SparseTensor(place, input.kept.index_select(0, wrap(which)), extent)
    return found.coalesce() if input.unique else found


@rule("narrow", "narrow_copy")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """The slices from `start` on along a dimension."""
    if not 0 <= dim < input.ndim:
        raise RuntimeError(f"narrow: Dimension {dim} out of range. Expecting 0 <= dim < {input.ndim}.")
    size = input.extent[dim]
    if not (start >= 0 and length >= 0 and start + length <= size):
        raise RuntimeError(
            f"narrow: Invalid range to narrow. range(start, start+length) must be a subset of range(0, {size}), got start "
            f"{start} and length {length}"
        )
    return index_select(input, dim, wrap(np.arange(start, start + length)))


@rule("select", "select_copy")
def select(input: Any, dim: int, index: int) -> Any:
    """One slice along a dimension: dense if no sparse dimension is left."""
    d, n = one_dim("select", input, dim), input.sparse_dim()
    size = input.extent[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.extent)} at dimension {dim}"
        )
    index %= size
    extent = (*input.extent[:d], *input.extent[d + 1 :])
    if d >= n:
        return SparseTensor(input.place, input.kept.select(d - n + 1, index), extent, input.unique)
    which = np.nonzero(input.place[d] == index)[0]
    kept = input.kept.index_select(0, wrap(which))
    if n == 1:
        return kept.sum(0).to(kept.dtype)
    return SparseTensor(np.delete(input.place[:, which], d, axis=0), kept, extent, input.unique)


@rule("unbind")
def unbind(input: Any, dim: int = 0) -> tuple:
    """The slices along a dimension."""
    return tuple([select(input, dim, i) for i in range(input.extent[one_dim("unbind", input, dim)])])


@rule("__getitem__")
def getitem(self: Any, key: Any) -> Any:
    """Integers and slices of step 1."""
    found, d = self, 0
    for k in key if isinstance(key, tuple) else (key,):
        if isinstance(k, int):
            found = select(found, d, k)
        elif isinstance(k, slice) and k.step in (None, 1):
            start, stop, _ = k.indices(found.shape[d])
            found = narrow(found, d, start, max(stop - start, 0)) if k != slice(None) else found
            d += 1
        else:
            raise refused("index", f"the key {k!r} is not supported; integers and slices of step 1 are")
    return found


@rule("__setitem__")
def setitem(self: Any, key: Any, value: Any) -> None:
    """Refused: what an index names may be in no value."""
    if is_sparse(self):
        raise TypeError("Cannot assign to a sparse tensor; make another one of its indices and values")
    raise refused("__setitem__", "a sparse tensor is no value for a part of a dense one; convert with to_dense() first")


@rule("sparse_mask")
def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements of `self` at the indices of `mask`."""
    if not is_sparse(mask):
        raise RuntimeError(f"sparse_mask: expected a sparse mask, got a tensor of layout {mask.layout}")
    same_shape("sparse_mask", self, mask)
    if is_sparse(self):
        a = self.coalesce()
        if not a._nnz():
            return mask.with_values(a.kept.new_zeros((mask._nnz(), *a.kept.shape[1:])))
        where = np.searchsorted(a.flat(), mask.flat())
        found = np.isin(mask.flat(), a.flat())
        kept = a.kept.new_zeros((mask._nnz(), *a.kept.shape[1:]))
        kept = kept.index_copy(
            0, wrap(np.nonzero(found)[0]), a.kept.index_select(0, wrap(where[found].astype(np.int64)))
        )
        return mask.with_values(kept)
    n = mask.sparse_dim()
    flat = self.reshape(math.prod(mask.extent[:n]), *mask.extent[n:])
    return mask.with_values(flat.index_select(0, wrap(mask.flat().astype(np.int64))))
