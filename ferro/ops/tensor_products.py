"""Products of tensors as contractions: tensordot, inner, Kronecker and bilinear products."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor, one_dim
from ferro.core.base import TensorBase
from ferro.core.into import into
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.einsum import _sum_out, contract
from ferro.ops.product_arguments import same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["inner", "kron", "tensordot"]


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over pairs of dimensions.

    - `a`, `b` (Tensor): any shapes
    - `dims` (int or pair of lists, default 2): so many last dimensions of a and first of b, or the dimensions of a and
      those of b
    - `out` (Tensor, default None): where to write the result

    The result has the other dimensions of a, then those of b. RuntimeError for sizes that differ.

    Example::

        >>> import ferro
        >>> ferro.tensordot(ferro.ones(2, 3), ferro.ones(3, 4), dims=1).shape
        ferro.Size([2, 4])
    """
    need_tensor("tensordot", "a", a)
    need_tensor("tensordot", "b", b)
    if isinstance(dims, TensorBase):
        dims = dims._data.tolist()
    n = a._data.ndim
    if isinstance(dims, (list, tuple)):
        first, second = [[d] if isinstance(d, int) else list(d) for d in dims]
    else:
        count = operator.index(dims)
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
        if count > min(n, b._data.ndim):
            raise RuntimeError(
                f"tensordot expects dims <= {min(n, b._data.ndim)} for shapes {list(a._data.shape)} and "
                f"{list(b._data.shape)}, but got dims={count}"
            )
        first, second = list(range(n - count, n)), list(range(count))
    if len(first) != len(second):
        raise RuntimeError(f"tensordot: both dimension lists must have the same length, got {first} and {second}")
    first = [one_dim("tensordot", n, d) for d in first]
    second = [one_dim("tensordot", b._data.ndim, d) for d in second]
    for dimensions in (first, second):
        if len(set(dimensions)) < len(dimensions):
            raise RuntimeError(f"tensordot: a dimension appears more than once in {dimensions}")
    same_dtype("tensordot", a=a, b=b)
    return _dot(a, b, first, second, out)


def _dot(a: Any, b: Any, first: list, second: list, out: Any) -> Any:
    """`tensordot` over the dimensions `first` of a and `second` of b."""
    shape, shape2 = a._data.shape, b._data.shape
    for i, j in zip(first, second, strict=True):
        if shape[i] != shape2[j] and shape[i] != 1 and shape2[j] != 1:
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but the first tensor, shape {list(shape)}, has size "
                f"{shape[i]} in dim {i} and the second, shape {list(shape2)}, has size {shape2[j]} in dim {j}"
            )
    n = len(shape)
    x_labels = tuple(range(n))
    y_labels = tuple([first[second.index(j)] if j in second else n + j for j in range(len(shape2))])
    result = tuple([label for label in x_labels if label not in first] + [label for label in y_labels if label >= n])
    uneven = {i for i, j in zip(first, second, strict=True) if shape[i] != shape2[j]}  # one of them has size 1
    a, x_labels = _sum_out(a, x_labels, set(x_labels) - uneven)
    b, y_labels = _sum_out(b, y_labels, set(y_labels) - uneven)
    answer = contract(a, b, x_labels, y_labels, result)
    return answer if out is None else into("tensordot", out, answer)


