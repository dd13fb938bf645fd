"""Parts of a tensor: slices, diagonals, pieces, windows and strided views; and copies with such a part replaced."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim, sizes
from ferro.core.base import TensorBase
from ferro.core.dtypes import FROM_NUMPY, int64, type_name
from ferro.core.inplace import restride
from ferro.core.layout import FIRST, geometry, reach, storage_bytes
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import parted, viewed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["as_strided", "as_strided_scatter", "chunk", "diagonal", "diagonal_scatter", "dsplit", "hsplit", "narrow",
           "select", "select_scatter", "slice_scatter", "split", "split_with_sizes", "tensor_split", "unbind",
           "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit"]  # fmt: skip

ALL = slice(None)


# -- slices ------------------------------------------------------------------------------------------------------------


def slice_op(name: str, **options: Any) -> Op:
    """The declaration of a view x[key], where the key is a tuple of integers, slices and None with one Ellipsis."""
    return Op(
        name,
        lambda xp, x, /, key: xp.slice_get(x, key),
        kind=LINEAR,
        view=True,
        x=lambda xp, g, x_shape, key: xp.slice_place(g, x_shape, key),
        **options,
    )


SLICE = slice_op("slice")
SELECT = slice_op(
    "select", samples=[Sample(Arg(2, 3), 0, 1), Sample(Arg(2, 3), -1, -1), Sample(Arg(4), 0, 2)], complex=True
)
NARROW = slice_op(
    "narrow", samples=[Sample(Arg(2, 5), 1, 1, 3), Sample(Arg(4, 2), 0, -2, 1), Sample(Arg(3), 0, 3, 0)], complex=True
)

SLICE_PLACE = Op(
    "slice_place",
    lambda xp, x, /, shape, key: xp.slice_place(x, shape, key),
    kind=LINEAR,
    x=lambda xp, g, key: xp.slice_get(g, key),
)

SLICE_PUT = Op(
    "slice_put",
    lambda xp, x, src, /, key: xp.slice_put(x, src, key),
    kind=LINEAR,
    x=lambda xp, g, src_shape, key: xp.slice_put(g, xp.new_zeros(g, src_shape), key),
    src=lambda xp, g, key: xp.slice_get(g, key),
    layout=FIRST,
)


def slice_get(x: Tensor, key: tuple) -> Tensor:
    """The view x[key] for a key in normal form."""
    return viewed(SLICE, x, (key,))


def slice_place(g: Tensor, shape: tuple, key: tuple) -> Tensor:
    """Zeros of `shape` with g at [key]."""
    return unary(SLICE_PLACE, g, (shape, key))


def slice_put(x: Tensor, src: Tensor, key: tuple) -> Tensor:
    """x with src at x[key]."""
    return apply(SLICE_PUT, (x, src), (key,))


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` along `dim`, without that dimension: a view.

    - `input` (Tensor): of one or more dimensions
    - `dim`, `index` (int): negative ones count from the end

    IndexError for either out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]]).select(1, 0)
        tensor([1, 3])
    """
    return viewed(SELECT, input, (_select_key("select", input, dim, index),))


