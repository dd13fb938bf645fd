"""Odd arguments that once hung, or raised something that names neither function nor argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

F = ferro.nn.functional


def test_neighbours_beyond_the_channels_cost_nothing() -> None:
    x = ferro.ones(2, 5, 3)
    want = 1 / (1 + 1e-4 * 5 / 2**31) ** 0.75
    np.testing.assert_allclose(F.local_response_norm(x, 2**31).numpy(), np.full((2, 5, 3), want, "f4"), rtol=1e-6)
    assert F.local_response_norm(x, np.uint8(255)).shape == x.shape  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.local_response_norm(ferro.ones(2, 5, 3), 0), RuntimeError, "local_response_norm: size should be"),
        (lambda: ferro.tensor_split(ferro.ones(5, 2), 2**31), RuntimeError, "tensor_split: 2147483648 sections"),
        (lambda: ferro.svd_lowrank(ferro.ones(2, 3), 1, 2**70), ValueError, "svd_lowrank: niter"),
        (lambda: ferro.pca_lowrank(ferro.ones(2, 3), 1, True, 2**31), ValueError, "lowrank: niter"),
        (lambda: ferro.ones(3) + np.ones(3, ">f4"), TypeError, "add: an operand is an array of NumPy's"),
        (lambda: F.lp_pool1d(ferro.ones(2, 2, 7), 0, 3), ValueError, "lp_pool1d: norm_type must not be 0"),
        (lambda: ferro.slice_copy(ferro.tensor(1.0)), IndexError, "0-dim"),
        (
            lambda: ferro.allclose(ferro.ones(3, 4, 4), ferro.ones(5, 5)),
            RuntimeError,
            r"tensor a \(4\) must match .* tensor b \(5\)",
        ),
    ],
)
def test_odd_arguments_are_refused_at_once(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_mean_of_no_losses_is_nan() -> None:
    x = ferro.ones(0)
    assert np.isnan(F.cross_entropy(x, x).item())
