"""Tensors on the device "cuda": placed, brought back, trained, and never mixed or moved in silence; and what is said without a GPU."""

from __future__ import annotations

import copy
import math
import pickle
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
    assert cuda.get_sync_debug_mode() == 0
    cuda.ipc_collect()
    cuda.reset_accumulated_memory_stats()
    assert not cuda.can_device_access_peer(0, "cuda")
    for reset in (cuda.reset_max_memory_allocated, cuda.reset_max_memory_cached):
        with pytest.warns(FutureWarning, match="resets /all/ peak memory stats"):
            reset()
    assert cuda.max_memory_allocated() == cuda.memory_allocated()
    cuda.set_per_process_memory_fraction(0.5)
    assert cuda.get_per_process_memory_fraction() == 0.5
    cuda.set_per_process_memory_fraction(1.0)


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


@pytest.mark.usefixtures("cuda")
def test_the_load_of_the_gpu_comes_from_nvidias_library_or_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    library = types.SimpleNamespace(
        NVML_TEMPERATURE_GPU=0,
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus: asked.append(bus) or "gpu",
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=37, memory=12),
        nvmlDeviceGetTemperature=lambda handle, sensor: 55,
        nvmlDeviceGetPowerUsage=lambda handle: 71000,
        nvmlDeviceGetClockInfo=lambda handle, clock: 1980,
    )
    names = ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in names:
        with pytest.raises(ModuleNotFoundError, match="pip install nvidia-ml-py"):
            getattr(ferro.cuda, name)()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert [getattr(ferro.cuda, name)() for name in names] == [37, 12, 55, 71000, 1980]
    assert len(set(asked)) == 1
    with pytest.raises(RuntimeError, match="one GPU"):
        ferro.cuda.utilization(1)


@pytest.mark.usefixtures("cuda")
def test_a_snapshot_of_memory_has_what_tensors_hold() -> None:
    x = ferro.ones(300, device="cuda", requires_grad=True)
    y = x * 2
    found = {segment["address"]: segment for segment in ferro.cuda.memory_snapshot()}
    for t, where in ((x, "leaves"), (y, "test_devices.py")):
        segment = found[t.data_ptr()]
        assert segment["total_size"] == segment["blocks"][0]["size"] == 1200
        assert where in segment["made_at"]


def test_deep_copies_and_pickles_stay_on_the_device(cuda: str) -> None:
    """Tensors that share memory share it in a deep copy, too; a pickle is read onto the device that it came from."""
    x = ferro.arange(6.0, device=cuda).requires_grad_()
    row = x.detach()[2:5]
    assert x.grad is None
    both = copy.deepcopy([x, row, row.reshape(3, 1)])
    assert all(t.device == x.device for t in both)
    assert both[0].requires_grad
    both[1].fill_(9.0)
    assert both[0].tolist() == [0.0, 1.0, 9.0, 9.0, 9.0, 5.0]
    assert both[2].tolist() == [[9.0], [9.0], [9.0]]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    model = nn.Linear(2, 2).to(cuda)
    twin = copy.deepcopy(model)
    assert twin.weight.device == x.device
    assert twin.weight.tolist() == model.weight.tolist()
    for t in (x, row, nn.Parameter(ferro.ones(2, 3, device=cuda).t())):
        read = pickle.loads(pickle.dumps(t))
        assert type(read) is type(t)
        assert (read.device, read.requires_grad, read.tolist()) == (t.device, t.requires_grad, t.tolist())


def test_indices_on_the_cpu_go_along_and_packed_sequences_stay(cuda: str) -> None:
    """As in PyTorch: integers and masks of the CPU name places on the device, to read and to write."""
    x = ferro.arange(6.0, device=cuda).reshape(2, 3)
    mask, index = ferro.tensor([[True, False, True], [False, True, False]]), ferro.tensor([1, 0])
    assert x[mask].tolist() == [0.0, 2.0, 4.0]
    assert x[index].tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    for write, want in (
        (lambda y: y.__setitem__(mask, 9.0), [[9.0, 1.0, 9.0], [3.0, 9.0, 5.0]]),
        (lambda y: y.__setitem__(mask, ferro.ones(3, device=cuda)), [[1.0, 1.0, 1.0], [3.0, 1.0, 5.0]]),
        (lambda y: y.__setitem__((index, index), 7.0), [[7.0, 1.0, 2.0], [3.0, 7.0, 5.0]]),
        (lambda y: y.index_put_((index,), ferro.ones(2, 3, device=cuda), True), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ):
        y = x.clone()
        write(y)
        assert (y.tolist(), y.device) == (want, x.device)
    packed = nn.utils.rnn.pack_padded_sequence(x, [1, 3], batch_first=True, enforce_sorted=False)
    assert packed.data.device == x.device
    back, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    assert (back.tolist(), lengths.tolist()) == ([[0.0, 0.0, 0.0], [3.0, 4.0, 5.0]], [1, 3])
