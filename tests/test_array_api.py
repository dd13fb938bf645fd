"""ferro.array_api beside NumPy's main namespace, which follows the same standard; the official tests are `make array-api`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro import array_api
from tests.helpers import run_python

# Expressions of xp, of x (2, 3) and y (3,), floating, of i and u, integers, of c, complex, and of b, truth values.
CALLS = """
    add(x, y); add(x, 2); subtract(1.5, x); multiply(x, i); divide(x, y); floor_divide(i, 2); remainder(i, 2); pow(x, 2); pow(2, i);
    atan2(x, 1.0); hypot(x, y); logaddexp(x, y); maximum(x, 1.0); minimum(i, 2); copysign(x, -1.0); nextafter(x, y); equal(x, 1);
    not_equal(x, y); less(x, y); less_equal(i, 1); greater(x, 1); greater_equal(1, x); bitwise_and(i, 1); bitwise_or(i, u); bitwise_xor(i,
    3); bitwise_left_shift(i, 1); bitwise_right_shift(i, u); bitwise_invert(i); logical_and(b, True); logical_or(b, b); logical_xor(b,
    True); logical_not(b); abs(c); conj(c); real(c); imag(c); sign(c); sign(x - 1); sqrt(x); exp(c); log1p(x); square(i); reciprocal(y);
    floor(x / 2); ceil(i); trunc(x); round(x / 3); isfinite(x); isnan(x); isinf(x); signbit(-x); negative(i); positive(x); clip(x, 1.0,
    3.0); clip(i, min=1); sin(x); tanh(c); expm1(x); log2(y); sum(x); sum(x, axis=0); sum(u, axis=(0, 1), keepdims=True); sum(i,
    dtype=xp.float32); sum(b); prod(x, axis=(0, 1)); prod(u); mean(x, axis=-1); var(x, axis=1, correction=1.0); std(x); max(x, axis=0);
    min(i); all(b, axis=1); any(x); argmax(x); argmax(x, axis=1, keepdims=True); argmin(x, keepdims=True); count_nonzero(x, axis=0);
    cumulative_sum(x, axis=1); cumulative_sum(y, include_initial=True); cumulative_prod(i, axis=0); diff(x); diff(x, axis=0, n=1);
    concat((x, i), axis=None); concat([x, x], axis=1); stack([x, x], axis=-1); expand_dims(x, axis=(0, -1)); flip(x); flip(x, axis=0);
    moveaxis(x, 0, 1); permute_dims(x, (1, 0)); repeat(x, 2); repeat(x, 2, axis=1); reshape(x, (3, 2)); roll(x, 1); roll(x, (1, 2), axis=(0,
    1)); squeeze(expand_dims(x, axis=1), axis=1); tile(x, (2, 1, 2)); broadcast_to(y, (2, 3)); unstack(x)[1]; take(x, i[0, :2], axis=1);
    take_along_axis(x, i[:, :2], axis=1); where(b, x, 0.0); where(b, i, x); nonzero(x)[1]; searchsorted(y, x); searchsorted(y, x,
    side="right"); argsort(y); sort(x, axis=0); sort(unique_values(i)); unique_counts(c).counts; unique_all(c[1]).values;
    matrix_transpose(x); unique_counts(i).counts; unique_inverse(i).inverse_indices; unique_all(i).indices; matmul(x, matrix_transpose(x));
    tensordot(x, x, axes=((0, 1), (0, 1))); vecdot(c, c); arange(5); arange(1.0, 2.0, 0.25); arange(3, 0, -1); arange(3, 0); eye(2, 3, k=1);
    full((2,), 1.5); full_like(x, 2); zeros((2, 2)); ones(3, dtype=xp.int8); linspace(0, 1, 5, endpoint=False); linspace(0, 1j, 3); tril(x,
    k=-1); triu(x); meshgrid(y, y)[0]; asarray([[1, 2], [3, 4]]); asarray(x, dtype=xp.int32); astype(x, xp.int16); broadcast_arrays(x,
    y)[1]; empty_like(x) * 0; zeros_like(b); linalg.matmul(x, y); linalg.outer(y, y); linalg.cross(y, y[::1] + 1); linalg.diagonal(x,
    offset=1); linalg.trace(x); linalg.vector_norm(x, axis=0); linalg.vector_norm(x, ord=1); linalg.matrix_norm(x); linalg.det(square3);
    linalg.inv(square3); linalg.solve(square3, y); linalg.solve(square3, square3); linalg.slogdet(square3).logabsdet;
    linalg.eigvalsh(square3); linalg.svdvals(x); linalg.pinv(x); linalg.matrix_rank(x); linalg.matrix_power(square3, 3);
    linalg.cholesky(square3); linalg.cholesky(square3, upper=True); fft.fft(y); fft.rfft(x, axis=0); fft.irfft(c, n=3); fft.fftn(x);
    fft.fftshift(x); fft.fftfreq(5, d=0.5); fft.hfft(c); fft.ihfft(x)
