"""The default device: what heeds `with ferro.device("cuda")` and `set_default_device`, and that formulas of the CPU do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.core.samples import ENTRIES
from tests.cuda.test_samples import PATHS
from tests.helpers import Call, arrays_of, cotangents, rng_of

pytestmark = pytest.mark.usefixtures("cuda")

# Each of a module: ferro, or PyTorch, whose device "meta" shows what heeds the default device there.
MADE: dict[str, Callable[[Any], Any]] = {
    "arange": lambda m: m.arange(3),
    "as_tensor of a list": lambda m: m.as_tensor([1, 2]),
    "as_tensor of an array": lambda m: m.as_tensor(np.ones(2)),
    "asarray": lambda m: m.asarray([1.0]),
    "bartlett_window": lambda m: m.bartlett_window(4),
    "blackman_window": lambda m: m.blackman_window(4),
    "empty": lambda m: m.empty(2),
    "empty, channels last": lambda m: m.empty((1, 2, 3, 4), memory_format=m.channels_last),
    "empty_permuted": lambda m: m.empty_permuted((2, 3), (1, 0)),
    "empty_strided": lambda m: m.empty_strided((2, 3), (1, 2)),
    "eye": lambda m: m.eye(2),
    "fft.fftfreq": lambda m: m.fft.fftfreq(4),
    "fft.rfftfreq": lambda m: m.fft.rfftfreq(4),
    "full": lambda m: m.full((2,), 7),
    "hamming_window": lambda m: m.hamming_window(4),
    "hann_window": lambda m: m.hann_window(4),
    "kaiser_window": lambda m: m.kaiser_window(4),
    "linspace": lambda m: m.linspace(0, 1, 3),
    "logspace": lambda m: m.logspace(0, 1, 3),
    "ones": lambda m: m.ones(2),
    "rand": lambda m: m.rand(2),
    "randint": lambda m: m.randint(3, (2,)),
    "randn": lambda m: m.randn(2),
    "randperm": lambda m: m.randperm(3),
    "scalar_tensor": lambda m: m.scalar_tensor(2),
    "tensor": lambda m: m.tensor([1, 2]),
    "tril_indices": lambda m: m.tril_indices(3, 3),
    "triu_indices": lambda m: m.triu_indices(3, 3),
    "zeros": lambda m: m.zeros(2),
    "Linear": lambda m: m.nn.Linear(2, 3).weight,
    "BatchNorm1d": lambda m: m.nn.BatchNorm1d(3).running_mean,
    "Embedding": lambda m: m.nn.Embedding(3, 2).weight,
    "LSTM": lambda m: m.nn.LSTM(2, 3).weight_hh_l0,
    "frombuffer": lambda m: m.frombuffer(bytearray(8), dtype=m.uint8),
    "from_numpy": lambda m: m.from_numpy(np.ones(2)),
    "Tensor": lambda m: m.Tensor(2),
    "by name": lambda m: m.zeros(2, device="cpu"),
}
LIKE: dict[str, Callable[[Any, Any], Any]] = {
    "zeros_like": lambda m, x: m.zeros_like(x),
    "full_like": lambda m, x: m.full_like(x, 2),
    "empty_like": lambda m, x: m.empty_like(x),
    "rand_like": lambda m, x: m.rand_like(x),
    "new_zeros": lambda m, x: x.new_zeros(2),
    "new_ones": lambda m, x: x.new_ones(2),
    "new_full": lambda m, x: x.new_full((2,), 3.0),
    "new_empty": lambda m, x: x.new_empty(2),
    "new_tensor": lambda m, x: x.new_tensor([1.0]),
    "as_tensor": lambda m, x: m.as_tensor(x),
    "normal": lambda m, x: m.normal(x, x.abs()),
    "one_hot": lambda m, x: m.nn.functional.one_hot(x.long(), 4),
}


@pytest.fixture(params=["block", "set_default_device"])
def chosen(request: Any) -> Iterator[None]:
    """A test in which "cuda" is the default device."""
    if request.param == "block":
        with ferro.device("cuda"):
            yield
        return
    ferro.set_default_device("cuda")
    yield
    ferro.set_default_device(None)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.usefixtures("chosen")
def test_what_makes_a_tensor_heeds_it_as_in_pytorch(name: str, torch: Any) -> None:
    with torch.device("meta"):
        want = MADE[name](torch).device.type == "meta"
    assert MADE[name](ferro).device.type == ("cuda" if want else "cpu")


@pytest.mark.parametrize("name", LIKE)
@pytest.mark.usefixtures("chosen")
def test_what_is_like_a_tensor_lies_where_that_lies(name: str, torch: Any) -> None:
    x = torch.ones(2)
    with torch.device("meta"):
        stays = LIKE[name](torch, x).device.type == "cpu"
    assert LIKE[name](ferro, ferro.ones(2, device="cpu")).device.type == ("cpu" if stays else "cuda")
    assert LIKE[name](ferro, ferro.ones(2, device="cuda")).device.type == "cuda"


@pytest.mark.usefixtures("chosen")
def test_the_default_device_has_a_number_and_its_generator_draws() -> None:
    assert ferro.get_default_device() == ferro.device("cuda", 0)
    near, there = ferro.get_rng_state(), ferro.cuda.get_rng_state()
    ferro.rand(2)
    assert ferro.equal(ferro.get_rng_state(), near)
    assert not ferro.equal(ferro.cuda.get_rng_state(), there)
    with ferro.device("cpu"):
        assert ferro.get_default_device() == ferro.device("cpu")
        assert ferro.zeros(1).device.type == "cpu"
    assert ferro.zeros(1).device.type == "cuda"


def test_after_the_block_tensors_lie_on_the_cpu() -> None:
    with pytest.raises(ZeroDivisionError), ferro.device("cuda"):
        raise ZeroDivisionError
    assert ferro.zeros(1).device.type == "cpu"
    ferro.set_default_device("cuda")
    ferro.set_default_device(None)
    assert (ferro.zeros(1).device.type, ferro.get_default_device()) == ("cpu", ferro.device("cpu"))


def test_a_tensor_of_the_device_is_copied_where_it_lies() -> None:
    x = ferro.ones(2, device="cuda", requires_grad=True)
    with pytest.warns(UserWarning, match="recommended to use sourceTensor"):
        y = ferro.tensor(x, dtype=ferro.float64)
    assert (y.device.type, y.dtype, y.tolist(), y.requires_grad) == ("cuda", ferro.float64, [1.0, 1.0], False)
    y[0] = 5
    assert x.tolist() == [1.0, 1.0]
    assert x.detach().new(2, 3).device.type == "cuda"
    with pytest.raises(ValueError, match="a copy is needed, but copy=False"):
        ferro.asarray(ferro.ones(2), device="cuda", copy=False)
    assert ferro.asarray(ferro.ones(2), device="cuda").tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("chosen")
def test_a_network_is_made_and_trained_there_without_a_word_on_devices() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = ferro.optim.Adam(model.parameters(), lr=0.05)
    x = ferro.randn(32, 3)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert {p.device.type for p in (*model.parameters(), *model.buffers())} == {"cuda"}
    data = ferro.utils.data.DataLoader(list(range(6)), batch_size=2, shuffle=True)
    assert sorted([i for batch in data for i in batch.tolist()]) == list(range(6))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.usefixtures("chosen")
def test_operations_on_tensors_of_the_cpu_make_nothing_elsewhere(path: str) -> None:
    sample = ENTRIES[path].samples[0]
    with ferro.device("cpu"):
        call = Call(ENTRIES[path], sample, ferro, arrays_of(sample, rng_of(path), "float64"), True)
    results = call.run()
    with ferro.device("cpu"):
        vectors = [None if v is None else ferro.tensor(v) for v in cotangents(results, rng_of(path))]
    used = [i for i, v in enumerate(vectors) if v is not None]
    found = [r for r in results if isinstance(r, ferro.Tensor)]
    if used and call.inputs:
        outs, seeds = [results[i] for i in used], [vectors[i] for i in used]
        try:
            grads = ferro.autograd.grad(outs, call.inputs, seeds, allow_unused=True, create_graph=True)
        except NotImplementedError:  # (an operation without a derivative)
            grads = ()
        found += [g for g in grads if g is not None]
    assert {t.device.type for t in found} <= {"cpu"}
