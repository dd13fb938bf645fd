"""Images by the positions of maxima: gathering and scattering at flat indices, the inverse of max pooling."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ferro.batched.array import plain
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.layout import CHANNELS
from ferro.core.op import Op
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.convolution import ints
from ferro.ops.pooling_arguments import image

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def pool_gather(x: Any, index: Any, dims: int) -> Tensor:
    """The elements of images (the last `dims` dimensions) at flat indices."""
    return apply(POOL_GATHER, (x, index), (dims,))


def pool_scatter(x: Any, index: Any, size: tuple) -> Tensor:
    """Images of shape `size` with the elements of x added at flat indices."""
    return apply(POOL_SCATTER, (x, index), (size,))


POOL_GATHER = Op(
    "pool_gather",
    lambda xp, x, index, /, dims: xp.pool_gather(x, index, dims),
    x=lambda xp, g, x_shape, index, dims: xp.pool_scatter(g, index, x_shape[len(x_shape) - dims :]),
)
POOL_SCATTER = Op(
    "pool_scatter",
    lambda xp, x, index, /, size: xp.pool_scatter(x, index, size),
    x=lambda xp, g, index, size: xp.pool_gather(g, index, len(size)),
)


# -- the inverse of max pooling ----------------------------------------------------------------------------------------

UNPOOL = Op(
    "max_unpool",
    lambda xp, x, index, /, size: xp.unpool(x, index, size),
    x=lambda xp, g, index, size: xp.pool_gather(g, index, len(size)),
    layout=CHANNELS,
)


def _unpooled(name: str, n: int, shape: tuple, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> tuple:
    """The spatial shape of what was pooled to `shape`: `output_size`, if the windows allow it."""
    kernel = ints(name, "kernel_size", kernel_size, n, 1)
    step = kernel if stride is None else ints(name, "stride", stride, n, 1)
    pad = ints(name, "padding", padding, n)
    size = tuple([(s - 1) * st + k - 2 * p for s, st, k, p in zip(shape, step, kernel, pad, strict=True)])
    if output_size is not None:
        wanted = tuple([operator.index(s) for s in output_size])
        wanted = wanted[2:] if len(wanted) == n + 2 else wanted
        if len(wanted) != n:
            raise ValueError(
                f"{name}: output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
                f"{len(output_size)}"
            )
        for d, (w, s, st) in enumerate(zip(wanted, size, step, strict=True)):
            if not s - st < w < s + st:
                raise ValueError(
                    f"{name}: invalid output_size {tuple(output_size)}: dim {d} must be between {s - st} and {s + st}"
                )
        size = wanted
    if min(size) < 0:
        raise ValueError(f"{name}: output_size must contain non-negative spatial dimensions, but got {size}")
    return size


def _check_positions(name: str, shape: tuple, indices: Any, size: tuple) -> None:
    """Refuses indices of another dtype or shape than the maxima's, and such outside of images of `size`."""
    need_tensor(name, "indices", indices)
    index = indices._data
    if index.dtype != "int64":
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {FROM_NUMPY[index.dtype]}")
    if index.shape != shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got "
            f"indices tensor with shape: {list(index.shape)}"
        )
    area = 1
    for s in size:
        area *= s
    numbers = plain(index)
    require(
        (index >= 0) & (index < area),
        RuntimeError,
        f"{name}: Found an invalid max index",
        lambda: (
            f": {int(numbers.max() if numbers.max() >= area else numbers.min())} (output volumes are of size "
            f"{'x'.join(map(str, size))})"
        ),
    )


def _max_unpool(
    name: str, n: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    """The inverse of max pooling in n dimensions."""
    size = _unpooled(name, n, image(name, x, n), kernel_size, stride, padding, output_size)
    _check_positions(name, x._data.shape, indices, size)
    return apply(UNPOOL, (x, indices), (size,))


@in_full_precision
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Signals that are zero but for the elements of `input` at the `indices` that :func:`max_pool1d` returned.

    - `input` (Tensor): maxima, (N, C, L) or (C, L)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int, default None and 0): those of the pooling; stride None is the size of the window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool1d(ferro.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2, return_indices=True)
        >>> F.max_unpool1d(x, i, 2)
        tensor([[[0., 3., 2., 0.]]])
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@in_full_precision
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Images that are zero but for the elements of `input` at the `indices` that :func:`max_pool2d` returned.

    - `input` (Tensor): maxima, (N, C, H, W) or (C, H, W)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int or pair): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int or pair, default None and 0): those of the pooling; stride None is the size of the window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool2d(ferro.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
        >>> F.max_unpool2d(x, i, 2)
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@in_full_precision
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """Volumes that are zero but for the elements of `input` at the `indices` that :func:`max_pool3d` returned.

    - `input` (Tensor): maxima, (N, C, D, H, W) or (C, D, H, W)
    - `indices` (Tensor): their positions, int64, in the shape of `input`
    - `kernel_size` (int or triple): those of the pooling; stride None is the size of the window
    - `stride`, `padding` (int or triple, default None and 0): those of the pooling; stride None is the size of the
      window
    - `output_size` (sequence of ints, default None): the size of what was pooled, where several sizes give one pooled
      size; None: (L - 1) stride - 2 padding + K

    RuntimeError for indices of another dtype or shape or out of range, ValueError for an output size that does not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, i = F.max_pool3d(ferro.arange(8.0).reshape(1, 1, 2, 2, 2), 2, return_indices=True)
        >>> F.max_unpool3d(x, i, 2)
        tensor([[[[[0., 0.],
                   [0., 0.]],
        <BLANKLINE>
                  [[0., 0.],
                   [0., 7.]]]]])
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


declare(
    "nn.functional.max_unpool1d",
    [
        Sample(Arg(1, 2, 2), Arg(1, 2, 2, values=[0, 3, 1, 2], dtype="int64"), 2),
        Sample(Arg(1, 2), Arg(1, 2, values=[0, 4], dtype="int64"), 2, output_size=(5,)),
    ],
)
declare(
    "nn.functional.max_unpool2d", [Sample(Arg(1, 1, 2, 2), Arg(1, 1, 2, 2, values=[0, 3, 9, 15], dtype="int64"), 2)]
)
declare("nn.functional.max_unpool3d", [Sample(Arg(1, 1, 1, 2), Arg(1, 1, 1, 2, values=[0, 15], dtype="int64"), 2)])
