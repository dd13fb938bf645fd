"""Products of matrices and vectors: dtypes, shapes, errors in the user's words, coefficients, einsum's notations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
import ferro.nn.functional as F
from ferro.cpu import products
from ferro.native.threads import get_num_threads, set_num_threads

HALVES = [ferro.float16, ferro.bfloat16]


def normal(rng: np.random.Generator, *shape: int, dtype: Any = ferro.float32, grad: bool = False) -> Any:
    return ferro.tensor(rng.standard_normal(shape)).to(dtype).requires_grad_(grad)


# -- dtypes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_products_of_16_bit_floats_are_summed_in_float32_and_rounded_once(dtype: Any) -> None:
    x = ferro.ones(1, 4096, dtype=dtype)  # a 16-bit sum of ones stops at 256 (bfloat16) or 2048 (float16)
    for product in (x @ x.T, ferro.mm(x, x.T), F.linear(x, x), ferro.einsum("ij,kj->ik", x, x)):
        assert product.dtype is dtype
        assert product.item() == 4096


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_bias_of_a_16_bit_linear_is_added_before_rounding(dtype: Any, torch: Any) -> None:
    a = np.linspace(-1, 1, 24).reshape(4, 6)
    b = np.linspace(-3, 3, 30).reshape(5, 6)
    c = np.linspace(-2, 2, 5)
    got = F.linear(*[ferro.tensor(v).to(dtype) for v in (a, b, c)])
    want = torch.nn.functional.linear(*[torch.tensor(v).to(getattr(torch, dtype.name)) for v in (a, b, c)])
    np.testing.assert_array_equal(got.float().numpy(), want.float().numpy())


def test_integer_products_stay_exact_integers_and_wrap_around() -> None:
    big = ferro.tensor([[2**53 + 1]])
    assert (big @ big[0].new_ones(1, 1)).item() == 2**53 + 1
    byte = ferro.full((1, 2), 100, dtype=ferro.int8)
    product = byte @ byte.T
    assert product.dtype is ferro.int8
    assert product.item() == np.int8(20000 % 256)


def test_operands_of_different_dtypes_are_refused_with_both_dtypes() -> None:
    x, y = ferro.ones(2, 2), ferro.ones(2, 2, dtype=ferro.float64)
    for call in (lambda: x @ y, lambda: ferro.mm(x, y), lambda: F.linear(x, y), lambda: ferro.addmm(y, x, x)):
        with pytest.raises(RuntimeError, match=r"(?s)(?=.*float32)(?=.*float64)"):
            call()


def test_bool_products_are_refused() -> None:
    b = ferro.ones(2, 2, dtype=ferro.bool)
    for call in (lambda: b @ b, lambda: ferro.mm(b, b), lambda: F.linear(b, b), lambda: ferro.einsum("ij,jk", b, b)):
        with pytest.raises(RuntimeError, match="bool"):
            call()
    assert ferro.outer(b[0], b[0]).dtype is ferro.bool  # an elementwise product is no sum


def test_outer_and_kron_promote_dtypes() -> None:
    ints, floats = ferro.tensor([1, 2]), ferro.tensor([0.5])
    assert ferro.outer(ints, floats).tolist() == [[0.5], [1.0]]
    assert ferro.kron(ints, floats).tolist() == [0.5, 1.0]


# -- shapes ------------------------------------------------------------------------------------------------------------


def test_a_misfit_names_shapes_sizes_and_a_transposition_that_helps() -> None:
    x, y = ferro.ones(2, 3), ferro.ones(4, 3)
    with pytest.raises(RuntimeError, match=r"2x3 and 4x3.*, 3, .*, 4 .*other\.mT"):
        x @ y
    with pytest.raises(RuntimeError, match=r"mat1\.mT"):
        ferro.mm(x, ferro.ones(2, 5))
    with pytest.raises(RuntimeError, match=r"5 and 4|\[5, 2, 2\].*\[4, 2, 2\]"):
        ferro.ones(5, 2, 2) @ ferro.ones(4, 2, 2)
    with pytest.raises(RuntimeError, match="at least 1D, but they are 0D and 2D"):
        ferro.tensor(1.0) @ x
    with pytest.raises(RuntimeError, match=r"in.*features.*, 2.*transposed"):
        F.linear(ferro.ones(5, 3), ferro.ones(3, 2))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", [(2, 3), (3,)]),
        ("bmm", [(2, 3), (3, 2)]),
        ("bmm", [(2, 3, 4), (3, 4, 2)]),
        ("mv", [(2, 3), (2,)]),
        ("dot", [(3,), (4,)]),
        ("dot", [(2, 3), (3,)]),
        ("outer", [(2, 3), (3,)]),
        ("addmm", [(3, 3), (2, 3), (3, 4)]),
        ("addmv", [(3,), (2, 3), (3,)]),
        ("baddbmm", [(5, 2, 4), (2, 2, 3), (2, 3, 4)]),
        ("addbmm", [(2, 4), (2, 2, 3), (3, 3, 4)]),
        ("addr", [(3, 3), (2,), (3,)]),
        ("inner", [(2, 3), (2, 4)]),
        ("linalg.cross", [(2, 3), (3,)]),
        ("linalg.cross", [(2, 4), (2, 4)]),
        ("linalg.matrix_power", [(2, 3)]),
        ("chain_matmul", [(2, 3), (3,)]),
    ],
)
def test_wrong_shapes_are_refused(name: str, shapes: list) -> None:
    function: Any = ferro.linalg if name.startswith("linalg.") else ferro
    function = getattr(function, name.removeprefix("linalg."))
    args = [ferro.ones(*s) for s in shapes] + ([2] if name.endswith("power") else [])
    with pytest.raises((RuntimeError, IndexError)):
        function(*args)


def test_what_is_no_tensor_is_refused() -> None:
    x = ferro.ones(2, 2)
    for call in (lambda: x @ 3, lambda: ferro.mm(x, [[1.0]]), lambda: F.linear(x, None), lambda: ferro.einsum("ij", 3)):
        with pytest.raises(TypeError, match="Tensor"):
            call()


def test_the_gradient_of_a_matrix_shared_by_a_stack_is_summed_over_the_stack(rng: np.random.Generator) -> None:
    w = normal(rng, 3, 4, dtype=ferro.float64, grad=True)
    x = normal(rng, 5, 2, 3, dtype=ferro.float64)
    g = normal(rng, 5, 2, 4, dtype=ferro.float64)
    (x @ w).backward(g)
    np.testing.assert_allclose(w.grad.numpy(), np.einsum("bik,bij->kj", x.numpy(), g.numpy()))
    w.grad = None
    (w.T @ x.mT).backward(g.mT)
    np.testing.assert_allclose(w.grad.numpy(), np.einsum("bik,bij->kj", x.numpy(), g.numpy()))


def test_a_linear_map_is_one_node_for_any_number_of_leading_dimensions(rng: np.random.Generator) -> None:
    w, b = normal(rng, 4, 3, grad=True), normal(rng, 4, grad=True)
    y = F.linear(normal(rng, 2, 5, 3), w, b)
    assert y.shape == (2, 5, 4)
    assert [None if f is None else f.name() for f, _ in y.grad_fn.next_functions] == [None, *["AccumulateGrad"] * 2]
    assert y.grad_fn.name() == "LinearBackward0"


def test_products_are_bitwise_equal_for_any_number_of_threads(rng: np.random.Generator) -> None:
    x, w = normal(rng, 300, 200), normal(rng, 250, 200)
    before = get_num_threads()
    results = []
    try:
        for n in (1, 2, 4):
            set_num_threads(n)
            results.append(F.linear(x, w).numpy())
    finally:
        set_num_threads(before)
    assert all(np.array_equal(results[0], r) for r in results)


# -- coefficients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "addr"])
def test_what_is_multiplied_by_beta_0_is_not_read(name: str) -> None:
    shapes = {
        "addmm": [(2, 2), (2, 3), (3, 2)],
        "addmv": [(2,), (2, 3), (3,)],
        "baddbmm": [(2, 2, 2), (2, 2, 3), (2, 3, 2)],
        "addr": [(2, 3), (2,), (3,)],
    }[name]
    c = ferro.full(shapes[0], float("nan"))
    result = getattr(ferro, name)(c, ferro.ones(*shapes[1]), ferro.ones(*shapes[2]), beta=0)
    assert not result.isnan().any()


def test_integer_tensors_take_integer_coefficients_only() -> None:
    i = ferro.ones(2, 2, dtype=ferro.int64)
    assert ferro.addmm(i, i, i, beta=2, alpha=3).tolist() == [[8, 8], [8, 8]]
    with pytest.raises(RuntimeError, match=r"integers.*beta=0\.5"):
        ferro.addmm(i, i, i, beta=0.5)


def test_in_place_forms_write_into_their_tensor_and_are_recorded(rng: np.random.Generator) -> None:
    x = normal(rng, 2, 3, grad=True)
    c = ferro.zeros(2, 2)
    kept = c
    c.addmm_(x, x.T, alpha=2)
    assert kept is c
    c.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.tile(4 * x.detach().numpy().sum(0), (2, 1)), rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"cannot be broadcast|broadcast shape"):
        ferro.zeros(1, 2).addmm_(x.detach(), x.detach().T)


# -- einsum ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "equation",
    ["ij,jk", " i j , j k -> k i", "ij,kl->", "ij,jk->ijk", "...j,jk->...k", "i...,...k->...", "ij,jk,kl->il"],
)
def test_einsum_equals_numpys(equation: str, rng: np.random.Generator) -> None:
    sizes = {"i": 2, "j": 3, "k": 3, "l": 3, ".": 3}
    terms = equation.replace(" ", "").split("->")[0].replace("...", ".").split(",")
    arrays = [rng.standard_normal([sizes[c] for c in term]) for term in terms]
    got = ferro.einsum(equation, *map(ferro.tensor, arrays))
    np.testing.assert_allclose(got.numpy(), np.einsum(equation.replace(" ", ""), *arrays), rtol=1e-12, atol=1e-12)


def test_einsum_takes_lists_of_numbers_and_one_list_of_operands(rng: np.random.Generator) -> None:
    x, y = normal(rng, 2, 3), normal(rng, 3, 4)
    want = (x @ y).numpy()
    np.testing.assert_array_equal(ferro.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), want)
    np.testing.assert_array_equal(ferro.einsum(x, [0, 1], y, [1, 2]).numpy(), want)
    np.testing.assert_array_equal(ferro.einsum(x, [Ellipsis, 1], y, [1, 2], [Ellipsis, 2]).numpy(), want)
    np.testing.assert_array_equal(ferro.einsum("ij,jk", [x, y]).numpy(), want)


def test_einsum_broadcasts_sizes_of_1_and_orders_capitals_first(rng: np.random.Generator) -> None:
    x, y = normal(rng, 2, 1), normal(rng, 4, 2)
    np.testing.assert_allclose(ferro.einsum("ij,jk->ik", x, y).numpy(), x.numpy() * y.numpy().sum(0), rtol=1e-6)
    assert ferro.einsum("aB", normal(rng, 2, 3)).shape == (3, 2)


def test_a_contraction_like_bmm_gives_memory_of_its_own() -> None:
    """A view, even of all of it, would be copied when it becomes a gradient."""
    x = np.ones((2, 3, 4), np.float32)
    found = products.contract(x, x.swapaxes(1, 2), (0, 1, 2), (0, 2, 3), (0, 1, 3))
    assert found.base is None
    assert (found == 4).all()


def test_a_contraction_of_two_tensors_is_one_node(rng: np.random.Generator) -> None:
    x, y = normal(rng, 2, 3, 4, grad=True), normal(rng, 4, 3, 5, grad=True)
    out = ferro.einsum("bij,jik->kb", x, y)
    assert [f.name() for f, _ in out.grad_fn.next_functions] == ["AccumulateGrad", "AccumulateGrad"]


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], "subscript j has size 4 .* size 3"),
        ("ij,jk->iz", [(2, 3), (3, 2)], "output subscript z does not appear"),
        ("ij,jk->ii", [(2, 3), (3, 2)], "output subscript i appears more than once"),
        ("ij,jk", [(2, 3)], "fewer operands"),
        ("ij", [(2, 3), (2, 3)], "more operands"),
        ("ijk", [(2, 3)], r"\(3\) does not match the number of dimensions \(2\)"),
        ("ij...k", [(2, 3)], r"\(3\) is more than the number of dimensions \(2\)"),
        ("i..j", [(2, 3)], "not part of any ellipsis"),
        ("i1", [(2, 3)], "'1' .* must be letters"),
        ("ii", [(2, 3)], "repeated .* 3 != 2"),
    ],
)
def test_einsum_says_what_is_wrong_with_an_equation(equation: str, shapes: list, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ferro.einsum(equation, *[ferro.ones(*s) for s in shapes])


def test_einsum_needs_numbers_below_52() -> None:
    with pytest.raises(ValueError, match="52"):
        ferro.einsum(ferro.ones(2), [99])


# -- chains and powers -------------------------------------------------------------------------------------------------


def test_a_chain_is_multiplied_in_the_cheapest_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferro.ops import matrix_chains

    seen = []
    real = matrix_chains.mm
    monkeypatch.setattr(matrix_chains, "mm", lambda x, y: seen.append((tuple(x.shape), tuple(y.shape))) or real(x, y))
    ferro.linalg.multi_dot([ferro.ones(10, 100), ferro.ones(100, 5), ferro.ones(5, 50)])
    assert seen == [((10, 100), (100, 5)), ((10, 5), (5, 50))]
    seen.clear()
    ferro.linalg.multi_dot([ferro.ones(50, 5), ferro.ones(5, 100), ferro.ones(100, 10)])
    assert seen == [((5, 100), (100, 10)), ((50, 5), (5, 10))]


def test_powers_of_a_matrix(rng: np.random.Generator) -> None:
    x = normal(rng, 2, 3, 3, dtype=ferro.float64)
    for n in (0, 1, 5, -3):
        np.testing.assert_allclose(
            ferro.linalg.matrix_power(x, n).numpy(), np.linalg.matrix_power(x.numpy(), n), rtol=1e-9
        )
    i = ferro.tensor([[1, 1], [0, 1]])
    assert i.matrix_power(10).tolist() == [[1, 10], [0, 1]]
    with pytest.raises(RuntimeError, match="singular"):
        ferro.linalg.matrix_power(ferro.zeros(2, 2), -1)


def test_out_receives_the_product() -> None:
    x, out = ferro.ones(2, 2), ferro.empty(2, 2)
    assert ferro.mm(x, x, out=out) is out
    assert out.tolist() == [[2, 2], [2, 2]]


def test_inner_with_a_number_of_another_dtype_multiplies() -> None:
    x = ferro.tensor([[0.5, 1.0], [2.0, 4.0]])
    assert ferro.inner(x, ferro.tensor(2)).tolist() == [[1.0, 2.0], [4.0, 8.0]]
    with pytest.raises(RuntimeError, match="inner: expected all operands to have the same dtype"):
        ferro.inner(x, ferro.ones(2, dtype=ferro.int64))
