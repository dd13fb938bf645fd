"""Behaviours of the pointwise operations: conventions at kinks and edges, dtypes, errors, operators, views."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np
import pytest

import ferro

INF, NAN = float("inf"), float("nan")


def gradients(function: Any, *values: Any) -> list:
    """The gradients of the sum of function at points given as lists, as lists."""
    xs = [ferro.tensor(v, dtype=ferro.float64, requires_grad=True) for v in values]
    return [g.tolist() for g in ferro.autograd.grad(function(*xs).sum(), xs)]


# Conventions at kinks and edges.


def test_the_derivative_of_abs_is_zero_at_zero() -> None:
    assert gradients(ferro.abs, [0.0, -0.0, 2.0, -INF]) == [[0, 0, 1, -1]]


def test_a_tie_of_maximum_or_minimum_is_shared_by_halves() -> None:
    for f in (ferro.maximum, ferro.minimum):
        assert gradients(f, [1.0, 1.0], [1.0, NAN]) == [[0.5, 1], [0.5, 1]]


def test_a_tie_of_fmax_or_fmin_goes_to_the_first_operand() -> None:
    for f in (ferro.fmax, ferro.fmin):
        assert gradients(f, [1.0, NAN, 1.0], [1.0, 1.0, NAN]) == [[1, 0, 1], [0, 1, 0]]


def test_clamp_passes_the_gradient_at_its_edges() -> None:
    assert gradients(lambda x: ferro.clamp(x, 0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [[0, 1, 1, 1, 0]]
    assert gradients(lambda x: ferro.clamp(x, 1, 0), [-1.0, 0.5, 2.0]) == [[0, 0, 0]]


def test_tensor_bounds_of_clamp_get_the_gradient_where_they_are_taken() -> None:
    found = gradients(ferro.clamp, [1.0, 2.0, 3.0, 0.0], [1.0, 3.0, 2.0, 1.0], [1.0, 2.0, 2.0, 3.0])
    assert found == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0]]


def test_roots_and_logarithms_have_infinite_derivatives_at_zero() -> None:
    assert gradients(ferro.sqrt, [0.0]) == [[INF]]
    assert gradients(ferro.log, [0.0]) == [[INF]]
    assert gradients(ferro.rsqrt, [0.0]) == [[-INF]]


def test_powers_of_zero() -> None:
    assert ferro.tensor([0.0]).pow(0).tolist() == [1.0]
    assert gradients(lambda x: x**0, [0.0, NAN]) == [[0, 0]]
    assert gradients(ferro.pow, [0.0, 0.0], [0.0, 1.0]) == [[0, 1], [0, 0]]
    assert gradients(lambda y: ferro.pow(0, y), [0.0, 1.0, -1.0]) == [[0, 0, -INF]]


def test_a_negative_base_has_integer_powers_only() -> None:
    x = ferro.tensor([-8.0])
    assert np.isnan((x ** (1 / 3)).item())
    assert (x**3).item() == -512
    assert gradients(lambda x: x**3, [-2.0]) == [[12]]


def test_xlogy_is_zero_where_the_factor_is() -> None:
    assert ferro.xlogy(ferro.tensor([0.0, 0.0, 1.0]), ferro.tensor([0.0, -1.0, 0.0])).tolist() == [0, 0, -INF]
    assert gradients(lambda x: ferro.xlogy(x, 0.0), [0.0]) == [[0]]
    assert ferro.special.xlog1py(ferro.tensor([0.0]), -1.0).tolist() == [0]


def test_atan2_and_hypot_have_no_slope_at_the_origin() -> None:
    assert gradients(ferro.atan2, [0.0], [0.0]) == [[0], [0]]
    assert gradients(ferro.hypot, [0.0], [0.0]) == [[0], [0]]


def test_what_where_does_not_choose_gets_zero_even_from_an_infinite_cotangent() -> None:
    x = ferro.tensor([1.0, 2.0], requires_grad=True)
    y = ferro.where(ferro.tensor([True, False]), x, 3.0)
    y.backward(ferro.tensor([INF, INF]))
    assert x.grad.tolist() == [INF, 0]


def test_rounding_stays_connected_with_zero_gradient_and_comparisons_do_not() -> None:
    for f in (ferro.floor, ferro.ceil, ferro.trunc, ferro.round, ferro.sign):
        assert gradients(f, [0.5, 2.0]) == [[0, 0]]
    assert gradients(lambda x: x // 2, [0.5, 2.0]) == [[0, 0]]
    x = ferro.tensor([0.5], requires_grad=True)
    assert not (x > 0).requires_grad


def test_the_sign_of_nan_is_zero() -> None:
    assert ferro.sign(ferro.tensor([NAN, -0.0, -3.0])).tolist() == [0, 0, -1]
    assert ferro.sign(ferro.full((5000,), NAN)).sum().item() == 0


def test_nan_to_num_passes_no_gradient_where_it_replaces() -> None:
    assert gradients(ferro.nan_to_num, [NAN, INF, 1.0]) == [[0, 0, 1]]


def test_the_angle_of_a_real_number_and_its_derivative() -> None:
    assert ferro.angle(ferro.tensor([-1.0, 0.0, 1.0])).tolist() == [pytest.approx(np.pi), 0, 0]
    assert gradients(ferro.angle, [-1.0, 0.0]) == [[0, 0]]
    z = ferro.tensor([0j, 3 + 4j], requires_grad=True)
    ferro.angle(z).sum().backward()
    assert z.grad.tolist() == [0, pytest.approx(-0.16 + 0.12j)]


# Dtypes.


def test_division_of_integers_gives_the_default_dtype() -> None:
    x = ferro.tensor([1, 2])
    assert (x / 2).dtype is ferro.float32
    assert (x / x).dtype is ferro.float32
    assert ferro.div(x, 2, rounding_mode="floor").dtype is ferro.int64
    ferro.set_default_dtype(ferro.float64)
    try:
        assert (x / 2).dtype is ferro.float64
        assert x.exp().dtype is ferro.float64
    finally:
        ferro.set_default_dtype(ferro.float32)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_python_numbers_do_not_widen_a_floating_tensor(name: str) -> None:
    dtype = getattr(ferro, name)
    x = ferro.ones(3).to(dtype)
    for y in (
        x + 1,
        2 - x,
        x * 1.5,
        1 / x,
        x**2,
        x**1.5,
        2**x,
        x + True,
        x.lerp(x, 0.3),
        ferro.addcmul(x, x, x, value=0.5),
    ):
        assert y.dtype is dtype


UNARY = [
    "abs",
    "acos",
    "acosh",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "i0",
    "isfinite",
    "isnan",
    "isreal",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "logit",
    "nan_to_num",
    "neg",
    "positive",
    "rad2deg",
    "real",
    "reciprocal",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "float_power",
    "atan2",
    "copysign",
    "eq",
    "lt",
    "xlogy",
    "bitwise_and",
    "bitwise_or",
    "maximum",
    "clamp_min",
    "logical_and",
]
DTYPES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


def outcome(function: Any, *args: Any) -> str:
    """The dtype of the result, or the class of the exception."""
    try:
        return str(function(*args).dtype).rsplit(".", 1)[-1]
    except Exception as e:  # noqa: BLE001 - which exception it is, is what is compared
        return type(e).__name__


@pytest.mark.parametrize("name", UNARY)
def test_results_have_the_dtype_of_pytorch(name: str, torch: Any) -> None:
    for d in DTYPES:
        got = outcome(getattr(ferro, name), ferro.ones(2).to(getattr(ferro, d)))
        assert got == outcome(getattr(torch, name), torch.ones(2).to(getattr(torch, d))), d


@pytest.mark.parametrize("name", BINARY)
def test_results_of_two_operands_have_the_dtype_of_pytorch(name: str, torch: Any) -> None:
    for d in DTYPES:
        for e in DTYPES:
            pair = [[lib.ones(2).to(getattr(lib, t)) for t in (d, e)] for lib in (ferro, torch)]
            assert outcome(getattr(ferro, name), *pair[0]) == outcome(getattr(torch, name), *pair[1]), (d, e)


@pytest.mark.parametrize("number", [True, 3, 1.5, 2j])
def test_results_beside_a_number_have_the_dtype_of_pytorch(number: Any, torch: Any) -> None:
    operators = [operator.add, operator.mul, operator.truediv, operator.eq, operator.pow]
    operators += [] if number is True else [operator.sub]
    for d in DTYPES:
        if (d == "float16" and number == 2j) or (d == "bool" and number is True):
            continue  # PyTorch has no complex32 arithmetic on the CPU; bool ** True is no power
        for f in operators:
            x, y = ferro.ones(2).to(getattr(ferro, d)), torch.ones(2).to(getattr(torch, d))
            assert outcome(f, x, number) == outcome(f, y, number), (d, f)
            assert outcome(f, number, x) == outcome(f, number, y), (d, f)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function", ["sigmoid", "rsqrt", "logit", "sinc", "erf", "lgamma", "xlogy", "lerp", "softplus"]
)
def test_16_bit_results_are_rounded_once(name: str, function: str, rng: np.random.Generator) -> None:
    f = getattr(ferro, function, None) or getattr(ferro.nn.functional, function)
    x = ferro.from_numpy(rng.uniform(0.05, 0.95, 50).astype(np.float32)).to(getattr(ferro, name))
    args = {"xlogy": (x,), "lerp": (x * 2, 0.3)}.get(function, ())
    exact = f(x.to(ferro.float64), *[a.to(ferro.float64) if isinstance(a, ferro.Tensor) else a for a in args])
    got = f(x, *args)
    assert got.dtype is getattr(ferro, name)
    unit = ferro.finfo(got.dtype).eps
    assert bool(((got.to(ferro.float64) - exact).abs() <= 0.51 * unit * exact.abs() + 1e-6).all())


def test_integers_to_negative_powers() -> None:
    x = ferro.tensor([2, 1, -1, -1])
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-1
    assert (x ** ferro.tensor([-1, -1, -1, -2])).tolist() == [0, 1, -1, 1]


# Errors.

ONE, BOOLS, INTS = ferro.ones(2), ferro.ones(2) > 0, ferro.tensor([1, 2])
WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: BOOLS - BOOLS, RuntimeError, "two bool tensors"),
    (lambda: ONE - BOOLS, RuntimeError, "a bool tensor"),
    (lambda: 1 - BOOLS, RuntimeError, "a bool tensor"),
    (lambda: -BOOLS, RuntimeError, "logical_not"),
    (lambda: +BOOLS, RuntimeError, "bool"),
    (lambda: INTS // 0, RuntimeError, "ZeroDivisionError"),
    (lambda: INTS % 0, RuntimeError, "ZeroDivisionError"),
    (lambda: ferro.div(ONE, ONE, rounding_mode="up"), RuntimeError, "'up'"),
    (lambda: ferro.add(INTS, INTS, alpha=1.5), RuntimeError, "alpha"),
    (lambda: ferro.add(ONE, ONE, alpha=1j), RuntimeError, "alpha"),
    (lambda: ferro.add(ONE, ONE, alpha=True), RuntimeError, "alpha"),
    (lambda: ferro.maximum(ONE, 2), TypeError, "other"),  # type: ignore[arg-type]
    (lambda: ferro.logical_and(ONE, 1), TypeError, "other"),  # type: ignore[arg-type]
    (lambda: ferro.bitwise_and(1, 2), TypeError, "Tensor"),
    (lambda: ferro.pow(2, 3), TypeError, "tensor"),
    (lambda: ONE & ONE, NotImplementedError, "integers"),
    (lambda: ~ONE, TypeError, "invert"),
    (lambda: ONE << 1, NotImplementedError, "integers"),
    (lambda: ferro.clamp(ONE), RuntimeError, "min"),
    (lambda: ferro.where(INTS, ONE, ONE), RuntimeError, "boolean"),
    (lambda: ferro.lerp(ONE, ONE.double(), 0.5), RuntimeError, "end"),
    (lambda: ferro.addcdiv(INTS, INTS, INTS), RuntimeError, "Integer division with addcdiv is no longer supported"),
    (lambda: ferro.heaviside(ONE, INTS), RuntimeError, "dtype"),
    (lambda: ferro.isclose(ONE, INTS), RuntimeError, "dtype"),
    (lambda: ferro.sign(ONE + 0j), NotImplementedError, "sgn"),
    (lambda: (ONE + 0j) < ONE, NotImplementedError, "order"),
    (lambda: ferro.floor(ONE + 0j), NotImplementedError, "complex"),
    (lambda: ferro.imag(ONE), RuntimeError, "imag"),
    (lambda: ferro.complex(ONE, ONE.double()), RuntimeError, "dtype"),
    (lambda: ferro.view_as_complex(ferro.ones(3)), RuntimeError, "dimension of size 2"),
    (lambda: ferro.view_as_complex(ferro.ones(2, 3).T), RuntimeError, "stride"),
    (lambda: ferro.polygamma(-1, ONE), RuntimeError, "negative"),
    (lambda: ferro.mvlgamma(ONE, 0), RuntimeError, "p has to be"),
    (lambda: ferro.gcd(ONE, ONE), NotImplementedError, "integer"),
    (lambda: ferro.ones(3) + ferro.ones(2), RuntimeError, "broadcast"),
    (lambda: ferro.ones(2, dtype=ferro.int64).div_(2), RuntimeError, "cast"),
    (lambda: ferro.ones(1).add_(ferro.ones(2)), RuntimeError, "shape"),
]


@pytest.mark.parametrize("case", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_calls_are_refused(case: tuple) -> None:
    call, error, words = case
    with pytest.raises(error, match=words):
        call()


def test_a_derivative_without_closed_form_is_refused_by_backward_only() -> None:
    a = ferro.tensor([2.0], requires_grad=True)
    for f in (ferro.igamma, ferro.igammac, ferro.special.zeta):
        value = f(a, ferro.tensor([3.0]))
        with pytest.raises(NotImplementedError, match="input"):
            value.backward()


# Operators.


class Other:
    """An operand that tensors know nothing of."""

    def __radd__(self, left: Any) -> str:
        return "added"

    def __rsub__(self, left: Any) -> str:
        return "subtracted"

    def __rtruediv__(self, left: Any) -> str:
        return "divided"


def test_an_unknown_operand_is_asked() -> None:
    x = ferro.ones(2)
    assert x + Other() == "added"
    assert x - Other() == "subtracted"
    assert x / Other() == "divided"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + None  # type: ignore[operator]
    with pytest.raises(TypeError, match="not supported between"):
        x < None  # type: ignore[operator]  # noqa: B015


def test_a_tensor_differs_from_what_is_no_operand() -> None:
    x = ferro.ones(2)
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == "x") is False
    assert x in [None, x]


def test_reflected_operators() -> None:
    x = ferro.tensor([1.0, 2.0])
    assert (3 - x).tolist() == [2, 1]
    assert (2 / x).tolist() == [2, 1]
    assert (3**x).tolist() == [3, 9]
    assert (5 // x).tolist() == [5, 2]
    assert (5 % x).tolist() == [0, 1]
    n = ferro.tensor([1, 2])
    assert (3 & n).tolist() == [1, 2]
    assert (1 << n).tolist() == [2, 4]
    assert (3 ^ n).tolist() == [2, 1]


def test_quotients_round_towards_zero_or_down() -> None:
    x = ferro.tensor([-7, 7, -6, 6])
    assert ferro.div(x, 3, rounding_mode="trunc").tolist() == [-2, 2, -2, 2]
    assert ferro.div(x, 3, rounding_mode="floor").tolist() == [-3, 2, -2, 2]
    assert ferro.div(x, -3, rounding_mode="trunc").tolist() == [2, -2, 2, -2]
    assert (x % 3).tolist() == [2, 1, 0, 0]
    assert ferro.fmod(x, 3).tolist() == [-1, 1, 0, 0]


def test_in_place_functions_return_the_tensor_and_out_receives_the_result() -> None:
    x = ferro.tensor([4.0, 9.0])
    assert ferro.sqrt_(x) is x
    assert x.tolist() == [2, 3]
    assert x.pow_(2).add_(1, alpha=2).tolist() == [6, 11]
    target = ferro.empty(2)
    assert ferro.neg(x, out=target) is target
    assert target.tolist() == [-6, -11]
    x -= 1
    x **= 2
    assert x.tolist() == [25, 100]


def test_nearly_equal_tensors() -> None:
    x, y = ferro.tensor([1.0, NAN, INF]), ferro.tensor([1.0 + 1e-7, NAN, INF])
    assert ferro.isclose(x, y).tolist() == [True, False, True]
    assert ferro.allclose(x, y, equal_nan=True)
    assert ferro.equal(x[:1], x[:1])
    assert not ferro.equal(x, x[:1])


def test_where_with_a_condition_alone_gives_indices() -> None:
    rows, columns = ferro.where(ferro.tensor([[0.0, 1.0], [2.0, 0.0]]))
    assert rows.tolist() == [0, 1]
    assert columns.tolist() == [1, 0]
    assert rows.dtype is ferro.int64


# Complex views.


def test_real_and_imaginary_parts_are_views() -> None:
    z = ferro.tensor([1 + 2j, 3 + 4j])
    z.real = ferro.tensor([5.0, 6.0])
    z.imag.mul_(10)
    assert z.tolist() == [5 + 20j, 6 + 40j]
    parts = ferro.view_as_real(z)
    parts[0, 1] = 0
    assert z.tolist() == [5, 6 + 40j]
    assert ferro.view_as_complex(parts).tolist() == z.tolist()


def test_gradients_flow_through_complex_views(torch: Any, rng: np.random.Generator) -> None:
    values = rng.standard_normal((3, 2))
    found = []
    for library in (ferro, torch):
        x = library.from_numpy(values.copy()).requires_grad_()
        z = library.view_as_complex(x)
        w = library.view_as_real(z * z.conj() * (1 + 2j)) * library.from_numpy(values.copy())
        (g,) = library.autograd.grad((w * w).sum(), x, create_graph=True)
        (h,) = library.autograd.grad((g * g).sum(), x)
        found.append([g.detach().numpy(), h.numpy()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_writing_a_part_is_differentiable() -> None:
    x = ferro.tensor([1.0, 2.0], requires_grad=True)
    z = ferro.zeros(2, dtype=ferro.complex64)
    z.imag.copy_(x * 3)
    (z * 1j).real.sum().backward()
    assert x.grad.tolist() == [-3, -3]


# Large arrays.


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "sin", "sigmoid", "erf", "lgamma", "sign", "clamp", "nan_to_num"]
)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_large_arrays_give_what_small_ones_give(name: str, layout: str, rng: np.random.Generator) -> None:
    a = rng.uniform(0.1, 3, (600, 900))
    a[3, 5] = NAN if name in ("sign", "nan_to_num") else 1.0
    x = ferro.from_numpy({"contiguous": a, "transposed": a.T, "strided": a[:, ::2]}[layout])
    f = (lambda t: ferro.clamp(t, 0.5, 1.5)) if name == "clamp" else getattr(ferro, name)
    rows = np.stack([f(x[i]).numpy() for i in range(0, len(x), 97)])
    np.testing.assert_allclose(f(x).numpy()[::97], rows, rtol=1e-14, atol=1e-15)


def test_the_fused_backward_of_sigmoid_equals_the_composed_one(rng: np.random.Generator) -> None:
    x = ferro.from_numpy(rng.standard_normal((300, 400))).requires_grad_()
    v = ferro.from_numpy(rng.standard_normal((300, 400)))
    found = [ferro.autograd.grad(ferro.sigmoid(x), x, v, create_graph=recorded)[0] for recorded in (False, True)]
    np.testing.assert_allclose(found[0].numpy(), found[1].detach().numpy(), rtol=1e-13, atol=1e-16)


S = ferro.special


@pytest.mark.parametrize(
    "function",
    [S.bessel_j1, S.bessel_y1, S.modified_bessel_k1, S.airy_ai, S.scaled_modified_bessel_k1, S.spherical_bessel_j0],
)
def test_bessel_functions_that_pytorch_cannot_differentiate(function: Any, rng: np.random.Generator) -> None:
    x = ferro.from_numpy(rng.uniform(0.5, 3, 4)).requires_grad_()
    assert ferro.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize(
    "function", [S.chebyshev_polynomial_t, S.chebyshev_polynomial_w, S.laguerre_polynomial_l, S.legendre_polynomial_p]
)
def test_polynomials_that_pytorch_cannot_differentiate(function: Any, rng: np.random.Generator) -> None:
    x = ferro.from_numpy(rng.uniform(-0.9, 0.9, 4)).requires_grad_()
    assert ferro.autograd.gradgradcheck(lambda t: function(t, 5), (x,))


CHEBYSHEV = "tuvw"


@pytest.mark.parametrize("kind", CHEBYSHEV)
@pytest.mark.parametrize("n", [4097, 2**31, 2**31 + 1])
def test_chebyshev_polynomials_of_huge_degrees_follow_their_definitions(kind: str, n: int) -> None:
    import mpmath

    f = getattr(S, f"chebyshev_polynomial_{kind}")
    points = [-1.0, -0.999, -0.3, 0.0, 0.7, 1.0]
    with mpmath.workdps(40):
        want = [_chebyshev(kind, n, mpmath.mpf(p)) for p in points]
    got = f(ferro.tensor(points, dtype=ferro.float64), n).tolist()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    outside = f(ferro.tensor([1.5, -1.5, -math.inf], dtype=ferro.float64), n)
    assert outside.tolist() == [math.inf, math.inf * (-1) ** n, math.inf * (-1) ** n]


def _chebyshev(kind: str, n: int, x: Any) -> float:
    import mpmath

    if abs(x) == 1:
        value = {"t": 1, "u": n + 1, "v": 1 if x > 0 else 2 * n + 1, "w": 2 * n + 1 if x > 0 else 1}[kind]
        return float(value * x**n)
    t = mpmath.acos(x)
    return float(
        {
            "t": lambda: mpmath.cos(n * t),
            "u": lambda: mpmath.sin((n + 1) * t) / mpmath.sin(t),
            "v": lambda: mpmath.cos((n + 0.5) * t) / mpmath.cos(t / 2),
            "w": lambda: mpmath.sin((n + 0.5) * t) / mpmath.sin(t / 2),
        }[kind]()
    )


def test_the_third_and_fourth_chebyshev_polynomials_do_not_cancel() -> None:
    x = ferro.tensor([1.0])
    assert S.chebyshev_polynomial_v(x, 2**26).item() == 1
    assert S.chebyshev_polynomial_w(-x, 2**26).item() == 1


@pytest.mark.parametrize("kind", CHEBYSHEV)
def test_chebyshev_polynomials_join_where_the_closed_forms_begin(kind: str, rng: np.random.Generator) -> None:
    x = ferro.from_numpy(rng.uniform(-1.0005, 1.0005, 50)).requires_grad_()
    f = getattr(S, f"chebyshev_polynomial_{kind}")
    two, one, none = f(x, 4098), f(x, 4097), f(x, 4096)
    np.testing.assert_allclose((two + none).detach().numpy(), (2 * x * one).detach().numpy(), rtol=1e-7, atol=1e-7)
    point = ferro.tensor([0.3], dtype=ferro.float64, requires_grad=True)
    assert ferro.autograd.gradcheck(lambda t: f(t, 4097), (point,), eps=1e-9, rtol=1e-3)


@pytest.mark.parametrize("name", ["legendre_polynomial_p", "laguerre_polynomial_l"])
def test_degrees_that_cost_too_much_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: the degree n is 2147483648; it may be 1048576 at most"):
        getattr(S, name)(ferro.ones(3), 2**31)
    assert getattr(S, name)(ferro.tensor([0.0, 0.5]), ferro.tensor([-(2.0**31), math.nan])).tolist() == [0, 0]


@pytest.mark.parametrize("name", ["hermite_polynomial_h", "hermite_polynomial_he"])
def test_hermite_polynomials_of_huge_degrees_are_nan_as_in_pytorch(name: str) -> None:
    assert math.isnan(getattr(S, name)(ferro.tensor([0.5]), 2**31).item())


DERIVATIVES_AT_ZERO = {  # the value and three derivatives at 0, by their series
    "sinc": (1.0, 0.0, -(math.pi**2) / 3, 0.0),
    "special.spherical_bessel_j0": (1.0, 0.0, -1 / 3, 0.0),
    "special.bessel_j0": (1.0, 0.0, -0.5, 0.0),
    "special.bessel_j1": (0.0, 0.5, 0.0, -0.375),
    "special.i1": (0.0, 0.5, 0.0, 0.375),
}


@pytest.mark.parametrize("path", DERIVATIVES_AT_ZERO)
def test_smooth_functions_have_all_derivatives_at_zero(path: str) -> None:
    function: Any = ferro
    for part in path.split("."):
        function = getattr(function, part)
    x = ferro.zeros(1, dtype=ferro.float64, requires_grad=True)
    y = function(x)
    for i, want in enumerate(DERIVATIVES_AT_ZERO[path]):
        if i:
            (y,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
        assert y.item() == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("at", [1e-8, 1e-5, 1e-3, 0.1, 3.3])
def test_the_slope_of_sinc_keeps_its_digits_near_zero(at: float) -> None:
    import mpmath

    x = ferro.tensor([at], dtype=ferro.float64, requires_grad=True)
    (slope,) = ferro.autograd.grad(ferro.sinc(x).sum(), x)
    with mpmath.workdps(40):
        want = float(mpmath.diff(lambda t: mpmath.sinc(mpmath.pi * t), mpmath.mpf(at)))
    assert slope.item() == pytest.approx(want, rel=1e-13)


def test_hypot_has_the_smallest_subgradient_at_the_origin() -> None:
    x = ferro.zeros(1, dtype=ferro.float64, requires_grad=True)
    y = ferro.zeros(1, dtype=ferro.float64, requires_grad=True)
    first = ferro.autograd.grad(ferro.hypot(x, y).sum(), (x, y), create_graph=True)
    assert [g.item() for g in first] == [0.0, 0.0]
    second = ferro.autograd.grad(first[0].sum() + first[1].sum(), (x, y))
    assert [g.item() for g in second] == [0.0, 0.0]


OLD_SIGNATURES: dict[str, Any] = {
    "add": lambda f, x, y: f.add(x, 2, y),
    "add_": lambda f, x, y: x.clone().add_(2, y),
    "sub": lambda f, x, y: f.sub(x, 2, y),
    "addcmul": lambda f, x, y: f.addcmul(x, 0.5, x, y),
    "addcmul_": lambda f, x, y: x.clone().addcmul_(0.5, x, y),
    "addcdiv": lambda f, x, y: f.addcdiv(x, 0.5, x, y),
    "addcdiv_": lambda f, x, y: x.clone().addcdiv_(0.5, x, y),
}


@pytest.mark.parametrize("name", OLD_SIGNATURES)
def test_old_signatures_with_the_number_first_are_taken_with_torchs_warning(torch: Any, name: str) -> None:
    def outcome(f: Any) -> tuple:
        f.set_warn_always(True)
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                t = OLD_SIGNATURES[name](f, f.tensor([1.0, 2.0]), f.tensor([3.0, 4.0]))
        finally:
            f.set_warn_always(False)
        return t.tolist(), [str(w.message).split(" (Triggered")[0].replace("add_", "add") for w in seen]

    (ours, said), (theirs, expected) = outcome(ferro), outcome(torch)
    assert ours == pytest.approx(theirs)
    assert said
    assert [line.split("\n")[0].rstrip(":").replace("_ is", " is") for line in expected] == [
        line.split("\n")[0].rstrip(":") for line in said
    ]
    with pytest.raises(TypeError, match="positional arguments but 5 were given"):
        ferro.addcmul(*[ferro.ones(1)] * 5)
