"""class SparseTensor: indices and values.  Dense operations refuse it; rules.py says where its own are."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ferro.batched.array import numbers
from ferro.batched.near import near as np
from ferro.batched.near import zeros_near
from ferro.core.backend import HOST
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import int64
from ferro.core.layout import sparse_coo, sparse_csc, sparse_csr, strided, title
from ferro.core.size import Size
from ferro.overrides import DisableTorchFunctionSubclass
from ferro.printing import describe_sparse
from ferro.tensor import Tensor


class Rules(dict[str, Callable]):
    """What functions and methods of ferro do with sparse tensors, by their names: see rules.py.  Loaded when first asked."""

    def __missing__(self, name: str) -> Any:
        for module in ("conversions", "elementwise", "indexing", "products", "questions", "reductions", "shapes"):
            import_module(f"ferro.sparse.{module}")
        return self.get(name)


RULES = Rules()


class SparseTensor(Tensor):
    """A tensor of which only some values are kept.

    `place`: an int64 array of shape (sparse dimensions, n); `kept`: a tensor of shape (n, *dense dimensions), which records;
    `extent`: the whole shape; `unique`: no index occurs twice and they are in order; `layout`: COO, or of a matrix CSR
    (the same, unique) or CSC (unique and in the order of the columns).

    A leaf is one whose `kept` is a leaf, which collects its gradient until somebody asks for it.
    """

    place: Any
    kept: Any
    extent: tuple
    unique: bool
    kind: Any
    held: Any  # the gradient that has been asked for
    starts: Any  # where the rows (CSR) or columns (CSC) begin, once asked for: as long as `place` is as it is

    def __new__(cls, place: Any, kept: Any, extent: tuple, unique: bool = False, layout: Any = sparse_coo) -> Any:
        self = object.__new__(cls)
        self._node = self._counter = self._meta = None
        vars(self).update(
            place=place, kept=kept, extent=tuple(extent), unique=unique, kind=layout, held=None, starts=None
        )
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        rule = RULES[name]
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
            f"{list(self.extent)}. Convert with to_dense() first. (If it is the first sparse tensor of the program and was made within the "
            "call, as in mm(x.to_sparse(), y), make it on a line of its own: functions look for sparse tensors as soon as there is one.)"
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
        """The gradient of a leaf: sparse, with the same indices; dense once a sum over everything has taken part."""
        given = self.kept.grad
        if given is not None:
            fresh = self.gradient(given, self.everywhere().grad)
            self.held = fresh if self.held is None else fresh + self.held
            self.kept.grad = self.everywhere().grad = None
        return self.held

    @grad.setter
    def grad(self, value: Any) -> None:
        self.kept.grad = self.everywhere().grad = None
        self.held = value

    def _recording(self) -> tuple:
        return self.kept, self.everywhere()

    def gradient(self, given: Any, constant: Any) -> Any:
        """The gradient of the tensor, of that of its kept values and of `everywhere` (None: sparse)."""
        found = self.with_values(given)
        if not self.unique:  # of values with one index, the derivative by any of them is that by their sum
            _, first = np.unique(self.flat(), return_index=True)
            values = given.index_select(0, wrap(first.astype(np.int64)))
            found = SparseTensor(self.place[:, first], values, self.extent, True)
        if constant is None:
            return found
        n = self.sparse_dim()
        full = constant.expand(math.prod(self.extent[:n]), *self.extent[n:])
        return full.index_copy(0, wrap(found.flat().astype(np.int64)), found.kept).reshape(self.extent)

    def register_hook(self, hook: Callable) -> Any:
        """Calls ``hook(grad)`` with the sparse gradient; a tensor it returns replaces the gradient at the kept values."""

        def of_values(g: Any) -> Any:
            found = hook(self.gradient(g, None))
            return None if found is None else RULES["sparse_mask"](found, self).kept

        return self.kept.register_hook(of_values)

    def retain_grad(self) -> None:
        """Makes backward() keep the gradient of this non-leaf in ``.grad``."""
        self.kept.retain_grad()

    def everywhere(self) -> Any:
        """A zero that belongs to a leaf: its gradient is what every element gets alike, whether it is kept or not."""
        if not hasattr(self.kept, "everywhere"):
            self.kept.everywhere = self.kept.detach().new_zeros(())
        return self.kept.everywhere.requires_grad_(self.kept.requires_grad)

    T = property(lambda self: RULES["t"](self))
    H = mH = property(lambda self: RULES["conj"](RULES["t"](self)))
    mT = property(lambda self: RULES["transpose"](self, -2, -1))
    data = property(lambda self: self.with_values(self.kept.detach()))
    real = property(lambda self: self.with_values(self.kept.real))
    imag = property(lambda self: self.with_values(self.kept.imag))

    def __repr__(self) -> str:
        if self.kind is sparse_coo:
            parts = {"indices": self.place}
        elif self.kind is sparse_csr:
            parts = {"crow_indices": self.crow_indices()._data, "col_indices": self.place[1]}
        else:
            parts = {"ccol_indices": self.ccol_indices()._data, "row_indices": self.place[0]}
        return describe_sparse(self, parts | {"values": self.kept._data})

    def __iter__(self) -> Any:
        return iter([RULES["select"](self, 0, i) for i in range(self.extent[0])])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _again, (self.place, self.kept.detach(), self.extent, self.unique, self.kind, self.requires_grad)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        fresh = memo[id(self)] = _again(self.place.copy(), self.kept.detach().clone(), *self.__reduce_ex__(4)[1][2:])
        if self.grad is not None:
            fresh.grad = copy.deepcopy(self.grad, memo)
        return fresh

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
        self._need_coo("is_coalesced")
        return self.unique

    def _coalesced_(self, coalesced: bool) -> Any:
        self.unique = bool(coalesced)
        return self

    def _indices(self) -> Any:
        self._refuse_compressed("_indices")
        return wrap(self.place)

    def _values(self) -> Any:
        self._refuse_compressed("_values")
        return self.kept.detach()

    def _dimI(self) -> int:
        self._refuse_compressed("_dimI")
        return self.sparse_dim()

    def _dimV(self) -> int:
        self._refuse_compressed("_dimV")
        return self.dense_dim()

    def _refuse_compressed(self, what: str) -> None:
        if self.kind is not sparse_coo:
            raise NotImplementedError(
                f"Could not run 'aten::{what}' with arguments from the 'SparseCsrCPU' backend: a matrix of the layout "
                f"{title(self.kind)} has compressed indices"
            )

    def _need_coo(self, what: str) -> None:
        if self.kind is not sparse_coo:
            raise RuntimeError(f"{what} expected sparse coordinate tensor layout but got {title(self.kind)}")

    def indices(self) -> Any:
        """The indices, of shape (sparse dimensions, n); RuntimeError unless coalesced."""
        self._need_coo("indices")
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
        return wrap(self._starts("crow_indices", sparse_csr))

    def col_indices(self) -> Any:
        """The columns of the values of a CSR matrix."""
        need_compressed("col_indices", sparse_csr, self.kind)
        return wrap(self.place[1])

    def ccol_indices(self) -> Any:
        """Where the columns of a CSC matrix begin among its values, and the number of values."""
        return wrap(self._starts("ccol_indices", sparse_csc))

    def row_indices(self) -> Any:
        """The rows of the values of a CSC matrix."""
        need_compressed("row_indices", sparse_csc, self.kind)
        return wrap(self.place[0].copy())

    def _starts(self, what: str, layout: Any) -> Any:
        need_compressed(what, layout, self.kind)
        if self.starts is None:
            d = 0 if layout is sparse_csr else 1
            self.starts = np.searchsorted(self.place[d], numbers(self.extent[d] + 1, self.place)).astype(np.int64)
            if type(self.starts) is HOST:
                self.starts.flags.writeable = False  # it follows from `place`, which a write would not reach
        return self.starts

    def another(self) -> Any:
        """The kept values for another tensor: those of a leaf become a view, for the other is no leaf."""
        kept = self.kept
        return kept.view_as(kept) if kept.requires_grad and kept.is_leaf else kept

    def with_values(self, values: Any) -> SparseTensor:
        """Other values at the same indices."""
        return SparseTensor(
            self.place, values, (*self.extent[: self.sparse_dim()], *values.shape[1:]), self.unique, self.kind
        )

    def flat(self) -> Any:
        """The index of each value, counted through all sparse dimensions."""
        return (
            np.ravel_multi_index(tuple(self.place), self.extent[: self.sparse_dim()])
            if self.place.size
            else zeros_near((self.place.shape[1],), self.place, np.int64)
        )

    # -- forms

    def coalesce(self) -> SparseTensor:
        """The same COO tensor with the values of equal indices added up, in the order of the indices."""
        self._need_coo("coalesce")
        return self.merged()

    def merged(self) -> SparseTensor:
        """`coalesce` of a tensor of any layout."""
        if self.unique:
            return self
        shape = self.extent[: self.sparse_dim()]
        flat, where = np.unique(self.flat(), return_inverse=True)
        place = (
            np.stack(np.unravel_index(flat, shape))
            if shape and flat.size
            else zeros_near((len(shape), flat.size), self.place, np.int64)
        )
        kept = self.kept
        if kept.dtype.is_floating_point or kept.dtype.is_complex or kept._data.dtype.kind in "iu":
            kept = kept.new_zeros((flat.size, *kept.shape[1:])).index_add(
                0, wrap(where.reshape(-1).astype(np.int64)), kept
            )
        else:  # truth values
            counts = kept.new_zeros((flat.size, *kept.shape[1:]), dtype=int64)
            kept = counts.index_add(0, wrap(where.reshape(-1).astype(np.int64)), kept.to(int64)) != 0
        return SparseTensor(place.astype(np.int64), kept, self.extent, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """The dense tensor."""
        n = math.prod(self.extent[: self.sparse_dim()])
        tail = self.extent[self.sparse_dim() :]
        me = self.merged()
        kept = me.kept if dtype is None else me.kept.to(dtype)
        out = kept.new_zeros((n, *tail))
        if me._nnz():
            index = wrap(me.flat().astype(np.int64))
            out = out.index_copy(0, index, kept)
        return out.reshape(self.extent)

    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, **ignored: Any) -> Any:
        """The tensor itself as COO, or in another layout."""
        return self.as_layout(sparse_coo if layout is None else layout)

    def to_sparse_csr(self, dense_dim: Any = None) -> Any:
        """The matrix by rows."""
        return self.as_layout(sparse_csr)

    def to_sparse_csc(self, dense_dim: Any = None) -> Any:
        """The matrix by columns."""
        return self.as_layout(sparse_csc)

    def to_sparse_coo(self) -> Any:
        """The tensor with the index of every value."""
        return self.as_layout(sparse_coo)

    def as_layout(self, layout: Any) -> Any:
        """The tensor in a layout: itself, another sparse tensor with the same values, or (strided) the dense one."""
        if layout is self.kind:
            return self
        if layout is strided:
            return self.to_dense()
        if layout not in (sparse_coo, sparse_csr, sparse_csc):
            raise NotImplementedError(
                f"to_sparse: the layout {layout} is not supported; there are {sparse_coo}, {sparse_csr} and {sparse_csc}"
            )
        if layout is not sparse_coo and len(self.extent) != 2:
            raise RuntimeError(f"to_{layout.name}: expected a matrix, got the shape {list(self.extent)}")
        me = self.merged()
        if sparse_csc in (layout, me.kind):
            order = np.lexsort(me.place if layout is sparse_csc else me.place[::-1])  # the last row first
            return SparseTensor(me.place[:, order], me.kept.index_select(0, wrap(order)), me.extent, True, layout)
        return SparseTensor(me.place, me.another(), me.extent, True, layout)

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Takes a shape with so many sparse and dense dimensions; those of a tensor with values only grow."""
        self._refuse_compressed("sparse_resize_")
        return RULES["sparse_resize_"](self, size, sparse_dim, dense_dim)

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        """Lets go of all values and takes a shape."""
        self._refuse_compressed("sparse_resize_and_clear_")
        RULES["zero_"](self)
        return self.sparse_resize_(size, sparse_dim, dense_dim)

    def sspaddmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """beta self + alpha mat1 @ mat2 as a sparse matrix, mat1 sparse, mat2 dense."""
        return RULES["sspaddmm"](self, mat1, mat2, beta=beta, alpha=alpha)

    def smm(self, mat: Any) -> Any:
        """The product with a dense matrix, as a sparse matrix."""
        return RULES["smm"](self, mat)

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
        g = RULES["sparse_mask"](gradient if not isinstance(gradient, SparseTensor) else gradient.to_dense(), self)
        self.kept.backward(g.kept, *args, **kwargs)

    def take(self, other: SparseTensor) -> SparseTensor:
        """Becomes another sparse tensor: what in-place operations end with."""
        if other.kept is not self.kept and self.kept.requires_grad and self.kept.is_leaf:
            from ferro.core.mode import is_grad_enabled

            if is_grad_enabled():
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        other = other.as_layout(self.kind)
        vars(self).update(place=other.place, kept=other.kept, extent=other.extent, unique=other.unique, starts=None)
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
        raise TypeError(f"can't convert {title(self.kind)} layout tensor to numpy. Use Tensor.to_dense() first.")


def _again(place: Any, kept: Any, extent: tuple, unique: bool, layout: Any, requires_grad: bool) -> SparseTensor:
    return SparseTensor(place, kept.requires_grad_(requires_grad), extent, unique, layout)


def need_compressed(what: str, wanted: Any, layout: Any) -> None:
    """RuntimeError if a layout is not the compressed one that has this property."""
    if layout is not wanted:
        kind = "row" if wanted is sparse_csr else "column"
        raise RuntimeError(f"{what} expected sparse {kind} compressed tensor layout but got {title(layout)}")


def is_sparse(x: Any) -> bool:
    """Whether something is a sparse tensor."""
    return isinstance(x, SparseTensor)


def is_dense(x: Any) -> bool:
    """Whether something is a tensor that is not sparse."""
    return isinstance(x, TensorBase) and not isinstance(x, SparseTensor)
