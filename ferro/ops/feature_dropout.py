"""Dropout of whole channels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.dropout import _apply, _two

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
]


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
