"""gradcheck and gradgradcheck with every option: what they accept, what they find, and how they say it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from tests.autograd.both import both, error, leaf, raises


def function(T: Any, forward: Any, backward: Any, **more: Any) -> Any:
    """A custom Function as a plain function."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)} | {
        k: staticmethod(v) for k, v in more.items()
    }
    return type("Own", (T.autograd.Function,), body).apply


def square(T: Any, factor: Any = 2.0, **more: Any) -> Any:
    """x * x with the derivative factor * x."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    return function(T, forward, lambda ctx, g: g * factor * ctx.saved_tensors[0], **more)


def check(T: Any, f: Any, inputs: Any, *words: str, **options: Any) -> Any:
    """What gradcheck returns or raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return error(lambda: T.autograd.gradcheck(f, inputs, **options), *words)


def second(T: Any, f: Any, inputs: Any, *words: str, **options: Any) -> Any:
    """What gradgradcheck returns or raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return error(lambda: T.autograd.gradgradcheck(f, inputs, **options), *words)


def refused(f: Any, x: Any, *words: str, **options: Any) -> None:
    """Asserts that ferro's gradcheck refuses with these words."""
    raises(lambda: ferro.autograd.gradcheck(f, x, **options), ferro.autograd.GradcheckError, *words)


def cleaf(T: Any) -> Any:
    """A complex leaf."""
    return T.tensor([1 + 2j, 0.5 - 1j], dtype=T.complex128, requires_grad=True)


FAST = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def of_both(body: Any) -> Any:
    """`both` for a body that takes fast as well."""

    def test(fast: bool, torch: Any) -> None:
        both(lambda T: body(T, fast))(torch)

    test.__name__ = test.__qualname__ = body.__name__
    return FAST(test)


@of_both
def test_right_derivatives_are_accepted(T: Any, fast: bool) -> Any:
    x, y, z = leaf(T, 0.5, -1.5), leaf(T, 2.0), cleaf(T)
    return [
        check(T, lambda x: x * x, x, fast_mode=fast),
        check(T, lambda x: x * x, (x,), fast_mode=fast),
        check(T, lambda x: x * x, [x], fast_mode=fast),
        check(T, lambda x, y: (x * y, x.sum() * y), (x, y), fast_mode=fast),
        check(T, lambda x, y: [x * y, y.exp()], (x, y), fast_mode=fast),
        check(T, lambda x, k, t: x * k + t, (x, 3, T.ones(2, dtype=T.float64)), fast_mode=fast),
        check(T, lambda z: z * z, (z,), fast_mode=fast),
        check(T, lambda z: (z * z.conj()).real.sum(), (z,), fast_mode=fast),
        check(T, lambda z, x: (z * x, z.abs()), (z, x), fast_mode=fast),
        check(T, lambda x: x * (1 + 2j), (x,), fast_mode=fast),
        check(T, lambda x: x.sum(), (x,), fast_mode=fast, check_forward_ad=True),
        check(T, lambda x, y: (x * y).sin(), (x, y), fast_mode=fast, check_forward_ad=True, check_backward_ad=False),
        check(T, lambda z: z * z * 2j, (z,), fast_mode=fast, check_forward_ad=True),
        check(T, lambda x: x.unbind(0), (x,), fast_mode=fast, check_forward_ad=True),
        second(T, lambda x, y: x * x * y, (x, y), fast_mode=fast),
        second(T, lambda z: z * z, (z,), fast_mode=fast),
        second(T, lambda x: x * x * x, (x,), fast_mode=fast, check_fwd_over_rev=True),
    ]


