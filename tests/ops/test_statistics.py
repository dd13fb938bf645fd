"""Covariance, sampled derivatives and membership: accuracy, weights, singular points, dtype rules, errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ferro

NAN = float("nan")


def leaf(values: Any) -> Any:
    return ferro.tensor(values, dtype=ferro.float64, requires_grad=True)


# -- covariance ----------------------------------------------------------------------------------------------------------


def test_covariances_of_numbers_far_from_zero_are_exact_to_rounding(rng: np.random.Generator) -> None:
    a = rng.standard_normal((2, 50)) + 1e8
    exact = [[Fraction(v) for v in row] for row in a]
    means = [sum(row) / 50 for row in exact]
    for i in range(2):
        for j in range(2):
            terms = zip(exact[i], exact[j], strict=True)
            want = float(sum((p - means[i]) * (q - means[j]) for p, q in terms) / 49)
            assert ferro.cov(ferro.from_numpy(a))[i, j].item() == pytest.approx(want, abs=1e-13)


def test_frequencies_repeat_observations(rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 4))
    f = [2, 1, 0, 3]
    want = np.cov(np.repeat(a, f, axis=1))
    np.testing.assert_allclose(ferro.cov(ferro.from_numpy(a), fweights=ferro.tensor(f)).numpy(), want, atol=1e-14)
    x = ferro.from_numpy(a).requires_grad_()
    (g,) = ferro.autograd.grad((ferro.cov(x, fweights=ferro.tensor(f)) ** 2).sum(), x)
    y = ferro.from_numpy(np.repeat(a, f, axis=1)).requires_grad_()
    (h,) = ferro.autograd.grad((ferro.cov(y) ** 2).sum(), y)
    np.testing.assert_allclose(g[:, 3].numpy(), h[:, 3:].sum(1).numpy(), atol=1e-13)
    assert g[:, 2].abs().amax().item() < 1e-15


def test_weights_of_observations_have_gradients_to_second_order(rng: np.random.Generator) -> None:
    x, a = leaf(rng.standard_normal((2, 5))), leaf(rng.uniform(0.5, 2, 5))
    f = ferro.tensor([1, 2, 3, 1, 2])
    for options in ({}, {"correction": 0}, {"fweights": f}):

        def cov(x: Any, a: Any, options: Any = options) -> Any:
            return ferro.cov(x, aweights=a, **options)

        assert ferro.autograd.gradcheck(cov, (x, a), check_forward_ad=True)
        assert ferro.autograd.gradgradcheck(cov, (x, a))


def test_complex_covariances_are_hermitian(rng: np.random.Generator) -> None:
    a = rng.standard_normal((2, 4)) + 1j * rng.standard_normal((2, 4))
    np.testing.assert_allclose(ferro.cov(ferro.from_numpy(a)).numpy(), np.cov(a), atol=1e-14)
    r = ferro.corrcoef(ferro.from_numpy(a)).numpy()
    np.testing.assert_allclose(r, r.conj().T, atol=1e-14)


def test_shapes_and_dtypes_of_covariances() -> None:
    assert ferro.cov(ferro.tensor([1, 2, 3])).tolist() == 1
    assert ferro.cov(ferro.tensor([1, 2, 3])).dtype is ferro.float32
    assert ferro.ones(2, 3, dtype=ferro.float16).cov().dtype is ferro.float16
    assert ferro.cov(ferro.zeros(0, 3)).shape == (0, 0)
    assert ferro.corrcoef(ferro.tensor([1.0, 2.0])).item() == 1
    assert ferro.corrcoef(ferro.tensor([[0, 1, 2], [2, 1, 0]])).tolist() == [[1, -1], [-1, 1]]


def test_too_few_observations_warn() -> None:
    for x in (ferro.tensor(1.0), ferro.zeros(0), ferro.ones(2, 1)):
        with pytest.warns(UserWarning, match="degrees of freedom"), np.errstate(all="ignore"):
            assert bool(ferro.cov(x).isnan().all())
    with pytest.warns(UserWarning, match="degrees of freedom"), np.errstate(all="ignore"):
        assert ferro.cov(ferro.tensor([1.0, 2.0]), correction=2).item() == float("inf")


def test_variables_that_do_not_vary_have_no_correlation() -> None:
    r = ferro.corrcoef(ferro.tensor([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])).tolist()
    assert np.isnan([r[0][0], r[0][1], r[1][0]]).all()
    assert r[1][1] == pytest.approx(1)


def test_a_correlation_of_one_is_an_extremum() -> None:
    x = leaf([[1.0, 2.0, 4.0], [2.0, 4.0, 8.0]])
    (g,) = ferro.autograd.grad(ferro.corrcoef(x)[0, 1], x)
    assert g.abs().amax().item() < 1e-15


def test_bad_weights_are_refused() -> None:
    x = ferro.ones(2, 3)
    cov: Any = ferro.cov
    for options, text in (
        ({"fweights": ferro.tensor([1.0, 2.0, 3.0])}, "integral dtype"),
        ({"aweights": ferro.tensor([1, 2, 3])}, "floating point"),
        ({"fweights": ferro.tensor([True, True, True])}, "integral dtype"),
        ({"fweights": ferro.tensor([1, 2])}, "same numel"),
        ({"fweights": ferro.tensor([[1, 2, 3]])}, "one or fewer"),
        ({"fweights": ferro.tensor([1, -2, 3])}, "negative"),
        ({"aweights": ferro.tensor([0.0, 0.0, 0.0])}, "sum to zero"),
        ({"aweights": ferro.tensor([1.0, -1.0, 1.0])}, "negative"),
    ):
        with pytest.raises(RuntimeError, match=text):
            cov(x, **options)
    for f in (ferro.cov, ferro.corrcoef):
        with pytest.raises(RuntimeError, match="two or fewer"):
            f(ferro.ones(2, 2, 2))
        with pytest.raises(RuntimeError, match="bool"):
            f(ferro.ones(2, 2) > 0)
    with pytest.raises(TypeError, match="must be int"):
        cov(x, correction=0.5)


# -- derivatives of a sampled function -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_parabolas_have_exact_derivatives(order: int) -> None:
    t = ferro.tensor([-2.0, -0.5, 0.0, 1.0, 4.0], dtype=ferro.float64)
    (g,) = ferro.gradient(3 * t * t - t, spacing=(t,), edge_order=order)
    want = (6 * t - 1).tolist()
    assert g.tolist()[1:-1] == pytest.approx(want[1:-1])
    if order == 2:
        assert g.tolist() == pytest.approx(want)
    u = ferro.arange(5.0, dtype=ferro.float64) * -0.5
    (g,) = ferro.gradient(3 * u * u - u, spacing=-0.5, edge_order=order)
    assert g.tolist()[1:-1] == pytest.approx((6 * u - 1).tolist()[1:-1])


@pytest.mark.parametrize("order", [1, 2])
def test_coordinates_have_gradients_to_second_order(order: int, rng: np.random.Generator) -> None:
    x, t = leaf(rng.standard_normal((2, 5))), leaf([-1.0, -0.2, 0.5, 1.5, 1.8])

    def f(x: Any, t: Any) -> Any:
        return ferro.gradient(x, spacing=[t], dim=1, edge_order=order)[0]

    assert ferro.autograd.gradcheck(f, (x, t), check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(f, (x, t))


def test_integers_and_mixed_dtypes() -> None:
    assert ferro.gradient(ferro.tensor([0, 1, 4]))[0].tolist() == [1, 2, 3]
    assert ferro.gradient(ferro.tensor([0, 1, 4]))[0].dtype is ferro.float32
    x = ferro.tensor([0.0, 1.0, 4.0], dtype=ferro.float16)
    t = ferro.tensor([0.0, 1.0, 2.0], dtype=ferro.float64)
    assert ferro.gradient(x, spacing=(t,))[0].dtype is ferro.float64
    assert ferro.gradient(x, spacing=(t.long(),))[0].dtype is ferro.float16
    assert ferro.gradient(x + 0j, spacing=1j)[0].tolist() == [-1j, -2j, -3j]
    assert ferro.gradient(ferro.tensor(1.0)) == ()


def test_points_that_do_not_fit_are_refused() -> None:
    x = ferro.ones(2, 3)
    gradient: Any = ferro.gradient
    for options, error, text in (
        ({"edge_order": 3}, RuntimeError, "edge_order"),
        ({"edge_order": 2}, RuntimeError, "at least"),
        ({"dim": (1, -1)}, RuntimeError, "multiple times"),
        ({"dim": 2}, IndexError, "out of range"),
        ({"spacing": [1.0]}, RuntimeError, "argument of length 1"),
        ({"spacing": ferro.ones(3)}, TypeError, "list of tensors"),
        ({"spacing": [ferro.ones(3)], "dim": 0}, RuntimeError, "must be 2 numbers"),
        ({"spacing": [ferro.ones(3, 1)], "dim": 1}, RuntimeError, "one dimension"),
        ({"spacing": [ferro.ones(2), 1.0]}, TypeError, "not both"),
    ):
        with pytest.raises(error, match=text):
            gradient(x, **options)
    for bad in (x.byte(), x > 0):
        with pytest.raises(RuntimeError, match="does not support"):
            ferro.gradient(bad)
    with pytest.raises(IndexError, match="no dimensions"):
        ferro.gradient(ferro.tensor(1.0), dim=0)


# -- membership ----------------------------------------------------------------------------------------------------------


def test_membership_is_decided_in_the_common_dtype() -> None:
    assert ferro.isin(ferro.tensor([1, 2]), ferro.tensor([2.5, 2.0])).tolist() == [False, True]
    assert ferro.isin(ferro.tensor([1.1]), 1.1).tolist() == [True]
    assert ferro.isin(ferro.tensor([1.1], dtype=ferro.bfloat16), 1.1).tolist() == [True]
    assert ferro.isin(ferro.tensor([1.1], dtype=ferro.float64), ferro.tensor([1.1])).tolist() == [False]
    assert ferro.isin(ferro.tensor([1], dtype=ferro.uint8), ferro.tensor([-255])).tolist() == [False]
    assert ferro.isin(2, ferro.tensor([[1], [2]])).shape == ()


def test_nan_is_a_member_of_nothing_and_nothing_of_the_empty_set() -> None:
    assert ferro.isin(ferro.tensor([NAN, 1.0]), ferro.tensor([NAN, 1.0])).tolist() == [False, True]
    assert ferro.isin(ferro.tensor([1, 2]), ferro.tensor([]), invert=True).tolist() == [True, True]


def test_a_false_promise_of_uniqueness_does_no_harm() -> None:
    assert ferro.isin(ferro.tensor([1, 1, 3]), ferro.tensor([1]), assume_unique=True).tolist() == [True, True, False]


def test_members_must_be_real_numbers() -> None:
    for bad in (ferro.tensor([True]), ferro.tensor([1j]), True):
        with pytest.raises(RuntimeError, match="Unsupported"):
            ferro.isin(bad, ferro.tensor([1]))
    for pair in ((1, 2), ([1], ferro.tensor([1]))):
        with pytest.raises(TypeError):
            ferro.isin(*pair)


# -- ranges, drawn numbers and a dtype that is not there ------------------------------------------------------------------


def test_ranges_of_integers_cut_their_arguments_first() -> None:
    assert ferro.arange(0, 5.7, 2.9, dtype=ferro.int64).tolist() == [0, 2, 4]
    assert ferro.arange(-1.5, 1.5, dtype=ferro.int64).tolist() == [-1, 0]
    arange: Any = ferro.arange
    for options in ({"dtype": ferro.int64}, {"out": ferro.zeros(0, dtype=ferro.int64)}):
        with pytest.raises(ValueError, match="nonzero"):
            arange(0, 64, 0.5, **options)
    for bounds in ((0, float("inf")), (NAN,), (0, 3, 0), (0, -3, 2), (1j,)):
        with pytest.raises(RuntimeError):
            ferro.arange(*bounds)


def test_ranges_are_written_into_out_in_its_dtype() -> None:
    out = ferro.zeros(3, dtype=ferro.float64)
    assert ferro.arange(3, out=out) is out
    assert ferro.linspace(0, 1, 3, out=out) is out
    assert out.tolist() == [0, 0.5, 1]
    assert ferro.logspace(0, 2, 3, out=out).tolist() == [1, 10, 100]
    assert ferro.eye(2, out=ferro.zeros(2, 2, dtype=ferro.int64)).tolist() == [[1, 0], [0, 1]]
    for f, arguments in ((ferro.arange, (3,)), (ferro.linspace, (0, 1, 3))):
        with pytest.raises(RuntimeError, match="does not match"):
            f(*arguments, dtype=ferro.float32, out=out)


def test_multinomial_needs_floating_weights_and_an_integer_out() -> None:
    for bad in (ferro.tensor([1, 2]), ferro.tensor([True]), ferro.tensor([1 + 0j])):
        with pytest.raises(RuntimeError, match="floating-point"):
            ferro.multinomial(bad, 1)
    with pytest.raises(RuntimeError, match="Long"):
        ferro.multinomial(ferro.tensor([0.5, 0.5]), 1, out=ferro.zeros(1))
    out = ferro.zeros(1, dtype=ferro.int64)
    assert ferro.multinomial(ferro.tensor([0.0, 1.0]), 1, out=out).tolist() == [1]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_gradient_in_float32_rounds_as_numpys(order: Any, uneven: bool) -> None:
    rng = np.random.default_rng(order)
    for _ in range(20):
        values = rng.uniform(-9, 9, (5, 4)).astype(np.float32)
        spacing = [rng.uniform(-9, 9, n).astype(np.float32) if uneven else float(rng.uniform(1, 9)) for n in (5, 4)]
        theirs = np.gradient(values, *spacing, axis=(0, 1), edge_order=order)
        given = [ferro.from_numpy(s) if isinstance(s, np.ndarray) else s for s in spacing]
        ours = ferro.gradient(ferro.from_numpy(values), spacing=given, dim=(0, 1), edge_order=order)
        for a, b in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(b.numpy(), a, rtol=1e-6 if uneven else 3e-7, atol=0)
