"""The cross-entropy of a linear layer's outputs, in one piece or in parts of the batch that never hold all logits."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array
from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.entropy import cross_entropy, cross_entropy_vjp, reduced, reduction_of
from ferro.ops.linear import linear
from ferro.ops.product_arguments import same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts its batch into parts.

    - `allow_retain_graph` (bool, default False): changes nothing here: backward computes the scores of each part anew
    - `batch_chunk_size` (int, default None): so many rows at a time; None asks `chunking_method`
    - `chunking_method` (str, default 'auto'): "aspect_ratio" makes the scores of a part about as large as the input,
      "aspect_ratio:N" N times smaller, "auto" is "aspect_ratio:2"; None cuts nothing
    - `acc_policy` (str, default 'auto'): changes nothing here: sums are kept in float32 or better
    - `acc_dtype` (default None): likewise

    Example::

        >>> import ferro
        >>> options = ferro.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
        >>> loss = ferro.nn.LinearCrossEntropyLoss(4, num_classes=8, options=options)
        >>> loss(ferro.zeros(3, 4), ferro.tensor([0, 3, 7])).shape
        ferro.Size([])
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; allowed: accurate, balanced, compact, auto")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(
                    f"invalid chunking_method: {self.chunking_method!r}; allowed: aspect_ratio, aspect_ratio:N, auto, None"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
            raise ValueError(f"acc_dtype must be None, float16, bfloat16, float32 or float64, got {self.acc_dtype!r}")

    def rows(self, count: int, features: int, classes: int) -> int:
        """The number of rows in a part of `count` rows."""
        method, size = self.chunking_method, self.batch_chunk_size
        if method == "auto":
            method = "aspect_ratio:2" if size is None else None
        if method is None:
            return max(1, min(size or count, count))
        target = -(-count // -(-classes // max(features, 1))) if classes else count
        found = min((1 << max(target - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), count)
        if size is not None and size != found:
            raise ValueError(
                f"batch_chunk_size ({size}) and chunking_method ({method!r}) give different sizes ({size} and {found}); "
                "pass only one"
            )
        return max(1, found)


# -- in parts ----------------------------------------------------------------------------------------------------------


def _parts(count: int, rows: int) -> list[slice]:
    return [slice(i, i + rows) for i in range(0, max(count, 1), rows)]


def cross_entropy_again(g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """The backward of cross_entropy without reduction, on Tensors."""
    return cross_entropy_vjp(g, x, target, weight, ignore_index, "none", 0.0, None)


def _fwd(xp: Any, x: Any, w: Any, b: Any, target: Any, weights: Any, rows: int, ignore_index: int) -> Any:
    """The loss of each row."""
    found = [
        xp.cross_entropy(xp.linear(x[p], w, b), target[p], weights, ignore_index, "none", 0.0)[0]
        for p in _parts(x.shape[0], rows)
    ]
    return xp.cat(found, 0)


def _vjp(
    xp: Any, g: Any, x: Any, w: Any, b: Any, target: Any, weights: Any, rows: int, ignore_index: int, needs: tuple
) -> tuple:
    """The gradients by input, weight and bias; the logits of each part are computed anew."""
    by_x, by_w, by_b = [], None, None
    for p in _parts(x.shape[0], rows):
        d = xp.cross_entropy_again(g[p], xp.linear(x[p], w, b), target[p], weights, ignore_index)
        if needs[0]:
            by_x.append(xp.mm(d, w))
        if needs[1]:
            part = xp.mm(xp.permute(d, (1, 0)), x[p])
            by_w = part if by_w is None else by_w + part
        if needs[2]:
            part = xp.sum(d, (0,), False)
            by_b = part if by_b is None else by_b + part
    return xp.cat(by_x, 0) if needs[0] else None, by_w, by_b


LINEAR_CROSS_ENTROPY = Op(
    "linear_cross_entropy",
    diff=("x", "w", "b"),
    weight=100.0,
    vjp=_vjp,
    forward=lambda xp, x, w, b, target, weights, /, rows, ignore_index: _fwd(
        xp, x, w, b, target, weights, rows, ignore_index
    ),
)


def _in_parts(
    input: Tensor,
    w: Tensor,
    b: Any,
    target: Tensor,
    weight: Any,
    reduction: str,
    ignore_index: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    """The loss for a batch (N, F), class indices (N) and a weight matrix."""
    count, features = input._data.shape
    rows = options.rows(count, features, w._data.shape[0])
    loss = apply(LINEAR_CROSS_ENTROPY, (input, w, b, target, weight), (rows, ignore_index))
    if reduction != "mean":
        return reduced(loss, reduction)
    t = target._data
    kept = t != ignore_index
    if weight is None:
        total = kept.sum()
    else:  # (the sum goes over rows that count zero too: a mask would have another shape for every slice of a vmap)
        total = (weight._data.astype(np.float64)[t * kept] * kept).sum()
    return loss.sum() / wrap(as_array(total, loss._data.dtype))


# -- the function ------------------------------------------------------------------------------------------------------


def _check(name: str, input: Any, weight: Any, bias: Any) -> tuple:
    """The number of classes and further output dimensions."""
    x, w = need_tensor(name, "input", input)._data.shape, need_tensor(name, "linear_weight", weight)._data.shape
    if len(x) not in (1, 2):
        raise RuntimeError(f"{name}: expected input with dimensionality 1 or 2, got {len(x)}")
    if len(w) < 2:
        raise RuntimeError(f"{name}: expected linear_weight with dimensionality at least 2, got {len(w)}")
    if x[-1] != w[-1]:
        raise RuntimeError(
            f"{name}: expected equal input and linear_weight last dimensions (in_features), got {x[-1]} and {w[-1]}, "
            "respectively"
        )
    if bias is not None and need_tensor(name, "linear_bias", bias)._data.shape != w[:-1]:
        raise RuntimeError(f"{name}: expected linear_bias shape {w[:-1]}, got {bias._data.shape}")
    if len(w) > 2 and len(x) == 1:
        raise RuntimeError(
            f"{name}: K-dimensional loss defined by linear_weight shape {w} requires batched input, (N, {x[-1]}), got "
            f"unbatched input with shape {x}"
        )
    return w[:-1]


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target), without all logits at once on request.

    - `input` (Tensor): (N, F) or (F)
    - `linear_weight` (Tensor): (C, F), or (C, d1, ..., F) for a loss at d1 x ... places
    - `target` (Tensor): class indices (N, d1, ...), or probabilities of the shape of the logits
    - `linear_bias` (Tensor, default None): (C), or (C, d1, ...)
    - `weight` (Tensor, default None): a factor for each class, (C)
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `ignore_index` (int, default None): elements with this target count nowhere; None for probabilities
    - `label_smoothing` (float, default 0.0): as in `cross_entropy`
    - `options` (LinearCrossEntropyOptions, default None): makes the logits in parts of the batch, forward and again
      backward, and never all at once: for class indices, without label smoothing or further dimensions (a warning
      otherwise)

    The result is 0-d, or in the shape of `target` with reduction "none". RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, w = ferro.tensor([[1.0, 0.0]]), ferro.tensor([[0.0, 5.0], [0.0, 7.0]])
        >>> F.linear_cross_entropy(x, w, ferro.tensor([1])).exp()
        tensor(2.)
    """
    name = "linear_cross_entropy"
    sizes = _check(name, input, linear_weight, linear_bias)
    shape = (*input._data.shape[:-1], *sizes)
    probable = need_tensor(name, "target", target)._data.shape == shape
    if probable and ignore_index is not None:
        raise RuntimeError(f"{name}: ignore_index cannot be specified when target contains probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None:
        if len(sizes) == 1 and label_smoothing == 0 and target._data.dtype == np.int64:
            batch = input._data.ndim == 2
            x, t = (input, target) if batch else (input.unsqueeze(0), target.unsqueeze(0))
            if t._data.shape != x._data.shape[:1]:
                raise ValueError(
                    f"{name}: Expected input batch_size ({len(x._data)}) to match target batch_size, got "
                    f"target of shape {list(target._data.shape)}"
                )
            same_dtype(name, input=x, weight=linear_weight, bias=linear_bias)
            reduction = reduction_of(name, reduction)
            loss = _in_parts(x, linear_weight, linear_bias, t, weight, reduction, ignore_index, options)
            return loss if batch or reduction != "none" else loss.squeeze(0)
        warnings.warn(
            f"{name}: options are ignored: parts need class indices (int64), label_smoothing == 0 and a weight of two "
            f"dimensions; got target of {target.dtype}, label_smoothing={label_smoothing} and weight of shape "
            f"{list(linear_weight._data.shape)}",
            UserWarning,
            stacklevel=2,
        )
    if len(sizes) > 1:
        linear_weight = linear_weight.reshape(math.prod(sizes), linear_weight._data.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(math.prod(sizes))
    logits = linear(input, linear_weight, linear_bias)
    logits = logits.reshape(shape) if len(sizes) > 1 else logits
    return cross_entropy(
        logits, target, weight=weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    )


_classes: Any = {"dtype": "int64", "low": 0, "high": 4}
declare(
    "nn.functional.linear_cross_entropy",
    [
        Sample(Arg(5, 3), Arg(4, 3), Arg(5, **_classes), linear_bias=Arg(4)),
        Sample(Arg(3), Arg(4, 3), Arg(**_classes)),
        Sample(Arg(2, 3), Arg(4, 2, 3), Arg(2, 2, **_classes), linear_bias=Arg(4, 2), reduction="none"),
        Sample(Arg(2, 3), Arg(4, 3), Arg(2, 4, low=0.1), label_smoothing=0.1, reduction="sum"),
    ],
)
