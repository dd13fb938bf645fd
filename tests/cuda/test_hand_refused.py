"""Minors that are not positive, pivots that are zero, and systems solved all the same: by kernels, thread by thread, beside LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import get_lapack_funcs

import ferro
from ferro.cuda.by_hand import refused
from ferro.cuda.driver import cupy
from ferro.cuda.functions import functions
from tests.cuda import emulated, hand, stand_in

pytestmark = pytest.mark.usefixtures("cuda")
DTYPES = ("float32", "float64", "complex64", "complex128")
# Batches, order, columns of the right side.
SHAPES: list[tuple[tuple, int, int]] = [
    ((), 1, 1),
    ((), 2, 1),
    ((), 3, 3),
    ((), 5, 2),
    ((), 16, 1),
    ((), 17, 5),
    ((), 33, 2),
]
SHAPES += [((1,), 4, 4), ((2,), 3, 1), ((3,), 7, 2), ((5,), 8, 1), ((2, 2), 3, 2), ((1, 3), 6, 1), ((4,), 20, 3)]
SHAPES += [((2,), 31, 1), ((), 40, 40), ((), 2, 300), ((7,), 2, 2), ((2,), 1, 3), ((3, 1), 9, 2), ((), 64, 1)]


def numbers(rng: Any, shape: tuple, dtype: str) -> np.ndarray:
    """Normal numbers of a dtype."""
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else found).astype(dtype)


def positive(rng: Any, batch: tuple, n: int, dtype: str) -> np.ndarray:
    """Positive definite matrices."""
    x = numbers(rng, (*batch, n, n), dtype)
    return (x @ x.conj().swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_minor_that_is_not_positive_is_lapacks(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for batch, n, _ in SHAPES:
        x = positive(rng, batch, n, dtype)
        stack = x.reshape(-1, n, n)
        wrong = rng.integers(0, n + 1, len(stack))  # (n: it is none)
        for one, at in zip(stack, wrong, strict=True):
            # The pivot is what is left of the diagonal: a little below 0 there, or in the last place a little above.
            k = min(at, n - 1)
            taken = (one[k, :k] @ np.linalg.solve(one[:k, :k], one[:k, k])).real if k else 0
            one[k, k] = taken + (-0.1 if at < n else 0.1)
        marks = rng.integers(0, 2, len(stack)).astype(bool) | (len(stack) == 1)
        (potrf,) = get_lapack_funcs(("potrf",), (stack.astype(np.result_type(dtype, np.float64)),))
        want = [int(potrf(one, lower=1)[1]) for one in stack]

        def run(x: Any = x, marks: Any = marks, batch: tuple = batch) -> Any:
            info = hand.there(np.full(batch, 0, np.int32))
            refused.first_minors(hand.there(x.copy()), hand.there(marks.reshape(batch)), info)
            return info

        got = hand.in_all_orders(run, "first_minors").get().reshape(-1)
        assert got.tolist() == [w if mark else 0 for w, mark in zip(want, marks, strict=True)], (batch, n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_are_solved_as_by_lapack(dtype: str) -> None:
    rng, tolerance = np.random.default_rng(2), 2e-3 if dtype in ("float32", "complex64") else 1e-9
    for batch, n, m in SHAPES:
        a, b = numbers(rng, (*batch, n, n), dtype), numbers(rng, (*batch, n, m), dtype)
        marks = np.ones(batch, bool)
        solved: list = []

        def run(a: Any = a, b: Any = b, marks: Any = marks, solved: list = solved) -> Any:
            solved[:] = [hand.there(b.copy())]
            info = refused.solved_anyway(hand.there(a.copy()), solved[0], hand.there(marks))
            return info, solved[0]

        info, x = hand.in_all_orders(run, "solve_anyway")
        assert not info.get().any()
        want = np.linalg.solve(a.astype(complex), b.astype(complex))
        np.testing.assert_allclose(
            x.get(), want, rtol=tolerance, atol=tolerance * np.abs(want).max(), err_msg=f"{batch} {n}"
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_zero_pivot_is_lapacks(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for batch, n, m in SHAPES:
        a = np.triu(rng.integers(1, 4, (*batch, n, n))).astype(dtype)
        a[..., n // 2, n // 2] = a[..., n - 1, n - 1] = 0
        info = refused.solved_anyway(
            hand.there(a), hand.there(np.ones((*batch, n, m), dtype)), hand.there(np.ones(batch, bool))
        )
        assert (info.get() == n // 2 + 1).all()


def test_what_is_not_refused_is_left() -> None:
    a, b = np.eye(3)[None].repeat(2, 0) * 2, np.ones((2, 3, 1))
    work, x = hand.there(a.copy()), hand.there(b.copy())
    info = refused.solved_anyway(work, x, hand.there(np.array([False, True])))
    np.testing.assert_array_equal(x.get(), np.stack([b[0], b[1] / 2]))
    np.testing.assert_array_equal(work.get()[0], a[0])
    assert not info.get().any()


def test_factors_that_stop_half_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuSOLVER leaves finite numbers in what it has not come to."""
    x = np.diag([1.0, 4.0, -1.0, 9.0]) + 0.125
    with monkeypatch.context() as patched:
        patched.setattr(cupy().linalg, "cholesky", lambda a: stand_in.there(np.tril(a.near)))
        _, info = functions.cholesky_ex(hand.there(x))
    assert int(info.get()) == 3


def test_inverses_and_triangles_of_a_stack_with_a_singular_matrix() -> None:
    a = np.array([[[2.0, 1.0], [0.0, 0.0]], [[2.0, 1.0], [0.0, 4.0]]])
    x = ferro.linalg.solve_triangular(
        ferro.tensor(a, device="cuda"), ferro.ones(2, 2, 1, device="cuda").double(), upper=True
    )
    assert x[0].isinf().tolist() == [[True], [True]]
    np.testing.assert_allclose(x[1].cpu().numpy(), np.linalg.solve(a[1], np.ones((2, 1))), rtol=1e-14)
    assert ferro.linalg.inv_ex(ferro.tensor(a, device="cuda")).info.tolist() == [2, 0]


FAULTS = {
    "a missing barrier": (
        "    __syncthreads();\n    const double d = a[k * n + k];",
        "    const double d = a[k * n + k];",
    ),
    "a wrong index": ("- factor * a[k * n + k + 1 + j];", "- factor * a[k * n + k + j];"),
    "rows that are not exchanged": ("j < n + m; j += blockDim.x", "j < n; j += blockDim.x"),
    "a sum cut short": ("for (place i = 0; i < k; ++i)", "for (place i = 1; i < k; ++i)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    text = refused.texts("float64")[0]
    wrong = hand.planted(text, FAULTS[fault], FAULTS.values())
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 20, 20)), rng.standard_normal((2, 20, 3))
    want = np.linalg.solve(a, b)
    agrees = []
    for each in (text, wrong):
        fine = True
        for seed in hand.SEEDS:
            work, x, marks = (stand_in.there(v.copy()) for v in (a, b, np.ones(2, bool)))
            with emulated.in_order(seed):
                given = (np.int64(20), np.int64(3), marks, work, x, stand_in.there(np.zeros(2, np.int32)))
                emulated.Kernel(each, "solve_anyway")((2,), (64,), given)
            fine &= bool(np.allclose(x.near, want, rtol=1e-8))
        agrees.append(fine)
    assert agrees == [True, False]
