"""Hooks of tensors, and retained gradients: order, results, removal, views, errors; as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from tests.autograd.both import both, error, leaf, outcome

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
def test_a_retained_gradient_belongs_to_the_history_that_a_view_has_now(T: Any) -> Any:
    found = []
    for ask in (False, True):
        x = leaf(T, 1.0, 2.0)
        view = x[:1]
        view.retain_grad()
        before = view * 3
        with T.no_grad():
            x.mul_(2)
        if ask:
            assert view.grad_fn is not None
        before.backward(inputs=[x])
        found.append((view.grad, x.grad))
    return found


@both
def test_retained_gradient_with_create_graph(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    y.retain_grad()
    (y * y).backward(create_graph=True)
    (g,) = T.autograd.grad(y.grad, x)
    x.grad = None
    return y.grad, g


def test_post_accumulate_hooks_return_nothing() -> None:
    x = ferro.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()


def test_a_post_accumulate_hook_may_return_its_tensor() -> None:
    x = ferro.zeros(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.sub_(t.grad))
    x.backward(ferro.tensor([1.0, 2.0]))
    assert x.tolist() == [-1.0, -2.0]


def test_prehooks_of_the_node_of_an_input_run() -> None:
    a = ferro.ones(1, requires_grad=True)
    b = a.clone()
    seen: list[str] = []
    b.grad_fn.register_prehook(lambda gs: seen.append("node"))
    b.register_hook(lambda g: seen.append("tensor"))
    b.sum().backward(inputs=(b,))
    assert seen == ["tensor", "node"]


@both
def test_the_hooks_of_a_tensor_see_one_object_until_one_returns_another(T: Any) -> Any:
    notes: list[Any] = []

    def look(grad: Any) -> None:
        notes.append((getattr(grad, "note", None), grad.tolist()))
        grad.note = len(notes)

    x = T.tensor([1.0], requires_grad=True)
    y = x * 2
    for tensor in (x, y):
        for hook in (look, look, lambda grad: grad * 10, look, look):
            tensor.register_hook(hook)
    y.sum().backward()
    return notes, x.grad
