"""Tensors on the device "cuda": placed, brought back, trained, and never mixed or moved in silence; and what is said without a GPU."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.cuda import driver
from ferro.cuda.missing import TRIPS
from tests.cuda.conftest import REAL


@pytest.mark.usefixtures("cuda")
def test_tensors_are_placed_and_brought_back() -> None:
    x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.cuda()
    assert (y.device, y.device.index, y.is_cuda, x.is_cuda) == (ferro.device("cuda", 0), 0, True, False)
    assert y.cuda() is y
    assert y.to("cuda:0") is y
    assert repr(y.detach()) == "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0')"
    (y * y).sum().cpu().backward()
    assert x.grad is not None
    assert (x.grad.device.type, x.grad.tolist()) == ("cpu", [[2.0, 4.0], [6.0, 8.0]])
    assert [ferro.zeros(2, device="cuda").device.type, ferro.ones_like(y).device.type] == ["cuda", "cuda"]
    assert y[0, 1].item() == 2.0
    assert y.detach().cpu().numpy().tolist() == y.tolist()
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu"):
        y.detach().numpy()
    for dtype in (ferro.bfloat16, ferro.float16, ferro.int64, ferro.bool, ferro.complex64):
        assert ferro.ones(3).to(dtype).cuda().cpu().equal(ferro.ones(3).to(dtype))


@pytest.mark.usefixtures("cuda")
def test_mixed_devices_raise_and_name_both() -> None:
    x, y = ferro.ones(2), ferro.ones(2, device="cuda")
    for meet in (lambda: x + y, lambda: y * x, lambda: ferro.cat([x, y]), lambda: ferro.matmul(x, y)):
        with pytest.raises(RuntimeError, match="found at least two devices, cuda and cpu"):
            meet()


@pytest.mark.usefixtures("cuda")
def test_another_gpu_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        RuntimeError, match="device 'cuda:1' is not available: ferro uses one GPU, cuda:0; CUDA_VISIBLE_DEVICES"
    ):
        ferro.ones(2, device="cuda:1")


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), ferro.tensor(2.0)], ids=["int", "float", "numpy", "0-d"])
def test_a_number_goes_along(number: Any) -> None:
    x = ferro.ones(2, device="cuda", requires_grad=True)
    y = x * number + number
    y.sum().backward()
    assert x.grad is not None
    assert (y.tolist(), x.grad.tolist()) == ([4.0, 4.0], [2.0, 2.0])


def trained(device: str, make: Any, steps: int = 5) -> list[float]:
    """The losses of a small network, trained."""
    ferro.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).double()
    x, target = ferro.randn(20, 6, dtype=ferro.float64), ferro.randint(0, 3, (20,))
    model, x, target = model.to(device), x.to(device), target.to(device)
    optimizer = make(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_network_is_trained_as_on_the_cpu(name: str) -> None:
    make = lambda parameters: getattr(ferro.optim, name)(parameters, lr=0.01)  # noqa: E731
    host, device = trained("cpu", make), trained("cuda", make)
    np.testing.assert_allclose(device, host, rtol=1e-10)


@pytest.mark.usefixtures("cuda")
def test_a_convolutional_network_has_the_gradients_of_the_cpu() -> None:
    found = []
    for device in ("cpu", "cuda"):
        ferro.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2)
        )
        model = model.double().to(device)
        loss = model(ferro.randn(5, 3, 8, 8, dtype=ferro.float64).to(device)).square().mean()
        loss.backward()
        found.append([p.grad.cpu().numpy() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)


LARGE = {
    "softplus": lambda x, y: nn.functional.softplus(x),
    "gelu": lambda x, y: nn.functional.gelu(x * y),
    "elu": lambda x, y: nn.functional.elu(x) * y,
    "chain": lambda x, y: (x * y).tanh() + x.sigmoid() * y - (x - y).exp(),
    "where": lambda x, y: ferro.where(x > y, x * 2, y),
    "used often": lambda x, y: x * x + x * y + x + x.square(),
    "powers": lambda x, y: (x.square() + 1) ** 1.5 / (y.abs() + 1).sqrt(),
    "softmax": lambda x, y: x.reshape(200, -1).softmax(-1) * y.reshape(200, -1),
    "norm": lambda x, y: nn.functional.layer_norm(x.reshape(200, -1), (500,)) * y.reshape(200, -1),
    "huber": lambda x, y: nn.functional.huber_loss(x, y, reduction="none"),
}


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_stay_on_the_device(name: str) -> None:
    """Of arrays from some size on the CPU takes other ways, which a GPU must not."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(100_000) for _ in range(2)]
    found = []
    for device in ("cpu", "cuda"):
        x, y = (ferro.tensor(a).to(device).requires_grad_() for a in arrays)
        out = LARGE[name](x, y)
        one = ferro.autograd.grad(out.sum(), (x, y), retain_graph=True, allow_unused=True)
        out.sum().backward()  # (the engine has a loop of its own where no inputs are named)
        assert out.device.type == device
        found.append([t for t in (out.detach(), *one, x.grad, y.grad) if t is not None])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("cuda")
