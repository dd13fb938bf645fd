"""Initialisation with uniform, normal and truncated normal numbers."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.ops.choices import where
from ferro.ops.uninitialised import empty_like
from ferro.tensor import Tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor in place with numbers uniform on [a, b), and returns it.

    - `tensor` (Tensor): any shape, floating
    - `a`, `b` (float, default 0.0 and 1.0): the edges; RuntimeError where a > b
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> w = ferro.nn.init.uniform_(ferro.empty(3, 5), -1.0, 1.0)
        >>> bool((w >= -1).all() and (w < 1).all())
        True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor in place with normal numbers, and returns it.

    - `tensor` (Tensor): any shape, floating
    - `mean`, `std` (float, default 0.0 and 1.0): mean and standard deviation; RuntimeError for a negative one
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> ferro.nn.init.normal_(ferro.empty(2), mean=3.0, std=0.0)
        tensor([3., 3.])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fills a tensor in place with normal numbers conditioned to lie in [a, b], and returns it.

    - `tensor` (Tensor): any shape, floating
    - `mean`, `std` (float, default 0.0 and 1.0): of the normal distribution before it is cut
    - `a`, `b` (float, default -2.0 and 2.0): the edges
    - `generator` (Generator, default None): the source of random numbers, else the default one

    By rejection: of normal numbers, or of uniform ones where few of those would be kept. Warns where the mean is more
    than 2 std outside of [a, b].

    Example::

        >>> import ferro
        >>> w = ferro.nn.init.trunc_normal_(ferro.empty(1000))
        >>> bool(w.abs().max() <= 2)
        True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    below_b, below_a = [math.erf((bound - mean) / std / math.sqrt(2.0)) / 2 for bound in (b, a)]
    draw = _normal_within if below_b - below_a > 0.3 else _uniform_within
    with no_grad():
        return draw(tensor, mean, std, a, b, generator)


def _normal_within(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Normal numbers; those outside of [a, b] are replaced by others."""
    low, high = [tensor.new_tensor(bound).item() for bound in (a, b)]
    values = tensor.normal_(mean, std, generator=generator)
    while bool((outside := (values < low) | (values > high)).any()):
        values = where(outside, empty_like(values).normal_(mean, std, generator=generator), values)
    return tensor if values is tensor else tensor.copy_(values)


def _uniform_within(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Uniform numbers of [a, b), each kept with a probability in proportion to the density."""
    highest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(values: Tensor) -> Tensor:
        height = values.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        return empty_like(values).uniform_(generator=generator).log_() > height

    values = tensor.uniform_(a, b, generator=generator)
    pending = refused(values)
    while bool(pending.any()):
        others = empty_like(values).uniform_(a, b, generator=generator)
        values = where(pending, others, values)
        pending = pending & refused(others)
    return tensor if values is tensor else tensor.copy_(values)
