"""backward() and grad() in every form, and the gradients they leave; as in PyTorch."""

from __future__ import annotations

from typing import Any

import ferro
from tests.autograd.both import both, error, leaf, raises

# -- roots and seeds ---------------------------------------------------------------------------------------------------


@both
def test_several_roots_add_up(T: Any) -> Any:
    x, y = leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
    a, b = (x * y).sum(), x.exp()
    T.autograd.backward([a, b], [None, T.ones(2, dtype=T.float64)])
    return x.grad, y.grad


@both
def test_one_root_given_twice_counts_twice(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = (x * x).sum()
    T.autograd.backward([y, y])
    (g,) = T.autograd.grad([x.sum(), x.sum()], x)
    return x.grad, g


@both
def test_a_root_that_leads_to_another_root(T: Any) -> Any:
    x = leaf(T, 3.0)
    y = x * x
    z = y * y
    T.autograd.backward([y, z], [T.full((1,), 10.0, dtype=T.float64), T.ones(1, dtype=T.float64)])
    return x.grad


@both
def test_a_leaf_as_root(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.backward(T.tensor([5.0, 6.0], dtype=T.float64))
    x.sum().backward()
    (g,) = T.autograd.grad(x, x, T.tensor([5.0, 6.0], dtype=T.float64))
    return x.grad, g


@both
def test_scalar_seeds_of_shape_one_and_zero(T: Any) -> Any:
    x = leaf(T, 3.0)
    x.mul(2).backward()
    first = x.grad.clone()
    x.sum().backward(T.tensor(4.0, dtype=T.float64))
    return first, x.grad


@both
def test_seeds_of_another_shape_are_refused_even_if_they_broadcast(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    y = x * 2
    return [
        error(lambda: y.backward(T.tensor(1.0, dtype=T.float64)), "Mismatch in shape: grad_output[0]", "output[0]"),
        error(lambda: y.backward(T.ones(1, dtype=T.float64)), "Mismatch in shape"),
        error(lambda: y.backward(T.ones(2, 2, dtype=T.float64)), "Mismatch in shape"),
        error(lambda: T.autograd.grad(y, x, T.ones(3)), "Mismatch in shape"),
        error(lambda: y.sum().backward(T.ones(1, dtype=T.float64)), "Mismatch in shape"),
        x.grad,
    ]


@both
def test_seeds_of_another_dtype(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    out = []
    for dtype in (T.float32, T.float16, T.int64, T.bool):
        (g,) = T.autograd.grad(x * 2, x, T.ones(2, dtype=dtype))
        out.append(g)
    out.append(error(lambda: T.autograd.grad(x * 2, x, T.ones(2, dtype=T.complex128)), "complex", "dtype"))
    z = T.tensor([1 + 1j], requires_grad=True)
    out.append(error(lambda: T.autograd.grad(z * 2, z, T.ones(1)), "complex", "dtype"))
    out.append(error(lambda: (z * 2).backward(), "implicitly created only for real scalar outputs"))
    return out


@both
def test_numbers_of_roots_and_seeds(T: Any) -> Any:
    x = leaf(T, 1.0)
    y = x * 2
    one = T.ones(1, dtype=T.float64)
    return [
        error(lambda: T.autograd.backward([y, y], [one]), "got 2 tensors and 1 gradients"),
        error(lambda: T.autograd.backward([y], [3.0]), "gradients can be either Tensors", "None"),
        error(lambda: T.autograd.backward([], [])),
        error(
            lambda: T.autograd.grad([], [x]),
        ),
        x.grad,
    ]


@both
def test_roots_without_grad(T: Any) -> Any:
    x = leaf(T, 1.0)
    plain = T.ones(1, dtype=T.float64)
    return [
        error(lambda: plain.backward(), "element 0 of tensors does not require grad and does not have a grad_fn"),
        error(lambda: T.autograd.backward([x.sum(), plain]), "element 1 of tensors does not require grad"),
        error(lambda: T.autograd.grad(x.detach().sum(), x), "element 0 of tensors does not require grad"),
        error(lambda: T.autograd.grad(x.sum(), plain), "One of the differentiated Tensors does not require grad"),
        error(lambda: T.autograd.backward(x.sum(), inputs=[plain])).split(":")[0],
        x.grad,
    ]


@both
def test_a_seed_that_requires_grad(T: Any) -> Any:
    x, v = leaf(T, 2.0, 3.0), leaf(T, 1.0, 1.0)
    (g,) = T.autograd.grad(x * x, x, v, create_graph=True)
    (gv,) = T.autograd.grad(g.sum(), v)
    (plain,) = T.autograd.grad(x * x, x, v)
    return g, gv, plain, plain.requires_grad, g.requires_grad


@both
def test_the_old_name_grad_variables(T: Any) -> Any:
    import warnings

    x = leaf(T, 2.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        T.autograd.backward(x * 2, grad_variables=T.full((1,), 3.0, dtype=T.float64))
    both_given = error(
        lambda: T.autograd.backward(x * 2, T.ones(1), grad_variables=T.ones(1)), "grad_tensors", "grad_variables"
    )
    return x.grad, [w.category.__name__ for w in caught], both_given


# -- inputs= -----------------------------------------------------------------------------------------------------------


@both
def test_backward_with_inputs(T: Any) -> Any:
    x, y = leaf(T, 2.0), leaf(T, 3.0)
    z = x * y
    w = z * x
    w.backward(inputs=[z, y], retain_graph=True)
    out = [x.grad, y.grad, z.grad]
    w.backward(inputs=x, retain_graph=True)
    out += [x.grad, y.grad]
    out.append(error(lambda: w.backward(inputs=[]), "cannot be empty"))
    w.backward(inputs=[x, x])
    return [*out, x.grad]


@both
def test_backward_with_an_input_that_is_not_used(T: Any) -> Any:
    x, y = leaf(T, 2.0), leaf(T, 3.0)
    (x * 2).backward(inputs=[x, y])
    return x.grad, y.grad


@both
def test_an_input_behind_another_input(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * 3
    z = y * y
    found = T.autograd.grad(z, [y, x, z])
    y2 = x * 3
    (y2 * y2).backward(inputs=[y2, x])
    return found, y2.grad, x.grad


@both
def test_inputs_given_twice_and_as_a_single_tensor(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    return T.autograd.grad(y, [x, x], retain_graph=True), T.autograd.grad(y, x)


@both
def test_backward_accumulates_into_non_leaf_inputs(T: Any) -> Any:
    import warnings

    x = leaf(T, 2.0)
    y = x * 3
    for _ in range(2):
        (y * y).backward(inputs=[y], retain_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return y.grad, x.grad


@both
def test_unused_materialized_and_allowed(T: Any) -> Any:
    x, y = leaf(T, 2.0), leaf(T, 3.0, 4.0)
    return [
        error(lambda: T.autograd.grad((x * 2).sum(), [x, y]), "not have been used", "allow_unused=True"),
        error(lambda: T.autograd.grad((x * 2).sum(), [x, y], allow_unused=False), "not have been used"),
        T.autograd.grad((x * 2).sum(), [x, y], allow_unused=True),
        T.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True),
        T.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True, create_graph=True)[1].requires_grad,
        error(
            lambda: T.autograd.grad(x.sum(), [x], allow_unused=False, materialize_grads=True), "materialize_grads=True"
        ),
    ]


@both
def test_only_inputs_is_deprecated(T: Any) -> Any:
    import warnings

    x = leaf(T, 2.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (g,) = T.autograd.grad(x * 2, x, only_inputs=False)
    return g, [w.category.__name__ for w in caught]


@both
def test_inputs_of_wrong_type(T: Any) -> Any:
    x = leaf(T, 2.0)
    return [
        error(lambda: T.autograd.grad(x * 2, [3.0])).split(":")[0],
        error(lambda: T.autograd.grad(3.0, [x])).split(":")[0],
        error(lambda: T.autograd.grad(x * 2, [None])).split(":")[0],
        error(lambda: T.autograd.grad(x * 2, [])),
    ]


# -- is_grads_batched --------------------------------------------------------------------------------------------------


@both
def test_batched_seeds(T: Any) -> Any:
    x, y = leaf(T, 2.0, 3.0), leaf(T, 1.0)
    z = x * x * y
    v = T.eye(2, dtype=T.float64)
    return [
        T.autograd.grad(z, [x, y], v, is_grads_batched=True, retain_graph=True),
        T.autograd.grad([z, z * 2], [x], [v, v], is_grads_batched=True, retain_graph=True),
        T.autograd.grad(z, [x, leaf(T, 1.0)], v, is_grads_batched=True, retain_graph=True, allow_unused=True),
        error(lambda: T.autograd.grad(z, x, v[0], is_grads_batched=True), "is_grads_batched=True", "shape"),
        error(lambda: T.autograd.grad(z, x, T.ones(3, 3), is_grads_batched=True), "shape"),
        x.grad,
    ]


@both
def test_batched_seeds_with_create_graph(T: Any) -> Any:
    x = leaf(T, 2.0, 3.0)
    z = x * x * x
    (g,) = T.autograd.grad(z, x, T.eye(2, dtype=T.float64), is_grads_batched=True, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return g, h


def test_batched_zeros_have_the_batch_dimension() -> None:  # (in PyTorch they have not)
    x, y = leaf(ferro, 2.0, 3.0), leaf(ferro, 1.0, 2.0, 3.0)
    v = ferro.eye(2, dtype=ferro.float64)
    a, b = ferro.autograd.grad(x * 2, [x, y], v, is_grads_batched=True, materialize_grads=True)
    assert a.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert b.tolist() == [[0.0] * 3] * 2


def test_batched_seeds_that_make_no_sense() -> None:
    x = leaf(ferro, 2.0, 3.0)
    grad = ferro.autograd.grad
    raises(
        lambda: grad([x * 2, x * 3], x, [ferro.eye(2), ferro.ones(3, 2)], is_grads_batched=True),
        RuntimeError,
        "one batch size",
    )
    raises(lambda: grad((x * 2).sum(), x, is_grads_batched=True), RuntimeError, "no grad_outputs")


# -- keeping and freeing the graph -------------------------------------------------------------------------------------


@both
def test_retain_graph_defaults_to_create_graph(T: Any) -> Any:
    x = leaf(T, 2.0)
    y = x * x
    T.autograd.grad(y, x, create_graph=True)
    T.autograd.grad(y, x, retain_graph=True)
    (g,) = T.autograd.grad(y, x, create_graph=True, retain_graph=False)
    return g, error(lambda: T.autograd.grad(y, x), "second time")


@both
def test_only_the_part_that_ran_is_freed(T: Any) -> Any:
    x, w = leaf(T, 2.0), leaf(T, 3.0)
    a, b = x * x, w * w
    z = a * b
    T.autograd.grad(z, [x])  # runs z and a
    return [
        T.autograd.grad(b, w),
        error(lambda: T.autograd.grad(a, x), "second time"),
        error(lambda: T.autograd.grad(z, w), "second time"),
    ]


@both
def test_create_graph_leaves_gradients_with_history(T: Any) -> Any:
    x = leaf(T, 2.0)
    (x**3).backward(create_graph=True)
    g = x.grad
    x.grad = None
    had = g.requires_grad
    g.backward()
    return had, x.grad, x.grad.requires_grad


# -- accumulation into .grad -------------------------------------------------------------------------------------------


@both
def test_accumulation_is_in_place_except_when_recorded(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * x).sum().backward()
    g = x.grad
    (x * x).sum().backward()
    same = x.grad is g, g.tolist()
    (x * x).sum().backward(create_graph=True)
    recorded = x.grad is g, g.tolist(), x.grad.detach().tolist()
    x.grad = None
    return same, recorded


@both
def test_accumulation_bumps_the_version_of_grad(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    (x * 2).sum().backward()
    v = x.grad._version
    (x * 2).sum().backward()
    return v, x.grad._version


@both
def test_accumulation_into_a_grad_with_history(T: Any) -> Any:
    x, s = leaf(T, 2.0), leaf(T, 5.0)
    x.grad = s * 3
    (x * 4).backward(create_graph=True)
    total = x.grad
    x.grad = None
    (gs,) = T.autograd.grad(total, s)
    x.grad = s * 3
    (x * 4).backward()
    return total, gs, x.grad, x.grad.requires_grad


@both
def test_accumulation_into_a_grad_that_is_a_view_or_shared(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    flat = T.zeros(4, dtype=T.float64)
    x.grad = flat[1:3]
    (x * 3).sum().backward()
    return flat, x.grad


@both
def test_a_saved_grad_is_protected_from_accumulation(T: Any) -> Any:
    x, w = leaf(T, 1.0), leaf(T, 2.0)
    (x * 2).backward()
    y = x.grad * w
    (x * 2).backward()
    return error(lambda: y.backward(), "modified by an inplace operation")


@both
def test_accumulation_with_expanded_gradients(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    x.sum().backward()
    stride = x.grad.stride()
    x.grad[0] = 7.0
    return stride, x.grad


@both
def test_the_layout_of_a_new_grad_follows_the_leaf(T: Any) -> Any:
    found = []
    for make in (lambda: T.ones(3, 4).t(), lambda: T.ones(2, 3, 4).permute(2, 0, 1), lambda: T.ones(3, 4)[:, ::2]):
        x = make().requires_grad_()
        (x * 2).sum().backward()
        found.append(x.grad.stride())
        x.grad = None
        (x * 2).contiguous().sum().backward()
        found.append(x.grad.stride())
        x.grad = None
        x.contiguous().mul(2).sum().backward()
        found.append(x.grad.stride())
        x.grad = None
    return found


@both
def test_a_grad_never_shares_memory_with_the_seed(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    seed = T.ones(2, dtype=T.float64)
    x.backward(seed)
    x.grad.mul_(10)
    (g,) = T.autograd.grad(x * 1, x, seed)
    g.mul_(100)
    return seed, x.grad, g


@both
def test_two_leaves_do_not_share_a_grad(T: Any) -> Any:
    x, y = leaf(T, 1.0), leaf(T, 2.0)
    (x + y).backward()
    x.grad.mul_(10)
    return x.grad, y.grad


@both
def test_dtype_of_gradients_follows_the_leaf(T: Any) -> Any:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    h = T.tensor([1.0, 2.0], dtype=T.float16, requires_grad=True)
    d = leaf(T, 1.0, 2.0)
    (x * h * d).sum().backward()
    z = T.tensor([1.0, 2.0], requires_grad=True)
    (z * T.tensor([1j, 2 + 1j])).abs().sum().backward()
    return x.grad, h.grad, d.grad, z.grad


@both
def test_grads_of_non_leaves(T: Any) -> Any:
    import warnings

    x = leaf(T, 2.0)
    y = x * 3
    (y * y).backward(retain_graph=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        missing = y.grad
    y.retain_grad()
    (y * y).backward()
    with warnings.catch_warnings(record=True) as silent:
        warnings.simplefilter("always")
        kept = y.grad
        x.detach().grad, x.grad
    return (
        missing,
        [w.category.__name__ for w in caught],
        ["non-leaf" in str(w.message) for w in caught],
        kept,
        len(silent),
    )


@both
def test_unused_outputs_of_operations_with_several(T: Any) -> Any:
    x = T.tensor([[3.0, 1.0], [0.0, 2.0]], requires_grad=True)
    found = []
    values, _ = x.sort()
    found.append(T.autograd.grad(values[0].sum(), x))
    a, _ = x.split(1)
    found.append(T.autograd.grad(a.sum(), x))
    _, b = x.unbind(1)
    found.append(T.autograd.grad(b.sum(), x))
    var, mean = T.var_mean(x)
    found.append(T.autograd.grad(mean, x, retain_graph=True))
    found.append(T.autograd.grad(var, x))
    return found


@both
def test_integer_and_undefined_outputs_as_roots(T: Any) -> Any:
    x = T.tensor([3.0, 1.0], requires_grad=True)
    _, index = x.sort()
    return error(lambda: index.sum().backward(), "does not require grad"), index.requires_grad, index.grad_fn is None


@both
def test_empty_tensors_as_roots(T: Any) -> Any:
    x = T.zeros(0, 3, requires_grad=True)
    x.sum().backward()
    first = x.grad
    x.grad = None
    (x * 2).backward(T.ones(0, 3))
    return first, x.grad, error(lambda: (x * 2).backward(), "only for scalar outputs")