"""
CALLS = [" ".join(c.split()) for c in CALLS.split(";")]
DOUBLES = {"float32": "float64", "complex64": "complex128"}  # the default dtypes of NumPy


def names(xp: Any) -> dict[str, Any]:
    """What the expressions speak of, in one library."""
    table = [[1.0, 0.5, 2.0], [4.0, 3.0, 0.0]]
    given = {
        "x": xp.asarray(table, dtype=xp.float64),
        "y": xp.asarray([0.25, 1.0, 3.0], dtype=xp.float64),
        "i": xp.asarray([[0, 2, 1], [1, 1, 2]], dtype=xp.int64),
        "u": xp.asarray([[0, 2, 1], [1, 1, 2]], dtype=xp.uint8),
        "b": xp.asarray([[True, False, True], [False, False, True]]),
        "c": xp.asarray([[1 + 2j, 0.5j, 2 - 1j], [3 + 0j, -1 + 1j, 0.25 + 0.5j]], dtype=xp.complex128),
        "square3": xp.asarray([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]], dtype=xp.float64),
    }
    return {**{n: getattr(xp, n) for n in array_api.__all__}, **given, "xp": xp}


@pytest.mark.parametrize("call", CALLS)
def test_calls_give_what_numpy_gives(call: str) -> None:
    if any(not hasattr(np, n) for n in array_api.__all__):
        pytest.skip(f"NumPy {np.__version__} has not all functions of the standard")
    got, want = (eval(call, names(xp)) for xp in (array_api, np))
    assert isinstance(got, ferro.Tensor)
    kind = str(got.dtype).removeprefix("ferro.")
    assert str(want.dtype) in (kind, DOUBLES.get(kind))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6 if kind in DOUBLES else 1e-12, atol=1e-12)


def test_every_name_of_the_standard_is_there() -> None:
    """NumPy's functions of the standard by the calls above, and what a namespace must have besides."""
    called = {c.partition("(")[0] for c in CALLS}
    functions = {
        n
        for n in array_api.__all__
        if callable(getattr(array_api, n)) and not isinstance(getattr(array_api, n), ferro.dtype)
    }
    besides = {
        "can_cast",
        "finfo",
        "iinfo",
        "isdtype",
        "result_type",
        "from_dlpack",
        "empty",
        "ones_like",
        "unique_values",
    }
    elementwise = {
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "cosh",
        "exp",
        "log",
        "log10",
        "sinh",
        "tan",
    }
    assert functions <= called | besides | elementwise
    assert {"pi", "e", "inf", "nan", "newaxis", "bool", "uint64", "complex128", "linalg", "fft"} <= set(
        array_api.__all__
    )


PROMOTIONS = """
    int8 int16 int16, uint8 int8 int16, uint16 int32 int32, uint32 int16 int64, float32 float64 float64, float32 complex128 complex128,
    bool bool bool
"""


