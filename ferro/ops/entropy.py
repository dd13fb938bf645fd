"""Losses on classes and probabilities: cross-entropy, negative log-likelihood, Kullback-Leibler divergence."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import type_name
from ferro.core.op import MULTILINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import floating
from ferro.ops.mistakes import log_probabilities, logits, no_broadcast
from ferro.ops.softmax import log_softmax, softmax

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cross_entropy", "kl_div", "nll_loss"]

_BY_NUMBER = ("none", "mean", "sum")


def reduction_of(name: str, reduction: Any, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The kind of reduction, from the argument of today, its number (as in torch.kl_div) or the two old arguments."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    if reduction == "mean":
        return "mean"
    if isinstance(reduction, int) and 0 <= reduction < 3:
        return _BY_NUMBER[reduction]
    if reduction not in _BY_NUMBER:
        raise ValueError(
            f"{name}: {reduction} is not a valid value for reduction; allowed are 'none', 'mean' and 'sum'"
        )
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss of all elements, their mean or their sum."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# -- class indices -----------------------------------------------------------------------------------------------------


_INT64, _UINT8 = np.dtype(np.int64), np.dtype(np.uint8)


def _class_shapes(name: str, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Checks shapes (N, C, ...) and (N, ...), the dtype of the target and the size of the weights."""
    floating(name, input, weight)
    have, want = need_tensor(name, "target", target)._data.shape, input._data.shape
    if not want:
        raise ValueError(f"{name}: Expected an input of shape (C,) or (N, C, ...), got a 0-d tensor")
    if have != (want[:1] + want[2:] if len(want) > 1 else ()):
        _refuse_shape(name, have, want)
    dtype = target._data.dtype
    if dtype is not _INT64 and dtype not in (_INT64, _UINT8):
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {type_name(target.dtype)} (expected scalar type Long but found "
            f"{type_name(target.dtype)}); use target.long()"
        )
    if weight is not None and weight._data.dtype is not input._data.dtype:
        raise RuntimeError(
            f"{name}: expected scalar type {type_name(input.dtype)} but found {type_name(weight.dtype)} in the weight"
        )
    if weight is not None and weight._data.shape != (classes := want[min(1, len(want) - 1)],):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {classes} classes "
            f"or no classes but got weight tensor of shape: {list(weight._data.shape)}"
        )


