"""Hooks: of tensors, of nodes, after accumulation, on several gradients; their order, their results and their errors."""

from __future__ import annotations

from typing import Any

import ferro
from ferro.autograd import graph
from tests.autograd.both import both, error, leaf, outcome, raises

# -- tensor hooks ------------------------------------------------------------------------------------------------------


@both
def test_hooks_run_in_order_and_each_sees_what_the_last_returned(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 3
    seen: list = []

    def multiply(k: int) -> Any:
        def hook(g: Any) -> Any:
            seen.append((k, g.tolist()))
            return g * k

        return hook

    for k in (2, 3, 5):
        y.register_hook(multiply(k))
    x.register_hook(multiply(7))
    x.register_hook(multiply(11))
    y.backward()
    return seen, x.grad


@both
def test_the_same_hook_twice_runs_twice(T: Any) -> Any:
    x = leaf(T, 1.0)
    hook = lambda g: g * 2  # noqa: E731
    first = x.register_hook(hook)
    x.register_hook(hook)
    x.backward()
    first.remove()
    before = x.grad.clone()
    x.backward()
    return before, x.grad


@both
def test_removed_hooks_do_not_run_and_removal_may_be_repeated(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    seen: list = []
    handle = y.register_hook(lambda g: seen.append("a"))
    y.register_hook(lambda g: seen.append("b"))
    handle.remove()
    handle.remove()
    with y.register_hook(lambda g: seen.append("c")):
        y.backward(retain_graph=True)
    y.backward()
    return seen


@both
def test_hooks_that_remove_or_add_hooks_while_running(T: Any) -> Any:
    x = leaf(T, 1.0)
    seen: list = []
    handles: dict = {}

    def remove_both(g: Any) -> None:
        seen.append("first")
        handles["first"].remove()
        handles["second"].remove()

    handles["first"] = x.register_hook(remove_both)
    handles["second"] = x.register_hook(lambda g: seen.append("second"))
    x.register_hook(lambda g: seen.append("third"))
    x.backward()
    x.backward()
    return [s for s in seen if s != "second"]


@both
def test_hooks_must_return_tensors_of_the_same_shape_and_none_keeps(T: Any) -> Any:
    def run(result: Any, on_leaf: bool) -> Any:
        x = leaf(T, 1.0, 2.0)
        y = x * 2
        (x if on_leaf else y).register_hook(lambda g: result(g))
        y.sum().backward()
        return x.grad

    def several(on_leaf: bool) -> Any:
        return [
            run(lambda g: None, on_leaf),
            outcome(run, lambda g: 3.0, on_leaf),
            error(lambda: run(lambda g: g.sum(), on_leaf), "changed the size of value"),
            error(lambda: run(lambda g: g.float(), on_leaf), "changed the type of value"),
            outcome(run, lambda g: (g,), on_leaf),
            run(lambda g: g[:1].expand(2) * 4, on_leaf),
        ]

    return several(False), several(True)


@both
def test_a_hook_before_an_inplace_operation_stays_with_the_old_value(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 3
    seen: list = []
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y.mul_(5)
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    y.sum().backward()
    return sorted(seen), x.grad


@both
def test_a_hook_on_a_base_before_a_write_through_a_view(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 3
    seen: list = []
    y.register_hook(lambda g: seen.append(("old base", g.tolist())))
    view = y[:1]
    view.mul_(5)
    y.register_hook(lambda g: seen.append(("new base", g.tolist())))
    view.register_hook(lambda g: seen.append(("new view", g.tolist())))
    y.sum().backward(retain_graph=True)
    first = sorted(seen)
    seen.clear()
    view.sum().backward()
    return first, sorted(seen), x.grad


def test_a_hook_on_a_view_before_it_is_written_to_stays_with_the_old_view() -> None:  # (PyTorch drops it)
    x = leaf(ferro, 1.0, 2.0)
    y = x * 3
    seen: list = []
    view = y[:1]
    view.register_hook(lambda g: seen.append(g.tolist()))
    view.mul_(5)
    y.sum().backward()
    assert seen == [[5.0]]
    assert x.grad.tolist() == [15.0, 3.0]


@both
def test_hooks_on_views_see_their_own_gradient(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    y = x * 2
    seen: list = []
    v = y[1:]
    v.register_hook(lambda g: seen.append(g.tolist()))
    v.register_hook(lambda g: g * 10)
    a, b = y.detach().requires_grad_().split([1, 2])
    b.register_hook(lambda g: seen.append(("split", g.tolist())))
    a.register_hook(lambda g: seen.append(("unused", None if g is None else g.tolist())))
    (y.sum() + (v * v).sum()).backward()
    b.sum().backward()
    return seen, x.grad


@both
def test_hooks_where_no_gradient_arrives(T: Any) -> Any:
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    seen: list = []

    def spy(name: str) -> Any:
        return lambda g: seen.append((name, None if g is None else g.tolist()))

    x = leaf(T, 1.0)
    y = x * 2
    x.register_hook(spy("x"))
    y.register_hook(spy("y"))
    y.grad_fn.register_prehook(lambda g: seen.append(("pre", [None if t is None else t.tolist() for t in g])))
    y.grad_fn.register_hook(lambda a, b: seen.append(("post", [t is None for t in a], [t is None for t in b])))
    y.retain_grad()
    Nothing.apply(y).backward()
    return seen, x.grad


@both
def test_a_hook_on_an_absent_gradient_may_not_replace_it(T: Any) -> Any:
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    x = leaf(T, 1.0)
    y = x * 2
    y.register_hook(lambda g: T.ones(1, dtype=T.float64))
    out = error(lambda: Nothing.apply(y).backward()).split(":")[0]
    return out, x.grad


@both
def test_a_hook_that_raises_stops_backward_and_leaves_the_engine_usable(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2

    def broken(g: Any) -> None:
        raise ZeroDivisionError("on purpose")

    handle = y.register_hook(broken)
    first = error(lambda: (y * 1).backward(retain_graph=True), "on purpose")
    handle.remove()
    (y * 3).backward()
    return first, x.grad


@both
def test_a_hook_may_keep_its_argument(T: Any) -> Any:
    kept: list = []
    x = leaf(T, 1.0, 2.0)
    y = x * 2
    for t in (x, y):
        t.register_hook(kept.append)
    ((y * y).sum() + y.sum()).backward()
    before = [k.clone() for k in kept]
    y2 = x * 2
    (y2 * y2).sum().backward()
    return before, kept[:2] and [k.requires_grad for k in kept[:2]], x.grad


@both
def test_a_hook_that_changes_its_argument_in_place(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: (g.mul_(10), None)[1])
    (y * 1).backward(T.ones(2, dtype=T.float64))
    z = x * 2
    x.grad = None
    x.register_hook(lambda g: (g.mul_(100), None)[1])
    z.backward(T.ones(2, dtype=T.float64))
    return x.grad


@both
def test_hooks_under_create_graph_are_recorded(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    modes: list = []

    def hook(g: Any) -> Any:
        modes.append((T.is_grad_enabled(), g.requires_grad))
        return g * x

    y.register_hook(hook)
    (g,) = T.autograd.grad(y * y, x, create_graph=True)
    (h,) = T.autograd.grad(g, x)
    y2 = x * x
    y2.register_hook(hook)
    y2.backward()
    return g, h, modes


@both
def test_hooks_need_a_tensor_that_requires_grad(T: Any) -> Any:
    plain = T.ones(1)
    x = leaf(T, 1.0)
    return [
        error(lambda: plain.register_hook(print), "cannot register a hook on a tensor that doesn't require gradient"),
        error(lambda: plain.retain_grad(), "can't retain_grad on Tensor that has requires_grad=False"),
        error(lambda: plain.register_post_accumulate_grad_hook(print)).split(":")[0],
        error(lambda: (x * 2).register_post_accumulate_grad_hook(print), "non-leaf").split(":")[0],
    ]


@both
def test_hooks_run_once_when_the_gradient_is_complete(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    seen: list = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: seen.append(g.tolist()))
    (y * y + y.exp() + x).backward()
    return seen


# -- retain_grad -------------------------------------------------------------------------------------------------------


@both
def test_retained_gradients_are_those_after_all_hooks(T: Any) -> Any:
    found = []
    for first in (True, False):
        x = leaf(T, 1.0)
        y = x * 2
        if first:
            y.retain_grad()
        y.register_hook(lambda g: g * 3)
        if not first:
            y.retain_grad()
        y.register_hook(lambda g: g * 5)
        (y * 1).backward()
        found += [y.grad, x.grad]
    return found


@both
def test_retained_gradients_accumulate_and_follow_inplace_changes(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * 3).backward(retain_graph=True)
    (y * 4).backward(retain_graph=True)
    first = y.grad.clone()
    y.grad = None
    y.mul_(10)
    (y * 3).backward()
    return first, y.grad, x.grad, y.retains_grad, x.retains_grad


@both
def test_retain_grad_of_a_leaf_and_of_several_outputs(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.retain_grad()
    a, b = x.unbind(0)
    b.retain_grad()
    a.retain_grad()
    (b * 3).backward()
    return x.grad, b.grad, x.retains_grad, b.retains_grad


@both
def test_retained_gradient_does_not_alias_what_flows_on(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x + 0
    y.retain_grad()
    y.backward(T.ones(1, dtype=T.float64))
    y.grad.mul_(100)
    return x.grad


@both
def test_retained_gradient_with_create_graph(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    y.retain_grad()
    (y * y).backward(create_graph=True)
    (g,) = T.autograd.grad(y.grad, x)
    x.grad = None
    return y.grad, g


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
