"""Window functions: weights that fall towards the ends of a signal.

Source: F. J. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, Proc. IEEE 66 (1978).
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


# -- shapes: n weights of a window whose last element, at `end`, may lie behind them ------------------------------------


def cosines(n: int, end: int, a: Iterable[float]) -> Any:
    k = np.arange(n) * (2 * math.pi / end)
    return sum((-1) ** i * c * np.cos(i * k) for i, c in enumerate(a))


def triangle(n: int, end: int) -> Any:
    return 1 - np.abs(2 * np.arange(n) / end - 1)


def kaiser_bell(n: int, end: int, beta: float) -> Any:
    # I₀(z) / I₀(β) by the scaled function, since I₀ itself exceeds the range of numbers beyond 713
    beta = abs(beta)
    z = beta * np.sqrt(np.maximum(0, 1 - (2 * np.arange(n) / end - 1) ** 2))
    return xp_of(z).i0e(z) / xp_of(z).i0e(np.float64(beta)) * np.exp(z - beta)


# -- torch.signal.windows ----------------------------------------------------------------------------------------------


def _window(
    name: str,
    M: Any,
    sym: bool,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    make: Callable,
    single: float = 1.0,
) -> Any:
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


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The triangle 1 - |2k/N - 1| for k = 0 .. M - 1.

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, dtype, layout, device, requires_grad, triangle)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(π(k + 1/2) / (N + 1)) for k = 0 .. M - 1.

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.cosine(3)
        tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(
        "cosine",
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: np.sin((np.arange(n) + 0.5) * (math.pi / (end + 1))),
    )


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau) for k = 0 .. M - 1.

    - `M` (int): the length
    - `center` (float, default None): where it is 1; None: N/2, as it must be for a symmetric window
    - `tau` (float, default 1.0): the decay, positive
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes and other parameters out of range.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError(f"exponential: Center must be None for symmetric windows, got {center}")
    return _window(
        "exponential",
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: np.exp(-np.abs(np.arange(n) - (end / 2 if center is None else center)) / tau),
        1.0 if center is None else math.exp(-abs(center) / tau),
    )


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-((k - N/2) / std)² / 2) for k = 0 .. M - 1.

    - `M` (int): the length
    - `std` (float, default 1.0): the width, positive
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes and other parameters out of range.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    return _window(
        "gaussian",
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: np.exp(-0.5 * ((np.arange(n) - end / 2) / std) ** 2),
    )


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(beta √(1 - (2k/N - 1)²)) / I₀(beta) for k = 0 .. M - 1.

    - `M` (int): the length
    - `beta` (float, default 12.0): how narrow it is, not negative
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes and other parameters out of range.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.kaiser(3)
        tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    return _window(
        "kaiser", M, sym, dtype, layout, device, requires_grad, lambda n, end: kaiser_bell(n, end, float(beta))
    )


# -- samples -----------------------------------------------------------------------------------------------------------

_EXTRA: dict[str, list] = {
    "exponential": [{"tau": 2.5}, {"sym": False, "center": 1.5}],
    "gaussian": [{"std": 0.4}],
    "kaiser": [{"beta": 0.0}, {"beta": 5.5, "sym": False}],
    "general_hamming": [{"alpha": 0.6}],
}
for _name in (
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
):
    _more = {"a": [0.5, 0.3, 0.2]} if _name == "general_cosine" else {}
    _options = [{}, {"sym": False}, *_EXTRA.get(_name, [])]
    declare(
        f"signal.windows.{_name}",
        [Sample(n, dtype=dtypes.float64, **_more, **o) for n in (0, 1, 2, 7) for o in _options],
        differentiable=False,
    )
