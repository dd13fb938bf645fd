"""Strict mode: each likely mistake is an error with its remedy, and nothing else is; without it PyTorch's behaviour."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ferro
from ferro.nn import functional as F


@pytest.fixture
def strict() -> Iterator[None]:
    with ferro.set_strict(True):
        yield


def column(*shape: int) -> Any:
    return ferro.full(shape, 0.25)


BROADCAST: dict[str, Callable[[Any, Any], Any]] = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "poisson_nll_loss": F.poisson_nll_loss,
    "gaussian_nll_loss": lambda x, y: F.gaussian_nll_loss(x, y, ferro.ones(x.shape)),
    "kl_div": lambda x, y: F.kl_div(x - 2, y, reduction="sum"),
    "soft_margin_loss": F.soft_margin_loss,
    "hinge_embedding_loss": F.hinge_embedding_loss,
}
WARN = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")  # (in PyTorch, too; the others are silent)
LAYERS = {"mse_loss": "MSELoss", "l1_loss": "L1Loss", "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss"}


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize(
    ("sizes", "remedy"),
    [(((3, 1), (3,)), "target.unsqueeze(-1)"), (((3,), (3, 1)), "target.squeeze(-1)"), (((3, 2), (1, 2)), "give both")],
    ids=["column", "row", "one row"],
)
def test_losses_that_broadcast_are_refused_with_shapes_and_remedy(
    strict: None, name: str, sizes: Any, remedy: str
) -> None:
    with pytest.raises(RuntimeError) as error:
        BROADCAST[name](column(*sizes[0]), column(*sizes[1]))
    said = str(error.value)
    assert said.startswith(
        f"{name}: Using a target size ({list(sizes[1])}) that is different to the input size ({list(sizes[0])})"
    )
    assert remedy in said
    assert "set_strict" in said
    BROADCAST[name](column(3, 1), column(3, 1))


@pytest.mark.parametrize("name", [n for n in BROADCAST if n != "soft_margin_loss"])
def test_without_strict_mode_losses_warn_where_pytorch_warns(torch: Any, name: str) -> None:
    said = []
    for module, functions in ((ferro, BROADCAST), (torch, None)):
        x, y = module.full((3, 1), 0.25), module.full((3,), 0.25)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if functions is not None:
                functions[name](x, y)
            elif name == "gaussian_nll_loss":
                module.nn.functional.gaussian_nll_loss(x, y, module.ones(3, 1))
            elif name == "kl_div":
                module.nn.functional.kl_div(x - 2, y, reduction="sum")
            else:
                getattr(module.nn.functional, name)(x, y)
        said.append([w.category for w in caught])
        if name in WARN:
            assert "This will likely lead to incorrect results due to broadcasting" in str(caught[0].message)
    assert said[0] == said[1] == ([UserWarning] if name in WARN else [])


@pytest.mark.parametrize("name", LAYERS)
def test_the_warning_of_a_layer_names_both_shapes_and_the_remedy(name: str) -> None:
    with pytest.warns(UserWarning, match=r"\(\[3\]\).*\(\[3, 1\]\).*target.unsqueeze\(-1\)"):
        getattr(ferro.nn, LAYERS[name])()(column(3, 1), column(3))


def test_soft_margins_are_refused_in_pytorch_s_words(torch: Any) -> None:
    for module in (torch, ferro):
        with pytest.raises(
            RuntimeError, match=r"output with shape \[3, 1\] doesn't match the broadcast shape \[3, 3\]"
        ):
            module.nn.functional.soft_margin_loss(module.ones(3, 1), module.ones(3))


def test_margins_of_other_shapes_are_refused(strict: None) -> None:
    with pytest.raises(RuntimeError, match="margin_ranking_loss: Using a target size"):
        F.margin_ranking_loss(column(3, 1), column(1, 3), column(3, 1))


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "softmax before": (
        lambda: F.cross_entropy(ferro.randn(4, 3).softmax(1), ferro.tensor([0, 1, 2, 0])),
        "without softmax before",
    ),
    "softmax of images": (
        lambda: F.cross_entropy(ferro.randn(2, 3, 4).softmax(1), ferro.zeros(2, 4, dtype=ferro.int64)),
        "without softmax",
    ),
    "softmax of one": (lambda: F.cross_entropy(ferro.randn(3).softmax(0), ferro.tensor(1)), "without softmax before"),
    "softmax, soft target": (
        lambda: F.cross_entropy(ferro.randn(4, 3).softmax(1), column(4, 3)),
        "without softmax before",
    ),
    "softmax in half": (
        lambda: F.cross_entropy(ferro.randn(4, 30).softmax(1).bfloat16(), ferro.tensor([0, 1, 2, 0])),
        "without softmax",
    ),
    "logits": (
        lambda: F.nll_loss(ferro.tensor([[2.0, -1.0]]), ferro.tensor([0])),
        "numbers up to 2, but log-probabilities are at most 0",
    ),
    "probabilities": (lambda: F.nll_loss(ferro.tensor([[0.2, 0.8]]), ferro.tensor([0])), "log_softmax"),
    "divergence": (lambda: F.kl_div(column(2, 4), column(2, 4), reduction="sum"), "log_softmax"),
    "signs": (
        lambda: F.binary_cross_entropy_with_logits(column(2), ferro.tensor([-1.0, 1.0])),
        r"got numbers from -1 to 1.*\(y \+ 1\) / 2",
    ),
    "labels": (lambda: F.binary_cross_entropy(column(2), ferro.tensor([0.0, 2.0])), "targets are between 0 and 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_losses_of_the_wrong_kind_of_numbers_are_refused_in_strict_mode_alone(seed: Any, name: str) -> None:
    run, words = MISTAKES[name]
    run()
    with ferro.set_strict(True), pytest.raises(RuntimeError, match=words):
        run()


RIGHT: dict[str, Callable[[], Any]] = {
    "logits": lambda: F.cross_entropy(ferro.randn(4, 3), ferro.tensor([0, 1, 2, 0])),
    "zeros": lambda: F.cross_entropy(ferro.zeros(4, 3), ferro.tensor([0, 1, 2, 0])),
    "positive logits": lambda: F.cross_entropy(ferro.rand(4, 3) + 1, ferro.tensor([0, 1, 2, 0])),
    "one class": lambda: F.cross_entropy(ferro.ones(4, 1), ferro.zeros(4, dtype=ferro.int64)),
    "nothing": lambda: F.cross_entropy(ferro.ones(0, 3), ferro.zeros(0, dtype=ferro.int64), reduction="sum"),
    "log-probabilities": lambda: F.nll_loss(ferro.randn(4, 3).log_softmax(1), ferro.tensor([0, 1, 2, 0])),
    "certain": lambda: F.nll_loss(ferro.tensor([[0.0, -90.0]]), ferro.tensor([0])),
    "divergence": lambda: F.kl_div(ferro.randn(2, 4).log_softmax(1), column(2, 4), reduction="batchmean"),
    "two classes": lambda: F.binary_cross_entropy_with_logits(ferro.randn(4), ferro.tensor([0.0, 1.0, 0.5, 1.0])),
    "integer labels": lambda: F.binary_cross_entropy_with_logits(ferro.randn(2), ferro.tensor([0, 1])),
    "variances of rows": lambda: F.gaussian_nll_loss(column(3, 2), column(3, 2), column(3)),
    "under vmap": lambda: ferro.vmap(F.mse_loss)(column(3, 2), column(3, 2)),
    "differentiated": lambda: ferro.func.grad(F.mse_loss)(column(3), column(3)),
    "logits under vmap": lambda: ferro.vmap(F.cross_entropy)(column(3, 2), ferro.tensor([0, 1, 0])),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(seed: Any, strict: None, name: str) -> None:
    RIGHT[name]()


def model() -> tuple[Any, Any]:
    layer = ferro.nn.Linear(2, 1)
    return layer, ferro.optim.SGD(layer.parameters(), lr=0.1)


def test_a_step_without_gradients_is_refused(strict: None) -> None:
    layer, optimizer = model()
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError, match=r"SGD.step\(\): no parameter has a gradient. Call loss.backward\(\)"):
        optimizer.step()
    layer(ferro.ones(1, 2)).sum().backward()
    optimizer.step()
    assert layer.weight.tolist() != before
    optimizer.zero_grad()
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        optimizer.step()


@pytest.mark.parametrize("again", [True, False], ids=["backward again", "no backward"])
def test_gradients_that_were_used_are_refused_before_anything_changes(strict: None, again: bool) -> None:
    layer, optimizer = model()
    layer(ferro.ones(1, 2)).sum().backward()
    optimizer.step()
    if again:
        layer(ferro.ones(1, 2)).sum().backward()
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError, match=r"2 of 2 gradients were used by the step before.*zero_grad\(\)"):
        optimizer.step()
    assert layer.weight.tolist() == before
    with ferro.set_strict(False):
        optimizer.step()


@pytest.mark.parametrize("of", ["optimizer", "model"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_steps_with_zero_grad_pass(strict: None, of: str, set_to_none: bool) -> None:
    layer, optimizer = model()
    for _ in range(3):
        (optimizer if of == "optimizer" else layer).zero_grad(set_to_none=set_to_none)
        for _ in range(2):  # gradients of two batches are added up on purpose
            layer(ferro.ones(1, 2)).sum().backward()
        before = layer.weight.detach().clone()
        optimizer.step()
        assert ferro.allclose(before - layer.weight, ferro.full((1, 2), 0.2))  # two gradients of 1, times 0.1


def test_two_optimizers_may_use_one_gradient_and_closures_are_left_alone(strict: None) -> None:
    layer, optimizer = model()
    other = ferro.optim.Adam(layer.parameters())
    layer(ferro.ones(1, 2)).sum().backward()
    optimizer.step()
    other.step()

    def closure() -> Any:
        layer.zero_grad()
        loss = layer(ferro.ones(1, 2)).pow(2).sum()
        loss.backward()
        return loss

    lbfgs = ferro.optim.LBFGS(layer.parameters())
    lbfgs.step(closure)
    lbfgs.step(closure)


def test_the_mode_is_switched_for_good_or_for_a_block_in_its_own_context() -> None:
    assert not ferro.is_strict()
    with ferro.set_strict(True):
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(ferro.is_strict()))
        thread.start()
        thread.join(30)
        with ferro.set_strict(False):
            seen.append(ferro.is_strict())
        assert [*seen, ferro.is_strict()] == [False, False, True]
    ferro.set_strict(True)
    assert ferro.is_strict()
    ferro.set_strict(False)
    with pytest.raises(TypeError, match="must be bool, not int"):
        ferro.set_strict(1)  # type: ignore[arg-type]
    assert not ferro.is_strict()
