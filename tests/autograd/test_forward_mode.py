"""Forward mode: levels, dual tensors, views and in-place changes with tangents, custom functions, and mixtures with reverse mode."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.autograd import forward_ad
from tests.autograd.both import account, both, error, leaf

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own decompositions


def tangent(T: Any, x: Any) -> Any:
    return T.autograd.forward_ad.unpack_dual(x).tangent


def dual(T: Any, value: Any, direction: Any) -> Any:
    return T.autograd.forward_ad.make_dual(T.tensor(value, dtype=T.float64), T.tensor(direction, dtype=T.float64))


def at_level(body: Any) -> Any:
    """The test that runs its body inside a dual level, with both libraries."""

    @both
    def test(T: Any) -> Any:
        with T.autograd.forward_ad.dual_level():
            return body(T)

    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


# -- levels and dual tensors --------------------------------------------------------------------------------------------------


@both
def test_levels(T: Any) -> Any:
    F = T.autograd.forward_ad
    with F.dual_level():
        x = dual(T, [1.0], [2.0])
        y = x * x
        inside = tangent(T, y)
    outside = tangent(T, y)
    with F.dual_level():
        later = tangent(T, y)
    level = F.enter_dual_level()
    by_hand = tangent(T, dual(T, [3.0], [1.0]) ** 2)
    F.exit_dual_level(level=level)
    plain = T.ones(1)
    found = F.unpack_dual(plain)
    return (
        inside,
        outside,
        later,
        by_hand,
        error(F.exit_dual_level),
        error(lambda: F.make_dual(plain, plain), "level"),
        found.primal is plain,
        found.tangent,
        type(found).__name__,
    )


@both
def test_levels_cannot_be_nested(T: Any) -> Any:
    F = T.autograd.forward_ad
    with F.dual_level() as level:
        found = (
            level,
            error(F.enter_dual_level, "Nested forward mode AD is not supported at the moment"),
            error(F.dual_level().__enter__)[:12],
        )
    return found, F._current_level


def test_transforms_nest_inside_of_a_level() -> None:
    one = ferro.tensor(1.0, dtype=ferro.float64)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(ferro.tensor(2.0, dtype=ferro.float64), one)
        _, first = ferro.func.jvp(lambda x: x**3, (x,), (one,))
        assert first.item() == 12.0
        assert forward_ad.unpack_dual(first).tangent.item() == 12.0
        second = ferro.func.jvp(lambda x: ferro.func.jvp(lambda x: x**3, (x,), (one,))[1], (x,), (one,))[1]
        assert forward_ad.unpack_dual(second).tangent.item() == 6.0


@at_level
def test_arguments_of_make_dual(T: Any) -> Any:
    F = T.autograd.forward_ad
    x, i = T.ones(2), T.ones(2, dtype=T.int64)
    d = F.make_dual(x, T.ones(2))
    return (
        error(lambda: F.make_dual(i, x), "Expected primal to be floating point or complex"),
        error(lambda: F.make_dual(x, i), "Expected tangent to be floating point or complex"),
        error(lambda: F.make_dual(x, T.ones(3))),
        error(lambda: F.make_dual(d, x), "already has a forward gradient at the same level"),
        d._is_view(),
        d._base is x,
        d.requires_grad,
        repr(d),
        tangent(T, x),
    )


def test_make_dual_refuses_a_tangent_of_another_dtype() -> None:
    # PyTorch takes it, and tangents then have other dtypes than their tensors.
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="same dtype"):
        forward_ad.make_dual(ferro.ones(1), ferro.ones(1, dtype=ferro.float64))


@at_level
def test_the_tangent_is_the_one_that_was_given(T: Any) -> Any:
    direction = T.ones(2)
    x = T.autograd.forward_ad.make_dual(T.ones(2) * 2, direction)
    same = tangent(T, x) is direction
    direction.mul_(7)
    return same, tangent(T, x), tangent(T, x * x)


@at_level
def test_a_dual_of_a_leaf_and_of_a_parameter(T: Any) -> Any:
    F = T.autograd.forward_ad
    a, p = leaf(T, 1.0, 2.0), T.nn.Parameter(T.ones(2))
    x, y = F.make_dual(a, T.ones(2, dtype=T.float64)), F.make_dual(p, T.ones(2))
    primal = F.unpack_dual(x).primal
    return (
        x.requires_grad,
        x.is_leaf,
        isinstance(y, T.nn.Parameter),
        tangent(T, y * 3),
        primal.requires_grad,
        tangent(T, primal),
        error(lambda: x.mul_(2), "a view of a leaf Variable that requires grad"),
    )


# -- what carries tangents -------------------------------------------------------------------------------------------------------


@at_level
def test_views_carry_tangents(T: Any) -> Any:
    x = dual(T, [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    return [
        tangent(T, v)
        for v in (
            x.t(),
            x.view(-1),
            x[0],
            x.diagonal(),
            x.unbind()[1],
            x.expand(2, 2, 2),
            x.reshape(4)[1:],
            x.as_strided((2,), (2,)),
            x.unfold(0, 1, 1),
            x.chunk(2, 1)[1],
            x.clone(),
            x.contiguous(),
            x.float(),
            x.squeeze(),
            x.permute(1, 0),
            x.detach(),
            x.data,
            x.split(1)[0],
            x[T.tensor([1, 0])],
            x[x > 2],
        )
    ]


@at_level
def test_results_that_have_no_tangent(T: Any) -> Any:
    x = dual(T, [1.0, 3.0], [2.0, 1.0])
    return [
        tangent(T, y)
        for y in (x.argmax(), x.long(), x > 1, T.zeros_like(x), T.ones(2) * 2, x.sign(), x.floor(), x * 0, x.round())
    ]


@at_level
def test_broadcasting_promotion_and_selection(T: Any) -> Any:
    F = T.autograd.forward_ad
    x, column = dual(T, [1.0, 3.0], [2.0, 1.0]), T.ones(3, 1, dtype=T.float64)
    single = F.make_dual(T.ones(2), T.ones(2) * 3)
    return [
        tangent(T, y)
        for y in (
            x + column,
            column * x,
            single * T.ones(2, dtype=T.float64),
            single * 2j,
            T.stack([x, T.zeros(2, dtype=T.float64)]),
            T.cat([x, x]),
            T.where(x > 2, x, 0.0),
            x.max(0).values,
            x.sort(descending=True).values,
            x @ x,
            x.norm(),
            x.cumsum(0),
        )
    ]


@at_level
def test_in_place_changes_with_tangents(T: Any) -> Any:
    found = []
    for change in (
        lambda x: x.mul_(T.tensor([5.0, 6.0])),
        lambda x: x.zero_(),
        lambda x: x.fill_(3.0),
        lambda x: x.copy_(T.ones(2)),
        lambda x: x.exp_(),
        lambda x: x.__setitem__(0, 0.0),
        lambda x: x.__setitem__(x > 1.5, 0.0),
        lambda x: x.relu_(),
        lambda x: x.add_(x),
        lambda x: x[:1].mul_(10),
        lambda x: x.unsqueeze_(0),
        lambda x: x.clamp_(max=1.5),
        lambda x: x.__setitem__(x > 1.5, x[x > 1.5] * 2),
        lambda x: x.detach_(),
        lambda x: x.detach().mul_(3),
    ):
        x = dual(T, [1.0, 2.0], [3.0, 4.0]) * 1
        change(x)
        found.append((x, tangent(T, x)))
    return found


@at_level
def test_a_plain_tensor_takes_the_tangent_of_what_is_written(T: Any) -> Any:
    x, found = dual(T, [1.0, 2.0], [3.0, 4.0]), []
    for write in (
        lambda b: b.mul_(x),
        lambda b: b.copy_(x),
        lambda b: b.__setitem__(0, x[1]),
        lambda b: b.__setitem__(T.tensor([1, 0]), x),
        lambda b: b[1:].add_(x[:1]),
        lambda b: b.addcmul_(x, x),
    ):
        b = T.ones(2, dtype=T.float64)
        write(b)
        found.append((b, tangent(T, b)))
    with T.no_grad():
        y = x.clone()
        y.mul_(x)
    complex_ = T.ones(2, dtype=T.complex128)
    complex_.mul_(x)
    return found, tangent(T, y), tangent(T, complex_), error(lambda: T.ones(2, dtype=T.int64).add_(x), "can't be cast")


@at_level
def test_views_and_bases_see_each_others_tangents(T: Any) -> Any:
    x = dual(T, [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]) * 1
    row, flat, corner = x[0], x.view(-1), x.t()[1][:1]
    row.mul_(2)
    first = [tangent(T, v).tolist() for v in (x, row, flat, corner)]
    flat[1] = 0.0
    x.add_(x)
    base = T.zeros(3, dtype=T.float64)
    before, target = base[:2], base[1:]
    target.copy_(dual(T, [1.0, 2.0], [3.0, 4.0]))
    return first, [tangent(T, v) for v in (x, row, flat, corner, base, before, target)]


@at_level
def test_a_dual_shares_its_memory_and_history_with_the_tensor_but_not_its_tangent(T: Any) -> Any:
    F = T.autograd.forward_ad
    a = leaf(T, 1.0, 2.0, 3.0)
    b = a * 1
    x = F.make_dual(b, T.arange(3, dtype=T.float64))
    part = x[1:]
    x.mul_(5)
    part.mul_(2)
    b.mul_(4)
    (b * b).sum().backward()
    plain = T.ones(3)
    y = F.make_dual(plain, T.arange(3.0))
    y[1] = 7.0
    plain.add_(1)
    return b, a.grad, tangent(T, x).detach(), tangent(T, y), y, plain


def test_out_is_refused() -> None:
    with forward_ad.dual_level():
        x = dual(ferro, [1.0], [2.0])
        with pytest.raises(NotImplementedError, match=r"out=.*forward mode"):
            ferro.exp(x, out=ferro.zeros(1, dtype=ferro.float64))
        with pytest.raises(NotImplementedError, match=r"out=.*forward mode"):
            ferro.exp(ferro.ones(1, dtype=ferro.float64), out=x)


# -- with grad modes ----------------------------------------------------------------------------------------------------------------


@at_level
def test_grad_modes(T: Any) -> Any:
    a = leaf(T, 1.0, 2.0)
    x = T.autograd.forward_ad.make_dual(a, T.ones(2, dtype=T.float64))
    with T.no_grad():
        quiet = x * x
    with T.inference_mode():
        inference = x * x
        inside = tangent(T, inference)
    loud = x * x
    return (
        tangent(T, quiet),
        quiet.requires_grad,
        tangent(T, quiet).requires_grad,
        inside,
        tangent(T, inference),
        tangent(T, loud),
        tangent(T, loud).requires_grad,
    )


@at_level
def test_copies(T: Any) -> Any:
    x = dual(T, [1.0], [2.0])
    return tangent(T, x.clone()), tangent(T, copy.deepcopy(x)), tangent(T, x.requires_grad_()), x.requires_grad


# -- custom functions ----------------------------------------------------------------------------------------------------------------


def scaled(T: Any, log: list, materialize: bool | None = None, result: Any = None) -> Any:
    """A Function whose jvp notes what it is given."""

    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            if materialize is not None:
                ctx.set_materialize_grads(materialize)
            return args[0] * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            log.append([None if t is None else t.tolist() for t in tangents])
            return tangents[0] * 2 if result is None else result(tangents[0])

    return Scaled


@at_level
def test_what_jvp_is_given(T: Any) -> Any:
    log: list = []
    x = dual(T, [1.0, 2.0], [3.0, 4.0])
    others = (T.ones(2), T.ones(2, dtype=T.int64), None, 5)
    y = scaled(T, log).apply(x, *others)
    scaled(T, log, False).apply(x, *others)
    scaled(T, log).apply(T.ones(2), *others)
    return log, tangent(T, y)


@at_level
def test_what_jvp_must_return(T: Any) -> Any:
    x = dual(T, [1.0, 2.0], [3.0, 4.0])
    return [
        error(lambda f=f: scaled(T, [], result=f).apply(x)).split(":")[0]
        for f in (lambda t: (t, t), lambda t: t[:1], lambda t: 3)
    ]


def test_a_jvp_may_return_none() -> None:  # (PyTorch fails an internal assertion)
    with forward_ad.dual_level():
        assert tangent(ferro, scaled(ferro, [], result=lambda t: ()).apply(ferro.ones(1))) is None


@at_level
def test_what_a_jvp_must_return_for_views_and_changed_inputs(T: Any) -> Any:
    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, kind: str) -> Any:
            if kind == "dirty":
                ctx.mark_dirty(x)
                return x.mul_(2)
            return x.view_as(x) if kind == "view" else x

        @staticmethod
        def jvp(ctx: Any, t: Any, kind: Any) -> Any:
            return move(t)

    moves = [
        lambda t: t.view_as(t),
        lambda t: t,
        lambda t: t * 2,
        lambda t: (t * 2).view_as(t),
        lambda t: t.mul_(2),
        lambda t: t.mul_(2).clone(),
    ]
    words = [
        "is returning a view (or an input as-is) but the jvp is not returning a view.",
        "is returning a view but the jvp is not returning a view of the given grad input.",
        "is returning a view but the jvp is not returning a view of the same base as the given grad input.",
        "then the jvp function must modify the corresponding gradient inplace.",
        "then the jvp function must modify the gradient inplace and return it as-is.",
    ]
    found = []
    for kind in ("view", "same", "dirty"):
        for chosen in moves:
            move = chosen
            for source in (
                lambda: dual(T, [1.0, 2.0], [3.0, 4.0]) * 1,
                lambda: (dual(T, [1.0, 2.0], [3.0, 4.0]) * 1)[:],
            ):
                x = source()
                call = lambda x=x, kind=kind: tangent(T, Same.apply(x, kind))  # noqa: E731
                text = error(call)
                found.append([w for w in words if w in text] or text)
    return found


@at_level
def test_a_jvp_sees_what_is_saved_for_it_and_gives_no_tangent_to_the_rest(T: Any) -> Any:
    seen = []

    class Some(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            y = x * 2
            ctx.mark_non_differentiable(y)
            return x * 1, y

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            seen.append(len(ctx.saved_tensors))
            return t, other

    other = None
    x = dual(T, [1.0], [2.0])
    y, z = Some.apply(x)
    found = seen, tangent(T, y), tangent(T, z)
    other = T.ones(1, dtype=T.float64)
    return found, error(
        lambda: Some.apply(x),
        "You should return None at that position instead",
    )


@at_level
def test_jvp_in_both_styles_with_saved_values(T: Any) -> Any:
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * t

    class Setup(Cube):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

    class Once(Cube):
        backward = staticmethod(T.autograd.function.once_differentiable(Cube.backward))

    found = []
    for f in (Cube, Setup, Once):
        a = leaf(T, 1.0, 2.0)
        x = T.autograd.forward_ad.make_dual(a, T.tensor([1.0, 10.0], dtype=T.float64))
        y = f.apply(x)
        (g,) = T.autograd.grad(y.sum(), a, create_graph=f is not Once)
        found.append((tangent(T, y), g, tangent(T, g)))
    return found


@at_level
def test_outputs_without_derivative(T: Any) -> Any:
    class Halves(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            mask = x > 1
            ctx.mark_non_differentiable(mask)
            return x / 2, mask

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return g / 2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t / 2, None

    half, mask = Halves.apply(dual(T, [1.0, 2.0], [3.0, 4.0]))
    return tangent(T, half), tangent(T, mask), mask


# -- with reverse mode ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [True, False])
def test_gradients_carry_tangents(create_graph: bool, torch: Any) -> None:
    def program(T: Any) -> Any:
        found: list = []
        a = leaf(T, 1.0, 2.0)
        with T.autograd.forward_ad.dual_level():
            x = T.autograd.forward_ad.make_dual(a, T.tensor([1.0, 10.0], dtype=T.float64))
            for f in (
                lambda x: x**3,
                lambda x: x.exp(),
                lambda x: x.sigmoid() * x,
                lambda x: x.unbind()[0] * x,
                lambda x: x * 3,
                lambda x: (x * 1).mul_(x).exp_(),
            ):
                (g,) = T.autograd.grad(f(x).sum(), a, create_graph=create_graph)
                found.append((g, tangent(T, g), g.requires_grad))
            y = x**3
            y.register_hook(lambda g: found.append(tangent(T, g)))
            x.register_hook(lambda g: found.append(tangent(T, g)))
            a.grad = T.ones(2, dtype=T.float64)
            y.sum().backward(create_graph=create_graph)
            found.append((a.grad, tangent(T, a.grad)))
            (g,) = T.autograd.grad(a * a, a, dual(T, [1.0, 1.0], [5.0, 6.0]), create_graph=create_graph)
            found.append((g, tangent(T, g)))
            a.grad = None
        return found

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = account(program(torch))
    assert account(program(ferro)) == wanted


@both
def test_tangents_have_gradients(T: Any) -> Any:
    a, v = leaf(T, 1.0, 2.0), leaf(T, 3.0, 5.0)
    with T.autograd.forward_ad.dual_level():
        x = T.autograd.forward_ad.make_dual(a, v)
        y = (x**3 * x.exp()).sum()
        p, t = T.autograd.forward_ad.unpack_dual(y)
    return t.requires_grad, T.autograd.grad(t, (a, v), retain_graph=True), T.autograd.grad(p, (a, v), allow_unused=True)


@at_level
def test_saved_tensor_hooks_keep_tangents(T: Any) -> Any:
    a = leaf(T, 1.0, 2.0)
    x = T.autograd.forward_ad.make_dual(a, T.tensor([1.0, 10.0], dtype=T.float64))
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x**3).sum()
    (g,) = T.autograd.grad(y, a, create_graph=True)
    return tangent(T, g)


@at_level
def test_complex_tangents(T: Any) -> Any:
    z = T.autograd.forward_ad.make_dual(
        T.tensor([1 + 2j, 3 - 1j], dtype=T.complex128), T.tensor([1 - 1j, 2j], dtype=T.complex128)
    )
    w = z * 1
    w.real.mul_(3)
    return [
        tangent(T, y)
        for y in (z * z, z.abs(), z.real, z.imag, z.conj() * 1, T.view_as_real(z), z.angle(), z.exp(), w, z @ z)
    ]


def test_third_derivatives_by_mixtures() -> None:
    def f(x: Any) -> Any:
        return (x.exp() * x).sum()

    a = leaf(ferro, 0.5)
    one = ferro.ones(1, dtype=ferro.float64)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(a, one)
        (g,) = ferro.autograd.grad(f(x), a, create_graph=True)
        second = forward_ad.unpack_dual(g).tangent
        (third,) = ferro.autograd.grad(second, a)
    np.testing.assert_allclose(third.numpy(), (3 + 0.5) * np.exp([0.5]), rtol=1e-12)


@pytest.mark.parametrize("case", ["exp", "softmax", "function", "unbind", "nested"])
def test_nothing_waits_for_the_cycle_collector(case: str) -> None:
    class Exp(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            ctx.save_for_forward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t * ctx.saved_tensors[0]

    functions = {
        "exp": lambda x: x.exp() * x,
        "softmax": lambda x: x.softmax(0),
        "function": Exp.apply,
        "nested": lambda x: x.tanh(),
        "unbind": lambda x: ferro.linalg.eigh(ferro.outer(x, x))[0],
    }
    direction = ferro.ones(2, dtype=ferro.float64)
    gc.collect()
    gc.disable()
    try:
        a = leaf(ferro, 0.5, 1.5)
        with forward_ad.dual_level():
            x = forward_ad.make_dual(a, direction)
            y = functions[case](x)
            node = weakref.ref(y.grad_fn)
            if case == "nested":
                with forward_ad.transform_level():
                    z = functions[case](forward_ad.make_dual(x, direction))
                    inner = weakref.ref(z.grad_fn)
                    ferro.autograd.grad(z.sum(), a, create_graph=True)
                    del z
            (g,) = ferro.autograd.grad(y.sum(), a, create_graph=True)
            assert forward_ad.unpack_dual(g).tangent is not None
            del x, y, g
        assert node() is None
        assert case != "nested" or inner() is None
    finally:
        gc.enable()


@both
def test_the_names_of_levels(T: Any) -> Any:
    F = T.autograd.forward_ad
    outside = F._current_level
    with F.dual_level() as level:
        x = dual(T, [1.0], [2.0])
        inside = F._current_level, level, F.unpack_dual(x, level=0).tangent
        wrong = error(lambda: F.exit_dual_level(level=1), "not the last one that was created")
        itself = error(lambda: F.make_dual(T.ones(1, dtype=T.float64), x), "has a forward gradient at the same level")
    none = error(
        lambda: F.make_dual(T.ones(1), T.ones(1)), "Trying to create a dual Tensor for forward AD but no level exists"
    )
    return outside, inside, wrong, itself, none, F._current_level


@at_level
def test_a_tangent_lies_in_memory_as_its_tensor(T: Any) -> Any:
    F = T.autograd.forward_ad
    part = T.arange(6.0, dtype=T.float64)[1:5]
    direction = T.ones(4, dtype=T.float64).requires_grad_()
    x = F.make_dual(part, direction)
    t = F.unpack_dual(x).tangent
    whole = x.as_strided((6,), (1,), 0)  # beyond the tensor itself
    crossed = F.make_dual(T.ones(2, 3), T.ones(3, 2).t())
    return (
        t is direction,
        t.storage_offset(),
        T.autograd.grad(t.sum(), direction),
        tangent(T, whole).detach(),
        F.unpack_dual(crossed).tangent.stride(),
    )


@at_level
def test_sentences_of_pytorch(T: Any) -> Any:
    F = T.autograd.forward_ad
    x = dual(T, [1.0], [2.0])
    return (
        error(
            lambda: F.make_dual(T.ones(2), T.ones(3)),
            "Trying to set a forward gradient that has a different size than that of the original",
        ),
        error(
            lambda: T.add(x, x, out=T.ones(1, dtype=T.float64)),
            "that does not support it because it is an out= function",
        ),
    )


@at_level
def test_what_has_no_derivative_says_so(T: Any) -> Any:
    x = dual(T, [1.0], [2.0])
    y = leaf(T, 1.0)
    return (
        error(
            lambda: T.igamma(x, x),
            "Trying to use forward AD with igamma that does not support it because it has not been implemented yet",
        ),
        error(lambda: T.igamma(y, y).sum().backward(), "the derivative for 'igamma: input' is not implemented."),
    )
