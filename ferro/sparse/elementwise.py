"""Functions of single elements, and sums, products and quotients of tensors element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ferro import functional as F
from ferro.batched.array import numbers
from ferro.batched.near import near as np
from ferro.batched.near import zeros_near
from ferro.core import backend
from ferro.core.base import wrap
from ferro.core.outputs import cannot_cast
from ferro.sparse import making
from ferro.sparse.rules import RULES, as_coo, became, dense, into, is_number, is_tensor, refused, rule, same_shape
from ferro.sparse.tensor import SparseTensor, is_dense, is_sparse

# Functions f with f(0) = 0: of a sum of values, hence of the coalesced ones.
ZERO_TO_ZERO = (
    "abs",
    "absolute",
    "neg",
    "negative",
    "sin",
    "sinh",
    "asin",
    "arcsin",
    "asinh",
    "arcsinh",
    "tan",
    "tanh",
    "atan",
    "arctan",
    "atanh",
    "arctanh",
    "sqrt",
    "expm1",
    "log1p",
    "sgn",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "fix",
    "round",
    "frac",
    "relu",
    "erf",
    "erfinv",
    "deg2rad",
    "rad2deg",
    "isnan",
    "isinf",
    "isposinf",
    "isneginf",
    "nan_to_num",
    "signbit",
    "conj_physical",
    "conj",
    "square",
    "positive",
    "real",
    "imag",
)
SHORTER = {"absolute": "abs", "fix": "trunc", **{n: n.replace("arc", "a") for n in ZERO_TO_ZERO if n.startswith("arc")}}
LINEAR = frozenset(("neg", "negative", "positive", "deg2rad", "rad2deg", "real", "imag", "conj", "conj_physical"))


def of_values(name: str) -> Callable:
    """The rule of a function of single elements that is 0 at 0: the same function of the kept values."""

    def function(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        me = input if name in LINEAR else input.merged()
        found = me.with_values(getattr(F, name)(me.kept, *args, **kwargs))
        if out is not None and out.dtype != found.dtype:
            raise cannot_cast(name, found.dtype, out.dtype)
        return found if out is None else out.take(found)

    return function


def in_place_form(name: str, function: Callable) -> Callable:
    """The rule of the in-place form of a function of single elements."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in ZERO_TO_ZERO and name not in LINEAR and not self.unique:
            shorter = SHORTER.get(name, name)
            raise RuntimeError(
                f"{shorter}_ requires coalesced input: it is no function of the single values of an index"
            )
        return became(name, self, function(self, *args, **kwargs))

    return method


for _name in ZERO_TO_ZERO:
    RULES[_name] = of_values(_name)
    RULES[f"{_name}_"] = in_place_form(_name, RULES[_name])


# -- of two tensors ----------------------------------------------------------------------------------------------------


@rule("add", compressed=True)
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input + alpha other: sparse if both are, else dense."""
    if not (is_tensor(input) and is_tensor(other)):
        raise refused("add", "a number added to a sparse tensor would not be sparse; convert with to_dense() first")
    same_shape("add", input, other)
    if is_sparse(input) and is_sparse(other):
        if input.sparse_dim() != other.sparse_dim() and 0 in (input._nnz(), other._nnz()):
            full, empty = (input, other) if input._nnz() else (other, input)
            input = full if full is input else mul(full, alpha)
            other = making.none(full.extent, full.sparse_dim(), empty.dtype)
        if input.sparse_dim() != other.sparse_dim():
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same density, but 'self' has {input.sparse_dim()} sparse dimensions "
                f"while 'other' has {other.sparse_dim()} sparse dimensions"
            )
        found = _add_sparse(as_coo(input), as_coo(other), alpha).as_layout(input.kind)
    elif is_sparse(other):
        found = _add_to_dense(input, other, alpha)
    else:
        found = _add_to_dense(other if alpha == 1 else other * alpha, input, 1)
    return found if out is None else into(out, found)


def _add_sparse(x: Any, y: Any, alpha: Any) -> Any:
    """x + alpha y: the values of both, added up at once only if each has every index once."""
    dtype = F.result_type(x.kept, y.kept)
    kept = F.cat([x.kept.to(dtype), (y.kept if alpha == 1 else y.kept * alpha).to(dtype)])
    found = SparseTensor(np.concatenate([x.place, y.place], axis=1), kept, x.extent)
    return found.merged() if x.unique and y.unique else found


def _add_to_dense(dense: Any, sparse: Any, alpha: Any) -> Any:
    """dense + alpha sparse."""
    dtype = F.result_type(dense, sparse.kept)
    n = sparse.sparse_dim()
    flat = dense.to(dtype).reshape(math.prod(sparse.extent[:n]), *sparse.extent[n:])
    kept = (sparse.kept if alpha == 1 else sparse.kept * alpha).to(dtype)
    return flat.index_add(0, wrap(sparse.flat().astype(np.int64)), kept).reshape(sparse.extent)


@rule("add_", compressed=True)
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The in-place form of add."""
    if is_sparse(self):
        return became("add", self, add(self, other, alpha=alpha))
    return became("add", self, _add_to_dense(self, other, alpha))