def _select_key(name: str, x: Any, dim: int, index: int) -> tuple:
    shape = x._data.shape
    if not shape:
        raise IndexError(f"{name}() cannot be applied to a 0-dim tensor.")
    d, i = one_dim(name, len(shape), dim), int(index)
    if not -shape[d] <= i < shape[d]:
        raise IndexError(f"{name}(): index {i} out of range for tensor of size {list(shape)} at dimension {d}")
    return (ALL,) * d + (i % shape[d], ...)


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements along `dim` from `start` on: a view.

    - `input` (Tensor): of one or more dimensions
    - `dim` (int): the dimension
    - `start` (int or 0-d Tensor): negative ones count from the end
    - `length` (int): how many

    RuntimeError for a length out of range, IndexError for a `dim` or start out of range.

    Example::

        >>> import ferro
        >>> ferro.narrow(ferro.tensor([1, 2, 3, 4]), 0, 1, 2)
        tensor([2, 3])
    """
    shape = input._data.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = one_dim("narrow", len(shape), dim)
    if isinstance(start, TensorBase) and (start._data.ndim or start._data.dtype.kind not in "iu"):
        raise RuntimeError("narrow: start must be an 0-dim integral Tensor.")
    begin: Any = start
    i, length = int(begin), int(length)
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative. Got {length}")
    if not -shape[d] <= i <= shape[d]:
        raise IndexError(
            f"narrow(): start out of range (expected to be in range of [{-shape[d]}, {shape[d]}], but got {i}) for "
            f"dimension {d} of the shape {list(shape)}"
        )
    i = i + shape[d] if i < 0 else i
    if i + length > shape[d]:
        raise RuntimeError(f"narrow(): start ({i}) + length ({length}) exceeds dimension size ({shape[d]}).")
    return viewed(NARROW, input, ((ALL,) * d + (slice(i, i + length), ...),))


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor with `src` as its slice at `index` along `dim`.

    - `input` (Tensor): of one or more dimensions
    - `src` (Tensor): in the shape of the slice
    - `dim`, `index` (int): which slice

    RuntimeError for another shape, IndexError for a `dim` or index out of range.

    Example::

        >>> import ferro
        >>> ferro.select_scatter(ferro.zeros(2, 2), ferro.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    key = _select_key("select_scatter", input, dim, index)
    return _put("select_scatter", input, src, key)


declare("select_scatter", [Sample(Arg(3, 4), Arg(4), 0, 1), Sample(Arg(3, 4), Arg(3), -1, -2)])


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of the tensor with `src` as its slice start:end:step along `dim`.

    - `input` (Tensor): of one or more dimensions
    - `src` (Tensor): in the shape of the slice
    - `dim` (int, default 0): the dimension
    - `start`, `end` (int, default None): as between brackets
    - `step` (int, default 1): positive

    RuntimeError for another shape and a step that is not positive, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.slice_scatter(ferro.zeros(4), ferro.ones(2), start=0, end=4, step=2)
        tensor([1., 0., 1., 0.])
    """
    if step <= 0:
        raise RuntimeError(f"slice_scatter: slice step must be positive, got {step}")
    d = one_dim("slice_scatter", input._data.ndim, dim)
    return _put("slice_scatter", input, src, (ALL,) * d + (slice(start, end, step), ...))


declare(
    "slice_scatter",
    [Sample(Arg(4, 3), Arg(2, 3), 0, 1, 3), Sample(Arg(3, 5), Arg(3, 2), 1, 0, 4, 2), Sample(Arg(3), Arg(3))],
)


def _put(name: str, x: Any, src: Any, key: tuple) -> Tensor:
    place = x._data[key].shape
    if need_tensor(name, "src", src)._data.shape != place:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src._data.shape)}, "
            f"slice size = {list(place)}"
        )
    return slice_put(x, src, key)