declare(
    "tensordot",
    [
        Sample(Arg(2, 3, 4), Arg(3, 4, 2)),
        Sample(Arg(2, 3), Arg(3, 2), 1),
        Sample(Arg(2, 3), Arg(2), 0),
        Sample(Arg(2, 3, 4), Arg(4, 2, 5), ([0, -1], [1, 0])),
        Sample(Arg(2, 1), Arg(3, 2), ([1], [0])),
        Sample(Arg(2, 0), Arg(0, 2), 1),
    ],
    complex=True,
)


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of products over the last dimension of both tensors; a scalar multiplies."""
    if need_tensor("inner", "input", input)._data.ndim == 0 or need_tensor("inner", "other", other)._data.ndim == 0:
        result: Any = input * other
        return result if out is None else into("inner", out, result)
    same_dtype("inner", input=input, other=other)
    if input._data.shape[-1] != other._data.shape[-1]:
        raise RuntimeError(
            f"inner(): the last dimension must match on both input tensors but got shapes {list(input._data.shape)} "
            f"and {list(other._data.shape)}"
        )
    return _dot(input, other, [input._data.ndim - 1], [other._data.ndim - 1], out)


declare(
    "inner",
    [Sample(Arg(3), Arg(3)), Sample(Arg(2, 3), Arg(4, 2, 3)), Sample(Arg(), Arg(2, 3)), Sample(Arg(0), Arg(2, 0))],
    complex=True,
)


def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: every element of `input` times the whole of `other`, as blocks; dtypes are promoted."""
    x, y = promote(need_tensor("kron", "input", input), need_tensor("kron", "other", other))
    n = max(x._data.ndim, y._data.ndim)
    shape, shape2 = [(1,) * (n - t._data.ndim) + t._data.shape for t in (x, y)]
    rows = x.reshape([size for s in shape for size in (s, 1)])
    blocks: Any = rows * y.reshape([size for s in shape2 for size in (1, s)])
    result = blocks.reshape(tuple([s * t for s, t in zip(shape, shape2, strict=True)]))
    return result if out is None else into("kron", out, result)


declare(
    "kron",
    [Sample(Arg(2, 3), Arg(2, 2)), Sample(Arg(3), Arg(2, 2)), Sample(Arg(), Arg(2)), Sample(Arg(0, 2), Arg(2, 2))],
    complex=True,
)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """yₖ = x₁ᵀ Wₖ x₂ + bₖ over any leading dimensions.

    - `input1` (Tensor): x₁, (..., I)
    - `input2` (Tensor): x₂, (..., J), with the same leading dimensions
    - `weight` (Tensor): W, (K, I, J)
    - `bias` (Tensor, default None): b, (K)

    The result is (..., K). RuntimeError for sizes that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.bilinear(ferro.tensor([[1.0, 2.0]]), ferro.tensor([[3.0]]), ferro.ones(1, 2, 1))
        tensor([[9.]])
    """
    same_dtype("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    s1, s2, w = input1._data.shape, input2._data.shape, weight._data.shape
    if len(w) != 3:
        raise RuntimeError(
            f"bilinear(): weight must have shape (out_features, in1_features, in2_features), got {list(w)}"
        )
    if s1[:-1] != s2[:-1] or not s1 or not s2:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got input1 of shape {list(s1)} and input2 of shape "
            f"{list(s2)}"
        )
    for argument, size, wanted in (("input1", s1[-1], w[1]), ("input2", s2[-1], w[2])):
        if size != wanted:
            raise RuntimeError(
                f"bilinear(): {argument} size does not match weight size: got {size} but expected {wanted}"
            )
    if bias is not None and bias._data.shape != w[:1]:
        raise RuntimeError(
            f"bilinear(): bias must have shape {list(w[:1])}, the number of output features, got "
            f"{list(bias._data.shape)}"
        )
    stack = tuple(range(3, 2 + len(s1)))
    half = contract(input1, weight, (*stack, 1), (0, 1, 2), (*stack, 0, 2))
    result: Any = contract(half, input2, (*stack, 0, 2), (*stack, 2), (*stack, 0))
    return result if bias is None else result + bias


declare(
    "nn.functional.bilinear",
    [
        Sample(Arg(4, 2), Arg(4, 3), Arg(2, 2, 3), Arg(2)),
        Sample(Arg(2, 2, 2), Arg(2, 2, 3), Arg(2, 2, 3)),
        Sample(Arg(2), Arg(3), Arg(2, 2, 3), Arg(2)),
        Sample(Arg(0, 2), Arg(0, 3), Arg(2, 2, 3)),
    ],
)


class TensorProductMethods:
    """Methods of Tensor."""

    __slots__ = ()
    inner = inner
    kron = kron
