"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import COMPLEX, INEXACT
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.complex import view_as_real
from ferro.ops.fourier_operations import fft_c2c, fft_c2r, fft_r2c, numbers_of
from ferro.ops.padding import constant_pad, pad
from ferro.ops.permuting import transpose
from ferro.ops.shape import reshape
from ferro.ops.strided_views import windows, windows_add

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["istft", "stft"]

SMALLEST = 1e-11  # a sum of squared windows below it counts as a gap between windows


def _integer(name: str, argument: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {argument} must be an integer, got {type(value).__name__}") from None


def _lengths(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    """(n_fft, hop, length of the window) with PyTorch's defaults, not yet compared with the signal."""
    n = _integer(name, "n_fft", n_fft)
    hop = n // 4 if hop_length is None else _integer(name, "hop_length", hop_length)
    length = n if win_length is None else _integer(name, "win_length", win_length)
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop} (n_fft={n})")
    if not 0 < length <= n:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}, n_fft={n}")
    return n, hop, length


def _weights(name: str, window: Any, n: int, length: int, x: Any) -> Any:
    """The window in the middle of n elements; None if there is none to apply."""
    if window is None:
        if length == n:
            return None
        window = wrap(backend.beside(x._data, np.ones(length, np.float32)))
    elif need_tensor(name, "window", window)._data.shape != (length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got window with "
            f"size {list(window._data.shape)}"
        )
    left = (n - length) // 2
    return constant_pad(window, ((left, n - length - left),), 0) if length < n else window