# -- diagonals ---------------------------------------------------------------------------------------------------------


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of the matrices in two dimensions as the last dimension of a view.

    - `input` (Tensor): of two or more dimensions
    - `offset` (int, default 0): places to the right of the main diagonal; negative ones lie below it
    - `dim1`, `dim2` (int, default 0 and 1): the dimensions

    RuntimeError for equal dimensions, IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.diagonal(ferro.tensor([[1, 2], [3, 4]])), ferro.diagonal(ferro.tensor([[1, 2], [3, 4]]), offset=1)
        (tensor([1, 4]), tensor([2]))
    """
    d1, d2 = _two_dims("diagonal", input, dim1, dim2)
    return viewed(DIAGONAL, input, (int(offset), d1, d2))


def matrix_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the matrices in the last two dimensions, or others, as the last dimension of a view.

    - `A` (Tensor): (..., n, m)
    - `offset` (int, default 0): places to the right of the main diagonal; negative ones lie below it
    - `dim1`, `dim2` (int, default -2 and -1): the dimensions

    RuntimeError for equal dimensions, IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.linalg.diagonal(ferro.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return diagonal(A, offset, dim1, dim2)


declare(
    "linalg.diagonal",
    [Sample(Arg(3, 3)), Sample(Arg(2, 3, 4), offset=1), Sample(Arg(2, 3, 4), dim1=0, dim2=1)],
    complex=True,
)


def _two_dims(name: str, x: Any, dim1: int, dim2: int) -> tuple[int, int]:
    n = x._data.ndim
    if not n:
        raise IndexError(f"{name}: Dimension specified as {dim1} but tensor has no dimensions")
    d1, d2 = one_dim(name, n, dim1, "dim1"), one_dim(name, n, dim2, "dim2")
    if d1 == d2:
        raise RuntimeError(f"{name}: diagonal dimensions cannot be identical {dim1}, {dim2}")
    return d1, d2


DIAGONAL = Op(
    "diagonal",
    lambda xp, x, /, offset, dim1, dim2: xp.diagonal(x, offset, dim1, dim2),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape, offset, dim1, dim2: xp.diagonal_put(xp.new_zeros(g, x_shape), g, offset, dim1, dim2),
    samples=[
        Sample(Arg(3, 3)),
        Sample(Arg(3, 4), 1),
        Sample(Arg(3, 4), -2),
        Sample(Arg(2, 3, 4), 0, -1, 0),
        Sample(Arg(2, 3), 5),
    ],
    complex=True,
)

DIAGONAL_PUT = Op(
    "diagonal_put",
    lambda xp, x, src, /, offset, dim1, dim2: xp.diagonal_put(x, src, offset, dim1, dim2),
    kind=LINEAR,
    x=lambda xp, g, src_shape, offset, dim1, dim2: xp.diagonal_put(g, xp.new_zeros(g, src_shape), offset, dim1, dim2),
    src=lambda xp, g, offset, dim1, dim2: xp.diagonal(g, offset, dim1, dim2),
    layout=FIRST,
)


def diagonal_put(x: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """x with src on a diagonal; arguments in normal form."""
    return apply(DIAGONAL_PUT, (x, src), (offset, dim1, dim2))


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor with `src` as its diagonal.

    - `input` (Tensor): of two or more dimensions
    - `src` (Tensor): in the shape that :func:`diagonal` gives
    - `offset` (int, default 0): places to the right of the main diagonal
    - `dim1`, `dim2` (int, default 0 and 1): the dimensions of the matrices

    RuntimeError for another shape, IndexError for a dimension out of range.

    Example::

        >>> import ferro
        >>> ferro.diagonal_scatter(ferro.zeros(2, 2), ferro.tensor([5.0, 6.0]))
        tensor([[5., 0.],
                [0., 6.]])
    """
    d1, d2 = _two_dims("diagonal_scatter", input, dim1, dim2)
    place = diagonal(input.detach(), offset, d1, d2)._data.shape
    if need_tensor("diagonal_scatter", "src", src)._data.shape != place:
        raise RuntimeError(
            f"diagonal_scatter: expected src to have a size equal to the slice of self. src size = {list(src._data.shape)}, "
            f"slice size = {list(place)}"
        )
    return diagonal_put(input, src, int(offset), d1, d2)


declare(
    "diagonal_scatter",
    [Sample(Arg(3, 3), Arg(3)), Sample(Arg(3, 4), Arg(3), -1, 1, 0), Sample(Arg(2, 3, 3), Arg(2, 2), 1, 1, 2)],
    complex=True,
)


# -- pieces ------------------------------------------------------------------------------------------------------------


def _split_x(xp: Any, g: tuple, x_shape: tuple, lengths: tuple, dim: int) -> Any:
    return xp.cat(_with_zeros(xp, g, lambda i: (*x_shape[:dim], lengths[i], *x_shape[dim + 1 :])), dim)


def _with_zeros(xp: Any, g: tuple, shape: Any) -> tuple:
    """The cotangents of pieces, zeros of shape(i) in the place of absent ones."""
    for p in g:
        if p is None:
            some = next(p for p in g if p is not None)
            return tuple([xp.new_zeros(some, shape(i)) if p is None else p for i, p in enumerate(g)])
    return g


SPLIT = Op(
    "split",
    lambda xp, x, /, lengths, dim: xp.split(x, lengths, dim),
    kind=LINEAR,
    view=True,
    outputs="*",
    x=_split_x,
    complex=True,
    samples=[
        Sample(Arg(5, 2), 2),
        Sample(Arg(2, 6), 3, 1),
        Sample(Arg(5, 2), [1, 4]),
        Sample(Arg(2, 5), (2, 0, 3), -1),
    ],
)

