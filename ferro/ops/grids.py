"""Images sampled at the places of a grid, and the grids of affine maps (Jaderberg et al. 2015, Spatial Transformer Networks)."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, HALF, INEXACT
from ferro.core.into import into
from ferro.core.op import ELEMENTWISE, MULTILINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.products import matmul

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["affine_grid", "affine_grid_generator", "grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]


# -- the parts: see Note [Sampling on a grid] in cpu/grids.py ----------------------------------------------------------


def grid_slopes(grid: Tensor, sizes: tuple, padding: str, align: bool) -> Tensor:
    """The derivative of the places by the grid: piecewise constant, so without a derivative of its own."""
    return wrap(backend.xp_of(grid._data).grid_slopes(grid._data, sizes, padding, align))


PLACES = Op(
    "grid_places",
    lambda xp, grid, /, sizes, padding, align: xp.grid_places(grid, sizes, padding, align),
    kind=ELEMENTWISE,
    grid=lambda xp, g, grid, sizes, padding, align: g * xp.grid_slopes(grid, sizes, padding, align),
)


def tap_weights(at: Tensor, sizes: tuple, mode: str, padding: str, order: int) -> Tensor:
    """The weights of the taps in each dimension, or their derivative of some order by the place."""
    return apply(TAP_WEIGHTS, (at,), (sizes, mode, padding, order))


def _weights_at(xp: Any, g: Any, at: Any, sizes: tuple, mode: str, padding: str, order: int) -> Any:
    return xp.sum(g * xp.tap_weights(at, sizes, mode, padding, order + 1), (2,), False)


TAP_WEIGHTS = Op(
    "tap_weights",
    lambda xp, at, /, sizes, mode, padding, order: xp.tap_weights(at, sizes, mode, padding, order),
    at=_weights_at,
)


def sample_taps(x: Tensor, w: Tensor, index: Tensor) -> Tensor:
    """y[n, c, s] = sum_t w[n, t, s] x[n, c, index[n, t, s]]."""
    return apply(SAMPLE_TAPS, (x, w, index))


def spread_taps(g: Tensor, w: Tensor, index: Tensor, length: int) -> Tensor:
    """The gradient of `sample_taps` by the image, of `length` pixels."""
    return apply(SPREAD_TAPS, (g, w, index), (length,))


def weigh_taps(g: Tensor, x: Tensor, index: Tensor) -> Tensor:
    """The gradient of `sample_taps` by the weights."""
    return apply(WEIGH_TAPS, (g, x, index))


SAMPLE_TAPS = Op(
    "sample_taps",
    lambda xp, x, w, index: xp.sample_taps(x, w, index),
    kind=MULTILINEAR,
    weight=6.0,
    x=lambda xp, g, x_shape, w, index: xp.spread_taps(g, w, index, x_shape[2]),
    w=lambda xp, g, x, index: xp.weigh_taps(g, x, index),
)
SPREAD_TAPS = Op(
    "spread_taps",
    lambda xp, y, w, index, /, length: xp.spread_taps(y, w, index, length),
    kind=MULTILINEAR,
    y=lambda xp, g, w, index: xp.sample_taps(g, w, index),
    weight=6.0,
    w=lambda xp, g, y, index: xp.weigh_taps(y, g, index),
)
WEIGH_TAPS = Op(
    "weigh_taps",
    lambda xp, y, x, index: xp.weigh_taps(y, x, index),
    kind=MULTILINEAR,
    weight=6.0,
    y=lambda xp, g, x, index: xp.sample_taps(x, g, index),
    x=lambda xp, g, y, x_shape, index: xp.spread_taps(y, g, index, x_shape[2]),
)


# -- sampling ----------------------------------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
    "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
    "details."
)


def _check(name: str, input: Any, grid: Any, mode: str) -> None:
    x, g = need_tensor(name, "input", input)._data, need_tensor(name, "grid", grid)._data
    shapes = f"input with sizes {list(x.shape)} and grid with sizes {list(g.shape)}"
    n = x.ndim - 2
    if n < 1 or g.ndim < 1:
        raise RuntimeError(f"{name}(): expected 4D or 5D input and grid, but got {shapes}")
    if len(x) != len(g):
        raise RuntimeError(f"{name}(): expected grid and input to have same batch size, but got {shapes}")
    if g.shape[-1] != n:
        raise RuntimeError(f"{name}(): expected grid to have size {n} in last dimension, but got {shapes}")
    if 0 in x.shape[2:]:
        raise RuntimeError(f"{name}(): expected input to have non-empty spatial dimensions, but got {shapes}")
    if n not in (2, 3) or g.ndim != x.ndim:
        raise RuntimeError(
            f"{name}(): expected 4D or 5D input and grid with same number of dimensions, but got {shapes}"
        )
    if mode == "bicubic" and n != 2:
        raise RuntimeError(f"{name}(): bicubic interpolation only supports 4D input, but got {shapes}")
    if x.dtype is not g.dtype:
        raise RuntimeError(
            f"{name}(): expected input and grid to have same dtype, but input has {FROM_NUMPY[x.dtype]} and grid has "
            f"{FROM_NUMPY[g.dtype]}"
        )
    if x.dtype not in INEXACT or x.dtype in COMPLEX:
        raise NotImplementedError(
            f"{name}(): not implemented for {FROM_NUMPY[x.dtype]}; expected a real floating-point dtype"
        )


def _sample(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """The samples; arguments checked."""
    if input._data.dtype in HALF:
        return _sample(input.float(), grid.float(), mode, padding, align).to(input.dtype)
    images, channels, *sizes = input._data.shape
    shape = grid._data.shape[1:-1]
    count, n, size = math.prod(shape), len(sizes), tuple(sizes)
    moved = "zeros" if mode == "bicubic" else padding  # what brings places inside; bicubic brings its taps inside
    at = apply(PLACES, (grid.reshape(images, count, n).transpose(1, 2).contiguous(),), (size, moved, align))
    index = wrap(backend.xp_of(at._data).tap_places(at._data, size, mode, padding, align))
    per_dim = tap_weights(at, size, mode, padding, 0).unbind(1)  # of the last dimension first
    w = per_dim[n - 1]
    for d in range(n - 2, -1, -1):
        w = (w.unsqueeze(2) * per_dim[d].unsqueeze(1)).flatten(1, 2)
    out = sample_taps(input.reshape(images, channels, math.prod(size)), w, index)
    return out.reshape(images, channels, *shape)


@in_full_precision
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Images or volumes, read at the places that a grid names.

    - `input` (Tensor): images (N, C, H, W), or volumes (N, C, D, H, W)
    - `grid` (Tensor): places (x, y), (N, H', W', 2), or (x, y, z), (N, D', H', W', 3), in the dtype of `input`
    - `mode` (str, default "bilinear"): "bilinear" (trilinear in volumes), "nearest", or for images "bicubic" (a = -3/4)
    - `padding_mode` (str, default "zeros"): outside is 0 ("zeros"), the nearest pixel ("border"), or the image
      reflected at its edges ("reflection")
    - `align_corners` (bool, default None): True lets places run from -1 to 1 between the centres of the outer pixels,
      else between the outer edges; None is False, with a warning

    The result is (N, C, H', W'), or (N, C, D', H', W'). Linear in the image; piecewise polynomial in the grid, with
    derivatives to any order: at a pixel they are those to the right, on a border and beyond it zero, and zero
    everywhere in mode "nearest". RuntimeError for sizes or dtypes that do not fit, ValueError for unknown modes.
    Source: R. G. Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981, eq. 15.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> image = ferro.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> F.grid_sample(image, ferro.tensor([[[[0.0, 0.0], [-1.0, 1.0]]]]), align_corners=True)
        tensor([[[[1.5000, 2.0000]]]])
    """
    name = "grid_sample"
    if mode not in _MODES:
        raise ValueError(f"{name}: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}")
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"{name}: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: {padding_mode!r}"
        )
    if align_corners is None:
        warnings.warn(_CHANGED, UserWarning, stacklevel=2)
    _check(name, input, grid, mode)
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


