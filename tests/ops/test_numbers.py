"""Python numbers beside tensors: what a dtype does not hold is refused, as PyTorch refuses it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ferro

CALLS: dict[str, Any] = {
    "add_half": lambda f: f.add(f.ones(2, dtype=f.float16), f.full((2,), 1e-3, dtype=f.float16), alpha=1e5),
    "add_infinity": lambda f: f.add(f.ones(2, dtype=f.float16), f.ones(2, dtype=f.float16), alpha=float("inf")),
    "add_bfloat16": lambda f: f.add(f.ones(2, dtype=f.bfloat16), f.ones(2, dtype=f.bfloat16), alpha=1e39),
    "add_complex": lambda f: f.add(f.ones(2, dtype=f.complex64), f.ones(2, dtype=f.complex64), alpha=1e40),
    "add_int8": lambda f: f.add(f.ones(2, dtype=f.int8), f.ones(2, dtype=f.int8), alpha=1000),
    "add_uint8_negative": lambda f: f.add(f.ones(2, dtype=f.uint8), f.ones(2, dtype=f.uint8), alpha=-1),
    "sub_half": lambda f: f.sub(f.ones(2, dtype=f.float16), f.ones(2, dtype=f.float16), alpha=1e5),
    "sub_int8": lambda f: f.sub(f.ones(2, dtype=f.int8), f.ones(2, dtype=f.int8), alpha=128),
    "fill_half": lambda f: f.ones(2, dtype=f.float16).fill_(1e5),
    "fill_int8": lambda f: f.ones(2, dtype=f.int8).fill_(300),
    "fill_fits": lambda f: f.ones(2, dtype=f.int8).fill_(-128),
    "full_half": lambda f: f.full((2,), 1e5, dtype=f.float16),
    "full_int8": lambda f: f.full((2,), 300, dtype=f.int8),
    "masked_fill": lambda f: f.ones(2, dtype=f.float16).masked_fill(f.tensor([True, False]), 1e5),
    "masked_fill_infinity": lambda f: f.ones(2).masked_fill(f.tensor([True, False]), float("-inf")),
    "index_fill": lambda f: f.ones(2, 2, dtype=f.int8).index_fill(0, f.tensor([0]), 300),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_that_a_dtype_does_not_hold_are_refused_as_torch_does(torch: Any, name: str) -> None:
    def outcome(f: Any) -> Any:
        try:
            return CALLS[name](f).tolist()
        except RuntimeError as e:
            return str(e)

    ours, theirs = outcome(ferro), outcome(torch)
    if isinstance(theirs, str):
        assert theirs in ours
    else:
        assert ours == pytest.approx(theirs, rel=1e-2)


RANDOM: dict[str, Any] = {
    "int8": lambda f: f.zeros(3, dtype=f.int8).random_(0, 1000),
    "uint8": lambda f: f.zeros(3, dtype=f.uint8).random_(-1, 3),
    "bool": lambda f: f.zeros(3, dtype=f.bool).random_(0, 3),
    "half": lambda f: f.zeros(3, dtype=f.float16).random_(-10000, 10000),
    "single": lambda f: f.zeros(3).random_(0, 2**25),
    "single_from": lambda f: f.zeros(3).random_(-(2**24), None),
    "double": lambda f: f.zeros(3, dtype=f.float64).random_(0, 2**55),
    "all": lambda f: f.zeros(3, dtype=f.bfloat16).random_(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_bounds_of_random_integers_are_refused_or_warned_of_as_torch_does(torch: Any, name: str) -> None:
    def outcome(f: Any) -> tuple:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                RANDOM[name](f)
            except RuntimeError as e:
                return (str(e),)
        return ("", *[str(w.message).split(" (Triggered")[0] for w in seen])

    ours, theirs = outcome(ferro), outcome(torch)
    assert len(ours) == len(theirs)
    assert all(b in a for a, b in zip(ours, theirs, strict=True))


def test_log1p_of_small_complex_numbers_keeps_both_parts(torch: Any) -> None:
    points = [1e-19 + 1e-18j, -0.5 + 1e-10j, 3 + 4j, -1 + 0j, 1e-300 + 0j, -0.3 - 0.4j, 1e-9 - 1e-5j, 0j]
    for dtype in ("complex64", "complex128"):
        ours = ferro.tensor(points, dtype=getattr(ferro, dtype)).log1p()
        theirs = torch.tensor(points, dtype=getattr(torch, dtype)).log1p()
        torch.testing.assert_close(
            torch.from_numpy(ours.numpy()), theirs, rtol=1e-5 if dtype == "complex64" else 1e-13, atol=0
        )
    x = ferro.tensor(points[1:3] + points[5:7], dtype=ferro.complex128, requires_grad=True)
    assert ferro.autograd.gradcheck(ferro.log1p, (x,), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(ferro.log1p, (x,))
