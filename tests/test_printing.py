"""repr of tensors equals PyTorch's, letter for letter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

RNG = np.random.default_rng(0)
CASES = {
    "scalar": np.float32(3.0),
    "matrix": RNG.standard_normal((3, 4)).astype("f4"),
    "integers": np.arange(12).reshape(3, 4),
    "three dimensions": RNG.standard_normal((2, 2, 3)),
    "small numbers": np.array([1e-5, 1.0]),
    "wide range": np.array([1.0, 2000000.0]),
    "empty matrix": np.zeros((0, 3), "f4"),
    "empty integers": np.zeros(0, "i8"),
    "bools": np.array([True, False]),
    "complex": RNG.standard_normal((2, 2)) + 1j * RNG.standard_normal((2, 2)),
    "long": np.arange(2000.0).astype("f4"),
    "large matrix": RNG.standard_normal((30, 40)).astype("f4"),
    "not finite": np.array([np.nan, 1.5, np.inf]),
    "infinite whole": np.array([np.inf, 1.0, 2.0], "f4"),
    "half": np.array([-0.5, 10.25], "f2"),
    "wrapped": np.ones((2, 50), "f4"),
}


@pytest.mark.parametrize("name", CASES)
def test_repr_equals_torch(name: str, torch: Any) -> None:
    a = np.asarray(CASES[name])
    assert repr(ferro.from_numpy(a)) == repr(torch.from_numpy(a)).replace("torch.", "ferro.")


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex128"])
def test_lines_break_where_those_of_torch_do(dtype: str, torch: Any, rng: np.random.Generator) -> None:
    for n in range(1, 40):
        values = rng.choice([1.0, 2.5, -3.0, 1000.0, 0.25], n).tolist()
        ours, theirs = (lib.tensor(values).to(getattr(lib, dtype)) for lib in (ferro, torch))
        assert repr(ours) == repr(theirs).replace("torch.", "ferro.")


def test_repr_shows_the_history() -> None:
    x = ferro.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"


def test_printoptions_change_what_is_printed_and_can_be_restored() -> None:
    a = ferro.tensor([1 / 3])
    try:
        ferro.set_printoptions(precision=2)
        assert repr(a) == "tensor([0.33])"
        ferro.set_printoptions(sci_mode=True)
        assert repr(a) == "tensor([3.33e-01])"
    finally:
        ferro.set_printoptions(profile="default")
    assert repr(a) == "tensor([0.3333])"
    with pytest.raises(ValueError, match="profile must be one of"):
        ferro.set_printoptions(profile="wide")


@pytest.mark.parametrize("value", [14.0, 0.1, 3, True, 1j, [1.0, 2.0], [[1]]], ids=repr)
def test_a_formatted_tensor_is_the_number_where_it_holds_one(torch: Any, value: Any) -> None:
    ours, theirs = ferro.tensor(value), torch.tensor(value)
    assert f"{ours}" == f"{theirs}"
    assert "{} %".format(ours) == "{} %".format(theirs)  # noqa: UP032 - both ways to format are meant
    assert str(ours) == str(theirs)
    leaf = ferro.tensor(2.0, requires_grad=True)
    assert f"{leaf * 2}" == f"{torch.tensor(2.0, requires_grad=True) * 2}" == "4.0"
    assert f"{ferro.nn.Parameter(leaf.detach())}" == f"{torch.nn.Parameter(torch.tensor(2.0))}"
