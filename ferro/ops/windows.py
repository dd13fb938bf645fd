"""Window functions: weights that fall towards the ends of a signal.

Sources: F. J. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, Proc. IEEE 66
(1978); for the coefficients of `nuttall`, A. H. Nuttall, Some windows with very good sidelobe behavior, IEEE Trans. ASSP
29 (1981).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.backend import xp_of
from ferro.core.layout import strided
from ferro.core.samples import Sample, declare
from ferro.ops.creation import finish

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]

BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)

# -- shapes: n weights of a window whose last element, at `end`, may lie behind them ------------------------------------


def _cosines(n: int, end: int, a: Iterable[float]) -> Any:
    k = np.arange(n) * (2 * math.pi / end)
    return sum((-1) ** i * c * np.cos(i * k) for i, c in enumerate(a))


def _triangle(n: int, end: int) -> Any:
    return 1 - np.abs(2 * np.arange(n) / end - 1)


def _kaiser(n: int, end: int, beta: float) -> Any:
    # I₀(z) / I₀(β) by the scaled function, since I₀ itself exceeds the range of numbers beyond 713
    beta = abs(beta)
    z = beta * np.sqrt(np.maximum(0, 1 - (2 * np.arange(n) / end - 1) ** 2))
    return xp_of(z).i0e(z) / xp_of(z).i0e(np.float64(beta)) * np.exp(z - beta)


# -- torch.signal.windows ----------------------------------------------------------------------------------------------


def _window(name: str, M: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool, make: Callable,
            single: float = 1.0) -> Any:  # fmt: skip
    """The M weights `make(n, end)` in a floating dtype; `single` is the weight of a lone element."""
    try:
        n = operator.index(M)
    except TypeError:
        raise TypeError(f"{name}: the window length M must be an integer, got {type(M).__name__}") from None
    if n < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    said = (
        f"{name}: general_cosine" if name in ("hamming", "hann", "general_hamming") else name
    )  # (of which it is a case)
    if layout is not None and layout is not strided:
        raise ValueError(f"{said} is implemented for strided tensors only, got: {layout}")
    d = dtypes.default() if dtype is None else dtypes.FROM_NUMPY[dtypes.to_numpy(dtype)]
    if d not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{said} expects float32 or float64 dtypes, got: {d}")
    data = np.full(n, single) if n < 2 else np.asarray(make(n, n - 1 if sym else n))
    return finish(name, data.astype(d.np), requires_grad, device)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The triangle 1 - |2k/N - 1| for k = 0 .. M - 1, with N = M - 1, or M without `sym` (a period of a longer window).

    A negative M, another layout than strided and other dtypes than float32 and float64 raise ValueError.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, dtype, layout, device, requires_grad, _triangle)


def general_cosine(M: int, *, a: Iterable, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
                   requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Σ_i (-1)^i a_i cos(2πik/N): see :func:`bartlett` for k, N and errors.  An empty `a` raises ValueError."""
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"general_cosine: Coefficients must be a list/tuple, got {type(a).__name__}")
    if not a:
        raise ValueError("general_cosine: Coefficients cannot be empty")
    return _general_cosine("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _general_cosine(
    name: str, M: Any, a: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Any:
    return _window(name, M, sym, dtype, layout, device, requires_grad, lambda n, end: _cosines(n, end, a))


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
                    requires_grad: bool = False) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2πk/N): see :func:`bartlett` for k, N and errors."""
    return _general_cosine("general_hamming", M, (alpha, 1 - alpha), sym, dtype, layout, device, requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """0.54 - 0.46 cos(2πk/N): see :func:`bartlett` for k, N and errors."""
    return _general_cosine("hamming", M, (0.54, 0.46), sym, dtype, layout, device, requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """sin²(πk/N): see :func:`bartlett` for k, N and errors.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.hann(4, sym=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _general_cosine("hann", M, (0.5, 0.5), sym, dtype, layout, device, requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos(2πk/N) + 0.08 cos(4πk/N): see :func:`bartlett` for k, N and errors."""
    return _general_cosine("blackman", M, BLACKMAN, sym, dtype, layout, device, requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Four cosine terms with least side lobes, Nuttall's minimum: see :func:`bartlett` for k, N and errors."""
    return _general_cosine("nuttall", M, NUTTALL, sym, dtype, layout, device, requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """sin(π(k + 1/2) / (N + 1)): see :func:`bartlett` for k, N and errors."""
    return _window("cosine", M, sym, dtype, layout, device, requires_grad,
                   lambda n, end: np.sin((np.arange(n) + 0.5) * (math.pi / (end + 1))))  # fmt: skip


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
                device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau), by default with the center N/2: see :func:`bartlett` for k, N and errors.

    `tau` must be positive, and `center` None for a symmetric window (else ValueError).
    """
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError(f"exponential: Center must be None for symmetric windows, got {center}")
    return _window("exponential", M, sym, dtype, layout, device, requires_grad,
                   lambda n, end: np.exp(-np.abs(np.arange(n) - (end / 2 if center is None else center)) / tau),
                   1.0 if center is None else math.exp(-abs(center) / tau))  # fmt: skip


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """exp(-((k - N/2) / std)² / 2): see :func:`bartlett` for k, N and errors.  `std` must be positive."""
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, sym, dtype, layout, device, requires_grad,
                   lambda n, end: np.exp(-0.5 * ((np.arange(n) - end / 2) / std) ** 2))  # fmt: skip


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """I₀(beta √(1 - (2k/N - 1)²)) / I₀(beta): see :func:`bartlett` for k, N and errors.  `beta` must not be negative."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, sym, dtype, layout, device, requires_grad, lambda n, end: _kaiser(n, end, float(beta)))


# -- torch.*_window ----------------------------------------------------------------------------------------------------


def _named(name: str, window_length: Any, periodic: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool,
           make: Callable) -> Any:  # fmt: skip
    """The weights `make(n, end)` of one period, or with both ends, in any floating dtype."""
    try:
        n = operator.index(window_length)
    except TypeError:
        raise TypeError(f"{name}: window_length must be an integer, got {type(window_length).__name__}") from None
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{name} is not implemented for the layout {layout}; only strided tensors are")
    d = dtypes.default() if dtype is None else dtypes.FROM_NUMPY[dtypes.to_numpy(dtype)]
    if not d.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {d}")
    data = np.ones(n) if n < 2 else np.asarray(make(n, n if periodic else n - 1))
    return finish(name, data.astype(d.np), requires_grad, device)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = strided, device: Any = None,
                    pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The triangle 1 - |2k/N - 1| for k = 0 .. length - 1, with N = length, or length - 1 unless `periodic`.

    A negative length and a dtype that is not floating raise RuntimeError.

    Example::

        >>> import ferro
        >>> ferro.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _named("bartlett_window", window_length, periodic, dtype, layout, device, requires_grad, _triangle)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = strided, device: Any = None,
                    pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """0.42 - 0.5 cos(2πk/N) + 0.08 cos(4πk/N): see :func:`bartlett_window` for k and N."""
    return _named("blackman_window", window_length, periodic, dtype, layout, device, requires_grad,
                  lambda n, end: _cosines(n, end, BLACKMAN))  # fmt: skip


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
                   layout: Any = strided, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """alpha - beta cos(2πk/N): see :func:`bartlett_window` for k and N."""
    return _named("hamming_window", window_length, periodic, dtype, layout, device, requires_grad,
                  lambda n, end: _cosines(n, end, (alpha, beta)))  # fmt: skip


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = strided, device: Any = None,
                pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """sin²(πk/N): see :func:`bartlett_window` for k and N."""
    return _named("hann_window", window_length, periodic, dtype, layout, device, requires_grad,
                  lambda n, end: _cosines(n, end, (0.5, 0.5)))  # fmt: skip


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = strided,
                  device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """I₀(beta √(1 - (2k/N - 1)²)) / I₀(beta): see :func:`bartlett_window` for k and N."""
    return _named("kaiser_window", window_length, periodic, dtype, layout, device, requires_grad,
                  lambda n, end: _kaiser(n, end, float(beta)))  # fmt: skip


# -- samples -----------------------------------------------------------------------------------------------------------

_EXTRA: dict[str, list] = {"exponential": [{"tau": 2.5}, {"sym": False, "center": 1.5}], "gaussian": [{"std": 0.4}],
                           "kaiser": [{"beta": 0.0}, {"beta": 5.5, "sym": False}], "general_hamming": [{"alpha": 0.6}]}  # fmt: skip
for _name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
              "hann", "kaiser", "nuttall"):  # fmt: skip
    _more = {"a": [0.5, 0.3, 0.2]} if _name == "general_cosine" else {}
    _options = [{}, {"sym": False}, *_EXTRA.get(_name, [])]
    declare(f"signal.windows.{_name}", [Sample(n, dtype=dtypes.float64, **_more, **o) for n in (0, 1, 2, 7) for o in _options],
            differentiable=False)  # fmt: skip
for _name in __all__:
    declare(
        _name, [Sample(n, *o, dtype=dtypes.float64) for n in (0, 1, 2, 7) for o in ((), (False,))], differentiable=False
    )
