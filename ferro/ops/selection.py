"""Elements selected by their rank: the k-th smallest, medians, the most frequent.

nan counts as larger than every number.  Gradients go to the elements that were picked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from ferro.core import dtypes, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, singular
from ferro.ops.extrema import INDEXED, need_elements, pair_into, picked
from ferro.ops.order import NAN, TIED, _all, distinct
from ferro.ops.reductions import need_real, renamed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["kthvalue", "median", "mode", "nanmedian"]


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


class SelectionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    kthvalue = kthvalue
    median = median
    mode = mode
    nanmedian = nanmedian
