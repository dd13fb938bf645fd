"""Random numbers on the device: they lie there, and are the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro import nn
from ferro.nn import functional as F

pytestmark = pytest.mark.usefixtures("cuda")

CASES: dict[str, Callable] = {
    "cauchy_": lambda x: x.cauchy_(),
    "exponential_": lambda x: x.exponential_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "log_normal_": lambda x: x.log_normal_(),
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.T.uniform_(-1, 1),
    "random_": lambda x: x.random_(7),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "kaiming_uniform_": nn.init.kaiming_uniform_,
    "trunc_normal_": nn.init.trunc_normal_,
    "rand_like": ferro.rand_like,
    "randn_like": ferro.randn_like,
    "randint_like": lambda x: ferro.randint_like(x, 9),
    "bernoulli": lambda x: ferro.bernoulli(x.sigmoid()),
    "bernoulli by a number": lambda x: ferro.bernoulli(x, 0.4),
    "binomial": lambda x: ferro.binomial(x.abs().round() + 3, x.sigmoid()),
    "poisson": lambda x: ferro.poisson(x.abs() * 3),
    "multinomial": lambda x: ferro.multinomial(x.abs() + 0.1, 2),
    "normal": lambda x: ferro.normal(x, x.abs()),
    "normal by a number": lambda x: ferro.normal(1.5, x.abs()),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout2d": lambda x: F.dropout2d(x.reshape(1, 3, 2, 2), 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x.reshape(1, 3, 2, 2), 0.5, True),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.3, True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "attention with dropout": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3),
    "svd_lowrank": lambda x: ferro.svd_lowrank(x, 2)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_lie_on_the_device_and_are_those_of_the_cpu(name: str) -> None:
    found: list[Any] = []
    for device in ("cpu", "cuda"):
        ferro.manual_seed(3)
        x = ferro.randn(3, 4, dtype=ferro.float64).to(device)
        result = CASES[name](x)
        assert result.device.type == device
        found.append(result.cpu().tolist())
    assert (
        found[1] == pytest.approx(found[0])
        if isinstance(found[0][0], float)
        else ferro.tensor(found[1]).allclose(ferro.tensor(found[0]))
    )
