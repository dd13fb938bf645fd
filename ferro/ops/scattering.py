"""Scattering along a dimension, with an index of as many dimensions as the tensor; gathering's adjoint.

Where an index names a place twice, sums and products are taken in the order of the index; of values that overwrite each
other the last stays, and, as in PyTorch, each of them receives the gradient of that place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import type_name
from ferro.core.inplace import in_place, record_write, refuse_overlap
from ferro.core.into import into
from ferro.core.layout import DENSE
from ferro.core.notices import warn_once
from ferro.core.op import LINEAR, Op
from ferro.core.operands import constant
from ferro.core.samples import Arg, Sample
from ferro.ops.expanding import EXPAND
from ferro.ops.filling import number
from ferro.ops.gathering import TWO, apply_at, index_dim
from ferro.ops.index_arguments import INT64, ints
from ferro.ops.shape import RESHAPE
from ferro.ops.slices import SLICE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["scatter", "scatter_add", "scatter_reduce"]


# -- scatter -----------------------------------------------------------------------------------------------------------


def _arguments(name: str, x: Any, dim: int, index: Any, src: Any, later: bool = False) -> tuple:
    """((index, src), (dim,)) with src cut or expanded to the shape of the index."""
    shape = need_tensor(name, "index", index)._data.shape
    if not index._data.size and len(shape) != x._data.ndim:  # nothing is sent anywhere, whatever its shape
        shape = (0,) * max(x._data.ndim, 1)
        index = wrap(backend.beside(x._data, np.zeros(shape, np.int64)))
    if isinstance(src, TensorBase):
        given: Any = src
        have = given._data.shape
        if given._data.dtype is not x._data.dtype:
            raise RuntimeError(
                f"{name}: scatter(): Expected self.dtype to be equal to src.dtype, got {x.dtype} and {given.dtype}"
            )
        d = index_dim(name, x, dim, index, have, later)
        if not index._data.size:
            given = wrap(backend.beside(x._data, np.zeros(shape, x._data.dtype)))
        elif have != shape:
            cut = (*[slice(0, n) for n in shape], ...)
            given = unary(SLICE, given, (cut,)) if len(have) == len(shape) else unary(RESHAPE, given, (shape,))
    else:
        d = index_dim(name, x, dim, index, later=later)
        given = unary(EXPAND, number(name, src, x), (shape,))
    return (index if index._data.dtype == INT64 else index.to(int), given), (d,)


def _source(name: str, src: Any, value: Any) -> Any:
    if (src is None) == (value is None):
        raise TypeError(f"{name}(): give either src (a tensor) or value (a number)")
    return value if src is None else src


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with `src` written along `dim` at the positions in `index`: the reverse of :func:`gather`.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, int64, with as many dimensions as the input
    - `src` (Tensor or number, default None): what is written, no smaller than `index`, in the dtype of `input`
    - `value` (number, default None): the same as a number
    - `reduce` (str, default None): "add" or "multiply" combines with the elements that are there
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`; of several elements for one place the last stays. RuntimeError for positions
    out of range, shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> classes = ferro.tensor([[2], [0]])
        >>> ferro.zeros(2, 3).scatter(1, classes, 1.0)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    given = _source("scatter", src, value)
    if reduce is None:
        others, (d,) = _arguments("scatter", input, dim, index, given, later=True)
        result = apply_at("scatter", SCATTER, input, others, d)
    else:
        result = _reducing("scatter", input, dim, index, given, reduce)
    return result if out is None else into("scatter", out, result)


def _reducing(name: str, x: Any, dim: int, index: Any, src: Any, reduce: str) -> Tensor:
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f"{name}: reduce argument must be either add or multiply, got {reduce}")
    if isinstance(src, TensorBase):
        warn_once(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. Use "
            "torch.scatter_reduce instead for more reduction options."
        )
    others, params = _arguments(name, x, dim, index, src)
    if reduce == "add":
        return apply(SCATTER_ADD, (x, *others), params)
    return apply(SCATTER_REDUCE, (x, *others), (*params, "prod", True))


SCATTER = Op(
    "scatter",
    lambda xp, x, index, src, /, dim: xp.scatter(x, dim, index, src),
    kind=LINEAR,
    x=lambda xp, g, index, dim: xp.scatter(g, dim, index, 0.0),
    src=lambda xp, g, index, dim: xp.gather(g, dim, index),
    complex=True,
    samples=[
        Sample(Arg(2, 4), 1, ints([[0, 2], [3, 1]]), Arg(2, 2)),
        Sample(Arg(2, 4), 1, TWO, 1.5),
        Sample(Arg(), 0, ints(0), Arg()),
        Sample(Arg(4), 0, ints([1, 3]), Arg(2)),
    ],
    layout=DENSE,
)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with `src` added at the positions along `dim` that `index` names.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, int64, with as many dimensions as the input
    - `src` (Tensor): no smaller than `index`, in the dtype of `input`
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for positions out of range, shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.scatter_add(ferro.zeros(3), 0, ferro.tensor([0, 2, 2]), ferro.ones(3))
        tensor([1., 0., 2.])
    """
    others, (d,) = _arguments("scatter_add", input, dim, index, need_tensor("scatter_add", "src", src), later=True)
    result = apply_at("scatter_add", SCATTER_ADD, input, others, d)
    return result if out is None else into("scatter_add", out, result)


