"""ferro.masked beyond its samples: what is behind the mask reaches nothing; empty groups; masks of every kind; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro

INF, NAN = float("inf"), float("nan")
MASK = [[True, False, True], [True, True, False]]


def poisoned(value: float) -> Any:
    """Numbers with `value` where the mask is false."""
    return ferro.tensor([[1.0, value, 2.0], [0.5, 3.0, value]], dtype=ferro.float64, requires_grad=True)


CALLS: dict[str, Any] = {
    "sum": lambda M, x, m: M.sum(x, 1, mask=m),
    "prod": lambda M, x, m: M.prod(x, 1, mask=m),
    "cumsum": lambda M, x, m: M.cumsum(x, 1, mask=m),
    "cumprod": lambda M, x, m: M.cumprod(x, 1, mask=m),
    "amax": lambda M, x, m: M.amax(x, 1, mask=m),
    "amin": lambda M, x, m: M.amin(x, 1, mask=m),
    "median": lambda M, x, m: M.median(x, 1, mask=m),
    "mean": lambda M, x, m: M.mean(x, 1, mask=m),
    "norm": lambda M, x, m: M.norm(x, 3, 1, mask=m),
    "var": lambda M, x, m: M.var(x, 1, mask=m),
    "std": lambda M, x, m: M.std(x, 1, mask=m),
    "softmax": lambda M, x, m: M.softmax(x, 1, mask=m),
    "log_softmax": lambda M, x, m: M.log_softmax(x, 1, mask=m)[m],
    "softmin": lambda M, x, m: M.softmin(x, 1, mask=m),
    "normalize": lambda M, x, m: M.normalize(x, 2, 1, mask=m),
    "logsumexp": lambda M, x, m: M.logsumexp(x, 1, mask=m),
    "logaddexp": lambda M, x, m: M.logaddexp(x, x, input_mask=m, other_mask=m)[m],
}


def derivatives(call: Any, x: Any) -> list:
    """The value, the gradient of a sum of squares, and the gradient of a sum of its squares."""
    y = call(ferro.masked, x, ferro.tensor(MASK))
    (g,) = ferro.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = ferro.autograd.grad((g * g).sum(), x)
    return [y.tolist(), g.tolist(), h.tolist()]


@pytest.mark.parametrize("value", [INF, -INF, NAN, 0.0])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_behind_the_mask_reaches_no_derivative(name: str, value: float) -> None:
    want = derivatives(CALLS[name], poisoned(1.25))
    assert derivatives(CALLS[name], poisoned(value)) == want
    assert all(np.isfinite(w).all() for w in want)
    assert (np.array(want[1])[~np.array(MASK)] == 0).all()


def test_groups_of_which_nothing_counts(torch: Any) -> None:
    x = [[1.0, 2.0], [3.0, 4.0]]
    found = []
    for T in (ferro, torch):
        m, t = T.tensor([[True, True], [False, False]]), T.tensor(x)
        M = T.masked
        found.append(
            [
                M.sum(t, 1, mask=m).tolist(),
                M.prod(t, 1, mask=m).tolist(),
                M.amax(t, 1, mask=m).tolist(),
                M.amin(t, 1, mask=m).tolist(),
                M.logsumexp(t, 1, mask=m).tolist(),
                M.norm(t, 2, 1, mask=m).tolist(),
                M.norm(t, -INF, 1, mask=m).tolist(),
                M.mean(t, 1, mask=m)[1].isnan().item(),
                M.median(t, 1, mask=m)[1].isnan().item(),
                M.var(t, 1, mask=m)[1].isnan().item(),
                M.softmax(t, 1, mask=m)[1].isnan().tolist(),
                M.argmax(t, 1, mask=m).tolist(),
            ]
        )
    for got, want in zip(*found, strict=True):
        assert got == pytest.approx(want)


def test_integers_have_neutral_elements_of_their_own(torch: Any) -> None:
    for dtype in ("int8", "int16", "int32", "int64", "uint8"):
        found = []
        for T in (ferro, torch):
            t, m = T.tensor([[3, 1], [2, 2]], dtype=getattr(T, dtype)), T.tensor([[True, False], [False, False]])
            results = [getattr(T.masked, f)(t, 1, mask=m) for f in ("amax", "amin", "sum", "prod", "cumsum", "argmax")]
            found.append([(r.tolist(), str(r.dtype).split(".")[-1]) for r in results])
        assert found[0] == found[1]


def test_a_result_may_have_another_dtype(torch: Any) -> None:
    found = []
    for T in (ferro, torch):
        t, m = T.tensor([[3, 1], [2, 2]]), T.tensor([True, False])
        M = T.masked
        results = [
            M.sum(t, 1, dtype=T.float64, mask=m),
            M.mean(t, 1, dtype=T.float32, mask=m),
            M.var(t, 1, mask=m),
            M.std(t, 0, dtype=T.float64, mask=m),
            M.amax(t, dtype=T.int8, mask=m),
            M.softmax(t.float(), 1, dtype=T.float64, mask=m),
            M.median(t, 1, mask=m),
            M.cumsum(t, 1, dtype=T.float32, mask=m),
        ]
        found.append([(np.array(r.tolist()), str(r.dtype).split(".")[-1]) for r in results])
    for (got, dtype), (want, wanted) in zip(*found, strict=True):
        assert dtype == wanted
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_masks_are_broadcast_and_read_as_not_zero() -> None:
    x = ferro.arange(6.0).reshape(2, 3)
    assert ferro.masked.sum(x, mask=ferro.tensor([True, False, True])).item() == 10.0
    assert ferro.masked.sum(x, 1, mask=ferro.tensor([[1], [0]])).tolist() == [3.0, 0.0]
    assert ferro.masked.sum(x, mask=ferro.tensor(0.5)).item() == 15.0
    assert ferro.masked.mean(x, 0, keepdim=True).tolist() == [[1.5, 2.5, 3.5]]
    assert ferro.masked.sum(x.T, 0, mask=ferro.tensor([True, False])).tolist() == [3.0, 0.0]


def test_the_gradient_of_std_is_zero_where_it_is_zero() -> None:
    x = ferro.tensor([[2.0, 2.0, 7.0], [1.0, 4.0, 0.0]], requires_grad=True)
    ferro.masked.std(x, 1, mask=ferro.tensor([True, True, False])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [-(0.5**0.5), 0.5**0.5, 0]], rtol=1e-6)


def test_what_has_no_meaning_is_refused() -> None:
    x, M = ferro.ones(2, 3), ferro.masked
    with pytest.raises(IndexError, match="expected a mask that can be broadcast"):
        M.sum(x[0], mask=ferro.ones(2, 3) > 0)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        M.sum(x, mask=ferro.ones(2) > 0)
    with pytest.raises(ValueError, match="must be floating point or complex"):
        M.mean(ferro.tensor([1, 2]))
    with pytest.raises(ValueError, match="no element"):
        M.median(ferro.tensor([1, 2]), mask=ferro.tensor([False, False]))
    with pytest.raises(AssertionError, match="not both"):
        M.var(x, unbiased=True, correction=1)
    with pytest.raises(RuntimeError, match="have no least number"):
        M.amax(x * 1j, mask=x > 0)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        M.sum(x, (0, 0))
    with pytest.raises(IndexError, match="out of range"):
        M.softmax(x, 2)
    with pytest.raises(TypeError, match="must be Tensor"):
        M.sum([1.0])
