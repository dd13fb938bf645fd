"""Order: sorting, the k largest, medians, quantiles and the most frequent element.

nan counts as larger than every number.  Gradients go to the elements that were picked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from ferro.core import dtypes, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import into, need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import without_gradient
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.extrema import INDEXED, need_elements, pair_into, picked
from ferro.ops.reductions import need_real, renamed, spread

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"]

NAN = float("nan")
TIED = Arg(values=[[2.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 3.0]])


def distinct(*shape: int) -> Arg:
    """A sample argument without ties."""
    return Arg(*shape, make=permuted())


def _all(xp: Any, g: Any, x: Any, out: Any) -> Any:
    """The gradient of a value picked among all elements: shared evenly by those equal to it."""
    dims = tuple(range(len(x.shape)))
    return spread(xp, g, x.shape, dims, False) * xp.tie_weights(x, out, dims, False)


# -- sorting -----------------------------------------------------------------------------------------------------------


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> return_types.sort:
    """The elements in ascending order along `dim`: (values, indices).

    - `input` (Tensor): any shape, real; nan is last
    - `dim` (int, default -1): the dimension
    - `descending` (bool, default False): the largest first
    - `stable` (bool, default False): no effect: equal elements always keep their order
    - `out` (tuple of two Tensors, default None): where to write values and indices

    Values and indices (int64) have the shape of `input`; the gradient of each value goes to its element. IndexError for
    a `dim` out of range.

    Example::

        >>> import ferro
        >>> values, indices = ferro.tensor([3, 1, 2]).sort(descending=True)
        >>> values, indices
        (tensor([3, 2, 1]), tensor([0, 2, 1]))
    """
    need_tensor("sort", "input", input)
    need_real("sort", input)
    pair = apply(SORT, (input,), (one_dim("sort", input._data.ndim, dim), descending))
    return return_types.sort(pair if out is None else pair_into("sort", out, pair))


def _ordered_x(xp: Any, g: Any, x_shape: tuple, indices: Any, dim: int) -> Any:
    return xp.value_scatter(g, x_shape, dim, indices, True)


_SORTED = [
    Sample(Arg()),
    Sample(distinct(5)),
    Sample(distinct(3, 4), 0),
    Sample(distinct(3, 4), 1, True),
    Sample(distinct(2, 3, 2), -2),
    Sample(Arg(0, 2), 0),
    Sample(TIED, smooth=False),
    Sample(TIED, 1, True, smooth=False),
    Sample(Arg(4, 3, dtype="int64"), 0),
]

SORT = Op(
    "sort",
    lambda xp, x, /, dim, descending: xp.sort(x, dim, descending),
    **INDEXED,
    x=_ordered_x,
    samples=[*_SORTED, Sample(distinct(4), stable=True), Sample(distinct(70))],
)


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The indices that sort along `dim`; equal elements keep their order.

    - `input` (Tensor): any shape, real; nan is last
    - `dim` (int, default -1): the dimension
    - `descending` (bool, default False): the largest first
    - `stable` (bool, default False): no effect: equal elements always keep their order
    - `out` (Tensor, default None): where to write the result

    The result is int64, in the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.argsort(ferro.tensor([3.0, 1.0, 2.0]))
        tensor([1, 2, 0])
    """
    a = need_tensor("argsort", "input", input)._data
    need_real("argsort", input)
    order = xp_of(a).argsort(a, one_dim("argsort", a.ndim, dim), descending)
    return into("argsort", out, without_gradient("argsort", order, input))


