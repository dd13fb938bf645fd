"""Steps of optimisers in CUDA graphs: with `capturable` every replay counts on, without it the recording is refused."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ferro

pytestmark = pytest.mark.usefixtures("cuda")
STEPS, BEFORE = 9, 2
OPTIONS: dict[str, dict[str, Any]] = {
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "ASGD": {"t0": 3},
    "Adadelta": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Rprop": {},
}


@pytest.fixture
def quiet() -> Iterator[None]:
    """A test in which steps outside of a recording are not warned of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This instance was constructed with capturable=True")
        yield


class Problem:
    """Steps of one optimiser on a parameter whose gradients follow from it."""

    def __init__(self, library: Any, name: str, device: str, lr: Any = 0.05, **options: Any) -> None:
        start = library.tensor(np.linspace(-1, 1, 7).tolist(), dtype=library.float64)
        self.p = start.to(device).requires_grad_()
        self.p.grad = library.zeros_like(self.p)
        self.optimizer = getattr(library.optim, name)([self.p], lr=lr, **OPTIONS[name], **options)

    def step(self) -> None:
        self.p.grad.copy_(self.p.detach() * self.p.detach().abs() + 0.3)
        self.optimizer.step()

    def recorded(self) -> ferro.cuda.CUDAGraph:
        """A graph of one step, recorded after some that warm it up."""
        with ferro.cuda.stream(ferro.cuda.Stream()):
            for _ in range(BEFORE):
                self.step()
        ferro.cuda.synchronize()
        found = ferro.cuda.CUDAGraph()
        kept = {k: v.clone() for k, v in self.optimizer.state[self.p].items()}
        start = self.p.detach().clone()
        with ferro.cuda.graph(found):
            self.step()
        with ferro.no_grad():  # (a GPU only records; the stand-in computes, too)
            self.p.copy_(start)
            for k, v in kept.items():
                self.optimizer.state[self.p][k].copy_(v)
        return found

    @property
    def values(self) -> np.ndarray:
        return self.p.detach().cpu().numpy()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.usefixtures("quiet")
def test_replays_are_the_steps_of_pytorch(name: str, torch: Any) -> None:
    want = Problem(torch, name, "cpu", foreach=False)
    for _ in range(STEPS):
        want.step()
    got = Problem(ferro, name, "cuda", capturable=True)
    assert not got.optimizer.state
    recorded = got.recorded()
    for _ in range(STEPS - BEFORE):
        recorded.replay()
    # (counts on the device are float32, as in PyTorch: so are the powers of betas)
    np.testing.assert_allclose(got.values, want.values, rtol=1e-4, atol=1e-4)
    state = got.optimizer.state[got.p]
    assert (state["step"].device.type, state["step"].item()) == ("cuda", STEPS)
    eager = Problem(ferro, name, "cuda", capturable=True)
    for _ in range(STEPS):
        eager.step()
    np.testing.assert_array_equal(eager.values, got.values)


@pytest.mark.parametrize("name", OPTIONS)
def test_without_capturable_a_recording_is_refused(name: str) -> None:
    problem = Problem(ferro, name, "cuda")
    for _ in range(2):
        problem.step()
    before = problem.values
    message = f"Attempting CUDA graph capture of step.. for an instance of {name} but param_groups' capturable is False"
    with pytest.raises(RuntimeError, match=message), ferro.cuda.graph(ferro.cuda.CUDAGraph()):
        problem.optimizer.step()
    np.testing.assert_array_equal(problem.values, before)
    assert problem.optimizer.state[problem.p]["step"].item() == 2


def test_a_capturable_step_outside_of_a_recording_warns_once() -> None:
    problem = Problem(ferro, "Adam", "cuda", capturable=True)
    with pytest.warns(UserWarning, match="step.. is running without CUDA graph capture"):
        problem.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem.step()


@pytest.mark.usefixtures("quiet")
def test_a_rate_on_the_device_may_change_between_replays() -> None:
    lr = ferro.tensor(0.05, device="cuda")
    problem = Problem(ferro, "AdamW", "cuda", lr=lr, capturable=True, weight_decay=0.0)
    recorded = problem.recorded()
    moves = []
    for rate in (0.05, 0.0, 0.05):
        lr.fill_(rate)
        before = problem.values
        recorded.replay()
        moves.append(np.abs(problem.values - before).max())
    assert moves[0] > 0.01
    assert moves[1] == 0
    assert moves[2] > 0.01


@pytest.mark.usefixtures("quiet")
def test_saved_counts_go_to_where_a_capturable_group_needs_them() -> None:
    plain, capturable = Problem(ferro, "NAdam", "cpu"), Problem(ferro, "NAdam", "cuda", capturable=True)
    for _ in range(3):
        plain.step()
    file = io.BytesIO()
    ferro.save(plain.optimizer.state_dict(), file)
    file.seek(0)
    saved = ferro.load(file)
    for group in saved["param_groups"]:
        group["capturable"] = True
    capturable.optimizer.load_state_dict(saved)
    with ferro.no_grad():
        capturable.p.copy_(plain.p)
    state = capturable.optimizer.state[capturable.p]
    assert {t.device.type for t in state.values()} == {"cuda"}
    for problem in (plain, capturable):
        problem.step()
    np.testing.assert_allclose(capturable.values, plain.values, rtol=1e-5)
    assert state["step"].item() == 4