def _refuse_shape(name: str, have: tuple, want: tuple) -> None:
    """The error for a target that does not fit to an input of shape `want`, unless PyTorch takes it."""
    if len(want) == 1 and have == (1,):
        return  # one sample without a batch dimension: PyTorch takes a target of one element too
    if len(want) > 1 and have and have[0] != want[0]:
        raise ValueError(
            f"{name}: Expected input batch_size ({want[0]}) to match target "
            f"batch_size ({have[0]}): input has shape {list(want)}, target has shape "
            f"{list(have)}"
        )
    if len(want) in (1, 2) and len(have) > 1:
        raise RuntimeError(
            f"{name}: 0D or 1D target tensor expected, multi-target not supported, got a target of shape "
            f"{list(have)} for input of shape {list(want)}"
        )
    expected = [*want[:1], *want[2:]]
    raise RuntimeError(
        f"{name}: Expected target size {expected}, got {list(have)}: size mismatch (got input: {list(want)} , target: "
        f"{list(have)}); class indices for an input of shape (N, C, ...) have "
        "shape (N, ...), here "
        f"{list(want[:1] + want[2:] if len(want) > 1 else ())}"
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-w[t] x[t] for log-probabilities x and class indices t; linear in x.

    - `input` (Tensor): x, mostly from `log_softmax`, (N, C), (N, C, d1, ...) or (C)
    - `target` (Tensor): t, int64 or uint8, (N), (N, d1, ...) or 0-d
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `ignore_index` (int, default -100): elements with this target count nowhere
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The mean divides by the sum of the weights. The result is 0-d, or in the shape of `target` with reduction "none".
    RuntimeError for shapes or dtypes that do not fit, ValueError for numbers of samples that differ and another
    reduction, IndexError for a target that is no class.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x = ferro.tensor([[-1.0, -2.0], [-3.0, -4.0]])
        >>> F.nll_loss(x, ferro.tensor([1, 0]))
        tensor(2.5000)
    """
    reduction = reduction_of("nll_loss", reduction, size_average, reduce)
    _class_shapes("nll_loss", input, target, weight)
    log_probabilities("nll_loss", input)
    if input._data.ndim == 1:
        loss = apply(NLL_PICK, (input.reshape(1, -1), target.reshape(1), weight), (ignore_index, reduction))
        return loss.reshape(target._data.shape) if reduction == "none" else loss
    return apply(NLL_PICK, (input, target, weight), (ignore_index, reduction))


_labels: Any = {"dtype": "int64", "low": 0, "high": 4}
NLL_PICK = Op(
    "nll_loss",
    forward=lambda xp, x, target, w, /, ignore_index, reduction: xp.nll_pick(x, target, w, ignore_index, reduction),
    x=lambda xp, g, target, w, x_shape, ignore_index, reduction: xp.nll_spread(
        g, target, w, x_shape, ignore_index, reduction
    ),
    kind=MULTILINEAR,
    path="nn.functional.nll_loss",
    samples=[
        Sample(Arg(5, 4), Arg(5, **_labels)),
        Sample(Arg(5, 4), Arg(5, **_labels), Arg(4, low=0.1, grad=False)),
        Sample(Arg(4), Arg(**_labels)),
        Sample(Arg(4), Arg(**_labels), reduction="none"),
        Sample(Arg(2, 4, 3, 2), Arg(2, 3, 2, **_labels), reduction="sum"),
        Sample(Arg(2, 4, 3), Arg(2, 3, **_labels), Arg(4, low=0.1, grad=False), ignore_index=1, reduction="none"),
        Sample(Arg(5, 4), Arg(values=[0, -100, 3, -100, 1], dtype="int64")),
        Sample(Arg(0, 4), Arg(0, **_labels), reduction="sum"),
    ],
)


def nll_spread(g: Tensor, target: Tensor, w: Tensor | None, shape: tuple, ignore_index: int, reduction: str) -> Tensor:
    """The transpose of nll_loss: minus the weighted g at each class, zeros elsewhere."""
    return apply(NLL_SPREAD, (g, target, w), (shape, ignore_index, reduction))


NLL_SPREAD = Op(
    "nll_loss_backward",
    kind=MULTILINEAR,
    forward=lambda xp, g, target, w, /, shape, ignore_index, reduction: xp.nll_spread(
        g, target, w, shape, ignore_index, reduction
    ),
    g=lambda xp, g, target, w, ignore_index, reduction: xp.nll_pick(g, target, w, ignore_index, reduction),
)


def nll_pick(x: Tensor, target: Tensor, w: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """nll_loss with normalised arguments."""
    return apply(NLL_PICK, (x, target, w), (ignore_index, reduction))


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-Σ q log softmax(x) over the classes, for logits x.

    - `input` (Tensor): x, (N, C), (N, C, d1, ...), or (C) for one sample
    - `target` (Tensor): class indices (N), (N, d1, ...) or 0-d, int64 or uint8; or probabilities of all classes, in the
      shape and dtype of `input`
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `ignore_index` (int, default -100): elements with this target index count nowhere
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `label_smoothing` (float in [0, 1], default 0.0): the part of each target that is spread evenly over all classes

    q is w at the class, or w times the probabilities. The mean divides by the sum of the weights of the classes; with
    probabilities by the number of samples. The result is 0-d, or in the shape of class indices with reduction "none".
    The derivative is (Σ q) softmax(x) - q; by probabilities it is -w log softmax(x). RuntimeError for shapes or dtypes
    that do not fit and for label smoothing out of range, ValueError for numbers of samples that differ and another
    reduction, IndexError for a target that is no class.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> logits = ferro.tensor([[0.0, 0.0], [0.0, 0.0]])
        >>> F.cross_entropy(logits, ferro.tensor([0, 1]))
        tensor(0.6931)
    """
    reduction = reduction_of("cross_entropy", reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    logits("cross_entropy", need_tensor("cross_entropy", "input", input))
    if need_tensor("cross_entropy", "target", target)._data.shape == input._data.shape:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing, ignore_index)
    _class_shapes("cross_entropy", input, target, weight)
    params = (ignore_index, reduction, label_smoothing)
    if input._data.ndim == 1:
        loss = apply(CROSS_ENTROPY, (input.reshape(1, -1), target.reshape(1), weight), params)
        return loss.reshape(target._data.shape) if reduction == "none" else loss
    return apply(CROSS_ENTROPY, (input, target, weight), params)


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, ignore_index: int
) -> Tensor:
    """cross_entropy with a target of probabilities."""
    floating("cross_entropy", input, weight)
    if target._data.dtype not in dtypes.INEXACT:
        raise RuntimeError(
            "cross_entropy: Expected floating point type for target with class "
            f"probabilities, got {target.dtype}: a target of the input's shape "
            f"{list(input._data.shape)} holds probabilities; class indices have one "
            "dimension less"
        )
    if ignore_index >= 0:
        raise RuntimeError("cross_entropy: ignore_index is not supported for floating point target")
    dim = min(1, input._data.ndim - 1)
    classes = input._data.shape[dim] if input._data.ndim else 1
    if weight is not None and weight._data.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} "
            "classes or no classes but got weight tensor of shape: "
            f"{list(weight._data.shape)}"
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    products = log_softmax(input, dim) * target
    if weight is not None:
        products = products * weight.reshape([classes if d == dim else 1 for d in range(input._data.ndim)])
    if reduction == "none":
        return -products.sum(dim)
    return -products.sum() if reduction == "sum" else -products.sum() / (input._data.size / max(classes, 1))


