"""Norms and distances: every order, sub-gradients at zero, shapes, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F

INF = float("inf")
ORDERS = [0, 0.5, 1, 1.5, 2, 2.5, 3, INF, -INF, -1, -2]


def leaf(values: Any) -> Any:
    return ferro.tensor(values, dtype=ferro.float64, requires_grad=True)


@pytest.mark.parametrize("p", ORDERS)
def test_every_order_and_its_gradient(p: float, seed: int) -> None:
    a = np.random.default_rng(seed).uniform(0.5, 2, (3, 4)) * np.where(np.arange(12).reshape(3, 4) % 2, 1, -1)
    x = leaf(a)
    y = ferro.linalg.vector_norm(x, p, 1)
    np.testing.assert_allclose(y.tolist(), np.linalg.norm(a, p, axis=1))
    h, direction = 1e-6, np.random.default_rng(seed + 1).standard_normal(a.shape)
    moved = [np.linalg.norm(a + s * h * direction, p, axis=1).sum() for s in (1, -1)]
    (g,) = ferro.autograd.grad(y.sum(), x)
    assert (g.numpy() * direction).sum() == pytest.approx((moved[0] - moved[1]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("p", ORDERS)
def test_at_zero_the_gradient_is_zero_to_second_order(p: float) -> None:
    x = leaf([0.0, 0.0])
    (g,) = ferro.autograd.grad(ferro.linalg.vector_norm(x, p), x, create_graph=True)
    assert g.tolist() == [0, 0]
    if g.requires_grad:
        assert ferro.autograd.grad(g.sum(), x)[0].tolist() == [0, 0]


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, -1])
def test_a_zero_among_other_numbers_gets_gradient_zero(p: float) -> None:
    x = leaf([1.0, 0.0, -2.0])
    (g,) = ferro.autograd.grad(ferro.linalg.vector_norm(x, p), x)
    assert g[1].item() == 0
    assert np.isfinite(g.numpy()).all()


def test_extreme_elements_share_the_gradient_of_the_infinity_norms() -> None:
    x = leaf([3.0, -3.0, 1.0, -1.0])
    assert ferro.autograd.grad(x.norm(INF), x)[0].tolist() == [0.5, -0.5, 0, 0]
    assert ferro.autograd.grad(x.norm(-INF), x)[0].tolist() == [0, 0, 0.5, -0.5]


def test_the_norm_of_complex_numbers_is_real() -> None:
    z = ferro.tensor([3 + 4j, 0j], dtype=ferro.complex128, requires_grad=True)
    y = ferro.norm(z)
    assert y.dtype is ferro.float64
    assert y.item() == 5
    np.testing.assert_allclose(ferro.autograd.grad(y, z)[0].numpy(), [0.6 + 0.8j, 0])


def test_norms_of_nothing() -> None:
    x = ferro.ones(2, 0)
    assert x.norm(2, 1).tolist() == [0, 0]
    for p in (INF, -1):
        with pytest.raises(RuntimeError, match=rf"{p} norm of a tensor of shape \[2, 0\] over dimension 1"):
            x.norm(p, 1)


def test_matrix_norms_by_entries() -> None:
    a = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -7.0]])
    x = ferro.tensor(a)
    for order in ("fro", 1, -1, INF, -INF):
        want = np.linalg.norm(a, order)
        assert ferro.linalg.matrix_norm(x, order).item() == pytest.approx(want)
        assert ferro.linalg.matrix_norm(x.T[None], order, (2, 1), True).shape == (1, 1, 1)
        assert ferro.linalg.matrix_norm(x.T[None], order, (2, 1)).item() == pytest.approx(want)
        assert ferro.linalg.norm(x, order).item() == pytest.approx(want)
    assert ferro.linalg.norm(x).item() == pytest.approx(np.linalg.norm(a))
    assert x.norm(3, (0, 1)).item() == pytest.approx((np.abs(a) ** 3).sum() ** (1 / 3))


def test_wrong_norms_are_explained() -> None:
    x = ferro.ones(2, 2, 2)
    for call, text in (
        (lambda: ferro.linalg.matrix_norm(x, 3), "Order 3 not supported"),
        (lambda: ferro.linalg.matrix_norm(x, 1, (0,)), "must be a 2-tuple"),
        (lambda: ferro.linalg.matrix_norm(x, 1, (0, -3)), "dims must be different"),
        (lambda: ferro.norm(x, "abc"), "Order abc not supported"),
        (lambda: ferro.linalg.norm(x, 2), "the input must be 1D or 2D. Got 3D"),
        (lambda: ferro.linalg.norm(x, 2, (0, 1, 2)), "of length 1 or 2"),
        (lambda: ferro.norm(x.int()), "floating point or complex"),
        (lambda: ferro.linalg.vector_norm(x.double(), dtype=ferro.float32), "without narrowing"),
        (lambda: ferro.renorm(x, -1, 0, 1.0), "p must be positive"),
        (lambda: ferro.renorm(x, 2, 0, -1.0), "maxnorm to be >= 0"),
        (lambda: ferro.cdist(x, ferro.ones(2, 3)), r"same number of columns. X1: 2.*X2: 3"),
        (lambda: ferro.cdist(x, x, -1), "non-negative p values"),
        (lambda: ferro.pdist(x), "only supports 2D tensors, got: 3D"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    name: Any = "fro"
    with pytest.raises(TypeError, match=r"names are for linalg\.matrix_norm"):
        ferro.linalg.vector_norm(x, name)


def test_distances_by_a_product_equal_those_by_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grads = []
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        x, y = (
            leaf(np.random.default_rng(seed).standard_normal((2, 30, 4))),
            leaf(np.random.default_rng(1).standard_normal((26, 4))),
        )
        d = ferro.cdist(x, y, compute_mode=mode)
        weights = ferro.tensor(np.cos(np.arange(d.numel())).reshape(d.shape))
        (gx, gy) = ferro.autograd.grad((d * weights).sum(), (x, y), create_graph=True)
        (second,) = ferro.autograd.grad((gx * gx).sum() + (gy * gy).sum(), x)
        grads.append([t.detach().numpy() for t in (d, gx, gy, second)])
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    far = ferro.tensor(rng.standard_normal((30, 2)))
    assert ferro.cdist(far, far).diagonal().abs().amax().item() < 1e-6


def test_pdist_lists_the_distances_above_the_diagonal(seed: int) -> None:
    x = ferro.tensor(np.random.default_rng(seed).standard_normal((5, 3)))
    square = ferro.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    np.testing.assert_allclose(ferro.pdist(x).numpy(), square[np.triu_indices(5, 1)])
    assert ferro.pdist(ferro.ones(1, 3)).shape == (0,)


def test_normalize_and_cosine_similarity_of_a_zero_vector_are_zero() -> None:
    x = leaf([[0.0, 0.0], [3.0, 4.0]])
    assert F.normalize(x).tolist() == [[0, 0], [0.6, 0.8]]
    y = F.cosine_similarity(x, ferro.ones(2, dtype=ferro.float64))
    np.testing.assert_allclose(y.tolist(), [0, 7 / 50**0.5])
    assert np.isfinite(ferro.autograd.grad(y.sum(), x)[0].numpy()).all()


def test_renorm_changes_only_long_slices() -> None:
    x = leaf([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    y = ferro.renorm(x, 2, 0, 1.0)
    np.testing.assert_allclose(y.tolist(), [[0.6, 0.8], [0.3, 0.4], [0, 0]], rtol=1e-6)
    (g,) = ferro.autograd.grad(y.sum(), x)
    assert g[1:].tolist() == [[1, 1], [1, 1]]
    z = ferro.tensor([[3.0, 4.0]])
    z.renorm_(2, 0, 5.0)
    assert z.tolist() == [[3, 4]]


def test_rows_without_elements_have_the_distance_zero_for_every_p() -> None:
    x = ferro.zeros(4, 0, requires_grad=True)
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        assert ferro.cdist(x, ferro.zeros(3, 0), p).tolist() == [[0.0] * 3] * 4
        assert ferro.pdist(x, p).tolist() == [0.0] * 6