@of_both
def test_wrong_derivatives_are_found(T: Any, fast: bool) -> Any:
    x, y, z = leaf(T, 0.5, -1.5), leaf(T, 2.0, 3.0), cleaf(T)
    wrong = square(T, 2.1)
    half = function(T, lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2)
    jvp = square(T, 2.0, jvp=lambda ctx, t: t * 2.1 * ctx.saved_tensors[0])
    return [
        check(
            T,
            wrong,
            x,
            "Jacobian mismatch for output 0 with respect to input 0",
            "numerical",
            "analytical",
            fast_mode=fast,
        ),
        check(T, lambda x, y: (x, wrong(y)), (x, y), "mismatch for output 1 with respect to input 1", fast_mode=fast),
        check(T, half, x, "mismatch for output 1 with respect to input 0", fast_mode=fast),
        check(T, wrong, x, raise_exception=False, fast_mode=fast),
        check(T, wrong, x, atol=10.0, fast_mode=fast),
        check(T, wrong, x, rtol=0.1, fast_mode=fast),
        check(
            T, lambda z: wrong(z.conj()), z, "mismatch for output 0 with respect to input 0", "complex", fast_mode=fast
        ),
        check(T, lambda x: x.detach() * x, x, "mismatch", fast_mode=fast),
        check(T, jvp, x, fast_mode=fast),
        check(T, jvp, x, "computed with forward mode", "mismatch", check_forward_ad=True, fast_mode=fast),
        check(
            T,
            jvp,
            x,
            "computed with forward mode",
            "mismatch",
            check_forward_ad=True,
            check_backward_ad=False,
            fast_mode=fast,
        ),
        second(T, lambda x: x.detach() * x, x, "mismatch", fast_mode=fast).split(":")[0],
        second(T, square(T, 2.1), x, fast_mode=fast),
        second(T, lambda x: x * x.detach() * 2, x, raise_exception=False, fast_mode=fast),
    ]


@of_both
def test_outputs_without_grad_must_not_change(T: Any, fast: bool) -> Any:
    x = leaf(T, 0.5, -1.5)
    return [
        check(T, lambda x: x.detach() * 0, x, fast_mode=fast),
        check(T, lambda x: (x > 0).to(T.float64), x, fast_mode=fast),
        check(T, lambda x: x.detach() * 2, x, "expected to be zero", fast_mode=fast),
    ]


@of_both
def test_unusable_inputs(T: Any, fast: bool) -> Any:
    x = leaf(T, 0.5, -1.5)
    plain = T.ones(2, dtype=T.float64)
    return [
        check(T, lambda x: x, plain, "at least one input tensor to require gradient", fast_mode=fast),
        check(T, lambda x: x, 3.0, "at least one input tensor to require gradient", fast_mode=fast),
        check(T, lambda x: x, x[:1].expand(3), "stride 0", fast_mode=fast),
        check(T, lambda x: 1 / 0, x, "division by zero", raise_exception=False, fast_mode=fast),
    ]


