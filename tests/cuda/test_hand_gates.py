"""Gates of recurrent layers by kernels, run thread by thread beside their formulas in float64, and layers beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import gates
from ferro.cuda.by_hand.launching import LAUNCHES
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
SHAPES = [(1, 1), (1, 2), (2, 1), (3, 5), (7, 7), (1, 33), (33, 1), (4, 64), (5, 63), (31, 9), (16, 16), (2, 255)]
SHAPES += [(1, 256), (1, 257), (9, 32), (100, 3), (3, 100), (65, 5), (12, 12), (40, 20), (2, 300)]
GATES = {"lstm": 4, "gru": 3}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(g: np.ndarray, c: np.ndarray) -> tuple:
    """The gates, the new cell and h."""
    i, f, u, o = np.split(g, 4, 1)
    i, f, u, o = sigmoid(i), sigmoid(f), np.tanh(u), sigmoid(o)
    cell = f * c + i * u
    return np.concatenate([i, f, u, o], 1), cell, o * np.tanh(cell)


def gru(z: np.ndarray, g: np.ndarray, h: np.ndarray) -> tuple:
    """The gates, the state's part of n, and the new h."""
    n = h.shape[1]
    r, keep = sigmoid(g[:, :n] + z[:, :n]), sigmoid(g[:, n : 2 * n] + z[:, n : 2 * n])
    now = np.tanh(g[:, 2 * n :] + r * z[:, 2 * n :])
    return np.concatenate([r, keep, now], 1), z[:, 2 * n :], (1 - keep) * now + keep * h


def run(name: str, *arrays: np.ndarray) -> tuple:
    """The kernel's results: what it has left in its arguments, with the same bits in every order of threads."""

    def once() -> tuple:
        far = [hand.there(a.copy()) for a in arrays]
        gates.function(name, far[0], len(arrays[0]))(*far)
        return tuple(far)

    return hand.in_all_orders(once, name)


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_gates_are_those_of_float64(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for rows, n in SHAPES:
        a, c, z = (
            hand.floats(rng, (rows, 4 * n), dtype),
            hand.floats(rng, (rows, n), dtype),
            hand.floats(rng, (rows, 3 * n), dtype),
        )
        empty = np.zeros((rows, n), a.dtype)
        want = lstm(hand.wide(a), hand.wide(c))
        found = run("lstm_gates", a, c, empty, empty)
        for got, right in zip((found[0], found[2], found[3]), want, strict=True):
            hand.close(got, right, dtype, f"lstm {rows} {n}", 2.0)
        b = a[:, : 3 * n].copy()
        want = gru(hand.wide(z), hand.wide(b), hand.wide(c))
        found = run("gru_gates", z, b, c, empty, empty)
        for got, right in zip((found[1], found[3], found[4]), want, strict=True):
            hand.close(got, right, dtype, f"gru {rows} {n}", 2.0)


def slopes(torch: Any, arrays: dict, kind: str) -> dict:
    """PyTorch's gradients in float64 of the sum of dh h, and for an LSTM dc c, by all arrays."""
    t = {name: torch.tensor(hand.wide(a), requires_grad=True) for name, a in arrays.items()}
    if kind == "lstm":
        i, f, u, o = t["gates"].chunk(4, 1)
        cell = f.sigmoid() * t["state"] + i.sigmoid() * u.tanh()
        ((o.sigmoid() * cell.tanh() * t["dh"]).sum() + (cell * t["dc"]).sum()).backward()
    else:
        (r, z, n), (a, b, c) = t["gates"].chunk(3, 1), t["inner"].chunk(3, 1)
        keep, now = (z + b).sigmoid(), (n + (r + a).sigmoid() * c).tanh()
        (((1 - keep) * now + keep * t["state"]) * t["dh"]).sum().backward()
    return {name: each.grad.numpy() for name, each in t.items() if each.grad is not None}


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_the_backward_of_gates_is_pytorchs(dtype: str, torch: Any) -> None:
    rng = np.random.default_rng(2)
    for rows, n in SHAPES:
        a, z = hand.floats(rng, (rows, 4 * n), dtype), hand.floats(rng, (rows, 3 * n), dtype)
        c, dh, dc = (hand.floats(rng, (rows, n), dtype) for _ in range(3))
        after, cell, _ = lstm(hand.wide(a), hand.wide(c))
        want = slopes(torch, {"gates": a, "state": c, "dh": dh, "dc": dc}, "lstm")
        found = run("lstm_gates_vjp", dh, dc, after.astype(a.dtype), c, cell.astype(a.dtype), np.zeros_like(a))
        # (what was kept of 16-bit floats is rounded)
        hand.close(found[5], want["gates"], dtype, f"lstm {rows} {n}", 4.0)
        hand.close(found[1], want["state"], dtype, f"lstm c {rows} {n}", 4.0)
        b = a[:, : 3 * n].copy()
        after, inner, _ = gru(hand.wide(z), hand.wide(b), hand.wide(c))
        want = slopes(torch, {"gates": b, "inner": z, "state": c, "dh": dh}, "gru")
        empty = np.zeros_like(b)
        found = run("gru_gates_vjp", dh, after.astype(a.dtype), c, inner.astype(a.dtype), empty, empty)
        for got, name in ((found[4], "gates"), (found[5], "inner"), (found[0], "state")):
            hand.close(got, want[name], dtype, f"gru {name} {rows} {n}", 4.0)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "LSTMCell", "GRUCell"])
