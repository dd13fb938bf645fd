"""Factorisations, systems, inverses, determinants: errors, what is read, singular points, any order, hard points."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferro
from ferro.cpu.determinants import cofactors
from ferro.ops.ldl import indefinite

L: Any = ferro.linalg


def normal(rng: np.random.Generator, *shape: int, dtype: Any = "float64") -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x, dtype)


def tensor(x: Any, grad: bool = False) -> Any:
    return ferro.from_numpy(np.array(x)).requires_grad_(grad)


def hermitian(x: Any) -> Any:
    """The Hermitian part of a tensor, so that finite differences stay among the Hermitian matrices."""
    return (x + x.mH) / 2


def checked(function: Any, *xs: Any) -> None:
    """First and second derivatives against central differences, forward against reverse mode."""
    assert ferro.autograd.gradcheck(function, xs, check_forward_ad=True)
    assert ferro.autograd.gradgradcheck(function, xs)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_the_error_class_is_a_runtime_error() -> None:
    assert issubclass(L.LinAlgError, RuntimeError)


@pytest.mark.parametrize("name", ["cholesky", "inv", "solve", "lu_factor"])
@pytest.mark.parametrize("n", [2, 40])
def test_the_first_bad_matrix_of_a_batch_is_named(name: str, n: int) -> None:
    x = np.broadcast_to(np.eye(n), (3, 2, n, n)).copy()
    x[1, 1, 1, 1] = -1.0 if name == "cholesky" else 0.0
    args = (tensor(x), ferro.ones(n, 1, dtype=ferro.float64)) if name == "solve" else (tensor(x),)
    error = RuntimeError if name == "lu_factor" else L.LinAlgError
    with pytest.raises(error, match=rf"linalg\.{name}: \(Batch element \(1, 1\)\)"):
        getattr(L, name)(*args)
    with pytest.raises(error, match=r"\(Batch element 1\)"):
        getattr(L, name)(args[0][1], *args[1:])


def test_the_number_of_the_minor_or_pivot_is_named_and_returned() -> None:
    x = tensor(np.diag([1.0, 1.0, -1.0]))
    with pytest.raises(L.LinAlgError, match="leading minor of order 3"):
        L.cholesky(x)
    with pytest.raises(L.LinAlgError, match="leading minor of order 3"):
        ferro.cholesky(x)
    with pytest.raises(L.LinAlgError, match="leading minor of order 3"):
        L.cholesky_ex(x, check_errors=True)
    assert L.cholesky_ex(x).info.item() == 3
    z = tensor(np.diag([1.0, 0.0, 1.0]))
    with pytest.raises(L.LinAlgError, match="diagonal element 2 is zero"):
        ferro.inverse(z)
    assert L.inv_ex(z).info.item() == L.solve_ex(z, z).info.item() == L.lu_factor_ex(z).info.item() == 2
    with pytest.raises(RuntimeError, match=r"U\[2,2\] is zero"):
        L.lu_factor_ex(z, check_errors=True)
    with pytest.raises(L.LinAlgError, match="singular"):
        L.solve_ex(z, z, check_errors=True)
    with pytest.raises(L.LinAlgError, match="diagonal element 2"):
        ferro.cholesky_inverse(z)
    with pytest.raises(RuntimeError, match=r"D\[1,1\] is zero"):
        L.ldl_factor(ferro.zeros(2, 2))


def test_nan_is_not_positive_definite() -> None:
    x = ferro.eye(3)
    x[1, 1] = float("nan")
    assert L.cholesky_ex(x).info.item() == 2
    with pytest.raises(L.LinAlgError):
        L.cholesky(x)


UNARY = [
    "linalg.cholesky",
    "linalg.cholesky_ex",
    "cholesky",
    "cholesky_inverse",
    "linalg.inv",
    "linalg.inv_ex",
    "inverse",
    "linalg.det",
    "det",
    "linalg.slogdet",
    "slogdet",
    "logdet",
    "linalg.ldl_factor",
    "linalg.ldl_factor_ex",
]


def found(path: str) -> Any:
    f: Any = ferro
    for part in path.split("."):
        f = getattr(f, part)
    return f


@pytest.mark.parametrize("path", UNARY)
def test_matrices_must_be_square_and_of_a_dtype_of_lapack(path: str) -> None:
    f = found(path)
    for bad, message in (
        (ferro.ones(2, 3), "2 by 3"),
        (ferro.ones(2), "at least 2 dimensions"),
        (ferro.eye(2, dtype=ferro.int64), "int64"),
        (ferro.eye(2, dtype=ferro.float16), "Low precision"),
    ):
        with pytest.raises(RuntimeError, match=message):
            f(bad)
    with pytest.raises(TypeError, match="must be Tensor"):
        f(3.0)


def test_systems_that_do_not_fit_are_refused() -> None:
    e, p = ferro.eye(2), ferro.tensor([1, 2], dtype=ferro.int32)
    for call in (
        lambda b: L.solve(e, b),
        lambda b: L.solve_triangular(e, b, upper=True),
        lambda b: L.lu_solve(e, p, b),
        lambda b: ferro.triangular_solve(b, e),
        lambda b: ferro.cholesky_solve(b, e),
        lambda b: L.ldl_solve(e, p, b),
        lambda b: ferro.lu_solve(b, e, p),
    ):
        with pytest.raises(RuntimeError, match="Incompatible"):
            call(ferro.ones(3, 1))
        with pytest.raises(RuntimeError, match=r"float64.*float32|float32.*float64"):
            call(ferro.ones(2, 1, dtype=ferro.float64))
    with pytest.raises(RuntimeError, match=r"\[3\] and \[4\]"):
        L.solve(e.expand(3, 2, 2), ferro.ones(4, 2, 1))
    with pytest.raises(RuntimeError, match="XA = B"):
        L.solve(e, ferro.ones(2, 3), left=False)
    with pytest.raises(TypeError):
        L.solve_triangular(e, e)


def test_pivots_that_no_factorisation_gives_are_refused() -> None:
    e, b = ferro.eye(2), ferro.ones(2, 1)
    for pivots, message in (
        (ferro.tensor([1, 2]), "int32"),
        (ferro.tensor([1], dtype=ferro.int32), "Number of pivots"),
        (ferro.tensor([1, 3], dtype=ferro.int32), "between 1 and 2"),
        (ferro.tensor([0, 2], dtype=ferro.int32), "between 1 and 2"),
    ):
        with pytest.raises(RuntimeError, match=message):
            L.lu_solve(e, pivots, b)
        with pytest.raises(RuntimeError, match=message):
            ferro.lu_unpack(e, pivots)
    with pytest.raises(RuntimeError, match="in twos"):
        L.ldl_solve(e, ferro.tensor([1, -2], dtype=ferro.int32), b)
    for call in (L.lu_factor, L.lu, L.lu_factor_ex, ferro.lu):
        with pytest.raises(RuntimeError, match="without pivoting"):
            call(e, pivot=False)


def test_tensor_equations_name_the_sizes_that_differ() -> None:
    with pytest.raises(RuntimeError, match="1 != 6"):
        L.tensorinv(ferro.ones(2, 3))
    with pytest.raises(RuntimeError, match="strictly positive"):
        L.tensorinv(ferro.eye(6).reshape(2, 3, 6), ind=0)
    with pytest.raises(RuntimeError, match="5 != 6"):
        L.tensorsolve(ferro.ones(2, 3, 5), ferro.ones(2, 3))


# -- names, dtypes, out=, empty --------------------------------------------------------------------------------------------


def test_results_have_names_and_go_into_out() -> None:
    x = tensor([[4.0, 2.0], [2.0, 3.0]])
    assert L.cholesky_ex(x).fields == ("L", "info")
    assert L.cholesky_ex(x).L is not None
    assert L.lu(x).P.shape == (2, 2)
    assert L.slogdet(x).logabsdet.item() == pytest.approx(np.log(8))
    assert ferro.triangular_solve(x, x).cloned_coefficient is not x
    lu, p = ferro.empty(0, dtype=ferro.float64), ferro.empty(0, dtype=ferro.int32)
    result = L.lu_factor(x, out=(lu, p))
    assert result.LU is lu
    assert result.pivots is p
    assert p.tolist() == [1, 2]
    out = ferro.empty(2, 2, dtype=ferro.float64)
    for f in (L.cholesky, L.inv, ferro.cholesky_inverse, ferro.inverse):
        assert f(x, out=out) is out
        np.testing.assert_array_equal(out.numpy(), f(x).numpy())
    with pytest.raises(RuntimeError, match="out"):
        L.inv(x.requires_grad_(), out=out)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("n", [3, 40])
def test_single_precision_stays_single(dtype: str, n: int, rng: np.random.Generator) -> None:
    x = normal(rng, 2, n, n, dtype=dtype)
    spd = tensor(x @ x.conj().swapaxes(-1, -2) + n * np.eye(n, dtype=dtype))
    b, real = tensor(normal(rng, 2, n, 1, dtype=dtype)), ferro.float32
    want = spd.dtype
    results = [
        L.cholesky(spd),
        L.inv(spd),
        L.solve(spd, b),
        L.solve_triangular(spd, b, upper=True),
        *L.lu(spd),
        L.ldl_factor(spd)[0],
        L.ldl_solve(*L.ldl_factor(spd), b),
        ferro.cholesky_solve(b, spd),
        L.det(spd),
        L.lu_solve(*L.lu_factor(spd), b),
        L.slogdet(spd)[0],
        cofactors((spd.numpy(),)),
    ]
    assert all(r.dtype in (want, want.np) for r in results)
    assert L.slogdet(spd)[1].dtype is real


def test_empty_matrices_and_batches() -> None:
    z, b = ferro.zeros(0, 0), ferro.zeros(0, 3)
    assert L.det(z).item() == 1
    assert L.slogdet(z).logabsdet.item() == 0
    assert L.solve(z, b).shape == L.solve_triangular(z, b, upper=True).shape == (0, 3)
    assert [tuple(t.shape) for t in L.lu(ferro.ones(2, 0))] == [(2, 2), (2, 0), (0, 0)]
    assert L.cholesky(ferro.zeros(0, 3, 3)).shape == (0, 3, 3)
    x = ferro.zeros(4, 0, 0, requires_grad=True)
    L.det(x).sum().backward()
    assert x.grad.shape == (4, 0, 0)


def test_a_zero_on_the_diagonal_of_a_triangle_gives_inf() -> None:
    a = ferro.tensor([[1.0, 0.0], [0.0, 0.0]])
    x = L.solve_triangular(a, ferro.ones(2, 1), upper=True)
    assert x[1].isinf().all()
    assert L.solve_ex(a, ferro.ones(2)).result.isinf().any()


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 40])
def test_only_one_triangle_is_read(n: int, rng: np.random.Generator) -> None:
    x = normal(rng, n, n)
    spd = x @ x.T + n * np.eye(n)
    other = np.triu(np.full((n, n), np.nan), 1)
    lower, upper = tensor(np.tril(spd) + other), tensor(np.triu(spd) + other.T)
    factor = np.linalg.cholesky(spd)
    np.testing.assert_allclose(L.cholesky(lower).numpy(), factor, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(L.cholesky(upper, upper=True).numpy(), factor.T, rtol=1e-10, atol=1e-12)
    b = tensor(normal(rng, n, 2))
    triangle = tensor(factor + other)
    for a, u in ((triangle, False), (triangle.mT, True)):
        got = L.solve_triangular(a, b, upper=u).numpy()
        np.testing.assert_allclose(got, np.linalg.solve(factor.T if u else factor, b.numpy()), rtol=1e-8)
    np.testing.assert_allclose(ferro.cholesky_solve(b, triangle).numpy(), np.linalg.solve(spd, b.numpy()), rtol=1e-8)
    np.testing.assert_allclose(ferro.cholesky_inverse(triangle).numpy(), np.linalg.inv(spd), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(L.ldl_solve(*L.ldl_factor(lower), b).numpy(), np.linalg.solve(spd, b.numpy()), rtol=1e-8)
    unit = triangle.clone()
    unit.diagonal().fill_(float("nan"))
    got = L.solve_triangular(unit, b, upper=False, unitriangular=True).numpy()
    np.testing.assert_allclose(got, np.linalg.solve(np.tril(factor, -1) + np.eye(n), b.numpy()), rtol=1e-7)


def test_gradients_by_triangles_are_triangles(rng: np.random.Generator) -> None:
    for upper, unit in itertools.product((False, True), repeat=2):
        a, b = tensor(normal(rng, 3, 3), True), tensor(normal(rng, 3, 2))
        (g,) = ferro.autograd.grad(L.solve_triangular(a, b, upper=upper, unitriangular=unit).sum(), a)
        kept = np.triu(np.ones((3, 3)), int(unit))
        assert np.array_equal(g.numpy() != 0, (kept if upper else kept.T) != 0)
        (g,) = ferro.autograd.grad(ferro.cholesky_solve(b, a, upper).sum() + ferro.cholesky_inverse(a, upper).sum(), a)
        np.testing.assert_array_equal(g.numpy(), np.triu(g.numpy()) if upper else np.tril(g.numpy()))


def test_one_matrix_with_many_right_sides_is_one_system(rng: np.random.Generator) -> None:
    for n in (3, 40):
        a = normal(rng, n, n) + n * np.eye(n)
        b = normal(rng, 4, 5, n, 2)
        want = np.linalg.solve(a, b)
        np.testing.assert_allclose(L.solve(tensor(a), tensor(b)).numpy(), want, rtol=1e-9)
        right = L.solve(tensor(a), tensor(b.swapaxes(-1, -2)), left=False).numpy()
        np.testing.assert_allclose(right, np.linalg.solve(a.T, b).swapaxes(-1, -2), rtol=1e-9)


@given(st.data())
def test_systems_of_any_shapes_and_strides(data: Any) -> None:
    n, k = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    batches = [data.draw(st.lists(st.integers(0, 2), max_size=2).map(tuple)) for _ in range(2)]
    try:
        shape = np.broadcast_shapes(*batches)
    except ValueError:
        return
    dtype = data.draw(st.sampled_from(["float64", "complex128"]))
    left, flipped = data.draw(st.booleans()), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a = normal(rng, *batches[0], n, n, dtype=dtype) + 4 * np.eye(n)
    b = normal(rng, *batches[1], n, k, dtype=dtype)
    if flipped:  # negative strides and Fortran's order
        a, b = np.asfortranarray(a[..., ::-1, ::-1]), b[..., ::-1, :]
    b = b if left else b.swapaxes(-1, -2)
    if b.shape == a.shape[:-1]:
        return  # a batch of vectors, as in PyTorch, where there are no numbers to tell
    ta, tb = ferro.from_numpy(a), ferro.from_numpy(b)
    lu = L.lu_factor(ta)
    upper = np.triu(a)
    for x, m in (
        (L.solve(ta, tb, left=left), a),
        (L.lu_solve(*lu, tb, left=left), a),
        (L.lu_solve(*lu, tb, left=left, adjoint=True), a.conj().swapaxes(-1, -2)),
        (L.solve_triangular(ta, tb, upper=True, left=left), upper),
    ):
        assert tuple(x.shape) == shape + b.shape[-2:]
        product = m @ x.numpy() if left else x.numpy() @ m
        np.testing.assert_allclose(product, np.broadcast_to(b, product.shape), rtol=1e-9, atol=1e-9)


# -- derivatives -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_family_to_second_order(dtype: str, upper: bool, rng: np.random.Generator) -> None:
    x = normal(rng, 2, 3, 3, dtype=dtype)
    spd = tensor(x @ x.conj().swapaxes(-1, -2) + np.eye(3), True)
    checked(lambda a: L.cholesky(hermitian(a), upper=upper), spd)
    triangle = tensor(np.linalg.cholesky(spd.detach().numpy()), True)
    b = tensor(normal(rng, 3, 2, dtype=dtype), True)
    checked(lambda c, d: ferro.cholesky_solve(c, d, upper), b, triangle)
    checked(lambda d: ferro.cholesky_inverse(d, upper), triangle)


@pytest.mark.parametrize("hermite", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_ldl_has_derivatives_to_second_order(dtype: str, hermite: bool, rng: np.random.Generator) -> None:
    """A block of size 2 and an exchange included, and forward mode; PyTorch has none of it."""
    x = np.array([[0.1, 0.3, 2.0], [0.3, 1.5, 0.4], [2.0, 0.4, 0.2]]).astype(dtype)
    if dtype == "complex128":
        y = normal(rng, 3, 3) / 4
        x = x + 1j * (y - y.T if hermite else y + y.T)
    a, b = tensor(x, True), tensor(normal(rng, 3, 1, dtype=dtype), True)
    LD, pivots = L.ldl_factor(a, hermitian=hermite)
    assert pivots.tolist() == [-3, -3, 3]
    want = np.linalg.solve(x, b.detach().numpy())
    np.testing.assert_allclose(L.ldl_solve(LD, pivots, b, hermitian=hermite).detach().numpy(), want, rtol=1e-9)

    def symmetric(m: Any) -> Any:
        return hermitian(m) if hermite else (m + m.mT) / 2

    checked(lambda m: L.ldl_factor(symmetric(m), hermitian=hermite)[0], a)
    checked(lambda m, c: L.ldl_solve(*L.ldl_factor(symmetric(m), hermitian=hermite), c, hermitian=hermite), a, b)


def test_ldl_of_batches_has_the_gradients_of_its_matrices(rng: np.random.Generator) -> None:
    x = np.stack([indefinite(rng, (5, 5)) for _ in range(4)]).reshape(2, 2, 5, 5)
    a, b = tensor(x, True), tensor(normal(rng, 2, 5, 2))
    got = ferro.autograd.grad(L.ldl_solve(*L.ldl_factor(a), b).sin().sum(), a)[0].numpy()
    for i in np.ndindex(2, 2):
        m = tensor(x[i], True)
        want = ferro.autograd.grad(L.solve(m, b[i[1]]).sin().sum(), m)[0].numpy()
        np.testing.assert_allclose(got[i], (want + want.T) / 2, rtol=1e-8, atol=1e-10)


def test_ldl_equals_torch(torch: Any, rng: np.random.Generator) -> None:
    x = np.stack([indefinite(rng, (6, 6)) for _ in range(3)])
    got, want = L.ldl_factor_ex(tensor(x)), torch.linalg.ldl_factor_ex(torch.from_numpy(x))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-9)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (5, 2), (2, 1, 3)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lu_to_second_order(shape: tuple, dtype: str, rng: np.random.Generator) -> None:
    x = tensor(normal(rng, *shape, dtype=dtype), True)
    checked(lambda a: L.lu(a)[1:], x)
    P, low, up = L.lu(x.detach())
    np.testing.assert_allclose((P @ low @ up).numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_large_systems_reuse_their_factors_and_differentiate_again(rng: np.random.Generator) -> None:
    a, b = tensor(normal(rng, 40, 40) / 10 + np.eye(40) * 4, True), tensor(normal(rng, 40, 2), True)
    checked_once = ferro.autograd.grad(L.solve(a, b).square().sum(), (a, b), create_graph=True)
    plain = ferro.autograd.grad(L.solve(a, b).square().sum(), (a, b))
    for g, h in zip(checked_once, plain, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), h.numpy(), rtol=1e-9, atol=1e-14)
    (second,) = ferro.autograd.grad(sum(g.sum() for g in checked_once), b)
    inverse = np.linalg.inv(a.detach().numpy())
    # d/db of the sum of 2 A⁻ᵀ A⁻¹ b and of -2 (A⁻ᵀ x) xᵀ
    x = inverse @ b.detach().numpy()
    ones = np.ones((40, 40))
    want = 2 * inverse.T @ inverse @ np.ones((40, 2))
    w = inverse.T @ x
    want = want - 2 * (inverse.T @ (inverse @ (ones @ x)) + inverse.T @ (ones.T @ w))
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-8, atol=1e-12)


def test_a_composition_of_factors_has_the_gradient_of_the_whole(rng: np.random.Generator) -> None:
    """solve = lu_solve of lu_factor = ldl_solve of ldl_factor = cholesky_solve of cholesky, and so are their gradients."""
    x = normal(rng, 4, 4)
    a, b = tensor(x @ x.T + np.eye(4), True), tensor(normal(rng, 4, 2))
    ways = [
        lambda: L.solve(a, b),
        lambda: L.lu_solve(*L.lu_factor(a), b),
        lambda: L.ldl_solve(*L.ldl_factor(hermitian(a)), b),
        lambda: ferro.cholesky_solve(b, L.cholesky(hermitian(a))),
        lambda: L.inv(a) @ b,
    ]
    grads = [hermitian(ferro.autograd.grad(way().sin().sum(), a)[0]).numpy() for way in ways]
    for g in grads[1:]:
        np.testing.assert_allclose(g, grads[0], rtol=1e-9, atol=1e-11)
    logs = [
        lambda: L.det(a).log(),
        lambda: ferro.logdet(a),
        lambda: 2 * L.cholesky(hermitian(a)).diagonal().log().sum(),
    ]
    grads = [ferro.autograd.grad(log(), a)[0].numpy() for log in logs]
    for g in grads:
        np.testing.assert_allclose(g, np.linalg.inv(a.detach().numpy()).T, rtol=1e-9, atol=1e-11)


# -- determinants ------------------------------------------------------------------------------------------------------


def by_minors(a: np.ndarray) -> np.ndarray:
    """The cofactors, by their definition."""
    n = len(a)
    return np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    )


def derivative_of_cofactors(a: np.ndarray, directions: list) -> np.ndarray:
    """The coefficient at t₁ ... tₘ of cofactors(A + Σ tₖ Eₖ), a polynomial, from its values at roots of unity."""
    m, count = len(directions), len(a) + 1
    total = np.zeros(a.shape, complex)
    for ks in itertools.product(range(count), repeat=m):
        t = np.exp(2j * np.pi * np.array(ks) / count)
        total += np.prod(1 / t) * by_minors(a + sum(s * e for s, e in zip(t, directions, strict=True)))
    return total / count**m


def of_rank(rng: np.random.Generator, n: int, rank: int, dtype: str) -> np.ndarray:
    return np.asarray(normal(rng, n, rank, dtype=dtype) @ normal(rng, rank, n, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_cofactors_and_their_derivatives_at_every_rank(rank: int, dtype: str, rng: np.random.Generator) -> None:
    a = of_rank(rng, 4, rank, dtype)
    directions = [normal(rng, 4, 4, dtype=dtype) for _ in range(3)]
    for m in range(4):
        want = derivative_of_cofactors(a, directions[:m])
        np.testing.assert_allclose(cofactors((a, *directions[:m])), want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_det_of_singular_matrices_has_right_derivatives(rank: int, dtype: str, rng: np.random.Generator) -> None:
    """First and second order, reverse and forward mode; rank 3 of 3 beside the deficient ones, in one batch."""
    x = tensor(np.stack([of_rank(rng, 3, rank, dtype), normal(rng, 3, 3, dtype=dtype), np.zeros((3, 3))]), True)
    checked(L.det, x)

    def slope(a: Any) -> Any:
        a = (
            a if a.requires_grad else a.requires_grad_()
        )  # (forward mode is checked with inputs that ask for no gradient)
        return ferro.autograd.grad((L.det(a) * L.det(a).conj()).real.sum(), a, create_graph=True)[0]

    checked(slope, x)


def test_the_hessian_of_det_at_zero_of_order_two(rng: np.random.Generator) -> None:
    h = ferro.autograd.functional.hessian(L.det, ferro.zeros(2, 2, dtype=ferro.float64))
    want = np.zeros((2, 2, 2, 2))
    want[0, 0, 1, 1] = want[1, 1, 0, 0] = 1
    want[0, 1, 1, 0] = want[1, 0, 0, 1] = -1
    np.testing.assert_allclose(h.numpy(), want, atol=1e-15)


def test_the_third_derivative_of_det_at_zero_of_order_three() -> None:
    """det is its own third-order part there: d³ det[E, E, E] = 6 det E."""
    e = tensor([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0], [1.5, 0.2, 0.7]])
    x = ferro.zeros(3, 3, dtype=ferro.float64, requires_grad=True)
    value = L.det(x)
    for _ in range(3):
        (g,) = ferro.autograd.grad(value, x, create_graph=True)
        value = (g * e).sum()
    assert value.item() == pytest.approx(6 * np.linalg.det(e.numpy()), rel=1e-12)


@pytest.mark.parametrize("gap", [0.0, 1e-300, 1e-17, 1e-12, 1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("deficiency", [1, 2])
def test_derivatives_of_det_keep_their_digits_near_singular_matrices(
    gap: float, deficiency: int, rng: np.random.Generator
) -> None:
    """Against mpmath: A = Q diag(1, 1, ..., gap) R, whose inverse would lose the digits."""
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of this test")
    n = 4
    q, r = np.linalg.qr(normal(rng, n, n))[0], np.linalg.qr(normal(rng, n, n))[0]
    a = (q * np.array([1.0] * (n - deficiency) + [gap] * deficiency)) @ r
    e = normal(rng, n, n)
    with mp.workdps(60):
        exact, t = mp.matrix(a.tolist()), mp.mpf(10) ** -30

        def minors(m: Any) -> np.ndarray:
            keep = [[k for k in range(n) if k != i] for i in range(n)]
            return np.array(
                [
                    [
                        (-1) ** (i + j) * mp.det(mp.matrix([[m[k, c] for c in keep[j]] for k in keep[i]]))
                        for j in range(n)
                    ]
                    for i in range(n)
                ]
            )

        first = minors(exact)
        second = (minors(exact + t * mp.matrix(e.tolist())) - minors(exact - t * mp.matrix(e.tolist()))) / (2 * t)
        first, second = first.astype(float), second.astype(float)
    # the data are rounded: a relative change of 1e-16 of A is all that can be asked
    np.testing.assert_allclose(cofactors((a,)), first, atol=1e-10 * abs(first).max() + 1e-15, rtol=0)
    np.testing.assert_allclose(cofactors((a, e)), second, atol=1e-8 * abs(second).max(), rtol=0)


def test_products_of_singular_values_do_not_overflow_on_the_way() -> None:
    a = np.diag([1e200, 1e200, 1e-200, 1e-200, 0.0])
    assert cofactors((a,))[4, 4] == pytest.approx(1.0)


def test_det_with_nan_or_inf_gives_nan_gradients_for_that_matrix_alone() -> None:
    x = np.zeros((3, 2, 2))
    x[1, 0, 0], x[2, 1, 1] = np.nan, np.inf
    t = tensor(x, True)
    L.det(t).sum().backward()
    assert t.grad[0].eq(0).all()
    assert t.grad[1:].isnan().any((1, 2)).all()


def test_signs_and_logarithms_of_singular_and_negative_determinants() -> None:
    singular = ferro.zeros(2, 2)
    assert L.slogdet(singular).sign.item() == 0
    assert L.slogdet(singular).logabsdet.item() == -np.inf
    assert ferro.logdet(singular).item() == -np.inf
    x = tensor(np.diag([1.0, -1.0]), True)
    value = ferro.logdet(x)
    assert value.isnan()
    value.backward()
    assert x.grad.eq(0).all()


def test_slogdet_neither_overflows_nor_underflows() -> None:
    for scale in (1e200, 1e-200):
        x = tensor(np.eye(4) * scale, True)
        sign, log = L.slogdet(x)
        assert sign.item() == 1
        assert log.item() == pytest.approx(4 * np.log(scale))
        log.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.eye(4) / scale)


def test_slogdet_of_complex_matrices_to_second_order(rng: np.random.Generator) -> None:
    x = tensor(normal(rng, 2, 3, 3, dtype="complex128"), True)
    checked(lambda a: tuple(L.slogdet(a)), x)
    checked(lambda a: L.slogdet(a).sign, x)
    checked(ferro.logdet, x)


# -- hard points -------------------------------------------------------------------------------------------------------


def test_gradients_of_an_ill_conditioned_system_are_as_good_as_its_solution(rng: np.random.Generator) -> None:
    """The Hilbert matrix of order 8, condition 1.5e10: against mpmath, relative to what rounding of A does."""
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of this test")
    n = 8
    h = np.array([[1 / (i + j + 1) for j in range(n)] for i in range(n)])
    a, b = tensor(h, True), tensor(np.ones((n, 1)), True)
    L.solve(a, b).sum().backward()
    with mp.workdps(50):
        exact = mp.matrix(h.tolist())
        y = mp.lu_solve(exact.T, mp.ones(n, 1))
        x = mp.lu_solve(exact, mp.ones(n, 1))
        want_b = np.array([float(v) for v in y])
        want_a = np.array([[float(-y[i] * x[j]) for j in range(n)] for i in range(n)])
    bound = np.linalg.cond(h) * 1e-16
    assert abs(b.grad.numpy()[:, 0] - want_b).max() <= bound * abs(want_b).max()
    assert abs(a.grad.numpy() - want_a).max() <= 2 * bound * abs(want_a).max()


def test_the_gradient_of_cholesky_of_a_badly_scaled_matrix_keeps_its_digits() -> None:
    """A = D M D with D from 1e-6 to 1e6: no inverse of A is formed, each entry is good to a few roundings (mpmath)."""
    mp = pytest.importorskip("mpmath", reason="mpmath is the oracle of this test")
    m = np.array([[2.0, 0.5, 0.25], [0.5, 2.0, 0.5], [0.25, 0.5, 2.0]])
    d = np.array([1e-6, 1.0, 1e6])
    a = tensor(m * d * d[:, None], True)
    L.cholesky(a).sum().backward()
    with mp.workdps(60):
        exact = mp.matrix(a.detach().numpy().tolist())

        def total(i: int, j: int, t: Any) -> Any:
            moved = exact.copy()
            moved[i, j] += t
            if i != j:
                moved[j, i] += t
            return sum(mp.cholesky(moved))

        want = np.zeros((3, 3))
        for i, j in itertools.product(range(3), repeat=2):
            t = mp.mpf(10) ** -25 * exact[i, i]
            slope = (total(i, j, t) - total(i, j, -t)) / (2 * t)
            want[i, j] = float(slope if i == j else slope / 2)
    np.testing.assert_allclose(a.grad.numpy(), want, rtol=1e-12)


# -- powers and tensor equations ---------------------------------------------------------------------------------------


def test_negative_powers_are_powers_of_the_inverse(rng: np.random.Generator) -> None:
    x = tensor(normal(rng, 2, 3, 3) + 3 * np.eye(3), True)
    for n in (-1, -3):
        np.testing.assert_allclose(
            L.matrix_power(x, n).detach().numpy(), np.linalg.matrix_power(x.detach().numpy(), n), rtol=1e-9
        )
        checked(lambda a, n=n: ferro.matrix_power(a, n), x)
    with pytest.raises(RuntimeError, match="int64"):
        L.matrix_power(ferro.eye(2, dtype=ferro.int64), -1)
    with pytest.raises(TypeError, match="must be int"):
        L.matrix_power(ferro.eye(2), 2.0)
    assert L.matrix_power(ferro.eye(2, dtype=ferro.float16), 2).dtype is ferro.float16


def test_tensor_equations_invert_tensordot(rng: np.random.Generator) -> None:
    a = tensor(normal(rng, 2, 3, 6), True)
    b = tensor(normal(rng, 2, 3), True)
    np.testing.assert_allclose(
        ferro.tensordot(a, L.tensorsolve(a, b), 1).detach().numpy(), b.detach().numpy(), rtol=1e-9
    )
    np.testing.assert_allclose(
        ferro.tensordot(L.tensorinv(a), b, 2).detach().numpy(), L.tensorsolve(a, b).detach().numpy(), rtol=1e-9
    )
    c = tensor(normal(rng, 2, 6, 3), True)
    checked(lambda x, y: L.tensorsolve(x, y, dims=(1,)), c, b)
    checked(L.tensorinv, a)


def test_large_factorisations_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    x = normal(rng, 300, 300)
    spd, b, before = tensor(x @ x.T + np.eye(300)), tensor(normal(rng, 300, 200)), ferro.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            ferro.set_num_threads(count)
            found.append(
                [
                    L.cholesky(spd),
                    L.inv(spd),
                    *L.lu_factor(spd),
                    L.solve(spd, b),
                    L.ldl_factor(spd)[0],
                    L.slogdet(spd)[1],
                    L.solve_triangular(spd, b, upper=True),
                ]
            )
    finally:
        ferro.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one.numpy(), two.numpy())


def test_scipy_is_not_loaded_by_small_systems() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import ferro, sys; x = ferro.eye(3, requires_grad=True); L = ferro.linalg; "
        "(L.solve(x, x) + L.cholesky(x) + L.inv(x) + L.solve_triangular(x, x, upper=True) + L.det(x)).sum().backward(); "
        "assert 'scipy' not in sys.modules"
    )
    # (A kernel that is not on disk yet would be compiled meanwhile, by Numba, which imports SciPy.)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "FERRO_KERNELS": "off"})
