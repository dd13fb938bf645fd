"""Dropout: random zeros in training, the rest scaled to keep the mean (or, for selu networks, mean and variance)."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.dtypes import INEXACT
from ferro.core.inplace import change
from ferro.core.random import stream_of
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.random import in_memory_order

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["alpha_dropout", "alpha_dropout_", "dropout", "dropout1d", "dropout2d", "dropout3d", "dropout_",
           "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_",
           "native_dropout"]  # fmt: skip


def _kept(x: Any, features: int | None, p: float, generator: Any) -> Any:
    """Where elements of an array are kept, or (features: see _apply) whole features: each with probability 1 - p."""

    def make(shape: tuple, _: Any) -> Any:
        return as_array(stream_of(generator).coins(shape, 1 - p))

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
    kept = _kept(x, features, p, generator)
    scale, shift = 1 / (1 - p), None
    if alpha:
        kept, scale, shift = _alpha(kept, p, x.dtype)
    wide = np.float64 if x.dtype.itemsize == 8 else np.float32
    factors = kept.astype(wide)
    factors *= wide(scale)
    factor = wrap(factors.astype(x.dtype, copy=False))

    def compute(t: Tensor) -> Tensor:
        return t * factor if shift is None else t * factor + shift

    return change(input, f"{name}_", compute) if inplace else compute(input)


def _alpha(kept: Any, p: float, dtype: Any) -> tuple:
    """Mask, scale and shift of alpha dropout: dropped elements become the limit of selu at -inf, before mean and
    variance are restored.
    """
    limit = 1.0507009873554805 * 1.6732632423543772
    scale = 1 / math.sqrt((limit * limit * p + 1) * (1 - p))
    wide = np.float64 if dtype.itemsize == 8 else np.float32
    below = ((kept.astype(wide) - wide(1)) * wide(limit * scale)).astype(dtype)  # rounded step by step, as in PyTorch
    return kept, scale, wrap((below.astype(wide) + wide(limit * scale * p)).astype(dtype))


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


def _features(input: Tensor, spatial: int, name: str, batched: bool = False) -> int:
    """How many leading dimensions (batch and channel, or channel alone) number the features."""
    ndim = need_tensor(name, "input", input)._data.ndim
    if ndim not in (spatial + 1, spatial + 2):
        note = (
            f"Note that {name} exists to provide channel-wise dropout on inputs with {spatial} spatial "
            f"dimension{'s' * (spatial > 1)}, a channel dimension, and an optional batch dimension (i.e. "
            f"{spatial + 1}D or {spatial + 2}D inputs)."
        )
        if spatial == 1:
            raise RuntimeError(f"{name}: Expected 2D or 3D input, but received a {ndim}D input. {note}")
        warnings.warn(
            f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future "
            "release. To retain the behavior and silence this warning, please use dropout instead. "
            f"{note}",
            UserWarning,
            stacklevel=3,
        )
    elif batched and ndim == spatial + 1:
        warnings.warn(
            f"{name}: Received a {ndim}D input to {name} and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To "
            "maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            UserWarning,
            stacklevel=3,
        )
    return min(2 if ndim != spatial + 1 or batched else 1, ndim)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Zeros whole channels with probability p and divides the others by 1 - p.

    - `input` (Tensor): (N, C, L) or (C, L)
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default True): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. ValueError for a p out of range, RuntimeError for other numbers of dimensions.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.dropout1d(ferro.ones(1, 2, 3), p=1.0)
        tensor([[[0., 0., 0.],
                 [0., 0., 0.]]])
    """
    return _apply("dropout1d", input, p, training, inplace, generator, _features(input, 1, "dropout1d"))


