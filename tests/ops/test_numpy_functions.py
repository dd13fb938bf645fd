"""NumPy's functions on tensors: as NumPy computes them, recorded where the tensors are, and refused where nothing can be recorded."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import numpy_functions
from ferro.numpy_functions import COMPARISONS, OPERATIONS, OPERATORS, REDUCTIONS, SCANS, SPECIAL

# Points at which all functions of one or two numbers are defined.
X, Y = np.array([0.3, 0.6, 0.9]), np.array([0.5, 0.25, 0.75])
ABOVE_ONE = {"arccosh"}


def points(ufunc: Any) -> list[np.ndarray]:
    """Arguments of a ufunc."""
    shift = 1 if ufunc.__name__ in ABOVE_ONE else 0
    return [X + shift, Y][: ufunc.nin]


def refusal() -> Any:
    return pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
@pytest.mark.parametrize("ufunc", OPERATIONS, ids=lambda u: u.__name__)
def test_a_ufunc_gives_what_numpy_gives(ufunc: Any, dtype: str) -> None:
    arrays = [np.ceil(a).astype(dtype) if dtype == "int64" else a.astype(dtype) for a in points(ufunc)]
    with np.errstate(all="ignore"):
        want = ufunc(*arrays)
        made = [ufunc(*map(ferro.from_numpy, arrays)), ufunc(ferro.from_numpy(arrays[0]), *arrays[1:])]
    if dtype != "int64":
        made.append(ufunc(*(ferro.tensor(a, requires_grad=True) for a in arrays)))
    for found in made:
        assert isinstance(found, ferro.Tensor)
        assert found.detach().numpy().dtype == (np.uint8 if want.dtype == np.bool_ else want.dtype)
        np.testing.assert_allclose(
            found.detach().numpy(), want, rtol={"float16": 2e-3, "float32": 1e-6}.get(dtype, 1e-12)
        )


def slopes(function: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Central differences of the sum of an elementwise function by each of its arguments."""
    found, step = [], 1e-6
    for i in range(len(arrays)):
        plus, minus = ([a + sign * step * (i == j) for j, a in enumerate(arrays)] for sign in (1, -1))
        found.append((function(*plus) - function(*minus)) / (2 * step))
    return found


FLAT = {"floor", "ceil", "rint", "trunc", "floor_divide", "nextafter"}