@rule("sub", "subtract", compressed=True)
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """input - alpha other."""
    return add(input, other, alpha=-alpha, out=out)


@rule("sub_", "subtract_", compressed=True)
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The in-place form of sub."""
    return add_(self, other, alpha=-alpha)


@rule("__rsub__", "rsub", compressed=True)
def rsub(self: Any, other: Any) -> Any:
    """other - self."""
    return add(other, self, alpha=-1)


@rule("mul", "multiply", compressed=True)
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
        a, b = as_coo(input).merged(), as_coo(other).merged()
        _, i, j = np.intersect1d(a.flat(), b.flat(), assume_unique=True, return_indices=True)
        kept = a.kept.index_select(0, wrap(i.astype(np.int64))) * b.kept.index_select(0, wrap(j.astype(np.int64)))
        found = SparseTensor(a.place[:, i], kept, a.extent, True).as_layout(input.kind)
    return found if out is None else out.take(found)


@rule("mul_", "multiply_", compressed=True)
def mul_(self: Any, other: Any) -> Any:
    """The in-place form of mul."""
    found = mul(self, other)
    return became("mul", self, found)


def broadcast(x: Any, shape: tuple) -> Any:
    """A sparse tensor of a larger shape with the same values again and again; new dimensions are sparse."""
    shape = tuple(shape)
    if shape == x.extent:
        return x
    x = as_coo(x)
    extra, n = len(shape) - x.ndim, x.sparse_dim()
    old = (1,) * extra + x.extent[:n]
    wide = [d for d, size in enumerate(old) if d < extra or size != shape[d]]
    copies = backend.beside(x.place, np.indices([shape[d] for d in wide]).reshape(len(wide), -1))
    place = np.concatenate([zeros_near((extra, x._nnz()), x.place, np.int64), x.place])
    place = np.tile(place, copies.shape[1])
    place[wide] = np.repeat(copies, x._nnz(), axis=1)
    kept = x.kept.expand(x._nnz(), *shape[extra + n :])
    kept = kept.index_select(0, wrap(np.tile(numbers(x._nnz(), x.place), copies.shape[1])))
    return SparseTensor(place, kept, shape, x.unique and wide == list(range(len(wide))))


@rule("div", "divide", "true_divide", compressed=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """input / other, for a number."""
    if is_sparse(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor)"
            if other.ndim
            else "Sparse division requires a dense divisor"
        )
    if not is_number(other):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for divisor)"
        )
    me = input if rounding_mode is None else input.merged()
    found = me.with_values(F.div(me.kept, other, rounding_mode=rounding_mode))
    return found if out is None else out.take(found)


@rule("floor_divide", "__floordiv__", compressed=True)
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """input // other, for a number."""
    if is_sparse(other):
        raise RuntimeError("Sparse floor division requires a scalar or zero-dim dense tensor divisor")
    return div(input, other, rounding_mode="floor", out=out)


@rule("pow", compressed=True)
def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input ** exponent, for a positive number."""
    if not is_number(exponent) or exponent <= 0:
        raise RuntimeError(
            f"pow: cannot raise to the {exponent} power on sparse tensor: the zeros would not stay zeros"
        )
    me = input.merged()
    found = me.with_values(me.kept**exponent)
    return found if out is None else out.take(found)


for _name, _function in {
    "div": div,
    "divide": div,
    "true_divide": div,
    "floor_divide": floor_divide,
    "pow": pow,
}.items():
    RULES[f"{_name}_"] = in_place_form(_name, _function)
