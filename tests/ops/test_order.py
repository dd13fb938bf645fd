"""Order: stable sorts, nan, selection, quantiles, unique elements, search and histograms, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.cpu.thresholds import ORDER_LEAST

NAN, INF = float("nan"), float("inf")
DTYPES = [
    ferro.float32,
    ferro.float64,
    ferro.float16,
    ferro.bfloat16,
    ferro.int64,
    ferro.int32,
    ferro.int8,
    ferro.uint8,
]


def leaf(values: Any) -> Any:
    return ferro.tensor(values, dtype=ferro.float64, requires_grad=True)


def grad(y: Any, x: Any) -> list:
    return ferro.autograd.grad(y.sum(), x)[0].tolist()


# -- sorting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [5, 500])
@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order_in_both_directions(dtype: Any, n: int, descending: bool, seed: int) -> None:
    x = ferro.tensor(np.random.default_rng(seed).integers(0, 9, (2, n))).to(dtype)
    values, indices = x.sort(1, descending)
    a = x.double().numpy()
    want = np.argsort(-a if descending else a, 1, kind="stable")
    assert indices.tolist() == want.tolist()
    assert values.dtype is dtype
    assert values.double().tolist() == np.take_along_axis(a, want, 1).tolist()
    assert x.argsort(1, descending, stable=True).tolist() == want.tolist()


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("repeats", [1, 30])
def test_nan_is_the_largest_number_and_zeros_are_equal(dtype: Any, repeats: int) -> None:
    x = ferro.tensor([-NAN, 0.0, -0.0, INF, -1.0, NAN, -INF] * repeats).to(dtype)
    up, down = x.sort(), x.sort(descending=True)
    assert np.isnan(up.values[-2 * repeats :].float().numpy()).all()
    assert np.isnan(down.values[: 2 * repeats].float().numpy()).all()
    assert down.indices[:2].tolist() == [0, 5]
    zeros = [i for i in up.indices.tolist() if i % 7 in (1, 2)]
    assert zeros == sorted(zeros)
    assert ferro.topk(x, 2 * repeats + 1).values[-1].item() == INF


def test_gradients_go_to_the_elements_that_were_picked() -> None:
    x = leaf([3.0, 1.0, 2.0])
    weights = ferro.tensor([1.0, 10.0, 100.0], dtype=ferro.float64)
    assert grad(x.sort().values * weights, x) == [100, 1, 10]
    assert grad(x.topk(2).values * weights[:2], x) == [1, 0, 10]
    assert grad(x.kthvalue(2).values, x) == [0, 0, 1]
    assert grad(x.msort() * weights, x) == [100, 1, 10]
    assert grad(x.quantile(0.75), x) == [0.5, 0, 0.5]


@pytest.mark.parametrize("n", [10, 3000])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_the_head_of_a_sort(n: int, largest: bool, seed: int) -> None:
    x = ferro.tensor(np.random.default_rng(seed).permutation(2 * n).reshape(n, 2).astype(np.float32))
    values, indices = x.topk(4, 0, largest)
    want = x.sort(0, descending=largest)
    assert values.tolist() == want.values[:4].tolist()
    assert indices.tolist() == want.indices[:4].tolist()


def test_sorting_a_zero_dimensional_tensor() -> None:
    x = ferro.tensor(3.0)
    for found in (x.sort(), x.sort(0, True), x.topk(1), x.topk(0), x.kthvalue(1), x.median(0), x.mode()):
        assert [t.item() for t in found] == [3, 0]
        assert found[1].dtype is ferro.int64
    assert x.msort().item() == 3


def test_selections_out_of_range_are_explained() -> None:
    x = ferro.ones(2, 3)
    for call, text in (
        (lambda: x.topk(4), "k is 4, but dimension 1 has 3 elements"),
        (lambda: x.topk(-1), "k out of range"),
        (lambda: x.kthvalue(0), "k is 0, allowed are 1 to 3"),
        (lambda: x.kthvalue(3, 0), "allowed are 1 to 2"),
        (lambda: x.bool().topk(1), "bool tensors are not supported"),
        (lambda: ferro.ones(2, dtype=ferro.complex64).sort(), "complex tensors are not supported"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    for name in ("median", "nanmedian", "mode"):
        with pytest.raises(IndexError, match=rf"{name}\(\): Expected reduction dim 0 to have non-zero size"):
            getattr(ferro.ones(0, 2), name)(0)


# -- medians, modes, quantiles -----------------------------------------------------------------------------------------


def test_the_median_is_the_lower_of_two_and_nan_with_nan() -> None:
    x = ferro.tensor([[4.0, 1.0, 3.0, 2.0], [5.0, NAN, 0.0, NAN]])
    assert x[0].median().item() == 2
    values, indices = x.median(1)
    assert values[0].item() == 2
    assert indices.tolist() == [3, 1]
    assert np.isnan(values[1].item())
    assert np.isnan(x.median().item())
    assert x.nanmedian(1).values.tolist() == [2, 0]
    assert x.nanmedian().item() == 2
    assert np.isnan(ferro.zeros(0).median().item())
    assert np.isnan(ferro.full((2,), NAN).nanmedian().item())
    assert ferro.tensor([3, 1]).median().item() == 1


def test_elements_equal_to_the_median_of_all_share_its_gradient() -> None:
    x = leaf([2.0, 2.0, 1.0, 2.0])
    np.testing.assert_allclose(grad(x.median(), x), [1 / 3, 1 / 3, 0, 1 / 3])
    assert sorted(grad(x.median(0).values, x)) == [0, 0, 0, 1]


def test_the_mode_is_the_smallest_most_frequent_element_where_it_is_last() -> None:
    found = ferro.tensor([[2, 1, 2, 1, 1, 2, 0], [5, 5, 3, 5, 3, 3, 9]]).mode()
    assert found.values.tolist() == [1, 3]
    assert found.indices.tolist() == [4, 5]
    assert ferro.tensor([[1.0, 1, 0], [0, 2, 2]]).mode(0).values.tolist() == [0, 1, 0]


def test_quantiles_between_elements() -> None:
    x = ferro.tensor([3.0, 0.0, 1.0, 2.0])
    for name, want in (("linear", 1.11), ("lower", 1), ("higher", 2), ("midpoint", 1.5), ("nearest", 1)):
        assert x.quantile(0.37, interpolation=name).item() == pytest.approx(want)
    q = ferro.tensor([0.0, 0.5, 1.0])
    assert x.quantile(q).tolist() == [0, 1.5, 3]
    y = x.reshape(2, 2)
    assert y.quantile(q, 1).shape == (3, 2)
    assert y.quantile(q, 1, keepdim=True).shape == (3, 2, 1)
    assert y.quantile(0.5, keepdim=True).shape == (1, 1)
    z = ferro.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]])
    assert np.isnan(z.quantile(0.5, 1).numpy()).all()
    assert z.nanquantile(0.5, 1)[0].item() == 2
    assert np.isnan(z.nanquantile(0.5, 1)[1].item())


def test_quantiles_of_wrong_arguments_are_explained() -> None:
    x = ferro.ones(3)
    for call, text in (
        (lambda: x.quantile(1.5), "range \\[0, 1\\] but got 1.5"),
        (lambda: x.quantile(ferro.tensor([2.0])), "in the range"),
        (lambda: x.quantile(ferro.ones(1, 1)), "scalar or 1D"),
        (lambda: x.quantile(ferro.ones(1).double()), "same dtype"),
        (lambda: x.quantile(0.5, interpolation="cubic"), "but got cubic"),
        (lambda: x.half().quantile(0.5), "float or double"),
        (lambda: ferro.ones(0).quantile(0.5), "must be non-empty"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


# -- unique elements ---------------------------------------------------------------------------------------------------


def test_unique_elements_and_slices() -> None:
    found, inverse, counts = ferro.unique(ferro.tensor([[3, 1], [1, 2]]), return_inverse=True, return_counts=True)
    assert (found.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 3], [[2, 0], [0, 1]], [2, 1, 1])
    x = ferro.tensor([[3, 1], [1, 2], [3, 1], [1, 0]])
    found, inverse = x.unique(dim=0, return_inverse=True)
    assert found.tolist() == [[1, 0], [1, 2], [3, 1]]
    assert inverse.tolist() == [2, 1, 2, 0]
    assert ferro.unique(ferro.tensor([NAN, 1.0, NAN])).shape == (3,)
    assert ferro.unique(ferro.tensor([2.0, 1.0], dtype=ferro.bfloat16)).dtype is ferro.bfloat16
    with pytest.raises(RuntimeError, match="0 sized dimensions"):
        ferro.unique(ferro.ones(2, 0), dim=0)


def test_unique_neighbours() -> None:
    x = ferro.tensor([1, 1, 2, 1, 1])
    found, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert (found.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2, 2], [2, 1, 2])
    assert ferro.unique_consecutive(ferro.tensor([[1, 1], [1, 1], [0, 1]]), dim=0).tolist() == [[1, 1], [0, 1]]


# -- search and histograms ---------------------------------------------------------------------------------------------


def test_search_in_sorted_sequences() -> None:
    edges = ferro.tensor([1.0, 3.0, 3.0, 7.0])
    x = ferro.tensor([0.0, 3.0, 7.0, NAN])
    assert ferro.searchsorted(edges, x).tolist() == [0, 1, 3, 4]
    assert ferro.searchsorted(edges, x, right=True).tolist() == [0, 3, 4, 4]
    assert ferro.bucketize(x, edges, right=True).tolist() == [0, 3, 4, 4]
    assert ferro.searchsorted(edges, 3, side="right", out_int32=True).dtype is ferro.int32
    rows = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ferro.searchsorted(rows, ferro.tensor([[1.5], [1.5]])).tolist() == [[1], [0]]
    mixed = ferro.tensor([3.0, 1.0, 2.0])
    assert ferro.searchsorted(mixed, x[:2], sorter=ferro.tensor([1, 2, 0])).tolist() == [0, 2]
    for call, text in (
        (lambda: ferro.searchsorted(edges, 1.0, side="up"), "'left' or 'right'"),
        (lambda: ferro.searchsorted(edges, 1.0, side="left", right=True), "opposites"),
        (lambda: ferro.searchsorted(rows, ferro.ones(3, 1)), r"must match, but we got .* \[2, 2\] and .* \[3, 1\]"),
        (lambda: ferro.searchsorted(rows, 1.0), "can be a scalar only when boundaries tensor dimension is 1"),
        (lambda: ferro.searchsorted(mixed, x, sorter=ferro.tensor([0, 1, 5])), "out of range"),
        (
            lambda: ferro.searchsorted(mixed, x, sorter=mixed),
            "sorter must be a tensor of long dtype but got dtype Float",
        ),
        (lambda: ferro.bucketize(x, rows), "must be 1 dimension"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_counts() -> None:
    x = ferro.tensor([1, 1, 3])
    assert x.bincount().tolist() == [0, 2, 0, 1]
    assert x.bincount(minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    weighted = x.bincount(ferro.tensor([0.5, 1.0, 2.0]))
    assert weighted.tolist() == [0, 1.5, 0, 2]
    assert weighted.dtype is ferro.float32
    assert x.bincount(ferro.tensor([1, 2, 3])).dtype is ferro.float64
    for call in (lambda: ferro.tensor([-1]).bincount(), lambda: ferro.tensor([[1]]).bincount()):
        with pytest.raises(RuntimeError, match="1-d non-negative"):
            call()


def test_histograms() -> None:
    x = ferro.tensor([1.0, 2.0, 1.0, 3.0, NAN])
    assert x[:4].histc(4).tolist() == [2, 0, 1, 1]
    assert x.histc(3, 0, 3).tolist() == [0, 2, 2]
    hist, edges = x.histogram(3, range=(0.0, 3.0))
    assert (hist.tolist(), edges.tolist()) == ([0, 2, 2], [0, 1, 2, 3])
    assert ferro.histogram(x, ferro.tensor([0.0, 1.5, 2.5])).hist.tolist() == [2, 1]
    assert ferro.histogram(x[:4], 2, density=True).hist.tolist() == [0.5, 0.5]
    grid = ferro.histogramdd(ferro.tensor([[0.0, 0.0], [1.0, 2.0], [1.0, 0.0]]), [2, 2])
    assert grid.hist.tolist() == [[1, 0], [1, 1]]
    for call, text in (
        (lambda: x.histc(3), "not finite"),
        (lambda: x.histc(0, 0, 1), "bins must be > 0"),
        (lambda: x.histc(3, 2, 1), "max must be larger"),
        (lambda: x.histogram(ferro.tensor([[0.0, 1.0]])), "one dimension"),
        (
            lambda: x.histogram(3, range=(0.0, 1.0), weight=ferro.ones(2)),
            "should have the same shape as the input tensor",
        ),
        (lambda: ferro.histogramdd(x, [3]), "at least 2 dimensions"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


# -- ties: the places are those of the stable order, whatever sort the processor has ------------------------------------

_TIED = ["float16", "bfloat16", "float32", "float64", "int64", "int32", "uint8"]


@pytest.mark.parametrize("size", [7, 63, 64, 300, 5000])
@pytest.mark.parametrize("name", _TIED)
def test_of_equal_elements_the_first_come_first(rng: np.random.Generator, name: str, size: int) -> None:
    x = rng.integers(0, 9, (3, size)).astype(np.float64)
    if "float" in name:
        x[:, ::7] = np.nan
        x[:, 1::7] = -0.0
    t = ferro.tensor(x.tolist(), dtype=ferro.float64).to(getattr(ferro, name))
    ascending = np.argsort(x, 1, kind="stable")
    descending = (size - 1 - np.argsort(x[:, ::-1], 1, kind="stable"))[:, ::-1]
    for down, order in ((False, ascending), (True, descending)):
        assert (t.sort(1, descending=down).indices.numpy() == order).all()
        assert (t.argsort(1, descending=down).numpy() == order).all()
        for k in {1, 2, size // 9, size // 5, size // 2, size} - {0}:
            assert (t.topk(k, 1, largest=down).indices.numpy() == order[:, :k]).all(), k
    for k in {1, size // 3, size}:
        assert (t.kthvalue(k, 1).indices.numpy() == ascending[:, k - 1]).all()
    if "float" not in name:
        assert (t.median(1).indices.numpy() == ascending[:, (size - 1) // 2]).all()
    values, inverse, counts = ferro.unique(t, return_inverse=True, return_counts=True)
    assert counts.sum().item() == x.size
    assert (values.double().numpy()[inverse.numpy()] == x)[~np.isnan(x)].all()
    missing = inverse.numpy()[np.isnan(x)]
    assert (missing == np.sort(missing)).all()  # each nan is distinct, in the order of the elements


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("kind", ["different", "ties", "in order", "nan", "equal", "infinite"])
@pytest.mark.parametrize("n", [ORDER_LEAST - 1, ORDER_LEAST, 100_000])
def test_elements_of_long_rows_are_selected(n: int, kind: str, dtype: Any, rng: np.random.Generator) -> None:
    x = (1000 * rng.standard_normal(n)).astype(dtype)
    if kind == "ties":
        x //= 500
    elif kind == "in order":
        x.sort()
    elif kind == "equal":
        x[:] = 3
    elif kind in ("nan", "infinite") and x.dtype.kind == "f":
        x[rng.random(n) < 0.3] = np.nan if kind == "nan" else -np.inf
    descending = np.sort(x)[::-1]  # nan counts as the largest
    stable = np.argsort(-x, kind="stable")
    if kind != "nan":
        np.testing.assert_array_equal(ferro.from_numpy(x).topk(1000).indices.numpy(), stable[:1000])
    np.testing.assert_array_equal(ferro.from_numpy(x).topk(1000).values.numpy(), descending[:1000])
    for k in (1, 2, n // 2, n - 1000, n):
        value, index = ferro.from_numpy(x).kthvalue(k)
        np.testing.assert_array_equal(value.numpy(), descending[n - k])
        np.testing.assert_array_equal(x[int(index)], descending[n - k])