SCATTER_ADD = Op(
    "scatter_add",
    lambda xp, x, index, src, /, dim: xp.scatter_add(x, dim, index, src),
    kind=LINEAR,
    x=lambda xp, g: g,
    src=lambda xp, g, index, dim: xp.gather(g, dim, index),
    complex=True,
    samples=[
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3)),
        Sample(Arg(2, 4), 1, TWO, Arg(2, 3)),
        Sample(Arg(), 0, ints(0), Arg()),
        Sample(Arg(3), 0, Arg(0, dtype="int64"), Arg(0)),
    ],
    layout=DENSE,
)


def gather_spread(g: Tensor, shape: tuple, dim: int, index: Tensor) -> Tensor:
    """The transpose of gather()."""
    return scatter_add(backend.functional.new_zeros(g, shape), dim, index, g)


# -- scatter_reduce ----------------------------------------------------------------------------------------------------

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy in which each position along `dim` holds the sum, mean, product, maximum or minimum of the `src` that
    `index` sends there.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): where the elements are sent, int64, with as many dimensions as the input
    - `src` (Tensor): no smaller than `index`, in the dtype of `input`
    - `reduce` (str): "sum", "prod", "mean", "amax" or "amin"
    - `include_self` (bool, default True): whether the element of `input` that was there counts
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`; positions to which nothing is sent keep their element. amax and amin: equal
    extremes share the gradient equally. RuntimeError for another reduction, positions out of range, shapes and dtypes
    that do not fit.

    Example::

        >>> import ferro
        >>> index, src = ferro.tensor([0, 0]), ferro.tensor([3.0, 5.0])
        >>> ferro.scatter_reduce(ferro.ones(2), 0, index, src, "mean", include_self=False)
        tensor([4., 1.])
    """
    (index, src), (d,) = _arguments("scatter_reduce", input, dim, index, need_tensor("scatter_reduce", "src", src))
    result = _scatter_reduce("scatter_reduce", input, index, src, d, reduce, include_self)
    return result if out is None else into("scatter_reduce", out, result)


def _scatter_reduce(name: str, x: Any, index: Any, src: Any, d: int, reduce: str, include_self: bool) -> Tensor:
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"{name}: reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if reduce in ("amax", "amin") and x._data.dtype.kind == "c":
        raise NotImplementedError(
            f"{name}: \"scatter_gather_tensor_cpu_reduce_{reduce}\" not implemented for '{type_name(x.dtype)}': "
            "complex numbers have no order"
        )
    if reduce not in ("sum", "mean"):
        return apply(SCATTER_REDUCE, (x, index, src), (d, reduce, bool(include_self)))
    start = x
    if not include_self:
        zero = wrap(backend.beside(x._data, constant(0, x._data.dtype)._data))
        start = apply(SCATTER, (x, index, unary(EXPAND, zero, (index._data.shape,))), (d,))
    total = apply(SCATTER_ADD, (start, index, src), (d,))
    if reduce == "sum":
        return total
    zeros = backend.new_array(index._data, x._data.shape, np.zeros, np.int64)
    xp = backend.xp_of(index._data)
    counts = xp.scatter_add(zeros, d, index._data, backend.new_array(index._data, index._data.shape, np.ones, np.int64))
    counts = xp.clamp(counts + 1 if include_self else counts, 1, None)
    if x._data.dtype.kind in "iu":
        return wrap(as_array(total._data // counts, x._data.dtype))
    return total / wrap(counts.astype(x._data.dtype))


def _scatter_reduce_vjp(
    xp: Any, g: Any, x: Any, index: Any, src: Any, out: Any, dim: int, reduce: str, include_self: bool
) -> tuple:
    """prod: the cotangent times the product of the others; amax and amin: shared equally among equal extremes."""
    if reduce == "prod":
        return _prod_vjp(xp, g, x, index, src, out, dim, include_self)
    zeros = xp.zeros_like(g)
    mine = xp.masked_fill(zeros, x == out, 1.0)
    if not include_self:
        mine = xp.scatter(mine, dim, index, 0.0)
    theirs = xp.masked_fill(xp.new_zeros(g, src.shape), src == xp.gather(out, dim, index), 1.0)
    count = xp.scatter_add(mine, dim, index, theirs)
    share = g / xp.masked_fill(count, count == 0, 1.0)
    return share * mine, xp.gather(share, dim, index) * theirs


def _prod_vjp(xp: Any, g: Any, x: Any, index: Any, src: Any, out: Any, dim: int, include_self: bool) -> tuple:
    """Of each factor, the product of the others; a division where it is not 0, a product without it where it alone is 0."""
    safe = xp.masked_fill(x, x == 0, 1.0)
    gx = g * xp.scatter_reduce(safe, dim, index, src, "prod", include_self) / safe
    if not include_self:
        gx = xp.scatter(gx, dim, index, 0.0)
    zero = src == 0
    zeros = xp.masked_fill(xp.new_zeros(g, src.shape), zero, 1.0)
    lone = zero & (xp.gather(xp.scatter_add(xp.zeros_like(g), dim, index, zeros), dim, index) == 1)
    without = xp.scatter_reduce(x, dim, index, xp.masked_fill(src, lone, 1.0), "prod", include_self)
    others = xp.masked_fill(xp.gather(without, dim, index), ~lone, 0.0)
    others = others + xp.masked_fill(xp.gather(out, dim, index) / xp.masked_fill(src, zero, 1.0), lone, 0.0)
    return gx, xp.prod_once(xp.gather(g, dim, index) * others, zero & ~lone)


def prod_once(x: Tensor, several: Tensor) -> Tensor:
    """x, the gradient of a product by its factors, which has no further derivative where `several` factors are 0."""
    return apply(PROD_ONCE, (x, several))


def _prod_twice(g: Any, several: Any) -> Any:
    found = getattr(several, "_data", several)
    if getattr(found, "physical", found).any():
        raise RuntimeError(
            "scatter_reduce(), index_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered to the same "
            "position in self"
        )
    return g


PROD_ONCE = Op("prod_once", lambda xp, x, several: x * 1, x=lambda xp, g, several: _prod_twice(g, several), diff=("x",))

SCATTER_REDUCE = Op(
    "scatter_reduce",
    lambda xp, x, index, src, /, dim, reduce, include_self: xp.scatter_reduce(x, dim, index, src, reduce, include_self),
    vjp=_scatter_reduce_vjp,
    diff=("x", "src"),
    samples=[
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3), "sum"),
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3), "mean", include_self=False),
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3), "prod"),
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3), "prod", include_self=False),
        Sample(Arg(3), 0, ints([0, 0, 1]), Arg(values=[2.0, 0.0, 0.0]), "prod"),
        Sample(Arg(3, 3), 0, TWO, Arg(2, 3), "amax"),
        Sample(Arg(2, 4), 1, TWO, Arg(2, 3), "amin", include_self=False),
        Sample(Arg(values=[1.0, 2.0]), 0, ints([1, 1, 0]), Arg(values=[2.0, 2.0, 0.5]), "amax", smooth=False),
        Sample(Arg(values=[1.0, 2.0, 3.0]), 0, ints([1, 1, 0]), Arg(values=[2.0, 2.0, 0.5]), "mean"),
    ],
    layout=DENSE,
)


# -- in place ----------------------------------------------------------------------------------------------------------


def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """Writes `src` along `dim` at the positions in `index`, in place: self[index[i][j]][j] = src[i][j] for dim 0, and
    so on.

    - `self` (Tensor): any shape, changed and returned
    - `dim` (int): the dimension
    - `index` (Tensor): positions, int64, with as many dimensions as the tensor
    - `src` (Tensor or number, default None): what is written, no smaller than `index`, in the tensor's dtype
    - `value` (number, default None): the same as a number
    - `reduce` (str, default None): "add" or "multiply" combines with the elements that are there

    Of several elements for one place the last stays. RuntimeError for positions out of range, shapes and dtypes that do
    not fit.

    Example::

        >>> import ferro
        >>> ferro.zeros(3).scatter_(0, ferro.tensor([0, 2]), ferro.tensor([5.0, 6.0]))
        tensor([5., 0., 6.])
    """
    given = _source("scatter_", src, value)
    if reduce is not None:
        refuse_overlap("scatter_", self, (index, src), itself=True)
        return _reduce_in_place(self, dim, index, given, reduce)
    others, params = _arguments("scatter_", self, dim, index, given)
    refuse_overlap("scatter_", self, (index, src), itself=True)
    return record_write(self, "scatter_", SCATTER, others, params, lambda xp, x, i, s, d: xp.scatter_(x, d, i, s))


def _scatter_with(input: Tensor, dim: int, index: Tensor, src: Any, reduce: str) -> Tensor:
    return _reducing("scatter_", input, dim, index, src, reduce)


_scatter_with.__name__ = "scatter"
_reduce_in_place = in_place(_scatter_with)


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Adds `src` at the positions along `dim` that `index` names, in place: see :func:`scatter_add`.

    - `self` (Tensor): any shape, changed and returned
    - `dim` (int): the dimension
    - `index` (Tensor): positions, int64, with as many dimensions as the tensor
    - `src` (Tensor): no smaller than `index`, in the tensor's dtype

    RuntimeError for positions out of range, shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.zeros(3).scatter_add_(0, ferro.tensor([0, 2, 2]), ferro.ones(3))
        tensor([1., 0., 2.])
    """
    others, params = _arguments("scatter_add_", self, dim, index, need_tensor("scatter_add_", "src", src))
    refuse_overlap("scatter_add_", self, (index, src), itself=True)
    return record_write(
        self, "scatter_add_", SCATTER_ADD, others, params, lambda xp, x, i, s, d: xp.scatter_add_(x, d, i, s)
    )


class ScatteringMethods:
    """Methods of Tensor."""

    __slots__ = ()
    scatter, scatter_, scatter_add, scatter_add_ = scatter, scatter_, scatter_add, scatter_add_
    scatter_reduce = scatter_reduce
    scatter_reduce_ = in_place(scatter_reduce, itself=True)
