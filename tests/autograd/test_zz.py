from typing import Any
from tests.autograd.both import both, error, leaf
import warnings

@both
def test_hooks_registered_during_backward(T):
    x = leaf(T, 1.0); y = x * 2; z = y * 3
    seen = []
    z.register_hook(lambda g: y.register_hook(lambda h: seen.append(("late", h.tolist()))) and None)
    z.register_hook(lambda g: x.register_hook(lambda h: seen.append(("leaf", h.tolist()))) and None)
    z.backward()
    return seen

@both
def test_hooks_removed_during_backward(T):
    x = leaf(T, 1.0); y = x * 2; z = y * 3
    seen = []
    h1 = y.register_hook(lambda h: seen.append("y"))
    h2 = x.register_hook(lambda h: seen.append("x"))
    z.register_hook(lambda g: (h1.remove(), h2.remove()) and None)
    z.backward()
    return seen, x.grad

@both
def test_hook_registered_in_its_own_hook(T):
    x = leaf(T, 1.0)
    seen = []
    def hook(g):
        seen.append("a"); x.register_hook(lambda g: seen.append("b"))
    x.register_hook(hook)
    x.backward()
    return seen

@both
def test_node_hook_on_leaf_capture(T):
    x = leaf(T, 1.0); y = x * 2
    seen = []
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: seen.append("pre"))
    end.register_hook(lambda a, b: seen.append("post"))
    T.autograd.grad(y, x, retain_graph=True)
    first = list(seen)
    y.backward(inputs=[x])
    return first, seen, x.grad

@both
def test_prehook_of_end_replaces(T):
    x = leaf(T, 1.0); y = x * 2
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: (gs[0] * 10,))
    y.backward()
    return x.grad

@both
def test_order_at_leaf(T):
    x = leaf(T, 1.0); y = x * 2
    seen = []
    end = y.grad_fn.next_functions[0][0]
    end.register_hook(lambda a, b: seen.append("node post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("post acc"))
    end.register_prehook(lambda gs: seen.append("node pre"))
    x.register_hook(lambda g: seen.append("tensor"))
    y.backward()
    return seen

@both
def test_order_at_nonleaf(T):
    x = leaf(T, 1.0); y = x * 2
    seen = []
    y.grad_fn.register_hook(lambda a, b: seen.append("node post"))
    y.grad_fn.register_prehook(lambda gs: seen.append("node pre"))
    y.retain_grad()
    y.register_hook(lambda g: seen.append("tensor"))
    (y * 1).backward()
    return seen

@both
def test_create_graph_hook_detached_result(T):
    x = leaf(T, 3.0); y = x * x
    y.register_hook(lambda g: g.detach() * 2)
    (g,) = T.autograd.grad(y, x, create_graph=True)
    return g, g.requires_grad, T.autograd.grad(g, x)

@both
def test_hook_returning_requires_grad_without_create_graph(T):
    x, w = leaf(T, 3.0), leaf(T, 2.0)
    y = x * x
    y.register_hook(lambda g: g * w)
    y.backward()
    return x.grad, x.grad.requires_grad, w.grad

@both
def test_retain_grad_under_no_grad_and_after_backward(T):
    x = leaf(T, 3.0); y = x * x
    with T.no_grad():
        y.retain_grad()
        v = y.view(1)
    y.backward(retain_graph=True)
    y.grad = None
    y.backward()
    return y.grad, y.retains_grad, v.requires_grad

@both
def test_retain_grad_on_view(T):
    x = leaf(T, 3.0, 4.0); y = x * x; v = y[1:]
    v.retain_grad()
    y.mul_(2)
    v.sum().backward()
    return v.grad, x.grad

@both
def test_backward_inputs_with_nonleaf_retained(T):
    x = leaf(T, 3.0); y = x * 2; y.retain_grad()
    (y * y).backward(inputs=[y], retain_graph=True)
    (y * y).backward(inputs=[x, y])
    return y.grad, x.grad

@both
def test_backward_inputs_create_graph(T):
    x = leaf(T, 3.0); y = x * x
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.requires_grad))
    (y * y).backward(inputs=[x], create_graph=True)
    g = x.grad; x.grad = None
    return g, g.requires_grad, seen, T.autograd.grad(g, x)

