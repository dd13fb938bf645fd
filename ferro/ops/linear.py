"""Linear maps: the last dimension times a matrix of weights, and a bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, binary
from ferro.core.arguments import need_tensor
from ferro.core.op import MULTILINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.ops.product_arguments import multiplied, same_dtype
from ferro.ops.products import matmul

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b over the last dimension: one operation. dx = G W, dW = Gᵀ x and db = Σ G over the leading dimensions.

    - `input` (Tensor): x, (..., in)
    - `weight` (Tensor): W, (out, in), or (in)
    - `bias` (Tensor, default None): b, (out)

    The result is (..., out). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.linear(ferro.tensor([[1.0, 2.0]]), ferro.tensor([[3.0, 4.0], [5.0, 6.0]]), ferro.tensor([0.0, 1.0]))
        tensor([[11., 18.]])
    """
    try:
        a, w = input._data, weight._data
    except AttributeError:
        a, w = need_tensor("linear", "input", input)._data, need_tensor("linear", "weight", weight)._data
    if a.dtype is not w.dtype or (bias is not None and bias._data.dtype is not a.dtype) or a.dtype.kind == "b":
        same_dtype("linear", input=input, weight=weight, bias=bias)
    if w.ndim != 2 or a.ndim == 0:
        return _linear_vector(input, weight, bias)
    if a.shape[-1] != w.shape[1]:
        raise RuntimeError(
            f"linear: {multiplied(a.shape, w.shape[::-1])}: the last size of input, {a.shape[-1]}, must equal the number of "
            f"input features of weight, {w.shape[1]} (input has the shape {list(a.shape)}, weight {list(w.shape)})"
            + ("; weight is (out_features, in_features): pass it transposed" if a.shape[-1] == w.shape[0] else "")
        )
    if bias is None:
        return binary(MAP, input, weight)
    if bias._data.shape == w.shape[:1]:
        return apply(LINEAR, (input, weight, bias))
    return binary(MAP, input, weight) + bias


def _linear_vector(x: Any, w: Any, b: Any) -> Any:
    """`linear` with a weight vector (one output without a dimension of its own)."""
    if x._data.ndim == 0 or w._data.ndim != 1:
        raise RuntimeError(
            f"linear: input must have at least one dimension and weight one or two, got shapes {list(x._data.shape)} "
            f"and {list(w._data.shape)}"
        )
    out = matmul(x, w)
    return out if b is None else out + b


def _flat(x: Any) -> Any:
    """x as a matrix: its leading dimensions taken together."""
    if x.ndim == 2:
        return x
    rows = 1
    for s in x.shape[:-1]:
        rows *= s
    return x.reshape((rows, x.shape[-1]))


LINEAR = Op(
    "linear",
    lambda xp, x, w, b: xp.linear(x, w, b),
    weight=20.0,
    x=lambda xp, g, w: xp.matmul(g, w.conj()),
    w=lambda xp, g, x: xp.mm(_flat(g).T, _flat(x).conj()),
    b=lambda xp, g: xp.leading_sum(g),
    path="nn.functional.linear",
    samples=[
        Sample(Arg(3, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(4), Arg(2, 4), Arg(2)),
        Sample(Arg(2, 3, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(3, 4), Arg(2, 4)),
        Sample(Arg(3, 4), Arg(4)),
        Sample(Arg(0, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(2, 0), Arg(3, 0), Arg(3)),
        Sample(Arg(2, 1, 2, 3), Arg(2, 3)),
    ],
    complex=True,
)

MAP = Op(
    "linear_map",
    lambda xp, x, w: xp.linear(x, w),
    kind=MULTILINEAR,
    weight=20.0,
    x=lambda xp, g, w: xp.matmul(g, w.conj()),
    w=lambda xp, g, x: xp.mm(_flat(g).T, _flat(x).conj()),
)
