"""Kernels of rows: softmax and its relatives at every length of row, whose gradients are views, what threads share."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ferro
from ferro import cpu
from ferro.cpu.kernels import recurrent
from ferro.cpu.kernels.common import SMALL
from ferro.native import threads
from ferro.native.readiness import get
from tests.configuration import with_kernels, with_tiles

LENGTHS = (*range(1, 36), 47, 63, 64, 65, 103, 127, 128, 129, 511, 512, 513, 1000, 2048, 2049, 5000)


def matrix_of(n, dtype=np.float32, seed=0):
    """A matrix large enough for kernels, whose number of rows is no multiple of those that go side by side."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-20, 20, (max(7, SMALL // n + 3) | 1, n)).astype(dtype)


def close(found, wanted, dtype):
    eps = np.finfo(dtype).eps
    return np.allclose(found, wanted, rtol=32 * eps, atol=32 * eps, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_softmax_of_rows_of_any_length(n, dtype):
    x = matrix_of(n, dtype)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    total = e.sum(1, keepdims=True)
    shifted = wide - wide.max(1, keepdims=True) - np.log(total)
    assert close(cpu.softmax(x, 1), e / total, dtype)
    assert close(cpu.log_softmax(x, 1), shifted, dtype)
    target = np.arange(len(x)) % n
    losses, norms = cpu.row_losses(x, target, None, -100, 0.0)
    assert close(losses, -shifted[np.arange(len(x)), target], dtype)
    assert close(norms, (np.log(total) + wide.max(1, keepdims=True))[:, 0], dtype)
    assert close(cpu.logsumexp(x, (1,), False), norms, dtype)


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("n", [5, 16, 64, 103, 600])
def test_exceptional_numbers_stay_in_their_row(n):
    x = matrix_of(n)
    x[0] = -np.inf
    x[1, n - 1] = np.inf
    x[2, n // 2] = np.nan
    x[3, 0] = -np.nan
    x[4, 1:] = -np.inf
    x[5] = -200
    x[5, 0] = 0
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        wanted = e / e.sum(1, keepdims=True)
        logs = np.log(np.exp(wide[6:] - wide[6:].max(1, keepdims=True)).sum(1)) + wide[6:].max(1)
    assert close(cpu.softmax(x, 1), wanted, np.float32)
    found = cpu.logsumexp(x, (1,), False)
    assert tuple(found[:2]) == (-np.inf, np.inf)
    assert np.isnan(found[2:4]).all()
    assert found[4] == x[4, 0]
    assert close(found[6:], logs, np.float32)


def test_small_probabilities_round_once():
    """Results below 2^-126 are denormal numbers, as near as those can be, in whole registers and in what is left."""
    x = np.zeros((SMALL // 20 + 1, 21), np.float32)
    x[:, 1:] = -np.linspace(86, 104, 20)
    p = cpu.softmax(x, 1).astype(np.float64)
    assert np.abs(p[:, 1:] - np.exp(x[:, 1:].astype(np.float64))).max() < 2.0**-149 * 1.5


@pytest.mark.parametrize(("rows", "n"), [(3000, 3), (64, 100), (9, 511), (9, 512), (9, 1024), (3, 2048), (2, 5000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_norm_of_rows_of_any_length(rows, n, dtype):
    x = np.random.default_rng(0).uniform(-2, 2, (rows, n)).astype(dtype)
    w, b = x[0] + 1, x[1]
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b
    assert np.allclose(cpu.layer_norm(x, w, b, 1, 1e-5)[0], wanted, rtol=0, atol=200 * np.finfo(dtype).eps)


def _over_rows(L, x, w, g):
    """Results of normalisations and exponentials of rows, and their gradients for x."""
    n, F = x.shape[1], L.nn.functional
    found = []
    for function in (
        lambda v: F.layer_norm(v, (n,), w, w),
        lambda v: F.layer_norm(v, (n,)),
        lambda v: F.rms_norm(v, (n,), w),
        lambda v: F.group_norm(v.reshape(2, 4, n // 4), 2),
        lambda v: F.batch_norm(v.reshape(2, 4, n // 4), None, None, training=True),
        lambda v: n * (6 * v).softmax(1),
        lambda v: (6 * v).log_softmax(1),
        lambda v: (6 * v).logsumexp(1),
    ):
        v = x.detach().clone().requires_grad_()
        out = function(v)
        of_out = g.reshape(out.shape) if out.ndim > 1 else g[:, 0]
        (out * of_out).sum().backward()
        found += [out.detach().numpy(), v.grad.numpy()]
    return found


def test_float32_sums_over_a_million_numbers_lose_nothing():
    """Normalisations, softmax and their gradients, beside float64: rows were once added in float32 from end to end."""
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    rng = np.random.default_rng(0)
    x, w, g = rng.random((2, 1 << 20)), rng.random(1 << 20), rng.random((2, 1 << 20))
    narrow = [a.astype(np.float32) for a in (x, w, g)]
    wanted = _over_rows(torch, *[torch.from_numpy(a.astype(np.float64)) for a in narrow])
    found = _over_rows(ferro, *[ferro.from_numpy(a) for a in narrow])
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        # (e^y of a rounded y, in the gradient of log_softmax, costs |y| / 2 units in the last place)
        assert np.abs(a - b).max() <= (3e-6 if k % 2 else 1e-6) * np.abs(b).max(), k


@with_kernels
def test_large_gradients_are_no_views():
    """The engine copies a gradient that is a view of another array before a leaf may keep it."""
    x = np.random.default_rng(0).uniform(-1, 1, (4, 8, 16, 16)).astype(np.float32)
    g, needs = x + 1, (True, True, True)
    w = np.ones(8, np.float32)
    out, mean, rstd = cpu.layer_norm(x, None, None, 2, 1e-5)
    found = [out, cpu.layer_norm_vjp(g, x, None, mean, rstd, 2, 1e-5, needs)[0]]
    out, mean, var = cpu.batch_norm(x, w, w, None, None, True, 1e-5)
    found += [out, cpu.batch_norm_vjp(g, x, w, mean, var, True, 1e-5, needs)[0]]
    flat = x.reshape(-1, 16)
    out, mean, var = cpu.batch_norm(flat, None, None, None, None, True, 1e-5)
    found += [out, cpu.batch_norm_vjp(flat + 1, flat, None, mean, var, True, 1e-5, needs)[0]]
    out, mean, rstd = cpu.group_norm(x, w, w, 2, 1e-5)
    found += [out, cpu.group_norm_vjp(g, x, w, mean, rstd, 2, 1e-5, needs)[0]]
    assert all(a.base is None and a.shape in (x.shape, flat.shape) for a in found)


@pytest.fixture
def _threads_as_before():
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


@with_tiles
@pytest.mark.usefixtures("_threads_as_before")
@pytest.mark.parametrize("counts", [(40,) * 6, (77, 76, 50, 33, 16, 1), (1, 20, 33, 70)])
def test_sequences_of_an_lstm_shared_by_threads(monkeypatch, counts):
    """Each thread takes some sequences through all steps; not all sequences are in each step."""
    monkeypatch.setattr(recurrent, "LSTM_CHUNK", 1)
    asked, run = [], recurrent.run_rows

    def noted(name, chunks, *rest):
        asked.append(chunks)
        return run(name, chunks, *rest)

    monkeypatch.setattr(recurrent, "run_rows", noted)
    hidden, total, most = 48, sum(counts), max(counts)
    stops = np.cumsum(counts)
    slices = [slice(int(stop - n), int(stop)) for stop, n in zip(stops, counts, strict=True)]
    rng = np.random.default_rng(0)
    gates, w, h, c = [
        rng.uniform(-1, 1, shape).astype(np.float32)
        for shape in ((total, 4 * hidden), (4 * hidden, hidden), (most, hidden), (most, hidden))
    ]
    found = []
    for count in (1, 2):
        threads.set_num_threads(count)
        given = gates.copy(), w.copy(), h.copy(), c.copy()
        cells, out = np.zeros((total, hidden), np.float32), np.zeros((total, hidden), np.float32)
        assert recurrent.lstm(slices, *given, cells, out)
        found.append([*given, cells, out])
    assert asked[0] == most // recurrent.SEQUENCES
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
    i, f, g, o = np.split(gates[slices[0]] + h[: counts[0]] @ w.T, 4, axis=1)
    cell = c[: counts[0]] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    assert np.allclose(found[0][5][slices[0]], np.tanh(cell) / (1 + np.exp(-o)), atol=math.sqrt(hidden) * 1e-6)


@with_kernels
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("columns", [4, 7, 16, 24, 33])
def test_where_the_result_lies_does_not_change_the_numbers(columns: int, rows: int, dtype: str) -> None:
    """LLVM asks whether arrays lie apart, and might add in another order where they are near."""
    memory = np.zeros(1024, dtype)
    x = memory[300 : 300 + rows * columns].reshape(rows, columns)
    x[...] = np.random.default_rng(0).standard_normal(x.shape)
    found = set()
    for start in (
        0,
        *range(300 - 3 * columns - 40, 300 - 3 * columns),
        *range(300 + 3 * columns, 340 + 3 * columns),
        800,
    ):
        out = memory[start : start + x.size].reshape(x.shape)
        get("softmax")(x, out)
        found.add(out.tobytes())
        out[...] = 0
    assert len(found) == 1
