"""Losses of margins between the classes of a sample that has one label or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.activations import floating, logsigmoid
from ferro.ops.entropy import reduced, reduction_of

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"]


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the classes (last dimension) of -w (y log sigmoid(x) + (1 - y) log sigmoid(-x)).

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): y, 1 for the labels of a row and 0 for other classes, in the shape of `input`
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.multilabel_soft_margin_loss(ferro.zeros(1, 2), ferro.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """
    reduction = reduction_of("multilabel_soft_margin_loss", reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input._data.shape[-1], reduction)


declare(
    "nn.functional.multilabel_soft_margin_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4)),
        Sample(Arg(4), Arg(4), reduction="sum"),
        Sample(Arg(3, 4), Arg(3, 4), Arg(4, low=0.1), reduction="none"),
    ],
)


def _class_numbers(name: str, input: Any, target: Any, weight: Any, n: int, classes: int) -> Any:
    """The array of the classes of n samples, checked together with the weights of the classes."""
    if weight is not None and weight._data.ndim != 1:
        raise ValueError(f"{name}: weight must be one-dimensional, got shape {list(weight._data.shape)}")
    if weight is not None and weight._data.shape != (classes,):
        raise RuntimeError(f"{name}: inconsistent weight size, expected {classes} but got {list(weight._data.shape)}")
    if target._data.size != n or target._data.ndim > 1:
        raise RuntimeError(
            f"{name}: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected "
            f"target size [{n}], but got {list(target._data.shape)}. Input has shape {list(input._data.shape)}."
        )
    if target._data.dtype != np.int64:
        raise RuntimeError(
            f"{name}: expected scalar type Long but found {dtypes.type_name(target.dtype)} in the target; use target.long()"
        )
    t = target._data.reshape(n)
    require((t >= 0) & (t < classes), RuntimeError, f"{name}: target out of range: the input has {classes} classes")
    return t


@in_full_precision
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over the classes j other than the target t of w[t] max(0, margin - x[t] + x[j])ᵖ / C.

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): t, class indices, int64, (N), or 0-d or (1) for one sample
    - `p` (int, default 1): 1 or 2
    - `margin` (float, default 1.0): by how much the target is to be ahead
    - `weight` (Tensor, default None): w, a factor for each class, (C)
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". ValueError for another `p`, a weight of two dimensions or another
    reduction; RuntimeError for other shapes, indices that are no classes or not int64.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.multi_margin_loss(ferro.tensor([[1.0, 0.5, 3.0]]), ferro.tensor([0]))
        tensor(1.1667)
    """
    name = "multi_margin_loss"
    reduction = reduction_of(name, reduction, size_average, reduce)
    floating(name, input, weight)
    if p not in (1, 2):
        raise ValueError(f"{name}: only p == 1 and p == 2 supported, got {p}")
    shape = input._data.shape
    if len(shape) > 2 or 0 in shape[-1:] or (len(shape) == 2 and shape[1] == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    x = input if len(shape) == 2 else input.reshape(1, -1)
    n, classes = x._data.shape
    t = _class_numbers(name, input, target, weight, n, classes)
    others = (t[:, None] != backend.beside(t, np.arange(classes))).astype(x._data.dtype)
    index = wrap(t.reshape(n, 1))
    gaps = (x - backend.functional.gather(x, 1, index) + margin).clamp_min(0)
    terms = (gaps if p == 1 else gaps * gaps) * wrap(others)
    if weight is not None:
        terms = terms * backend.functional.gather(weight.expand(n, classes), 1, index)
    loss = terms.sum(1) / classes
    return reduced(loss.reshape(target._data.shape) if len(shape) < 2 and reduction == "none" else loss, reduction)


declare(
    "nn.functional.multi_margin_loss",
    [
        Sample(Arg(3, 4), Arg(3, dtype="int64", low=0, high=4)),
        Sample(Arg(4), Arg(1, dtype="int64", low=0, high=4)),
        Sample(Arg(3, 4), Arg(3, dtype="int64", low=0, high=4), 2, 0.5, Arg(4, low=0.1, grad=False), reduction="none"),
    ],
)


@in_full_precision
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """The sum over labels t and other classes j of max(0, 1 - x[t] + x[j]) / C.

    - `input` (Tensor): x, the scores, (N, C) or (C)
    - `target` (Tensor): class indices, int64, in the shape of `input`; the labels of a row end at its first -1
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or (N) with reduction "none". RuntimeError for other shapes, a target that is not int64 and
    labels that are no classes; ValueError for another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x = ferro.tensor([[0.0, 0.5, 1.0]])
        >>> F.multilabel_margin_loss(x, ferro.tensor([[2, -1, 0]]))  # the only label is 2
        tensor(0.1667)
    """
    name = "multilabel_margin_loss"
    reduction = reduction_of(name, reduction, size_average, reduce)
    floating(name, input)
    shape = input._data.shape
    if len(shape) > 2 or 0 in shape[1:] or (len(shape) == 1 and shape[0] == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if target._data.shape != shape:
        raise RuntimeError(
            f"{name}: inconsistent target size: {list(target._data.shape)} for input of size: {list(shape)}"
        )
    if target._data.dtype != np.int64:
        raise RuntimeError(
            f"{name}: expected scalar type Long but found {target.dtype} in the target; use target.long()"
        )
    x = input if len(shape) == 2 else input.reshape(1, -1)
    n, classes = x._data.shape
    labels = target._data.reshape(n, classes)
    used = (labels < 0).cumsum(1) == 0
    ends = f"{name}: target out of range: labels lie in [0, {classes - 1}], -1 ends them"
    require((labels >= -1) & (labels < classes), RuntimeError, ends)
    where = backend.xp_of(labels).where
    safe = where(used, labels, 0)
    is_label = (where(used, labels, classes)[:, :, None] == backend.beside(labels, np.arange(classes))).any(axis=1)
    # pairs (label, other class); what does not count is masked
    pairs = used[:, :, None] & ~is_label[:, None, :]
    gaps = (1 - backend.functional.gather(x, 1, wrap(safe)).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    loss = (gaps * wrap(pairs.astype(x._data.dtype))).sum((1, 2)) / classes
    return reduced(loss.reshape(()) if len(shape) < 2 and reduction == "none" else loss, reduction)


declare(
    "nn.functional.multilabel_margin_loss",
    [
        Sample(Arg(2, 4), Arg(values=[[3, 0, -1, 1], [1, -1, -1, -1]], dtype="int64")),
        Sample(Arg(4), Arg(values=[0, 1, 2, -1], dtype="int64"), reduction="none"),
    ],
)
