"""Images made larger or smaller: interpolation in all its modes, linear in the image."""

from __future__ import annotations

import math
import operator
import warnings
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.apply import unary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, INEXACT
from ferro.core.layout import CHANNELS
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from ferro.ops.strides import laid_out_like

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]


def resample(x: Tensor, axes: tuple) -> Tensor:
    """The last dimensions resampled as `axes` say: see Note [Resampling] in cpu/interpolation.py."""
    return unary(RESAMPLE, x, (axes,))


def resample_spread(g: Tensor, axes: tuple) -> Tensor:
    """The adjoint of `resample`."""
    return unary(RESAMPLE_SPREAD, g, (axes,))


RESAMPLE = Op(
    "interpolate",
    lambda xp, x, /, axes: xp.resample(x, axes),
    kind=LINEAR,
    weight=6.0,
    x=lambda xp, g, axes: xp.resample_spread(g, axes),
    layout=CHANNELS,
)
RESAMPLE_SPREAD = Op(
    "interpolate_backward",
    lambda xp, x, /, axes: xp.resample_spread(x, axes),
    kind=LINEAR,
    x=lambda xp, g, axes: xp.resample(g, axes),
    weight=6.0,
)


# -- arguments ---------------------------------------------------------------------------------------------------------

_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}  # of the modes for one kind of image
_ANY = ("nearest", "nearest-exact", "area")
_KINDS = {"bicubic": "cubic", "lanczos": "lanczos"}


def _per_dim(name: str, argument: str, given: Any, shape: tuple) -> list:
    """A size or scale for each dimension of an image."""
    if isinstance(given, TensorBase):
        given = given._data.tolist()
    if not isinstance(given, (tuple, list)):
        return [given] * len(shape)
    if len(given) != len(shape):
        raise ValueError(
            f"{name}: Input and {argument} must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(shape)} and {argument} of {list(given)}"
        )
    return list(given)


def _sizes(name: str, size: Any, shape: tuple) -> list[int]:
    found = _per_dim(name, "output size", size, shape)
    try:
        if any(isinstance(s, bool) for s in found):
            raise TypeError
        return [operator.index(s) for s in found]
    except TypeError:
        raise TypeError(
            f"{name}: expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with "
            f"types {[type(s) for s in found]}"
        ) from None


def _target(name: str, shape: tuple, size: Any, scale_factor: Any, recompute: bool) -> tuple[list[int], list]:
    """The new size of each dimension, and the scale it is computed with (None: the ratio of the sizes)."""
    if size is not None and scale_factor is not None:
        raise ValueError(
            f"{name}: only one of size or scale_factor should be defined, got {size!r} and {scale_factor!r}"
        )
    if size is not None:
        if recompute:
            raise ValueError(f"{name}: recompute_scale_factor is not meaningful with an explicit size.")
        return _sizes(name, size, shape), [None] * len(shape)
    if scale_factor is None:
        raise ValueError(f"{name}: either size or scale_factor should be defined")
    scales = [float(s) for s in _per_dim(name, "scale_factor", scale_factor, shape)]
    if not all(math.isfinite(s) for s in scales):
        raise ValueError(f"{name}: scale_factor must be finite, got {scale_factor!r}")
    new = [int(s * f) for s, f in zip(shape, scales, strict=True)]
    if max(map(abs, new)) > 2**63 - 1:
        raise RuntimeError(
            f"{name}: value cannot be converted to type int64_t without overflow: scale_factor={scale_factor!r} for size "
            f"{list(shape)}"
        )
    return new, [None] * len(shape) if recompute else [s if s > 0 else None for s in scales]


def _check_mode(name: str, mode: str, n: int, align_corners: bool | None, antialias: bool) -> None:
    if mode in _ANY and align_corners is not None:
        raise ValueError(
            f"{name}: align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
            f"trilinear, got mode={mode!r}"
        )
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError(
            f"{name}: Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
            f"tensor as input, got mode={mode!r} and a {n + 2}-D tensor"
        )
    if n not in (1, 2, 3) or _DIMS.get(mode, n if mode in _ANY else None) != n:
        wanted = f"; mode {mode!r} needs {_DIMS[mode] + 2}D input" if mode in _DIMS else ""
        raise NotImplementedError(
            f"{name}: Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode}){wanted}"
        )
    if mode == "lanczos" and align_corners:
        raise ValueError(f"{name}: Lanczos mode does not support align_corners=True")
    if mode == "lanczos" and not antialias:
        raise ValueError(f"{name}: Lanczos mode requires antialias=True")


def _check_image(name: str, x: Any, size: tuple, mode: str) -> None:
    shape, dtype = x._data.shape, x._data.dtype
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{name}: expected non-empty dimensions behind the first, but got input of shape {list(shape)}"
        )
    if min(size) <= 0 and mode != "area":
        raise RuntimeError(
            f"{name}: Input and output sizes should be greater than 0, but got input {list(shape[2:])} and output {list(size)}"
        )
    small = dtype == np.uint8 and mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "lanczos")
    if not small and (dtype not in INEXACT or dtype in COMPLEX):
        raise NotImplementedError(
            f"{name}: not implemented for {FROM_NUMPY[dtype]} in mode {mode!r}; expected a real floating-point dtype"
        )


def _is_plain(given: Any) -> bool:
    """Whether a size or factors are numbers that can be a key."""
    return type(given) in (int, float, NoneType) or (type(given) is tuple and all(type(v) is int for v in given))