def test_writes_in_place_are_recorded_and_gradients_share_no_memory() -> None:
    found = []
    for device in ("cpu", "cuda"):
        x = ferro.arange(4.0).to(device).requires_grad_()
        y = x * 1
        y[1:3] *= 3
        y[0] = 5
        y.index_add_(0, ferro.tensor([3]).to(device), y[:1].detach().clone())
        (y * y).sum().backward()
        assert x.grad is not None
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1]
    a, b = (ferro.ones(2, device="cuda", requires_grad=True) for _ in range(2))
    (a + b).reshape(2, 1).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    a.grad.add_(1)
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [1.0, 1.0])


@pytest.mark.usefixtures("cuda")
def test_a_trip_to_the_processor_warns_once_and_is_counted() -> None:
    TRIPS.clear()
    x = ferro.tensor([0.5, 1.5], dtype=ferro.float64)
    with pytest.warns(
        UserWarning, match="airy_ai is not there on device 'cuda': the CPU computes it, and its arrays travel"
    ):
        y = ferro.special.airy_ai(x.to("cuda"))
    assert (y.device.type, y.tolist()) == ("cuda", ferro.special.airy_ai(x).tolist())
    ferro.special.airy_ai(x.to("cuda"))  # (a second warning would be an error)
    assert TRIPS["airy_ai"] == 2


@pytest.mark.usefixtures("cuda")
def test_questions_about_the_gpu_are_answered() -> None:
    cuda = ferro.cuda
    assert cuda.is_available()
    assert cuda.is_initialized()
    assert cuda.device_count() >= 1
    assert cuda.current_device() == 0
    cuda.synchronize()
    found = cuda.get_device_properties()
    assert (found.name, (found.major, found.minor)) == (cuda.get_device_name(0), cuda.get_device_capability("cuda"))
    assert found.total_memory > 0
    free, total = cuda.mem_get_info()
    assert 0 <= free <= total
    kept = ferro.ones(1000, device="cuda")
    assert cuda.memory_allocated() <= cuda.memory_reserved()
    assert kept.device.type == "cuda"
    assert found.name in cuda.memory_summary()
    cuda.empty_cache()
    with pytest.raises(NotImplementedError, match=r"cuda\.memory_snapshot\(\) is not there yet"):
        cuda.memory_snapshot()


def _module(version: str, count: Any) -> Any:
    """A `cupy` of which the driver answers so."""
    made = types.ModuleType("cupy")
    made.__version__ = version  # type: ignore[attr-defined]
    made.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=count))  # type: ignore[attr-defined]
    return made


def _raises(status: int, text: str) -> Any:
    def count() -> int:
        error = RuntimeError(text)
        error.status = status  # type: ignore[attr-defined]
        raise error

    return count


@pytest.mark.skipif(REAL, reason="there is a GPU")
@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, "the package CuPy is missing"),
        (_module("14.2.0", _raises(35, "cudaErrorInsufficientDriver")), "CuPy 14.2.0 finds no driver that it can use"),
        (_module("14.2.0", _raises(100, "cudaErrorNoDevice")), "CuPy 14.2.0 finds no device"),
        (_module("14.2.0", lambda: 0), "CuPy 14.2.0 finds no device"),
    ],
    ids=["package", "driver", "device", "none"],
)
def test_one_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, module: Any, said: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", module)
    driver.missing.cache_clear()
    try:
        for ask in (
            lambda: ferro.ones(1).to("cuda"),
            lambda: ferro.ones(1).cuda(),
            lambda: ferro.ones(1, device="cuda"),
        ):
            with pytest.raises(RuntimeError, match=f"device 'cuda' is not available: {said}"):
                ask()
        assert (ferro.cuda.is_available(), ferro.cuda.device_count()) == (False, 0)
        with pytest.raises(AssertionError, match=said):
            ferro.cuda.synchronize()
    finally:
        monkeypatch.undo()
        driver.missing.cache_clear()
    assert math.isfinite(ferro.ones(1).item())
