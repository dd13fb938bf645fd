"""Windows that are sums of cosines: of Hann, Hamming, Blackman, Nuttall and in general.

Sources: F. J. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, Proc. IEEE 66
(1978); for the coefficients of `nuttall`, A. H. Nuttall, Some windows with very good sidelobe behavior, IEEE Trans. ASSP
29 (1981).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ferro.core.layout import strided
from ferro.ops.windows import _window, cosines

if TYPE_CHECKING:
    from ferro.tensor import Tensor


BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def general_cosine(
    M: int,
    *,
    a: Iterable,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines, Σ_i (-1)^i a_i cos(2πik/N) for k = 0 .. M - 1.

    - `M` (int): the length
    - `a` (sequence of floats): the factors a_i; an empty one raises ValueError
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes and other parameters out of range.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"general_cosine: Coefficients must be a list/tuple, got {type(a).__name__}")
    if not a:
        raise ValueError("general_cosine: Coefficients cannot be empty")
    return _general_cosine("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _general_cosine(
    name: str, M: Any, a: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Any:
    return _window(name, M, sym, dtype, layout, device, requires_grad, lambda n, end: cosines(n, end, a))


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2πk/N) for k = 0 .. M - 1.

    - `M` (int): the length
    - `alpha` (float, default 0.54): of the formula
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes and other parameters out of range.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.general_hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return _general_cosine("general_hamming", M, (alpha, 1 - alpha), sym, dtype, layout, device, requires_grad)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.54 - 0.46 cos(2πk/N) for k = 0 .. M - 1.

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return _general_cosine("hamming", M, (0.54, 0.46), sym, dtype, layout, device, requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin²(πk/N) for k = 0 .. M - 1.

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.hann(4, sym=False)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _general_cosine("hann", M, (0.5, 0.5), sym, dtype, layout, device, requires_grad)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2πk/N) + 0.08 cos(4πk/N) for k = 0 .. M - 1.

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.blackman(5)[1:4]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return _general_cosine("blackman", M, BLACKMAN, sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Four cosine terms with least side lobes, 0.3635819 - 0.4891775 cos(2πk/N) + 0.1365995 cos(4πk/N) - 0.0106411
    cos(6πk/N).

    - `M` (int): the length
    - `sym` (bool, default True): takes N = M - 1, else M (a period of a longer window)
    - `dtype` (dtype, default None): float32 or float64; None: the default dtype
    - `layout` (layout, default ferro.strided): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError for a negative M, another layout than strided, other dtypes. Source: A. H. Nuttall, Some Windows with
    Very Good Sidelobe Behavior, 1981.

    Example::

        >>> import ferro
        >>> ferro.signal.windows.nuttall(3)
        tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    return _general_cosine("nuttall", M, NUTTALL, sym, dtype, layout, device, requires_grad)