@lru_cache(maxsize=512, typed=True)
def _axes(
    name: str,
    n: int,
    shape: tuple,
    mode: str,
    align_corners: Any,
    antialias: Any,
    size: Any,
    scale_factor: Any,
    recompute: bool,
) -> tuple[tuple, tuple]:
    """The new size of each dimension, and how it is resampled: see Note [Resampling] in cpu/interpolation.py."""
    _check_mode(name, mode, n, align_corners, antialias)
    new, scales = _target(name, shape, size, scale_factor, recompute or (mode == "area" and size is None))
    kind = "nearest_image" if mode == "nearest" and n == 2 else mode if mode in _ANY else _KINDS.get(mode, "linear")
    kind += "_antialias" if antialias else ""
    align = bool(align_corners)
    return tuple(new), tuple([(kind, *axis, align) for axis in zip(shape, new, scales, strict=True)])


# -- the functions -----------------------------------------------------------------------------------------------------


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Images (N, C, d1, ...) with one to three spatial dimensions, resampled to `size` or by `scale_factor`.

    - `input` (Tensor): (N, C, d1, ...), floating
    - `size` (int or sequence, default None): the spatial sizes of the result
    - `scale_factor` (float or sequence, default None): or the factors, exactly one of the two
    - `mode` (str, default "nearest"): "nearest" and "nearest-exact"; "linear", "bilinear", "trilinear" for one, two,
      three dimensions; "bicubic" (with a = -3/4); "area", the mean over the pixels that a new one covers; "lanczos"
      with `antialias`
    - `align_corners` (bool, default None): True takes pixels as points whose outermost meet; else they are squares
      whose outer edges meet
    - `recompute_scale_factor` (bool, default None): True takes the ratio of the sizes as the scale, and not the factor
      that was given
    - `antialias` (bool, default False): stretches the filter when images shrink (bicubic with a = -1/2)

    Linear in the input: the derivative is the transposed map. Raises ValueError unless exactly one of `size` and
    `scale_factor` is given, NotImplementedError for a mode that does not fit the number of dimensions. Source: R. G.
    Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981, eq. 15.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.interpolate(ferro.tensor([[[0.0, 4.0]]]), size=4, mode="linear")
        tensor([[[0., 1., 3., 4.]]])
    """
    name = "interpolate"
    n = need_tensor(name, "input", input)._data.ndim - 2
    asked = mode, align_corners, antialias, size, scale_factor, bool(recompute_scale_factor)
    kept = type(mode) is str and _is_plain(size) and _is_plain(scale_factor)
    new, axes = (_axes if kept else _axes.__wrapped__)(name, n, input._data.shape[2:], *asked)
    _check_image(name, input, new, mode)
    if mode == "area":
        return _AREA[n](input, list(new))
    return laid_out_like(input, resample(input, axes))


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate` under its older name, with a warning.

    - `input` (Tensor): (N, C, d1, ...)
    - `size` (int or sequence, default None): the sizes of the result
    - `scale_factor` (float or sequence, default None): or the factors
    - `mode` (str, default "nearest"): as in `interpolate`
    - `align_corners` (bool, default None): as in `interpolate`

    Raises what `interpolate` raises.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"): F.upsample(ferro.tensor([[[0.0, 4.0]]]), size=4)
        tensor([[[0., 0., 4., 4.]]])
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", UserWarning, stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The old name of `interpolate` in mode "nearest"."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The old name of `interpolate` in mode "bilinear" with align_corners=True."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


declare(
    "nn.functional.interpolate",
    [
        Sample(Arg(2, 3, 5), size=8),
        Sample(Arg(2, 3, 5, 4), scale_factor=(1.5, 2.3)),
        Sample(Arg(1, 2, 3, 4, 3), size=2),
        Sample(Arg(2, 3, 5), size=3, mode="nearest-exact"),
        Sample(Arg(1, 2, 5, 4), size=(7, 2), mode="nearest-exact"),
        Sample(Arg(2, 1, 5), size=9, mode="linear"),
        Sample(Arg(2, 1, 5), size=3, mode="linear", align_corners=True),
        Sample(Arg(2, 1, 7), scale_factor=0.6, mode="linear", recompute_scale_factor=True),
        Sample(Arg(1, 2, 5, 4), size=(8, 3), mode="bilinear"),
        Sample(Arg(0, 2, 5, 4), size=(8, 3), mode="bilinear"),
        Sample(Arg(1, 2, 5, 4), scale_factor=1.7, mode="bilinear", align_corners=True),
        Sample(Arg(1, 2, 5, 4), size=(8, 3), mode="bicubic"),
        Sample(Arg(1, 2, 1, 4), size=1, mode="bicubic"),
        Sample(Arg(1, 2, 5, 4), size=(3, 9), mode="bicubic", align_corners=True),
        Sample(Arg(1, 1, 3, 2, 4), size=(4, 5, 2), mode="trilinear"),
        Sample(Arg(1, 1, 5, 4), size=3, mode="area"),
        Sample(Arg(1, 2, 9, 7), size=(4, 9), mode="bilinear", antialias=True),
        Sample(Arg(1, 2, 9, 7), scale_factor=0.4, mode="bicubic", antialias=True),
        Sample(Arg(1, 1, 9, 8), size=(3, 10), mode="lanczos", antialias=True),
    ],
)
declare("nn.functional.upsample", [Sample(Arg(1, 2, 3), scale_factor=2), Sample(Arg(1, 2, 3), 5, mode="linear")])
declare("nn.functional.upsample_nearest", [Sample(Arg(1, 2, 3, 2), scale_factor=2)])
declare("nn.functional.upsample_bilinear", [Sample(Arg(1, 2, 3, 2), (4, 5))])
