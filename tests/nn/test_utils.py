"""nn.utils: clipping of gradients, parameters as a vector, padded sequences."""

from __future__ import annotations

import math
from typing import Any

import pytest

import ferro
from ferro.nn import utils
from tests.nn.parity import assert_same, to_ferro, torch


def with_gradients(lib: Any) -> list[Any]:
    """Three parameters with gradients and one without."""
    generator = torch.Generator().manual_seed(3)
    params = []
    for shape in ((2, 3), (4,), ()):
        param = lib.ones(shape, dtype=lib.float64, requires_grad=True)
        grad = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
        param.grad = grad if lib is torch else to_ferro(grad)
        params.append(param)
    return [*params, lib.ones(2, requires_grad=True)]


@pytest.mark.parametrize("norm_type", [2, 1, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clip_grad_norm(norm_type: float, max_norm: float) -> None:
    ours, theirs = with_gradients(ferro), with_gradients(torch)
    a = utils.clip_grad_norm_(ours, max_norm, norm_type)
    b = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert_same(a, b, "norm")
    for x, y in zip(ours[:3], theirs[:3], strict=True):
        assert_same(x.grad, y.grad, "gradient")
    assert ours[3].grad is None


def test_clip_grad_norm_of_one_tensor_and_of_none() -> None:
    (x, *_) = with_gradients(ferro)
    utils.clip_grad_norm_(x, 1.0)
    assert utils.get_total_norm(x.grad).item() == pytest.approx(1.0, rel=1e-5)
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.clip_grad_norm_(iter([x]), 9.0).item() == pytest.approx(1.0, rel=1e-5)


def test_clip_grad_norm_tells_of_infinity() -> None:
    x = ferro.ones(2, requires_grad=True)
    x.grad = ferro.tensor([math.inf, 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
    assert utils.clip_grad_norm_([x], 1.0).item() == math.inf


def test_clip_grad_value() -> None:
    ours, theirs = with_gradients(ferro), with_gradients(torch)
    utils.clip_grad_value_(ours, 0.7)
    torch.nn.utils.clip_grad_value_(theirs, 0.7)
    for x, y in zip(ours[:3], theirs[:3], strict=True):
        assert_same(x.grad, y.grad, "gradient")


def test_parameters_as_a_vector() -> None:
    model = ferro.nn.Sequential(ferro.nn.Linear(2, 3), ferro.nn.Linear(3, 1))
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (13,)
    vector.sum().backward()
    assert model[0].weight.grad.tolist() == [[1.0, 1.0]] * 3
    utils.vector_to_parameters(ferro.arange(13.0), model.parameters())
    assert model[0].weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert model[1].bias.tolist() == [12.0]
    assert model[0].weight.requires_grad
    with pytest.raises(TypeError, match="but got: list"):
        utils.vector_to_parameters([1.0], model.parameters())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_sequence(batch_first: bool, side: str) -> None:
    parts = [torch.randn(n, 2, dtype=torch.float64) for n in (3, 5, 1)]
    ours = utils.rnn.pad_sequence([to_ferro(part) for part in parts], batch_first, -1.0, side)
    assert_same(ours, torch.nn.utils.rnn.pad_sequence(parts, batch_first, -1.0, side), "padded")
    if side == "right":
        back = utils.rnn.unpad_sequence(ours, ferro.tensor([3, 5, 1]), batch_first)
        for a, b in zip(back, parts, strict=True):
            assert_same(a, b, "part")


def test_pad_sequence_says_what_is_wrong() -> None:
    with pytest.raises(RuntimeError, match="trailing dimensions"):
        utils.rnn.pad_sequence([ferro.ones(2, 3), ferro.ones(2, 4)])
    with pytest.raises(RuntimeError, match="empty list"):
        utils.rnn.pad_sequence([])
    with pytest.raises(RuntimeError, match="'left' or 'right'"):
        utils.rnn.pad_sequence([ferro.ones(2)], padding_side="top")