@both
def test_grad_of_output_wrt_itself(T):
    x = leaf(T, 3.0); y = x * x
    return T.autograd.grad(y, y), T.autograd.grad([y, y * 2], [y, x])

@both
def test_grad_with_none_in_grad_outputs(T):
    x = leaf(T, 3.0)
    y, z = x.sum(), x * x
    return T.autograd.grad([y, z], x, [None, T.full((1,), 2., dtype=T.float64)])

@both
def test_root_requires_grad_false_among_grad_outputs(T):
    x = leaf(T, 3.0)
    return error(lambda: T.autograd.grad([x.sum(), T.ones(())], x)).split(":")[0]

@both
def test_accumulate_into_wrong_shape(T):
    x = leaf(T, 1., 2.)
    x.sum().backward()
    x.data = T.ones(3, dtype=T.float64)
    return error(lambda: x.sum().backward()).split(":")[0]

@both
def test_grad_dtype_after_data_change(T):
    x = leaf(T, 1., 2.)
    x.data = T.ones(2)
    (x * 2).sum().backward()
    return x.grad

@both
def test_to_leaf_grad(T):
    x = leaf(T, 1., 2.)
    y = x.float()
    y.sum().backward()
    return x.grad

@both
def test_inplace_on_grad_between(T):
    x = leaf(T, 1., 2.)
    (x * 2).sum().backward()
    x.grad.zero_()
    g = x.grad
    (x * 3).sum().backward()
    return x.grad, g is x.grad

@both
def test_grad_set_then_backward(T):
    x = leaf(T, 1., 2.)
    h = T.ones(2, dtype=T.float64)
    x.grad = h
    (x * 3).sum().backward()
    return h, x.grad is h

@both
def test_grad_setter_expanded(T):
    x = leaf(T, 1., 2.)
    x.grad = T.ones(1, dtype=T.float64).expand(2)
    return error(lambda: (x * 3).sum().backward()).split(":")[0]

@both
def test_grad_setter_none_types(T):
    x = leaf(T, 1.)
    x.grad = leaf(T, 5.)
    (x * 3).backward()
    return x.grad, x.grad.requires_grad

@both
def test_engine_in_hook_same_graph(T):
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
def test_backward_in_hook_on_running_graph(T):
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
def test_function_double_use(T):
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x): ctx.save_for_backward(x); return x * x
        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            with T.enable_grad():
                y = x.detach().requires_grad_()
                (y * y).backward(g)
            return y.grad
    x = leaf(T, 2.0)
    F.apply(F.apply(x)).backward()
    return x.grad

@both
def test_grad_none_vs_zero(T):
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    (x * 2 + y.detach()).backward()
    return x.grad, y.grad

@both
def test_inference_and_nograd_leaf(T):
    with T.no_grad():
        x = leaf(T, 1.0)
        y = x * 2
        y.requires_grad_()
    (y * 3).backward()
    return x.grad, y.grad, y.is_leaf

@both
def test_handles(T):
    x = leaf(T, 1.0)
    h = x.register_hook(lambda g: None)
    h2 = x.register_hook(lambda g: None)
    return isinstance(h.id, int), h.id != h2.id, hasattr(h, "remove")

@both
def test_next_functions_after_inplace_view(T):
    x = leaf(T, 1.0, 2.0); y = x * 2
    y[:1].mul_(3)
    n = y.grad_fn
    return n.name(), [type(a).__name__ if a is None else a.name().split("::")[-1] for a, _ in n.next_functions][:1]

@both
def test_tensor_attrs(T):
    x = leaf(T, 1.0); y = x * 2
    return x.output_nr, y.output_nr, x.is_leaf, y.is_leaf, x.grad_fn, x._version, x.retains_grad, y.retains_grad, x.requires_grad

@both
def test_setting_grad_fn(T):
    x = leaf(T, 1.0); y = x * 2
    def f(): y.grad_fn = None
    def h(): y.grad_fn = 3
    def k(): x.is_leaf = False
    return [error(f).split(":")[0], error(h).split(":")[0], error(k).split(":")[0]]

@both
def test_backward_hooks_attr(T):
    x = leaf(T, 1.0)
    a = x._backward_hooks
    x.register_hook(lambda g: None)
    return a is None, len(x._backward_hooks)
