"""What functions, methods and operators do with sparse tensors: dense operations on their indices and values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro import functional as F
from ferro.core.arguments import sizes, with_size
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import type_name
from ferro.core.layout import preserve_format, strided
from ferro.sparse.tensor import RULES, SparseTensor, is_dense, is_sparse


def rule(*names: str) -> Callable:
    """Registers a function as the rule of operations with these names."""

    def register(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function

    return register


def refused(name: str, why: str) -> Exception:
    """The error for operands that an operation does not take."""
    return NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend: {why}")


def same_shape(name: str, x: Any, y: Any) -> None:
    """RuntimeError unless two operands have one shape."""
    if tuple(x.shape) != tuple(y.shape):
        raise RuntimeError(f"{name}: expected 'self' and 'other' to have same size, but self has size {list(x.shape)} while other has size "
                           f"{list(y.shape)} (sparse tensors are not broadcast)")  # fmt: skip


def is_tensor(x: Any) -> bool:
    """Whether an operand is a tensor, dense or sparse."""
    return isinstance(x, TensorBase)


def is_number(x: Any) -> bool:
    """Whether an operand is a number, or a dense tensor of no dimensions."""
    return not is_tensor(x) or x.ndim == 0


def dense(x: Any) -> Any:
    """The dense tensor of a sparse one."""
    return x.to_dense() if is_sparse(x) else x


# -- of one tensor -----------------------------------------------------------------------------------------------------

# Functions f with f(0) = 0: of a sum of values, hence of the coalesced ones.
ZERO_TO_ZERO = ("abs", "absolute", "neg", "negative", "sin", "sinh", "asin", "arcsin", "asinh", "arcsinh", "tan", "tanh", "atan", "arctan",
                "atanh", "arctanh", "sqrt", "expm1", "log1p", "sgn", "sign", "floor", "ceil", "trunc", "fix", "round", "frac", "relu", "erf",
                "erfinv", "deg2rad", "rad2deg", "isnan", "isinf", "isposinf", "isneginf", "nan_to_num", "signbit", "conj_physical", "conj",
                "square", "positive", "real", "imag")  # fmt: skip
SHORTER = {"absolute": "abs", "fix": "trunc", **{n: n.replace("arc", "a") for n in ZERO_TO_ZERO if n.startswith("arc")}}
LINEAR = frozenset(("neg", "negative", "positive", "deg2rad", "rad2deg", "real", "imag", "conj", "conj_physical"))


def _of_values(name: str) -> Callable:
    def function(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        me = input if name in LINEAR else input.coalesce()
        found = me.with_values(getattr(F, name)(me.kept, *args, **kwargs))
        if out is not None and out.dtype != found.dtype:
            raise RuntimeError(
                f"{name}: result type {found.dtype} can't be cast to the desired output type {out.dtype}"
            )
        return found if out is None else out.take(found)

    return function


def _in_place(name: str) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in ZERO_TO_ZERO and name not in LINEAR and not self.unique:
            shorter = SHORTER.get(name, name)
            raise RuntimeError(
                f"{shorter}_ requires coalesced input: it is no function of the single values of an index"
            )
        return _in_place_result(name, self, RULES[name](self, *args, **kwargs))

    return method


def _in_place_result(name: str, x: Any, found: Any) -> Any:
    """x, having become a result; RuntimeError if its dtype does not hold the result's."""
    if not F.can_cast(found.dtype, x.dtype):
        raise RuntimeError(f"{name}_: result type {found.dtype} can't be cast to the desired output type {x.dtype}")
    return x.take(to(found, x.dtype))


for _name in ZERO_TO_ZERO:
    RULES[_name] = _of_values(_name)
    RULES[f"{_name}_"] = _in_place(_name)


