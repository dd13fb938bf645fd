"""What pooling is asked for: images, windows and output sizes, normalised, or refused in PyTorch's words."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ferro.core.arguments import need_tensor
from ferro.core.dtypes import FROM_NUMPY, INEXACT

_INTS = {2: "two", 3: "three"}
# The dimensions of images and volumes, as PyTorch's messages call them.
_DIMENSIONS = {1: ("W",), 2: ("H", "W"), 3: ("T", "H", "W")}
_WORDS = ("time", "height", "width")


def spatial(shape: tuple, like: tuple) -> tuple:
    """The sizes of the last dimensions, as many as `like` has."""
    return shape[len(shape) - len(like) :]


def image(name: str, x: Any, n: int, windows: tuple = ()) -> tuple:
    """The spatial shape of the input of windows: n dimensions, none of them empty, behind channels and maybe images.

    windows: kernel, stride and so on, of which PyTorch speaks before it does of the shape.
    """
    shape = need_tensor(name, "input", x)._data.shape
    allowed = f"{n + 1}D or {n + 2}D (batch mode) tensor"
    if windows and (len(shape) not in (n + 1, n + 2) or 0 in shape[len(shape) - n - 1 :]):
        _steps(name, n, *windows)
    if len(shape) not in (n + 1, n + 2):
        if name == "avg_pool1d":
            raise _wrong_rank(name, shape)
        first = f"non-empty {allowed} expected for input: " if n > 1 else ""
        raise RuntimeError(
            f"{first}{name}: Expected {allowed} with optional 0 dim batch size for input, but got:{list(shape)}"
        )
    if 0 in shape[len(shape) - n - 1 :]:
        if n == 3:
            raise RuntimeError(
                f"{name}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
                f"{list(shape)} and non-batch dimension {shape.index(0, len(shape) - 4) - len(shape) + 4} has length "
                "zero!"
            )
        raise RuntimeError(
            f"{name}: Expected {allowed} with optional 0 dim batch size for input, but got:{list(shape)}"
        )
    _need_real(name, x)
    return shape[len(shape) - n :]


def _divided_image(name: str, x: Any, n: int) -> tuple:
    """The spatial shape of the input of adaptive pooling; batches, and means of one or two dimensions channels, may be empty."""
    shape = need_tensor(name, "input", x)._data.shape
    if len(shape) not in (n + 1, n + 2):
        if n == 1:
            raise _wrong_rank(name, shape)
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got{'' if 'avg' in name else ':'} {list(shape)}"
        )
    first = len(shape) - n if "avg" in name and n < 3 else 1
    if 0 in shape[first:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(shape)} with dimension {shape.index(0, first)} being empty"
        )
    _need_real(name, x, floating=True)
    return shape[len(shape) - n :]


def fractional_image(name: str, x: Any, n: int) -> tuple:
    """The spatial shape of the input of fractional pooling; only the first dimension may be empty."""
    shape = need_tensor(name, "input", x)._data.shape
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}")
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got{list(shape)} with "
            f"dimension {shape.index(0, 1)} being empty."
        )
    _need_real(name, x, floating=True)
    return shape[len(shape) - n :]


def _wrong_rank(name: str, shape: tuple) -> RuntimeError:
    return RuntimeError(
        f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' (while checking "
        f"arguments for {name}): the shape is {list(shape)}"
    )


def _need_real(name: str, x: Any, floating: bool = False) -> None:
    dtype = x._data.dtype
    if dtype.kind in "bc" or (floating and dtype not in INEXACT):
        raise RuntimeError(
            f"{name}: not implemented for {FROM_NUMPY[dtype]}; expected a {'floating point' if floating else 'real'} dtype"
        )


def frozen(given: Any) -> Any:
    """A list as a tuple, which can be a key; anything else as it is."""
    return tuple(given) if isinstance(given, list) else given


def numbers(name: str, argument: str, given: Any, n: int) -> tuple[int, ...]:
    """One integer for each dimension, given as one or as n."""
    try:
        several = isinstance(given, (tuple, list))
        found = tuple([operator.index(v) for v in given]) if several else (operator.index(given),)
    except TypeError:
        raise TypeError(f"{name}(): argument '{argument}' must be an int or {n} ints, got {given!r}") from None
    if len(found) == n:
        return found
    if len(found) == 1:
        return found * n
    omitted = argument == "stride"
    if n > 1:
        words = "omitted, a single int" if omitted else "a single int"
        either = "" if name == "avg_pool3d" else "either "
        raise RuntimeError(f"{name}: {argument} must {either}be {words}, or a tuple of {_INTS[n]} ints, got {given!r}")
    if name == "max_pool1d":
        words = (
            "None, an int, list of ints, or"
            if omitted
            else f"an int, list of ints{',' if argument == 'padding' else ''} or"
        )
        raise RuntimeError(f"{name}() {argument} must be {words} tuple of ints of size 1 but got size {len(found)}")
    raise RuntimeError(f"{name}() argument '{argument}' should contain one int (got {len(found)})")


def _steps(name: str, n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1) -> tuple:
    """(kernel, stride, pad, dilation), one number per dimension each."""
    kernel = numbers(name, "kernel_size", kernel_size, n)
    step = kernel if stride is None or stride == () else numbers(name, "stride", stride, n)
    pad, dilation = numbers(name, "padding", padding, n), numbers(name, "dilation", dilation, n)
    _check_windows(name, n, kernel, step, pad, dilation)
    return kernel, step, pad, dilation


@lru_cache(maxsize=512, typed=True)
def windows(
    name: str,
    n: int,
    channels: int,
    shape: tuple,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple:
    """(kernel, number of windows, stride, pad, dilation), one number per dimension each."""
    kernel, step, pad, dilation = _steps(name, n, kernel_size, stride, padding, dilation)
    size = []
    for s, k, st, p, d in zip(shape, kernel, step, pad, dilation, strict=True):
        count = -(-(s + 2 * p - d * (k - 1) - 1) // st) + 1 if ceil_mode else (s + 2 * p - d * (k - 1) - 1) // st + 1
        size.append(count - 1 if ceil_mode and (count - 1) * st >= s + p else count)  # the last window begins inside
    if min(size) < 1:
        settings = f"kernel_size={kernel}, stride={step}, padding={pad}, dilation={dilation}"
        said = f"Given input size: ({_by(channels, shape)}). Calculated output size: ({_by(channels, size)}). Output size is too small"
        if name == "avg_pool3d":
            axes = _DIMENSIONS[3]
            said = (
                f"input image ({' '.join(f'{a}: {s}' for a, s in zip(axes, shape, strict=True))}) smaller than kernel size "
                f"({' '.join(f'k{a}: {k}' for a, k in zip(axes, kernel, strict=True))})"
            )
        if name == "max_pool1d":
            said = f"{name}() Invalid computed output size: {size[0]}: {said}"
        raise RuntimeError(f"{name}: {said} for {settings}")
    return kernel, tuple(size), step, pad, dilation


def _by(channels: int, sizes: Any) -> str:
    return "x".join(map(str, (channels, *sizes)))


def _check_windows(name: str, n: int, kernel: tuple, step: tuple, pad: tuple, dilation: tuple) -> None:
    """RuntimeError for numbers that no window has."""
    wrong = _wrong_window(name, n, kernel, step, pad, dilation)
    if not wrong:
        return
    if name == "max_pool1d":  # of which PyTorch speaks in two ways, without and with a gradient
        own = f"padding should be at most half of kernel size, but got padding={pad[0]} and kernel_size={kernel[0]}"
        for argument, given, least in (
            ("kernel_size", kernel, 1),
            ("stride", step, 1),
            ("padding", pad, 0),
            ("dilation", dilation, 1),
        ):
            if given[0] < least:
                own = f"{argument} must be {'greater than zero' if least else 'non-negative'}, but got {given[0]}"
                break
        wrong = f"{own}: {wrong}"
    raise RuntimeError(f"{name}() {wrong}")


def _wrong_window(name: str, n: int, kernel: tuple, step: tuple, pad: tuple, dilation: tuple) -> str | None:
    """What is wrong with the numbers of a window, in PyTorch's words."""
    if 0 in step:
        return f"stride should not be zero, got stride={step} for kernel_size={kernel}"
    for argument, given, letter in (
        ("kernel size", kernel, "k"),
        ("stride", step, "d"),
        ("dilation", dilation, "dilation"),
    ):
        if min(given) < 1:
            listed = " ".join([f"{letter}{axis}: {v}" for axis, v in zip(_DIMENSIONS[n], given, strict=True)])
            return f"{argument} should be greater than zero, but got {listed}"
    for k, p, d in zip(kernel, pad, dilation, strict=True):
        if p < 0:
            return f"pad must be non-negative, but got pad: {p}"
        if p > ((k - 1) * d + 1) // 2:
            return f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
    if any(p > k // 2 for p, k in zip(pad, kernel, strict=True)):
        listed = [
            f"{letter}{a} = {v}"
            for letter, given in (("pad", pad), ("k", kernel))
            for a, v in zip(_DIMENSIONS[n][::-1], given[::-1], strict=True)
        ]
        return f"pad should be smaller than or equal to half of kernel size, but got {', '.join(listed)}"
    return None


def target(name: str, n: int, x: Any, output_size: Any) -> tuple:
    """The spatial shape of the input of adaptive pooling, and the output sizes, where None keeps the size of the input.

    A result that no memory can hold is refused at once.
    """
    if (
        n > 1
        and isinstance(output_size, (tuple, list))
        and need_tensor(name, "input", x)._data.ndim <= len(output_size)
    ):
        raise ValueError(
            f"{name}: Input dimension should be at least {len(output_size) + 1}, got the shape {list(x._data.shape)}"
        )
    shape = _divided_image(name, x, n)
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    if len(given) != n:
        if n == 1:
            raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(given)})")
        words = "output_size must be" if "avg" in name else "internal error: output_size.size() must be"
        raise RuntimeError(
            f"{name}{': ' if 'avg' in name else '(): '}{words} {n} (or one integer, or None for the size of the input), "
            f"got {output_size!r}"
        )
    size = tuple([s if o is None else operator.index(o) for s, o in zip(shape, given, strict=True)])
    whole = (*x.shape[: x.dim() - n], *size)
    if min(size) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {size}: Trying to create "
            f"tensor with negative dimension {min(size)}: {list(whole)}"
        )
    if math.prod(whole) * x.element_size() >= 1 << 63:
        raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(whole)}")
    np.empty(whole, x._data.dtype)  # MemoryError now, not after the windows have been counted
    return shape, size


