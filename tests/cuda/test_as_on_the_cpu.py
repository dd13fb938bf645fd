"""What differed on the device from the CPU when the CPU's tests were run there (on_device.py), and does not any longer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.optim import adam

pytestmark = pytest.mark.usefixtures("cuda")


def there(*numbers: float, **kwargs: Any) -> Any:
    return ferro.tensor(numbers, dtype=ferro.float64, device="cuda", **kwargs)


def test_an_index_out_of_bounds_is_refused_where_something_is_assigned() -> None:
    x = ferro.zeros(3, 2, device="cuda")
    for index in ([3], [-4, 0]):
        with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 3"):
            x[ferro.tensor(index, device="cuda")] = 1.0
    assert not x.any()


def test_operands_that_overlap_what_is_written_are_refused() -> None:
    x = there(1, 2, 3)
    m = ferro.arange(4.0, device="cuda").view(2, 2)
    for change in (lambda: x[1:].add_(x[:-1]), lambda: m.add_(m.t())):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            change()
    x[1:].add_(x[:-1].clone())
    assert (x.tolist(), m.tolist()) == ([1, 3, 5], [[0, 1], [2, 3]])


def test_absent_cotangents_of_a_function_are_zeros_on_the_device() -> None:
    seen = []

    class Doubled(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(g)
            return g * 2

    class Nothing(Doubled):
        @staticmethod
        def backward(ctx: Any, g: Any) -> None:
            return None

    x = there(1, 2, requires_grad=True)
    Nothing.apply(Doubled.apply(x)).sum().backward()
    assert [(g.device.type, g.tolist()) for g in seen] == [("cuda", [0, 0])]
    assert ferro.autograd.gradcheck(Doubled.apply, (x,))


def test_a_part_without_elements_is_a_view() -> None:
    x, y = there(1, 2, 3).requires_grad_(), there(4, 5).requires_grad_()
    b = x * 1
    version = b._version
    b[0:0] = y[:0]
    assert b._version == version + 1
    gx, gy = ferro.autograd.grad((b * b).sum(), (x, y), allow_unused=True)
    assert (gx.tolist(), gy.tolist()) == ([2, 4, 6], [0, 0])
    assert there(1, 2, 3).resize_(0).shape == (0,)


def test_counts_on_the_device_are_numbers_unless_steps_are_to_be_recorded() -> None:
    """In double precision, although they are float32: the state of another program, or lists that a program has made there."""
    found = []
    for device in ("cpu", "cuda"):
        rng = np.random.default_rng(3)
        p, g, m, v = ([ferro.tensor(rng.random(3), device=device)] for _ in range(4))
        count = [ferro.tensor(4.0, device=device)]
        options: dict[str, Any] = {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.1, "eps": 1e-8}
        for _ in range(3):
            with ferro.no_grad():
                adam.adam(p, g, m, v, [], count, lr=0.1, maximize=False, **options)
        found.append((p[0].cpu().numpy(), count[0].item()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-13)
    assert found[0][1] == found[1][1] == 7


def test_minimize_looks_for_parameters_on_their_device() -> None:
    goal = there(1, -2)
    found = ferro.optim.minimize(lambda p: ((p - goal) ** 2).sum(), [there(0, 0)], "BFGS")
    (x,) = found.x
    assert x.device.type == "cuda"
    np.testing.assert_allclose(x.cpu().numpy(), [1, -2], atol=1e-6)


def test_all_slices_of_a_batch_are_brought_to_the_cpu_shown_and_guarded() -> None:
    shown = []

    def look(x: Any) -> Any:
        shown.append(repr(x))
        return x.cpu() * 2

    found = ferro.func.vmap(look)(there(1, 2))
    assert (found.device.type, found.tolist()) == ("cpu", [2, 4])
    assert "BatchedTensor(lvl=1, bdim=0" in shown[0]
    assert "device='cuda:0'" in shown[0]
    with (
        ferro.debug.nan_guard(),
        pytest.raises(ferro.debug.NonFiniteError, match="'log' made nan from inputs without nan"),
    ):
        ferro.func.vmap(ferro.log)(there(1, -2))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_dropout_of_what_all_slices_share(randomness: str) -> None:
    shared, batch = ferro.ones(50, device="cuda"), ferro.zeros(3, 1, device="cuda")
    dropped = ferro.func.vmap(lambda b: ferro.nn.functional.dropout(shared, 0.5) + b, randomness=randomness)(batch)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert bool((dropped[0] == dropped[1]).all()) is (randomness == "same")


def test_cotangents_lie_where_the_roots_do() -> None:
    edge = ferro.autograd.graph.get_gradient_edge
    x, w = there(1, 2, requires_grad=True), ferro.tensor([3.0, 4.0], dtype=ferro.float64, requires_grad=True)
    for root, leaf, want in (
        ((x * x).sum(), x, [2, 4]),
        ((w.to("cuda") * 2).sum(), w, [2, 2]),
        ((x * 3).cpu().sum(), x, [3, 3]),
    ):
        (found,) = ferro.autograd.grad(edge(root), leaf)
        assert (found.device, found.tolist()) == (leaf.device, want)
    y, g = x * 2, ferro.ones(2, dtype=ferro.float64)
    said = r"backward: Expected all tensors .* two devices, cuda and cpu! `y` .* lies on cuda:0.*`g` "
    with pytest.raises(RuntimeError, match=said):
        y.backward(g)


@pytest.mark.filterwarnings("ignore:ctc_.* is not there on device")
def test_second_derivatives_of_ctc_are_those_of_the_cpu() -> None:
    found = []
    for device in ("cpu", "cuda"):
        rng = np.random.default_rng(4)
        x = ferro.tensor(rng.standard_normal((6, 2, 4)), device=device, requires_grad=True)
        labels = ferro.tensor([[1, 2], [3, 1]], device=device)
        loss = ferro.nn.functional.ctc_loss(x.log_softmax(-1), labels, [6, 4], [2, 1])
        (first,) = ferro.autograd.grad(loss, x, create_graph=True)
        (second,) = ferro.autograd.grad((first * first).sum(), x)
        found.append(second.cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_a_weighted_cross_entropy_in_parts_is_that_of_the_cpu() -> None:
    found = []
    for device in ("cpu", "cuda"):
        rng = np.random.default_rng(5)
        x, w = (ferro.tensor(rng.standard_normal(shape), device=device) for shape in ((6, 5), (4, 5)))
        target, weight = ferro.tensor([0, 1, -100, 3, 2, 1], device=device), ferro.tensor(rng.random(4), device=device)
        options = ferro.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
        found.append(ferro.nn.functional.linear_cross_entropy(x, w, target, weight=weight, options=options).item())
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_errors_tell_numbers_of_the_device() -> None:
    x = there(1, 2, 3)
    far = ferro.tensor([7], device="cuda")
    for call, error, said in (
        (lambda: x[far], IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
        (lambda: x.take(far), IndexError, "tried to access index 7 on a tensor of 3 elements"),
        (lambda: ferro.nn.functional.nll_loss(there(1, 2).view(1, 2), far), IndexError, "Target 7 is out of bounds"),
        (
            lambda: ferro.nn.functional.max_unpool1d(there(1).view(1, 1, 1), far.view(1, 1, 1), 2),
            RuntimeError,
            "max index: 7",
        ),
    ):
        with pytest.raises(error, match=said):
            call()


def test_windows_of_padding_alone_have_places_at_the_edge() -> None:
    found = []
    for device in ("cpu", "cuda"):
        x = ferro.arange(6.0, device=device).view(1, 1, 2, 3)
        values, places = ferro.nn.functional.max_pool2d(x, (1, 2), (2, 3), (0, 1), (1, 4), return_indices=True)
        found.append((values.tolist(), places.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [ferro.complex64, ferro.complex128])
def test_nan_to_num_looks_at_each_part_of_complex_numbers(dtype: Any) -> None:
    given = [complex(1, np.nan), complex(np.nan, -np.inf), complex(np.inf, 3), 4 - 5j]
    x = ferro.tensor(given, dtype=dtype, device="cuda")
    assert ferro.nan_to_num(x, 7.0, 8.0, 9.0).tolist() == [1 + 7j, 7 + 9j, 8 + 3j, 4 - 5j]
    assert x[-1].item() == 4 - 5j