declare(
    "argsort",
    [
        *_SORTED,
        Sample(Arg(values=[1.0, NAN, 0.0])),
        Sample(Arg(values=[1.0, NAN, 0.0]), 0, True),
        Sample(Arg(100, dtype="int64"), stable=True),
    ],
    differentiable=False,
)


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in ascending order along the first dimension."""
    result = sort(input, 0)[0]
    return result if out is None else into("msort", out, result)


declare("msort", [Sample(Arg()), Sample(distinct(5)), Sample(distinct(3, 4))])


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> return_types.topk:
    """The k largest (or smallest) elements along `dim`: (values, indices), in order.

    - `input` (Tensor): any shape, real; nan counts as the largest
    - `k` (int): how many
    - `dim` (int, default -1): the dimension
    - `largest` (bool, default True): False takes the smallest
    - `sorted` (bool, default True): no effect: the elements are always in order
    - `out` (tuple of two Tensors, default None): where to write values and indices

    Values and indices (int64) have the shape of `input` with k in the place of its size along `dim`. RuntimeError if k
    is larger than that size, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> values, indices = ferro.tensor([3, 1, 4, 1, 5]).topk(2)
        >>> values, indices
        (tensor([5, 4]), tensor([4, 2]))
    """
    a = need_tensor("topk", "input", input)._data
    need_real("topk", input)
    if a.dtype.kind == "b":
        raise RuntimeError("topk: bool tensors are not supported; convert the input, e.g. with .int()")
    d = one_dim("topk", a.ndim, dim)
    n = a.shape[d] if a.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(
            f"topk: selected index k out of range: k is {k}, but dimension {d} has {n} elements (shape {list(a.shape)})"
        )
    pair = apply(TOPK, (input,), (int(k), d, largest))
    return return_types.topk(pair if out is None else pair_into("topk", out, pair))


TOPK = Op(
    "topk",
    lambda xp, x, /, k, dim, largest: xp.topk(x, k, dim, largest),
    **INDEXED,
    x=_ordered_x,
    samples=[
        Sample(Arg(), 1),
        Sample(distinct(5), 2),
        Sample(distinct(3, 4), 3, 0),
        Sample(distinct(3, 4), 2, 1, False),
        Sample(distinct(4), 0),
        Sample(distinct(2, 3), 3, -1, True, True),
        Sample(distinct(1100), 3),
    ],
)


# -- selection ---------------------------------------------------------------------------------------------------------


def _selected(name: str, op: Op, input: Any, dim: Any, keepdim: bool, out: Any, before: tuple = ()) -> Any:
    """Applies an operation (values, indices) along one dimension."""
    need_tensor(name, "input", input)
    need_real(name, input)
    d = one_dim(name, input._data.ndim, dim)
    need_elements(name, input._data.shape, d)
    pair = apply(op, (input,), (*before, d, keepdim))
    return getattr(return_types, name)(pair if out is None else pair_into(name, out, pair))


def kthvalue(
    input: Tensor, k: int, dim: Any = -1, keepdim: bool = False, *, out: Any = None, **names: Any
) -> return_types.kthvalue:
    """The k-th smallest element (k from 1) along `dim`: (values, indices).

    - `input` (Tensor): any shape, real; nan counts as the largest
    - `k` (int): which
    - `dim` (int, default -1): the dimension
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (tuple of two Tensors, default None): where to write values and indices
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for a k out of range, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.kthvalue(ferro.tensor([3.0, 1.0, 2.0]), 2)
        ferro.return_types.kthvalue(
        values=tensor(2.),
        indices=tensor(2))
    """
    if names:
        dim, keepdim = renamed("kthvalue", names, dim, keepdim)
    a = need_tensor("kthvalue", "input", input)._data
    d = one_dim("kthvalue", a.ndim, dim)
    need_elements("kthvalue", a.shape, d)
    n = a.shape[d] if a.ndim else 1
    if not 1 <= k <= n:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {d}: k is {k}, allowed are 1 to {n}"
        )
    if out is not None and xp_of(a).may_share_memory(a, out[0]._data):
        raise RuntimeError(
            "kthvalue: unsupported operation: some elements of the input tensor and the written-to "
            "tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
    return _selected("kthvalue", KTHVALUE, input, d, keepdim, out, (int(k),))


KTHVALUE = Op(
    "kthvalue",
    lambda xp, x, /, k, dim, keepdim: xp.kthvalue(x, k, dim, keepdim),
    **INDEXED,
    x=picked,
    samples=[
        Sample(Arg(), 1),
        Sample(distinct(5), 2),
        Sample(distinct(3, 4), 3, 0),
        Sample(distinct(3, 4), 2, 1, True),
        Sample(distinct(300), 100),
    ],
)


@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def median(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> return_types.median: ...


def median(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None, **names: Any) -> Any:
    """The median, of an even number of elements the lower one; along `dim` (values, indices).  nan if one is nan.

    Of all elements: those equal to the median share the gradient evenly.  Along `dim` the one at `indices` gets it.

    - `input` (Tensor): any shape, real
    - `dim` (int, default None): the dimension; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor or tuple of two, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([3.0, 1.0, 2.0, 9.0])
        >>> ferro.median(x), ferro.median(x, dim=0).indices
        (tensor(2.), tensor(2))
    """
    return _median("median", MEDIAN_ALL, MEDIAN, input, dim, keepdim, out, names)


@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> return_types.nanmedian: ...


def nanmedian(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None, **names: Any) -> Any:
    """The :func:`median` of the elements that are not nan.

    - `input` (Tensor): any shape, real
    - `dim` (int, default None): the dimension; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor or tuple of two, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([3.0, 1.0, 2.0, 9.0])
        >>> ferro.nanmedian(x), ferro.nanmedian(x, dim=0).indices
        (tensor(2.), tensor(2))
    """
    return _median("nanmedian", NANMEDIAN_ALL, NANMEDIAN, input, dim, keepdim, out, names)


def _median(name: str, over_all: Op, along: Op, input: Any, dim: Any, keepdim: bool, out: Any, names: dict) -> Any:
    if names:
        dim, keepdim = renamed(name, names, dim, keepdim)
    need_tensor(name, "input", input)
    if input._data.dtype.kind in "bc":
        raise NotImplementedError(
            f'{name}: "median_{"cpu" if dim is None else "out"}" not implemented for '
            f"'{dtypes.type_name(dtypes.FROM_NUMPY[input._data.dtype])}'; it takes real numbers"
        )
    if dim is None:
        return into(name, out, unary(over_all, input))
    return _selected(name, along, input, dim, keepdim, out)


_MEDIANS = [
    Sample(Arg()),
    Sample(distinct(5)),
    Sample(distinct(3, 4)),
    Sample(TIED, smooth=False),
    Sample(distinct(3, 4), 0),
    Sample(distinct(3, 4), 1, True),
    Sample(Arg(5, dtype="int64")),
    Sample(distinct(2, 300), 1),
]
WITH_NAN = Arg(values=[[1.0, NAN, 3.0], [2.0, 5.0, 4.0]])

MEDIAN_ALL = Op(
    "median",
    lambda xp, x: xp.median(x),
    x=_all,
    samples=[*_MEDIANS, Sample(WITH_NAN, smooth=False), Sample(WITH_NAN, 1, smooth=False)],
)

MEDIAN = Op("median_dim", lambda xp, x, /, dim, keepdim: xp.median_dim(x, dim, keepdim), **INDEXED, x=picked)
singular("median", "ties", Sample(Arg(values=[1.0, 1.0, 2.0])), "equal elements share the gradient evenly")

NANMEDIAN_ALL = Op(
    "nanmedian",
    lambda xp, x: xp.nanmedian(x),
    x=_all,
    samples=[*_MEDIANS, Sample(WITH_NAN, smooth=False), Sample(WITH_NAN, 1, smooth=False)],
)

NANMEDIAN = Op("nanmedian_dim", lambda xp, x, /, dim, keepdim: xp.nanmedian_dim(x, dim, keepdim), **INDEXED, x=picked)


def mode(input: Tensor, dim: Any = -1, keepdim: bool = False, *, out: Any = None, **names: Any) -> return_types.mode:
    """The most frequent element along `dim` (of several the smallest) and where it appears last: (values, indices).

    - `input` (Tensor): any shape, real
    - `dim` (int, default -1): the dimension
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (tuple of two Tensors, default None): where to write values and indices
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.mode(ferro.tensor([1, 2, 2, 3, 3]))
        ferro.return_types.mode(
        values=tensor(2),
        indices=tensor(2))
    """
    if names:
        dim, keepdim = renamed("mode", names, dim, keepdim)
    return _selected("mode", MODE, input, dim, keepdim, out)


MODE = Op(
    "mode",
    lambda xp, x, /, dim, keepdim: xp.mode(x, dim, keepdim),
    **INDEXED,
    x=picked,
    samples=[
        Sample(Arg()),
        Sample(TIED, smooth=False),
        Sample(TIED, 0, smooth=False),
        Sample(TIED, 1, True, smooth=False),
        Sample(Arg(12, dtype="int64")),
    ],
)


class OrderMethods:
    """Methods of Tensor."""

    __slots__ = ()
    argsort = argsort
    kthvalue = kthvalue
    median = median
    mode = mode
    msort = msort
    nanmedian = nanmedian
    sort = sort
    topk = topk