@pytest.mark.parametrize("xp_types", [tuple(p.split()) for p in PROMOTIONS.split(",")], ids="-".join)
def test_types_are_promoted_by_dtype_alone(xp_types: tuple[str, str, str]) -> None:
    first, second, want = (getattr(array_api, t) for t in xp_types)
    assert array_api.result_type(first, second) is array_api.result_type(second, first) is want
    for shape in ((2,), ()):  # a 0-d array counts
        x, y = array_api.ones((2,), dtype=first), array_api.ones(shape, dtype=second)
        assert array_api.where(array_api.asarray(True), x, y).dtype is want
    assert array_api.can_cast(first, want)
    assert array_api.can_cast(want, first) is (first is want)


def test_types_of_numbers_beside_arrays() -> None:
    x = array_api.ones(2, dtype=array_api.float32)
    assert array_api.add(x, 1).dtype is array_api.add(2.5, x).dtype is ferro.float32
    assert array_api.result_type(x, 1j) is ferro.complex64
    assert array_api.result_type(array_api.int8, 3) is ferro.int8
    with pytest.raises(TypeError, match="no integer dtype holds both"):
        array_api.result_type(array_api.int64, array_api.uint64)
    with pytest.raises(TypeError, match="expected arrays, dtypes and numbers, got str"):
        array_api.result_type("float32")


def test_gradients_flow_through_the_namespace() -> None:
    x = ferro.tensor([3.0, 4.0], requires_grad=True)
    xp = x.__array_namespace__(api_version="2023.12")
    xp.linalg.vector_norm(xp.concat([x, xp.zeros(1)])).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8], rtol=1e-6)
    with pytest.raises(ValueError, match=r"not '2020\.01'"):
        x.__array_namespace__(api_version="2020.01")


def test_descending_order_is_stable() -> None:
    x = array_api.asarray([1, 2, 1, 2])
    assert array_api.argsort(x, descending=True).tolist() == [1, 3, 0, 2]
    assert array_api.sort(x, descending=True).tolist() == [2, 2, 1, 1]
    assert array_api.unique_values(x).tolist() == [1, 2]


def test_refusals() -> None:
    x = array_api.ones((2, 3))
    with pytest.raises(ValueError, match="dimension 0 has 2 elements"):
        array_api.squeeze(x, axis=0)
    with pytest.raises(IndexError, match="axis must be between -3 and 2"):
        array_api.expand_dims(x, axis=3)
    with pytest.raises(ValueError, match="a copy is needed"):
        array_api.reshape(x.T, (6,), copy=False)
    with pytest.raises(ValueError, match="a copy is needed"):
        array_api.asarray(x, dtype=array_api.int32, copy=False)
    with pytest.raises(ValueError, match="kind must be one of"):
        array_api.isdtype(array_api.int8, "integer")
    for call in (array_api.take, array_api.cumulative_sum):
        with pytest.raises(ValueError, match="axis must be given"):
            call(x, *([array_api.asarray([0])] if call is array_api.take else []))
    with pytest.raises(ValueError, match="0-d array"):
        array_api.nonzero(array_api.asarray(1.0))


def test_what_the_namespace_says_of_itself() -> None:
    info = array_api.__array_namespace_info__()
    assert info.dtypes(kind="real floating") == {"float32": ferro.float32, "float64": ferro.float64}
    assert info.default_dtypes()["integral"] is ferro.int64
    assert info.devices() == [info.default_device()]
    assert info.capabilities()["boolean indexing"]
    limits = array_api.finfo(array_api.complex64)
    assert (limits.dtype, limits.bits, limits.smallest_normal) == (ferro.float32, 32, float(np.finfo(np.float32).tiny))
    assert array_api.iinfo(array_api.ones(1, dtype=array_api.uint8)).max == 255


def test_the_namespace_is_imported_on_use() -> None:
    said = run_python(
        "import sys, ferro; print('ferro.array_api' in sys.modules, ferro.ones(1).__array_namespace__().__name__)",
        FERRO_KERNELS="off",
    )
    assert said == "False ferro.array_api"
