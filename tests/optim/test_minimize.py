"""minimize: known minima with every method, exact slopes and curvature, wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.optim import minimize
from ferro.optim.scipy_minimize import METHODS, WITH_CURVATURE, WITHOUT_GRADIENT

pytest.importorskip("scipy")


def rosenbrock(x: Any) -> Any:
    """Minimum 0 at (1, 1, 1)."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.filterwarnings("ignore:.*delta_grad == 0.0")
@pytest.mark.parametrize("method", sorted(METHODS))
def test_known_minimum(method: str) -> None:
    begin = [1.0, 1.0, 0.9] if method == "dogleg" else [0.9, 0.8, 0.7]  # (it needs a Hessian that is positive definite)
    start = ferro.tensor(begin, dtype=ferro.float64)
    limits = {"cobyla": ("maxiter",), "tnc": ("maxfun",)}
    names = limits.get(method, ("maxiter", "maxfev") if method in WITHOUT_GRADIENT else ("maxiter",))
    options = dict.fromkeys(names, 3000)
    found = minimize(rosenbrock, start, method, options=options, tol=1e-9)
    close = {"cobyla": 0.1, "powell": 1e-3, "tnc": 1e-3, "trust-constr": 1e-3}.get(method, 1e-4)
    np.testing.assert_allclose(found.x.numpy(), [1.0, 1.0, 1.0], atol=close)
    assert found.fun == pytest.approx(rosenbrock(found.x).item(), abs=1e-12)
    assert start.tolist() == begin


@pytest.mark.parametrize("method", sorted(WITH_CURVATURE))
def test_products_with_the_hessian_are_asked_for(method: str) -> None:
    start = ferro.tensor([0.9, 0.8, 0.7], dtype=ferro.float64)
    if method in ("newton-cg", "trust-constr"):  # the others do not go without
        plain = minimize(rosenbrock, start, method, curvature=False, tol=1e-9)
        np.testing.assert_allclose(plain.x.numpy(), [1.0, 1.0, 1.0], atol=1e-3)
        assert plain.get("nhev", 0) == 0
    found = minimize(rosenbrock, start, method, tol=1e-9)
    assert found.nhev > 0


def test_several_parameters_of_several_dtypes() -> None:
    goal = ferro.tensor([[1.0, -2.0], [0.5, 3.0]])

    def fn(a: Any, b: Any, c: Any) -> Any:
        return ((a - goal) ** 2).sum() + (b.double() - a.double().sum()) ** 2 + 0 * c.sum()

    params = [ferro.zeros(2, 2), ferro.tensor(0.0, dtype=ferro.float64), ferro.ones(3)]
    found = minimize(fn, params, "L-BFGS-B")
    a, b, c = found.x
    assert (a.dtype, b.dtype, c.dtype) == (ferro.float32, ferro.float64, ferro.float32)
    np.testing.assert_allclose(a.numpy(), goal.numpy(), atol=1e-3)
    assert b.item() == pytest.approx(2.5, abs=1e-3)
    assert c.tolist() == [1.0, 1.0, 1.0]
    assert [tuple(g.shape) for g in found.jac] == [(2, 2), (), (3,)]


def test_bounds_reach_scipy() -> None:
    found = minimize(
        lambda x: ((x - 3) ** 2).sum(), ferro.zeros(2, dtype=ferro.float64), "L-BFGS-B", bounds=[(0, 1), (0, 5)]
    )
    np.testing.assert_allclose(found.x.numpy(), [1.0, 3.0], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: minimize(rosenbrock, x, "gradient descent"),
            ValueError,
            "unknown method 'gradient descent'; choose one of bfgs",
        ),
        (lambda x: minimize(rosenbrock, [x, 2.0]), TypeError, "number 1 is float"),
        (lambda x: minimize(rosenbrock, x.long()), TypeError, "number 0 is ferro.int64"),
        (lambda x: minimize(rosenbrock, []), ValueError, "params is empty"),
        (lambda x: minimize(lambda y: y, x), RuntimeError, "must return a tensor with one element, got shape"),
        (lambda x: minimize(lambda y: 1.0, x), RuntimeError, "must return a tensor with one element, got float"),
    ],
    ids=["method", "number", "integers", "nothing", "vector", "float"],
)
def test_wrong_arguments_say_what_is_wrong(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(ferro.zeros(2))
