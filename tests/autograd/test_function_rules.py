"""The rules of custom Functions, compared with the same class written for PyTorch."""

from __future__ import annotations

from typing import Any

import ferro
from tests.autograd.both import both, error, leaf, raises


def identity(T: Any, forward: Any, backward: Any = None, **more: Any) -> Any:
    """A Function with the given static methods; backward passes the gradient on."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward or (lambda ctx, g: g))}
    body |= {k: staticmethod(v) if callable(v) else v for k, v in more.items()}
    return type("Own", (T.autograd.Function,), body)


# -- what may be saved -------------------------------------------------------------------------------------------------


@both
def test_saving_inputs_outputs_intermediates_and_none(T: Any) -> Any:
    seen: list = []

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        middle = x * 2
        out = middle * w
        ctx.save_for_backward(x, None, middle, out, w)
        return out

    def backward(ctx: Any, g: Any) -> Any:
        x, nothing, middle, out, w = ctx.saved_tensors
        seen.append(
            [
                nothing is None,
                x.requires_grad,
                middle.requires_grad,
                out.requires_grad,
                out.grad_fn is None,
                len(ctx.saved_tensors),
            ]
        )
        seen.append([out.tolist(), x.is_leaf])
        return g * 2 * w, g * middle

    x, w = leaf(T, 2.0), leaf(T, 3.0)
    y = identity(T, forward, backward).apply(x, w)
    y.backward()
    return seen, x.grad, w.grad


@both
def test_saved_inputs_are_the_same_objects(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    x = leaf(T, 2.0)
    y = identity(T, forward).apply(x)
    return y.grad_fn.saved_tensors[0] is x


@both
def test_only_tensors_can_be_saved(T: Any) -> Any:
    def saving(what: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(what)
            return x * 2

        return lambda: identity(T, forward).apply(leaf(T, 1.0))

    return [
        error(saving(3.0), "save_for_backward can only save variables", "float").split(",")[0],
        error(saving([T.ones(1)]), "save_for_backward can only save variables").split(",")[0],
        error(saving("text"), "save_for_backward can only save variables").split(",")[0],
    ]


@both
def test_saving_twice_keeps_the_last(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x)
        ctx.save_for_backward(x)
        return x * 2

    y = identity(T, forward).apply(leaf(T, 2.0))
    return len(y.grad_fn.saved_tensors)


@both
def test_saved_tensors_within_forward_and_after_free(T: Any) -> Any:
    seen: list = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append(len(ctx.saved_tensors))
        ctx.save_for_backward(x)
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(len(ctx.saved_tensors))
        return g

    x = leaf(T, 2.0)
    y = identity(T, forward, backward).apply(x)
    y.backward()
    return seen, error(lambda: y.grad_fn.saved_tensors, "second time"), error(lambda: y.backward(), "second time")


@both
def test_a_function_that_saves_nothing_can_run_twice(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = identity(T, lambda ctx, x: x * 2).apply(x)
    y.backward()
    y.backward()
    return x.grad


@both
def test_attributes_of_ctx_survive_backward(T: Any) -> Any:
    def forward(ctx: Any, x: Any, k: Any) -> Any:
        ctx.k = k
        ctx.saved_elsewhere = x.detach()
        return x * k

    x = leaf(T, 2.0)
    y = identity(T, forward, lambda ctx, g: (g * ctx.k, None)).apply(x, 3.0)
    y.backward()
    return (
        x.grad,
        y.grad_fn.k,
        y.grad_fn.saved_elsewhere,
        error(lambda: y.grad_fn.missing).split(":")[0],
        hasattr(y.grad_fn, "missing"),
    )


@both
def test_saved_values_changed_in_place(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        out = x * 2
        other = x + 1
        ctx.save_for_backward(x, out, other)
        ctx.other = other
        return out

    def backward(ctx: Any, g: Any) -> Any:
        ctx.saved_tensors
        return g

    found = []
    for which in ("input", "output", "other"):
        x = leaf(T, 2.0)
        a = x * 1
        y = identity(T, forward, backward).apply(a)
        node = y.grad_fn
        {"input": a, "output": y, "other": node.other}[which].add_(1)
        found.append(error(lambda y=y: y.sum().backward(), "modified by an inplace operation"))
    return found


@both
def test_save_for_backward_of_an_input_changed_in_forward(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * 0 + g * 2

    x = leaf(T, 2.0)
    a = x * 1
    y = identity(T, forward, backward).apply(a)
    y.sum().backward()
    return x.grad, y is a


# -- arguments ---------------------------------------------------------------------------------------------------------


@both
def test_needs_input_grad(T: Any) -> Any:
    seen: list = []

    def forward(ctx: Any, x: Any, y: Any, k: Any, t: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return x * y * k

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, g, None, None

    c = T.ones(1, dtype=T.float64)
    F = identity(T, forward, backward)
    F.apply(leaf(T, 1.0), c, 2.0, [leaf(T, 1.0)]).backward()
    with T.no_grad():
        F.apply(leaf(T, 1.0), c, 2.0, None)
    F.apply(c, c, 2.0, None)
    return seen


@both
def test_tensors_inside_lists_are_not_arguments(T: Any) -> Any:
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    F = identity(T, lambda ctx, xs: xs[0] * xs[1], lambda ctx, g: None)
    return F.apply([x, y]).requires_grad


@both
def test_keyword_arguments(T: Any) -> Any:
    F = identity(T, lambda ctx, x, k=2: x * k, lambda ctx, g: (g, None))
    x = leaf(T, 1.0)
    return [
        error(lambda: F.apply(x, k=3)).split(":")[0],
        error(lambda: F.apply(x=x)).split(":")[0],
        F.apply(x, 5),
        F.apply(x).requires_grad,
    ]


@both
def test_the_same_tensor_twice(T: Any) -> Any:
    x = leaf(T, 3.0)
    F = identity(T, lambda ctx, a, b: a * b, lambda ctx, g: (g * 10, g * 100))
    F.apply(x, x).backward()
    return x.grad


@both
def test_forward_runs_without_recording_and_backward_by_create_graph(T: Any) -> Any:
    seen: list = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append(("forward", T.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(("backward", T.is_grad_enabled(), g.requires_grad))
        return g * 2

    x = leaf(T, 3.0)
    F = identity(T, forward, backward)
    F.apply(x).backward()
    T.autograd.grad(F.apply(x), x, create_graph=True)
    return seen


@both
def test_gradients_where_none_is_needed_are_ignored(T: Any) -> Any:
    c = T.ones(1, dtype=T.float64)
    x = leaf(T, 2.0)
    F = identity(T, lambda ctx, a, b: a * b, lambda ctx, g: (g * 2, g * 3))
    F.apply(x, c).backward()
    return x.grad, c.grad


@both
def test_nothing_requires_grad(T: Any) -> Any:
    F = identity(T, lambda ctx, a: a * 2)
    y = F.apply(T.ones(1))
    with T.no_grad():
        z = F.apply(leaf(T, 1.0))
    return y.requires_grad, y.grad_fn is None, z.requires_grad


# -- what forward returns ----------------------------------------------------------------------------------------------


@both
def test_outputs_of_other_types(T: Any) -> Any:
    F = identity(T, lambda ctx, x: (x * 2, 3, None, "text"), lambda ctx, *gs: gs[0] * len(gs))
    x = leaf(T, 1.0)
    out = F.apply(x)
    out[0].backward()
    G = identity(T, lambda ctx, x: [x * 2])
    H = identity(T, lambda ctx, x: None, lambda ctx: None)
    return [
        type(out).__name__,
        out[1:],
        x.grad,
        error(lambda: type(G.apply(x)).__name__),
        error(lambda: H.apply(x)),
        error(lambda: identity(T, lambda ctx, x: 5).apply(x)),
    ]


@both
def test_a_tuple_of_one_stays_a_tuple(T: Any) -> Any:
    x = leaf(T, 1.0)
    (y,) = identity(T, lambda ctx, x: (x * 2,)).apply(x)
    y.backward()
    return x.grad


@both
def test_integer_and_non_differentiable_outputs(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        index, frozen = x.argsort(), x * 5
        ctx.mark_non_differentiable(index, frozen)
        return x * 2, index, frozen

    seen: list = []

    def backward(ctx: Any, *gs: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in gs])
        return gs[0]

    x = leaf(T, 2.0, 1.0)
    a, i, f = identity(T, forward, backward).apply(x)
    a.sum().backward()
    return [a.requires_grad, i.requires_grad, f.requires_grad, seen, x.grad]


@both
def test_unmarked_integer_outputs(T: Any) -> Any:
    x = leaf(T, 2.0, 1.0)
    a, i = identity(T, lambda ctx, x: (x * 2, x.argsort()), lambda ctx, g, _: g).apply(x)
    a.sum().backward()
    return i.requires_grad, x.grad


@both
def test_materialised_gradients(T: Any) -> Any:
    def run(materialize: bool) -> Any:
        seen: list = []

        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 1, (x * 2).sum().float(), x.argsort()

        def backward(ctx: Any, *gs: Any) -> Any:
            seen.extend(gs)
            return gs[0]

        x = leaf(T, 1.0, 2.0)
        out = identity(T, forward, backward).apply(x)
        out[0].sum().backward()
        seen2 = list(seen)
        seen.clear()
        x = leaf(T, 1.0, 2.0)
        out = identity(T, forward, backward).apply(x)
        out[1].backward()
        return seen2, seen, x.grad

    return run(True), error(lambda: run(False))


@both
def test_an_input_returned_as_is(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x, lambda ctx, g: g * 5)
    x = leaf(T, 1.0)
    y = F.apply(x)
    y.backward()
    a = leaf(T, 1.0) * 1
    b = F.apply(a)
    c = T.ones(1)
    with T.no_grad():
        d = F.apply(c)
    return [
        y is x,
        x.grad,
        b is a,
        b.grad_fn is a.grad_fn,
        y._is_view(),
        x.is_leaf,
        b._version == a._version,
        F.apply(c) is c,
        d is c,
    ]


@both
def test_an_input_returned_twice(T: Any) -> Any:
    F = identity(T, lambda ctx, x: (x, x), lambda ctx, g, h: g * 5 + h * 7)
    x = leaf(T, 1.0)
    a, b = F.apply(x)
    (a + b).backward()
    return a is b, x.grad


def test_an_output_returned_twice() -> None:  # (PyTorch gives both the cotangent of the second: 14)
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    F = identity(ferro, forward, lambda ctx, g, h: g * 5 + h * 7)
    x = leaf(ferro, 1.0)
    a, b = F.apply(x)
    (a + b).backward()
    assert x.grad.tolist() == [12.0]


@both
def test_views_of_an_input_as_outputs(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x[:1], lambda ctx, g: T.cat([g * 5, g * 0]))
    x = leaf(T, 1.0, 2.0)
    y = F.apply(x)
    y.backward()
    a = leaf(T, 1.0, 2.0) * 1
    v = F.apply(a)
    return y._is_view(), x.grad, v._is_view(), error(lambda: v.mul_(2)).split(":")[0], v


@both
def test_writing_into_the_base_of_a_returned_view(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x.view_as(x), lambda ctx, g: g * 5)
    x = leaf(T, 1.0, 2.0)
    a = x * 1
    v = F.apply(a)
    a.mul_(3)
    return error(lambda: v.sum().backward()).split(":")[0], error(lambda: v.grad_fn).split(":")[0]


# -- in place ----------------------------------------------------------------------------------------------------------


def doubling(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return identity(T, forward, lambda ctx, g: g * 2)


@both
def test_mark_dirty_gives_the_input_a_new_history(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    a = x * 3
    b = doubling(T).apply(a)
    (a * a).sum().backward()
    return b is a, a._version, x.grad, a.grad_fn


@both
def test_mark_dirty_of_a_leaf(T: Any) -> Any:
    x = leaf(T, 1.0)
    plain = T.ones(1)
    return (
        error(lambda: doubling(T).apply(x), "leaf Variable that requires grad"),
        doubling(T).apply(plain) is plain,
        plain,
    )


@both
def test_mark_dirty_of_what_does_not_require_grad(T: Any) -> Any:
    def forward(ctx: Any, buffer: Any, x: Any) -> Any:
        buffer.copy_(x * 3)
        ctx.mark_dirty(buffer)
        return buffer

    buffer, x = T.zeros(2, dtype=T.float64), leaf(T, 1.0, 2.0)
    y = identity(T, forward, lambda ctx, g: (None, g * 3)).apply(buffer, x)
    y.sum().backward()
    return y is buffer, buffer.requires_grad, x.grad


@both
def test_mark_dirty_of_a_view(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    a = x * 3
    v = a[:1]
    w = doubling(T).apply(v)
    a.sum().backward()
    return w is v, x.grad, a


@both
def test_dirty_tensors_must_be_inputs_and_outputs(T: Any) -> Any:
    def not_returned(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 1

    def not_given(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    x = leaf(T, 1.0) * 1
    return [
        error(lambda: identity(T, not_returned).apply(x)).split(":")[0],
        error(lambda: identity(T, not_given).apply(x)).split(":")[0],
    ]


@both
def test_a_dirty_input_among_several_outputs(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 10, x

    x = leaf(T, 1.0)
    a = x * 1
    b, c = identity(T, forward, lambda ctx, g, h: g * 20 + h * 2).apply(a)
    (b + c).backward()
    return c is a, x.grad


# -- gradients ---------------------------------------------------------------------------------------------------------


@both
def test_wrong_numbers_of_gradients(T: Any) -> Any:
    def run(result: Any) -> Any:
        x, w = leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
        F = identity(T, lambda ctx, x, w: x * w, lambda ctx, g: result(g))
        F.apply(x, w).sum().backward()
        return x.grad, w.grad

    return [
        error(lambda: run(lambda g: g), "OwnBackward", "incorrect number of gradients", "expected 2, got 1"),
        error(lambda: run(lambda g: (g, g, g)), "OwnBackward", "incorrect number of gradients", "expected 2, got 3"),
        error(lambda: run(lambda g: (g, g, None))),
        error(lambda: run(lambda g: (g, None))),
        error(lambda: run(lambda g: (None, None))),
        error(lambda: run(lambda g: None)).split(":")[0],
    ]


@both
def test_wrong_kinds_of_gradients(T: Any) -> Any:
    def run(result: Any) -> Any:
        x = leaf(T, 1.0, 2.0)
        F = identity(T, lambda ctx, x, k: x * k, lambda ctx, g: result(g))
        F.apply(x, 2.0).sum().backward()
        return x.grad

    return [
        error(lambda: run(lambda g: (T.ones(3), None)), "invalid gradient at index 0", "[3]", "[2]"),
        error(lambda: run(lambda g: (T.ones(2, 2, dtype=T.float64), None))),
        error(lambda: run(lambda g: (T.ones(3, 2, dtype=T.float64), None))),
        error(lambda: run(lambda g: (T.ones(1, dtype=T.float64), None))),
        error(lambda: run(lambda g: (T.tensor(3.0, dtype=T.float64), None))),
        error(lambda: run(lambda g: (T.ones(2), None))),
        error(lambda: run(lambda g: (T.ones(2, dtype=T.int64), None))),
        error(lambda: run(lambda g: (T.ones(2, dtype=T.complex128) * (2 + 1j), None))),
        error(lambda: run(lambda g: (3.0, None))).split(":")[0],
        error(lambda: run(lambda g: (g, g)), "OwnBackward", "different than None at position 2"),
    ]


@both
def test_a_gradient_that_is_the_cotangent_or_a_saved_tensor(T: Any) -> Any:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x)
        return x + w

    def backward(ctx: Any, g: Any) -> Any:
        return g, ctx.saved_tensors[0]

    x, w = leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
    seed = T.ones(2, dtype=T.float64)
    identity(T, forward, backward).apply(x, w).backward(seed)
    x.grad.mul_(10)
    w.grad.mul_(100)
    return seed, x, x.grad, w.grad


@both
def test_backward_that_changes_its_cotangent_in_place(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x * 1, lambda ctx, g: g.mul_(2))
    x = leaf(T, 1.0)
    a = x * 1
    y = F.apply(a) * 1 + a * 10
    y.backward()
    return x.grad


@both
def test_backward_that_raises(T: Any) -> Any:
    def backward(ctx: Any, g: Any) -> Any:
        raise KeyError("on purpose")

    x = leaf(T, 1.0)
    F = identity(T, lambda ctx, x: x * 1, backward)
    return error(lambda: F.apply(x).backward(), "on purpose"), x.grad


@both
def test_missing_methods(T: Any) -> Any:
    class NoForward(T.autograd.Function):
        pass

    class NoBackward(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g

    class Vjp(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g * 9

    x = leaf(T, 1.0)
    (g,) = T.autograd.grad(Vjp.apply(x), x)
    return [
        error(lambda: NoForward.apply(x), "must implement the forward"),
        error(lambda: NoBackward.apply(x).backward(), "must implement either the backward or vjp"),
        error(lambda: Both.apply(x).backward(), "Implementing both 'backward' and 'vjp'").split(":")[0],
        g,
    ]


@both
def test_instances_and_direct_calls(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x * 2, lambda ctx, g: g * 7)
    x = T.ones(1)
    y = F.apply(leaf(T, 1.0))
    return [
        F.backward(None, x),
        F.forward(None, x),
        error(lambda: y.grad_fn.apply(x)).split(":")[0],
        isinstance(F, type),
        issubclass(F, T.autograd.Function),
    ]


@both
def test_calling_a_node(T: Any) -> Any:
    F = identity(T, lambda ctx, x: x * 2, lambda ctx, g: g * 7)
    y = F.apply(leaf(T, 1.0))
    return y.grad_fn.apply(T.ones(1)), error(lambda: y.grad_fn(T.ones(1, dtype=T.float64)))


# -- the other style ---------------------------------------------------------------------------------------------------


@both
def test_setup_context(T: Any) -> Any:
    seen: list = []

    class Power(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, n: int) -> Any:
            return x**n, n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append(
                [
                    type(inputs).__name__,
                    len(inputs),
                    type(output).__name__,
                    output[1],
                    T.is_grad_enabled(),
                    output[0].requires_grad,
                ]
            )
            x, ctx.n = inputs
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            (x,) = ctx.saved_tensors
            return ctx.n * x ** (ctx.n - 1) * g, None

        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
            raise NotImplementedError

    Power.generate_vmap_rule = False
    x = leaf(T, 2.0)
    y, n = Power.apply(x, 3)
    (g,) = T.autograd.grad(y, x, create_graph=True)
    (h,) = T.autograd.grad(g, x)
    return seen, y, n, g, h


@both
def test_setup_context_with_defaults_and_keywords(T: Any) -> Any:
    seen: list = []

    class Scale(T.autograd.Function):
        @staticmethod
        def forward(x: Any, k: Any = 3.0) -> Any:
            return x * k

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append(len(inputs))
            ctx.k = inputs[-1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.k, None

    x = leaf(T, 2.0)
    (g,) = T.autograd.grad(Scale.apply(x), x)
    return g, seen, error(lambda: T.autograd.grad(Scale.apply(x, k=5.0), x)), seen


@both
def test_inheritance(T: Any) -> Any:
    class Base(T.autograd.Function):
        factor = 2.0

        @classmethod
        def scale(cls) -> float:
            return cls.factor

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Child(Base):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Base.backward(ctx, g) * 10

    x = leaf(T, 2.0)
    y, z = Base.apply(x), Child.apply(x)
    (y + z).backward()
    return x.grad, y.grad_fn, z.grad_fn


# -- functions in functions, second derivatives, forward mode ----------------------------------------------------------


@both
def test_functions_in_functions(T: Any) -> Any:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * Scale.apply(ctx.saved_tensors[0], g)

    class Scale(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with T.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = Square.apply(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return T.autograd.grad(ctx.y, ctx.x, g)[0]

    x = leaf(T, 3.0)
    (g,) = T.autograd.grad(Square.apply(x) ** 2, x, create_graph=True)
    (h,) = T.autograd.grad(g, x, create_graph=True)
    (k,) = T.autograd.grad(h, x)
    Outer.apply(x).backward()
    return g, h, k, x.grad


@both
def test_once_differentiable(T: Any) -> Any:
    seen: list = []

    class Once(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(T.is_grad_enabled())
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(T, 3.0)
    y = Once.apply(x)
    seed = leaf(T, 1.0)
    (g,) = T.autograd.grad(y, x, seed, create_graph=True)
    y2 = Once.apply(x)
    (p,) = T.autograd.grad(y2, x)
    return g, p, g.requires_grad, error(lambda: g.backward(), "once_differentiable"), seen


def test_once_differentiable_refuses_where_the_second_derivative_would_be_wrong() -> None:
    # PyTorch cuts the graph in silence where the cotangent does not require grad.
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    x = leaf(ferro, 3.0)
    F = identity(ferro, forward, ferro.autograd.function.once_differentiable(backward))
    (g,) = ferro.autograd.grad(F.apply(x), x, create_graph=True)
    assert g.tolist() == [6.0]
    raises(lambda: g.backward(), RuntimeError, "differentiate twice", "once_differentiable")


def test_backward_may_return_a_list() -> None:
    x, w = leaf(ferro, 1.0), leaf(ferro, 2.0)
    identity(ferro, lambda ctx, x, w: x * w, lambda ctx, g: [g * 2, g * 3]).apply(x, w).backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([2.0], [3.0])


@both
def test_a_backward_that_is_not_differentiable_by_itself(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.k = x.detach() * 2
        return x * x

    x = leaf(T, 3.0)
    F = identity(T, forward, lambda ctx, g: g * ctx.k)
    (g,) = T.autograd.grad(F.apply(x), x, create_graph=True)
    return g, g.requires_grad


@both
def test_double_backward_through_a_saved_output(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    x = leaf(T, 0.5)
    F = identity(T, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    (g,) = T.autograd.grad(F.apply(x), x, create_graph=True)
    (h,) = T.autograd.grad(g, x, create_graph=True)
    return g, h, T.autograd.grad(h, x)


@both
def test_forward_mode(T: Any) -> Any:
    fw = T.autograd.forward_ad

    def forward(ctx: Any, x: Any, w: Any, k: Any) -> Any:
        ctx.save_for_forward(x, w)
        ctx.k = k
        return x * w * k, x + w

    seen: list = []

    def jvp(ctx: Any, tx: Any, tw: Any, tk: Any) -> Any:
        x, w = ctx.saved_tensors
        seen.append([tx is None, tw is None, tk is None])
        tx = x * 0 if tx is None else tx
        tw = w * 0 if tw is None else tw
        return (tx * w + x * tw) * ctx.k, tx + tw

    F = identity(T, forward, lambda ctx, g, h: (g, h, None), jvp=jvp)
    x, w, t = T.tensor([2.0]), T.tensor([3.0]), T.tensor([10.0])
    with fw.dual_level():
        a, b = F.apply(fw.make_dual(x, t), w, 5.0)
        c, _ = F.apply(fw.make_dual(x, t), fw.make_dual(w, t), 5.0)
        found = [fw.unpack_dual(a).tangent, fw.unpack_dual(b).tangent, fw.unpack_dual(c).tangent]
    return found, seen


@both
def test_forward_mode_refuses(T: Any) -> Any:
    fw = T.autograd.forward_ad

    def run(jvp: Any) -> Any:
        F = identity(T, lambda ctx, x: x * 2, **({"jvp": jvp} if jvp else {}))
        with fw.dual_level():
            return fw.unpack_dual(F.apply(fw.make_dual(T.ones(2), T.ones(2)))).tangent

    return [
        error(lambda: run(None), "must implement the jvp function"),
        error(lambda: run(lambda ctx, t: (t, t))).split(":")[0],
        error(lambda: run(lambda ctx, t: T.ones(3))).split(":")[0],
        error(lambda: run(lambda ctx, t: 3.0)).split(":")[0],
        error(lambda: run(lambda ctx, t: T.ones(2, dtype=T.float64))).split(":")[0],
        run(lambda ctx, t: t * 9),
    ]


@both
def test_names_in_the_namespace(T: Any) -> Any:
    f = T.autograd.function
    return [hasattr(f, n) for n in ("Function", "FunctionCtx", "once_differentiable")]


@both
def test_marking_and_saving_after_the_fact(T: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_non_differentiable(x * 2)
        ctx.mark_dirty()
        ctx.save_for_backward()
        return x * 2

    x = leaf(T, 1.0)
    y = identity(T, forward, lambda ctx, g: g * len(ctx.saved_tensors) + g).apply(x)
    y.backward()
    return x.grad


@both
def test_backward_inside_a_backward(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with T.enable_grad():
                y = x.detach().requires_grad_()
                (y * y).backward(g)
            return y.grad

    x = leaf(T, 2.0)
    F.apply(F.apply(x)).backward()
    return x.grad