def need_cotangent(kind: str, g: Any, size: tuple) -> Any:
    """The cotangent of adaptive pooling to `size`, which PyTorch refuses if it is empty."""
    if 0 not in size:
        return g
    shape = list(g.shape)
    raise RuntimeError(
        f"adaptive_{kind}_pool{max(len(size), 2)}d_backward(): Expected grad_output to have non-zero size for non-batch "
        f"dimensions, but grad_output has sizes {shape} with dimension {len(shape) - len(size) + size.index(0)} being "
        "empty"
    )


def fractional_windows(
    name: str, n: int, lead: tuple, shape: tuple, kernel_size: Any, output_size: Any, output_ratio: Any
) -> tuple:
    """(kernel, number of windows) of fractional pooling; these may be none."""
    several = "tuple of Ints" if n == 2 else f"tuple of {_INTS[n]} Ints"
    if output_size is None:
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
        if len(ratio) != n:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints. It got {output_ratio!r}, and needs a "
                f"number or {n} numbers between 0 and 1"
            )
        if not all(0 < r < 1 for r in ratio):
            raise ValueError(
                f"{name}: output_ratio must be a number or {n} numbers between 0 and 1, got {output_ratio!r}"
            )
        output_size = [int(s * r) for s, r in zip(shape, ratio, strict=True)]
    found = []
    for argument, given in (("kernel_size", kernel_size), ("output_size", output_size)):
        if isinstance(given, (tuple, list)) and len(given) != n:
            raise RuntimeError(f"{name}: {argument} must either be a single Int or {several}, got {given!r}")
        found.append(numbers(name, argument, given, n))
    kernel, size = found
    if min(kernel) < 1:
        raise RuntimeError(f"{name}: kernel_size must be positive, got {kernel_size!r}")
    if min(size) < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {min(size)}: {[*lead, *size]}")
    for o, k, s, what in zip(size, kernel, shape, _WORDS[3 - n :], strict=True):
        if o + k - 1 > s - (n == 3):  # PyTorch's limits
            raise RuntimeError(
                f"{name}{'_out' if n == 3 else ''}(): pool {what} {k} too large relative to input {what} {s}: "
                f"output_size + kernel_size - 1 must {'be less' if n == 3 else 'not be more'}, output_size is {size}"
            )
    return kernel, size


def check_samples(name: str, n: int, lead: tuple, samples: Any, dtype: Any) -> None:
    """RuntimeError for random numbers that do not fit images of `lead` (images,) channels."""
    have = need_tensor(name, "_random_samples", samples)._data.shape
    images = lead[0] if len(lead) == 2 else 1
    if len(have) != 3:
        said = f"to have 3 dimensions, got {len(have)}"
    elif have[0] < images:
        said = "size(0) no less then input batch size."
    elif have[1] != lead[-1]:
        said = "size(1) equals to input channel size."
    elif have[2] != n:
        said = f"size(2) equals to {n}; got {have[2]}."
    elif samples._data.dtype is not dtype:
        raise RuntimeError(f"{name}: Expect _random_samples to have the same dtype as input")
    else:
        return
    dot = " " if said.startswith("to") else "."
    raise RuntimeError(
        f"{name}: Expect _random_samples{dot}{said} Its shape is {list(have)}, wanted is {[images, lead[-1], n]}"
    )