UNSAFE_SPLIT = Op(
    "unsafe_split",
    lambda xp, x, /, lengths, dim: xp.split(x, lengths, dim),
    kind=LINEAR,
    outputs="*",
    x=_split_x,
    samples=[Sample(Arg(5, 2), 2), Sample(Arg(2, 6), 3, 1)],
    complex=True,
)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the tensor: pieces along `dim`.

    - `tensor` (Tensor): of one or more dimensions
    - `split_size_or_sections` (int or ints): the size of all pieces (the last may be smaller), or the size of each
    - `dim` (int, default 0): the dimension that is cut

    A tuple of tensors. RuntimeError for sizes with another sum than the size along `dim`.

    Example::

        >>> import ferro
        >>> [p.tolist() for p in ferro.arange(5).split(2)]
        [[0, 1], [2, 3], [4]]
        >>> [p.tolist() for p in ferro.arange(5).split([1, 4])]
        [[0], [1, 2, 3, 4]]
    """
    return _split("split", SPLIT, tensor, split_size_or_sections, dim)


def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the tensor: pieces along `dim` of the given sizes.

    - `input` (Tensor): of one or more dimensions
    - `split_sizes` (ints): their sum is the size along `dim`
    - `dim` (int, default 0): the dimension

    A tuple of tensors. RuntimeError for sizes with another sum.

    Example::

        >>> import ferro
        >>> [p.tolist() for p in ferro.split_with_sizes(ferro.arange(4), [1, 3])]
        [[0], [1, 2, 3]]
    """
    return _split("split_with_sizes", SPLIT, input, tuple(split_sizes), dim)


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """split(), whose pieces share memory without counting as views: changing one in place is not seen by gradients."""
    return _split("unsafe_split", UNSAFE_SPLIT, input, split_size, dim)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """split_with_sizes(), whose pieces share memory without counting as views."""
    return _split("unsafe_split_with_sizes", UNSAFE_SPLIT, input, tuple(split_sizes), dim)


def _split(name: str, op: Op, x: Any, given: Any, dim: int) -> tuple[Tensor, ...]:
    shape = x._data.shape
    if not shape:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    d = one_dim(name, len(shape), dim)
    n = shape[d]
    if isinstance(given, (tuple, list)):
        lengths = sizes(name, (given,))
        name = name if name.endswith("with_sizes") else f"{name}_with_sizes"
        if any(s < 0 for s in lengths):
            raise RuntimeError(
                f"{name} expects split_sizes have only non-negative entries, but got split_sizes={list(lengths)}"
            )
        if sum(lengths) != n:
            raise RuntimeError(
                f"{name} expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but got "
                f"split_sizes={list(lengths)}"
            )
    else:
        size = given if type(given) is int else sizes(name, (given,))[0]
        if size == 0 and n:
            raise RuntimeError(
                f"{name}: split_size can only be 0 if dimension size is 0, but got dimension size of {n}: dimension {d}"
            )
        if size < 0:
            raise RuntimeError(
                f"{name} expects split_size be non-negative, but got split_size={size} for dimension {d} of size {n}"
            )
        lengths = _lengths(n, size)
    return parted(op, x, (lengths, d)) if op is SPLIT else apply(op, (x,), (lengths, d))


