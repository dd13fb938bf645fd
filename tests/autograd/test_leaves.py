"""Gradient edges, and the attributes of leaves: grad, requires_grad, data, copies, pickles; as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ferro
from tests.autograd.both import both, error, leaf, outcome, raises

# -- gradient edges ----------------------------------------------------------------------------------------------------


@both
def test_gradient_edges_as_roots_and_inputs(T: Any) -> Any:
    edge = T.autograd.graph.get_gradient_edge
    x = leaf(T, 2.0, 3.0)
    y = x * x
    z = y.sin().sum()
    one = T.ones(2, dtype=T.float64)
    found = [
        T.autograd.grad(z, [edge(y), x, edge(x)], retain_graph=True),
        T.autograd.grad(edge(z), [x], T.tensor(2.0, dtype=T.float64), retain_graph=True),
        T.autograd.grad([edge(y)], [edge(x)], [one], retain_graph=True),
        T.autograd.grad(edge(z), edge(y), T.tensor(1.0, dtype=T.float64), retain_graph=True),
        error(lambda: T.autograd.grad(edge(z), x, retain_graph=True)),
    ]
    T.autograd.backward(edge(y), one, retain_graph=True)
    found.append(x.grad.clone())
    T.autograd.backward(z, inputs=[edge(x)], retain_graph=True)
    found.append(x.grad.clone())
    return found


@both
def test_edges_do_not_need_their_tensor(T: Any) -> Any:
    x = leaf(T, 2.0, 3.0)
    y = x * x
    middle = T.autograd.graph.get_gradient_edge(y)
    z = y.exp().sum()
    del y
    return T.autograd.grad(z, [middle, x])


@both
def test_gradient_edges_of_operations_with_several_outputs(T: Any) -> Any:
    edge = T.autograd.graph.get_gradient_edge
    x = leaf(T, 2.0, 3.0)
    a, b = (x * 1).unbind(0)
    e = edge(b)
    return e.output_nr, e.node, T.autograd.grad((a * b) * b, [edge(a), e])


@both
def test_gradient_edges_of_leaves_and_of_what_has_none(T: Any) -> Any:
    x = leaf(T, 2.0)
    e = T.autograd.graph.get_gradient_edge(x)
    again = T.autograd.graph.get_gradient_edge(x)
    return [
        e.output_nr,
        e.node,
        e.node is again.node,
        e.node == again.node,
        e.node.variable is x,
        isinstance(e, tuple),
        error(lambda: T.autograd.graph.get_gradient_edge(T.ones(1)), "does not require gradients"),
    ]


@both
def test_an_edge_keeps_its_place_after_an_inplace_change(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    before = T.autograd.graph.get_gradient_edge(y)
    y.mul_(5)
    return T.autograd.grad(y, [before, y])


# -- leaves ------------------------------------------------------------------------------------------------------------


@both
def test_checks_of_the_grad_setter(T: Any) -> Any:
    def set_to(x: Any, value: Any) -> Any:
        def run() -> Any:
            x.grad = value
            return x.grad

        return run

    x = leaf(T, 1.0, 2.0)
    return [
        error(set_to(x, 3.0), "assigned grad expected to be a Tensor or None"),
        error(set_to(x, T.ones(3, dtype=T.float64)), "a gradient of size", "to a tensor of size"),
        error(set_to(x, T.ones(2))).split(":")[0],
        error(set_to(x, x), "can't assign Variable as its own grad"),
        error(set_to(x, T.ones(2, dtype=T.float64))),
        error(set_to(x, None)),
        error(set_to(T.ones(2), T.ones(2))),
        error(set_to(T.ones(2, dtype=T.int64), T.ones(2))).split(":")[0],
        error(set_to(x * 2, T.ones(2, dtype=T.float64))),
    ]


@both
def test_deleting_grad(T: Any) -> Any:
    x = leaf(T, 1.0)
    (x * 2).backward()
    del x.grad
    return [x.grad]


@both
def test_setting_requires_grad(T: Any) -> Any:
    def setting(t: Any, value: Any) -> Any:
        def run() -> Any:
            t.requires_grad = value
            return t.requires_grad

        return run

    x = leaf(T, 1.0)
    y = x * 2
    i = T.ones(2, dtype=T.int64)
    return [
        error(setting(y, False), "only change requires_grad flags of leaf variables"),
        error(setting(y, True)),
        error(setting(i, True), "floating point and complex dtype"),
        error(setting(i, False)),
        error(setting(x, False)),
        error(setting(x, True)),
        error(setting(T.ones(1, dtype=T.complex64), True)),
        error(lambda: i.requires_grad_(), "floating point"),
        error(lambda: y.requires_grad_(False), "leaf variables"),
        x.requires_grad_() is x,
        y.is_leaf,
        x.is_leaf,
        i.is_leaf,
        error(setting(x, 1)).split(":")[0],
    ]


@both
def test_requires_grad_of_a_leaf_after_use(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    x.requires_grad_(False)
    z = x * 3
    y.backward()
    return z.requires_grad, x.grad


@both
def test_data_shares_memory_but_neither_history_nor_version(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 1
    z = y * y
    y.data.add_(10)
    version = y._version
    z.backward()
    y.data = T.tensor([5.0], dtype=T.float64)
    return version, x.grad, y, y.requires_grad, x.data.requires_grad, x.data.is_leaf


@both
def test_setting_data_of_a_leaf(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = (x * x).sum()
    x.data = T.tensor([7.0, 8.0], dtype=T.float64)

    def wrong() -> None:
        x.data = 3.0

    return x, x.requires_grad, x._version, y, error(wrong).split(":")[0]


@both
def test_detach_in_place(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    kept = y + y
    result = y.detach_()
    z = y * 2
    kept.backward()
    view = (x * 1)[0]
    return [
        result is y,
        y.requires_grad,
        y.is_leaf,
        z.requires_grad,
        x.grad,
        error(lambda: view.detach_(), "Can't detach views in-place"),
        x.detach_().requires_grad,
    ]


def test_a_saved_tensor_may_be_detached_in_place_unless_its_history_is_needed() -> None:  # (PyTorch refuses both)
    x = leaf(ferro, 2.0)
    y = x * 3
    kept = y * y
    y.detach_()
    raises(lambda: ferro.autograd.grad(kept, x, create_graph=True), RuntimeError, "detached in-place", "'mul'")
    kept.backward()
    assert x.grad.tolist() == [36.0]


@both
def test_detach_shares_memory_and_version(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 1
    z = y * y
    d = y.detach()
    d.add_(1)
    return [
        y._version,
        d._version,
        d.requires_grad,
        d._is_view(),
        d.is_leaf,
        error(lambda: z.backward(), "modified by an inplace operation"),
    ]


@both
def test_deepcopy(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * 3).sum().backward()
    x.register_hook(lambda g: g * 100)
    c = copy.deepcopy(x)
    (c * 2).sum().backward()
    pair = copy.deepcopy([x, x, x.grad])
    f = T.ones(2, 3).t().requires_grad_()
    shared = T.arange(4.0)
    a, b = copy.deepcopy([shared, shared[1:]])
    b.add_(10)
    return [
        c,
        c.grad,
        x.grad,
        c.requires_grad,
        pair[0] is pair[1],
        pair[2] is pair[0].grad,
        copy.deepcopy(f).stride(),
        copy.deepcopy(T.ones(2)).requires_grad,
        a,
        error(lambda: copy.deepcopy(x * 2), "graph leaves", "deepcopy"),
        copy.copy(x).requires_grad,
    ]


@both
def test_pickling(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * 3).sum().backward()
    y = pickle.loads(pickle.dumps(x))
    shared = T.arange(4.0)
    a, b = pickle.loads(pickle.dumps([shared, shared]))
    transposed = pickle.loads(pickle.dumps(T.arange(6.0).reshape(2, 3).t()))
    with T.no_grad():
        computed = x * 2
    return (
        y,
        y.requires_grad,
        y.grad is None,
        a is b,
        transposed,
        transposed.stride(),
        pickle.loads(pickle.dumps(computed)),
    )


@both
def test_backward_with_inputs_and_create_graph(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.requires_grad))
    (y * y).backward(inputs=[x], create_graph=True)
    g = x.grad
    x.grad = None
    return g, g.requires_grad, seen, T.autograd.grad(g, x)


@both
def test_the_gradient_by_a_root_itself_frees_nothing(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    return T.autograd.grad(y, y), T.autograd.grad([y, y * 2], [y, x])


@both
def test_none_among_the_seeds(T: Any) -> Any:
    x = leaf(T, 3.0)
    y, z = x.sum(), x * x
    return T.autograd.grad([y, z], x, [None, T.full((1,), 2.0, dtype=T.float64)])


@both
def test_a_root_without_grad_among_others(T: Any) -> Any:
    x = leaf(T, 3.0)
    return error(lambda: T.autograd.grad([x.sum(), T.ones(())], x)).split(":")[0]


@both
def test_a_grad_of_another_shape_than_the_data(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.sum().backward()
    x.data = T.ones(3, dtype=T.float64)
    return error(lambda: x.sum().backward()).split(":")[0]


@both
def test_the_dtype_of_grad_after_the_data_changed_theirs(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.data = T.ones(2)
    (x * 2).sum().backward()
    return x.grad


@both
def test_a_cast_of_a_leaf_gives_a_grad_of_the_dtype_of_the_leaf(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x.float()
    y.sum().backward()
    return x.grad


@both
def test_a_grad_set_to_zero_is_filled_again(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * 2).sum().backward()
    x.grad.zero_()
    g = x.grad
    (x * 3).sum().backward()
    return x.grad, g is x.grad


@both
def test_a_grad_that_was_assigned_is_added_to_in_place(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    h = T.ones(2, dtype=T.float64)
    x.grad = h
    (x * 3).sum().backward()
    return h, x.grad is h


@both
def test_a_grad_that_is_expanded_is_refused(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.grad = T.ones(1, dtype=T.float64).expand(2)
    return error(lambda: (x * 3).sum().backward()).split(":")[0]


@both
def test_a_grad_that_requires_grad_is_added_to(T: Any) -> Any:
    x = leaf(T, 1.0)
    x.grad = leaf(T, 5.0)
    (x * 3).backward()
    return x.grad, x.grad.requires_grad


@both
def test_leaves_that_are_not_reached_have_no_grad(T: Any) -> Any:
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    (x * 2 + y.detach()).backward()
    return x.grad, y.grad


@both
def test_a_leaf_made_of_a_result_under_no_grad(T: Any) -> Any:
    with T.no_grad():
        x = leaf(T, 1.0)
        y = x * 2
        y.requires_grad_()
    (y * 3).backward()
    return x.grad, y.grad, y.is_leaf


@both
def test_attributes_of_leaves_and_results(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    return (
        x.output_nr,
        y.output_nr,
        x.is_leaf,
        y.is_leaf,
        x.grad_fn,
        x._version,
        x.retains_grad,
        y.retains_grad,
        x.requires_grad,
    )


@both
def test_history_cannot_be_assigned(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2

    def f():
        y.grad_fn = None

    def h():
        y.grad_fn = 3

    def k():
        x.is_leaf = False

    return [error(f).split(":")[0], error(h).split(":")[0], error(k).split(":")[0]]


@both
def test_deepcopy_of_a_leaf_whose_grad_has_a_history(T: Any) -> Any:
    x = leaf(T, 2.0)
    (x * x * x).backward(create_graph=True)
    out = outcome(copy.deepcopy, x)
    x.grad = None
    return out


@both
def test_pickling_a_parameter(T: Any) -> Any:
    p = T.nn.Parameter(T.ones(2))
    q = pickle.loads(pickle.dumps(p))
    return type(q).__name__, q.requires_grad, q


@both
def test_a_shallow_copy(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = copy.copy(x)
    return y.requires_grad, y


@both
def test_a_graph_reads_the_data_set_since(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    x.data = T.tensor([5.0], dtype=T.float64)
    y.backward()
    return x.grad


@both
def test_writes_through_data_are_not_noticed(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    x.data.mul_(10)
    y.backward()
    return x.grad


@both
def test_integers_as_data(T: Any) -> Any:
    x = leaf(T, 2.0)

    def f():
        x.data = T.ones(1, dtype=T.int64)

    y = T.ones(1)
    y.data = T.ones(2, dtype=T.int64)
    return outcome(f), y


@both
def test_requires_grad_switched_off_between_two_uses(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)
    y = x * w
    x.requires_grad_(False)
    z = x * w
    (y + z).backward()
    return x.grad, w.grad


@both
def test_a_leaf_detached_in_place(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    x.detach_()
    y.backward()
    return x.grad, x.requires_grad


@both
def test_a_leaf_detached_in_place_and_taken_back(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    x.detach_()
    x.requires_grad_()
    y.backward()
    return x.grad


@both
def test_the_gradient_by_a_tensor_that_was_changed_in_place(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    z = y * 2
    y.mul_(5)
    return error(lambda: T.autograd.grad(z, y), "not have been used"), T.autograd.grad(z, x)


@both
def test_a_result_is_pickled_as_a_leaf(T: Any) -> Any:
    again = pickle.loads(pickle.dumps(leaf(T, 1.0, 2.0) * 2))
    return again.requires_grad, again.is_leaf, again.tolist()


@both
def test_attributes_that_cannot_be_deleted(T: Any) -> Any:
    x = leaf(T, 1.0)
    found = []
    for name, words in (
        ("requires_grad", "requires_grad must be a bool"),
        ("_grad_fn", "Deletion of _grad_fn not allowed. Detach tensor instead!"),
        ("_backward_hooks", "Deletion of _backwards_hooks not allowed!"),
        ("data", "Deleting tensor data"),
    ):
        found.append(error(lambda name=name: delattr(x, name), words))
    before = x._backward_hooks
    x.register_hook(lambda g: g * 3)
    count = len(x._backward_hooks)
    (x * 1).backward()
    x._backward_hooks = None
    (x * 1).backward()
    return found, before, count, x.grad, x._grad_fn


@both
def test_a_leaf_that_was_set_to_other_memory_is_another_end_of_the_graph(T: Any) -> Any:
    x, w = leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
    edge = T.autograd.graph.get_gradient_edge
    before, y = edge(x), (x.clone() * w).sum()
    end = x.view_as(x).grad_fn.next_functions[0][0]
    with T.no_grad():
        x.set_(T.tensor([5.0, 6.0], dtype=T.float64))
    after, z = edge(x), (x.clone() * w).sum()
    found = [
        error(lambda: T.autograd.grad(y, x), "appears to not have been used in the graph"),
        T.autograd.grad(y, [x, w], allow_unused=True, retain_graph=True),
        T.autograd.grad(y, before, retain_graph=True),
        T.autograd.grad(y, after, allow_unused=True, retain_graph=True),
        T.autograd.grad(z, [x, w], retain_graph=True),
        T.autograd.grad(z, before, allow_unused=True, retain_graph=True),
        [before.node is end, after.node is before.node, edge(x).node is after.node],
    ]
    y.backward(inputs=[x, w], retain_graph=True)
    found.append((x.grad, w.grad))
    z.backward()
    y.backward()
    return found, x.grad, w.grad


def test_gradients_of_what_a_leaf_was_and_is_are_not_mixed() -> None:
    x = leaf(ferro, 1.0, 2.0)
    y = x.clone()
    with ferro.no_grad():
        x.set_(ferro.ones(2, dtype=ferro.float64))
    z = (y * x.clone()).sum()
    raises(lambda: ferro.autograd.grad(z, x), RuntimeError, "given other memory by set_")
