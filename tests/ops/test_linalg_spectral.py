"""Decompositions: what they return, hard and singular points, gradients that do not exist, errors."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import ferro
from ferro.autograd import gradcheck, gradgradcheck

L = ferro.linalg
F64, C128 = ferro.float64, ferro.complex128
DTYPES = pytest.mark.parametrize("dtype", [F64, C128])
SHAPES = pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (2, 3, 2)])


def random(*shape: int, dtype: Any = F64, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if dtype.is_complex:
        a = a + 1j * rng.standard_normal(shape)
    return ferro.from_numpy(a).requires_grad_()


def fixed(values: Any, dtype: Any = F64) -> Any:
    return ferro.tensor(values, dtype=dtype, requires_grad=True)


def projectors(*factors: Any) -> list:
    """v vᴴ of each column of the factors: free of signs and phases."""
    return [w.mT.unsqueeze(-1) * w.mH.unsqueeze(-2) for w in factors]


def checks(function: Any, *inputs: Any) -> None:
    assert gradcheck(function, inputs, check_forward_ad=True)
    assert gradgradcheck(function, inputs, fast_mode=True)


def gradient(y: Any, x: Any) -> Any:
    return ferro.autograd.grad(y, x)[0].numpy()


# -- results -----------------------------------------------------------------------------------------------------------


def test_results_have_the_fields_of_pytorch() -> None:
    a = random(3, 3).detach()
    assert L.svd(a).fields == ("U", "S", "Vh")
    assert L.eig(a).eigenvalues is not None
    assert L.eigh(a).eigenvectors.shape == (3, 3)
    assert L.qr(a).R.shape == a.geqrf().a.shape
    assert L.lstsq(a, a).rank.item() == 3
    assert ferro.svd(a).V.shape == ferro.qr(a).Q.shape


@pytest.mark.parametrize("dtype", [ferro.float32, F64, ferro.complex64, C128])
def test_dtypes_are_kept_and_real_where_they_are_real(dtype: Any) -> None:
    a = random(3, 3, dtype=C128 if dtype.is_complex else F64).detach().to(dtype)
    real, complex_ = dtype.to_real(), dtype.to_complex()
    assert [t.dtype for t in L.svd(a)] == [dtype, real, dtype]
    assert [t.dtype for t in L.eigh(a)] == [real, dtype]
    assert [t.dtype for t in L.eig(a)] == [complex_, complex_]
    assert L.lstsq(a, a, driver="gelsd").singular_values.dtype is real
    assert {t.dtype for t in (L.qr(a).Q, L.pinv(a), L.matrix_exp(a), L.householder_product(*a.geqrf()))} == {dtype}
    assert L.matrix_rank(a).dtype is ferro.int64
    assert L.cond(a).dtype is real


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 3, 2)])
def test_empty_matrices(shape: tuple) -> None:
    a = ferro.zeros(shape, dtype=F64, requires_grad=True)
    *batch, m, n = shape
    assert [tuple(t.shape) for t in L.svd(a)] == [(*batch, m, m), (*batch, min(m, n)), (*batch, n, n)]
    assert tuple(L.pinv(a).shape) == (*batch, n, m)
    assert L.matrix_rank(a).tolist() == np.zeros(batch).tolist()
    assert L.matrix_norm(a, "nuc").tolist() == L.matrix_norm(a, 2).tolist() == np.zeros(batch).tolist()
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        x = L.lstsq(a, ferro.ones(*batch, m, 2, dtype=F64), driver=driver).solution
        assert tuple(x.shape) == (*batch, n, 2)
        assert not x.any()
    assert L.qr(a).R.shape == (*batch, min(m, n), n)
    (L.pinv(a).sum() + L.svdvals(a).sum() + L.qr(a).R.sum()).backward()
    assert a.grad is not None
    assert tuple(a.grad.shape) == shape


def test_out_is_written_and_returned() -> None:
    a = random(3, 2).detach()
    out = tuple([ferro.empty(0, dtype=F64) for _ in range(3)])
    u, s, vh = L.svd(a, False, out=out)
    assert s is out[1]
    np.testing.assert_allclose((u * s @ vh).numpy(), a.numpy())
    single = ferro.empty(0, dtype=F64)
    assert L.svdvals(a, out=single) is single
    with pytest.raises(TypeError, match="tuple of 2"):
        L.qr(a, out=out)


def test_a_batch_is_its_matrices_one_by_one() -> None:
    a, b = random(2, 4, 3).detach(), random(2, 4, 2, seed=1).detach()
    for f in (L.svdvals, L.pinv, lambda x: L.qr(x).R, lambda x: x.geqrf().tau, lambda x: L.matrix_norm(x, "nuc")):
        np.testing.assert_allclose(f(a).numpy(), np.stack([f(x).numpy() for x in a]), atol=1e-14)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        whole = L.lstsq(a, b, driver=driver)
        parts = [L.lstsq(x, y, driver=driver) for x, y in zip(a, b, strict=True)]
        np.testing.assert_allclose(whole.solution.numpy(), np.stack([p.solution.numpy() for p in parts]), atol=1e-13)
        assert whole.residuals.shape == ((0,) if driver == "gelsy" else (2, 2))


# -- derivatives beyond what PyTorch has, or that the derived tests leave out -----------------------------------------


@DTYPES
@SHAPES
def test_singular_vectors_also_those_of_null_spaces(dtype: Any, shape: tuple) -> None:
    k = min(shape[-2:])

    def spaces(a: Any) -> tuple:
        u, s, vh = L.svd(a)
        v = vh.mH
        null = [w[..., k:] @ w[..., k:].mH for w in (u, v)]  # the projectors on the null spaces
        return (s, *projectors(u[..., :k], v[..., :k]), u[..., :k] * s[..., None, :] @ v[..., :k].mH, *null)

    checks(spaces, random(*shape, dtype=dtype))


@DTYPES
def test_eigenvectors(dtype: Any) -> None:
    a = random(2, 3, 3, dtype=dtype)
    checks(lambda a: (L.eig(a).eigenvalues, *projectors(L.eig(a).eigenvectors)), a)
    for uplo in "LU":
        checks(lambda a, uplo=uplo: (L.eigvalsh(a + a.mH, uplo), *projectors(L.eigh(a + a.mH, uplo).eigenvectors)), a)


@DTYPES
@SHAPES
def test_qr_in_every_differentiable_mode(dtype: Any, shape: tuple) -> None:
    a = random(*shape, dtype=dtype)
    checks(lambda a: tuple(L.qr(a)), a)
    if shape[-2] <= shape[-1]:
        checks(lambda a: tuple(L.qr(a, "complete")), a)


@DTYPES
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_products_of_reflectors_with_any_factors(dtype: Any, left: bool, transpose: bool) -> None:
    a, tau, c = random(2, 4, 3, dtype=dtype), random(2, 3, dtype=dtype, seed=1), random(2, 4, 2, dtype=dtype, seed=2)
    checks(lambda a, tau, c: ferro.ormqr(a, tau, c if left else c.mT, left, transpose), a, tau, c)
    v = ferro.tril(a.detach(), -1) + ferro.eye(4, 3, dtype=dtype)
    q = ferro.eye(4, dtype=dtype)
    for i in range(3):
        column = v[..., i : i + 1]
        q = q @ (ferro.eye(4, dtype=dtype) - tau.detach()[..., i, None, None] * (column @ column.mH))
    q = q.mH if transpose else q
    want = q @ c if left else c.mT @ q
    np.testing.assert_allclose(
        ferro.ormqr(a, tau, c if left else c.mT, left, transpose).detach().numpy(), want.detach().numpy(), atol=1e-12
    )


def test_a_singular_reflector_has_a_gradient() -> None:
    a, tau = fixed([[0.0, 0.0], [3.0, 0.0], [4.0, 2.0]]), fixed([1 / 26, 0.2])  # tau₁ |v₁|² = 1, tau₂ |v₂|² = 1
    checks(L.householder_product, a, tau)


def test_pseudo_inverse_of_deficient_rank_to_second_order() -> None:
    x, y = random(4, 2), random(2, 3, seed=1)
    checks(lambda x, y: L.pinv(x @ y, rtol=1e-8), x, y)
    checks(lambda x: L.pinv(x @ x.mT, rtol=1e-8, hermitian=True), x)
    checks(lambda x, y: L.lstsq(x @ y, ferro.ones(4, 2, dtype=F64), 1e-8).solution, x, y)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@DTYPES
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 3, 2)])
def test_least_squares_by_every_driver(driver: str, dtype: Any, shape: tuple) -> None:
    a, b = random(*shape, dtype=dtype), random(*shape[:-1], 2, dtype=dtype, seed=1)
    result = L.lstsq(a, b, driver=driver)
    np.testing.assert_allclose(result.solution.detach().numpy(), (L.pinv(a) @ b).detach().numpy(), atol=1e-12)
    count = 2 if result.residuals.numel() else 1
    checks(lambda a, b: tuple(L.lstsq(a, b, driver=driver))[:count], a, b)


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, -1, float("inf"), -float("inf")])
def test_condition_numbers(p: Any) -> None:
    a = random(2, 3, 3)
    np.testing.assert_allclose(L.cond(a, p).detach().numpy(), np.linalg.cond(a.detach().numpy(), p))
    checks(lambda a: L.cond(a, p), a)


def test_vandermonde_matrices_at_zero() -> None:
    checks(lambda x: L.vander(x, N=4), fixed([0.0, 1.0, -2.0]))
    checks(lambda x: (ferro.vander(x, 4), ferro.vander(x, 3, True)), fixed([0.0, 2.0]))
    assert ferro.vander(ferro.tensor([1, 2, 3])).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    assert L.vander(ferro.tensor([1, 2], dtype=ferro.int32)).dtype is ferro.int64


@DTYPES
def test_low_rank_decompositions_of_low_rank_matrices(dtype: Any) -> None:
    x, y = random(5, 2, dtype=dtype), random(4, 2, dtype=dtype, seed=1)
    for transposed in (False, True):

        def approximate(x: Any, y: Any, transposed: bool = transposed) -> Any:
            a = y @ x.mH if transposed else x @ y.mH
            u, s, v = ferro.svd_lowrank(a, q=2)
            return s, u * s @ v.mH

        checks(approximate, x, y)
    a = random(5, 3).detach()
    u, s, v = ferro.pca_lowrank(a, q=3)
    np.testing.assert_allclose((u * s @ v.mT).numpy(), (a - a.mean(0)).numpy(), atol=1e-12)


# -- singular and hard points ------------------------------------------------------------------------------------------


def test_equal_singular_values_leave_gradients_of_values_finite() -> None:
    a = fixed([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    assert gradient(L.svdvals(a).sum(), a).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert gradient(L.matrix_norm(a, 2), a).tolist() == [[0.5, 0], [0, 0.5], [0, 0]]
    assert np.isfinite(gradient(L.eigvalsh(a[:2]).sum(), a)).all()
    assert not np.isfinite(gradient(L.svd(a, False).U.sum(), a)).all()
    assert not np.isfinite(gradient(L.eigh(a[:2]).eigenvectors.sum(), a)).all()


def test_the_nuclear_norm_has_second_derivatives_at_equal_singular_values() -> None:
    checks(lambda a: L.matrix_norm(a, "nuc"), fixed([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    checks(lambda a: L.matrix_norm(a, "nuc"), fixed([[1.0, 0.0, 0.0], [0.0, 1.0j, 0.0]], C128))
    checks(lambda a: ferro.norm(a, "nuc"), fixed([[0.0, -3.0], [3.0, 0.0]]))


def test_zero_singular_values_get_no_gradient() -> None:
    zero = fixed(np.zeros((3, 2)))
    for f in (lambda a: L.matrix_norm(a, "nuc"), lambda a: L.matrix_norm(a, 2), lambda a: L.svdvals(a).sum()):
        assert not gradient(f(zero), zero).any()
    a = fixed([[3.0, 0.0], [4.0, 0.0]])  # the smallest subgradient of the nuclear norm is u₁ v₁ᵀ
    np.testing.assert_allclose(gradient(L.matrix_norm(a, "nuc"), a), [[0.6, 0.0], [0.8, 0.0]], atol=1e-15)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_singular_vectors_of_tiny_and_huge_matrices(scale: float) -> None:
    a = random(3, 3)
    weights = random(3, 3, seed=1).detach()

    def loss(a: Any) -> Any:
        u, _, vh = L.svd(a)
        return ((u[:, :1] @ u[:, :1].mT + vh[1:2].mT @ vh[1:2]) * weights).sum()

    want = gradient(loss(a), a)
    b = (a.detach() * scale).requires_grad_()
    np.testing.assert_allclose(gradient(loss(b), b) * scale, want, rtol=1e-8, atol=1e-12)


def test_close_singular_values_against_many_digits() -> None:
    """A = diag(1 + 1e-9, 1): the turn of u₁ under a skew and a symmetric change, whose formulas differ by 2e9."""
    a = fixed([[1 + 1e-9, 0.0], [0.0, 1.0]])
    u = L.svd(a).U
    g = gradient(u[1, 0] * ferro.sign(u[0, 0]), a)  # d u₂₁ = (s₁ dA₂₁ + s₂ dA₁₂) / (s₁² - s₂²)
    with mpmath.workdps(40):
        s1, s2 = mpmath.mpf(1 + 1e-9), mpmath.mpf(1)
        want = [float(s / (s1**2 - s2**2)) for s in (s1, s2)]
    assert g[1, 0] + g[0, 1] == pytest.approx(sum(want), rel=1e-7)
    assert g[1, 0] - g[0, 1] == pytest.approx(float(1 / (s1 + s2)), rel=1e-6)


def exponential(a: np.ndarray, dps: int = 60) -> np.ndarray:
    """The exponential of a real matrix with many digits."""
    with mpmath.workdps(dps):
        m = mpmath.expm(mpmath.matrix(a.tolist()), method="taylor")
        return np.array([[float(m[i, j]) for j in range(m.cols)] for i in range(m.rows)])


@pytest.mark.parametrize(
    "a",
    [
        [[0.0, 1e6], [0.0, 0.0]],
        [[1.0, 1e5], [0.0, -1.0]],
        [[-49.0, 24.0], [-64.0, 31.0]],
        [[1e-9, 2e-9], [0.0, -1e-9]],
        [[0.0, 30.0], [-30.0, 0.0]],
    ],
)
def test_exponentials_and_their_derivatives_against_many_digits(a: list) -> None:
    x = fixed(a)
    y = L.matrix_exp(x)
    want = exponential(np.array(a))
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-11, atol=1e-11 * abs(want).max())
    direction = np.array([[0.3, -0.2], [0.5, 0.7]])
    block = np.block([[np.array(a), direction], [np.zeros((2, 2)), np.array(a)]])
    for size in (1.0, 1e8):  # the size of the cotangent must not cost digits
        weights = np.array([[1.0, 2.0], [-1.0, 0.5]]) * size
        found = (ferro.autograd.grad(y, x, ferro.from_numpy(weights), retain_graph=True)[0].numpy() * direction).sum()
        terms = weights * exponential(block)[:2, 2:]
        assert found == pytest.approx(terms.sum(), rel=1e-9, abs=1e-11 * abs(terms).max())


def test_exponentials_of_the_smallest_and_the_largest_matrices() -> None:
    np.testing.assert_allclose(
        L.matrix_exp(fixed([[0.0, 1e-310], [2e-310, 0.0]])).tolist(), [[1, 1e-310], [2e-310, 1]], rtol=1e-12
    )
    np.testing.assert_allclose(
        L.matrix_exp(fixed(np.full((2, 2), -1e5))).tolist(), [[0.5, -0.5], [-0.5, 0.5]], atol=1e-9
    )
    assert L.matrix_exp(fixed([[1000.0, 0.0], [0.0, 0.0]])).tolist() == [[float("inf"), 0], [0, 1]]
    mixed = np.random.default_rng(0).standard_normal((7, 3, 3)) * np.logspace(-9, 2, 7)[:, None, None]
    np.testing.assert_allclose(
        L.matrix_exp(fixed(mixed)).tolist(), np.stack([exponential(a) for a in mixed]), rtol=1e-10
    )


@DTYPES
def test_exponentials_to_second_order(dtype: Any) -> None:
    checks(L.matrix_exp, random(2, 2, 2, dtype=dtype))
    checks(L.matrix_exp, fixed([[1.0, 1.0], [0.0, 1.0]], dtype))
    assert ferro.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=ferro.float16).matrix_exp().dtype is ferro.float16


def test_exponentials_of_nan_and_inf_are_nan_without_touching_their_neighbours() -> None:
    a = ferro.zeros(2, 2, 2, dtype=F64)
    a[0, 0, 0] = float("inf")
    y = L.matrix_exp(a)
    assert y[0].isnan().all()
    assert y[1].tolist() == [[1, 0], [0, 1]]


# -- gradients that do not exist ---------------------------------------------------------------------------------------


def test_losses_that_depend_on_phases_are_refused() -> None:
    a = random(3, 3, dtype=C128)
    for y in (L.svd(a).U, L.eigh(a + a.mH).eigenvectors, L.eig(a).eigenvectors, L.eig(a.real).eigenvectors):
        with pytest.raises(RuntimeError, match="specified up to multiplication by e"):
            ferro.autograd.grad((y * y).imag.sum() + y.real.sum(), a)


def test_losses_that_depend_on_the_basis_of_a_null_space_are_refused() -> None:
    a = random(5, 2)
    with pytest.raises(RuntimeError, match="arbitrary basis of a null space"):
        ferro.autograd.grad(L.svd(a).U[:, 3].sum(), a)
    with pytest.raises(RuntimeError, match="nrows > ncols"):
        ferro.autograd.grad(L.qr(a, "complete").R.sum(), a)
    with pytest.raises(RuntimeError, match="mode='r'"):
        ferro.autograd.grad(L.qr(a, "r").R.sum(), a)
    with pytest.raises(NotImplementedError, match="geqrf"):
        ferro.autograd.grad(ferro.geqrf(a).a.sum(), a)


# -- errors ------------------------------------------------------------------------------------------------------------

A23, A33, V3 = ferro.ones(2, 3), ferro.ones(3, 3), ferro.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: L.svd(V3), RuntimeError, "at least 2 dimensions"),
        (lambda: L.svd(A33.int()), RuntimeError, "floating point or complex"),
        (lambda: L.svd(A33.half()), RuntimeError, "float16"),
        (lambda: L.svd(A33, driver="gesvd"), RuntimeError, "driver"),
        (lambda: L.svd(A33 * float("nan")), L.LinAlgError, "inf or nan"),
        (lambda: L.eigvals(A33 * float("inf")), L.LinAlgError, "inf or nan"),
        (lambda: L.eigh(ferro.stack([A33, A33 * float("nan")])), L.LinAlgError, "Batch element"),
        (lambda: L.eig(A23), RuntimeError, "square"),
        (lambda: L.eigh(A33, "X"), RuntimeError, "'L' or 'U', but got X"),
        (lambda: L.qr(A33, "raw"), RuntimeError, "unrecognized mode 'raw'"),
        (lambda: L.householder_product(A23, V3), RuntimeError, "greater than or equal to"),
        (lambda: L.householder_product(A23.mT, ferro.ones(4)), RuntimeError, "tau.shape"),
        (lambda: ferro.ormqr(A33, V3, ferro.ones(4, 2)), RuntimeError, "must be equal to input.shape"),
        (lambda: ferro.ormqr(A33, ferro.ones(2), A33), RuntimeError, "tau.shape"),
        (lambda: ferro.ormqr(A33, V3, A33.double()), RuntimeError, "same dtype"),
        (lambda: L.pinv(A23, hermitian=True), RuntimeError, "square"),
        (lambda: L.pinv(A23, rtol="x"), TypeError, "rtol"),
        (lambda: L.matrix_rank(V3), RuntimeError, "at least 2 dimensions"),
        (lambda: L.lstsq(A23, ferro.ones(4, 1)), RuntimeError, "should match"),
        (lambda: L.lstsq(A23, A23.double()), RuntimeError, "same dtype"),
        (lambda: L.lstsq(A23, A23, driver="qr"), RuntimeError, "gels, gelsy, gelsd, gelss"),
        (lambda: L.lstsq(A33 * float("nan"), A33), L.LinAlgError, "inf or nan"),
        (
            lambda: L.lstsq(ferro.tensor([[1.0, 0.0], [1.0, 0.0]]), ferro.ones(2, 1), driver="gels"),
            L.LinAlgError,
            "full rank",
        ),
        (lambda: L.cond(A23, 1), RuntimeError, "square"),
        (lambda: L.cond(A33, 5), RuntimeError, "invalid norm type"),
        (lambda: L.matrix_norm(ferro.zeros(0, 2), -2), IndexError, "non-zero size"),
        (lambda: L.matrix_exp(A23), RuntimeError, "square"),
        (lambda: L.matrix_exp(A33.int()), RuntimeError, "floating point"),
        (lambda: L.vander(V3, N=1), RuntimeError, "greater than 1"),
        (lambda: ferro.vander(A33), RuntimeError, "one-dimensional"),
        (lambda: ferro.vander(V3, -1), RuntimeError, "non-negative"),
        (lambda: ferro.pca_lowrank(A33, q=5), ValueError, "q"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_the_condition_of_a_singular_matrix_is_infinite() -> None:
    a = ferro.stack([A33[:2, :2], ferro.eye(2)])
    assert L.cond(a, 1).tolist() == [float("inf"), 1]
    assert L.cond(ferro.zeros(2, 0, 0), 1).tolist() == L.cond(ferro.zeros(2, 0, 0)).tolist() == [0, 0]


def test_ranks_by_every_tolerance() -> None:
    a = ferro.diag(ferro.tensor([3.0, 2.0, 1.0, 0.0]))
    ways: list[dict[str, Any]] = [{}, {"atol": 1.5}, {"rtol": 0.9}, {"tol": 2.5}, {"hermitian": True}]
    assert [L.matrix_rank(a, **k).item() for k in ways] == [3, 2, 1, 1, 3]
    assert L.matrix_rank(ferro.stack([a, a]), atol=ferro.tensor([0.5, 2.5])).tolist() == [3, 1]
    assert L.matrix_rank(L.pinv(a, 0.5)).item() == 2
    assert L.matrix_rank(L.pinv(a, atol=ferro.tensor(2.5))).item() == 1
