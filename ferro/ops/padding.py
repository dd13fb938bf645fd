"""Padding, and pixels and channels moved between dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import sizes
from ferro.core.backend import beside, xp_of
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.indexing import INDEX_SELECT
from ferro.ops.permuting import permute
from ferro.ops.shape import reshape
from ferro.ops.strides import laid_out_like

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["channel_shuffle", "constant_pad_nd", "pixel_shuffle", "pixel_unshuffle"]

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """The tensor with elements added around its last dimensions.

    - `input` (Tensor): any shape; for the modes other than "constant" (N, C, d1, ...) or (C, d1, ...) with one to three
      padded dimensions
    - `pad` (sequence of ints): (before, after) for the last dimension, then for the one before it, ...; negative
      numbers cut elements off
    - `mode` (str, default "constant"): "constant" fills with `value`; "reflect" mirrors at the edge, which is not
      repeated; "replicate" repeats the edge; "circular" takes the elements of the other end
    - `value` (float, default None): what "constant" fills with; None is 0

    RuntimeError for an odd number of paddings or too many of them, and for a reflection or circle longer than the
    input.

    Example::

        >>> import ferro
        >>> ferro.nn.functional.pad(ferro.tensor([[1, 2], [3, 4]]), (1, 0, 0, 1))
        tensor([[0, 1, 2],
                [0, 3, 4],
                [0, 0, 0]])
    """
    amounts = sizes("pad", (pad,))
    if len(amounts) % 2:
        raise RuntimeError(f"pad: Padding length must be divisible by 2, got {list(amounts)}")
    if len(amounts) > 2 * input._data.ndim:
        raise RuntimeError(
            f"pad: Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input._data.ndim}"
        )
    if mode not in MODES:
        raise NotImplementedError(f"pad: unrecognised padding mode {mode!r}; choose one of {', '.join(MODES)}")
    if mode == "constant":
        return constant_pad_nd(input, amounts, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'pad: Padding mode "{mode}" doesn\'t take in value argument, got {value}')
    padded = _pad_from_edge if mode == "circular" else _pad_in_full_precision
    return laid_out_like(input, padded(input, amounts, mode))


def _pairs(amounts: tuple, ndim: int) -> tuple:
    """(before, after) for every dimension, the first first."""
    given = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    return ((0, 0),) * (ndim - len(given)) + tuple(given)


def _pad_from_edge(x: Any, amounts: tuple, mode: str) -> Tensor:
    shape = x._data.shape
    n = len(amounts) // 2
    if not 1 <= n <= 3 or len(shape) not in (n + 1, n + 2):
        raise NotImplementedError(
            f"pad: mode {mode} pads the last 1, 2 or 3 dimensions of a tensor that has one or two dimensions more "
            f"(channels, batch), got padding {list(amounts)} for shape {list(shape)}"
        )
    pairs = _pairs(amounts, len(shape))
    if mode != "circular" and 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"pad: Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    for d, ((before, after), size) in enumerate(zip(pairs, shape, strict=True)):
        if (before or after) and not size:
            raise RuntimeError(f"pad: Expected a tensor with non-zero size in dimension {d}, got shape {list(shape)}")
        if mode == "reflect" and (before >= size or after >= size) and d >= len(shape) - n:
            raise RuntimeError(
                f"pad: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {d} of input {list(shape)}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError(
                f"pad: Padding value causes wrapping around more than once: ({before}, {after}) at dimension {d} of {list(shape)}"
            )
        if size + before + after < (1 if mode != "circular" and d >= len(shape) - n else 0):
            raise RuntimeError(
                f"pad: the padded size {size + before + after} of dimension {d} is too small, input {list(shape)}"
            )
    for d, (before, after) in enumerate(pairs):
        if before or after:
            index = wrap(beside(x._data, xp_of(x._data).pad_index(shape[d], before, after, mode)))
            x = apply(INDEX_SELECT, (x, index), (d,))
    return x if any(map(any, pairs)) else x.clone()


_pad_in_full_precision = in_full_precision(_pad_from_edge)


def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """The tensor with elements of one value around its last dimensions, the last dimension first in `pad`."""
    amounts = sizes("constant_pad_nd", (pad,))
    shape = input._data.shape
    if len(amounts) % 2 or len(amounts) > 2 * len(shape):
        raise RuntimeError(
            f"constant_pad_nd: the length of pad must be even and at most {2 * len(shape)} for input {list(shape)}, got {list(amounts)}"
        )
    pairs = _pairs(amounts, len(shape))
    for d, ((before, after), size) in enumerate(zip(pairs, shape, strict=True)):
        if size + before + after < 0 or size + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError(
                f"constant_pad_nd: The input size {size}, plus negative padding {before} and {after}, resulted in a negative "
                f"output size, which is invalid. Check dimension {d} of your input."
            )
    if isinstance(value, complex) and input._data.dtype.kind != "c":
        raise RuntimeError(f"constant_pad_nd: value {value} cannot be converted to {input.dtype} without overflow")
    return laid_out_like(input, unary(CONSTANT_PAD, input, (pairs, value)))


CONSTANT_PAD = Op(
    "constant_pad",
    lambda xp, x, /, pads, value: xp.constant_pad(x, pads, value),
    path="constant_pad_nd",
    complex=True,
    x=lambda xp, g, pads: xp.constant_pad(g, tuple([(-a, -b) for a, b in pads]), 0),
    jvp=lambda xp, t, pads: xp.constant_pad(t[0], pads, 0),
    samples=[
        Sample(Arg(2, 3), (1, 2)),
        Sample(Arg(2, 3), (0, -1, 2, 0), 1.5),
        Sample(Arg(3), [1, -2]),
        Sample(Arg(2), ()),
    ],
)


def constant_pad(x: Tensor, pads: tuple, value: Any) -> Tensor:
    """constant_pad_nd() with (before, after) for every dimension."""
    return unary(CONSTANT_PAD, x, (pads, value))


declare(
    "nn.functional.pad",
    [
        Sample(Arg(2, 3), (1, 2)),
        Sample(Arg(2, 3), (1, 0, 0, 2), value=0.5),
        Sample(Arg(1, 2, 4), (2, 1), "reflect"),
        Sample(Arg(2, 3, 4), (1, 1, 2, 0), "reflect"),
        Sample(Arg(1, 2, 3), (3, 2), "replicate"),
        Sample(Arg(1, 1, 2, 3), (1, 1, 0, 2), mode="replicate"),
        Sample(Arg(1, 2, 3), (2, 3), "circular"),
        Sample(Arg(1, 1, 2, 2, 3), (1, 0, 1, 1, 0, 1), "circular"),
        Sample(Arg(1, 2, 4), (-1, 2), "replicate"),
    ],
    complex=True,
)


# -- pixels and channels -----------------------------------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels as pixels: (..., c r r, h, w) becomes (..., c, h r, w r).

    - `input` (Tensor): of three or more dimensions
    - `upscale_factor` (int): r

    RuntimeError for fewer dimensions and a number of channels that r² does not divide. Source: Shi et al., Real-Time
    Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network, 2016.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pixel_shuffle(ferro.arange(4.0).reshape(1, 4, 1, 1), 2)
        tensor([[[[0., 1.],
                  [2., 3.]]]])
    """
    r = upscale_factor
    if input._data.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input._data.ndim} dimension(s)"
        )
    *lead, c, h, w = input._data.shape
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    pixels = reshape(permute(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2)), (*lead, c // (r * r), h * r, w * r))
    return laid_out_like(input, pixels)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels as channels, the inverse of :func:`pixel_shuffle`: (..., c, h r, w r) becomes (..., c r r, h, w).

    - `input` (Tensor): of three or more dimensions
    - `downscale_factor` (int): r

    RuntimeError for fewer dimensions and sizes that r does not divide.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.pixel_unshuffle(ferro.arange(4.0).reshape(1, 1, 2, 2), 2).flatten()
        tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    if input._data.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input._data.ndim} dimension(s)"
        )
    *lead, c, h, w = input._data.shape
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    for what, size in (("height", h), ("width", w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but {size} is not divisible by {r}"
            )
    n = len(lead)
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    channels = reshape(permute(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3)), (*lead, c * r * r, h // r, w // r))
    return laid_out_like(input, channels)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (batch, channels, ...) dealt out to groups: channel g n + i becomes channel i groups + g."""
    if input._data.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input._data.shape)}"
        )
    b, c, *rest = input._data.shape
    if groups <= 0:
        raise RuntimeError(
            f"channel_shuffle: Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if c % groups:
        raise RuntimeError(
            f"channel_shuffle: Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    split = reshape(input, (b, groups, c // groups, *rest))
    return reshape(permute(split, (0, 2, 1, *range(3, split._data.ndim))), (b, c, *rest))


declare("pixel_shuffle", [Sample(Arg(1, 8, 2, 3), 2), Sample(Arg(4, 1, 1), 2)], complex=True)
declare("pixel_unshuffle", [Sample(Arg(1, 2, 4, 2), 2), Sample(Arg(1, 2, 2), 1)], complex=True)
declare("channel_shuffle", [Sample(Arg(1, 4, 2), 2), Sample(Arg(2, 6, 1, 2), 3)], complex=True)