CROSS_ENTROPY = Op(
    "cross_entropy",
    aux=("kept",),
    weight=4.0,
    path="nn.functional.cross_entropy",
    forward=lambda xp, x, target, w, /, ignore_index, reduction, smoothing: xp.cross_entropy(
        x, target, w, ignore_index, reduction, smoothing
    ),
    x=lambda xp, g, x, target, w, ignore_index, reduction, smoothing, kept: xp.cross_entropy_vjp(
        g, x, target, w, ignore_index, reduction, smoothing, kept
    ),
    samples=[
        Sample(Arg(5, 4), Arg(5, **_labels)),
        Sample(Arg(5, 4), Arg(5, **_labels), Arg(4, low=0.1, grad=False)),
        Sample(Arg(4), Arg(**_labels)),
        Sample(Arg(2, 4, 3, 2), Arg(2, 3, 2, **_labels), reduction="sum"),
        Sample(Arg(2, 4, 3), Arg(2, 3, **_labels), Arg(4, low=0.1, grad=False), ignore_index=1, reduction="none"),
        Sample(Arg(5, 4), Arg(values=[0, -100, 3, -100, 1], dtype="int64"), label_smoothing=0.2),
        Sample(Arg(5, 4), Arg(5, **_labels), Arg(4, low=0.1, grad=False), label_smoothing=0.2),
        Sample(Arg(3, 4, low=90, high=100), Arg(3, **_labels)),
        Sample(Arg(0, 4), Arg(0, **_labels), reduction="sum"),
        Sample(Arg(5, 4), Arg(5, 4, low=0.1)),
        Sample(Arg(2, 4, 3), Arg(2, 4, 3, low=0.1), Arg(4, low=0.1, grad=False), reduction="none"),
        Sample(Arg(4), Arg(4, low=0.1), label_smoothing=0.1, reduction="sum"),
    ],
)


def cross_entropy_vjp(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    w: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    kept: Any,
) -> Tensor:
    """The backward of cross_entropy by the logits, on Tensors (`kept` is not used: it has no history)."""
    weight = None if w is None else w._data
    share = backend.xp_beside(target._data, (x, w)).cross_entropy_share(
        target._data, weight, x._data.shape, x._data.dtype, ignore_index, reduction, smoothing
    )
    dx = softmax(x, 1) * wrap(share.sum(1, keepdims=True, dtype=share.dtype)) - wrap(share)
    return dx * (g.unsqueeze(1) if g._data.ndim else g)


# -- distributions -----------------------------------------------------------------------------------------------------


@in_full_precision
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """y (log y - x) for log-probabilities x and probabilities y; 0 where y = 0.

    - `input` (Tensor): x, mostly from `log_softmax`, any shape
    - `target` (Tensor): y, in the shape of `input`
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): also "batchmean", the sum over the number of rows: the mean in the sense of
      probability theory
    - `log_target` (bool, default False): whether y is given as its logarithm, so that the loss is eʸ (y - x)

    The result is 0-d, or in the shape of `input` with reduction "none". "mean" divides by the number of elements, with
    a warning. ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x = ferro.tensor([[0.5, 0.5]]).log()
        >>> F.kl_div(x, ferro.tensor([[1.0, 0.0]]), reduction="batchmean")
        tensor(0.6931)
    """
    batch = reduction == "batchmean" and size_average is None and reduce is None
    if isinstance(size_average, (int, str)) and not isinstance(
        size_average, bool
    ):  # torch.kl_div(input, target, reduction)
        reduction, size_average = size_average, None
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL math definition.",
            UserWarning,
            stacklevel=2,
        )
    reduction = reduction_of("kl_div", "sum" if batch else reduction, size_average, reduce)
    need_tensor("kl_div", "input", input)
    no_broadcast("kl_div", input, need_tensor("kl_div", "target", target))
    log_probabilities("kl_div", input)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = backend.functional.xlogy(target, target) - target * input
    if batch:
        return loss.sum() / input._data.shape[0] if input._data.ndim else loss.sum()
    return reduced(loss, reduction)


declare(
    "nn.functional.kl_div",
    [
        Sample(Arg(3, 4), Arg(3, 4, low=0.1), reduction="sum"),
        Sample(Arg(3, 4), Arg(3, 4, low=0.1), reduction="none"),
        Sample(Arg(3, 4), Arg(3, 4, low=0.1), reduction="batchmean"),
        Sample(Arg(3, 4), Arg(3, 4), reduction="batchmean", log_target=True),
        Sample(Arg(3), Arg(values=[0.0, 0.5, 1.0], grad=False), reduction="none"),
    ],
)
