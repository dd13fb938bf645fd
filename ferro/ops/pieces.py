"""Tensors cut into pieces along a dimension."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import one_dim, sizes
from ferro.core.base import TensorBase
from ferro.core.dtypes import FROM_NUMPY, int64, type_name
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import parted, viewed
from ferro.ops.slices import ALL, SLICE

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk",
           "unsafe_split", "unsafe_split_with_sizes", "vsplit"]  # fmt: skip


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


class PieceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    chunk = chunk
    dsplit, hsplit = dsplit, hsplit
    split_with_sizes, tensor_split, unbind, vsplit = split_with_sizes, tensor_split, unbind, vsplit
    unsafe_chunk, unsafe_split, unsafe_split_with_sizes = unsafe_chunk, unsafe_split, unsafe_split_with_sizes

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along `dim`: see :func:`ferro.split`."""
        return split(self, split_size, dim)
