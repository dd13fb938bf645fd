"""Functions of lists of tensors: values, gradients, what they give back and refuse are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.ops import foreach

A = ([0.3, 0.6], [[0.9]], 0.45)
B = ([0.5, 0.2], [[0.7]], 0.85)


def lists(t: Any, values: Any = A, grad: bool = False) -> list[Any]:
    return [t.tensor(v, dtype=t.float64, requires_grad=grad) for v in values]


# The arguments after the list, by overload.
BINARY: dict[str, Callable[[Any], Any]] = {
    "number": lambda t: 0.5,
    "numbers": lambda t: [0.5, 2, 0.7],
    "tensors": lambda t: lists(t, B),
}
TERNARY: dict[str, Callable[[Any], tuple]] = {
    "default": lambda t: (),
    "number": lambda t: (0.5,),
    "numbers": lambda t: ([0.5, 2, 0.7],),
    "packed": lambda t: (t.tensor([0.5, 2, 0.7], dtype=t.float64),),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {}
for _n in foreach._PAIRS:
    _base = _n.removesuffix("_")
    _f = f"_foreach_{_n}"
    if _base in foreach._UNARY:
        CALLS[_n] = lambda t, a, f=_f: getattr(t, f)(a)
    elif _base in (*foreach._BINARY, "pow"):
        for _kind, _of in BINARY.items():
            CALLS[f"{_n} {_kind}"] = lambda t, a, f=_f, of=_of: getattr(t, f)(a, of(t))
    elif _base == "lerp":
        for _kind, _of in BINARY.items():
            CALLS[f"{_n} {_kind}"] = lambda t, a, f=_f, of=_of: getattr(t, f)(a, lists(t, B), of(t))
    else:
        for _kind, _given in TERNARY.items():
            CALLS[f"{_n} {_kind}"] = lambda t, a, f=_f, given=_given: getattr(t, f)(a, lists(t, B), lists(t), *given(t))
CALLS |= {
    "add tensor": lambda t, a: t._foreach_add(a, t.tensor(2.0)),
    "mul tensor": lambda t, a: t._foreach_mul(a, t.tensor(2.0)),
    "sub tensor": lambda t, a: t._foreach_sub(a, t.tensor(2.0)),
    "div tensor": lambda t, a: t._foreach_div(a, t.tensor(2.0)),
    "add alpha": lambda t, a: t._foreach_add(a, lists(t, B), alpha=3),
    "sub_ alpha": lambda t, a: t._foreach_sub_(a, lists(t, B), alpha=0.5),
    "add tensor alpha": lambda t, a: t._foreach_add(a, t.tensor(2.0), alpha=3),
    "pow of a number": lambda t, a: t._foreach_pow(2.5, a),
    "clone": lambda t, a: t._foreach_clone(a),
    "copy_": lambda t, a: t._foreach_copy_(a, lists(t, B)),
    "zero_": lambda t, a: t._foreach_zero_(a),
    "max": lambda t, a: t._foreach_max(a),
    "mm": lambda t, a: t._foreach_mm([x.reshape(-1, 1) for x in a], [x.reshape(1, -1) for x in a]),
    **{f"norm {p}": lambda t, a, p=p: t._foreach_norm(a, p) for p in (0, 1, 2, 3.5, float("inf"))},
    "powsum": lambda t, a: t._foreach_powsum(a, 3),
    "by keyword": lambda t, a: t._foreach_add(self=a, other=lists(t, B)),
    "scalar": lambda t, a: t._foreach_mul(a, scalar=2),
    "scalars": lambda t, a: t._foreach_addcdiv(a, lists(t, B), a, scalars=[1, 2, 3]),
    "weights": lambda t, a: t._foreach_lerp(a, tensors1=lists(t, B), weights=a),
    "exponent": lambda t, a: t._foreach_pow(a, exponent=2),
    "tuple": lambda t, a: t._foreach_sqrt(tuple(a)),
    "integers": lambda t, a: t._foreach_div([t.tensor([3, 4])], 2),
    "dtypes": lambda t, a: t._foreach_add([t.tensor([1]), t.tensor([1.0])], 1.5),
    "norm dtype": lambda t, a: t._foreach_norm(lists(t), 2, dtype=t.float64),
}


def outcome(t: Any, call: Callable, grad: bool) -> Any:
    """What the call gives, as numbers, and the gradients of the list that it was given."""
    leaves = lists(t, grad=grad)
    given = t._foreach_clone(leaves) if grad else leaves
    results = call(t, given)
    facts = [type(results).__name__, [str(r.dtype).partition(".")[2] for r in results]]
    if not grad:
        return facts, [r.tolist() for r in results] + [x.tolist() for x in leaves]
    if any(r.requires_grad for r in results):
        t.stack([r.sum() * (i + 1.0) for i, r in enumerate(results) if r.requires_grad]).sum().backward()
    return facts, [None if x.grad is None else x.grad.tolist() for x in leaves]


# PyTorch has no derivative of these, takes the norm of order 0 for a constant, or fails (scalars); ferro's are those of the loop.
WITHOUT = {f"{n} packed" for n in ("addcdiv", "addcdiv_", "addcmul", "addcmul_")} | {
    "copy_",
    "powsum",
    "norm 0",
    "scalars",
}
WITHOUT |= {f"{n} {k}" for n in ("maximum_", "minimum_") for k in ("number", "numbers")}


@pytest.mark.parametrize(
    ("name", "grad"),
    [*[(n, False) for n in CALLS], *[(n, True) for n in CALLS if n not in WITHOUT]],
    ids=lambda v: v if isinstance(v, str) else ("gradients" if v else "values"),
)
def test_lists_are_computed_and_differentiated_as_by_pytorch(torch: Any, name: str, grad: bool) -> None:
    (facts, ours), (their_facts, theirs) = outcome(ferro, CALLS[name], grad), outcome(torch, CALLS[name], grad)
    assert facts == their_facts
    assert [v is None for v in ours] == [v is None for v in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None:
            np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-12)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lengths": (
        lambda t: t._foreach_add(lists(t), lists(t)[:2]),
        "Tensor lists must have the same number of tensors, got 3 and 2",
    ),
    "numbers": (
        lambda t: t._foreach_add(lists(t), [1.0]),
        "Tensor list must have same number of elements as scalar list",
    ),
    "nothing": (lambda t: t._foreach_sqrt([]), "Tensor list must have at least one tensor."),
    "nothing and a number": (lambda t: t._foreach_add([], 1), "Tensor list must have at least one tensor."),
    "no list": (lambda t: t._foreach_add(t.ones(1), 1), "received an invalid combination of arguments"),
    "no tensor": (lambda t: t._foreach_add([1.0], 1), "expected Tensor as element 0 in argument 0, but got float"),
    "no operand": (lambda t: t._foreach_add(lists(t)), "received an invalid combination of arguments"),
    "text": (lambda t: t._foreach_add(lists(t), "x"), "received an invalid combination of arguments"),
    "texts": (lambda t: t._foreach_add(lists(t), ["x"] * 3), "expected Tensor as element 0 in argument 1, but got str"),
    "long tensor": (
        lambda t: t._foreach_add(lists(t), t.ones(2)),
        "scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements.",
    ),
    "alpha of a number": (
        lambda t: t._foreach_add(lists(t), 2, alpha=2),
        "received an invalid combination of arguments",
    ),
    "packed length": (
        lambda t: t._foreach_addcmul(lists(t), lists(t), lists(t), t.ones(2)),
        "Expected length of scalars to match input of length 3 but got 2 instead.",
    ),
    "packed number": (
        lambda t: t._foreach_addcmul(lists(t), lists(t), lists(t), t.ones(())),
        "Expected packed scalar Tensor to be of dimension 1. Got 0 instead.",
    ),
    "ternary lengths": (
        lambda t: t._foreach_addcdiv(lists(t), lists(t), lists(t)[:1]),
        "Tensor lists must have the same number of tensors",
    ),
    "copy lengths": (
        lambda t: t._foreach_copy_(lists(t), lists(t)[:1]),
        "Tensor lists must have the same number of tensors",
    ),
    "integers written": (
        lambda t: t._foreach_div_([t.tensor([4])], 2),
        "result type Float can't be cast to the desired output type Long",
    ),
    "leaf written": (lambda t: t._foreach_add_(lists(t, grad=True), 1), "a leaf Variable that requires grad"),
    "larger": (lambda t: t._foreach_add_([t.ones(1)], [t.ones(2)]), "doesn't match the broadcast shape [2]"),
    "norm of nothing": (
        lambda t: t._foreach_norm([t.ones(0)], float("inf")),
        "cannot compute the infinity norm on an empty tensor",
    ),
    "norm of integers": (
        lambda t: t._foreach_norm([t.tensor([1])]),
        "xpected a floating point or complex tensor as input",
    ),
    "sums of integers": (lambda t: t._foreach_powsum([t.tensor([1])]), "not implemented for"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(torch: Any, case: str) -> None:
    run, words = REFUSED[case]
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - its type is what is asked for
        run(torch)
    assert words in str(theirs.value)
    with pytest.raises(type(theirs.value)) as ours:
        run(ferro)
    assert words.replace("Long", "").replace("torch.", "") in str(ours.value).replace("Long", "")


def test_all_of_pytorch_s_names_are_there(torch: Any) -> None:
    assert [n for n in dir(torch) if n.startswith("_foreach_") and not hasattr(ferro, n)] == []


def test_what_writes_gives_back_its_list() -> None:
    t: Any = ferro
    for given in (lists(ferro), tuple(lists(ferro))):
        assert t._foreach_add_(given, 1) is given
        assert t._foreach_zero_(given) is given
        assert all(x.sum() == 0 for x in given)


def test_lengths_are_checked_before_anything_is_written() -> None:
    given: list[Any] = lists(ferro)
    t: Any = ferro
    with pytest.raises(RuntimeError, match="same number"):
        t._foreach_add_(given, lists(ferro)[:2])
    assert [x.tolist() for x in given] == [x.tolist() for x in lists(ferro)]