declare(
    "nn.functional.dropout1d", [Sample(Arg(2, 3, 4), training=False), Sample(Arg(3, 4), 0.0), Sample(Arg(2, 3, 4), 1.0)]
)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Zeros whole channels with probability p and divides the others by 1 - p.

    - `input` (Tensor): (N, C, H, W); of any other number of dimensions the first two count, with a warning
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default True): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. ValueError for a p out of range. Source: Tompson et al., Efficient Object
    Localization Using Convolutional Networks, 2015.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.dropout2d(ferro.ones(1, 2, 1, 3), p=1.0)
        tensor([[[[0., 0., 0.]],
        <BLANKLINE>
                 [[0., 0., 0.]]]])
    """
    return _apply("dropout2d", input, p, training, inplace, generator, _features(input, 2, "dropout2d", batched=True))


declare(
    "nn.functional.dropout2d",
    [Sample(Arg(2, 3, 2, 2), training=False), Sample(Arg(2, 3, 2, 2), 0.0), Sample(Arg(2, 3, 2, 2), 1.0)],
)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Zeros whole channels with probability p and divides the others by 1 - p.

    - `input` (Tensor): (N, C, D, H, W) or (C, D, H, W)
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default True): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. ValueError for a p out of range.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.dropout3d(ferro.ones(1, 2, 1, 1, 3), p=1.0).sum()
        tensor(0.)
    """
    return _apply("dropout3d", input, p, training, inplace, generator, _features(input, 3, "dropout3d"))


declare(
    "nn.functional.dropout3d",
    [Sample(Arg(1, 2, 1, 2, 2), training=False), Sample(Arg(2, 1, 2, 2), 0.0), Sample(Arg(1, 2, 1, 2, 2), 1.0)],
)


def feature_dropout(input: Tensor, p: float, train: bool, *, generator: Any = None) -> Tensor:
    """Zeros whole features, the elements that share their first two indices, with probability p and divides the others
    by 1 - p.

    - `input` (Tensor): (N, C, ...)
    - `p` (float in [0, 1]): the probability
    - `train` (bool): False gives the input itself
    - `generator` (Generator, default None): the source of random numbers, else the default one

    ValueError for a p out of range, RuntimeError for fewer than two dimensions.

    Example::

        >>> import ferro
        >>> ferro.feature_dropout(ferro.ones(1, 2, 3), 1.0, True)
        tensor([[[0., 0., 0.],
                 [0., 0., 0.]]])
    """
    return _apply("feature_dropout", input, p, train, False, generator, _two(input, p, train))


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeros whole features with probability p, in place, and divides the others by 1 - p: see :func:`feature_dropout`.

    - `input` (Tensor): (N, C, ...), changed and returned
    - `p` (float in [0, 1]): the probability
    - `train` (bool): False leaves the tensor as it is

    ValueError for a p out of range, RuntimeError for fewer than two dimensions.

    Example::

        >>> import ferro
        >>> ferro.feature_dropout_(ferro.ones(1, 3), 1.0, True)
        tensor([[0., 0., 0.]])
    """
    return _apply("feature_dropout", input, p, train, True, None, _two(input, p, train))


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


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """alpha_dropout of whole features: the elements that share their first two indices.

    - `input` (Tensor): (N, C, ...), floating
    - `p` (float in [0, 1], default 0.5): the probability
    - `training` (bool, default False): False gives the input itself
    - `inplace` (bool, default False): writes the result into `input`
    - `generator` (Generator, default None): the source of random numbers, else the default one

    The result has the shape of `input`. ValueError for a p out of range, RuntimeError for fewer than two dimensions in
    training.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.feature_alpha_dropout(ferro.ones(1, 3), p=0.5)  # nothing is dropped without training
        tensor([[1., 1., 1.]])
    """
    return _apply("feature_alpha_dropout", input, p, training, inplace, generator, _two(input, p, training), alpha=True)


declare(
    "nn.functional.feature_alpha_dropout",
    [Sample(Arg(2, 3, 4)), Sample(Arg(2, 3), 0.0, True), Sample(Arg(2, 3, 4), 1.0, True)],
)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """alpha_dropout of whole features, in place: see `nn.functional.feature_alpha_dropout`.

    - `input` (Tensor): (N, C, ...), floating, changed and returned
    - `p` (float in [0, 1]): the probability
    - `train` (bool): False leaves the tensor as it is

    ValueError for a p out of range.

    Example::

        >>> import ferro
        >>> ferro.feature_alpha_dropout_(ferro.ones(1, 3), 0.5, False)
        tensor([[1., 1., 1.]])
    """
    return _apply("feature_alpha_dropout", input, p, train, True, None, _two(input, p, train), alpha=True)


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
        return input.clone(), wrap(np.ones(x.shape, bool))
    kept = _kept(x, None, p, generator)
    wide = np.float64 if x.dtype.itemsize == 8 else np.float32
    return input * wrap((kept * np.asarray(1 / (1 - p) if p < 1 else 0.0, wide)).astype(x.dtype)), wrap(kept)
