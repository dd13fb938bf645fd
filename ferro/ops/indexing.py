"""Indexing along a dimension by one tensor of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import wrap
from ferro.core.inplace import name_in_place, record_write, refuse_overlap
from ferro.core.into import into
from ferro.core.layout import DENSE, FIRST
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.ops.filling import filler
from ferro.ops.index_arguments import INT32, INT64, in_bounds, ints, on_expanded, written
from ferro.ops.shape import RESHAPE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["index_add", "index_copy", "index_fill", "index_select"]


# -- one index of one dimension ----------------------------------------------------------------------------------------


def _index_of(
    name: str, x: Any, dim: int, index: Any, types: tuple = (INT64, INT32), later: bool = False
) -> tuple[int, Any]:
    """The dimension and the checked index (int64, of one dimension) of the index_* family.

    later: whether it is out of bounds is found out by the operation.
    """
    d = one_dim(name, x._data.ndim, dim)
    data = need_tensor(name, "index", index)._data
    if data.dtype is not INT64 and data.dtype not in types:
        wanted = " or ".join(t.name for t in types)
        raise (RuntimeError if INT32 in types else IndexError)(
            f"{name}(): Expected dtype {wanted} for index, got {index.dtype}"
        )
    if data.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got shape {list(data.shape)}")
    if data.dtype != INT64 or not data.ndim:
        index = wrap(data.astype(np.int64).reshape(-1))
    if not later:
        in_bounds(f"{name}()", index._data, x._data.shape[d] if x._data.ndim else 1, d)
    return d, index


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices along `dim` that a vector of positions names, as a copy.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, (n), int64 or int32, not negative
    - `out` (Tensor, default None): where to write the result

    The result has n in the place of the size along `dim`. IndexError for a position or `dim` out of range and for an
    index of two dimensions, RuntimeError for one of another dtype.

    Example::

        >>> import ferro
        >>> ferro.arange(6).reshape(3, 2).index_select(0, ferro.tensor([2, 0, 2]))
        tensor([[4, 5],
                [0, 1],
                [4, 5]])
    """
    d, index = _index_of("index_select", input, dim, index, later=input._data.ndim > 0)
    if not input._data.ndim:
        if index._data.size != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {index._data.size} value(s)"
            )
        result = apply(RESHAPE, (index_select(unary(RESHAPE, input, ((1,),)), 0, index),), ((),))
    else:
        try:
            result = apply(INDEX_SELECT, (input, index), (d,))
        except IndexError:
            _refuse_places(input._data.shape, d, index._data)
            raise
    return result if out is None else written("index_select", out, result, input, index)


def _refuse_places(shape: tuple, d: int, index: Any) -> None:
    """Raises as PyTorch's index_select does unless all of `index` is in [0, shape[d])."""
    try:
        in_bounds("index_select()", index, shape[d], d)
    except IndexError as e:
        if len(shape) == 1:
            raise IndexError(f"{e}: index out of range in self") from None
        words = "INDICES element is out of DATA bounds" if shape[d] else "self indexing axis dim should be positive"
        raise RuntimeError(f"{e}: {words}, axis_dim={shape[d]}") from None


INDEX_SELECT = Op(
    "index_select",
    lambda xp, x, index, /, dim: xp.index_select(x, dim, index),
    kind=LINEAR,
    x=lambda xp, g, x_shape, index, dim: xp.select_spread(g, x_shape, dim, index),
    complex=True,
    samples=[
        Sample(Arg(3, 4), 0, ints([2, 0, 2])),
        Sample(Arg(3, 4), -1, ints([1])),
        Sample(Arg(3), 0, Arg(0, dtype="int64")),
        Sample(Arg(), 0, ints([0])),
    ],
)


def select_spread(g: Tensor, shape: tuple, dim: int, index: Tensor) -> Tensor:
    """The transpose of index_select()."""
    return index_add(backend.functional.new_zeros(g, shape), dim, index, g)


def _check_slices(name: str, have: tuple, want: tuple, d: int, n: int) -> None:
    """Refuses a source of shape `have` whose slices along d are not n of the shape of those of `want`."""
    if have[d] != n:
        raise (IndexError if name.startswith("index_copy") else RuntimeError)(
            f"{name}(): Number of indices ({n}) should be equal to source.size(dim) ({have[d]})"
            if name.startswith("index_copy")
            else f"{name}(): Number of indices ({n}) should be equal to source.size(dim): ({have[d]}), for dim: {d}"
        )
    if have[:d] != want[:d] or have[d + 1 :] != want[d + 1 :]:
        theirs, ours = list(have[:d] + have[d + 1 :]), list(want[:d] + want[d + 1 :])
        raise RuntimeError(
            f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: {ours} at dimension "
            f"{d} and source slice shape: {theirs}."
        )


