"""Contractions over named dimensions: einsum."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from ferro.core.apply import apply
from ferro.core.base import TensorBase
from ferro.core.op import MULTILINEAR, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample
from ferro.core.signatures import show_as
from ferro.ops.product_arguments import same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["einsum"]


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
