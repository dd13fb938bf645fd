"""Discrete Fourier transforms of NumPy arrays, computed by SciPy, which is loaded at the first call."""

from __future__ import annotations

from functools import cache
from typing import Any

# SciPy's names of the scales 0 (none), 1 (1/√n) and 2 (1/n), of the forward and of the inverse transform
NORMS = (("backward", "ortho", "forward"), ("forward", "ortho", "backward"))


@cache
def _scipy() -> Any:
    import scipy.fft

    return scipy.fft


def fft_c2c(x: Any, dims: tuple, scale: int, inverse: bool) -> Any:
    """Σ_j x_j exp(∓2πi jk/n), times a scale, along every one of `dims`; + in the inverse transform."""
    f, norm = _scipy(), NORMS[inverse][scale]
    if len(dims) == 1:
        out = (f.ifft if inverse else f.fft)(x, axis=dims[0], norm=norm)
    else:
        out = (f.ifftn if inverse else f.fftn)(x, axes=dims, norm=norm)
    if x.dtype.kind != "c":
        # of real numbers SciPy computes half and conjugates it: bins that are their own conjugates become a - 0i, whose
        # angle is -π where PyTorch has π
        own = [slice(None)] * x.ndim
        for d in dims:
            own[d] = slice(0, None, x.shape[d] // 2) if x.shape[d] % 2 == 0 else slice(0, 1)
        out.imag[tuple(own)] += 0.0
    return out


def fft_r2c(x: Any, dims: tuple, scale: int, inverse: bool) -> Any:
    """fft_c2c of real numbers, of which the last of `dims` shows the bins 0 to n // 2: the others are conjugates."""
    f, norm = _scipy(), NORMS[inverse][scale]
    if len(dims) == 1:
        return (f.ihfft if inverse else f.rfft)(x, axis=dims[0], norm=norm)
    return (f.ihfftn if inverse else f.rfftn)(x, axes=dims, norm=norm)


def fft_c2r(x: Any, dims: tuple, n: int, scale: int, inverse: bool) -> Any:
    """The n real numbers, along the last of `dims`, whose bins 0 to n // 2 are given; what cannot be theirs is ignored.

    That is the imaginary part of the bins 0 and n/2, after the other dims have been transformed.
    """
    f, norm = _scipy(), NORMS[inverse][scale]
    if len(dims) == 1:
        return (f.irfft if inverse else f.hfft)(x, n, axis=dims[0], norm=norm)
    size = (*[x.shape[d] for d in dims[:-1]], n)
    return (f.irfftn if inverse else f.hfftn)(x, size, axes=dims, norm=norm)


def fft_bins(x: Any, dim: int, n: int, factor: float) -> Any:
    """A copy of the bins 0 to n // 2 of n real numbers with those multiplied by `factor` that stand for two.

    These are all but the bin 0 and, where n is even, n/2: bin k stands for k and n - k.
    """
    out = x.copy()
    out[(slice(None),) * dim + (slice(1, (n + 1) // 2),)] *= factor
    return out
