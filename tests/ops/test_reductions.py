"""Reductions: dtypes, accuracy, conventions at ties, zeros and infinities, the forms of a call, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.native.threads import get_num_threads, set_num_threads

NAN, INF = float("nan"), float("inf")
HALVES = [ferro.float16, ferro.bfloat16]


def leaf(values: Any, dtype: Any = ferro.float64) -> Any:
    return ferro.tensor(values, dtype=dtype, requires_grad=True)


def grad(y: Any, x: Any) -> list:
    return ferro.autograd.grad(y.sum(), x)[0].tolist()


# -- dtypes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [ferro.bool, ferro.uint8, ferro.int8, ferro.int32])
def test_integers_are_added_and_multiplied_as_int64(dtype: Any) -> None:
    x = ferro.ones(300, dtype=dtype)
    assert x.sum().dtype is ferro.int64
    assert x.sum().item() == 300
    assert x.prod().dtype is ferro.int64
    assert x.sum(dtype=ferro.int8).item() == np.int8(300 % 256)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_of_16_bit_floats_are_rounded_once(dtype: Any) -> None:
    x = ferro.ones(4096, 2, dtype=dtype)  # adding one by one would stop at 256 (bfloat16) or 2048 (float16)
    for total in (x.sum(0), x.nansum(0), x.mean(0) * 4096, x.T.contiguous().sum(1), x.cumsum(0)[-1]):
        assert total.dtype is dtype
        assert total.tolist() == [4096, 4096]


@pytest.mark.parametrize("name", ["mean", "nanmean", "var", "std", "var_mean", "std_mean"])
def test_means_of_integers_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{name}.*floating point (or|and) complex.*(int64|Long)"):
        getattr(ferro, name)(ferro.ones(3, dtype=ferro.int64))
    if name == "mean":
        assert ferro.mean(ferro.tensor([1, 2]), dtype=ferro.float32).item() == 1.5


def test_all_and_any_are_bool_but_uint8_for_uint8() -> None:
    assert ferro.tensor([1.0, 0.0]).any().dtype is ferro.bool
    assert ferro.ones(2, dtype=ferro.uint8).all().dtype is ferro.uint8
    x = ferro.tensor([[1, 0], [1, 1]])
    assert ferro.all(x, ()).tolist() == [[True, False], [True, True]]
    assert ferro.all(x, (0, 1)).item() is False


# -- accuracy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(100_000, 3), (3, 100_000), (300, 40, 11), (7, 50_000), (20_000,)])
@pytest.mark.parametrize("backwards", [False, True])
def test_long_float32_sums_lose_nothing_along_any_dimension(shape: tuple, backwards: bool, seed: int) -> None:
    a = np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)
    if backwards:
        a = a.T
    x = ferro.from_numpy(a)
    exact = a.astype(np.float64)
    for dim in [None, *range(a.ndim)]:
        for keepdim in (False, True):
            for got, want in (
                (x.sum(dim, keepdim), exact.sum(dim, keepdims=keepdim)),
                (x.mean(dim, keepdim), exact.mean(dim, keepdims=keepdim)),
                (x.var(dim, keepdim=keepdim), exact.var(dim, keepdims=keepdim, ddof=1)),
                (x.norm(2, dim, keepdim), np.sqrt((exact**2).sum(dim, keepdims=keepdim))),
            ):
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_the_variance_of_numbers_far_from_zero_is_accurate(seed: int) -> None:
    a = (np.random.default_rng(seed).standard_normal((400, 500)) + 1e4).astype(np.float32)
    for dim in (0, 1):
        np.testing.assert_allclose(
            ferro.from_numpy(a).var(dim).numpy(), a.astype(np.float64).var(dim, ddof=1), rtol=1e-5
        )


def test_large_reductions_do_not_depend_on_the_number_of_threads(seed: int) -> None:
    x = ferro.tensor(np.random.default_rng(seed).standard_normal((1500, 2100)), dtype=ferro.float32)
    before = get_num_threads()
    found = []
    try:
        for n in (1, 2, 5):
            set_num_threads(n)
            dims = ((0, 1), (0,), (1,))
            found.append([f(dim=d).tolist() for f in (x.sum, x.var, x.logsumexp, x.norm) for d in dims])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


# -- conventions -------------------------------------------------------------------------------------------------------


def test_the_gradient_of_prod_is_exact_where_elements_are_zero() -> None:
    for values, want in (([2.0, 0.0, 3.0], [0, 6, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([2.0, 5.0], [5, 2])):
        x = leaf(values)
        assert grad(x.prod(), x) == want
    x = leaf([0.0, 0.0, 3.0])
    (first,) = ferro.autograd.grad(x.prod(), x, create_graph=True)
    assert grad(first[0], x) == [0, 3, 0]  # d(x1 x2)/dx1 although the gradient itself is 0


def test_the_variance_over_too_few_elements_is_infinite_or_nan() -> None:
    x = leaf([1.0, 3.0])
    too_few = "degrees of freedom is <= 0. Correction should be strictly less than the reduction factor"
    for correction in (2, 3):
        with pytest.warns(UserWarning, match=rf"var\(\): {too_few}.* factor 2"):
            y = x.var(correction=correction)
        assert y.item() == INF
        assert grad(y, x) == [INF, INF]
    for name in ("var", "std", "var_mean", "std_mean"):
        with pytest.warns(UserWarning, match=rf"^{name}\(\): {too_few}"):
            getattr(ferro, name)(x.expand(3, 2), 1, correction=2)
        getattr(ferro, name)(x.expand(3, 2), 0, correction=2)
    with pytest.warns(UserWarning, match=too_few):
        assert np.isnan(leaf([1.0]).var().item())
    assert np.isnan(ferro.zeros(0).mean().item())
    one = leaf([1.0])
    assert grad(one.var(correction=0), one) == [0]


def test_the_gradient_of_a_zero_standard_deviation_is_zero() -> None:
    x = leaf([[3.0, 3.0], [1.0, 2.0]])
    np.testing.assert_allclose(grad(x.std(1), x), [[0, 0], [-(0.5**0.5), 0.5**0.5]])
    np.testing.assert_allclose(grad(ferro.std_mean(x, 1)[0], x), grad(x.std(1), x))


def test_logsumexp_of_nothing_but_minus_infinity_is_minus_infinity_with_gradient_zero() -> None:
    x = leaf([[-INF, -INF], [-INF, 2.0]])
    y = x.logsumexp(1)
    assert y.tolist() == [-INF, 2.0]
    assert grad(y, x) == [[0, 0], [0, 1]]
    assert ferro.zeros(0, 2).logsumexp(0).tolist() == [-INF, -INF]
    assert ferro.logsumexp(ferro.tensor([1000.0, 1000.0]), 0).item() == pytest.approx(1000.6931, abs=1e-3)
    assert ferro.logsumexp(ferro.tensor([1, 2]), 0).dtype is ferro.float32


def test_ties_share_the_gradient_of_an_extremum_of_all_elements() -> None:
    x = leaf([2.0, 1.0, 2.0, 1.0])
    for f in (ferro.amax, ferro.max, lambda t: ferro.aminmax(t).max, lambda t: t.amax(0)):
        assert grad(f(x), x) == [0.5, 0, 0.5, 0]
    for f in (ferro.amin, ferro.min, lambda t: ferro.aminmax(t).min):
        assert grad(f(x), x) == [0, 0.5, 0, 0.5]
    low, high = ferro.aminmax(x)
    assert grad(low + high, x) == [0.5, 0.5, 0.5, 0.5]
    nans = leaf([NAN, 1.0, NAN])
    assert grad(nans.max(), nans) == [0.5, 0, 0.5]


def test_along_a_dimension_the_first_of_several_equal_elements_gets_the_gradient() -> None:
    x = leaf([[2.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
    values, indices = x.max(1)
    assert values.tolist() == [2, 3]
    assert indices.tolist() == [0, 2]
    assert indices.dtype is ferro.int64
    assert grad(values, x) == [[1, 0, 0], [0, 0, 1]]
    assert grad(x.min(0).values, x) == [[0, 0, 1], [1, 1, 0]]


def test_nan_is_found_by_every_extremum() -> None:
    for dtype in (ferro.float32, *HALVES):
        x = ferro.tensor([1.0, NAN, 3.0]).to(dtype)
        for y in (x.amax(), x.amin(), x.max(0).values, x.min(0)[0], *ferro.aminmax(x)):
            assert np.isnan(y.item())
        assert x.argmax().item() == x.argmin().item() == 1


def test_reductions_of_a_zero_dimensional_tensor() -> None:
    x = leaf(3.0)
    for y in (x.sum(0), x.mean(-1), x.amax(0), x.max(0).values, x.prod(0), x.logsumexp(0), x.sum((0,)), x.min()):
        assert y.shape == ()
        assert y.item() == 3
        assert grad(y, x) == 1
    assert x.argmax(0).item() == 0
    assert x.var(correction=0).item() == 0


# -- forms of a call ---------------------------------------------------------------------------------------------------


def test_max_and_min_have_three_forms() -> None:
    x, y = ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), ferro.tensor([4.0, 4.0])
    assert x.max().item() == 7
    assert x.max(y).tolist() == ferro.max(x, other=y).tolist() == [[4, 5], [7, 4]]
    assert ferro.min(x, y).tolist() == [[1, 4], [4, 2]]
    found: Any = ferro.max(x, dim=1, keepdim=True)
    assert found.values.shape == found.indices.shape == (2, 1)
    assert issubclass(type(found), tuple)
    assert type(found) is ferro.return_types.max
    assert "return_types.max(\nvalues=" in repr(found)
    with pytest.raises(AttributeError, match="values, indices"):
        _ = found.index_


def test_numpy_names_of_dimensions_are_taken() -> None:
    x = ferro.arange(6.0).reshape(2, 3)
    assert x.sum(axis=1, keepdims=True).tolist() == [[3], [12]]
    assert x.max(axis=0).values.tolist() == [3, 4, 5]
    assert ferro.mean(x, axis=(0, 1)).item() == 2.5
    assert x.std(axis=0).tolist() == x.std(0).tolist()
    assert x.all(axis=1).tolist() == [False, True]
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        x.sum(axes=1)


def test_variances_take_the_older_signature() -> None:
    x = ferro.tensor([[1.0, 2.0, 6.0], [0.0, 4.0, 4.0]])
    assert x.var(False).item() == x.var(correction=0).item() == x.var(unbiased=False).item()
    assert x.std(1, False).tolist() == x.std(1, correction=0).tolist()
    assert x.var(1, True, True).tolist() == x.var(dim=1, keepdim=True).tolist()
    for v, m in (ferro.var_mean(x, 1), ferro.std_mean(x, 1)):
        assert m.tolist() == x.mean(1).tolist()
        assert v.shape == (2,)
    with pytest.raises(TypeError, match="either unbiased or correction"):
        x.var(unbiased=True, correction=1)


def test_out_takes_the_result() -> None:
    x = ferro.tensor([[1.0, 2.0], [5.0, 3.0]])
    out = ferro.empty(2)
    assert ferro.sum(x, 0, out=out) is out
    assert out.tolist() == [6, 5]
    values, indices = ferro.empty(2), ferro.empty(2, dtype=ferro.int64)
    ferro.max(x, 1, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([2, 5], [1, 0])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        ferro.max(x, 1, out=(values.double(), indices))


def test_sums_and_products_are_computed_in_the_dtype_of_out() -> None:
    x = ferro.tensor([[1.5, 2.5]])
    for name, expected in (("sum", [3]), ("prod", [2])):
        out = ferro.zeros(1, dtype=ferro.int32)
        getattr(ferro, name)(x, 1, out=out)
        assert out.tolist() == expected
    for name, out in (("cumsum", x.long()), ("cumprod", x.bool())):
        getattr(ferro, name)(x.double(), 1, out=out)
        assert out.tolist() == getattr(x.to(out.dtype), name)(1).tolist()
    for name in ("sum", "prod", "cumsum", "cumprod", "mean"):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
            getattr(ferro, name)(x, 1, dtype=ferro.float64, out=ferro.zeros(1, 2))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "amax(x, 1, out=whole)",
            "Expected the dtype for input and out to match, but got Float for input's dtype and Long for out's dtype.",
        ),
        ("argmin(x, 1, out=real)", "Expected out tensor to have dtype long int, but got float instead"),
        ("all(x, 1, out=real)", "all only supports bool tensor for result, got: Float"),
        ("any(x, 1, out=whole)", "any only supports bool tensor for result, got: Long"),
        ("logsumexp(x, 1, out=whole)", "logsumexp(): Expected floating point type for result tensor, but got: Long"),
        ("std(x, 1, out=whole)", "result type Float can't be cast to the desired output type Long"),
        ("nansum(x, 1, out=whole)", "\"nansum_cpu\" not implemented for 'Long'"),
        ("quantile(x, 0.5, 1, out=whole)", "quantile() out tensor must be same dtype as the input tensor"),
        ("mode(x, 1, out=(whole, whole))", "expected scalar type 'Float' but got 'Long' for values output"),
        ("mode(x, 1, out=(real, real))", "expected scalar type 'Long' but got 'Float' for indices output"),
        ("sort(x, 1, out=(whole, whole))", "Expected out tensor to have dtype float, but got long int instead"),
        ("cummax(x, 1, out=(whole, whole))", "expected scalar_type Float but found Long"),
        (
            "bucketize(real, real, out=real)",
            "output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether",
        ),
        ("searchsorted(real + 1j, real)", "\"searchsorted_out_cpu\" not implemented for 'ComplexFloat'"),
        (
            "histogram(x, real.double())",
            "input tensor and bins tensors should have the same dtype, but got input with dtype float",
        ),
        (
            "histogram(x, 1, weight=x.double())",
            "input tensor and weight tensor should have the same dtype, but got input(float), and weight(double)",
        ),
        (
            "histogram(x, 1, out=(whole, real))",
            "input tensor and hist tensor should have the same dtype, but got input float and hist long int",
        ),
        ("histogram(x, 2, range=(1, 0))", "min should not exceed max, but got min 1 max 0 for dimension 0"),
        ("histogram(real * float('nan'), 2)", "dimension 0's range [nan, nan] is not finite"),
        ("histogram(x, real, range=(0, 1))", "received an invalid combination of arguments"),
        (
            "histogram(x, real[:0])",
            "bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0",
        ),
    ],
    ids=str,
)
def test_wrong_results_and_bins_are_refused_in_pytorchs_words(call: str, sentence: str) -> None:
    torch = pytest.importorskip("torch")
    said = []
    for T in (torch, ferro):
        names = {"x": T.ones(2, 3), "whole": T.zeros(2, dtype=T.int64), "real": T.zeros(2)}
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)) as caught:
            eval(f"T.{call}", {"T": T, **names})
        said.append((type(caught.value), str(caught.value)))
    assert said[0][0] is said[1][0]
    assert all(sentence in text for _, text in said)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_wrong_dimensions_are_named() -> None:
    x = ferro.ones(2, 3)
    for call in (lambda: x.sum(2), lambda: x.amax((0, -3)), lambda: x.argmax(5), lambda: x.var(2), lambda: x.max(2)):
        with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got"):
            call()
    with pytest.raises(RuntimeError, match="sum: dim 1 appears multiple times"):
        x.sum((1, -1))


def test_extrema_of_nothing_are_refused() -> None:
    x = ferro.ones(0, 3)
    for name in ("amax", "max", "min", "amin"):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): Expected reduction dim to be specified.*\[0, 3\]"):
            getattr(x, name)()
        with pytest.raises(IndexError, match=rf"{name}\(\): Expected reduction dim 0 to have non-zero size.*\[0, 3\]"):
            getattr(x, name)(0)
    with pytest.raises(IndexError, match="Expected reduction dim to be specified"):
        x.argmax()
    assert x.amax(1).shape == (0,)
    assert x.max(1).indices.shape == (0,)


def test_complex_numbers_and_bools_have_no_extrema_where_pytorch_has_none() -> None:
    z = ferro.ones(2, dtype=ferro.complex64)
    for name in ("amax", "max", "aminmax", "nansum"):
        with pytest.raises(RuntimeError, match=f"{name}: .*complex tensors are not supported"):
            getattr(ferro, name)(z)
    for x in (z, ferro.ones(2, dtype=ferro.bool)):
        with pytest.raises(RuntimeError, match=r"argmax.*does not support"):
            x.argmax()
    assert ferro.tensor([True, False]).amax().item() is True


def test_tensors_are_asked_for() -> None:
    wrong: Any = [1.0, 2.0]
    for call in (lambda: ferro.sum(wrong), lambda: ferro.amax(wrong), lambda: ferro.var(wrong)):
        with pytest.raises(TypeError, match="must be Tensor"):
            call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nansum_with_infinities_beside_nan(dtype: str, torch: Any) -> None:
    rows = [[1.0, NAN, 2.0], [INF, 1.0, NAN], [INF, -INF, 1.0], [INF, -INF, NAN], [NAN, NAN, NAN], [1.0, 2.0, 3.0]]
    x, y = ferro.tensor(rows, dtype=getattr(ferro, dtype)), torch.tensor(rows, dtype=getattr(torch, dtype))
    for dim in (None, 0, 1):
        with np.errstate(invalid="ignore"):
            found = x.nansum(dim)
        np.testing.assert_array_equal(np.asarray(found.double()), y.nansum(dim).double().numpy())