@pytest.mark.parametrize(
    "ufunc",
    [
        u
        for u in OPERATIONS
        if u not in COMPARISONS
        and u.types[0][-1] != "?"
        and u not in (np.logical_and, np.logical_not, np.logical_or, np.logical_xor)
        and u.__name__ not in ("matmul", *FLAT)
    ],
    ids=lambda u: u.__name__,
)
def test_a_ufunc_of_recorded_tensors_has_its_gradient(ufunc: Any) -> None:
    arrays = points(ufunc)
    tensors = [ferro.tensor(a, requires_grad=True) for a in arrays]
    ufunc(*tensors).sum().backward()
    for t, want in zip(tensors, slopes(ufunc, arrays), strict=True):
        np.testing.assert_allclose(t.grad.numpy(), want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", SPECIAL)
def test_scipys_ufuncs_are_recorded(name: str) -> None:
    special = pytest.importorskip("scipy.special")
    ufunc = getattr(special, name)
    arrays = [X, Y][: ufunc.nin]
    tensors = [ferro.tensor(a, requires_grad=True) for a in arrays]
    made = ufunc(*tensors)
    np.testing.assert_allclose(made.detach().numpy(), ufunc(*arrays), rtol=1e-12)
    made.sum().backward()
    for t, want in zip(tensors, slopes(ufunc, arrays), strict=True):
        np.testing.assert_allclose(t.grad.numpy(), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "ufunc", [u for u in OPERATORS if u.types[0][0] != "?" or u is not np.matmul], ids=lambda u: u.__name__
)
def test_an_array_or_a_number_of_numpys_on_the_left(ufunc: Any) -> None:
    bits = ufunc.__name__.startswith(("bitwise", "left", "right"))
    array, x = (
        (np.array([6, 5]), ferro.tensor([1, 2]))
        if bits
        else (np.array([6.0, 5.0]), ferro.tensor([1.0, 2.0], dtype=ferro.float64))
    )
    f = OPERATORS[ufunc]
    want = f(array, x.numpy())
    found = f(array, x)
    assert isinstance(found, ferro.Tensor)
    assert found.numpy().dtype == want.dtype
    assert found.tolist() == want.tolist()
    if ufunc is not np.matmul:
        assert f(array[0], x).tolist() == f(array[0], x.numpy()).tolist()


@pytest.mark.parametrize(
    "ufunc", [np.add, np.subtract, np.multiply, np.divide, np.power, np.matmul], ids=lambda u: u.__name__
)
def test_a_gradient_flows_past_an_array_on_the_left(ufunc: Any) -> None:
    x, array = ferro.tensor([1.0, 2.0], dtype=ferro.float64, requires_grad=True), np.array([3.0, 4.0])
    OPERATORS[ufunc](array, x).sum().backward()
    other = ferro.tensor([1.0, 2.0], dtype=ferro.float64, requires_grad=True)
    OPERATORS[ufunc](ferro.from_numpy(array), other).sum().backward()
    assert x.grad.tolist() == other.grad.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_a_number_of_numpys_counts_as_pythons(dtype: str) -> None:
    x = ferro.ones(2, dtype=getattr(ferro, dtype))
    for number in (np.float64(2), np.float32(2), np.float16(2), np.int8(2)):
        for f in (operator.add, operator.mul, operator.sub, operator.truediv):
            assert f(number, x).dtype is f(number.item(), x).dtype


@pytest.mark.parametrize("axis", [0, 1, (0, 1), None, -1], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ufunc", REDUCTIONS, ids=lambda u: u.__name__)
def test_reductions(ufunc: Any, keepdims: bool, axis: Any) -> None:
    if ufunc is np.logaddexp and isinstance(axis, tuple | None):
        pytest.skip("NumPy reduces by one axis only, as the order counts")
    array = np.array([[0.5, 2.0, 3.0], [4.0, 0.25, 0.0]])
    want = ufunc.reduce(array, axis=axis, keepdims=keepdims)
    for x in (ferro.tensor(array), ferro.tensor(array, requires_grad=True)):
        found = ufunc.reduce(x, axis=axis, keepdims=keepdims)
        assert isinstance(found, ferro.Tensor)
        np.testing.assert_allclose(found.detach().numpy(), want, rtol=1e-14)
        assert found.requires_grad == (x.requires_grad and want.dtype != np.bool_)
    assert ufunc.reduce(ferro.tensor(array[0], requires_grad=True)).item() == pytest.approx(
        float(ufunc.reduce(array[0]))
    )


@pytest.mark.parametrize("ufunc", SCANS, ids=lambda u: u.__name__)
def test_scans(ufunc: Any) -> None:
    array = np.array([[0.5, 2.0, 3.0], [4.0, 0.25, 0.5]])
    for axis in (0, 1):
        found = ufunc.accumulate(ferro.tensor(array, requires_grad=True), axis=axis)
        assert found.requires_grad
        np.testing.assert_allclose(found.detach().numpy(), ufunc.accumulate(array, axis=axis), rtol=1e-14)


def test_dtypes_are_numpys_with_and_without_history() -> None:
    for requires_grad in (False, True):
        x = ferro.ones(2, requires_grad=requires_grad)
        assert np.add(x, np.ones(2)).dtype is ferro.float64
        assert np.add(x, np.ones(2, np.int64)).dtype is ferro.float64
        assert np.add(x, 2).dtype is ferro.float32
        assert np.add(x, 2, dtype=np.float64).dtype is ferro.float64
        assert np.maximum(np.float64(0), x).dtype is ferro.float64
        assert np.add.reduce(x, dtype=np.float64).dtype is ferro.float64


REFUSED = {
    "a ufunc without an operation": lambda x: np.spacing(x),
    "two results": lambda x: np.divmod(x, 2),
    "the sign of nan": lambda x: np.sign(x),
    "outer": lambda x: np.multiply.outer(x, x),
    "at": lambda x: np.add.at(np.zeros(2), [0, 1], x),
    "reduceat": lambda x: np.add.reduceat(x, [0, 1]),
    "out": lambda x: np.add(x, 1, out=np.zeros(2, np.float32)),
    "augmented": lambda x: operator.iadd(np.zeros(2), x),
    "concatenate": lambda x: np.concatenate([x, x]),
    "where": lambda x: np.where(np.array([True, False]), x, 0),
    "array": lambda x: np.array([x, x]),
    "asarray": lambda x: np.asarray(x),
    "median": lambda x: np.median(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_refused(name: str) -> None:
    with refusal():
        REFUSED[name](ferro.ones(2, requires_grad=True))
    with ferro.no_grad():  # nothing is recorded there: NumPy computes
        REFUSED[name](ferro.ones(2, requires_grad=True))


@pytest.mark.parametrize(("function", "instead"), [(n, i) for n, i in numpy_functions.INSTEAD.items()])
def test_what_to_write_instead_exists(function: str, instead: str) -> None:
    assert callable(operator.attrgetter(instead)(ferro))
    assert any(hasattr(place, function) for place in (np, np.linalg, np.fft))


def test_a_ufunc_of_ones_own_is_refused_whatever_its_name() -> None:
    with refusal():
        np.frompyfunc(np.sqrt, 1, 1)(ferro.ones(2, requires_grad=True))


def test_a_refusal_names_the_function_to_write_instead() -> None:
    with pytest.raises(RuntimeError, match=r"Or use ferro\.cat, which has a gradient: np\.concatenate makes an array"):
        np.concatenate([ferro.ones(2, requires_grad=True), np.ones(2)])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_out_that_is_a_tensor_is_a_type_error(requires_grad: bool) -> None:
    out: Any = ferro.zeros(2, requires_grad=requires_grad)
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        np.add(np.ones(2), 1, out=out)


def test_an_array_takes_what_is_added_of_a_plain_tensor() -> None:
    array = before = np.zeros(2)
    array += ferro.tensor([1.0, 2.0])
    assert array is before
    assert array.tolist() == [1, 2]


def test_keywords_that_recorded_tensors_do_not_take() -> None:
    x = ferro.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="takes no where="):
        np.add(x, 1, where=np.array([True, False]))
    with pytest.raises(TypeError, match="takes no initial="):
        np.add.reduce(x, initial=1.0)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", ["mean", "sum", "max", "min", "prod", "std", "var", "cumsum", "squeeze"])
def test_functions_that_are_methods_are_recorded(name: str, requires_grad: bool) -> None:
    array = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]])
    for axis in (None, 0) if name not in ("cumsum", "max", "min", "squeeze") else (0,) if name == "cumsum" else (None,):
        if name == "cumsum" and requires_grad:
            continue  # NumPy's own takes no part in the protocol of methods: refused above like concatenate
        found = getattr(np, name)(ferro.tensor(array, requires_grad=requires_grad), axis=axis)
        np.testing.assert_allclose(found.detach().numpy(), getattr(np, name)(array, axis=axis), rtol=1e-14)
        assert found.requires_grad == requires_grad