def _by_number(name: str, input: Any, grid: Any, mode: int, padding: int, align: bool, n: int | None) -> Tensor:
    for label, value, names in (("interpolation_mode", mode, _MODES), ("padding_mode", padding, _PADDINGS)):
        if not 0 <= value < len(names):
            raise RuntimeError(f"{name}(): expected {label} to be 0, 1 or 2 ({', '.join(names)}), got {value}")
    if n is not None and need_tensor(name, "input", input)._data.ndim != n + 2:
        raise RuntimeError(
            f"{name}(): expected {n + 2}D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input._data.shape)}"
        )
    _check(name, input, grid, _MODES[mode])
    return _sample(input, grid, _MODES[mode], _PADDINGS[padding], align)


@in_full_precision
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample` with numbers for its modes.

    - `input`, `grid` (Tensor): as there
    - `interpolation_mode` (int): 0 (bilinear), 1 (nearest) or 2 (bicubic)
    - `padding_mode` (int): 0 (zeros), 1 (border) or 2 (reflection)
    - `align_corners` (bool): as there

    Raises what `grid_sample` raises.

    Example::

        >>> import ferro
        >>> image = ferro.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> ferro.grid_sampler(image, ferro.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[1.5000]]]])
    """
    return _by_number("grid_sampler", input, grid, interpolation_mode, padding_mode, align_corners, None)


def grid_sampler_2d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`nn.functional.grid_sample` with numbers for its modes.

    - `input`, `grid` (Tensor): as there
    - `interpolation_mode` (int): 0 (bilinear), 1 (nearest) or 2 (bicubic)
    - `padding_mode` (int): 0 (zeros), 1 (border) or 2 (reflection)
    - `align_corners` (bool): as there
    - `out` (Tensor, default None): where to write the result

    Raises what `grid_sample` raises.

    Example::

        >>> import ferro
        >>> image = ferro.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> ferro.grid_sampler_2d(image, ferro.zeros(1, 1, 1, 2), 0, 0, False)
        tensor([[[[1.5000]]]])
    """
    found = _by_number("grid_sampler_2d", input, grid, interpolation_mode, padding_mode, align_corners, 2)
    return into("grid_sampler_2d", out, found)


def grid_sampler_3d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`nn.functional.grid_sample` with numbers for its modes.

    - `input`, `grid` (Tensor): as there
    - `interpolation_mode` (int): 0 (bilinear), 1 (nearest) or 2 (bicubic)
    - `padding_mode` (int): 0 (zeros), 1 (border) or 2 (reflection)
    - `align_corners` (bool): as there
    - `out` (Tensor, default None): where to write the result

    Raises what `grid_sample` raises.

    Example::

        >>> import ferro
        >>> volume = ferro.arange(8.0).reshape(1, 1, 2, 2, 2)
        >>> ferro.grid_sampler_3d(volume, ferro.zeros(1, 1, 1, 1, 3), 0, 0, False).squeeze()
        tensor(3.5000)
    """
    found = _by_number("grid_sampler_3d", input, grid, interpolation_mode, padding_mode, align_corners, 3)
    return into("grid_sampler_3d", out, found)


# -- affine grids ------------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) of places theta (x, y, 1) for an image of `size` (N, C, H, W), with theta (N, 2, 3); or (N, D, H, W, 3).

    x and y run over the pixels' centres between -1 and 1: the image's outer edges, or with align_corners=True its outer
    centres.  Linear in theta.  ValueError for shapes that do not fit, NotImplementedError for other sizes.

    >>> import ferro
    >>> affine_grid(ferro.tensor([[[1.0, 0.0, 0.0], [0.0, 2.0, 0.5]]]), (1, 1, 2, 1), align_corners=False)
    tensor([[[[ 0.0000, -0.5000]],
    <BLANKLINE>
             [[ 0.0000,  1.5000]]]])
    """
    name = "affine_grid"
    if align_corners is None:
        warnings.warn(_CHANGED, UserWarning, stacklevel=2)
    dtype = need_tensor(name, "theta", theta)._data.dtype
    if dtype not in INEXACT or dtype in COMPLEX:
        raise ValueError(f"{name}: Expected theta to have floating point type, but got {FROM_NUMPY[dtype]}")
    shape, n = list(size), len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            f"{name} only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {shape}."
        )
    if theta._data.ndim != 3 or theta._data.shape[1:] != (n, n + 1):
        raise ValueError(
            f"{name}: Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {shape}. "
            f"Got {list(theta._data.shape)}."
        )
    if align_corners and min(shape[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
            "affine_grid for details.",
            UserWarning,
            stacklevel=2,
        )
    elif min(shape) <= 0:
        raise ValueError(f"{name}: Expected non-zero, positive output size. Got {shape}")
    return affine_grid_generator(theta, size, bool(align_corners))


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """`affine_grid` without its checks of theta."""
    shape = [int(s) for s in size]
    n = len(shape) - 2
    if n not in (2, 3) or need_tensor("affine_grid_generator", "theta", theta)._data.shape != (shape[0], n, n + 1):
        raise RuntimeError(
            f"affine_grid_generator: expected theta of shape (N, n, n + 1) for a size (N, C, ...) with n = 2 or 3 "
            f"further dimensions, got theta of shape {list(theta._data.shape)} and size {shape}"
        )
    lines = []
    for s in shape[2:]:
        line = np.linspace(-1, 1, s) if s > 1 else np.zeros(s)
        lines.append(line if align_corners or not s else line * (s - 1) / s)
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(shape[2:])], -1)
    base = wrap(backend.beside(theta._data, places.reshape(-1, n + 1).astype(theta._data.dtype)))
    return matmul(base, theta.transpose(1, 2)).reshape(shape[0], *shape[2:], n)


_image, _volume = (2, 3, 4, 3), (1, 2, 3, 4, 2)
_grid: Any = {"low": -1.3, "high": 1.3}
declare(
    "nn.functional.grid_sample",
    [
        Sample(Arg(*_image), Arg(2, 3, 2, 2, **_grid), mode, padding, align_corners=align)
        for mode in _MODES
        for padding in _PADDINGS
        for align in (False, True)
    ]
    + [
        Sample(Arg(*_volume), Arg(1, 2, 2, 3, 3, **_grid), mode, padding, align_corners=align)
        for mode in _MODES[:2]
        for padding in _PADDINGS
        for align in (False, True)
    ]
    + [
        Sample(Arg(0, 2, 3, 3), Arg(0, 2, 2, 2)),
        Sample(Arg(1, 1, 1, 1), Arg(1, 2, 2, 2, **_grid)),
        Sample(
            Arg(1, 2, 3, 3),
            Arg(1, 1, 5, 2, values=[0, 0, 1, 1, -1, -1, 0.5, -0.5, 3, -3]),
            "bilinear",
            "border",
            True,
            smooth=False,
            twice=False,
        ),
    ],
)
declare("grid_sampler", [Sample(Arg(*_image), Arg(2, 3, 2, 2, **_grid), 0, 1, True)])
declare("grid_sampler_2d", [Sample(Arg(*_image), Arg(2, 3, 2, 2, **_grid), 2, 2, False)])
declare("grid_sampler_3d", [Sample(Arg(*_volume), Arg(1, 2, 2, 3, 3, **_grid), 0, 0, False)])
declare(
    "nn.functional.affine_grid",
    [
        Sample(Arg(2, 2, 3), (2, 1, 3, 4), align_corners=True),
        Sample(Arg(2, 2, 3), (2, 1, 3, 4)),
        Sample(Arg(1, 3, 4), (1, 1, 2, 3, 2), align_corners=False),
    ],
)
declare(
    "affine_grid_generator", [Sample(Arg(2, 2, 3), (2, 1, 3, 1), True), Sample(Arg(1, 3, 4), (1, 1, 2, 3, 2), False)]
)
