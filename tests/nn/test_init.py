"""Initialisation: distributions, structure, fans and gains; and how the layers start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.nn import init
from tests.nn.parity import torch


def moments(x: Any) -> tuple[float, float, float, float]:
    """Mean, standard deviation and extremes."""
    x = x.detach().numpy().astype(np.float64)
    return x.mean(), x.std(), x.min(), x.max()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("uniform_", (-2.0, 3.0)),
        ("normal_", (1.0, 2.0)),
        ("trunc_normal_", ()),
        ("trunc_normal_", (1.0, 2.0, 0.0, 2.5)),
        ("xavier_uniform_", (1.5,)),
        ("xavier_normal_", ()),
        ("kaiming_uniform_", (0.3, "fan_out")),
        ("kaiming_uniform_", (math.sqrt(5),)),
        ("kaiming_normal_", (0, "fan_in", "relu")),
        ("orthogonal_", ()),
    ],
)
def test_distributions_are_those_of_torch(name: str, arguments: tuple) -> None:
    shape = (300, 40, 5)
    ours, theirs = ferro.empty(shape), torch.empty(shape)
    assert getattr(init, name)(ours, *arguments) is ours
    getattr(torch.nn.init, name)(theirs, *arguments)
    a, b = moments(ours), moments(theirs)
    scale = b[1]
    assert a[0] == pytest.approx(b[0], abs=0.03 * scale)
    assert a[1] == pytest.approx(b[1], rel=0.02)
    if "uniform" in name or "trunc" in name:  # bounded, and filled up to the bounds
        assert a[2:] == pytest.approx(b[2:], abs=0.02 * scale)
    # Beyond mean and deviation: the shape of the distribution.
    grid = np.linspace(0.01, 0.99, 25)
    quantiles = [np.quantile(x.numpy(), grid) for x in (ours, theirs)]
    np.testing.assert_allclose(*quantiles, atol=0.06 * scale)


def test_a_generator_makes_it_repeatable() -> None:
    draws = [init.normal_(ferro.empty(5), generator=ferro.Generator().manual_seed(3)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]
    ferro.manual_seed(1)
    first = nn.Linear(3, 3).weight.tolist()
    ferro.manual_seed(1)
    assert nn.Linear(3, 3).weight.tolist() == first


def test_constants_and_identity() -> None:
    x = ferro.empty(2, 3)
    assert init.constant_(x, 4.5).tolist() == [[4.5] * 3] * 2
    assert init.ones_(x).sum().item() == 6
    assert init.zeros_(x).sum().item() == 0
    assert init.eye_(x).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize(("shape", "groups"), [((4, 3, 3), 1), ((4, 2, 4, 3), 2), ((2, 5, 3, 3, 2), 1)])
def test_dirac_passes_channels_through(shape: tuple, groups: int) -> None:
    ours = init.dirac_(ferro.empty(shape), groups)
    theirs = torch.nn.init.dirac_(torch.empty(shape), groups)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 3, 2)])
def test_orthogonal(shape: tuple) -> None:
    x = init.orthogonal_(ferro.empty(shape, dtype=ferro.float64), gain=2.0).reshape(shape[0], -1).numpy()
    gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-12)


def test_sparse() -> None:
    x = init.sparse_(ferro.empty(10, 6), sparsity=0.25, std=2.0).numpy()
    assert ((x == 0).sum(axis=0) == 3).all()


def test_fans_and_gains() -> None:
    for shape in ((3, 4), (3, 4, 5, 2)):
        ours = init._calculate_fan_in_and_fan_out(ferro.empty(shape))
        assert ours == torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.xavier_uniform_(ferro.empty(3)), "fewer than 2 dimensions"),
        (lambda: init.kaiming_uniform_(ferro.empty(3, 3), mode="in"), "Mode in not supported"),
        (lambda: init.calculate_gain("cosine"), "unsupported nonlinearity 'cosine'"),
        (lambda: init.calculate_gain("leaky_relu", "x"), "not a valid number"),
        (lambda: init.eye_(ferro.empty(3)), "2 dimensions"),
        (lambda: init.dirac_(ferro.empty(3, 3)), "3, 4, or 5 dimensions"),
        (lambda: init.dirac_(ferro.empty(3, 3, 3), 2), "divisible by groups"),
        (lambda: init.orthogonal_(ferro.empty(3)), "2 or more dimensions"),
        (lambda: init.sparse_(ferro.empty(3), 0.1), "2 dimensions"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_odd_arguments_warn() -> None:
    with pytest.warns(UserWarning, match="zero-element tensors"):
        init.kaiming_normal_(ferro.empty(0, 3))
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(ferro.empty(3), mean=10.0)


LAYERS = {
    "Linear": lambda nn: nn.Linear(40, 60),
    "Bilinear": lambda nn: nn.Bilinear(20, 10, 30),
    "Conv2d": lambda nn: nn.Conv2d(20, 40, 3, groups=2),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(20, 40, 3, groups=2),
    "Embedding": lambda nn: nn.Embedding(100, 30, padding_idx=3),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(10),
    "LayerNorm": lambda nn: nn.LayerNorm(10),
    "PReLU": lambda nn: nn.PReLU(7),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(60, 4, add_bias_kv=True),
    "MultiheadAttention kdim": lambda nn: nn.MultiheadAttention(60, 4, kdim=40, vdim=30),
    "LSTM": lambda nn: nn.LSTM(40, 50, 2),
    "GRUCell": lambda nn: nn.GRUCell(40, 50),
    "Transformer": lambda nn: nn.Transformer(32, 4, 1, 1, 64),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch tells of what it does not do
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_layers_start_like_those_of_torch(make: Any) -> None:
    ours, theirs = make(nn).state_dict(), make(torch.nn).state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        assert tuple(ours[key].shape) == tuple(value.shape), key
        if not value.is_floating_point():
            continue
        a, b = moments(ours[key]), moments(value)
        if b[1] < 1e-6:  # constants are the same ones
            np.testing.assert_array_equal(ours[key].numpy(), value.numpy())
            continue
        few = 4 / math.sqrt(value.numel())  # of few numbers, mean and deviation are themselves random
        assert a[0] == pytest.approx(b[0], abs=2 * few * b[1]), key
        assert a[1] == pytest.approx(b[1], rel=few), key


def test_embedding_starts_with_zeros_at_the_padding() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4
    assert layer.weight[4].tolist() == [0.0, 0.0, 0.0]
    frozen = nn.Embedding.from_pretrained(ferro.ones(2, 3))
    assert not frozen.weight.requires_grad
    assert frozen(ferro.tensor([1])).tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("name", ["uniform", "normal", "eye", "xavier_uniform", "kaiming_normal", "orthogonal"])
def test_the_older_names_warn_and_do_the_same(name: str) -> None:
    ferro.manual_seed(2)
    expected = getattr(ferro.nn.init, f"{name}_")(ferro.empty(3, 3)).tolist()
    ferro.manual_seed(2)
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
        assert getattr(ferro.nn.init, name)(ferro.empty(3, 3)).tolist() == expected