def test_spreads_are_those_of_the_population() -> None:
    array = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 8.0]])
    x = ferro.tensor(array, requires_grad=True)
    assert np.std(x, axis=1, ddof=1, keepdims=True).tolist() == pytest.approx(
        np.std(array, axis=1, ddof=1, keepdims=True)
    )
    assert np.var(ferro.tensor([1, 2, 4])).item() == pytest.approx(np.var([1, 2, 4]), rel=1e-15)
    assert np.var(x, dtype=np.float32).dtype is ferro.float32
    with pytest.raises(TypeError, match="takes axis, dtype, ddof and keepdims"):
        np.std(x, where=array > 1)


def test_size_and_equality() -> None:
    x = ferro.ones(2, 3, requires_grad=True)
    assert (np.size(x), np.size(x, 1), np.shape(x), np.ndim(x)) == (6, 3, (2, 3), 2)
    assert np.array_equal(x, ferro.ones(2, 3))
    assert not np.array_equal(x, ferro.zeros(2, 3))


def test_other_functions_make_arrays_of_plain_tensors() -> None:
    x = ferro.tensor([2.0, 1.0])
    for made in (np.concatenate([x, x]), np.sort(x), np.where(x > 1, x, 0), np.stack([x, x])):
        assert type(made) is np.ndarray


def test_tangents_and_slices_of_vmap_are_kept() -> None:
    x = ferro.tensor([0.5, 1.0])
    _, tangent = ferro.func.jvp(lambda x: np.sin(x), (x,), (ferro.ones(2),))
    assert tangent.tolist() == ferro.cos(x).tolist()
    assert ferro.vmap(lambda x: np.exp(x) * 2)(x).tolist() == (x.exp() * 2).tolist()
    assert ferro.func.grad(lambda x: np.exp(x).sum())(x).tolist() == x.exp().tolist()