def _lengths(n: int, size: int) -> tuple:
    """The lengths of pieces of `size` elements, the last perhaps shorter; one empty piece of nothing."""
    if not n:
        return (0,)
    rest = n % size
    return (size,) * (n // size) + (rest,) if rest else (size,) * (n // size)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the tensor: at most `chunks` pieces along `dim`, all of one size but the last.

    Example::

        >>> import ferro
        >>> [p.tolist() for p in ferro.arange(5).chunk(2)]
        [[0, 1, 2], [3, 4]]
    """
    return _chunk("chunk", SPLIT, input, chunks, dim)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """chunk(), whose pieces share memory without counting as views."""
    return _chunk("unsafe_chunk", UNSAFE_SPLIT, input, chunks, dim)


def _chunk(name: str, op: Op, x: Any, chunks: int, dim: int) -> tuple:
    shape = x._data.shape
    if not shape:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"{name} expects `chunks` to be greater than 0, got: {chunks}")
    d = one_dim(name, len(shape), dim)
    n = shape[d]
    lengths = _lengths(n, -(-n // chunks)) if n else (0,) * chunks
    return parted(op, x, (lengths, d)) if op is SPLIT else apply(op, (x,), (lengths, d))


declare("chunk", [Sample(Arg(5, 2), 2), Sample(Arg(2, 6), 4, 1), Sample(Arg(0, 2), 3)], complex=True)


MOST_SECTIONS = 1 << 20  # of a dimension that has fewer elements: the rest are empty


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Views of the tensor along `dim`: pieces of sizes that differ by at most 1, or pieces that begin at given places.

    - `input` (Tensor): of one or more dimensions
    - `indices_or_sections` (int, ints or Tensor, default None): the number of pieces, or where all but the first begin
    - `dim` (int, default 0): the dimension
    - `indices`, `sections` (int, ints or Tensor, default None): the same by name

    A tuple of tensors. RuntimeError for a number that is not positive and a 0-d input, IndexError for a `dim` out of
    range.

    Example::

        >>> import ferro
        >>> [p.tolist() for p in ferro.tensor_split(ferro.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
    where = next((a for a in (indices_or_sections, indices, sections) if a is not None), None)
    return _tensor_split("tensor_split", input, where, dim)


def _tensor_split(name: str, x: Any, where: Any, dim: int) -> tuple[Tensor, ...]:
    shape = x._data.shape
    if not shape:
        raise RuntimeError(f"{name} expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = one_dim(name, len(shape), dim)
    n = shape[d]
    if isinstance(where, TensorBase):
        array: Any = where._data
        if array.ndim > 1:
            raise RuntimeError(
                f"{name} expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a "
                f"tensor with {array.ndim} dims"
            )
        if array.dtype is not int64.np:
            raise RuntimeError(
                f"{name} expected tensor_indices_or_sections to have dtype of long, but got {type_name(FROM_NUMPY[array.dtype])}"
            )
        where = array.tolist()
    if isinstance(where, (tuple, list)):
        edges = [min(max(i + n if i < 0 else i, 0), n) for i in sizes(name, (where,))]
        bounds = list(zip([0, *edges], [*edges, n], strict=True))
    else:
        count = sizes(name, (where,))[0]
        if count <= 0:
            raise RuntimeError(f"{name}: number of sections must be larger than 0, got {count}")
        if count > max(n, MOST_SECTIONS):
            raise RuntimeError(
                f"{name}: {count} sections of a dimension of size {n}: at most {MOST_SECTIONS} may be empty"
            )
        small, extra = divmod(n, count)
        starts = [i * small + min(i, extra) for i in range(count + 1)]
        bounds = list(pairwise(starts))
    return tuple([viewed(SLICE, x, ((ALL,) * d + (slice(a, max(a, b)), ...),)) for a, b in bounds])


declare("tensor_split", [Sample(Arg(5, 2), 3), Sample(Arg(2, 6), (1, 4), 1), Sample(Arg(4), [3, 2])], complex=True)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split() along the second dimension (the first of a 1-D tensor)."""
    n = input._data.ndim
    return _even("hsplit", input, indices_or_sections, 0 if n == 1 else 1, 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split() along the first dimension of a tensor of two or more."""
    return _even("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split() along the third dimension of a tensor of three or more."""
    return _even("dsplit", input, indices_or_sections, 2, 3)


def _even(name: str, x: Any, where: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    shape = x._data.shape
    if len(shape) < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{len(shape)} dimensions!"
        )
    if not isinstance(where, (int, tuple, list, TensorBase)):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, {type(where).__name__}); the second is an "
            "int, the number of parts, or a tuple of ints, where to cut"
        )
    if isinstance(where, int) and (where <= 0 or shape[dim] % where):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {shape[dim]} is not "
            f"divisible by the split_size {where}!"
        )
    return _tensor_split(name, x, where, dim)


