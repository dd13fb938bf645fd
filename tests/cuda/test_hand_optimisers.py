"""Steps of SGD and Adam over lists of parameters by one kernel, run thread by thread beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.cuda.by_hand import optimisers
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.functions import functions
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
SHAPES = [
    (1,),
    (2,),
    (3, 5),
    (0,),
    (255,),
    (256,),
    (257,),
    (17, 31),
    (1000,),
    (4095,),
    (4096,),
    (4097,),
    (9000,),
    (2, 3, 4),
    (),
    (1, 1),
    (64, 64),
    (65, 64),
    (12289,),
    (5,),
    (7, 7, 7),
    (33,),
]
LR, BETA1, BETA2, EPS, DECAY = 0.05, 0.9, 0.99, 1e-3, 0.1


def made(rng: Any, dtype: str, count: int) -> list[list[np.ndarray]]:
    """`count` arrays of each shape, the third and later ones not negative."""
    return [
        [np.asarray(hand.floats(rng, shape, dtype, -1 if k < 2 else 0.1, 1)) for k in range(count)] for shape in SHAPES
    ]


def adam(arrays: list, step: int, decoupled: bool, largest: bool) -> list:
    """A step of Adam in float64."""
    p, g, m, v, top = (hand.wide(a) for a in arrays)
    if decoupled:
        p = p * (1 - LR * DECAY)
    else:
        g = g + DECAY * p
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    top = np.maximum(top, v)
    used = top if largest else v
    p = p - LR * (m / (1 - BETA1**step)) / (np.sqrt(used / (1 - BETA2**step)) + EPS)
    return [p, m, v, top] if largest else [p, m, v]


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize(("decoupled", "largest"), [(False, False), (True, False), (False, True)])
def test_adam(decoupled: bool, largest: bool, dtype: str) -> None:
    lists = made(np.random.default_rng(1), dtype, 5)
    found: list = []

    def run() -> tuple:
        found[:] = [[hand.there(a.copy()) for a in arrays] for arrays in lists]
        given = [(*arrays[:4], arrays[4] if largest else None) for arrays in found]
        functions.adam_steps(given, 3, LR, BETA1, BETA2, EPS, DECAY, decoupled)
        return tuple([a for arrays in found for a in arrays])

    hand.in_all_orders(run, "adam_steps")
    for arrays, got in zip(lists, found, strict=True):
        want = adam(arrays, 3, decoupled, largest)
        for k, right in zip((0, 2, 3, 4), want, strict=False):
            hand.close(got[k], right, dtype, f"{arrays[0].shape}, {k}", 1.0)
        assert got[1].get().tobytes() == arrays[1].tobytes()


@pytest.mark.parametrize("dtype", hand.DTYPES)
@pytest.mark.parametrize(
    ("momentum", "first", "nesterov"), [(0, False, False), (0.9, True, False), (0.9, False, False), (0.9, False, True)]
)
def test_sgd(momentum: float, first: bool, nesterov: bool, dtype: str) -> None:
    lists = made(np.random.default_rng(2), dtype, 3)
    found: list = []

    def run() -> tuple:
        found[:] = [[hand.there(a.copy()) for a in arrays] for arrays in lists]
        given = [(p, g, b if momentum else None) for p, g, b in found]
        functions.sgd_steps(given, LR, momentum, 0.0 if nesterov else 0.2, DECAY, nesterov, first)
        return tuple([a for arrays in found for a in arrays])

    hand.in_all_orders(run, "sgd_steps")
    for arrays, got in zip(lists, found, strict=True):
        p, g, b = (hand.wide(a) for a in arrays)
        d = g + DECAY * p
        if momentum:
            b = d if first else momentum * b + d * (1 if nesterov else 0.8)
            d = d + momentum * b if nesterov else b
            hand.close(got[2], b, dtype, str(arrays[0].shape), 1.0)
        hand.close(got[0], p - LR * d, dtype, str(arrays[0].shape), 1.0)


OPTIMISERS = {
    "SGD": lambda params: ferro.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda params: ferro.optim.Adam(params, lr=0.01, amsgrad=True),
    "AdamW": lambda params: ferro.optim.AdamW(params, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_one_launch_for_all_parameters_of_a_group(name: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        ferro.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double().to(device)
        optimiser = OPTIMISERS[name]([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.02}])
        x = ferro.ones(4, 5, dtype=ferro.float64, device=device)
        for _ in range(3):
            optimiser.zero_grad()
            model(x).square().sum().backward()
            LAUNCHES.clear()
            before = [p._version for p in model.parameters()]
            optimiser.step()
            assert [p._version for p in model.parameters()] == [n + 1 for n in before]
        found.append([p.detach().cpu().numpy() for p in model.parameters()])
    assert {"sgd_steps" if name == "SGD" else "adam_steps": 2} == LAUNCHES
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_step_that_fails_leaves_none_waiting() -> None:
    """What was to be changed before the failure has been, as on the CPU; the next step begins anew."""
    p, q = (ferro.ones(3, device="cuda").requires_grad_() for _ in range(2))
    p.grad, q.grad = ferro.ones(3, device="cuda"), ferro.ones(3, device="cuda")
    optimiser = ferro.optim.SGD([p, q], lr=0.5)
    optimiser.param_groups[0]["params"].append(None)
    with pytest.raises(AttributeError):
        optimiser.step()
    assert p.tolist() == q.tolist() == [0.5, 0.5, 0.5]
    optimiser.param_groups[0]["params"].pop()
    optimiser.step()
    assert p.tolist() == [0, 0, 0]


def test_a_change_in_place_is_noticed() -> None:
    p = ferro.ones(3, device="cuda").requires_grad_()
    y = (p * p).sum()
    p.grad = ferro.ones(3, device="cuda")
    ferro.optim.SGD([p], lr=0.5).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


FAULTS = [
    ("begin = table[2 * blockIdx.x + 1];", "begin = 0;"),
    ("? begin + 4096 :", "? begin + 4000 :"),
    ("sqrt(v)", "v"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = optimisers.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(3)
    arrays = [[hand.floats(rng, (n,), "float32", 0.1, 1) for _ in range(5)] for n in (5000, 40)]
    want = [adam(each, 1, False, False)[0] for each in arrays]
    agrees = []
    for each in (text, wrong):
        there = [[stand_in.there(a.copy()) for a in some] for some in arrays]
        rows = [[*[a.data.ptr for a in some[:4]], 0, some[0].size] for some in there]
        table = np.array([0, 0, 0, 4096, 1, 0, *rows[0], *rows[1]], np.int64)
        numbers = optimisers.adam_numbers(1, LR, BETA1, BETA2, EPS, DECAY, False)
        given = [np.int64(6), *map(np.float64, numbers), stand_in.there(table)]
        emulated.Kernel(each, "adam_steps")((3,), (256,), tuple(given))
        agrees.append(all(np.allclose(some[0].near, w, rtol=1e-5) for some, w in zip(there, want, strict=True)))
    assert agrees == [True, False]
