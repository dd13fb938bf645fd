"""Contractions over named dimensions: einsum, tensordot, and the products that are special cases of them."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from ferro.core.apply import apply, promote
from ferro.core.arguments import into, need_tensor, one_dim
from ferro.core.base import TensorBase
from ferro.core.op import MULTILINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.signatures import show_as
from ferro.ops.product_arguments import same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["einsum", "inner", "kron", "tensordot"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DOTS = -1  # the ellipsis among labels


def contract(x: Tensor, y: Tensor, x_labels: tuple, y_labels: tuple, out_labels: tuple) -> Tensor:
    """The sum of x y over the labels that the result has not.

    Dimensions with equal labels have equal sizes, and every label is in two of x, y and the result at least: then the
    gradients are contractions of the same kind.
    """
    return apply(EINSUM, (x, y), (x_labels, y_labels, out_labels))


EINSUM = Op(
    "einsum",
    lambda xp, x, y, /, a, b, c: xp.contract(x, y, a, b, c),
    kind=MULTILINEAR,
    weight=20.0,
    x=lambda xp, g, y, a, b, c: xp.contract(g, y.conj(), c, b, a),
    y=lambda xp, g, x, a, b, c: xp.contract(x.conj(), g, a, c, b),
    samples=[
        Sample("ij,jk->ik", Arg(2, 3), Arg(3, 2)),
        Sample("ij", Arg(2, 3)),
        Sample("ba", Arg(2, 3)),
        Sample("ii", Arg(3, 3)),
        Sample("bii->bi", Arg(2, 3, 3)),
        Sample("i,j->ij", Arg(2), Arg(3)),
        Sample("bij,bjk->bki", Arg(2, 2, 3), Arg(2, 3, 2)),
        Sample("...ij,jk->...ik", Arg(2, 2, 3), Arg(3, 2)),
        Sample("bn,anm,bm->ba", Arg(2, 3), Arg(2, 3, 4), Arg(2, 4)),
        Sample("ij,jk", Arg(2, 1), Arg(3, 2)),
        Sample("ij,kl->k", Arg(2, 3), Arg(2, 2)),
        Sample("i,i", Arg(3), Arg(3)),
        Sample("...,...", Arg(2, 1, 3), Arg(4, 1)),
        Sample("iij,jk->ik", Arg(2, 2, 3), Arg(3, 2)),
        Sample(",", Arg(), Arg()),
        Sample(Arg(2, 3), [0, 1], Arg(3, 2), [1, 2], [0, 2]),
        Sample("ij,jk->ik", Arg(0, 3), Arg(3, 2)),
    ],
    complex=True,
)


# -- einsum ------------------------------------------------------------------------------------------------------------


@overload
def einsum(equation: str, /, *operands: Any) -> Tensor: ...


@overload
def einsum(*args: Any) -> Tensor: ...


def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation such as ``"ij,jk->ik"`` describes.

    - `equation` (str): the subscripts of each operand, and behind the arrow those of the result
    - `*operands` (Tensor): with as many dimensions as they have subscripts

    Subscripts absent from the result are summed over; ``...`` stands for the remaining dimensions, which broadcast; a
    subscript repeated in one operand takes its diagonal. Without ``->`` the result has the ellipsis and the subscripts
    that occur once, in alphabetical order. Also ``einsum(operand, [0, 1], ..., [0, 2])`` with numbers below 52 (and
    Ellipsis) for subscripts. More than two operands are contracted in the order that costs least at each step.
    ValueError without operands, TypeError for operands that are no tensors, RuntimeError for subscripts that do not fit.

    Example::

        >>> import ferro
        >>> a, b = ferro.ones(5, 2, 3), ferro.ones(5, 3, 4)
        >>> ferro.einsum("bij,bjk->bik", a, b).shape
        ferro.Size([5, 2, 4])
        >>> ferro.einsum("ii", ferro.eye(3))
        tensor(3.)
    """
    tensors, subscripts = _arguments(args)
    for i, t in enumerate(tensors):
        if not isinstance(t, TensorBase):
            raise TypeError(f"einsum(): expected Tensor as operand {i}, but got {type(t).__name__}")
    ndims = tuple([t._data.ndim for t in tensors])
    if (plain := _plain(subscripts, ndims)) is not None:
        x, y = tensors
        s, t = x._data.shape, y._data.shape
        if all(s[i] == t[j] for i, j in plain[3]):
            return _pair(x, y, *plain[:3])
    inputs, result = _labels(subscripts, ndims)
    sizes = _sizes(tensors, inputs)
    terms = [_simplify(t, labels, sizes) for t, labels in zip(tensors, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _cheapest(terms, sizes) if len(terms) > 2 else (0, 1)
        (x, a), (y, b) = terms[i], terms[j]
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = set(result).union(*[labels for _, labels in rest])
        x, a = _sum_out(x, a, kept.union(b))
        y, b = _sum_out(y, b, kept.union(a))
        c = result if not rest else tuple(dict.fromkeys([label for label in a + b if label in kept]))
        terms = [(_pair(x, y, a, b, c), c), *rest]
    x, labels = _sum_out(*terms[0], set(result))
    return x if labels == result and len(tensors) > 1 else x.permute(tuple([labels.index(label) for label in result]))


show_as(einsum, equation="str", operands="Tensor")


def _pair(x: Any, y: Any, a: tuple, b: tuple, c: tuple) -> Any:
    if x._data.dtype is not y._data.dtype:
        if any(label in b and label not in c for label in a):
            same_dtype("einsum", operand1=x, operand2=y)
        x, y = promote(x, y)
    elif x._data.dtype.kind == "b" and any(label in b and label not in c for label in a):
        same_dtype("einsum", operand1=x, operand2=y)
    return contract(x, y, a, b, c)


def _arguments(args: tuple) -> tuple[list, Any]:
    """The operands, and the equation or lists of labels (those of the result last, None if not given)."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if not isinstance(args[0], str):
        inputs = [_from_list(s) for s in args[1::2]]
        result = _from_list(args[-1]) if len(args) % 2 else None
        return list(args[0 : len(inputs) * 2 : 2]), (*inputs, result)
    tensors = args[1:]
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return list(tensors), args[0]


@lru_cache(maxsize=512)
def _labels(subscripts: Any, ndims: tuple) -> tuple[list[tuple], tuple]:
    """The labels of every operand, of so many dimensions each, and of the result."""
    if not isinstance(subscripts, str):
        return _spell_out(ndims, subscripts[:-1], subscripts[-1])
    left, arrow, right = subscripts.partition("->")
    inputs = [_from_text(part, f"operand {i}") for i, part in enumerate(left.split(","))]
    if len(inputs) != len(ndims):
        few = "fewer" if len(ndims) < len(inputs) else "more"
        raise RuntimeError(
            f"einsum(): {few} operands were provided than specified in the equation: {len(ndims)} for {len(inputs)} in "
            f"{subscripts!r}"
        )
    return _spell_out(ndims, inputs, _from_text(right, "the output") if arrow else None)


@lru_cache(maxsize=512)
def _plain(subscripts: Any, ndims: tuple) -> tuple | None:
    """The labels of two operands and the result where one contraction is all, and which dimensions must be equal."""
    inputs, result = _labels(subscripts, ndims)
    if len(inputs) != 2:
        return None
    a, b = inputs
    for one, other in ((a, b), (b, a)):
        if len(set(one)) < len(one) or not set(one) <= {*other, *result}:
            return None
    return a, b, result, tuple([(a.index(label), b.index(label)) for label in a if label in b])


def _from_text(text: str, where: str) -> tuple[int, ...]:
    """Labels of one part of an equation."""
    labels: list[int] = []
    text = text.replace(" ", "")
    i = 0
    while i < len(text):
        if text.startswith("...", i):
            if DOTS in labels:
                raise RuntimeError(f"einsum(): found '.' for {where} for which an ellipsis was already found")
            labels.append(DOTS)
            i += 3
            continue
        label = LETTERS.find(text[i])
        if label < 0:
            why = "that is not part of any ellipsis" if text[i] == "." else "but subscripts must be letters, [a-zA-Z]"
            raise RuntimeError(f"einsum(): found {text[i]!r} for {where} {why}")
        labels.append(label)
        i += 1
    return tuple(labels)


def _from_list(subscripts: Any) -> tuple[int, ...]:
    """Labels of a list of numbers."""
    if not isinstance(subscripts, (list, tuple)):
        raise ValueError(f"einsum(): expected a list of subscripts after each operand, got {type(subscripts).__name__}")
    labels = []
    for s in subscripts:
        label = DOTS if s is Ellipsis else operator.index(s)
        if s is not Ellipsis and not 0 <= label < 52:
            raise ValueError(f"einsum(): subscript {s} in subscript list is not within the valid range [0, 52)")
        labels.append(label)
    if labels.count(DOTS) > 1:
        raise RuntimeError("einsum(): found more than one ellipsis in a subscript list")
    return tuple(labels)


def _spell_out(ndims: tuple, inputs: Any, result: tuple | None) -> tuple[list[tuple], tuple]:
    """The labels with the ellipsis replaced by the labels 52, 53, ... of the dimensions it stands for."""
    width = 0
    for i, (ndim, labels) in enumerate(zip(ndims, inputs, strict=True)):
        named = len(labels) - labels.count(DOTS)
        if named > ndim or (named < ndim and DOTS not in labels):
            wrong, why = ("is more than", "") if DOTS in labels else ("does not match", " and no ellipsis was given")
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) {wrong} the number of dimensions "
                f"({ndim}) for operand {i}{why}"
            )
        if DOTS in labels:
            width = max(width, ndim - named)
    dots = tuple(range(52, 52 + width))

    def spelt(labels: tuple, count: int) -> tuple:
        if DOTS not in labels:
            return labels
        i = labels.index(DOTS)
        return (*labels[:i], *dots[width - count :], *labels[i + 1 :])

    spelled = [spelt(labels, ndim - len(labels) + 1) for ndim, labels in zip(ndims, inputs, strict=True)]
    given = [label for labels in inputs for label in labels if label != DOTS]
    if result is None:
        return spelled, (*dots, *sorted([label for label in given if given.count(label) == 1]))
    for label in result:
        if label != DOTS and label not in given:
            raise RuntimeError(
                f"einsum(): output subscript {LETTERS[label]} does not appear in the equation for any input operand"
            )
        if result.count(label) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {'...' if label == DOTS else LETTERS[label]} appears more than once in "
                "the output"
            )
    return spelled, spelt(result, width)


def _sizes(tensors: list, inputs: list[tuple]) -> dict[int, int]:
    """The size of every label; sizes of 1 broadcast."""
    sizes: dict[int, int] = {}
    for i, (t, labels) in enumerate(zip(tensors, inputs, strict=True)):
        seen: dict[int, int] = {}
        for label, s in zip(labels, t._data.shape, strict=True):
            name = LETTERS[label] if label < 52 else "..."
            if seen.setdefault(label, s) != s:
                raise RuntimeError(
                    f"einsum(): subscript {name} is repeated for operand {i} but the sizes don't match, {s} != "
                    f"{seen[label]}"
                )
            have = sizes.setdefault(label, s)
            if have == 1:
                sizes[label] = s
            elif s not in (1, have):
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {s} for operand {i}, which does not broadcast with the size "
                    f"{have} it had before (shapes {', '.join(str(list(t._data.shape)) for t in tensors)})"
                )
    return sizes


def _simplify(t: Any, labels: tuple, sizes: dict[int, int]) -> tuple[Any, tuple]:
    """An operand without repeated labels and without dimensions of size 1 that others broadcast."""
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        t = t.diagonal(0, i, j)
        labels = (*[k for n, k in enumerate(labels) if n not in (i, j)], label)
    shape = t._data.shape
    keep = [n for n, label in enumerate(labels) if shape[n] == sizes[label]]
    if len(keep) < len(labels):
        t = t.reshape(tuple([shape[n] for n in keep]))
        labels = tuple([labels[n] for n in keep])
    return t, labels


def _sum_out(t: Any, labels: tuple, kept: set) -> tuple[Any, tuple]:
    """The operand summed over the labels that are not kept."""
    gone = tuple([n for n, label in enumerate(labels) if label not in kept])
    if not gone:
        return t, labels
    return t.sum(gone, dtype=t.dtype), tuple([label for label in labels if label in kept])


def _cheapest(terms: list, sizes: dict[int, int]) -> tuple[int, int]:
    """The two operands whose product costs the fewest multiplications (the first such pair)."""
    pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
    return min(pairs, key=lambda p: math.prod([sizes[label] for label in {*terms[p[0]][1], *terms[p[1]][1]}]))


# -- special cases -----------------------------------------------------------------------------------------------------


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


class EinsumMethods:
    """Methods of Tensor."""

    __slots__ = ()
    inner = inner
    kron = kron