@in_full_precision
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of frames of a signal times a window: X[k, t] = Σ_j w_j x_(t hop + j) exp(-2πi jk/n).

    - `input` (Tensor): (L) or (B, L)
    - `n_fft` (int): the elements of a frame
    - `hop_length` (int, default None): the step from frame to frame; None: n_fft // 4
    - `win_length` (int, default None): of the window; None: n_fft; a shorter one stands in the middle of the frame
    - `window` (Tensor, default None): w, (win_length); None: ones
    - `center` (bool, default True): pads the signal by n_fft // 2 on both sides, so that frame t is centered at t
      hop_length
    - `pad_mode` (str, default "reflect"): how, as in nn.functional.pad
    - `normalized` (bool, default False): divides by √n_fft
    - `onesided` (bool, default None): gives the frequencies 0 to n_fft // 2 only; None: for real numbers
    - `return_complex` (bool, default None): must be given for real numbers; False shows real and imaginary part in a
      last dimension of 2
    - `align_to_window` (bool, default None): (only without `center`) lets the first window, not the first frame, begin
      with the signal

    The result is (frequencies, frames) or (B, frequencies, frames). RuntimeError for a signal shorter than a frame and
    arguments that do not fit together. Linear in the signal and in the window.

    Example::

        >>> import ferro
        >>> ferro.stft(ferro.arange(8.0), 4, 2, return_complex=True).shape
        ferro.Size([3, 5])
    """
    x = need_tensor("stft", "input", input)
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center = false")
    ndim, dtype = x._data.ndim, x._data.dtype
    if dtype not in INEXACT:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {x.dtype}")
    if ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got shape {list(x._data.shape)}")
    complex_ = dtype in COMPLEX or (window is not None and window._data.dtype in COMPLEX)
    if return_complex is None and not complex_:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs; return_complex=True is advised"
        )
    if onesided is None:
        onesided = not complex_
    elif onesided and complex_:
        raise RuntimeError("stft: Cannot have onesided output if window or input is complex")
    n, hop, length = _lengths("stft", n_fft, hop_length, win_length)
    weights = _weights("stft", window, n, length, x)
    x = _padded(x, n, length, center, pad_mode, bool(align_to_window))
    frames = windows(x, x._data.ndim - 1, n, hop)
    if weights is not None:
        frames = frames * (weights if window is not None else weights.to(frames.dtype))
    frames = numbers_of("stft", frames, "any")
    last = (frames._data.ndim - 1,)
    bins = (fft_r2c if onesided else fft_c2c)(frames, last, int(normalized), False)
    result = transpose(bins, -1, -2)
    return view_as_real(result) if return_complex is False else result


def _padded(x: Any, n: int, length: int, center: bool, mode: str, align: bool) -> Any:
    """The signal as its frames see it, at least one frame long."""
    size = x._data.shape[-1]
    if center:
        shape = x._data.shape
        try:
            x = pad(reshape(x, (1,) * (3 - len(shape)) + tuple(shape)), (n // 2, n // 2), mode)
        except RuntimeError as e:
            if mode == "reflect" and n // 2 >= size:
                raise RuntimeError(
                    f"stft: a signal of {size} elements is too short for frames of n_fft={n} with center=True: "
                    f"pad_mode 'reflect' needs more than n_fft // 2 elements"
                ) from e
            raise
        x = reshape(x, x._data.shape[3 - len(shape) :])
    elif align and length <= size:
        left = (n - length) // 2
        x = constant_pad(x, ((0, 0),) * (x._data.ndim - 1) + ((left, n - length - left),), 0)
    if not 0 < n <= x._data.shape[-1]:
        raise RuntimeError(
            f"stft: expected 0 < n_fft <= {x._data.shape[-1]}, the length of the signal, but got n_fft={n}"
        )
    return x


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose :func:`stft` comes closest to `input` in the sense of least squares: Σ_t w y_t / Σ_t w².

    - `input` (Tensor): (frequencies, frames) or (B, frequencies, frames), complex
    - `n_fft` (int): the elements of a frame
    - `hop_length` (int, default None): the step from frame to frame; None: n_fft // 4
    - `win_length` (int, default None): of the window; None: n_fft
    - `window` (Tensor, default None): w, (win_length); None: ones
    - `center` (bool, default True): whether the signal was padded
    - `normalized` (bool, default False): whether it was divided by √n_fft
    - `onesided` (bool, default None): whether only the frequencies 0 to n_fft // 2 are there; None: by their number
    - `length` (int, default None): the result is cut, or continued by zeros (with a warning)
    - `return_complex` (bool, default False): gives a complex signal

    The result is (length) or (B, length); y_t are the inverse transforms of the frames. RuntimeError where the squared
    windows sum to less than 1e-11 somewhere, and for arguments that do not fit together. Source: D. W. Griffin and J.
    S. Lim, Signal estimation from modified short-time Fourier transform, 1984, eq. (6).

    Example::

        >>> import ferro
        >>> w = ferro.hann_window(4)
        >>> z = ferro.stft(ferro.arange(8.0), 4, 1, window=w, return_complex=True)
        >>> ferro.istft(z, 4, 1, window=w).round(decimals=4)
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    name = "istft"
    shape = need_tensor(name, "input", input)._data.shape
    if input._data.dtype not in COMPLEX:
        raise RuntimeError(
            f"{name} requires a complex-valued input tensor matching the output from stft with return_complex=True, "
            f"got {input.dtype}"
        )
    if len(shape) not in (2, 3):
        raise RuntimeError(f"{name}: expected a tensor with 2 or 3 dimensions, but got shape {list(shape)}")
    if not input._data.size:
        raise RuntimeError(f"{name}: input tensor cannot be empty, got shape {list(shape)}")
    n, hop, wide = _lengths(name, n_fft, hop_length, win_length)
    if hop > wide:
        raise RuntimeError(
            f"{name}: expected 0 < hop_length <= win_length, but got hop_length={hop}, win_length={wide}"
        )
    onesided = shape[-2] != n if onesided is None else onesided
    bins = n // 2 + 1 if onesided else n
    if shape[-2] != bins:
        raise RuntimeError(
            f"{name}: expected the frequency dimension of the input tensor to be {bins} with n_fft={n} and "
            f"onesided={onesided}, but got {shape[-2]}"
        )
    if return_complex and onesided:
        raise RuntimeError(f"{name}: Cannot have onesided output if window or input is complex")
    weights = _weights(name, window, n, wide, input)
    if not return_complex and window is not None and window._data.dtype in COMPLEX:
        raise RuntimeError(f"{name}: Complex windows are incompatible with return_complex=False")
    z = transpose(input, -1, -2)
    scale, last = 1 if normalized else 2, (len(shape) - 1,)
    if return_complex:
        y = fft_c2c(z, last, scale, True)
    else:
        y = fft_c2r(z if onesided else z[..., : n // 2 + 1], last, n, scale, True)
    if weights is None:
        weights = wrap(backend.beside(y._data, np.ones(n, y._data.dtype)))
    elif window is None:
        weights = weights.to(y.dtype)
    return _overlapped(y, weights, hop, center, length)


def _overlapped(y: Any, weights: Any, hop: int, center: bool, length: int | None) -> Any:
    """Frames times weights, added where they overlap, over the sum of the squared weights, without the padding."""
    *batch, frames, n = y._data.shape
    whole = n + hop * (frames - 1)
    signal = windows_add(y * weights, (*batch, whole), len(batch), n, hop)
    # the sum of squares depends on the place alone, so that one row serves all signals
    envelope = windows_add((weights * weights).expand(frames, n), (whole,), 0, n, hop)
    start = n // 2 if center else 0
    if length is not None and length < 0:
        raise RuntimeError(f"istft: length must not be negative, got {length}")
    end = start + length if length is not None else whole - start
    signal, envelope = signal[..., start:end], envelope[start:end]
    if not envelope._data.size:
        raise RuntimeError(
            f"istft: nothing is left of {frames} frames of n_fft={n} elements, hop_length={hop}, with center={center} and "
            f"length={length}"
        )
    smallest = float(abs(envelope._data).min())
    if smallest < SMALLEST:
        raise RuntimeError(
            f"istft: window overlap add min: the squared windows must not sum to zero anywhere, but their sum falls to "
            f"{smallest:.3g}; use a smaller hop_length than {hop}, or a window without zeros"
        )
    signal = signal / envelope
    if end > whole:
        warnings.warn(
            "istft: The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings",
            UserWarning,
            stacklevel=3,
        )
        signal = constant_pad(signal, ((0, 0),) * len(batch) + ((0, end - whole),), 0)
    return signal


_LONG = Arg(2, 12)
_WINDOW = Arg(4, low=0.5, high=1.0)
declare(
    "stft",
    [
        Sample(Arg(10), 4, return_complex=True),
        Sample(_LONG, 4, 2, return_complex=True),
        Sample(_LONG, 5, 2, 4, _WINDOW, center=False, normalized=True, return_complex=True),
        Sample(_LONG, 6, 1, 4, _WINDOW, pad_mode="constant", onesided=False, return_complex=True),
        Sample(_LONG, 5, 2, 4, _WINDOW, return_complex=False),
        Sample(_LONG, 6, 3, 4, pad_mode="replicate", return_complex=True),
        Sample(_LONG, 6, 2, 4, _WINDOW, center=False, align_to_window=True, return_complex=True),
    ],
    complex=True,
)


class SpectrogramMethods:
    """Methods of Tensor."""

    __slots__ = ()
    stft, istft = stft, istft