def test_layers_are_pytorchs_and_take_a_launch_for_each_step(kind: str, torch: Any) -> None:
    rng = np.random.default_rng(3)
    steps, n, width, size = 5, 3, 4, 6
    x = rng.standard_normal((steps, n, width) if "Cell" not in kind else (n, width))
    found, state = [], None
    for library, device in ((torch, "cpu"), (ferro, "cuda")):
        layer = getattr(library.nn, kind)(width, size).double()
        state = {k: v.numpy().copy() for k, v in layer.state_dict().items()} if state is None else state
        layer.load_state_dict({k: library.tensor(v) for k, v in state.items()})
        layer = layer.to(device)
        a = library.tensor(x, device=device, requires_grad=True)
        LAUNCHES.clear()
        out = layer(a)
        first = out[0] if isinstance(out, tuple) else out
        (first * first).sum().backward()
        found.append([t.detach().cpu().numpy() for t in (first, a.grad, *[p.grad for p in layer.parameters()])])
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    name = "lstm_gates" if "LSTM" in kind else "gru_gates"
    taken = 1 if "Cell" in kind else steps
    assert (LAUNCHES[name], LAUNCHES[f"{name}_vjp"]) == (taken, taken)


FAULTS = [
    ("at + 3 * n]))", "at + 2 * n]))"),
    ("id / n * (4) * n", "id / n * 3 * n"),
    ("f * load(c[id])", "f * load(c[at])"),
    ("id >= total", "id > total"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = gates.texts("float32")
    text = text.replace("(gates) * n", "(4) * n")
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(4)
    a, c = hand.floats(rng, (5, 28), "float32"), hand.floats(rng, (5, 7), "float32")
    want = lstm(hand.wide(a), hand.wide(c))
    agrees = []
    for each in (text, wrong):
        g = stand_in.there(np.concatenate([a.reshape(-1), np.full(28, 3, np.float32)]))
        state = stand_in.there(np.concatenate([c.reshape(-1), np.full(200, 3, np.float32)]))
        cell, h = (stand_in.there(np.zeros(42, np.float32)) for _ in range(2))
        emulated.Kernel(each, "lstm_gates")((1,), (64,), (np.int64(35), np.int64(7), g, state, cell, h))
        fine = all(
            np.allclose(v.near[: w.size].reshape(w.shape), w, rtol=1e-5, atol=1e-5)
            for v, w in zip((g, cell, h), want, strict=True)
        )
        agrees.append(bool(fine and not cell.near[35:].any() and (g.near[140:] == 3).all()))
    assert agrees == [True, False]