declare("hsplit", [Sample(Arg(2, 6), 3), Sample(Arg(4), (1, 3))], complex=True)
declare("vsplit", [Sample(Arg(4, 3), 2), Sample(Arg(4, 3), (1, 3))], complex=True)
declare("dsplit", [Sample(Arg(2, 1, 4), 2), Sample(Arg(2, 1, 4), (1,))], complex=True)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`, without that dimension: views."""
    if not input._data.ndim:
        raise IndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    return parted(UNBIND, input, (one_dim("unbind", input._data.ndim, dim),))


def _unbind_x(xp: Any, g: tuple, x_shape: tuple, dim: int) -> Any:
    return xp.stack(_with_zeros(xp, g, lambda i: x_shape[:dim] + x_shape[dim + 1 :]), dim)


UNBIND = Op(
    "unbind",
    lambda xp, x, /, dim: xp.unbind(x, dim),
    kind=LINEAR,
    view=True,
    outputs="*",
    x=_unbind_x,
    complex=True,
    samples=[Sample(Arg(3, 2)), Sample(Arg(3, 2), 1), Sample(Arg(2), -1), Sample(Arg(2, 0))],
)


# -- windows and strides -----------------------------------------------------------------------------------------------


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along a dimension, `step` apart, as a view; the window is the last dimension.

    - `self` (Tensor): any shape
    - `dimension` (int): the dimension
    - `size`, `step` (int): of the windows

    RuntimeError for a size out of range and a step that is not positive, IndexError for a dimension out of range.

    Example::

        >>> import ferro
        >>> ferro.arange(5).unfold(0, size=3, step=1)
        tensor([[0, 1, 2],
                [1, 2, 3],
                [2, 3, 4]])
    """
    shape = self._data.shape
    d = one_dim("unfold", len(shape), dimension, "dimension")
    n = shape[d] if shape else 1
    if size < 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"unfold: maximum size for tensor at dimension {d} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    return viewed(UNFOLD, self, (d, size, step))


UNFOLD = Op(
    "unfold",
    lambda xp, x, /, dim, size, step: xp.windows(x, dim, size, step),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape, dim, size, step: xp.windows_add(g, x_shape, dim, size, step),
    path="Tensor.unfold",
    samples=[Sample(Arg(7), 0, 3, 1), Sample(Arg(2, 7), 1, 2, 3), Sample(Arg(4, 2), 0, 4, 1), Sample(Arg(5), 0, 0, 2)],
    complex=True,
)

WINDOWS_ADD = Op(
    "windows_add",
    lambda xp, x, /, shape, dim, size, step: xp.windows_add(x, shape, dim, size, step),
    kind=LINEAR,
    x=lambda xp, g, dim, size, step: xp.windows(g, dim, size, step),
)


def windows(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows along a dimension; arguments in normal form."""
    return viewed(UNFOLD, x, (dim, size, step))


def windows_add(g: Tensor, shape: tuple, dim: int, size: int, step: int) -> Tensor:
    """The transpose of unfold: what overlaps in windows is added."""
    return unary(WINDOWS_ADD, g, (shape, dim, size, step))


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the tensor's storage with any shape, strides and offset; places may overlap.

    - `input` (Tensor): any shape
    - `size`, `stride` (ints): of the view, in elements
    - `storage_offset` (int, default None): where it begins; None: where `input` does

    The gradient of an element is the sum over the places at which the view shows it; where several elements of the
    input lie at one place (an expanded input), each gets an equal share. RuntimeError for a view that reaches beyond
    the storage, and for negative strides.

    Example::

        >>> import ferro
        >>> ferro.as_strided(ferro.arange(4), (3, 2), (1, 1))
        tensor([[0, 1],
                [1, 2],
                [2, 3]])
    """
    where = _strided_arguments("as_strided", input, size, stride, storage_offset)
    out = unary(AS_STRIDED, input, where)
    have = input._meta.view if input._meta is not None else None
    if (
        have is not None and out._meta is not None and out._meta.view is not None
    ):  # written through, it reaches beyond its input
        out._meta.view.steps = ((AS_STRIDED, (*where[:3], geometry(have.base._data)), None),)
    return out


def _strided_arguments(name: str, x: Any, size: Any, stride: Any, offset: Any) -> tuple:
    source = geometry(x._data)
    shape, steps = sizes(name, (size,)), sizes(name, (stride,))
    start = source[2] if offset is None else int(offset)
    if len(shape) != len(steps):
        raise RuntimeError(f"{name}: mismatch in length of strides and shape: {list(steps)} and {list(shape)}")
    if start < 0:
        raise RuntimeError(f"{name}: storage_offset must be non-negative, got {start}")
    if any(s < 0 for s in steps):
        raise RuntimeError(f"{name}: Negative strides are not supported at the moment, got strides: {list(steps)}")
    item = x._data.dtype.itemsize
    need, have = reach(shape, steps, start) * item, storage_bytes(x._data)
    if need > have:
        raise RuntimeError(
            f"{name}: setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {start}, and itemsize {item} "
            f"requiring a storage size of {need} are out of bounds for storage of size {have}"
        )
    return shape, steps, start, source


AS_STRIDED = Op(
    "as_strided",
    lambda xp, x, /, size, stride, offset, source: xp.as_strided(x, size, stride, offset, source),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, size, stride, offset, source: xp.as_strided_add(g, size, stride, offset, source),
)

AS_STRIDED_READ = Op(
    "as_strided_read",
    lambda xp, x, /, size, stride, offset, source: xp.as_strided_read(x, size, stride, offset, source),
    kind=LINEAR,
    x=lambda xp, g, size, stride, offset, source: xp.as_strided_add(g, size, stride, offset, source),
)

AS_STRIDED_ADD = Op(
    "as_strided_add",
    lambda xp, x, /, size, stride, offset, source: xp.as_strided_add(x, size, stride, offset, source),
    kind=LINEAR,
    x=lambda xp, g, size, stride, offset, source: xp.as_strided_read(g, size, stride, offset, source),
)

AS_STRIDED_PUT = Op(
    "as_strided_put",
    lambda xp, x, src, /, size, stride, offset, source: xp.as_strided_put(x, src, size, stride, offset, source),
    kind=LINEAR,
    x=lambda xp, g, src_shape, size, stride, offset, source: xp.as_strided_put(
        g, xp.new_zeros(g, src_shape), size, stride, offset, source
    ),
    src=lambda xp, g, size, stride, offset, source: xp.as_strided_read(g, size, stride, offset, source),
)


def as_strided_read(x: Tensor, size: tuple, stride: tuple, offset: int, source: tuple) -> Tensor:
    """as_strided() of a tensor that is read as if it were laid out like `source`."""
    return unary(AS_STRIDED_READ, x, (size, stride, offset, source))


def as_strided_add(g: Tensor, size: tuple, stride: tuple, offset: int, source: tuple) -> Tensor:
    """The transpose of as_strided_read()."""
    return unary(AS_STRIDED_ADD, g, (size, stride, offset, source))


def as_strided_put(x: Tensor, src: Tensor, size: tuple, stride: tuple, offset: int, source: tuple) -> Tensor:
    """x, read as if it were laid out like `source`, with src in the view (size, stride, offset) of its storage."""
    return apply(AS_STRIDED_PUT, (x, src), (size, stride, offset, source))


def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy of the tensor with `src` in the view of its storage that :func:`as_strided` gives.

    - `input` (Tensor): any shape
    - `src` (Tensor): in the shape `size`
    - `size`, `stride` (ints): of the view, in elements
    - `storage_offset` (int, default None): where it begins; None: where `input` does

    RuntimeError for another shape and a view that reaches beyond the storage.

    Example::

        >>> import ferro
        >>> ferro.as_strided_scatter(ferro.zeros(4), ferro.ones(2), (2,), (2,))
        tensor([1., 0., 1., 0.])
    """
    where = _strided_arguments("as_strided_scatter", input, size, stride, storage_offset)
    if need_tensor("as_strided_scatter", "src", src)._data.shape != where[0]:
        raise RuntimeError(
            f"as_strided_scatter: expected src to have a size equal to the slice of self. src size = {list(src._data.shape)}, "
            f"slice size = {list(where[0])}"
        )
    return as_strided_put(input, src, *where)


class PartsMethods:
    """Methods of Tensor."""

    __slots__ = ()
    as_strided, as_strided_scatter, chunk = as_strided, as_strided_scatter, chunk
    diagonal, diagonal_scatter, dsplit, hsplit, narrow = diagonal, diagonal_scatter, dsplit, hsplit, narrow
    select, select_scatter, slice_scatter = select, select_scatter, slice_scatter
    split_with_sizes, tensor_split, unbind, unfold, vsplit = split_with_sizes, tensor_split, unbind, unfold, vsplit
    unsafe_chunk, unsafe_split, unsafe_split_with_sizes = unsafe_chunk, unsafe_split, unsafe_split_with_sizes
    as_strided_ = restride(as_strided)

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along `dim`: see :func:`ferro.split`."""
        return split(self, split_size, dim)