def source_arguments(name: str, x: Any, dim: int, index: Any, source: Any, types: tuple = (INT64, INT32)) -> tuple:
    """Checked arguments of index_add and index_copy: ((index, source), dimension), the source with x's dimensions."""
    d, index = _index_of(name, x, dim, index, types)
    n = index._data.size
    if x._data.dtype is not need_tensor(name, "source", source)._data.dtype:
        a, b = dtypes.type_name(x.dtype), dtypes.type_name(source.dtype)
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) {a} and (source) {b}"
            if name.startswith("index_copy")
            else f"{name}(): self ({a}) and source ({b}) must have the same scalar type"
        )
    have, want = source._data.shape, x._data.shape
    if name.startswith("index_add") and (
        (bool(have) is not bool(want) and len(want) != 1)
        or len(have) > len(want)
        or (have[:d], have[d + 1 :]) != (want[:d], want[d + 1 :])
    ):
        raise RuntimeError(
            "index_add(): source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(want)} source.shape = {list(have)}"
        )
    if not want:
        if source._data.size != n or (n != 1 and name.startswith("index_copy")):
            raise IndexError(
                f"{name}(): a tensor without dimensions takes a source with one element per index, got shape {list(have)}"
            )
        return (index, unary(RESHAPE, source, ((n,),))), d
    if not have and n == 1 and want[d : d + 1] and len(want) == 1:
        return (index, unary(RESHAPE, source, ((1,),))), d
    if len(have) != len(want):
        raise IndexError(
            f"{name}(): When source and destination are not scalars, their dimensionality must match. Source dimensionality "
            f"({len(have)}), destination dimensionality ({len(want)})"
        )
    _check_slices(name, have, want, d, n)
    return (index, source), d


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """A copy with alpha times the slices of `source` added, in order, to the slices along `dim` that `index` names.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, (n), int64 or int32
    - `source` (Tensor): the slices, n along `dim`, in the dtype of `input`
    - `alpha` (number, default 1): a factor
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for shapes and dtypes that do not fit, IndexError or RuntimeError
    for positions out of range.

    Example::

        >>> import ferro
        >>> ferro.index_add(ferro.zeros(3), 0, ferro.tensor([0, 2, 2]), ferro.ones(3))
        tensor([1., 0., 2.])
    """
    others, d = source_arguments("index_add", input, dim, index, source)
    result = apply(INDEX_ADD, (input, others[0], _scaled("index_add", input, others[1], alpha)), (d,))
    return into("index_add", out, result)


def _scaled(name: str, x: Any, source: Any, alpha: Any) -> Any:
    if isinstance(alpha, float) and x._data.dtype.kind in "biu":
        raise RuntimeError(
            f"{name}(): For integral input tensors, argument alpha must not be a floating point number, got {alpha}"
        )
    return source if alpha == 1 and alpha is not True else source * alpha


INDEX_ADD = Op(
    "index_add",
    lambda xp, x, index, source, /, dim: xp.index_add(x, dim, index, source),
    kind=LINEAR,
    x=lambda xp, g: g,
    source=lambda xp, g, source_shape, index, dim: _rows(xp, g, source_shape, index, dim),
    complex=True,
    samples=[
        Sample(Arg(3, 2), 0, ints([2, 0, 2]), Arg(3, 2)),
        Sample(Arg(2, 3), 1, ints([1, 1]), Arg(2, 2), alpha=2),
        Sample(Arg(3), 0, Arg(0, dtype="int64"), Arg(0)),
    ],
    layout=DENSE,
)