@rule("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy; gradients flow through it unchanged."""
    return SparseTensor(input.place.copy(), F.clone(input.kept), input.extent, input.unique, input.kind)


@rule("detach")
def detach(input: Any) -> Any:
    """The same indices and values without history."""
    return input.with_values(input.kept.detach())


@rule("to")
def to(self: Any, *args: Any, copy: bool = False, **kwargs: Any) -> Any:
    """The tensor with another dtype."""
    args = tuple([a.kept if is_sparse(a) else a for a in args])
    kept = self.kept.to(*args, copy=copy, **kwargs)
    return self if kept is self.kept else self.with_values(kept)


def _cast(name: str) -> Callable:
    def method(self: Any, memory_format: Any = None) -> Any:
        kept = getattr(self.kept, name)()
        return self if kept is self.kept else self.with_values(kept)

    return method


for _name in (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
):
    RULES[_name] = _cast(_name)


@rule("type_as")
def type_as(self: Any, other: Any) -> Any:
    """The tensor with the dtype of another."""
    return to(self, other.dtype)


@rule("cpu")
def cpu(self: Any, memory_format: Any = None) -> Any:
    """The tensor itself."""
    return self


@rule("zeros_like", "empty_like")
def zeros_like(
    input: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A sparse tensor of the same shape without values, or a dense one of zeros."""
    from ferro.sparse.making import none

    if layout is strided:
        dense = F.empty(input.extent, dtype=dtype or input.dtype, memory_format=_format(memory_format))
        return dense.zero_().requires_grad_(requires_grad)
    if memory_format is not None:
        raise RuntimeError(
            f"memory format option is only supported by strided tensors, got {memory_format} for a sparse one"
        )
    n = input.sparse_dim()
    return none(input.extent, n, input.dtype if dtype is None else dtype).requires_grad_(requires_grad)


def _format(memory_format: Any) -> Any:
    """The memory format of a dense tensor like a sparse one, which has none to preserve."""
    return None if memory_format is preserve_format else memory_format


@rule("zeros", "empty")
def zeros(
    *shape: Any, size: Any = None, out: Any, dtype: Any = None, requires_grad: bool = False, **ignored: Any
) -> Any:
    """zeros(out=sparse): lets go of all values and takes a shape."""
    from ferro.sparse.making import none

    shape = sizes("zeros", with_size("zeros", shape, size))
    if dtype is not None and dtype != out.dtype:
        raise RuntimeError(f"zeros: dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    return out.take(none(shape, len(shape), out.dtype).requires_grad_(requires_grad or out.requires_grad))


@rule("new_empty", "new_zeros")
def new_empty(self: Any, *shape: Any, size: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False) -> Any:  # fmt: skip
    """A sparse tensor of another shape without values."""
    from ferro.sparse.making import none

    shape = sizes("new_empty", with_size("new_empty", shape, size))
    return none(shape, len(shape), self.dtype if dtype is None else dtype).requires_grad_(requires_grad)


@rule("new")
def new(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The old constructor."""
    from ferro.sparse.making import of_old

    return of_old(self, args, kwargs)


@rule("type")
def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the old type, or the tensor with another dtype."""
    return f"torch.sparse.{type_name(self.dtype)}Tensor" if dtype is None else to(self, dtype)


@rule("__setitem__")
def setitem(self: Any, key: Any, value: Any) -> None:
    """Refused: what an index names may be in no value."""
    if is_sparse(self):
        raise TypeError("Cannot assign to a sparse tensor; make another one of its indices and values")
    raise refused("__setitem__", "a sparse tensor is no value for a part of a dense one; convert with to_dense() first")


@rule("zero_")
def zero_(self: Any) -> Any:
    """Lets go of all values."""
    return self.take(zeros_like(self))


@rule("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Takes the indices and values of another sparse tensor of the same shape."""
    if not (is_sparse(self) and is_sparse(src)):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = "
                           f"{type(self).__name__} and src type = {type(src).__name__}")  # fmt: skip
    same_shape("copy_", self, src)
    return self.take(SparseTensor(src.place.copy(), src.kept.to(self.dtype, copy=True), src.extent, src.unique))


for _name in ("is_floating_point", "is_complex", "is_signed"):
    RULES[_name] = lambda input, _name=_name: getattr(input.kept, _name)()


@rule("is_same_size")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


@rule("dim", "ndimension")
def ndimension(self: Any) -> int:
    """The number of dimensions."""
    return self.ndim


@rule("stack")
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Sparse tensors one behind the other along a new dimension."""
    if not all(is_sparse(x) for x in tensors):
        raise refused("stack", "sparse tensors are stacked with sparse ones only")
    return cat([unsqueeze(x, dim) for x in tensors], dim, out=out)


@rule("numel")
def numel(input: Any) -> int:
    """How many elements the dense tensor has."""
    return math.prod(input.extent)


@rule("is_nonzero", "__bool__")
def is_nonzero(input: Any) -> bool:
    """The truth of a tensor with one element."""
    if math.prod(input.extent) != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous" if math.prod(input.extent)
                           else "Boolean value of Tensor with no values is ambiguous")  # fmt: skip
    return bool(input.to_dense().item())


@rule("__len__")
def length(self: Any) -> int:
    """The size of the first dimension."""
    return self.extent[0]


@rule("is_contiguous")
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Sparse tensors count as contiguous."""
    return True


@rule("contiguous")
def contiguous(self: Any, memory_format: Any = None) -> Any:
    """The tensor itself."""
    return self


# -- of two tensors ----------------------------------------------------------------------------------------------------


@rule("add")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha other: sparse if both are, else dense."""
    if not (is_tensor(input) and is_tensor(other)):
        raise refused("add", "a number added to a sparse tensor would not be sparse; convert with to_dense() first")
    same_shape("add", input, other)
    if is_sparse(input) and is_sparse(other):
        if input.sparse_dim() != other.sparse_dim() and 0 in (input._nnz(), other._nnz()):
            full, empty = (input, other) if input._nnz() else (other, input)
            input = full if full is input else mul(full, alpha)
            other = zeros_like(full, dtype=empty.dtype)
        if input.sparse_dim() != other.sparse_dim():
            raise RuntimeError(f"add: expected 'self' and 'other' to have same density, but 'self' has {input.sparse_dim()} sparse dimensions "
                               f"while 'other' has {other.sparse_dim()} sparse dimensions")  # fmt: skip
        dtype = F.result_type(input.kept, other.kept)
        kept = F.cat([input.kept.to(dtype), (other.kept if alpha == 1 else other.kept * alpha).to(dtype)])
        found = SparseTensor(np.concatenate([input.place, other.place], axis=1), kept, input.extent)
        if input.unique and other.unique:
            found = found.coalesce()
        found = found._as(input.kind)
    elif is_sparse(other):
        found = _add_to_dense(input, other, alpha)
    else:
        found = _add_to_dense(other if alpha == 1 else other * alpha, input, 1)
    return found if out is None else _into(out, found)


def _add_to_dense(dense: Any, sparse: Any, alpha: Any) -> Any:
    dtype = F.result_type(dense, sparse.kept)
    n = sparse.sparse_dim()
    flat = dense.to(dtype).reshape(math.prod(sparse.extent[:n]), *sparse.extent[n:])
    kept = (sparse.kept if alpha == 1 else sparse.kept * alpha).to(dtype)
    return flat.index_add(0, wrap(sparse.flat().astype(np.int64)), kept).reshape(sparse.extent)


def _into(out: Any, found: Any) -> Any:
    if is_sparse(out):
        return out.take(found if is_sparse(found) else found.to_sparse())
    return out.resize_(found.shape).copy_(found)


@rule("add_")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The in-place form of add."""
    if is_sparse(self):
        return self.take(to(add(self, other, alpha=alpha), self.dtype))
    return self.copy_(_add_to_dense(self, other, alpha))


@rule("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha other."""
    return add(input, other, alpha=-alpha, out=out)


@rule("sub_", "subtract_")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The in-place form of sub."""
    return add_(self, other, alpha=-alpha)


@rule("__rsub__", "rsub")
def rsub(self: Any, other: Any) -> Any:
    """other - self."""
    return add(other, self, alpha=-1)


@rule("mul", "multiply")
def mul(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * other: kept is what both keep."""
    if is_dense(input) or not is_tensor(input):
        input, other = other, input
    if is_sparse(input) and is_sparse(other) and input.ndim < other.ndim:
        input, other = other, input
    if is_number(other):
        found = input.with_values(input.kept * dense(other))
    elif is_dense(other):
        shape = F.broadcast_shapes(input.extent, other.shape)
        input, other = broadcast(input, shape), other.expand(shape)
        n = input.sparse_dim()
        flat = other.reshape(math.prod(input.extent[:n]), *input.extent[n:])
        found = input.with_values(input.kept * flat.index_select(0, wrap(input.flat().astype(np.int64))))
    elif tuple(other.shape) != input.extent or other.sparse_dim() != input.sparse_dim():
        found = mul(input, other.to_dense())
    else:
        a, b = input.coalesce(), other.coalesce()
        _, i, j = np.intersect1d(a.flat(), b.flat(), assume_unique=True, return_indices=True)
        kept = a.kept.index_select(0, wrap(i.astype(np.int64))) * b.kept.index_select(0, wrap(j.astype(np.int64)))
        found = SparseTensor(a.place[:, i], kept, a.extent, True, input.kind)
    return found if out is None else out.take(found)


@rule("mul_", "multiply_")
def mul_(self: Any, other: Any) -> Any:
    """The in-place form of mul."""
    found = mul(self, other)
    return _in_place_result("mul", self, found) if is_sparse(self) else self.copy_(found.to_dense())


def broadcast(x: Any, shape: tuple) -> Any:
    """A sparse tensor of a larger shape with the same values again and again; new dimensions are sparse."""
    shape = tuple(shape)
    if shape == x.extent:
        return x
    extra, n = len(shape) - x.ndim, x.sparse_dim()
    old = (1,) * extra + x.extent[:n]
    wide = [d for d, size in enumerate(old) if d < extra or size != shape[d]]
    copies = np.indices([shape[d] for d in wide]).reshape(len(wide), -1)
    place = np.concatenate([np.zeros((extra, x._nnz()), np.int64), x.place])
    place = np.tile(place, copies.shape[1])
    place[wide] = np.repeat(copies, x._nnz(), axis=1)
    kept = x.kept.expand(x._nnz(), *shape[extra + n :])
    kept = kept.index_select(0, wrap(np.tile(np.arange(x._nnz()), copies.shape[1])))
    return SparseTensor(place, kept, shape, x.unique and wide == list(range(len(wide))))


@rule("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """input / other, for a number."""
    if is_sparse(other):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{list(other.shape)} for divisor)" if other.ndim else
                           "Sparse division requires a dense divisor")  # fmt: skip
    if not is_number(other):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for divisor)"
        )
    me = input if rounding_mode is None else input.coalesce()
    found = me.with_values(F.div(me.kept, other, rounding_mode=rounding_mode))
    return found if out is None else out.take(found)


@rule("floor_divide", "__floordiv__")
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """input // other, for a number."""
    if is_sparse(other):
        raise RuntimeError("Sparse floor division requires a scalar or zero-dim dense tensor divisor")
    return div(input, other, rounding_mode="floor", out=out)


@rule("pow")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input ** exponent, for a positive number."""
    if not is_number(exponent) or exponent <= 0:
        raise RuntimeError(
            f"pow: cannot raise to the {exponent} power on sparse tensor: the zeros would not stay zeros"
        )
    me = input.coalesce()
    found = me.with_values(me.kept**exponent)
    return found if out is None else out.take(found)


for _name in ("div", "divide", "true_divide", "floor_divide", "pow"):
    RULES[f"{_name}_"] = _in_place(_name)


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


# -- products ----------------------------------------------------------------------------------------------------------


def times_dense(x: Any, y: Any) -> Any:
    """A sparse matrix times a dense one: row r is the sum of value * y[column] over the values of row r."""
    rows, columns = (wrap(p) for p in x.place)
    dtype = F.result_type(x.kept, y)
    parts = x.kept.to(dtype).unsqueeze(1) * y.to(dtype).index_select(0, columns)
    return parts.new_zeros((x.extent[0], y.shape[1])).index_add(0, rows, parts)


def times_sparse(x: Any, y: Any) -> Any:
    """The product of two sparse matrices: every value of x with the values of y in the row of its column."""
    x, y = x.coalesce(), y.coalesce()
    begin = np.searchsorted(y.place[0], np.arange(y.extent[0] + 1))
    counts = np.diff(begin)[x.place[1]]
    left = np.repeat(np.arange(x._nnz()), counts)
    right = (
        np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin[x.place[1]], counts)
    )
    kept = x.kept.index_select(0, wrap(left.astype(np.int64))) * y.kept.index_select(0, wrap(right.astype(np.int64)))
    place = np.stack([x.place[0][left], y.place[1][right]]).astype(np.int64)
    return SparseTensor(place, kept, (x.extent[0], y.extent[1])).coalesce()._as(x.kind)


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


def _same_dtype(x: Any, y: Any) -> None:
    if x.dtype != y.dtype:
        raise RuntimeError(f"mm: mat1 dtype {type_name(x.dtype)} does not match mat2 dtype {type_name(y.dtype)}")


@rule("mm", "spmm", "dsmm")
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
    return found if out is None else _into(out, found)


@rule("mv")
def mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    """A sparse matrix times a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {input.ndim} Tensor Dim: {vec.ndim}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"mv: expected self.size(-1) == vec.size(-1), got {list(input.shape)} and {list(vec.shape)}")
    found = times_dense(input, vec.unsqueeze(1)).squeeze(1)
    return found if out is None else _into(out, found)


@rule("matmul")
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The product of two matrices, or of a matrix and a vector."""
    return (
        mv(input, other, out=out)
        if is_sparse(input) and other.ndim == 1
        else bmm(input, other)
        if input.ndim == 3
        else mm(input, other, out=out)
    )


@rule("bmm")
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
    return found if out is None else _into(out, found)


@rule("addmm", "sparse_addmm")
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
    return found if out is None else _into(out, found)


@rule("addmm_")
def addmm_(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """The in-place form of addmm."""
    return self.copy_(addmm(self, mat1, mat2, beta=beta, alpha=alpha))


@rule("hspmm")
def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """A sparse matrix times a dense one as a hybrid tensor: the rows that have values."""
    _matrices("hspmm", mat1, mat2)
    me = mat1.coalesce()
    rows, where = np.unique(me.place[0], return_inverse=True)
    small = SparseTensor(
        np.stack([where.reshape(-1), me.place[1]]).astype(np.int64), me.kept, (rows.size, me.extent[1]), True
    )
    found = SparseTensor(rows[None].astype(np.int64), times_dense(small, mat2), (mat1.extent[0], mat2.shape[1]), True)
    return found if out is None else out.take(found)


@rule("smm")
def smm(input: Any, mat: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    return hspmm(input, mat).to_dense().to_sparse()


@rule("sspaddmm", "saddmm")
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta input + alpha mat1 @ mat2 as a sparse matrix, mat1 sparse, mat2 dense."""
    found = add(input if beta == 1 else mul(input, beta), mul(smm(mat1, mat2), alpha))
    return found if out is None else out.take(found)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _dim(name: str, x: Any, dim: int) -> int:
    n = x.ndim
    if not -max(n, 1) <= dim < max(n, 1):
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})"
        )
    return dim % max(n, 1)


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two sparse dimensions, or two dense ones, exchanged."""
    a, b = _dim("transpose", input, dim0), _dim("transpose", input, dim1)
    n = input.sparse_dim()
    extent = list(input.extent)
    if a == b or not extent:
        return input.with_values(input.kept)
    extent[a], extent[b] = extent[b], extent[a]
    if (a < n) != (b < n):
        raise RuntimeError(
            f"transpose: transposed dimensions must be both sparse or both dense, got {dim0} and {dim1} with {n} sparse dimensions"
        )
    if a < n:
        place = input.place.copy()
        place[[a, b]] = place[[b, a]]
        found = SparseTensor(place, input.kept, tuple(extent), input._nnz() < 2)
        return found._as(input.kind)
    return SparseTensor(input.place, input.kept.transpose(a - n + 1, b - n + 1), tuple(extent), input.unique)


@rule("t")
def t(input: Any) -> Any:
    """The transposed matrix."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, input.ndim - 1) if input.ndim == 2 else input


