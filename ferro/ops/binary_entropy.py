"""Cross entropies of two classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample
from ferro.elementwise import elementwise
from ferro.ops.activations import floating, log_of_sigmoid
from ferro.ops.entropy import reduced, reduction_of
from ferro.ops.mistakes import targets_in_unit_interval

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits"]


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    have, want = target._data.shape, input._data.shape
    if have != want:
        hint = ""
        if len(have) == len(want) + 1 and have[-1] == 1:
            hint = " Use target.squeeze(-1)."
        elif len(have) + 1 == len(want) and want[-1] == 1:
            hint = " Use target.unsqueeze(-1)."
        if name == "binary_cross_entropy":
            raise ValueError(
                f"{name}: Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
                f"deprecated. Please ensure they have the same size.{hint}"
            )
        raise ValueError(f"{name}: Target size ({list(have)}) must be the same as input size ({list(want)}).{hint}")


@in_full_precision
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-w (y log x + (1 - y) log(1 - x)) for probabilities x in [0, 1]; logarithms below -100 count as -100.

    - `input` (Tensor): x, mostly from `sigmoid`
    - `target` (Tensor): y in [0, 1], in the shape and dtype of `input`
    - `weight` (Tensor, default None): w, in a shape that broadcasts to that of `input`
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". The derivative by x is w (x - y) / max(x (1 -
    x), 1e-12), by y it is w (log(1 - x) - log x). RuntimeError for inputs outside of [0, 1] and dtypes that differ,
    ValueError for shapes that differ and another reduction. `binary_cross_entropy_with_logits` is more exact and takes
    any input.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.binary_cross_entropy(ferro.tensor([0.5, 0.5]), ferro.tensor([1.0, 0.0]))
        tensor(0.6931)
    """
    reduction = reduction_of("binary_cross_entropy", reduction, size_average, reduce)
    floating("binary_cross_entropy", input, target, weight)
    _same_shape("binary_cross_entropy", input, target)
    if input._data.dtype is not target._data.dtype:
        raise RuntimeError(
            f"binary_cross_entropy: Found dtype {target.dtype} but expected "
            f"{input.dtype} (the target's dtype must be the input's)"
        )
    x = input._data
    require(
        (x >= 0) & (x <= 1),
        RuntimeError,
        "binary_cross_entropy: all elements of input should be between 0 and 1 (for logits use "
        "binary_cross_entropy_with_logits)",
    )
    targets_in_unit_interval("binary_cross_entropy", target)
    loss = apply(BCE, (input, target))
    return reduced(loss if weight is None else loss * weight, reduction)


def _bce(xp: Any, x: Any, y: Any) -> Any:
    return (y - 1) * xp.clamp(xp.log1p(-x), -100, None) - y * xp.clamp(xp.log(x), -100, None)


def _bce_x(xp: Any, g: Any, x: Any, y: Any) -> Any:
    return g * (x - y) / xp.clamp(x * (1 - x), 1e-12, None)


_chances: Any = {"low": 0.05, "high": 0.95}


BCE = Op(
    "binary_cross_entropy",
    lambda xp, x, y: _bce(xp, x, y),
    kind=ELEMENTWISE,
    x=_bce_x,
    y=lambda xp, g, x: g * (xp.log1p(-x) - xp.log(x)),
    weight=4.0,
    path="nn.functional.binary_cross_entropy",
    samples=[
        Sample(Arg(3, 4, **_chances), Arg(3, 4, **_chances)),
        Sample(Arg(5, **_chances), Arg(5, **_chances), reduction="none"),
        Sample(Arg(3, 4, **_chances), Arg(3, 4, **_chances), Arg(4, low=0.1, grad=False), reduction="sum"),
        Sample(Arg(**_chances), Arg(**_chances)),
        Sample(Arg(values=[0.0, 1.0, 0.0]), Arg(values=[0.0, 1.0, 1.0], grad=False), smooth=False, twice=False),
    ],
)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-w (p y log s + (1 - y) log(1 - s)) with s = sigmoid(x), without overflow.

    - `input` (Tensor): x, any numbers
    - `target` (Tensor): y in [0, 1], in the shape of `input`
    - `weight` (Tensor, default None): w, in a shape that broadcasts to that of `input`
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean
    - `pos_weight` (Tensor, default None): p, the weight of positive examples, mostly one for each class

    The result is 0-d, or in the shape of `input` with reduction "none". The derivative by x is w (s (1 + (p - 1) y) - p
    y), which is w (s - y) for p = 1. ValueError for shapes that differ and another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.binary_cross_entropy_with_logits(ferro.zeros(2), ferro.tensor([1.0, 0.0]))
        tensor(0.6931)
    """
    reduction = reduction_of("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    floating("binary_cross_entropy_with_logits", input, weight, pos_weight)
    _same_shape(
        "binary_cross_entropy_with_logits", input, need_tensor("binary_cross_entropy_with_logits", "target", target)
    )
    targets_in_unit_interval("binary_cross_entropy_with_logits", target)
    target = target.to(input.dtype) if target._data.dtype not in dtypes.INEXACT else target
    loss = apply(BCE_LOGITS, (input, target, pos_weight))
    return reduced(loss if weight is None else loss * weight, reduction)


@elementwise(name="bce_logits")
def _unweighted(xp: Any, x: Any, y: Any) -> Any:
    return (1 - y) * x - log_of_sigmoid(xp, x)


@elementwise(name="bce_logits_slope")
def _unweighted_slope(xp: Any, g: Any, x: Any, y: Any) -> Any:
    return g * (xp.sigmoid(x) - y)


def _bce_logits(xp: Any, x: Any, y: Any, p: Any) -> Any:
    if p is None:
        return _unweighted(xp, x, y)
    return (1 - y) * x - (1 + (p - 1) * y) * log_of_sigmoid(xp, x)


def _bce_logits_x(xp: Any, g: Any, x: Any, y: Any, p: Any) -> Any:
    if p is None:
        return _unweighted_slope(xp, g, x, y)
    return g * (xp.sigmoid(x) * (1 + (p - 1) * y) - p * y)


def _bce_logits_y(xp: Any, g: Any, x: Any, p: Any) -> Any:
    return -g * x if p is None else -g * (x + (p - 1) * log_of_sigmoid(xp, x))


BCE_LOGITS = Op(
    "binary_cross_entropy_with_logits",
    lambda xp, x, y, p: _bce_logits(xp, x, y, p),
    kind=ELEMENTWISE,
    weight=5.0,
    x=_bce_logits_x,
    y=_bce_logits_y,
    p=lambda xp, g, x, y: -g * y * log_of_sigmoid(xp, x),
    path="nn.functional.binary_cross_entropy_with_logits",
    samples=[
        Sample(Arg(3, 4), Arg(3, 4, low=0, high=1)),
        Sample(Arg(5), Arg(5, low=0, high=1), reduction="none"),
        Sample(Arg(3, 4), Arg(3, 4, low=0, high=1), Arg(4, low=0.1, grad=False), reduction="sum"),
        Sample(Arg(3, 4), Arg(3, 4, low=0, high=1), pos_weight=Arg(4, low=0.1, grad=False)),
        Sample(Arg(), Arg()),
        Sample(Arg(values=[0.0, 100.0, -100.0]), Arg(values=[1.0, 0.0, 1.0])),
    ],
)
