"""Nodes of the tape: names, edges, what they save, and what may be hung on them."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from tests.autograd.both import both, error, leaf


@both
def test_names_and_edges(T: Any) -> Any:
    x, w = leaf(T, 2.0, 3.0), leaf(T, 1.0, 4.0)
    y = (x * w).exp().sum()
    found = []

    def walk(node: Any, depth: int) -> None:
        found.append((depth, node, [n for _, n in node.next_functions]))
        for child, _ in node.next_functions:
            if child is not None:
                walk(child, depth + 1)

    walk(y.grad_fn, 0)
    return found


@both
def test_absent_edges(T: Any) -> Any:
    x, c = leaf(T, 2.0), T.ones(1, dtype=T.float64)
    return [
        (c * x).grad_fn.next_functions[0],
        (x * c).grad_fn.next_functions[1],
        len((x + c).grad_fn.next_functions),
        len(T.cat([x, c, x]).grad_fn.next_functions),
        [n is None for n, _ in T.cat([x, c, x]).grad_fn.next_functions],
        len((x.exp()).grad_fn.next_functions),
    ]


@both
def test_the_end_of_the_tape(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 2
    z = x * 3
    (end, number), _ = y.grad_fn.next_functions
    return [
        type(end).__name__,
        number,
        end.variable is x,
        end.next_functions,
        end is z.grad_fn.next_functions[0][0],
        end._sequence_nr() == 2**64 - 1,
        x.grad_fn is None,
        isinstance(end, T.autograd.graph.Node),
    ]


@both
def test_is_instance_of_node(T: Any) -> Any:
    class Own(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(T, 2.0)
    Node = T.autograd.graph.Node
    y = Own.apply(x)
    return [
        isinstance((x * 2).grad_fn, Node),
        isinstance(y.grad_fn, Node),
        isinstance(x, Node),
        isinstance(3, Node),
        issubclass(type(y.grad_fn), Node),
        y.grad_fn,
        y.grad_fn.name(),
        y.grad_fn.next_functions[0][1],
    ]


@both
def test_grad_fn_is_one_object_for_one_tensor(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 2
    a, b = x.unbind(0)
    before = y.grad_fn
    y.add_(1)
    return (
        y.grad_fn is y.grad_fn,
        a.grad_fn is b.grad_fn,
        a.output_nr,
        b.output_nr,
        before is y.grad_fn,
        y.grad_fn.next_functions[0][0] is before,
    )


@both
def test_metadata_stays_with_the_node(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    node = y.grad_fn
    node.metadata["note"] = [1, 2]
    node.next_functions[0][0].metadata["end"] = 3
    end = y.grad_fn.next_functions[0][0]
    return y.grad_fn.metadata, (y * 1).grad_fn.metadata, isinstance(end.metadata, dict)


@both
def test_sequence_numbers_grow(T: Any) -> Any:
    x = leaf(T, 1.0)
    a = x * 2
    b = x * 3
    c = a * b
    return a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr() < c.grad_fn._sequence_nr()


@both
def test_input_metadata(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    y = (x * 2).float().reshape(3, 1)
    a, _ = x.split([1, 2])

    def of(node: Any) -> Any:
        return [(list(m.shape), m.dtype, str(m.device)) for m in node._input_metadata]

    return of(y.grad_fn), of(a.grad_fn), of(x.mul(1).grad_fn.next_functions[0][0]), y.grad_fn.requires_grad


# -- what is saved -----------------------------------------------------------------------------------------------------


@both
def test_saved_inputs_and_results(T: Any) -> Any:
    x, w = leaf(T, 2.0, 3.0), leaf(T, 5.0, 7.0)
    y = x * w
    e = x.exp()
    q = x / w
    p = x**3
    t = x**w
    m = x.reshape(1, 2) @ w.reshape(2, 1)
    s = T.softmax(x, 0)
    n = x.tanh()
    return [
        y.grad_fn._saved_self is x,
        y.grad_fn._saved_other is w,
        e.grad_fn._saved_result,
        e.grad_fn._saved_result is e,
        e.grad_fn._saved_result.grad_fn is e.grad_fn,
        q.grad_fn._saved_other,
        p.grad_fn._saved_self,
        p.grad_fn._saved_exponent,
        t.grad_fn._saved_self,
        t.grad_fn._saved_exponent,
        t.grad_fn._saved_result,
        m.grad_fn._saved_self,
        m.grad_fn._saved_mat2,
        s.grad_fn._saved_result,
        n.grad_fn._saved_result,
        (x * 3).grad_fn._saved_other.item() == 3,
        x.sin().grad_fn._saved_self is x,
    ]


@both
def test_a_saved_result_counts_its_changes_with_the_result(T: Any) -> Any:
    found = []
    for seen_before in (False, True):
        x = leaf(T, 0.5, 1.0)
        y, pair = x.exp(), T.linalg.qr(x.reshape(2, 1) * leaf(T, 1.0, 2.0))
        if seen_before:
            y.detach(), pair[0].detach()
        saved = y.grad_fn._saved_result
        with T.no_grad():
            y.add_(1)
        found += [saved, saved._version, y._version, y.grad_fn is saved.grad_fn]
        with T.no_grad():
            saved.mul_(2)
            pair[0].grad_fn._saved_Q.add_(1)
        found += [
            y.detach(),
            y._version,
            error(lambda y=y: y.sum().backward(), "modified by an inplace operation"),
            error(lambda q=pair[0]: q.sum().backward(), "modified by an inplace operation"),
        ]
    return found


@both
def test_a_second_backward_sees_changes_of_a_result_that_the_first_one_used(T: Any) -> Any:
    found = []
    for seen_before in (False, True):
        x, w = leaf(T, 0.5, 1.0), leaf(T, 1.0, 3.0)
        y = x.exp()
        if seen_before:
            y.detach()
        (g,) = T.autograd.grad(y, x, w, create_graph=True)  # g = w y
        with T.no_grad():
            y.mul_(2)
        found.append(error(lambda g=g, w=w: T.autograd.grad(g.sum(), w), "modified by an inplace operation"))
    return found


@both
def test_only_what_is_needed_is_saved(T: Any) -> Any:
    x, c = leaf(T, 2.0), T.ones(1, dtype=T.float64)
    y = x * c
    return [
        y.grad_fn._saved_other is c,
        error(lambda: (x + c).grad_fn._saved_self).split(":")[0],
        error(lambda: x.exp().grad_fn._saved_nonsense).split(":")[0],
        error(lambda: y.grad_fn._raw_saved_nonsense).split(":")[0],
        [n for n in dir(x.exp().grad_fn) if n.startswith(("_saved", "_raw"))],
    ]


@both
def test_saved_values_after_they_are_freed(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x.exp()
    node = y.grad_fn
    y.backward()
    raw = x.exp().grad_fn
    handle = raw._raw_saved_result
    return [
        error(lambda: node._saved_result, "after they have already been freed"),
        error(lambda: node._raw_saved_result.register_hooks(lambda t: t, lambda t: t), "register_hooks", "freed"),
        type(handle).__name__,
    ]


@both
def test_saved_values_after_an_inplace_change(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 1
    z = y.sin()
    e = x.exp()
    before = z.grad_fn._saved_self
    y.add_(1)
    e.add_(1)
    return [
        before,
        error(lambda: z.grad_fn._saved_self, "modified by an inplace operation"),
        e.grad_fn.next_functions[0][0],
        error(lambda: e.grad_fn.next_functions[0][0]._saved_result, "modified by an inplace operation"),
    ]


@both
def test_saved_parameters(T: Any) -> Any:
    x = T.ones(2, 3, requires_grad=True)
    return [
        x.sum(1).grad_fn._saved_dim,
        x.sum(1).grad_fn._saved_keepdim,
        x.transpose(0, 1).grad_fn._saved_dim0,
        x.transpose(0, 1).grad_fn._saved_dim1,
        list(x.sum(1).grad_fn._saved_self_sym_sizes),
        T.softmax(x, 1).grad_fn._saved_dim,
        float(x.clamp(min=0.5).grad_fn._saved_min),
    ]


@both
def test_hooks_on_one_saved_tensor(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)
    seen: list = []

    def pack(t: Any) -> Any:
        seen.append(("pack", t.tolist()))
        return t.tolist()

    def unpack(v: Any) -> Any:
        seen.append(("unpack", v))
        return T.tensor(v, dtype=T.float64) * 100

    y = x * w
    y.grad_fn._raw_saved_self.register_hooks(pack, unpack)
    e = x.exp()
    e.grad_fn._raw_saved_result.register_hooks(pack, unpack)
    saved = y.grad_fn._saved_self
    (y + e * 0).backward()
    return seen, saved, x.grad, w.grad


@both
def test_what_hooks_on_a_saved_tensor_refuse(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)
    y = x * w
    raw = y.grad_fn._raw_saved_self
    same = lambda t: t  # noqa: E731
    raw.register_hooks(same, same)

    def breaks(t: Any) -> Any:
        raise ZeroDivisionError("pack")

    return [
        error(lambda: raw.register_hooks(same, same), "hooks have already been set"),
        error(lambda: y.grad_fn._raw_saved_other.register_hooks(same, 3)).split(":")[0],
        error(lambda: (x * w).grad_fn._raw_saved_other.register_hooks(breaks, same), "pack"),
        error(
            lambda: (x * w).grad_fn._raw_saved_other.register_hooks(lambda t: t.detach().add_(1), same), "modif", "in"
        ),
    ]


@both
def test_unpack_hooks_that_misbehave(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)

    def run(unpack: Any) -> Any:
        y = x * w
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, unpack)
        return T.autograd.grad(y, [w])

    def breaks(t: Any) -> Any:
        raise ZeroDivisionError("unpack")

    return [
        error(lambda: run(lambda t: 3.0)).split(":")[0],
        error(lambda: run(breaks), "unpack"),
        run(lambda t: t * 2),
    ]


@both
def test_hooks_on_saved_tensors_keep_second_derivatives(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.detach() * 1, lambda t: t)
    y.grad_fn._raw_saved_other.register_hooks(lambda t: t.detach() * 1, lambda t: t)
    z = y.exp()
    z.grad_fn._raw_saved_result.register_hooks(lambda t: t.detach() * 1, lambda t: t)
    (g,) = T.autograd.grad(z, x, create_graph=True)
    return g, T.autograd.grad(g, x)


@both
def test_saved_tensors_of_a_function_node(T: Any) -> Any:
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

    x = leaf(T, 2.0)
    y = Cube.apply(x)
    node = y.grad_fn
    seen: list = []
    found = [node.saved_tensors[0] is x, node.saved_tensors[1], len(node._raw_saved_tensors)]
    node._raw_saved_tensors[0].register_hooks(lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t)
    found.append(error(lambda: node._raw_saved_tensors[1].register_hooks(lambda t: t, lambda t: t), "None"))
    y.backward()
    found.append(error(lambda: node.saved_tensors, "second time"))
    found.append(error(lambda: node._raw_saved_tensors).split(":")[0])
    return found, seen, x.grad


# -- versions ----------------------------------------------------------------------------------------------------------


@both
def test_increment_version(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 1
    z = y * y
    a, b = T.ones(1), T.ones(2)
    T.autograd.graph.increment_version(y)
    T.autograd.graph.increment_version([a, b, b[:1]])
    return y._version, a._version, b._version, error(lambda: z.backward(), "modified by an inplace operation")


@both
def test_a_chain_of_nodes_dies_with_its_tensor(T: Any) -> Any:
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = leaf(T, 2.0)
        y = x.exp()
        z = y * y
        watch = weakref.ref(y)
        del y
        node = z.grad_fn if T is ferro else None
        held = weakref.ref(node) if node is not None else None
        del z, node
        return watch() is None, held is None or held() is None
    finally:
        gc.enable()


@both
def test_the_name_of_a_write_through_a_view(T: Any) -> Any:
    y = leaf(T, 1.0, 2.0) * 2
    y[:1].mul_(3)
    return y.grad_fn, y.grad_fn.next_functions[0][0], len(y.grad_fn.next_functions)


def test_the_class_of_a_node_has_its_name() -> None:
    x = ferro.ones(4, requires_grad=True)
    a, b = (x * 2).chunk(2)
    y = a.exp() * b
    assert type(y.grad_fn).__name__ == "MulBackward0"
    assert [type(n).__name__ for n, _ in y.grad_fn.next_functions] == ["ExpBackward0", "SplitBackward0"]
    assert y.grad_fn is y.grad_fn
    assert isinstance(y.grad_fn, ferro.autograd.graph.Node)
    assert type(x.exp().grad_fn) is type(a.exp().grad_fn)
    y.sum().backward()  # nodes that were looked at run as all others
    assert x.grad.tolist() == pytest.approx([2 * 2 * 7.389056] * 2 + [2 * 7.389056] * 2)


def test_an_unused_edge_cannot_be_materialized() -> None:
    x = ferro.ones(2, requires_grad=True)
    used, unused = x.clone(), x.clone()
    edge = ferro.autograd.graph.get_gradient_edge
    found = ferro.autograd.grad(used.sum(), [edge(used), unused], materialize_grads=True, retain_graph=True)
    assert [g.tolist() for g in found] == [[1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        ferro.autograd.grad(used.sum(), [used, edge(unused)], materialize_grads=True)


def test_saved_tensors_are_not_made_by_hand() -> None:
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        ferro.autograd.SavedTensor()


def test_multithreading_can_be_asked_for() -> None:
    assert ferro.autograd.is_multithreading_enabled()
    with ferro.autograd.set_multithreading_enabled(False):
        assert not ferro.autograd.is_multithreading_enabled()
    assert ferro.autograd.is_multithreading_enabled()


@both
def test_a_node_can_be_called(T: Any) -> Any:
    x = leaf(T, 2.0, 3.0)
    one, detached = T.ones(2, dtype=T.float64), x.detach()
    power, joined, part = x**2, x * x.exp(), x.unbind()[0]
    end = power.grad_fn.next_functions[0][0]
    with T.no_grad():
        plain = power.grad_fn(one)
    return [
        power.grad_fn(one).detach(),
        power.grad_fn(one).requires_grad,
        plain,
        plain.requires_grad,
        [g.detach() for g in joined.grad_fn(one)],
        power.grad_fn(None),
        part.grad_fn(T.ones((), dtype=T.float64), None),
        end(one),
        x.grad,
        error(lambda: power.grad_fn(detached, detached), "expected 1 arguments, got 2"),
        error(lambda: power.grad_fn(), "expected 1 arguments, got 0"),
        error(lambda: power.grad_fn(3), "argument 0 is not a Variable"),
    ]


def test_a_node_called_with_the_wrong_number_of_gradients() -> None:
    y = ferro.ones(1, requires_grad=True) ** 2
    with pytest.raises(TypeError, match="PowBackward0: expected 1 arguments, got 2 instead"):
        y.grad_fn(y.detach(), y.detach())
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.grad_fn(ferro.ones(1))


def test_hundreds_of_backwards_inside_each_other() -> None:
    class Deep(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with ferro.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.x >= 0:
                with ferro.enable_grad():
                    Deep.apply(ctx.x).sum().backward()
            return g * 2

    x = ferro.tensor(300.0, requires_grad=True)
    Deep.apply(x).backward()
    assert x.grad == 2


def test_an_error_in_a_backward_inside_of_many_others() -> None:
    class Deep(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if not ctx.depth:
                raise ValueError("at the bottom")
            with ferro.enable_grad():
                Deep.apply(ferro.ones(1, requires_grad=True), ctx.depth - 1).backward()
            return g, None

    with pytest.raises(ValueError, match="at the bottom"):
        Deep.apply(ferro.ones(1, requires_grad=True), 100).backward()


def test_backward_to_an_edge_calls_its_hooks() -> None:
    x = ferro.ones(2, requires_grad=True)
    y = x * 2
    seen: list = []
    y.register_hook(seen.append)
    ferro.autograd.backward((y * 3).sum(), inputs=[ferro.autograd.graph.get_gradient_edge(y)])
    assert [g.tolist() for g in seen] == [[3.0, 3.0]]
    assert x.grad is None


def test_a_recorded_backward_warns_of_the_cycle() -> None:
    x = ferro.ones(2, requires_grad=True)
    before = ferro.is_warn_always_enabled()
    ferro.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="Using backward.* with create_graph=True will create a reference cycle"):
            (x * x).sum().backward(create_graph=True)
        ferro.autograd.grad((x * x).sum(), x, create_graph=True)  # no warning: nothing is kept
    finally:
        ferro.set_warn_always(before)
        x.grad = None


@both
def test_attributes_that_cannot_be_deleted(T: Any) -> Any:
    x = leaf(T, 1.0)

    def without(name: str) -> Any:
        return error(lambda: delattr(x, name), "")

    return without("requires_grad"), without("_grad_fn"), without("data"), x._grad_fn
