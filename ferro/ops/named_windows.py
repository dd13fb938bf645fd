"""The windows that torch names itself: hann_window, kaiser_window and their like, periodic by default."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.layout import strided
from ferro.core.samples import Sample, declare
from ferro.ops.cosine_windows import BLACKMAN
from ferro.ops.creation import finish
from ferro.ops.windows import cosines, kaiser_bell, triangle

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _named(
    name: str,
    window_length: Any,
    periodic: bool,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    make: Callable,
) -> Any:
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


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The triangle 1 - |2k/N - 1| for k = 0 .. length - 1.

    - `window_length` (int): the length
    - `periodic` (bool, default True): takes N = length, a period of a longer window, else length - 1
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `pin_memory` (bool, default False): no effect on the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative length and a dtype that is not floating.

    Example::

        >>> import ferro
        >>> ferro.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _named("bartlett_window", window_length, periodic, dtype, layout, device, requires_grad, triangle)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2πk/N) + 0.08 cos(4πk/N) for k = 0 .. length - 1.

    - `window_length` (int): the length
    - `periodic` (bool, default True): takes N = length, a period of a longer window, else length - 1
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `pin_memory` (bool, default False): no effect on the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative length and a dtype that is not floating.

    Example::

        >>> import ferro
        >>> ferro.blackman_window(4)[1:]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return _named(
        "blackman_window",
        window_length,
        periodic,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: cosines(n, end, BLACKMAN),
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2πk/N) for k = 0 .. length - 1.

    - `window_length` (int): the length
    - `periodic` (bool, default True): takes N = length, a period of a longer window, else length - 1
    - `alpha`, `beta` (float, default 0.54 and 0.46): of the formula
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `pin_memory` (bool, default False): no effect on the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative length and a dtype that is not floating.

    Example::

        >>> import ferro
        >>> ferro.hamming_window(4, periodic=False)
        tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return _named(
        "hamming_window",
        window_length,
        periodic,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: cosines(n, end, (alpha, beta)),
    )


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """sin²(πk/N) for k = 0 .. length - 1.

    - `window_length` (int): the length
    - `periodic` (bool, default True): takes N = length, a period of a longer window, else length - 1
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `pin_memory` (bool, default False): no effect on the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative length and a dtype that is not floating.

    Example::

        >>> import ferro
        >>> ferro.hann_window(4, periodic=False)
        tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    return _named(
        "hann_window",
        window_length,
        periodic,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: cosines(n, end, (0.5, 0.5)),
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(beta √(1 - (2k/N - 1)²)) / I₀(beta) for k = 0 .. length - 1.

    - `window_length` (int): the length
    - `periodic` (bool, default True): takes N = length, a period of a longer window, else length - 1
    - `beta` (float, default 12.0): how narrow it is
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `pin_memory` (bool, default False): no effect on the CPU
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    RuntimeError for a negative length and a dtype that is not floating.

    Example::

        >>> import ferro
        >>> ferro.kaiser_window(4, periodic=False)
        tensor([5.2773e-05, 5.1884e-01, 5.1884e-01, 5.2773e-05])
    """
    return _named(
        "kaiser_window",
        window_length,
        periodic,
        dtype,
        layout,
        device,
        requires_grad,
        lambda n, end: kaiser_bell(n, end, float(beta)),
    )


for _name in __all__:
    declare(
        _name, [Sample(n, *o, dtype=dtypes.float64) for n in (0, 1, 2, 7) for o in ((), (False,))], differentiable=False
    )
