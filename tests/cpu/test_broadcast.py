"""A matrix combined with its row or column: NumPy's numbers to the bit, also for infinities, nan and divisions by 0."""

from __future__ import annotations

import numpy as np
import pytest

from ferro.cpu import fusion
from ferro.cpu.kernels import broadcast
from tests.configuration import with_kernels

FORMULAS = {
    np.add: lambda xp, a, b: a + b,
    np.subtract: lambda xp, a, b: a - b,
    np.multiply: lambda xp, a, b: a * b,
    np.divide: lambda xp, a, b: a / b,
}


@with_kernels
@pytest.mark.parametrize("ufunc", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(200, 300), (3, 70, 257)])
def test_rows_and_columns(ufunc: np.ufunc, dtype: type, shape: tuple, rng: np.random.Generator) -> None:
    x = rng.uniform(-1, 1, shape).astype(dtype)
    x.reshape(-1)[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
    for y in (x[(0,) * (x.ndim - 1)].copy(), x[..., :1].copy()):
        for pair in ((x, y), (y, x)):
            with np.errstate(all="ignore"):
                got, want = fusion.evaluate(FORMULAS[ufunc], *pair), ufunc(*pair)
            assert got is not None
            np.testing.assert_array_equal(got, want)
            zeros = got == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@with_kernels
def test_one_thread_takes_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    combine = broadcast.combine
    monkeypatch.setattr(fusion, "combine", lambda *args: seen.append(args[0]) or combine(*args))
    x = np.ones((200, 300), np.float32)
    np.testing.assert_array_equal(fusion.evaluate(FORMULAS[np.subtract], x[0], x), np.zeros_like(x))
    assert seen == [broadcast.OPERATIONS[np.subtract][1]]


@with_kernels
def test_the_result_may_be_the_matrix() -> None:
    x = np.ones((200, 300), np.float32)
    assert fusion.evaluate(FORMULAS[np.add], x, x[0].copy(), out=x) is x
    assert (x == 2).all()
