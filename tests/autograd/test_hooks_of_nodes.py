"""Hooks of nodes, after accumulation, on several gradients, with inputs=, and what hooks may call; as in PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import ferro
from ferro.autograd import graph
from tests.autograd.both import both, error, leaf, raises

# -- nodes -------------------------------------------------------------------------------------------------------------


@both
def test_node_hooks_and_prehooks_in_order(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 5.0)
    y = x * w
    seen: list = []
    y.register_hook(lambda g: seen.append(("tensor", g.tolist())))
    y.grad_fn.register_prehook(lambda gs: seen.append(("pre", [g.tolist() for g in gs])))
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post", [g.tolist() for g in gi], [g.tolist() for g in go])))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 100, gi[1]))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post 2", [g.tolist() for g in gi])))
    y.register_hook(lambda g: g * 3)
    y.backward()
    return seen, x.grad, w.grad


@both
def test_what_node_hooks_may_return(T: Any) -> Any:
    def run(pre: Any = None, post: Any = None) -> Any:
        x = leaf(T, 2.0)
        y = x * 3
        if pre is not None:
            y.grad_fn.register_prehook(pre)
        if post is not None:
            y.grad_fn.register_hook(post)
        y.backward()
        return x.grad

    return [
        error(lambda: run(pre=lambda gs: gs[0] * 2)).split(":")[0],
        error(lambda: run(pre=lambda gs: (gs[0], gs[0]))).split(":")[0],
        error(lambda: run(pre=lambda gs: 3)).split(":")[0],
        error(lambda: run(post=lambda gi, go: gi[0] * 2)).split(":")[0],
        error(lambda: run(post=lambda gi, go: (gi[0], None, None))).split(":")[0],
        error(lambda: run(post=lambda gi, go: 3)).split(":")[0],
        run(pre=lambda gs: None, post=lambda gi, go: None),
        run(pre=lambda gs: (None,)),
        run(post=lambda gi, go: (None, None)),
    ]


@both
def test_node_hooks_of_several_outputs_and_removal(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    a, b = x.unbind(0)
    seen: list = []
    node = a.grad_fn
    handle = node.register_prehook(lambda gs: seen.append([None if g is None else g.tolist() for g in gs]))
    post = node.register_hook(lambda gi, go: seen.append((len(gi), len(go))))
    (b * 2).backward(retain_graph=True)
    handle.remove()
    post.remove()
    (b * 2).backward()
    return seen


@both
def test_hooks_of_the_end_of_the_tape(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    seen: list = []
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: seen.append(("pre", [g.tolist() for g in gs])))
    end.register_hook(lambda gi, go: seen.append(("post", len(gi), [g.tolist() for g in go])))
    y.backward()
    return seen, x.grad


# -- after accumulation ------------------------------------------------------------------------------------------------


@both
def test_post_accumulate_hooks_see_the_grad_and_may_drop_it(T: Any) -> Any:
    x = leaf(T, 1.0)
    seen: list = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    x.register_hook(lambda g: seen.append(("pre", g.tolist())))
    (x * 2 + x * 3).backward()

    def drop(t: Any) -> None:
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(drop)
    (x * 2).backward()
    dropped = x.grad is None
    handle.remove()
    (x * 2).backward()
    T.autograd.grad(x * 2, x)
    (x * 2).backward(inputs=[x])
    return seen, dropped, x.grad


@both
def test_post_accumulate_hooks_run_without_a_gradient_too(T: Any) -> Any:
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    x = leaf(T, 1.0)
    seen: list = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append("post"))
    Nothing.apply(x).backward()
    return seen, x.grad


@both
def test_post_accumulate_hooks_that_step_an_optimiser(T: Any) -> Any:
    x = leaf(T, 1.0)

    def step(t: Any) -> None:
        with T.no_grad():
            t.sub_(t.grad * 0.1)
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (x * x).backward()
    return x, x.grad


# -- several gradients at once -----------------------------------------------------------------------------------------


@both
def test_multi_grad_hook_all(T: Any) -> Any:
    x, y, z = leaf(T, 1.0), leaf(T, 2.0), leaf(T, 3.0)
    w = x * y
    seen: list = []

    def hook(grads: Any) -> None:
        seen.append([None if g is None else g.tolist() for g in grads])

    handle = T.autograd.graph.register_multi_grad_hook([x, w, z], hook)
    (w * 2).backward(retain_graph=True)
    (w * 2 + z).backward(retain_graph=True)
    handle.remove()
    (w * 2 + z).backward()
    return seen


def test_multi_grad_hooks_see_grad_and_a_leaf_as_root() -> None:  # (PyTorch refuses the first, ignores the second)
    x, y = leaf(ferro, 1.0), leaf(ferro, 2.0)
    seen: list = []
    graph.register_multi_grad_hook([x, y], lambda gs: seen.append([None if g is None else g.tolist() for g in gs]))
    ferro.autograd.grad(x * y, x)
    x.backward()
    assert seen == [[[2.0], None], [[1.0], None]]
    raises(lambda: graph.register_multi_grad_hook([x, ferro.ones(1)], print), RuntimeError, "must require grad")


@both
def test_multi_grad_hook_any(T: Any) -> Any:
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    w = x * y
    seen: list = []
    handle = T.autograd.graph.register_multi_grad_hook([x, w, y], lambda g: seen.append(g.tolist()), mode="any")
    (w * 2).backward(retain_graph=True)
    (w * 2).backward(retain_graph=True)
    y.backward()
    handle.remove()
    (w * 2).backward()
    return seen, error(lambda: T.autograd.graph.register_multi_grad_hook([x], print, mode="some"), "mode", "any").split(
        ":"
    )[0]


@both
def test_multi_grad_hook_after_a_backward_that_failed(T: Any) -> Any:
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    seen: list = []
    T.autograd.graph.register_multi_grad_hook([x, y], lambda gs: seen.append([g.tolist() for g in gs]))
    a, b = x * 2, y * 3

    def broken(g: Any) -> None:
        raise ZeroDivisionError

    handle = a.register_hook(broken)
    out = error(lambda: (a + b).backward(retain_graph=True)).split(":")[0]
    handle.remove()
    (a + b).backward()
    return out, seen


# -- with inputs= ------------------------------------------------------------------------------------------------------


@both
def test_hooks_when_gradients_are_captured(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    z = y * y
    seen: list = []
    x.register_hook(lambda g: seen.append(("x", g.tolist())))
    x.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(("y", g.tolist())))
    y.register_hook(lambda g: g * 100)
    y.grad_fn.register_prehook(lambda gs: seen.append(("pre", gs[0].tolist())))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("post", go[0].tolist())))
    found = [
        T.autograd.grad(z, y, retain_graph=True),
        list(seen),
        T.autograd.grad(z, x, retain_graph=True),
        list(seen),
    ]
    z.backward(inputs=[x], retain_graph=True)
    found += [x.grad.clone(), y.grad_fn]
    z.backward(inputs=[y, x])
    return found, x.grad, y.grad


@both
def test_hooks_of_a_captured_root(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    seen: list = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 7)
    return T.autograd.grad(y, [y]), seen


def test_a_captured_gradient_is_that_after_the_hooks_whatever_else_is_asked_for() -> None:
    # PyTorch gives the gradient before the hooks where the node runs because a gradient behind it is wanted too.
    x = leaf(ferro, 2.0)
    y = x * 3
    y.register_hook(lambda g: g * 7)
    for inputs in ([y], [y, x], [x, y]):
        found = dict(zip(inputs, ferro.autograd.grad(y * 1, inputs, retain_graph=True), strict=True))
        assert found[y].tolist() == [7.0]
        assert found.get(x, ferro.tensor([21.0])).tolist() == [21.0]


@both
def test_hooks_of_leaves_that_are_not_asked_for_do_not_run(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)
    seen: list = []
    x.register_hook(lambda g: seen.append("x"))
    w.register_hook(lambda g: seen.append("w"))
    y = x * w
    y.register_hook(lambda g: seen.append("y"))
    T.autograd.grad(y * 2, x)
    return seen


@both
def test_retained_gradients_when_gradients_are_captured(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    y.retain_grad()
    z = y * y
    z.retain_grad()
    T.autograd.grad(z, x, retain_graph=True)
    first = y.grad, z.grad
    y.grad = z.grad = None
    T.autograd.grad(z, y)
    return first, y.grad, z.grad


# -- inside hooks ------------------------------------------------------------------------------------------------------


@both
def test_backward_of_another_graph_inside_a_hook(T: Any) -> Any:
    x, inner = leaf(T, 2.0), leaf(T, 3.0)
    y = x * x

    def hook(g: Any) -> None:
        with T.enable_grad():
            (inner * inner).backward()

    y.register_hook(hook)
    y.backward()
    return x.grad, inner.grad


@both
def test_grad_mode_inside_hooks(T: Any) -> Any:
    x = leaf(T, 2.0)
    seen: list = []
    x.register_hook(lambda g: seen.append(T.is_grad_enabled()))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(T.is_grad_enabled()))
    (x * 2).backward()
    with T.no_grad():
        y = x
    with T.enable_grad():
        z = y * 2
    with T.no_grad():
        z.backward()
    (x * 2).backward(create_graph=True)
    x.grad = None
    return seen


@both
def test_callbacks_at_the_end_of_backward(T: Any) -> Any:
    engine = T.autograd.Variable._execution_engine
    x = leaf(T, 2.0)
    seen: list = []

    def hook(g: Any) -> None:
        engine.queue_callback(lambda: seen.append(("callback", None if x.grad is None else x.grad.tolist())))
        engine.queue_callback(lambda: seen.append("second"))

    y = x * x
    y.register_hook(hook)
    y.backward()
    seen.append("after")
    return seen, error(lambda: engine.queue_callback(print)).split(":")[0]


def test_callbacks_may_be_queued_on_any_thread_of_a_backward() -> None:
    queue = ferro.autograd.Variable._execution_engine.queue_callback
    x = ferro.ones(200_000, requires_grad=True)
    seen: list = []
    branches = [x * k for k in range(1, 9)]
    for k, b in enumerate(branches):
        b.register_hook(lambda g, k=k: queue(lambda: seen.append((k, x.grad is not None))))
    sum([(b * b).sum() for b in branches]).backward(num_threads=4)
    assert sorted(seen) == [(k, True) for k in range(8)]


@both
def test_callbacks_of_a_nested_backward_run_at_its_end(T: Any) -> Any:
    engine = T.autograd.Variable._execution_engine
    x, inner = leaf(T, 2.0), leaf(T, 3.0)
    seen: list = []

    def hook(g: Any) -> None:
        with T.enable_grad():
            z = inner * inner
            z.register_hook(lambda h: engine.queue_callback(lambda: seen.append("inner")))
            z.backward()
        seen.append("hook")

    y = x * x
    y.register_hook(lambda g: engine.queue_callback(lambda: seen.append("outer")))
    y.register_hook(hook)
    y.backward()
    return seen


@both
def test_callbacks_queued_by_callbacks_and_errors_in_them(T: Any) -> Any:
    engine = T.autograd.Variable._execution_engine
    x = leaf(T, 2.0)
    seen: list = []

    def outer() -> None:
        seen.append("outer")
        engine.queue_callback(lambda: seen.append("inner"))

    def broken() -> None:
        raise ZeroDivisionError("in a callback")

    y = x * x
    handle = y.register_hook(lambda g: engine.queue_callback(outer))
    y.backward(retain_graph=True)
    handle.remove()
    handle = y.register_hook(lambda g: engine.queue_callback(broken))
    seen.append(error(lambda: y.backward(retain_graph=True), "in a callback"))
    handle.remove()
    y.backward()
    return seen, x.grad


@both
def test_callbacks_after_a_backward_that_failed_do_not_run(T: Any) -> Any:
    engine = T.autograd.Variable._execution_engine
    x = leaf(T, 2.0)
    seen: list = []

    def broken(g: Any) -> None:
        engine.queue_callback(lambda: seen.append("must not run"))
        raise ZeroDivisionError("in a hook")

    y = x * x
    handle = y.register_hook(broken)
    seen.append(error(lambda: y.backward(retain_graph=True), "in a hook"))
    handle.remove()
    y.backward()
    return seen


@both
def test_nested_backward_that_fails(T: Any) -> Any:
    x, inner = leaf(T, 2.0), leaf(T, 3.0)

    class Nested(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with T.enable_grad():
                z = inner * inner
                z.register_hook(lambda h: 1 / 0)
                z.backward()
            return g

    out = error(lambda: Nested.apply(x).backward(), "division by zero")
    (x * 5).backward()
    return out, x.grad, inner.grad


@both
def test_reentrant_backward_a_hundred_deep(T: Any) -> Any:
    x = leaf(T, 1.0)
    depth: list = []

    class Deep(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int) -> Any:
            ctx.n = n
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            depth.append(ctx.n)
            if ctx.n:
                with T.enable_grad():
                    y = x.detach().requires_grad_()
                    Deep.apply(y, ctx.n - 1).backward()
                return y.grad * 1, None
            return g, None

    Deep.apply(x, 100).backward()
    return len(depth), x.grad


@both
def test_hooks_registered_during_backward_run_in_it(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    z = y * 3
    seen = []
    z.register_hook(lambda g: y.register_hook(lambda h: seen.append(("late", h.tolist()))) and None)
    z.register_hook(lambda g: x.register_hook(lambda h: seen.append(("leaf", h.tolist()))) and None)
    z.backward()
    return seen


@both
def test_hooks_removed_during_backward_do_not_run_in_it(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    z = y * 3
    seen = []
    h1 = y.register_hook(lambda h: seen.append("y"))
    h2 = x.register_hook(lambda h: seen.append("x"))

    def remove(g: Any) -> None:
        h1.remove()
        h2.remove()

    z.register_hook(remove)
    z.backward()
    return seen, x.grad


@both
def test_a_hook_registered_by_a_hook_of_the_same_tensor(T: Any) -> Any:
    x = leaf(T, 1.0)
    seen = []

    def hook(g):
        seen.append("a")
        x.register_hook(lambda g: seen.append("b"))

    x.register_hook(hook)
    x.backward()
    return seen


@both
def test_hooks_of_the_end_of_the_tape_run_where_grad_is_accumulated(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    seen = []
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: seen.append("pre"))
    end.register_hook(lambda a, b: seen.append("post"))
    T.autograd.grad(y, x, retain_graph=True)
    first = list(seen)
    y.backward(inputs=[x])
    return first, seen, x.grad


@both
def test_a_prehook_of_the_end_of_the_tape_replaces(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: (gs[0] * 10,))
    y.backward()
    return x.grad


@both
def test_the_order_of_all_hooks_of_a_leaf(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    seen = []
    end = y.grad_fn.next_functions[0][0]
    end.register_hook(lambda a, b: seen.append("node post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("post acc"))
    end.register_prehook(lambda gs: seen.append("node pre"))
    x.register_hook(lambda g: seen.append("tensor"))
    y.backward()
    return seen


@both
def test_the_order_of_all_hooks_of_a_result(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda a, b: seen.append("node post"))
    y.grad_fn.register_prehook(lambda gs: seen.append("node pre"))
    y.retain_grad()
    y.register_hook(lambda g: seen.append("tensor"))
    (y * 1).backward()
    return seen


@both
def test_a_hook_may_cut_the_recorded_graph(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    y.register_hook(lambda g: g.detach() * 2)
    (g,) = T.autograd.grad(y, x, create_graph=True)
    return g, g.requires_grad, T.autograd.grad(g, x)


@both
def test_what_a_hook_returns_is_not_recorded_without_create_graph(T: Any) -> Any:
    x, w = leaf(T, 3.0), leaf(T, 2.0)
    y = x * x
    y.register_hook(lambda g: g * w)
    y.backward()
    return x.grad, x.grad.requires_grad, w.grad


@both
def test_retain_grad_under_no_grad_and_again(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    with T.no_grad():
        y.retain_grad()
        v = y.view(1)
    y.backward(retain_graph=True)
    y.grad = None
    y.backward()
    return y.grad, y.retains_grad, v.requires_grad


@both
def test_retained_gradient_of_a_view_of_a_changed_base(T: Any) -> Any:
    x = leaf(T, 3.0, 4.0)
    y = x * x
    v = y[1:]
    v.retain_grad()
    y.mul_(2)
    v.sum().backward()
    return v.grad, x.grad


@both
def test_a_retained_gradient_that_is_an_input_of_backward(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * 2
    y.retain_grad()
    (y * y).backward(inputs=[y], retain_graph=True)
    (y * y).backward(inputs=[x, y])
    return y.grad, x.grad


@both
def test_grad_of_the_same_leaf_inside_a_hook(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    z = y * y
    seen = []

    def hook(g):
        with T.enable_grad():
            seen.append(T.autograd.grad(x * x * x, x))

    z.register_hook(hook)
    z.backward()
    return seen, x.grad


@both
def test_backward_of_the_running_graph_inside_a_hook(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    z = y * 3
    done = []

    def hook(g):
        if not done:
            done.append(1)
            y.backward(g * 0 + 1, retain_graph=True)

    z.register_hook(hook)
    z.backward()
    return x.grad


@both
def test_handles_have_numbers(T: Any) -> Any:
    x = leaf(T, 1.0)
    h = x.register_hook(lambda g: None)
    h2 = x.register_hook(lambda g: None)
    return isinstance(h.id, int), h.id != h2.id, hasattr(h, "remove")


@both
def test_hooks_of_a_leaf_and_of_its_node_run_in_order_on_one_gradient(T: Any) -> Any:
    x, kept = leaf(T, 1.0, 2.0), []
    node = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: g - 2)
    node.register_prehook(lambda gs: (gs[0] / 4,))
    x.register_post_accumulate_grad_hook(lambda t: [t.grad.add_(0.5)].clear())
    node.register_hook(lambda gi, go: kept.append(go[0]))
    x.sum().backward()
    first, seen = x.grad.clone(), kept[0].clone()
    x.sum().backward()
    return first, seen, x.grad, kept


@both
def test_what_a_hook_returned_and_keeps_is_not_added_to(T: Any) -> Any:
    x, kept = leaf(T, 1.0, 2.0), []

    def hook(g: Any) -> Any:
        kept.append(g * 2)
        return kept[-1]

    x.register_hook(hook)
    for _ in range(2):
        (x * 3).sum().backward()
    return x.grad, kept


@both
def test_a_recorded_gradient_is_a_copy_laid_out_like_its_leaf(T: Any) -> Any:
    x = T.ones(2, 3, dtype=T.float64).t().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).sum().backward(create_graph=True)
    y = T.ones(3, 2, dtype=T.float64).copy_(x)
    names = [type(g.grad_fn).__name__ for g in (x.grad, y)]
    return (
        x.grad,
        x.grad.stride(),
        x.grad._version,
        names,
        x.grad.grad_fn.next_functions[0],
        T.autograd.grad(x.grad.sum(), x),
    )