def _rows(xp: Any, g: Any, source_shape: tuple, index: Any, dim: int) -> Any:
    """The gradient of the source of an index_* operation."""
    if len(g.shape):
        return xp.index_select(g, dim, index)
    return xp.expand(xp.reshape(g, (1,)), source_shape)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with the slices of `source` in the places along `dim` that `index` names.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, (n), int64
    - `source` (Tensor): the slices, n along `dim`, in the dtype of `input`
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`; of several slices for one place the last stays. IndexError for shapes that do
    not fit and positions out of range, RuntimeError for another dtype.

    Example::

        >>> import ferro
        >>> ferro.index_copy(ferro.zeros(3), 0, ferro.tensor([0, 2]), ferro.tensor([5.0, 6.0]))
        tensor([5., 0., 6.])
    """
    others, d = source_arguments("index_copy", input, dim, index, source, (INT64,))
    result = apply(INDEX_COPY, (input, *others), (d,))
    return into("index_copy", out, result)


INDEX_COPY = Op(
    "index_copy",
    lambda xp, x, index, source, /, dim: xp.index_copy(x, dim, index, source),
    kind=LINEAR,
    x=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0.0),
    source=lambda xp, g, source_shape, index, dim: _rows(xp, g, source_shape, index, dim),
    complex=True,
    samples=[Sample(Arg(3, 2), 0, ints([2, 0]), Arg(2, 2)), Sample(Arg(2, 3), -1, ints([1]), Arg(2, 1))],
    layout=DENSE,
)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with one value in the slices along `dim` that `index` names.

    - `input` (Tensor): any shape
    - `dim` (int): the dimension
    - `index` (Tensor): positions, (n), int64
    - `value` (number or 0-d Tensor): the value

    The result has the shape of `input`. IndexError for a position out of range, RuntimeError for a value of dimensions.

    Example::

        >>> import ferro
        >>> ferro.index_fill(ferro.zeros(3), 0, ferro.tensor([0, 2]), 7)
        tensor([7., 0., 7.])
    """
    others, d = _index_fill_arguments("index_fill", input, dim, index, value)
    return apply(INDEX_FILL, (input, *others), (d,))


def _index_fill_arguments(name: str, x: Any, dim: int, index: Any, value: Any) -> tuple:
    d = one_dim(name, x._data.ndim, dim)
    data = need_tensor(name, "index", index)._data
    if data.dtype != INT64:
        raise IndexError(f"{name}(): Expected dtype int64 for index, got {index.dtype}")
    if data.ndim > 1:
        raise IndexError(f"{name}(): Index has to be a vector/scalar, got shape {list(data.shape)}")
    in_bounds(f"{name}()", data, x._data.shape[d] if x._data.ndim else 1, d, negative=True)
    return (index if data.ndim else unary(RESHAPE, index, ((1,),)), filler(name, x, value)), d


INDEX_FILL = Op(
    "index_fill",
    lambda xp, x, index, value, /, dim: xp.index_fill(x, dim, index, value),
    kind=LINEAR,
    x=lambda xp, g, index, dim: xp.index_fill(g, dim, index, 0.0),
    value=lambda xp, g, index, dim: g - xp.index_fill(g, dim, index, 0.0),
    complex=True,
    samples=[
        Sample(Arg(3, 2), 0, ints([2, 0]), 1.5),
        Sample(Arg(2, 3), 1, ints([2]), Arg()),
        Sample(Arg(), 0, ints([0]), 2.0),
    ],
    layout=FIRST,
)


def _written(function: Any, op: Op, arguments: Any, write: Any, expanded: str | None = None) -> Callable[..., Tensor]:
    """The in-place method of an operation that writes only at an index."""
    name = f"{function.__name__}_"

    def method(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        others, params = arguments(name, self, *args, **kwargs)
        refuse_overlap(
            name, self, others[:1] if function is index_fill else others, itself=True
        )  # (a value is a number)
        return record_write(self, name, op, others, params, write, expanded)

    return name_in_place(method, function)


def _add_arguments(name: str, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> tuple:
    (index, source), d = source_arguments(name, x, dim, index, source)
    return (index, _scaled(name, x, source, alpha)), (d,)


def _copy_arguments(name: str, x: Any, dim: int, index: Any, source: Any) -> tuple:
    others, d = source_arguments(name, x, dim, index, source, (INT64,))
    return others, (d,)


def _fill_arguments(name: str, x: Any, dim: int, index: Any, value: Any) -> tuple:
    others, d = _index_fill_arguments(name, x, dim, index, value)
    return others, (d,)


class IndexingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    index_add, index_copy, index_fill = index_add, index_copy, index_fill
    index_select = index_select
    index_add_ = _written(index_add, INDEX_ADD, _add_arguments, lambda xp, x, i, s, d: xp.index_add_(x, d, i, s))
    index_copy_ = _written(index_copy, INDEX_COPY, _copy_arguments, lambda xp, x, i, s, d: xp.index_copy_(x, d, i, s))
    index_fill_ = _written(
        index_fill,
        INDEX_FILL,
        _fill_arguments,
        lambda xp, x, i, v, d: xp.index_fill_(x, d, i, v),
        on_expanded("index_fill_", "tensor[mask] = scalar"),
    )
