"""Steps of optimisers by kernels printed from formulas, run thread by thread beside PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import stepping
from ferro.cuda.by_hand.launching import LAUNCHES
from tests.cuda import emulated, hand, stand_in
from tests.cuda.test_hand_optimisers import SHAPES

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    pytest.mark.filterwarnings("ignore:This instance was constructed with capturable=True"),
]
# By the kernel: optimisers and their options.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "adam": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True, "capturable": True}),
    "adam, plain": ("Adam", {"lr": 0.05, "capturable": True}),
    "adam, decoupled": ("AdamW", {"lr": 0.05, "weight_decay": 0.1, "capturable": True}),
    "nadam": ("NAdam", {"lr": 0.05, "weight_decay": 0.1}),
    "nadam, decoupled": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "nadam, counted there": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "capturable": True}),
    "nadam, decoupled, counted there": (
        "NAdam",
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "capturable": True},
    ),
    "radam": ("RAdam", {"lr": 0.05, "weight_decay": 0.1}),
    "radam, counted there": ("RAdam", {"lr": 0.05, "betas": (0.5, 0.6), "capturable": True}),
    "adamax": ("Adamax", {"lr": 0.05, "weight_decay": 0.1}),
    "adamax, counted there": ("Adamax", {"lr": 0.05, "capturable": True}),
    "adagrad": ("Adagrad", {"lr": 0.05, "weight_decay": 0.1, "lr_decay": 0.1}),
    "adadelta": ("Adadelta", {"lr": 1.0, "weight_decay": 0.1, "eps": 1e-2}),
    "adadelta, counted there": ("Adadelta", {"lr": 1.0, "eps": 1e-2, "capturable": True}),
    "rmsprop": ("RMSprop", {"lr": 0.05, "weight_decay": 0.1}),
    "rmsprop, centered": ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5, "eps": 1e-2}),
    "rmsprop, counted there": ("RMSprop", {"lr": 0.05, "momentum": 0.5, "capturable": True}),
    "rprop": ("Rprop", {"lr": 0.05}),
    "rprop, counted there": ("Rprop", {"lr": 0.05, "capturable": True}),
    "asgd": ("ASGD", {"lr": 0.05, "weight_decay": 0.1, "t0": 1}),
    "asgd, counted there": ("ASGD", {"lr": 0.05, "lambd": 0.1, "weight_decay": 0.1, "t0": 1, "capturable": True}),
}
# The kernels that count, where it is not the usual one.
COUNTING = {"nadam": "count_momenta", "asgd": "count_rates"}


def stepped(lib: Any, name: str, arrays: list, gradients: list, device: str, dtype: Any, **options: Any) -> list[list]:
    """Parameters and states, by the names of these, after a step with each of the gradients."""
    params = [lib.tensor(a).to(device, dtype).requires_grad_() for a in arrays]
    optimiser = getattr(lib.optim, name)(params, **options)
    for grads in gradients:
        for p, g in zip(params, grads, strict=True):
            p.grad = lib.tensor(g).to(device, dtype)
        LAUNCHES.clear()
        optimiser.step()
    return [[p.detach(), *[value for _, value in sorted(optimiser.state[p].items())]] for p in params]


@pytest.mark.parametrize("dtype", hand.SOME)
@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_pytorch(case: str, dtype: str, torch: Any) -> None:
    name, options = CASES[case]
    rng, kernel = np.random.default_rng(1), case.partition(",")[0]
    count = 1 if dtype in ("float16", "bfloat16") else 3
    kind = hand.DTYPES[dtype]
    arrays = [rng.uniform(-1, 1, shape).astype(kind).astype(float) for shape in SHAPES]
    sizes = [[rng.uniform(0.3, 1, shape) * rng.choice([-1, 1], shape) for shape in SHAPES] for _ in range(count)]
    gradients = [[np.asarray(g).astype(kind).astype(float) for g in some] for some in sizes]
    plain = {key: value for key, value in options.items() if key != "capturable"}
    want = stepped(torch, name, arrays, gradients, "cpu", torch.float64, **plain, foreach=False)
    found = []
    for seed in hand.SEEDS:
        with emulated.in_order(seed):
            found.append(stepped(ferro, name, arrays, gradients, "cuda", getattr(ferro, dtype), **options))
        launches = {f"{kernel}_formula": 1} | (
            {COUNTING.get(kernel, "count_steps"): 1} if "capturable" in options else {}
        )
        assert launches == LAUNCHES
    for each in zip(*found, strict=True):
        assert len({b"".join([t.cpu()._data.tobytes() for t in one]) for one in each}) == 1
    for got, right in zip(found[0], want, strict=True):
        for a, b in zip(got, right, strict=True):
            hand.close(a.cpu()._data, np.asarray(b, float), dtype, f"{case} {tuple(b.shape)}", 4.0)


def test_groups_and_rates_on_the_device() -> None:
    """A launch for each group, one for all counts; a rate on the device is read there."""
    p, q = (ferro.ones(5, dtype=ferro.float64, device="cuda").requires_grad_() for _ in range(2))
    lr = ferro.tensor(0.5, device="cuda")
    optimiser = ferro.optim.AdamW([{"params": [p]}, {"params": [q], "lr": lr}], lr=0.25, capturable=True)
    for each in (p, q):
        each.grad = ferro.full((5,), 2.0, dtype=ferro.float64, device="cuda")
    LAUNCHES.clear()
    versions = [t._version for t in (p, optimiser.state[p].get("step", lr))]
    optimiser.step()
    assert LAUNCHES == {"count_steps": 1, "adam_formula": 2}
    np.testing.assert_allclose(p.detach().cpu().numpy(), np.full(5, 1 - 0.25 * 0.01 - 0.25), rtol=1e-6)
    np.testing.assert_allclose(q.detach().cpu().numpy(), np.full(5, 1 - 0.5 * 0.01 - 0.5), rtol=1e-6)
    lr.fill_(0.0)
    before = q.tolist()
    optimiser.step()
    assert q.tolist() == before
    assert p._version == versions[0] + 2
    assert optimiser.state[q]["step"].item() == 2


@pytest.mark.parametrize("name", ["NAdam", "ASGD"])
def test_numbers_that_count_on_do_so_once_for_each_parameter_of_several_groups(name: str) -> None:
    """Groups whose steps differ but whose counts do not: rates are made behind the steps of both."""
    found = []
    for capturable in (False, True):
        params = [ferro.full((3,), float(k + 1), dtype=ferro.float64, device="cuda").requires_grad_() for k in range(4)]
        groups = [{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.2}]
        options: dict[str, Any] = {"lambd": 0.5, "t0": 1} if name == "ASGD" else {}
        optimiser = getattr(ferro.optim, name)(groups, lr=0.1, capturable=capturable, **options)
        for _ in range(4):
            for p in params:
                p.grad = p.detach() * 2 + 1
            LAUNCHES.clear()
            optimiser.step()
        counts = {COUNTING[name.lower()]: 1} if capturable else {}
        assert {f"{name.lower()}_formula": 2} | counts == LAUNCHES
        found.append([v.cpu().numpy() for p in params for v in (p.detach(), *optimiser.state[p].values())])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6)


def test_what_lies_otherwise_takes_its_own_launches() -> None:
    """A parameter that is no block of memory is changed by operations, with the same numbers."""
    found = []
    for turned in (False, True):
        p = ferro.arange(6.0, dtype=ferro.float64, device="cuda").reshape(2, 3)
        p = (p.t() if turned else p.t().contiguous()).detach().requires_grad_()
        p.grad = p.detach() * 2 + 1
        optimiser = ferro.optim.RMSprop([p], lr=0.1)
        LAUNCHES.clear()
        optimiser.step()
        assert ("rmsprop_formula" in LAUNCHES) != turned
        found.append(p.tolist())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


FAULTS = {
    "a wrong index": ("begin = table[2 * blockIdx.x + 1]", "begin = 0"),
    "another array": ("x1 = load(a1[i])", "x1 = load(a2[i])"),
    "an end too early": ("? begin + 4096 :", "? begin + 4000 :"),
    "a count that is not read": ("const double p0 = *(const float*)row[4];", "const double p0 = 1;"),
    "a state that is not kept": ("store(a3 + i,", "store(a2 + i,"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    text = stepping.step_text(*stepping.EXAMPLES[0], "float64")
    wrong = hand.planted(text, FAULTS[fault], FAULTS.values())
    rng = np.random.default_rng(3)
    arrays = [[rng.uniform(0.1, 1, n) for _ in range(4)] for n in (5000, 40)]
    lr, beta1, beta2, eps, step = 0.1, 0.9, 0.99, 1e-3, 3
    agrees = []
    for each in (text, wrong):
        there = [[stand_in.there(a.copy()) for a in some] for some in arrays]
        count = stand_in.there(np.full((), step, np.float32))
        rows = [[*[a.data.ptr for a in some], count.data.ptr, some[0].size] for some in there]
        table = stand_in.there(np.array([0, 0, 0, 4096, 1, 0, *rows[0], *rows[1]], np.int64))
        given = [np.int64(6), *map(np.float64, (lr, beta1, beta2, eps, 0)), table]
        emulated.Kernel(each, "adam_formula")((3,), (256,), tuple(given))
        fine = True
        for (p, g, m, v), got in zip(arrays, there, strict=True):
            m, v = m + (g - m) * (1 - beta1), v * beta2 + g * g * (1 - beta2)
            p = p - lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps)
            fine &= all(np.allclose(a.near, b, rtol=1e-12) for a, b in zip(got, (p, g, m, v), strict=True))
        agrees.append(fine)
    assert agrees == [True, False]


def test_counts_beyond_the_list_are_left() -> None:
    text = stepping.counting_text("count_steps", "float")
    wrong = hand.planted(text, ("i >= n", "i > n"), [("i >= n", "i > n")])
    agrees = []
    for each in (text, wrong):
        counts = stand_in.there(np.arange(300, dtype=np.float32))
        places = stand_in.there(counts.data.ptr + 4 * np.arange(300))
        emulated.Kernel(each, "count_steps")((2,), (256,), (np.int64(299), places))
        agrees.append(bool((counts.near == np.arange(300) + (np.arange(300) < 299)).all()))
    assert agrees == [True, False]
