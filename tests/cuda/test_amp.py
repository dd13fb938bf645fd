"""Mixed precision on the device: which operations are cast, that the CPU's are not, and training with a GradScaler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.core.casting import FULL, FULL_ON_CUDA, LOW
from ferro.core.op import OPS

pytestmark = pytest.mark.usefixtures("cuda")


def test_the_lists_name_operations() -> None:
    assert FULL_ON_CUDA - OPS.keys() == set()
    assert FULL < FULL_ON_CUDA
    assert LOW.isdisjoint(FULL_ON_CUDA)


@pytest.mark.parametrize(("given", "low"), [(None, "float16"), ("bfloat16", "bfloat16")])
def test_products_are_low_and_exponentials_full(given: str | None, low: str) -> None:
    x, w = ferro.ones(2, 3, device="cuda"), ferro.ones(4, 3, device="cuda", requires_grad=True)
    with ferro.autocast("cuda", None if given is None else getattr(ferro, given)):
        assert (ferro.is_autocast_enabled("cuda"), ferro.is_autocast_enabled("cpu")) == (True, False)
        assert ferro.get_autocast_dtype("cuda") is getattr(ferro, low)
        y = nn.functional.linear(x, w)
        assert (str(y.dtype), y.device.type) == (f"ferro.{low}", "cuda")
        for full in (y.exp(), y.softmax(-1), y.sum(), nn.functional.layer_norm(y, (4,)), y**2):
            assert full.dtype is ferro.float32
        assert str((y + 1).dtype) == f"ferro.{low}"
        with ferro.autocast("cuda", enabled=False):
            assert nn.functional.linear(x, w).dtype is ferro.float32
    y.float().sum().backward()
    assert w.grad is not None
    assert (w.grad.dtype, w.grad.tolist()) == (ferro.float32, [[2.0] * 3] * 4)
    assert nn.functional.linear(x, w).dtype is ferro.float32


def test_each_device_has_its_own() -> None:
    host, device = ferro.ones(2, 2), ferro.ones(2, 2, device="cuda")
    seen = lambda: [str((t @ t).dtype).removeprefix("ferro.") for t in (host, device)]  # noqa: E731
    with ferro.autocast("cuda"):
        assert seen() == ["float32", "float16"]
        with ferro.autocast("cpu"):
            assert seen() == ["bfloat16", "float16"]
            assert host.exp().dtype is ferro.float32
            with ferro.autocast("cuda", ferro.bfloat16):
                assert seen() == ["bfloat16", "bfloat16"]
            assert (host @ host).exp().dtype is ferro.bfloat16  # (on the CPU exponentials run as they are given)
        assert seen() == ["float32", "float16"]
    assert seen() == ["float32", "float32"]


def trained(device: str, dtype: Any) -> tuple[list[float], float]:
    """The losses of a small network with a scaler, and its factor at the end."""
    ferro.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    x, target = ferro.randn(20, 6).to(device), ferro.randn(20, 1).to(device)
    optimizer = ferro.optim.SGD(model.parameters(), lr=0.1)
    scaler = ferro.GradScaler(device, init_scale=2.0**10, growth_interval=2)
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        with ferro.autocast(device, dtype):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        if step == 3:
            next(model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler.get_scale()


@pytest.mark.parametrize("dtype", [ferro.float16, ferro.bfloat16], ids=["float16", "bfloat16"])
def test_a_network_trains_as_on_the_cpu(dtype: Any) -> None:
    host, device = trained("cpu", dtype), trained("cuda", dtype)
    np.testing.assert_allclose(device[0], host[0], rtol=2e-2)
    assert device[1] == host[1] == 2.0**10
    assert device[0][4] == device[0][3]  # (the step with an infinity is left out)
