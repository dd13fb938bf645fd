"""The discrete Fourier transform as three linear operations, and the arguments of all transforms.

All transforms are these three, along any dimensions: complex to complex, real to half of a spectrum, and half of a
spectrum to real.  The transpose of the first is its inverse without change of scale.  The transposes of the other two are
each other once the bins that stand for two, their own and that of the conjugate frequency, are halved or doubled
(`fft_bins`).  Lengths are changed before, by zeros or a cut at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.arguments import need_tensor, one_dim, sizes
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, HALF, INEXACT
from ferro.core.into import into
from ferro.core.op import LINEAR, Op
from ferro.ops.padding import constant_pad
from ferro.ops.structure import cast, clone

if TYPE_CHECKING:
    from ferro.tensor import Tensor


LAST_TWO = (-2, -1)

# -- the three operations ----------------------------------------------------------------------------------------------
# scale 0: none, 1: 1/√n, 2: 1/n, where n counts the elements of one transform


def fft_c2c(x: Tensor, dims: tuple, scale: int, inverse: bool) -> Tensor:
    """The complex transform along `dims`; arguments in normal form."""
    return unary(FFT_C2C, x, (dims, scale, inverse))


FFT_C2C = Op(
    "fft_c2c",
    lambda xp, x, /, dims, scale, inverse: xp.fft_c2c(x, dims, scale, inverse),
    kind=LINEAR,
    weight=20.0,
    x=lambda xp, g, dims, scale, inverse: xp.fft_c2c(g, dims, scale, not inverse),
)


def fft_r2c(x: Tensor, dims: tuple, scale: int, inverse: bool) -> Tensor:
    """The transform of real numbers along `dims`, half of it in the last one; arguments in normal form."""
    return unary(FFT_R2C, x, (dims, scale, inverse))


def _r2c_x(xp: Any, g: Any, x_shape: tuple, dims: tuple, scale: int, inverse: bool) -> Any:
    n = x_shape[dims[-1]]
    return xp.fft_c2r(xp.fft_bins(g, dims[-1], n, 0.5), dims, n, scale, not inverse)


FFT_R2C = Op(
    "fft_r2c",
    lambda xp, x, /, dims, scale, inverse: xp.fft_r2c(x, dims, scale, inverse),
    kind=LINEAR,
    weight=10.0,
    x=_r2c_x,
)


def fft_c2r(x: Tensor, dims: tuple, n: int, scale: int, inverse: bool) -> Tensor:
    """Real numbers, n along the last of `dims`, from half of their transform; arguments in normal form."""
    return unary(FFT_C2R, x, (dims, n, scale, inverse))


FFT_C2R = Op(
    "fft_c2r",
    lambda xp, x, /, dims, n, scale, inverse: xp.fft_c2r(x, dims, n, scale, inverse),
    kind=LINEAR,
    weight=10.0,
    x=lambda xp, g, dims, n, scale, inverse: xp.fft_bins(xp.fft_r2c(g, dims, scale, not inverse), dims[-1], n, 2.0),
)


def fft_bins(x: Tensor, dim: int, n: int, factor: float) -> Tensor:
    """Half of a spectrum of n real numbers with the bins that stand for two multiplied by `factor`."""
    return unary(FFT_BINS, x, (dim, n, factor))


FFT_BINS = Op(
    "fft_bins",
    lambda xp, x, /, dim, n, factor: xp.fft_bins(x, dim, n, factor),
    kind=LINEAR,
    x=lambda xp, g, dim, n, factor: xp.fft_bins(g, dim, n, factor),
)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _scale(name: str, norm: Any, inverse: bool) -> int:
    """The scale that a norm means; "backward" leaves the forward transform, "forward" the inverse one without scale."""
    try:
        return (
            {None: 2, "backward": 2, "ortho": 1, "forward": 0}[norm]
            if inverse
            else {None: 0, "backward": 0, "ortho": 1, "forward": 2}[norm]
        )
    except (KeyError, TypeError):
        raise RuntimeError(
            f'{name}: Invalid normalization mode: {norm!r}; choose "backward", "ortho" or "forward"'
        ) from None


def numbers_of(name: str, input: Any, need: str) -> Tensor:
    """The input as floating numbers; `need`: "real" refuses complex ones, "complex" makes them of real ones."""
    dtype = need_tensor(name, "input", input)._data.dtype
    if dtype in HALF:
        raise RuntimeError(f"{name}: Unsupported dtype {FROM_NUMPY[dtype]}; use float32 or float64")
    if need == "real" and dtype in COMPLEX:
        raise RuntimeError(f"{name} expects a real input tensor, but got {FROM_NUMPY[dtype]}")
    wanted = FROM_NUMPY[dtype] if dtype in INEXACT else dtypes.default()
    wanted = wanted.to_complex() if need == "complex" else wanted
    return input if wanted.np is dtype else cast(input, wanted.np)


def _one_dim(name: str, x: Any, dim: Any) -> int:
    if x._data.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return one_dim(name, x._data.ndim, dim)


def _count(name: str, n: Any) -> int:
    """A number of data points, at least 1."""
    (n,) = sizes(name, (n,))
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified; at least 1 is needed")
    return n


def _many_dims(name: str, x: Any, s: Any, dim: Any, half: bool) -> tuple[tuple, tuple]:
    """(dims, number of data points along each); `half`: the last one shows half of the points by default."""
    shape = x._data.shape
    given = None if s is None else sizes(name, (s,))
    if dim is not None:
        dims = tuple([_one_dim(name, x, d) for d in sizes(name, (dim,))])
        if given is not None and len(given) != len(dims):
            raise RuntimeError(
                f"{name}: When given, dim and shape arguments must have the same length, got s={given}, dim={dims}"
            )
    elif given is not None:
        if len(given) > len(shape):
            raise RuntimeError(
                f"{name}: Got shape with {len(given)} values but input tensor only has {len(shape)} dimensions."
            )
        dims = tuple(range(len(shape) - len(given), len(shape)))
    else:
        dims = tuple(range(len(shape)))
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, got {dims}")
    counts = [shape[d] for d in dims]
    if half and dims:
        counts[-1] = 2 * (counts[-1] - 1)
    if given is not None:
        counts = [n if g == -1 else g for g, n in zip(given, counts, strict=True)]
    return dims, tuple([_count(name, n) for n in counts])


def _fit(x: Any, dims: tuple, counts: tuple) -> Any:
    """The tensor with `counts` elements along `dims`: cut, or continued by zeros."""
    shape = x._data.shape
    change = {d: n - shape[d] for d, n in zip(dims, counts, strict=True) if n != shape[d]}
    return constant_pad(x, tuple([(0, change.get(d, 0)) for d in range(len(shape))]), 0) if change else x


def _into(name: str, out: Any, result: Any) -> Any:
    if out is not None:
        kind = "complex" if result._data.dtype in COMPLEX else "floating point"
        if FROM_NUMPY[need_tensor(name, "out", out)._data.dtype].category != FROM_NUMPY[result._data.dtype].category:
            raise RuntimeError(f"{name} expects a {kind} output tensor, but got {out.dtype}")
    return into(name, out, result)


def _one(make: Callable, name: str, input: Any, n: Any, dim: Any, norm: Any, inverse: bool, out: Any) -> Any:
    """A transform along one dimension; `make` is _complex, _halved or _whole."""
    d = _one_dim(name, need_tensor(name, "input", input), dim)
    size = input._data.shape[d]
    count = _count(name, (2 * (size - 1) if make is _whole else size) if n is None else n)
    return make(name, input, (d,), (count,), norm, inverse, out)


def _many(make: Callable, name: str, input: Any, s: Any, dim: Any, norm: Any, inverse: bool, out: Any) -> Any:
    """A transform along several dimensions; `make` is _complex, _halved or _whole."""
    dims, counts = _many_dims(name, need_tensor(name, "input", input), s, dim, make is _whole)
    return make(name, input, dims, counts, norm, inverse, out)


# -- complex transforms ------------------------------------------------------------------------------------------------


def _complex(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        x = numbers_of(name, input, "complex")
        return _into(name, out, clone(x) if x is input else x)
    return _into(name, out, fft_c2c(_fit(numbers_of(name, input, "any"), dims, counts), dims, scale, inverse))


def _needed(name: str, dim: Any) -> Any:
    if dim is None:
        raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, not NoneType")
    return dim


# -- of real numbers, to half of the spectrum --------------------------------------------------------------------------


def _halved(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return _into(name, out, fft_r2c(_fit(numbers_of(name, input, "real"), dims, counts), dims, scale, inverse))


# -- of half of a spectrum, to real numbers ----------------------------------------------------------------------------


def _whole(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    n = counts[-1]
    x = _fit(numbers_of(name, input, "complex"), dims, (*counts[:-1], n // 2 + 1))
    return _into(name, out, fft_c2r(x, dims, n, scale, inverse))
