"""Custom Functions: the gradients they return, the two styles, higher derivatives, forward mode, hooks; as in PyTorch."""

from __future__ import annotations

from typing import Any

import ferro
from tests.autograd.both import both, error, identity, leaf, outcome, raises

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
    ends = [type(f[0]).__name__ for f in g.grad_fn.next_functions]
    return (
        g,
        p,
        g.requires_grad,
        type(g.grad_fn).__name__,
        ends,
        error(lambda: g.backward(), "once_differentiable"),
        seen,
    )


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


@both
def test_ctx_is_the_node(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.a = 1
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.a += 1
            return g

    x = leaf(T, 1.0)
    y = F.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    return y.grad_fn.a


@both
def test_hooks_of_a_function_node(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    x, w = leaf(T, 1.0), leaf(T, 2.0)
    a, _ = F.apply(x, w)
    seen = []
    a.register_hook(lambda g: seen.append(("a", g.tolist())))
    a.grad_fn.register_hook(
        lambda gi, go: seen.append(
            ("post", [None if g is None else g.tolist() for g in gi], [None if g is None else g.tolist() for g in go])
        )
    )
    a.grad_fn.register_prehook(lambda go: seen.append(("pre", [None if g is None else g.tolist() for g in go])))
    a.retain_grad()
    a.backward()
    return seen, a.grad, x.grad, w.grad


@both
def test_needs_input_grad_tells_what_has_grad(T: Any) -> Any:
    seen = []

    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            x, y = ctx.saved_tensors
            return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None

    x, w = leaf(T, 1.0), leaf(T, 2.0)
    T.autograd.grad(F.apply(x, w), x)
    T.autograd.grad(F.apply(x.detach(), w), w)
    return seen


@both
def test_one_gradient_for_two_inputs_is_not_shared(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, g

    x, w = leaf(T, 1.0), leaf(T, 2.0)
    F.apply(x, w).backward()
    x.grad.mul_(10)
    return x.grad, w.grad


@both
def test_none_as_the_gradient_of_a_wanted_input(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(T, 1.0, 2.0)
    return error(lambda: T.autograd.grad(F.apply(x).sum(), x), "not have been used"), T.autograd.grad(
        F.apply(x).sum(), x, allow_unused=True
    )


@both
def test_complex_functions(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * 2 * z.conj()

    z = T.tensor([1 + 2j], requires_grad=True)
    F.apply(z).backward(T.ones(1, dtype=T.complex64))
    return z.grad, T.autograd.gradcheck(F.apply, T.tensor([1 + 2j], dtype=T.complex128, requires_grad=True))


@both
def test_forward_that_raises(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("fwd")

    x = leaf(T, 1.0)
    out = outcome(F.apply, x)
    return out, T.is_grad_enabled()


@both
def test_setup_context_saves_the_output(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output, *inputs)
            ctx.mark_non_differentiable()

        @staticmethod
        def backward(ctx, g):
            o, x = ctx.saved_tensors
            return g * o * x

    x = leaf(T, 3.0)
    (g,) = T.autograd.grad(F.apply(x), x, create_graph=True)
    return g, T.autograd.grad(g, x)


@both
def test_mark_dirty_of_a_view_with_strides(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(3)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    a = x * 1
    F.apply(a.t()[1:])
    a.sum().backward()
    return x.grad, a


@both
def test_mark_dirty_is_seen_by_those_who_saved_the_input(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(3)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(T, 2.0)
    a = x * 1
    b = a * a
    F.apply(a)
    return error(lambda: b.backward(), "modified by an inplace operation")


@both
def test_an_input_changed_in_place_without_a_mark(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(3)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(T, 2.0)
    a = x * 1
    b = F.apply(a)
    b.backward()
    return b is a, x.grad


@both
def test_two_dirty_inputs_in_another_order(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            x.mul_(2)
            y.mul_(3)
            ctx.mark_dirty(x, y)
            return y, x

        @staticmethod
        def backward(ctx, gy, gx):
            return gx * 2, gy * 3

    x, w = leaf(T, 2.0), leaf(T, 5.0)
    a, b = x * 1, w * 1
    c, d = F.apply(a, b)
    (c * d).backward()
    return c is b, d is a, x.grad, w.grad


@both
def test_recording_inside_forward(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with T.enable_grad():
                y = x * 2
                ctx.r = y.requires_grad
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(T, 2.0)
    y = F.apply(x)
    r = y.grad_fn.r
    y.backward()
    return r, x.grad, y.grad_fn


@both
def test_second_derivatives_by_one_of_two_inputs(T: Any) -> Any:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            _, y = ctx.saved_tensors
            return g * y, None

    x, w = leaf(T, 2.0), leaf(T, 3.0)
    (g,) = T.autograd.grad(F.apply(x, w), x, create_graph=True)
    return T.autograd.grad(g, w), outcome(T.autograd.grad, F.apply(x, w), w)


def test_a_gradient_that_views_a_buffer_of_the_user_is_copied() -> None:  # (PyTorch lets .grad share it)
    buffer = ferro.arange(4.0, dtype=ferro.float64)
    x = leaf(ferro, 1.0, 2.0)
    identity(ferro, lambda ctx, x: x.clone(), lambda ctx, g: buffer[1:3]).apply(x).sum().backward()
    x.grad.mul_(10)
    assert buffer.tolist() == [0.0, 1.0, 2.0, 3.0]
