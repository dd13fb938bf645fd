"""Windows along a dimension, and views by given strides; the sums and copies that undo them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim, sizes
from ferro.core.inplace import restride
from ferro.core.layout import geometry, reach, storage_bytes
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.core.views import viewed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["as_strided", "as_strided_scatter"]


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


class StridedMethods:
    """Methods of Tensor."""

    __slots__ = ()
    as_strided, as_strided_scatter = as_strided, as_strided_scatter
    unfold = unfold
    as_strided_ = restride(as_strided)
