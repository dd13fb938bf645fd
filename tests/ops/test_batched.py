"""Every declared operation under vmap against a loop: the function, and its derivatives of first and second order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.samples import Arg, Entry, Sample
from ferro.func import grad, vjp, vmap
from tests.helpers import entries, lookup, rng_of

COUNT = 3  # slices
DYNAMIC = "data-dependent output shape"
# What cannot be batched raises: the operation and what the error says.
REFUSED = {
    "unique": DYNAMIC,
    "unique_consecutive": DYNAMIC,
    "nonzero": DYNAMIC,
    "argwhere": DYNAMIC,
    "masked_select": DYNAMIC,
    "Tensor.__getitem__": DYNAMIC,  # (by a mask)
    "safe_where": DYNAMIC,
    "index_put": DYNAMIC,  # (by a mask)
    "repeat_interleave": DYNAMIC,  # (other repeats for each slice)
    "nn.functional.one_hot": "explicit positive num_classes",
    # lengths of a packed sequence, which are no data
    "rnn_tanh": r"\.item\(\)",
    "gru": r"\.item\(\)",
    "lstm": r"\.item\(\)",
    **dict.fromkeys(
        [
            f"nn.functional.{name}"
            for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
        ],
        "randomness error mode",
    ),
}


def recipes(x: Any) -> Iterator[Arg]:
    """The recipes of tensors in an argument, in order."""
    if isinstance(x, Arg):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from recipes(y)


def built(x: Any, tensors: Iterator) -> Any:
    if isinstance(x, Arg):
        return next(tensors)
    return type(x)([built(y, tensors) for y in x]) if type(x) in (list, tuple) else x


def leaves(result: Any) -> list:
    if isinstance(result, ferro.Tensor):
        return [result]
    return [leaf for r in result for leaf in leaves(r)] if isinstance(result, (list, tuple)) else []


def called(entry: Entry, sample: Sample, tensors: list) -> tuple:
    """The tensors that the operation returns."""
    given = iter(tensors)
    args = [built(a, given) for a in sample.args]
    named = {k: built(v, given) for k, v in sample.kwargs.items()}
    return tuple(leaves(lookup(ferro, entry.path)(*args, **named)))


def wave(t: Any, shift: float) -> Any:
    """Numbers that differ from place to place, like `t`."""
    return (ferro.arange(t.numel()).to(t.dtype) + shift).sin().reshape(t.shape)


def of_moving(f: Callable, tensors: list, moving: list) -> Callable:
    """The function of those tensors alone that are differentiated."""

    def inner(*xs: Any) -> Any:
        given = list(tensors)
        for i, x in zip(moving, xs, strict=True):
            given[i] = x
        return f(given)

    return inner


def first(f: Callable, tensors: list, moving: list) -> tuple:
    """The gradients for fixed cotangents."""

    def inexact(given: list) -> tuple:
        return tuple([o for o in f(given) if o.is_floating_point() or o.is_complex()])

    outs, pull = vjp(of_moving(inexact, tensors, moving), *[tensors[i] for i in moving])
    return pull(tuple([wave(o, 0.3) for o in outs]))


def second(f: Callable, tensors: list, moving: list) -> tuple:
    """The gradients of a sum of these gradients."""

    def total(given: list) -> Any:
        return sum((g * wave(g, 0.7)).sum() for g in first(f, given, moving))

    return grad(of_moving(total, tensors, moving), tuple(range(len(moving))))(*[tensors[i] for i in moving])


def variants(count: int) -> list[tuple]:
    """Which tensors have another value for each slice: all, only the first, only the last."""
    found = [(True,) * count, (True, *(False,) * (count - 1)), (*(False,) * (count - 1), True)]
    return list(dict.fromkeys(found))


def check(f: Callable, slices: list, batched: tuple) -> None:
    """One function of a list of tensors against the loop."""
    looped = [f([s[i] if b else s[0] for s, b in zip(slices, batched, strict=True)]) for i in range(COUNT)]
    given = [ferro.stack(s) if b else s[0] for s, b in zip(slices, batched, strict=True)]
    found = vmap(lambda *xs: f(list(xs)), in_dims=tuple([0 if b else None for b in batched]))(*given)
    for got, want in zip(found, zip(*looped, strict=True), strict=True):
        expected = np.stack([w.detach().numpy() for w in want])
        assert got.dtype == want[0].dtype
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("entry", entries(), ids=lambda e: e.path)
def test_as_a_loop(entry: Entry) -> None:
    for sample in entry.samples:
        found = [a for x in (*sample.args, *sample.kwargs.values()) for a in recipes(x)]
        rng = rng_of(entry.path)
        slices = [[ferro.tensor(a.array(rng, np.float64)) for _ in range(COUNT)] for a in found]
        moving = [i for i, (a, s) in enumerate(zip(found, slices, strict=True)) if a.grad and s[0].is_floating_point()]

        def f(tensors: list, sample: Sample = sample) -> tuple:
            return called(entry, sample, tensors)

        derivatives = [first, second][: entry.order if sample.twice else 1] if moving and entry.differentiable else []
        for batched in variants(len(slices)) if slices else []:
            try:
                check(f, slices, batched)
                for order in derivatives if all(batched) else derivatives[:1]:
                    check(lambda ts, f=f, order=order, moving=moving: order(f, ts, moving), slices, batched)
            except RuntimeError as e:
                if not re.search(REFUSED.get(entry.path, "no error at all"), str(e)):
                    raise
