"""Rows added by index in a fixed order, run thread by thread beside NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cuda.by_hand import scatter
from ferro.cuda.by_hand.launching import LAUNCHES
from ferro.cuda.numpy_by_cupy import numpy
from ferro.nn import functional
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
# Rows of the table, their width, how many are added, and to how many of them: with runs over no, one and many chunks.
CASES = [
    (1, 1, 1, 1), (1, 1, 33, 1), (1, 3, 500, 1), (2, 1, 64, 2), (5, 4, 7, 5), (5, 4, 32, 5), (5, 4, 33, 1), (9, 1, 100, 9),
    (9, 2, 100, 2), (40, 3, 31, 40), (40, 3, 200, 40), (40, 3, 200, 3), (100, 1, 5, 100), (100, 17, 65, 4), (3, 300, 70, 3),
    (7, 1, 1000, 7), (7, 1, 1000, 1), (1000, 1, 64, 1000), (64, 5, 64, 1), (2, 2, 129, 2), (6, 1, 96, 1), (33, 9, 320, 5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", hand.DTYPES)
def test_rows_are_added_as_by_numpy(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for n, width, m, used in CASES:
        table, rows = hand.floats(rng, (n, width), dtype), hand.floats(rng, (m, width), dtype)
        index = rng.permutation(n)[:used][rng.integers(0, used, m)]
        want = hand.wide(table)
        np.add.at(want, index, hand.wide(rows))
        index = np.where(rng.random(m) < 0.3, index - n, index)  # some counted from the end

        def run(table: Any = table, index: Any = index, rows: Any = rows) -> Any:
            out = hand.there(table.copy())
            assert scatter.add_at(out, hand.there(index), hand.there(rows))
            return out

        names = ["add_chunks", "add_carried"][: 1 if m <= scatter.CHUNK else 2]
        got = hand.in_all_orders(run, *names)
        hand.close(got, want, dtype, str((n, width, m, used)), max(2.0, float(np.abs(want).max())))


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_keys_and_views_of_every_kind(dtype: str) -> None:
    rng = np.random.default_rng(2)

    def make(*shape: int) -> Any:
        a = rng.standard_normal(shape)
        return (a + 1j * rng.standard_normal(shape) if dtype == "complex128" else a).astype(dtype)

    i, j = rng.integers(0, 6, (4, 50)), rng.integers(0, 5, (4, 50))
    keys = [
        ((6, 5), i, (4, 50, 5)),
        ((6, 5), (i, j), (4, 50)),
        ((6, 5), (slice(None), j), (6, 4, 50)),
        ((6,), i, (4, 50)),
    ]
    for shape, key, of in keys:
        for view in (lambda a: a, lambda a: a[::-1]):
            a, src = make(*shape), make(*of)
            want, got = a.copy(), hand.there(a.copy())
            np.add.at(view(want), key, src)
            there = (
                tuple(k if isinstance(k, slice) else hand.there(k) for k in key)
                if isinstance(key, tuple)
                else hand.there(key)
            )
            numpy.add.at(view(got), there, hand.there(src))
            np.testing.assert_allclose(
                got.get(), want, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-12
            )


def test_additions_by_index_on_tensors_have_no_atomics(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("an addition by atomics")

    monkeypatch.setattr(stand_in.Ufunc, "at", refuse)
    rng = np.random.default_rng(3)
    index, src = rng.integers(0, 5, (40, 3)), rng.standard_normal((40, 3))
    found = []
    for device in ("cpu", "cuda"):
        LAUNCHES.clear()
        i, s = ferro.tensor(index, device=device), ferro.tensor(src, device=device)
        zeros = ferro.zeros(5, 3, dtype=ferro.float64, device=device)
        table = ferro.ones(5, 3, dtype=ferro.float64, device=device).requires_grad_()
        functional.embedding(i[:, 0], table).mul(s).sum().backward()
        x = ferro.ones(5, 3, dtype=ferro.float64, device=device).requires_grad_()
        (x.gather(0, i) * s).sum().backward()
        y = ferro.ones(5, 3, dtype=ferro.float64, device=device).requires_grad_()
        (y[i[:, 1]] * s).sum().backward()
        outs = [zeros.index_add(0, i[:, 0], s), zeros.index_add(1, i[:3, 0] % 3, s[:5]), zeros.scatter_add(0, i, s)]
        outs += [zeros.index_put((i[:, 0], i[:, 1] % 3), s[:, 0], accumulate=True), table.grad, x.grad, y.grad]
        found.append([t.detach().cpu().numpy() for t in outs])
    assert LAUNCHES["add_chunks"] == 7
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_row_of_half_precision_is_rounded_once() -> None:
    """4,096 ones in float16, which additions one after the other would leave at 2,048."""
    x = ferro.zeros(2, 1, dtype=ferro.float16, device="cuda")
    index = ferro.zeros(4096, dtype=ferro.int64, device="cuda")
    assert x.index_add(0, index, ferro.ones(4096, 1, dtype=ferro.float16, device="cuda"))[0].item() == 4096


FAULTS = [
    ("rows[order[j] * width + column]", "rows[j * width + column]"),
    ("if (left) {", "if (false) {"),
]


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_planted_faults_are_found(before: str, after: str) -> None:
    (text,) = scatter.texts("float32")
    wrong = hand.planted(text, (before, after), FAULTS)
    rng = np.random.default_rng(4)
    index, rows = rng.integers(0, 2, 100), hand.floats(rng, (100, 1), "float32")
    want = np.zeros((2, 1))
    np.add.at(want, index, rows.astype(np.float64))
    order = np.argsort(index, kind="stable")
    agrees = []
    for each in (text, wrong):
        out = stand_in.there(np.zeros((2, 1), np.float32))
        inside, behind = (stand_in.there(np.zeros(4)) for _ in range(2))
        sizes, s = [np.int64(v) for v in (4, 100, 1, 32)], stand_in.there(index[order])
        given = s, stand_in.there(order), stand_in.there(rows), out, inside, behind
        emulated.Kernel(each, "add_chunks")((1,), (256,), (*sizes, *given))
        emulated.Kernel(each, "add_carried")((1,), (256,), (*sizes, s, inside, behind, out))
        agrees.append(bool(np.allclose(out.near, want, rtol=1e-6, atol=1e-6)))
    assert agrees == [True, False]