RULES["__get__"] = lambda self, *_: t(self)  # (x.T)


@rule("transpose_", "swapaxes_", "swapdims_")
def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """The in-place form of transpose."""
    return self.take(transpose(self, dim0, dim1))


@rule("t_")
def t_(self: Any) -> Any:
    """The in-place form of t."""
    return self.take(t(self))


@rule("permute")
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order, sparse ones among themselves and dense ones among themselves."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [_dim("permute", input, d) for d in order]
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
        return SparseTensor(np.insert(input.place, d, 0, axis=0), input.kept, extent, input.unique)
    return SparseTensor(input.place, input.kept.unsqueeze(d - s + 1), extent, input.unique)


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Sparse tensors in a row along a dimension."""
    tensors = list(tensors)
    if not all(is_sparse(x) for x in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found at position "
                           f"{next(i for i, x in enumerate(tensors) if not is_sparse(x))}.")  # fmt: skip
    first = tensors[0]
    d, n = _dim("cat", first, dim), first.sparse_dim()
    for i, x in enumerate(tensors):
        if x.sparse_dim() != n or x.dense_dim() != first.dense_dim():
            raise RuntimeError(f"All tensors must have the same sparse_dim and dense_dim: {n}, {first.dense_dim()}, but tensor at position "
                               f"{i} has {x.sparse_dim()}, {x.dense_dim()}.")  # fmt: skip
        if [s for k, s in enumerate(x.extent) if k != d] != [s for k, s in enumerate(first.extent) if k != d]:
            raise RuntimeError(f"All tensors must have the same shape: {list(first.extent)} (except in the concatenating dimension), but found "
                               f"shape: {list(x.extent)} at position {i}.")  # fmt: skip
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


@rule("index_select")
def index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> Any:
    """The slices with these numbers along a dimension."""
    d, n = _dim("index_select", input, dim), input.sparse_dim()
    wanted = index._data.reshape(-1).astype(np.int64)
    size = input.extent[d]
    if wanted.size and (wanted.min() < -size or wanted.max() >= size):
        raise IndexError(f"index_select(): index contains {wanted.min() if wanted.min() < -size else wanted.max()} that is out of range for tensor "
                         f"of size {list(input.extent)} at dimension {d}")  # fmt: skip
    wanted = np.where(wanted < 0, wanted + size, wanted)
    extent = (*input.extent[:d], wanted.size, *input.extent[d + 1 :])
    if d >= n:
        return SparseTensor(input.place, input.kept.index_select(d - n + 1, wrap(wanted)), extent, input.unique)
    order = np.argsort(input.place[d], kind="stable")
    ordered = input.place[d][order]
    begin, end = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
    counts = end - begin
    which = order[
        np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    ].astype(np.int64)
    place = input.place[:, which]
    place[d] = np.repeat(np.arange(wanted.size), counts)
    found = SparseTensor(place, input.kept.index_select(0, wrap(which)), extent)
    return found.coalesce() if input.unique else found


@rule("narrow", "narrow_copy")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """The slices from `start` on along a dimension."""
    if not 0 <= dim < input.ndim:
        raise RuntimeError(f"narrow: Dimension {dim} out of range. Expecting 0 <= dim < {input.ndim}.")
    size = input.extent[dim]
    if not (start >= 0 and length >= 0 and start + length <= size):
        raise RuntimeError(f"narrow: Invalid range to narrow. range(start, start+length) must be a subset of range(0, {size}), got start "
                           f"{start} and length {length}")  # fmt: skip
    return index_select(input, dim, wrap(np.arange(start, start + length)))


@rule("select", "select_copy")
def select(input: Any, dim: int, index: int) -> Any:
    """One slice along a dimension: dense if no sparse dimension is left."""
    d, n = _dim("select", input, dim), input.sparse_dim()
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


# -- reductions --------------------------------------------------------------------------------------------------------


@rule("sum")
def sparse_sum(input: Any, dim: Any = None, keepdim: Any = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The sum over all dimensions (dense), or over some: sparse as long as a sparse dimension is left."""
    if keepdim is not True and keepdim is not False:
        keepdim, dtype = False, keepdim
    kept = input.kept if dtype is None else input.kept.to(dtype)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return kept.sum()
    n = input.sparse_dim()
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = {_dim("sum", input, d) for d in given}
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
    found = SparseTensor(place, kept, extent)
    return found.coalesce()


