"""Adaptive pooling: means and maxima over as many windows as the result has elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ferro.core.apply import apply, unary
from ferro.core.casting import in_full_precision
from ferro.core.layout import IMAGES
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.average_pooling import avg_pool
from ferro.ops.max_pooling import MAX_POOL, _distinct
from ferro.ops.pooling_arguments import (
    need_cotangent,
    spatial,
    target,
)

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["adaptive_avg_pool1d"]


def adaptive_avg(x: Any, size: tuple) -> Tensor:
    """Means of the parts of images; arguments normalised."""
    return unary(ADAPTIVE_AVG, x, (size,))


def adaptive_avg_spread(g: Any, shape: tuple) -> Tensor:
    """The adjoint of `adaptive_avg`; arguments normalised."""
    return unary(ADAPTIVE_AVG_SPREAD, g, (shape,))


ADAPTIVE_AVG = Op(
    "adaptive_avg_pool",
    lambda xp, x, /, size: xp.adaptive_avg(x, size),
    kind=LINEAR,
    x=lambda xp, g, x_shape, size: xp.adaptive_avg_spread(need_cotangent("avg", g, size), spatial(x_shape, size)),
    layout=IMAGES,
)
ADAPTIVE_AVG_SPREAD = Op(
    "adaptive_avg_spread",
    lambda xp, x, /, shape: xp.adaptive_avg_spread(x, shape),
    kind=LINEAR,
    x=lambda xp, g, x_shape, shape: xp.adaptive_avg(g, spatial(x_shape, shape)),
)


def _adaptive_avg(name: str, n: int, x: Any, output_size: Any) -> Tensor:
    """Adaptive average pooling in n dimensions."""
    shape, size = target(name, n, x, output_size)
    if 0 in size or any(s % o for s, o in zip(shape, size, strict=True)):
        return adaptive_avg(x, size)
    kernel = tuple([s // o for s, o in zip(shape, size, strict=True)])
    count = 1
    for k in kernel:
        count *= k
    return avg_pool(x, kernel, size, kernel, (0,) * n, count)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of signals, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `output_size` (int): how many parts there are along each dimension; None keeps a size

    The result is (N, C, L'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool1d(ferro.tensor([[[1.0, 3.0, 5.0, 9.0]]]), 2)
        tensor([[[2., 7.]]])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of images, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `output_size` (int or pair): how many parts there are along each dimension; None keeps a size

    The result is (N, C, H', W'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool2d(ferro.ones(1, 2, 6, 4), (3, None)).shape
        ferro.Size([1, 2, 3, 4])
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


@in_full_precision
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The means of equal parts of volumes, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `output_size` (int or triple): how many parts there are along each dimension; None keeps a size

    The result is (N, C, D', H', W'). RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_avg_pool3d(ferro.ones(1, 2, 6, 4, 4), 2).shape
        ferro.Size([1, 2, 2, 2, 2])
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


declare("nn.functional.adaptive_avg_pool1d", [Sample(Arg(2, 2, 7), 3), Sample(Arg(2, 6), 2), Sample(Arg(0, 2, 4), 2)])
declare(
    "nn.functional.adaptive_avg_pool2d",
    [
        Sample(Arg(2, 2, 5, 4), (3, None)),
        Sample(Arg(2, 4, 6), 2),
        Sample(Arg(1, 2, 3, 3), 1),
        Sample(Arg(1, 2, 2, 2), 3),
    ],
)
declare("nn.functional.adaptive_avg_pool3d", [Sample(Arg(1, 2, 5, 4, 3), (3, None, 2)), Sample(Arg(2, 4, 2, 2), 2)])


ADAPTIVE_MAX = Op(
    "adaptive_max_pool",
    lambda xp, x, /, size: xp.adaptive_max(x, size),
    outputs=("out", "indices"),
    nondiff=("indices",),
    x=lambda xp, g, x_shape, indices, size: xp.pool_scatter(
        need_cotangent("max", g, size), indices, spatial(x_shape, size)
    ),
    layout=IMAGES,
)


def _adaptive_max(name: str, n: int, x: Any, output_size: Any) -> tuple:
    """Adaptive max pooling in n dimensions: values and indices."""
    shape, size = target(name, n, x, output_size)
    if 0 in size or any(s % o for s, o in zip(shape, size, strict=True)):
        return apply(ADAPTIVE_MAX, (x,), (size,))
    kernel = tuple([s // o for s, o in zip(shape, size, strict=True)])
    return apply(MAX_POOL, (x,), (kernel, size, kernel, (0,) * n, (1,) * n))


@overload
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of signals, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `output_size` (int): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened a signal

    The result is (N, C, L'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool1d(ferro.tensor([[[1.0, 3.0, 5.0, 9.0]]]), 2)
        tensor([[[3., 9.]]])
    """
    found = _adaptive_max("adaptive_max_pool1d", 1, input, output_size)
    return found if return_indices else found[0]


@overload
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of images, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `output_size` (int or pair): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened an image

    The result is (N, C, H', W'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool2d(ferro.ones(1, 2, 6, 4), (3, None)).shape
        ferro.Size([1, 2, 3, 4])
    """
    found = _adaptive_max("adaptive_max_pool2d", 2, input, output_size)
    return found if return_indices else found[0]


@overload
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: Literal[False] = False) -> Tensor: ...


@overload
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...


@in_full_precision
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of equal parts of volumes, which overlap where the division leaves a remainder.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `output_size` (int or triple): how many parts there are along each dimension; None keeps a size
    - `return_indices` (bool, default False): gives (maxima, positions), positions in the flattened a volume

    The result is (N, C, D', H', W'). The gradient goes to the first maximum of a part. RuntimeError for other shapes.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.adaptive_max_pool3d(ferro.ones(1, 2, 6, 4, 4), 2).shape
        ferro.Size([1, 2, 2, 2, 2])
    """
    found = _adaptive_max("adaptive_max_pool3d", 3, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool1d` with the positions of the maxima."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool2d` with the positions of the maxima."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
    """:func:`adaptive_max_pool3d` with the positions of the maxima."""
    return adaptive_max_pool3d(input, output_size, True)


declare(
    "nn.functional.adaptive_max_pool1d",
    [Sample(_distinct(2, 2, 7), 3, return_indices=True), Sample(_distinct(2, 6), 2)],
)
declare(
    "nn.functional.adaptive_max_pool2d", [Sample(_distinct(2, 2, 5, 4), (3, None), True), Sample(_distinct(2, 4, 6), 2)]
)
declare(
    "nn.functional.adaptive_max_pool3d",
    [Sample(_distinct(1, 2, 5, 4, 3), (3, None, 2), True), Sample(_distinct(2, 4, 2, 2), 2)],
)
