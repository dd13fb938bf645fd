"""Dropout: random zeros in training, the rest scaled to keep the mean (or, for selu networks, mean and variance)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import backend
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.inplace import change
from ferro.core.op import LINEAR, Op
from ferro.core.random import stream_of
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.random import in_memory_order

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "native_dropout"]


def _kept(x: Any, features: int | None, p: float, generator: Any) -> Any:
    """Where elements of an array are kept, or (features: see _apply) whole features: each with probability 1 - p."""

    def make(shape: tuple, _: Any) -> Any:
        return as_array(stream_of(generator, x).coins(shape, 1 - p))

    return in_memory_order(x, make) if features is None else make(x.shape[:features] + (1,) * (x.ndim - features), None)


def _check(name: str, input: Tensor, p: float) -> None:
    need_tensor(name, "input", input)
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


def _apply(
    name: str,
    input: Tensor,
    p: float,
    training: bool,
    inplace: bool,
    generator: Any,
    features: int | None = None,
    alpha: bool = False,
) -> Tensor:
    """Dropout of elements, or (features: the number of leading dimensions) of whole features."""
    _check(name, input, p)
    x = input._data
    if not training or p == 0 or x.size == 0:
        return input
    if x.dtype not in INEXACT:
        raise RuntimeError(
            f"{name}: result type Float can't be cast to the desired output type "
            f"{input.dtype}; expected a floating-point tensor"
        )
    if p == 1:  # nothing is drawn
        return change(input, f"{name}_", lambda t: t * 0) if inplace else input * 0
    mask = None if alpha or features is not None else _mask(x, p, generator)
    if mask is not None:
        return change(input, f"{name}_", lambda t: _dropped(t, mask)) if inplace else _dropped(input, mask)
    kept = _kept(x, features, p, generator)
    scale, shift = 1 / (1 - p), None
    if alpha:
        kept, scale, shift = _alpha(kept, p, x)
    wide = np.float64 if x.dtype.itemsize == 8 else np.float32
    factors = kept.astype(wide)
    factors *= wide(scale)
    factor = wrap(backend.beside(x, factors.astype(x.dtype, copy=False)))

    def compute(t: Tensor) -> Tensor:
        return t * factor if shift is None else t * factor + shift

    return change(input, f"{name}_", compute) if inplace else compute(input)


def _mask(x: Any, p: float, generator: Any) -> Any:
    """A function that drops elements of arrays like this one, the same each time, where a device has one; None elsewhere."""
    if type(x) not in backend.DEVICES or x.dtype.kind == "c":
        return None
    make = getattr(stream_of(generator, x), "mask", None)  # (a vmap's and a graph's streams have none)
    return None if make is None else make(x, 1 - p)


def _dropped(x: Any, mask: Any) -> Any:
    return backend.apply(DROPPED, (x,), (mask,)) if isinstance(x, TensorBase) else mask(x)


DROPPED = Op(
    "dropped",
    lambda xp, x, /, mask: mask(x),
    kind=LINEAR,
    x=lambda xp, g, mask: _dropped(g, mask),
)


def _alpha(kept: Any, p: float, x: Any) -> tuple:
    """Mask, scale and shift of alpha dropout: dropped elements become the limit of selu at -inf, before mean and
    variance are restored.
    """
    limit = 1.0507009873554805 * 1.6732632423543772
    scale = 1 / math.sqrt((limit * limit * p + 1) * (1 - p))
    wide = np.float64 if x.dtype.itemsize == 8 else np.float32
    below = ((kept.astype(wide) - wide(1)) * wide(limit * scale)).astype(x.dtype)  # rounded step by step, as in PyTorch
    return kept, scale, wrap(backend.beside(x, (below.astype(wide) + wide(limit * scale * p)).astype(x.dtype)))


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Zeros each element with probability p and divides the others by 1 - p.

    - `input` (Tensor): any shape, floating
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default True): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`; so has its gradient the same zeros. ValueError for a p out of range. Source:
    Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting, 2014.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.dropout(ferro.ones(3), p=1.0), F.dropout(ferro.ones(3), training=False)
        (tensor([0., 0., 0.]), tensor([1., 1., 1.]))
    """
    return _apply("dropout", input, p, training, inplace, generator)


declare(
    "nn.functional.dropout",
    [Sample(Arg(3, 4), training=False), Sample(Arg(3, 4), 0.0), Sample(Arg(3, 4), 1.0), Sample(Arg(0, 2))],
)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeros each element with probability p, in place, and divides the others by 1 - p: see `nn.functional.dropout`.

    - `input` (Tensor): any shape, floating, changed and returned
    - `p` (float in [0, 1]): the probability
    - `train` (bool): False leaves the tensor as it is

    ValueError for a p out of range.

    Example::

        >>> import ferro
        >>> ferro.dropout_(ferro.ones(3), 1.0, True)
        tensor([0., 0., 0.])
    """
    return _apply("dropout", input, p, train, True, None)


def _two(input: Tensor, p: float, train: bool) -> int:
    ndim = need_tensor("feature_dropout", "input", input)._data.ndim
    if ndim < 2 and train and p:
        raise RuntimeError("feature_dropout: Feature dropout requires at least 2 dimensions in the input")
    return min(2, ndim)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Dropout that keeps mean and variance of selu activations: an element becomes the lower limit of selu, and all are
    scaled and shifted.

    - `input` (Tensor): any shape, floating
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default False): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. ValueError for a p out of range. Source: Klambauer et al., Self-Normalizing
    Neural Networks, 2017.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.alpha_dropout(ferro.ones(3), p=0.5)  # nothing is dropped without training
        tensor([1., 1., 1.])
    """
    return _apply("alpha_dropout", input, p, training, inplace, generator, alpha=True)


declare("nn.functional.alpha_dropout", [Sample(Arg(3, 4)), Sample(Arg(3, 4), 0.0, True), Sample(Arg(3, 4), 1.0, True)])


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that keeps mean and variance of selu activations, in place: see `nn.functional.alpha_dropout`.

    - `input` (Tensor): any shape, floating, changed and returned
    - `p` (float in [0, 1]): the probability
    - `train` (bool): False leaves the tensor as it is

    ValueError for a p out of range.

    Example::

        >>> import ferro
        >>> ferro.alpha_dropout_(ferro.ones(3), 0.5, False)
        tensor([1., 1., 1.])
    """
    return _apply("alpha_dropout", input, p, train, True, None, alpha=True)


def native_dropout(input: Tensor, p: float, train: bool | None, *, generator: Any = None) -> tuple:
    """Dropout with its mask: (result, mask), the mask True where an element is kept.

    - `input` (Tensor): any shape, floating
    - `p` (float in [0, 1]): the probability of a zero
    - `train` (bool or None): False keeps all elements
    - `generator` (Generator, default None): the source of random numbers, else the default one

    Example::

        >>> import ferro
        >>> ferro.native_dropout(ferro.ones(2), 0.5, False)
        (tensor([1., 1.]), tensor([True, True]))
    """
    _check("native_dropout", input, p)
    x = input._data
    if (train is not None and not train) or x.size == 0:  # None trains, as in PyTorch
        return input.clone(), wrap(backend.beside(x, np.ones(x.shape, bool)))
    kept = _kept(x, None, p, generator)
    wide = np.float64 if x.dtype.itemsize == 8 else np.float32
    return input * wrap((kept.astype(wide) * wide(1 / (1 - p) if p < 1 else 0.0)).astype(x.dtype)), wrap(kept)
