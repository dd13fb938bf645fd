"""Fractional max pooling: maxima of windows that are placed pseudo-randomly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.max_pooling import _distinct
from ferro.ops.pooling_arguments import (
    check_samples,
    fractional_image,
    fractional_windows,
    spatial,
)
from ferro.ops.random import rand

if TYPE_CHECKING:
    from ferro.tensor import Tensor


FRACTIONAL_MAX = Op(
    "fractional_max_pool",
    lambda xp, x, samples, /, kernel, size: xp.fractional_max(x, samples, kernel, size),
    outputs=("out", "indices"),
    nondiff=("indices",),
    x=lambda xp, g, x_shape, indices, size: xp.pool_scatter(g, indices, spatial(x_shape, size)),
)


def _fractional(
    name: str, n: int, x: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple:
    """Fractional max pooling in n dimensions: values and indices."""
    shape = fractional_image(name, x, n)
    lead = x._data.shape[: x._data.ndim - n]
    kernel, size = fractional_windows(name, n, lead, shape, kernel_size, output_size, output_ratio)
    if samples is None:
        samples = rand(*(lead if len(lead) == 2 else (1, *lead)), n, dtype=FROM_NUMPY[x._data.dtype], device=x.device)
    else:
        check_samples(name, n, lead, samples, x._data.dtype)
    return apply(FRACTIONAL_MAX, (x, samples), (kernel, size))


@in_full_precision
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows of images, placed pseudo-randomly at steps of the mean width.

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): the size of a window
    - `output_size` (int or pair, default None): how many windows there are along each dimension
    - `output_ratio` (float or sequence, default None): the same as a part of the input's size, between 0 and 1; exactly
      one of the two is given
    - `return_indices` (bool, default False): gives (maxima, positions), as `max_pool2d` does

    The result is (N, C, H', W'). ValueError without output_size and output_ratio, RuntimeError for sizes that do not
    fit. Source: B. Graham, Fractional max-pooling, 2014.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.fractional_max_pool2d(ferro.zeros(1, 1, 9, 9), 2, output_size=5).shape
        ferro.Size([1, 1, 5, 5])
    """
    found = _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@in_full_precision
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The maxima of windows of volumes, placed pseudo-randomly at steps of the mean width.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): the size of a window
    - `output_size` (int or triple, default None): how many windows there are along each dimension
    - `output_ratio` (float or sequence, default None): the same as a part of the input's size, between 0 and 1; exactly
      one of the two is given
    - `return_indices` (bool, default False): gives (maxima, positions), as `max_pool3d` does

    The result is (N, C, D', H', W'). ValueError without output_size and output_ratio, RuntimeError for sizes that do
    not fit. Source: B. Graham, Fractional max-pooling, 2014.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.fractional_max_pool3d(ferro.zeros(1, 1, 9, 9, 9), 2, output_ratio=0.5).shape
        ferro.Size([1, 1, 4, 4, 4])
    """
    found = _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@in_full_precision
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple:
    """:func:`fractional_max_pool2d` with the positions of the maxima: (maxima, positions).

    - `input` (Tensor): (N, C, H, W) or (C, H, W)
    - `kernel_size` (int or pair): as in `fractional_max_pool2d`
    - `output_size` (int or pair, default None): as in `fractional_max_pool2d`
    - `output_ratio` (float or sequence, default None): as there
    - `return_indices` (bool, default False): no effect

    Raises what `fractional_max_pool2d` raises.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> maxima, positions = F.fractional_max_pool2d_with_indices(ferro.zeros(1, 1, 9, 9), 2, output_size=5)
        >>> positions.shape
        ferro.Size([1, 1, 5, 5])
    """
    return fractional_max_pool2d(input, kernel_size, output_size, output_ratio, True, _random_samples)


@in_full_precision
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple:
    """:func:`fractional_max_pool3d` with the positions of the maxima: (maxima, positions).

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `kernel_size` (int or triple): as in `fractional_max_pool3d`
    - `output_size` (int or triple, default None): as in `fractional_max_pool3d`
    - `output_ratio` (float or sequence, default None): as there
    - `return_indices` (bool, default False): no effect

    Raises what `fractional_max_pool3d` raises.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> maxima, positions = F.fractional_max_pool3d_with_indices(ferro.zeros(1, 1, 9, 9, 9), 2, output_size=5)
        >>> positions.shape
        ferro.Size([1, 1, 5, 5, 5])
    """
    return fractional_max_pool3d(input, kernel_size, output_size, output_ratio, True, _random_samples)


declare(
    "nn.functional.fractional_max_pool2d",
    [
        Sample(_distinct(1, 2, 6, 5), 2, (3, 3), _random_samples=Arg(1, 2, 2, low=0.1, high=0.9, grad=False)),
        Sample(
            _distinct(2, 6, 6),
            (2, 3),
            output_ratio=(0.5, 0.4),
            return_indices=True,
            _random_samples=Arg(1, 2, 2, low=0.1, high=0.9, grad=False),
        ),
    ],
)
declare(
    "nn.functional.fractional_max_pool3d",
    [
        Sample(_distinct(1, 2, 4, 5, 5), 2, (2, 3, 3), _random_samples=Arg(1, 2, 3, low=0.1, high=0.9, grad=False)),
    ],
)