@rule("norm")
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
    if dims and {_dim("norm", input, d) for d in dims} != set(range(input.ndim)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
        )
    return F.norm(input.coalesce().kept.reshape(-1), 2 if p in ("fro", None) else p)


@rule("any")
def any_(input: Any) -> Any:
    """Whether a value is not zero."""
    return F.any(input.coalesce().kept)


@rule("softmax")
def _softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    return sparse_softmax(input, dim, dtype, log=False)


@rule("log_softmax")
def _log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    return sparse_softmax(input, dim, dtype, log=True)


def sparse_softmax(input: Any, dim: int, dtype: Any, log: bool) -> Any:
    """Softmax along a dimension over the kept values alone."""
    me = input.coalesce() if dtype is None else to(input, dtype).coalesce()
    d, n = _dim("softmax", me, dim), me.sparse_dim()
    if d >= n:
        return me.with_values((F.log_softmax if log else F.softmax)(me.kept, d - n + 1))
    others = np.delete(me.place, d, axis=0)
    shape = tuple([s for k, s in enumerate(me.extent[:n]) if k != d])
    flat = np.ravel_multi_index(tuple(others), shape) if shape and others.size else np.zeros(me._nnz(), np.int64)
    _, where = np.unique(flat, return_inverse=True)
    group = wrap(where.reshape(-1).astype(np.int64))
    count = int(where.max(initial=-1)) + 1
    largest = me.kept.detach().new_full((count, *me.kept.shape[1:]), -math.inf)
    largest = largest.index_reduce(0, group, me.kept.detach(), "amax")
    shifted = me.kept - largest.index_select(0, group)
    total = shifted.new_zeros(largest.shape).index_add(0, group, shifted.exp())
    if log:
        return me.with_values(shifted - total.log().index_select(0, group))
    return me.with_values(shifted.exp() / total.index_select(0, group))


@rule("allclose")
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether two tensors are about equal."""
    return F.allclose(
        *[x.to_dense() if is_sparse(x) else x for x in (input, other)], rtol=rtol, atol=atol, equal_nan=equal_nan
    )


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors are equal."""
    return F.equal(*[x.to_dense() if is_sparse(x) else x for x in (input, other)])


@rule("resize_as_")
def resize_as_(self: Any, other: Any, **ignored: Any) -> Any:
    """Takes the shape of another sparse tensor."""
    if not (is_sparse(self) and is_sparse(other)):
        raise RuntimeError("resize_as_: a dense tensor and a sparse one do not take each other's shape")
    return resize(self, other.extent, other.sparse_dim(), other.dense_dim())


def resize(x: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Takes a shape; dimensions of a tensor with values only grow, their elements keep their order in memory."""
    from ferro.sparse.making import countable, none

    size = countable(tuple(size))
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
        )
    if not x._nnz():
        return x.take(none(size, sparse_dim, x.dtype))
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