@both
def test_inputs_of_low_precision_are_warned_of(T: Any) -> Any:
    x = T.tensor([0.5, 1.5], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = T.autograd.gradcheck(lambda x: x * x, x, eps=1e-2, atol=1e-2, rtol=1e-2)
    return found, ["double precision" in str(w.message) for w in caught]


@FAST
def test_outputs_whose_shape_or_dtype_depends_on_the_values(fast: bool) -> None:
    def shape(x: Any) -> Any:
        return x[x > 1]

    def dtype(x: Any) -> Any:
        return x.float() if bool((x > 1).any()) else x * 1

    def check(changing: Any) -> None:
        ferro.autograd.gradcheck(changing, leaf(ferro, 1.0, 1.0), fast_mode=fast)

    raises(lambda: check(shape), AssertionError, "same shape when", "from [0], ")
    raises(lambda: check(dtype), AssertionError, "same dtype when", "to [2], ferro.float32")


@of_both
def test_nondeterminism(T: Any, fast: bool) -> Any:
    noise = {"k": 0.0}

    def backward(ctx: Any, g: Any) -> Any:
        noise["k"] += 1e-7
        return g * (2 * ctx.saved_tensors[0] + noise["k"])

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    x = leaf(T, 0.5, -1.5)
    f = function(T, forward, backward)
    return [
        check(T, f, x, "not reentrant", "nondeterminism", fast_mode=fast),
        check(T, f, x, fast_mode=fast, nondet_tol=1e-3),
    ]


@of_both
def test_undefined_gradients(T: Any, fast: bool) -> Any:
    x = leaf(T, 0.5, -1.5)

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def careless(ctx: Any, a: Any, b: Any) -> Any:
        return a * 2 + b * 3

    def careful(ctx: Any, a: Any, b: Any) -> Any:
        return (0 if a is None else a * 2) + (0 if b is None else b * 3) if a is not None or b is not None else None

    def inventive(ctx: Any, a: Any, b: Any) -> Any:
        return T.ones(2, dtype=T.float64) if a is None else a * 2 + (0 if b is None else b * 3)

    return [
        check(T, function(T, forward, careful), x, fast_mode=fast),
        check(T, function(T, forward, careless), x, fast_mode=fast, check_undefined_grad=False),
        check(T, function(T, forward, inventive), x, fast_mode=fast).split(":")[0],
    ]


@FAST
def test_a_careless_backward_is_named_whatever_it_raises(fast: bool) -> None:  # (PyTorch lets a TypeError through)
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2

    for careless in (lambda ctx, g: g * 2, lambda ctx, g: g.clone() * 2):
        f = function(ferro, forward, careless)
        x = leaf(ferro, 0.5, -1.5)
        with pytest.warns(UserWarning, match="New undefined gradient support checking feature"):
            refused(f, x, "undefined output grads", "outputs [0]", fast_mode=fast)
        assert ferro.autograd.gradcheck(f, x, fast_mode=fast, check_undefined_grad=False)


def test_options_that_contradict_each_other() -> None:
    x = leaf(ferro, 1.0)
    for options in (
        {"check_backward_ad": False},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ):
        raises(lambda: ferro.autograd.gradcheck(lambda x: x, x, **options), AssertionError, "to be True")  # noqa: B023
    assert ferro.autograd.gradcheck(lambda x: (x.argsort(), x * 2, "text"), x)


@both
def test_a_backward_that_ignores_its_cotangent(T: Any) -> Any:
    x = leaf(T, 0.5)

    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    f = function(T, forward, lambda ctx, g: T.full((1,), 2.0, dtype=T.float64))
    return check(T, f, x, "not multiplied by grad_output")


@of_both
def test_dtypes_of_gradients(T: Any, fast: bool) -> Any:
    x = leaf(T, 0.5, -1.5)
    return check(
        T, lambda x: x.float().double(), x, fast_mode=fast, check_grad_dtypes=True, eps=1e-2, atol=1e-2
    ), check(T, lambda x: x * T.ones(2), x, fast_mode=fast, check_grad_dtypes=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own decompositions
@of_both
def test_batched_gradients(T: Any, fast: bool) -> Any:
    x, y = leaf(T, 0.5, -1.5), leaf(T, 2.0)
    return [
        check(T, lambda x, y: (x * y, y.exp()), (x, y), fast_mode=fast, check_batched_grad=True),
        second(T, lambda x, y: x * x * y, (x, y), fast_mode=fast, check_batched_grad=True),
    ]


@of_both
def test_masked_is_accepted(T: Any, fast: bool) -> Any:
    x = leaf(T, 0.5, -1.5)
    return check(T, lambda x: x * x, x, masked=True, fast_mode=fast), second(
        T, lambda x: x**3, x, masked=True, fast_mode=fast
    )


@both
def test_cotangents_given_to_gradgradcheck(T: Any) -> Any:
    x, y = leaf(T, 0.5, -1.5), leaf(T, 2.0)
    v = leaf(T, 1.0, -1.0)
    constant = T.ones(2, dtype=T.float64)
    return [
        second(T, lambda x: x**3, x, grad_outputs=v),
        second(T, lambda x: x**3, x, grad_outputs=(v,)),
        second(T, lambda x: x**3, x, grad_outputs=constant),
        second(T, lambda x, y: (x**3, y**2), (x, y), grad_outputs=(v, leaf(T, 3.0))),
        second(T, lambda x, y: (x**3, y**2), (x, y), gen_non_contig_grad_outputs=True),
        second(T, lambda x: x * 2, x),
        second(T, lambda x: x.sum(), x, check_rev_over_rev=False, check_fwd_over_rev=True, check_undefined_grad=False),
    ]


@both
def test_inputs_are_not_left_changed(T: Any) -> Any:
    x = leaf(T, 0.5, -1.5)
    T.autograd.gradcheck(lambda x: x * x, x)
    T.autograd.gradgradcheck(lambda x: x * x, x)
    frozen = T.ones(2, dtype=T.float64)
    T.autograd.gradcheck(lambda x, c: x * c, (x, frozen))
    return x, x.grad, x.requires_grad, frozen.requires_grad


@both
def test_inputs_that_are_not_leaves_or_not_contiguous(T: Any) -> Any:
    x = leaf(T, 0.5, -1.5, 2.5, 1.5)
    return [
        check(T, lambda y: y * y, x * 2),
        check(T, lambda y: y * y, x.reshape(2, 2).t()),
        check(T, lambda y: y * y, x.detach()[::2].requires_grad_()),
        check(T, lambda x, y: x * y, (x, x)),
        check(T, lambda y: y.clone().mul_(2), x),
        check(T, lambda x: x.view(2, 2).t().exp().sum(0), x, check_forward_ad=True),
        check(T, lambda x: x, T.zeros(0, dtype=T.float64, requires_grad=True)),
    ]


@both
def test_broadcasting(T: Any) -> Any:
    x, y = T.rand(3, 1, dtype=T.float64, requires_grad=True), T.rand(4, dtype=T.float64, requires_grad=True)
    return check(T, lambda x, y: x * y.exp(), (x, y), check_forward_ad=True), second(
        T, lambda x, y: x * y.exp(), (x, y)
    )


# -- where ferro says more ---------------------------------------------------------------------------------------------


def test_the_message_points_at_the_worst_element() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0] * ferro.tensor([1.0, 1.0, 1.5], dtype=ferro.float64)

    x = leaf(ferro, 1.0, 2.0, 3.0)
    raises(
        lambda: ferro.autograd.gradcheck(function(ferro, forward, backward), x),
        ferro.autograd.GradcheckError,
        "element 2 of the input and 2 of the output",
        "numerical 6.0",
        "analytical 9",
    )


def test_gradcheck_finds_each_formula_that_is_slightly_off() -> None:
    rng = np.random.default_rng(0)
    for factor in (1.999, 2.002, -2.0, 0.0):
        x = ferro.from_numpy(rng.uniform(0.5, 2.0, 4)).requires_grad_()
        assert not ferro.autograd.gradcheck(square(ferro, factor), x, rtol=1e-4, raise_exception=False)
        assert not ferro.autograd.gradcheck(square(ferro, factor), x, rtol=1e-4, raise_exception=False, fast_mode=True)
    assert issubclass(ferro.autograd.GradcheckError, RuntimeError)


def test_the_function_may_know_its_inputs_otherwise() -> None:
    # The inputs are moved in their own memory, as in PyTorch.
    x = leaf(ferro, 1.0, 2.0)
    given = {"x": x}
    assert ferro.autograd.gradcheck(lambda _: given["x"] ** 2, x)
    assert x.tolist() == [1.0, 2.0]


def test_tangents_pushed_together() -> None:
    x = leaf(ferro, 1.0, 2.0)
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert ferro.autograd.gradcheck(lambda x: (x.sin(), x * 2), x, **options)
    raises(
        lambda: ferro.autograd.gradcheck(lambda x: x * (1 + 0 * ferro.randn_like(x)), x, **options),
        ferro.autograd.GradcheckError,
        "While computing batched gradients",
        "We do not yet support calling random operations inside of vmap",
    )


def test_a_mismatch_names_the_part_of_complex_outputs() -> None:
    x = ferro.ones(2, dtype=ferro.complex128, requires_grad=True)

    def wrong(x: Any) -> Any:
        y = x.clone()
        y.register_hook(lambda g: g + 0.01)
        return y

    raises(
        lambda: ferro.autograd.gradcheck(wrong, x),
        ferro.autograd.GradcheckError,
        "part of complex outputs only, Jacobian mismatch",
    )


@both
def test_forward_mode_is_asked_once_for_each_input_and_absent_tangents_count_as_zeros(T: Any) -> Any:
    calls = [0]

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x.clone(), y * 2

        @staticmethod
        def jvp(ctx: Any, a: Any, b: Any) -> Any:
            calls[0] += 1
            return a, b * 2

    found = []
    for undefined, together, second in (
        (False, False, True),
        (True, False, True),
        (True, True, True),
        (True, True, False),
    ):
        calls[0] = 0
        x, y = leaf(T, 1.0), T.ones(1, dtype=T.float64, requires_grad=second)
        T.autograd.gradcheck(
            Two.apply,
            (x, y),
            check_forward_ad=True,
            check_backward_ad=False,
            check_undefined_grad=undefined,
            check_batched_forward_grad=together,
            check_batched_grad=False,
        )
        found.append(calls[0])
    return found


@both
def test_a_jvp_that_takes_an_absent_tangent_for_something_else_is_found(T: Any) -> Any:
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def jvp(ctx: Any, a: Any, b: Any) -> Any:
            return a * 1 if b is None else b * 1 if a is None else a + b + 0 * a

    class Worse(Wrong):
        @staticmethod
        def jvp(ctx: Any, a: Any, b: Any) -> Any:
            return a * 3 if b is None else b * 1 if a is None else a + b

    options = {"check_forward_ad": True, "check_backward_ad": False, "check_batched_grad": False}
    return (
        T.autograd.gradcheck(Wrong.apply, (leaf(T, 1.0), leaf(T, 2.0)), **options),
        error(
            lambda: T.autograd.gradcheck(Worse.apply, (leaf(T, 1.0), leaf(T, 2.0)), **options),
            "Mismatch in tangent values for output with index: ",
            "has an undefined tangent value.",
        ),
    )


@both
def test_rows_of_gradients_run_functions_without_rules_for_vmap(T: Any) -> Any:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * Square.apply(g) * x

    x = leaf(T, 1.0, 2.0)
    rows = T.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=T.float64)
    return T.autograd.grad(Square.apply(x), x, rows, is_grads_batched=True)


@pytest.mark.filterwarnings("ignore:.*double precision.*:UserWarning")
@pytest.mark.parametrize("name", ["ferro", "torch"])
def test_fast_mode_allows_for_the_noise_of_large_float32_tensors_and_finds_errors(name: str) -> None:
    """PyTorch's own test of layer_norm with 175,616 features asks for this."""
    T = pytest.importorskip(name, reason="needs PyTorch")
    T.manual_seed(0)
    x = T.randn(2, 30, 30, 30, requires_grad=True)
    assert T.autograd.gradcheck(lambda v: T.nn.functional.layer_norm(v, (30, 30, 30)), (x,), fast_mode=True)

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, v: Any) -> Any:
            return v * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    y = T.ones(3, requires_grad=True)
    assert not T.autograd.gradcheck(Wrong.apply, (y,), eps=1e-2, atol=1e-2, fast_mode=True, raise_exception=False)
    assert T.autograd.gradcheck(lambda v: v * 2, (y,), eps=1e-2, atol=1e-2, fast_mode=True)
