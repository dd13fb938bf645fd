"""Saved-tensor hooks: order, errors, what hooks see, disabling, save_on_cpu, and allow_mutation_on_saved_tensors."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import ferro
from tests.autograd.both import account, both, error, leaf


def same(t: Any) -> Any:
    return t


def hooks(T: Any, pack: Any = same, unpack: Any = same) -> Any:
    return T.autograd.graph.saved_tensors_hooks(pack, unpack)


def logged(log: list, name: str) -> Any:
    return lambda t: (log.append(name), t)[1]


@both
def test_what_hooks_give_back_may_have_been_changed_before_or_since(T: Any) -> Any:
    x, w = T.ones(2, dtype=T.float64).add_(1), leaf(T, 1.0, 2.0)
    with hooks(T):
        y, z = w * x, T.stack([w * 1, x]).prod(0)
    kept = w * x
    x.add_(1)
    (second,) = T.autograd.grad(y.sum(), w, create_graph=True)
    y.sum().backward()
    z.sum().backward()
    return w.grad, second, error(kept.sum().backward, "modified by an inplace")


@both
def test_the_innermost_hooks_apply(T: Any) -> Any:
    log: list = []
    x = leaf(T, 1.0, 2.0)
    with hooks(T, logged(log, "pack 1"), logged(log, "unpack 1")):
        with hooks(T, logged(log, "pack 2"), logged(log, "unpack 2")):
            y = x * x
        z = y * y
    z.sum().backward()
    return log, x.grad


@both
def test_which_values_are_packed(T: Any) -> Any:
    found = []
    x, w = leaf(T, 1.0, 2.0), T.ones(2, 2, dtype=T.float64, requires_grad=True)
    for f in (
        lambda: x + 1,
        lambda: x.sum(),
        lambda: x.exp(),
        lambda: x.relu(),
        lambda: x * 3,
        lambda: 2 - x,
        lambda: x / 2,
        lambda: w @ w,
        lambda: T.nn.functional.linear(w, w, x),
        lambda: x.detach() * x.detach(),
        lambda: x * x.detach(),
    ):
        shapes: list = []
        with hooks(T, lambda t, shapes=shapes: (shapes.append(list(t.shape)), t)[1]):
            f()
        found.append(sorted(shapes))
    return found


@both
def test_nothing_is_packed_where_nothing_is_recorded(T: Any) -> Any:
    log: list = []
    x = leaf(T, 1.0)
    with hooks(T, logged(log, "pack")):
        with T.no_grad():
            x * x
        thread = threading.Thread(target=lambda: x * x)
        thread.start()
        thread.join()
    x * x
    return log


@both
def test_what_hooks_see(T: Any) -> Any:
    log: list = []
    x = leaf(T, 1.0, 2.0)

    def pack(t: Any) -> Any:
        log.append((t is x, t.requires_grad, T.is_grad_enabled(), (t * 2).requires_grad))
        return t

    with hooks(T, pack, pack):
        y = x * x
    y.sum().backward()
    return log[:2]


@both
def test_operations_of_hooks_are_not_hooked(T: Any) -> Any:
    log: list = []
    x = leaf(T, 1.0, 2.0)
    with hooks(T, lambda t: (log.append("pack"), t * 2)[1], lambda t: (log.append("unpack"), t / 2)[1]):
        y = (x * x).exp()
    y.sum().backward()
    return log, x.grad


@both
def test_errors_of_hooks_pass_and_leave_nothing_behind(T: Any) -> Any:
    def fail(t: Any) -> Any:
        raise ValueError("no")

    x = leaf(T, 1.0, 2.0)

    def pack() -> None:
        with hooks(T, fail):
            x * x

    def unpack(result: Any) -> None:
        with hooks(T, same, lambda t: result):
            y = x * x
        y.sum().backward()

    def unpack_fails() -> None:
        with hooks(T, same, fail):
            y = x * x
        y.sum().backward()

    found = [
        error(pack, "no"),
        error(unpack_fails, "no"),
        error(lambda: unpack(3), "unpack", "int"),
        error(lambda: unpack(None), "unpack"),
    ]
    (x * x).sum().backward()
    return found, x.grad


@both
def test_unpack_may_give_another_dtype_or_a_shape_that_broadcasts(T: Any) -> Any:
    found = []
    for unpack in (lambda t: t.float(), lambda t: t[:1], lambda t: T.ones(2, dtype=T.float64)):
        x = leaf(T, 1.0, 2.0)
        with hooks(T, same, unpack):
            y = x * x
        y.sum().backward()
        found.append(x.grad)
    return found


@both
def test_pack_must_not_change_its_argument(T: Any) -> Any:
    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    x = leaf(T, 1.0, 2.0) * 1
    found = []
    for f in (lambda: x * x, lambda: x.exp(), lambda: Saving.apply(x)):

        def run(f: Any = f) -> None:
            with hooks(T, lambda t: t.mul_(2)):
                f()

        found.append(error(run, "pack hook is modifying its input in place") if f() is not None else None)
    return found[:2]


def test_pack_must_not_change_what_a_custom_function_saves() -> None:
    class Saving(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

    with (
        hooks(ferro, lambda t: t.mul_(2)),
        pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
    ):
        Saving.apply(leaf(ferro, 1.0) * 1)


@both
def test_unpack_runs_once_per_use(T: Any) -> Any:
    log: list = []
    x = leaf(T, 1.0, 2.0)
    with hooks(T, same, logged(log, "unpack")):
        y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return log, x.grad


@both
def test_hooked_values_keep_their_history_for_double_backward(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    with hooks(T, lambda t: t.detach().clone(), lambda t: t.clone()):
        y = (x * x * x).sum()
        (g,) = T.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    return x.grad


@both
def test_versions_of_hooked_values_are_not_checked(T: Any) -> Any:
    found = []
    for pack in (same, lambda t: t.clone()):
        x = leaf(T, 1.0, 2.0)
        b = (x * 1).mul_(3)
        with hooks(T, pack):
            y, z = b * b, b.exp()
        b.mul_(2)
        z.add_(1)
        (y.sum() + z.sum()).backward()
        found.append(x.grad)
    return found[1]


@both
def test_custom_functions_are_hooked(T: Any) -> Any:
    log: list = []

    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y, nothing = ctx.saved_tensors
            log.append((x.tolist(), nothing))
            return g * y

    x = leaf(T, 1.0, 2.0)
    with hooks(T, logged(log, "pack"), logged(log, "unpack")):
        y = Exp.apply(x)
    y.sum().backward()
    return log, x.grad


@both
def test_save_on_cpu(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    with T.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    with T.autograd.graph.save_on_cpu(pin_memory=False):
        (g * g).sum().backward()
    return g, x.grad


@both
def test_hooks_may_be_disabled(T: Any) -> Any:
    disable = T.autograd.graph.disable_saved_tensors_hooks

    def enter() -> None:
        with hooks(T):
            pass

    @disable("decorated")
    def decorated() -> None:
        enter()

    def disable_inside() -> None:
        with hooks(T), disable("too late"):
            pass

    found = [error(decorated, "decorated"), error(decorated, "decorated"), error(disable_inside, "too late")]
    with disable("outer"):
        with disable("inner"):
            found.append(error(enter, "inner"))
        found.append(error(enter, "outer"))
        x = leaf(T, 1.0)
        (x * x).sum().backward()
    enter()
    return found, x.grad, error(lambda: T.autograd.graph.saved_tensors_hooks(same, same)(1), "not callable")


# -- allow_mutation_on_saved_tensors ----------------------------------------------------------------------------------------------


def allowed(T: Any) -> Any:
    return T.autograd.graph.allow_mutation_on_saved_tensors()


def _function(T: Any) -> Any:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

    return Square


def _under_no_grad(T: Any, x: Any) -> None:
    with T.no_grad():
        x.mul_(2)


MUTATIONS = {
    "the saved tensor": (lambda T, b: b * b, lambda T, b, y: b.sin_()),
    "through a view": (lambda T, b: b * b, lambda T, b, y: b[0].mul_(5)),
    "a saved view through its base": (lambda T, b: b[:2] * b[:2], lambda T, b, y: b.mul_(5)),
    "twice": (lambda T, b: b * b, lambda T, b, y: b.mul_(5).mul_(5)),
    "the result": (lambda T, b: b.exp(), lambda T, b, y: y.mul_(2)),
    "under no_grad": (lambda T, b: b * b, lambda T, b, y: _under_no_grad(T, b)),
    "detached": (lambda T, b: b * b, lambda T, b, y: b.detach().mul_(2)),
    "through .data": (lambda T, b: b * b, lambda T, b, y: b.data.mul_(2)),
    "by out=": (lambda T, b: b * b, lambda T, b, y: T.mul(b.detach(), 2, out=b.detach())),
    "a copy": (lambda T, b: b.pow(3), lambda T, b, y: b.copy_(T.ones(3, dtype=T.float64))),
    "a fill": (lambda T, b: b.log(), lambda T, b, y: b.fill_(3.0)),
    "another tensor": (lambda T, b: b * b, lambda T, b, y: T.ones(3).mul_(2)),
    "saved by a custom function": (lambda T, b: _function(T).apply(b), lambda T, b, y: b.mul_(2)),
    "part of it, unsaved": (lambda T, b: b[:1] * b[:1], lambda T, b, y: b[1:].mul_(2)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_saved_tensors_may_be_changed(name: str, torch: Any) -> None:
    make, change = MUTATIONS[name]

    def program(T: Any) -> Any:
        x = leaf(T, 1.0, 2.0, 3.0)
        with allowed(T):
            b = x.clone()
            y = make(T, b)
            loss = y.sum()
            change(T, b, y)
            loss.backward(retain_graph=True)
            loss.backward()
        return x.grad, b, y

    assert account(program(ferro)) == account(program(torch))


def test_assignment_by_index_is_seen_too() -> None:
    # PyTorch misses it, and returns a wrong gradient.
    x = leaf(ferro, 1.0, 2.0, 3.0)
    with allowed(ferro):
        b = x.clone()
        loss = (b * b).sum()
        b[1] = 7.0
        b[ferro.tensor([0])] = 8.0
        b[b > 7.5] = 9.0
        loss.backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    assert b.tolist() == [9.0, 7.0, 3.0]


def test_a_saved_view_changed_through_another_view() -> None:
    # PyTorch keeps one copy per storage, made of the wrong tensor, and returns a wrong gradient.
    x = leaf(ferro, 1.0, 2.0, 3.0)
    with allowed(ferro):
        b = x.clone()
        loss = (b[:2].exp() * b[:2]).sum()
        b[1:].zero_()
        loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * np.e, 3 * np.e**2, 0.0])


def test_running_statistics_and_fused_optimizers_are_seen_too() -> None:
    with allowed(ferro):
        mean, x = ferro.zeros(2, requires_grad=False), ferro.ones(3, 2, requires_grad=True)
        loss = (x * mean).sum()
        ferro.nn.functional.batch_norm(x + 3, mean, ferro.ones(2), training=True)
        assert mean.any()
        loss.backward()
        assert not x.grad.any()
        p = ferro.nn.Parameter(ferro.tensor([2.0]))
        loss = (p * p).sum()
        loss.backward(retain_graph=True)
        ferro.optim.SGD([p], lr=0.5).step()
        assert p.item() == 0.0
        loss.backward()
        assert p.grad.tolist() == [8.0]


@both
def test_second_derivatives_after_a_change(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    with allowed(T):
        b = x.clone()
        loss = (b * b * b).sum()
        b.mul_(2)
        (g,) = T.autograd.grad(loss, x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
    return g, h


@both
def test_backward_must_run_in_the_same_context(T: Any) -> Any:
    words = ("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context",)

    def graph(change: bool) -> Any:
        b = leaf(T, 1.0, 2.0).clone()
        y = (b**2).sum()
        if change:
            b.sin_()
        return y

    with allowed(T):
        y, z, cleared = graph(True), graph(False), graph(True)
    found = [error(y.backward, *words), error(z.backward, *words)]
    with allowed(T) as context:
        found.append(error(cleared.backward, *words))
        before = graph(True)
        context.clear()
        found.append(error(before.backward, *words))
        graph(True).backward()
    outside = graph(True)
    with allowed(T):
        found.append(error(outside.backward, "modified by an inplace operation"))
    return found


@both
def test_contexts_cannot_be_nested_nor_entered_where_hooks_are_disabled(T: Any) -> Any:
    def nested() -> None:
        with allowed(T), allowed(T):
            pass

    def disabled() -> None:
        with T.autograd.graph.disable_saved_tensors_hooks("disabled"), allowed(T):
            pass

    found = [error(nested, "cannot be nested"), error(disabled, "disabled")]
    x = leaf(T, 1.0)
    with hooks(T), allowed(T):
        b = x.clone()
        y = b * b
        b.zero_()
        y.backward()
    return found, x.grad


def test_only_what_changes_is_copied_and_nothing_outlives_the_context() -> None:
    x = leaf(ferro, *range(1000))
    with allowed(ferro) as keeper:
        b = x.clone()
        saved = b * b
        node = weakref.ref(saved.grad_fn)
        kept = saved.grad_fn.saved[0].value
        assert np.shares_memory(kept.tensor._data, b._data)
        b.mul_(2)
        assert not np.shares_memory(kept.tensor._data, b._data)
        for _ in range(300):  # tensors that come and go leave no trace
            c = x.clone()
            c * c
        assert len(keeper.kept) < 200
        gc.disable()
        try:
            del saved, kept
            assert node() is None
        finally:
            gc.enable()
    assert not keeper.kept
