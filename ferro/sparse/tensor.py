"""class SparseTensor: indices and values; dense operations refuse it, its own rules are in rules.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.base import TensorBase, wrap
from ferro.core.layout import sparse_coo, sparse_csr
from ferro.core.size import Size
from ferro.overrides import DisableTorchFunctionSubclass
from ferro.tensor import Tensor

# What the functions and methods of ferro do with sparse tensors, by their names (rules.py fills it).
RULES: dict[str, Callable] = {}


class SparseTensor(Tensor):
    """A tensor of which only some values are kept.

    `place`: an int64 array of shape (sparse dimensions, n); `kept`: a tensor of shape (n, *dense dimensions), which records;
    `extent`: the whole shape; `unique`: no index occurs twice and they are in order; `layout`: COO, or CSR (a matrix, unique).
    """

    place: Any
    kept: Any
    extent: tuple
    unique: bool
    kind: Any

    def __new__(cls, place: Any, kept: Any, extent: tuple, unique: bool = False, layout: Any = sparse_coo) -> Any:
        self = object.__new__(cls)
        self._node = self._counter = self._meta = None
        vars(self).update(place=place, kept=kept, extent=tuple(extent), unique=unique, kind=layout)
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        rule = RULES.get(name)
        if rule is None:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend: ferro has no "
                f"'{name}' for sparse tensors. Convert with to_dense() first."
            )
        with DisableTorchFunctionSubclass():
            return rule(*args, **(kwargs or {}))

    @property
    def _data(self) -> Any:
        raise NotImplementedError(
            "Could not run a dense operation with arguments from the 'SparseCPU' backend: it was given a sparse tensor of shape "
            f"{list(self.extent)}. Convert with to_dense() first."
        )

    # -- what it is

    shape = property(lambda self: Size(self.extent))
    dtype = property(lambda self: self.kept.dtype)
    device = property(lambda self: self.kept.device)
    layout = property(lambda self: self.kind)
    is_sparse = property(lambda self: self.kind is sparse_coo)
    is_sparse_csr = property(lambda self: self.kind is sparse_csr)
    ndim = property(lambda self: len(self.extent))
    requires_grad = property(lambda self: self.kept.requires_grad, lambda self, value: self.requires_grad_(value))
    is_leaf = property(lambda self: self.kept.is_leaf)
    grad_fn = property(lambda self: self.kept.grad_fn)
    _version = property(lambda self: self.kept._version)

    @property
    def grad(self) -> Any:
        """The gradient of the kept values, as a sparse tensor with the same indices."""
        given = self.kept.grad
        if given is None or self.unique:
            return None if given is None else self.with_values(given)
        # Values with one index have one sum, so that the derivative by any of them is the one by the element.
        _, first = np.unique(self.flat(), return_index=True)
        return SparseTensor(
            self.place[:, first], given.index_select(0, wrap(first.astype(np.int64))), self.extent, True
        )

    @grad.setter
    def grad(self, value: Any) -> None:
        self.kept.grad = None if value is None else value.coalesce().kept

    def __repr__(self) -> str:
        if self.kind is sparse_csr:
            parts = f"crow_indices={self.crow_indices()!r},\n       col_indices={self.col_indices()!r},\n       "
        else:
            parts = f"indices={wrap(self.place)!r},\n       "
        history = (
            f", grad_fn=<{self.grad_fn.name()}>"
            if self.grad_fn is not None
            else ", requires_grad=True" * self.requires_grad
        )
        return (f"tensor({parts}values={self.kept.detach()!r},\n       size={self.extent}, nnz={self.place.shape[1]}, "
                f"layout={self.kind!r}{history})")  # fmt: skip

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _again, (self.place, self.kept.detach(), self.extent, self.unique, self.kind, self.requires_grad)

    def __deepcopy__(self, memo: dict) -> Any:
        return memo.setdefault(
            id(self), _again(self.place.copy(), self.kept.detach().clone(), *self.__reduce_ex__(4)[1][2:])
        )

    # -- parts

    def sparse_dim(self) -> int:
        """How many dimensions are sparse."""
        return self.place.shape[0]

    def dense_dim(self) -> int:
        """How many dimensions the kept values have themselves."""
        return len(self.extent) - self.place.shape[0]

    def _nnz(self) -> int:
        return self.place.shape[1]

    def is_coalesced(self) -> bool:
        """Whether no index occurs twice, and they are in order."""
        return self.unique

    def _coalesced_(self, coalesced: bool) -> Any:
        self.unique = bool(coalesced)
        return self

    def _indices(self) -> Any:
        return wrap(self.place)

    def _values(self) -> Any:
        return self.kept.detach()

    _dimI, _dimV = sparse_dim, dense_dim

    def indices(self) -> Any:
        """The indices, of shape (sparse dimensions, n); RuntimeError unless coalesced."""
        self._need("indices")
        return wrap(self.place)

    def values(self) -> Any:
        """The kept values; RuntimeError unless coalesced."""
        if self.kind is sparse_coo:
            self._need("values")
        return self.kept

    def _need(self, what: str) -> None:
        if not self.unique:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def crow_indices(self) -> Any:
        """Where the rows of a CSR matrix begin among its values, and the number of values."""
        self._need_csr("crow_indices")
        return wrap(np.searchsorted(self.place[0], np.arange(self.extent[0] + 1)).astype(np.int64))

    def col_indices(self) -> Any:
        """The columns of the values of a CSR matrix."""
        self._need_csr("col_indices")
        return wrap(self.place[1].copy())

    def _need_csr(self, what: str) -> None:
        if self.kind is not sparse_csr:
            raise RuntimeError(f"{what} expected sparse row compressed tensor layout but got {self.kind}")

    def with_values(self, values: Any) -> SparseTensor:
        """Other values at the same indices."""
        return SparseTensor(
            self.place, values, (*self.extent[: self.sparse_dim()], *values.shape[1:]), self.unique, self.kind
        )

    def flat(self) -> Any:
        """The index of each value, counted through all sparse dimensions."""
        return np.ravel_multi_index(tuple(self.place), self.extent[: self.sparse_dim()]) if self.place.size else (
            np.zeros(self.place.shape[1], np.int64))  # fmt: skip

    # -- forms

    def coalesce(self) -> SparseTensor:
        """The same tensor with the values of equal indices added up, in the order of the indices."""
        if self.unique:
            return self
        shape = self.extent[: self.sparse_dim()]
        flat, where = np.unique(self.flat(), return_inverse=True)
        place = (
            np.stack(np.unravel_index(flat, shape))
            if shape and flat.size
            else np.zeros((len(shape), flat.size), np.int64)
        )
        kept = self.kept
        if kept.dtype.is_floating_point or kept.dtype.is_complex or kept._data.dtype.kind in "iu":
            kept = kept.new_zeros((flat.size, *kept.shape[1:])).index_add(
                0, wrap(where.reshape(-1).astype(np.int64)), kept
            )
        else:  # truth values
            any_ = np.zeros((flat.size, *kept.shape[1:]), bool)
            np.logical_or.at(any_, where.reshape(-1), kept._data)
            kept = wrap(any_)
        return SparseTensor(place.astype(np.int64), kept, self.extent, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """The dense tensor."""
        n = math.prod(self.extent[: self.sparse_dim()])
        tail = self.extent[self.sparse_dim() :]
        me = self.coalesce()
        kept = me.kept if dtype is None else me.kept.to(dtype)
        out = kept.new_zeros((n, *tail))
        if me._nnz():
            index = wrap(me.flat().astype(np.int64))
            out = out.index_copy(0, index, kept)
        return out.reshape(self.extent)

    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, **ignored: Any) -> Any:
        """The tensor itself, or in another layout."""
        if layout is sparse_csr or layout is sparse_coo:
            return self._as(layout)
        return self._as(sparse_coo)

    def to_sparse_csr(self, dense_dim: Any = None) -> Any:
        """The matrix by rows."""
        return self._as(sparse_csr)

    def to_sparse_coo(self) -> Any:
        """The tensor with the index of every value."""
        return self._as(sparse_coo)

    def sspaddmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """beta self + alpha mat1 @ mat2 as a sparse matrix, mat1 sparse, mat2 dense."""
        from ferro.sparse.rules import sspaddmm

        return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Takes a shape with so many sparse and dense dimensions; those of a tensor with values only grow."""
        from ferro.sparse.rules import resize

        return resize(self, size, sparse_dim, dense_dim)

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Lets go of all values and takes a shape."""
        from ferro.sparse.rules import resize, zeros_like

        self.take(zeros_like(self))
        return resize(self, size, sparse_dim, dense_dim)

    def smm(self, mat: Any) -> Any:
        """The product with a dense matrix, as a sparse matrix."""
        from ferro.sparse.rules import smm

        return smm(self, mat)

    def _as(self, layout: Any) -> Any:
        if layout is self.kind:
            return self
        if layout is sparse_csr and len(self.extent) != 2:
            raise RuntimeError(f"to_sparse_csr: expected a matrix, got the shape {list(self.extent)}")
        me = self.coalesce()
        return SparseTensor(me.place, me.kept, me.extent, True, layout)

    # -- methods of tensors that are no operations

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.extent)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return Size(self.extent) if dim is None else self.extent[dim]

    def numel(self) -> int:
        """How many elements the dense tensor has."""
        return math.prod(self.extent)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Asks for gradients of the kept values."""
        self.kept.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
        """Gradients of the kept values, weighted by the values of `gradient` at the same indices."""
        if gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        from ferro.sparse.rules import sparse_mask

        g = sparse_mask(gradient if not isinstance(gradient, SparseTensor) else gradient.to_dense(), self)
        self.kept.backward(g.kept, *args, **kwargs)

    def take(self, other: SparseTensor) -> SparseTensor:
        """Becomes another sparse tensor: what in-place operations end with."""
        if other.kept is not self.kept and self.kept.requires_grad and self.kept.is_leaf:
            from ferro.core.mode import is_grad_enabled

            if is_grad_enabled():
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        vars(self).update(place=other.place, kept=other.kept, extent=other.extent, unique=other.unique)
        return self

    def __bool__(self) -> bool:
        return bool(self.to_dense())

    def item(self) -> Any:
        """The value of a tensor with one element."""
        return self.to_dense().item()

    def tolist(self) -> Any:
        """The dense tensor as nested lists."""
        raise NotImplementedError("tolist: not supported for sparse tensors; use to_dense().tolist()")

    def numpy(self, *, force: bool = False) -> Any:
        """Refused."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


def _again(place: Any, kept: Any, extent: tuple, unique: bool, layout: Any, requires_grad: bool) -> SparseTensor:
    return SparseTensor(place, kept.requires_grad_(requires_grad), extent, unique, layout)


def is_sparse(x: Any) -> bool:
    """Whether something is a sparse tensor."""
    return isinstance(x, SparseTensor)


def is_dense(x: Any) -> bool:
    """Whether something is a tensor that is not sparse."""
    return isinstance(x, TensorBase) and not isinstance(x, SparseTensor)


from ferro.sparse import rules as _rules  # noqa: E402, F401  (there are rules before there is a sparse tensor)
