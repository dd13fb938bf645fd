"""Checkpointing: what is saved and recomputed, random numbers, nesting, errors, policies; offloading of saved tensors."""

from __future__ import annotations

import contextlib
import gc
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.core.saved_values import Packed
from ferro.utils import checkpoint as module
from ferro.utils.checkpoint import checkpoint, checkpoint_sequential
from ferro.utils.offload import save_in_bfloat16, save_on_disk


def leaf(*values: float) -> Any:
    return ferro.tensor(list(values), dtype=ferro.float64, requires_grad=True)


class Counted:
    """A function that counts how often it ran and how often it came to its end."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.begun = self.ended = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.begun += 1
        result = self.function(*args, **kwargs)
        self.ended += 1
        return result


def files_in(folder: Path) -> list:
    return list(folder.iterdir())


def both(function: Any, *args: Any, **options: Any) -> tuple:
    """The gradients by all leaves among `args`, plainly and checkpointed."""
    found = []
    for run in (lambda: function(*args), lambda: checkpoint(function, *args, use_reentrant=False, **options)):
        out = run()
        found.append(
            ferro.autograd.grad(out.sum(), [a for a in args if isinstance(a, ferro.Tensor) and a.requires_grad])
        )
    return tuple(found)


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_are_the_same_and_the_function_runs_again(reentrant: bool) -> None:
    x, w = leaf(0.3, 0.7), leaf(2.0, -1.0)
    function = Counted(lambda x, w: ((x * w).sin() * x).exp())
    checkpoint(function, x, w, use_reentrant=reentrant).sum().backward()
    got = [x.grad.clone(), w.grad.clone()]
    assert function.begun == 2
    x.grad = w.grad = None
    function.function(x, w).sum().backward()
    assert all(ferro.equal(a, b) for a, b in zip(got, [x.grad, w.grad], strict=True))


def test_nothing_but_the_inputs_is_kept() -> None:
    x = leaf(*range(1000))
    kept: list = []

    def function(x: Any) -> Any:
        y = x.sin()
        kept.append(weakref.ref(y._data))
        return (y * y).sum()

    out = checkpoint(function, x, use_reentrant=False)
    assert kept[0]() is None
    plain = function(x)
    assert kept[1]() is not None
    out.backward()
    plain.backward()
    assert ferro.allclose(x.grad, 2 * (2 * x.sin() * x.cos()))


def test_results_that_an_operation_keeps_for_itself_are_placeholders_too() -> None:
    """The indices of a maximum, the parts of a concatenation, the factors of a decomposition."""
    x = leaf(3.0, 1.0, 2.0, 5.0)

    def function(x: Any) -> Any:
        return ferro.cat([x.max(0).values.reshape(1), x.sort().values.cumprod(0), x.softmax(0)]).prod()

    plain, again = both(function, x)
    assert ferro.equal(plain[0], again[0])
    node = checkpoint(lambda x: x.softmax(0), x, use_reentrant=False).grad_fn
    assert any(type(v) is Packed for v in node.saved)


def test_arguments_in_nests_and_keywords() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    x, y, z = leaf(1.0, 2.0), leaf(0.5, 0.25), leaf(3.0, 4.0)
    log: list = []

    def function(first: Any, pair: Any, *, more: Any, log: list) -> Any:
        log.append(type(pair).__name__)
        return (first * pair.a * more["z"][0]).exp() * pair.b

    out = checkpoint(function, x, Pair(y * 2, 3.0), more={"z": [z]}, log=log, use_reentrant=False)
    got = ferro.autograd.grad(out.sum(), (x, y, z))
    assert log == ["Pair", "Pair"]
    want = ferro.autograd.grad(function(x, Pair(y * 2, 3.0), more={"z": [z]}, log=[]).sum(), (x, y, z))
    assert all(ferro.equal(a, b) for a, b in zip(got, want, strict=True))


def test_a_changed_container_does_not_change_the_recomputation() -> None:
    x, parts = leaf(2.0), [leaf(3.0)]
    out = checkpoint(lambda x, parts: x.exp() * parts[0], x, parts, use_reentrant=False)
    parts[0] = leaf(1.0, 2.0, 3.0)
    out.backward()
    assert ferro.allclose(x.grad, 3 * x.exp())


def test_autograd_grad_and_double_backward() -> None:
    x = leaf(0.4, 0.9)

    def function(x: Any) -> Any:
        return (x.sin() * x.exp()).sum()

    def second(f: Any) -> Any:
        (g,) = ferro.autograd.grad(f(x), x, create_graph=True)
        return ferro.autograd.grad((g * g).sum(), x)[0]

    assert ferro.allclose(second(lambda x: checkpoint(function, x, use_reentrant=False)), second(function), rtol=1e-14)


def test_backward_twice_recomputes_twice_and_freed_graphs_say_so() -> None:
    x = leaf(0.4)
    function = Counted(lambda x: x.exp().sin())
    out = checkpoint(function, x, use_reentrant=False)
    out.backward(retain_graph=True)
    out.backward()
    assert function.begun == 3
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


@pytest.mark.parametrize("lib", ["ferro", "torch"])
def test_an_input_without_history_is_the_same_object_when_recomputed(lib: str) -> None:
    T = ferro if lib == "ferro" else pytest.importorskip("torch", exc_type=ImportError)
    seen: list = []

    class Marked(T.Tensor): ...

    class Keeps(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ctx.saved_tensors[0])
            return g, None

    def function(x: Any, y: Any, marked: Any) -> Any:
        seen.append((type(marked), marked.tag, y))
        return Keeps.apply(x * marked.detach().as_subclass(T.Tensor), y)

    x, y = T.ones(1, requires_grad=True), T.ones(1).add_(1)
    marked = T.ones(1).as_subclass(Marked).requires_grad_()
    marked.tag = "mine"
    T.utils.checkpoint.checkpoint(function, x, y, marked, use_reentrant=False).sum().backward()
    assert seen[0][:2] == seen[1][:2] == (Marked, "mine")
    assert seen[1][2] is y
    assert seen[2] is y


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("lib", ["ferro", "torch"])
def test_the_recomputation_has_the_precision_of_the_forward_pass(lib: str, enabled: bool, reentrant: bool) -> None:
    T = ferro if lib == "ferro" else pytest.importorskip("torch", exc_type=ImportError)
    seen: list = []

    def function(x: Any, w: Any) -> Any:
        y = T.mm(T.mm(x, w), w)
        seen.append(y.dtype)
        return y

    x, w = T.ones(2, 2, requires_grad=True), T.ones(2, 2, requires_grad=True)
    with T.autocast("cpu", T.bfloat16, enabled=enabled):
        loss = T.utils.checkpoint.checkpoint(function, x, w, use_reentrant=reentrant).sum()
    with T.autocast("cpu", T.bfloat16, enabled=not enabled):  # not that of backward
        loss.backward()
    assert seen == [T.bfloat16 if enabled else T.float32] * len(seen)
    assert len(seen) == 1 + reentrant  # (without re-entrance it stops when all is saved)
    assert x.grad.dtype is T.float32
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_backward_inside_the_function() -> None:
    x = leaf(0.4)

    def function(x: Any) -> Any:
        y = x.sin()
        (g,) = ferro.autograd.grad(y.exp(), x, retain_graph=True)
        return x.cos() * g

    for early in (True, False):
        (got,) = ferro.autograd.grad(checkpoint(function, x, use_reentrant=False, early_stop=early), x)
        assert ferro.allclose(got, ferro.autograd.grad(function(x), x)[0])


def test_without_grad_nothing_is_set_up() -> None:
    x = leaf(1.0)
    function = Counted(lambda x: x.exp())
    with ferro.no_grad():
        assert not checkpoint(function, x, use_reentrant=False).requires_grad
    assert function.begun == 1


def test_the_parallel_executor_gives_the_same() -> None:
    xs = [ferro.rand(60, 60, dtype=ferro.float64, requires_grad=True) for _ in range(4)]

    def loss() -> Any:
        parts = [checkpoint(lambda x: (x @ x).sin() @ x, x, use_reentrant=False) for x in xs]
        return (parts[0] * parts[1] + parts[2] * parts[3]).sum()

    ferro.autograd.backward(loss(), num_threads=1)
    serial = [x.grad.clone() for x in xs]
    for x in xs:
        x.grad = None
    ferro.autograd.backward(loss(), num_threads=3)
    assert all(ferro.equal(x.grad, g) for x, g in zip(xs, serial, strict=True))


# -- nesting -----------------------------------------------------------------------------------------------------------


def test_numbers_are_no_saved_tensors() -> None:
    x, shapes = leaf(0.5, 0.2), []
    with ferro.autograd.graph.saved_tensors_hooks(lambda t: (shapes.append(tuple(t.shape)), t)[1], lambda t: t):
        (x.exp() * 2).sum().backward()
    assert shapes == [(2,)]


@pytest.mark.parametrize("early", [True, False])
def test_nested_checkpoints(early: bool) -> None:
    x = leaf(0.3, 0.6)
    inner = Counted(lambda y: y.sin().exp())

    def outer(x: Any) -> Any:
        return checkpoint(inner, x.exp(), use_reentrant=False, early_stop=early).cos() * x

    (got,) = ferro.autograd.grad(checkpoint(outer, x, use_reentrant=False, early_stop=early).sum(), x)
    assert inner.begun == 3  # forward, with the outer recomputation, and its own
    assert ferro.equal(got, ferro.autograd.grad(outer(x).sum(), x)[0])


def test_what_a_nested_checkpoint_keeps_is_hidden_from_the_outer_one() -> None:
    x = leaf(0.3, 0.6)
    alive: list = []

    def inner(y: Any) -> Any:
        alive.append(weakref.ref(y._data))
        return y.sin()

    def outer(x: Any) -> Any:
        return checkpoint(inner, x.exp(), use_reentrant=False)

    out = checkpoint(outer, x, use_reentrant=False)
    assert alive[0]() is None  # the input of the inner one is recomputed by the outer one
    out.sum().backward()
    assert ferro.allclose(x.grad, x.exp().cos() * x.exp())


# -- early stop --------------------------------------------------------------------------------------------------------


def test_early_stop_ends_at_the_last_saved_tensor() -> None:
    x = leaf(0.5)
    function = Counted(lambda x: x.exp().sin() + 1)
    checkpoint(function, x, use_reentrant=False).backward()
    assert (function.begun, function.ended) == (2, 1)
    checkpoint(function, x, use_reentrant=False, early_stop=False).backward()
    assert (function.begun, function.ended) == (4, 3)
    with module.set_checkpoint_early_stop(False):
        out = checkpoint(function, x, use_reentrant=False)
    out.backward()  # the switch counts where forward runs
    assert (function.begun, function.ended) == (6, 5)


def test_a_function_that_catches_exceptions_does_not_catch_the_stop() -> None:
    x = leaf(0.5)

    def function(x: Any) -> Any:
        try:
            return x.exp().sin()
        except Exception:  # noqa: BLE001
            return x * 0

    checkpoint(function, x, use_reentrant=False).backward()
    assert ferro.allclose(x.grad, x.exp().cos() * x.exp())


# -- random numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_draws_the_same_random_numbers(reentrant: bool) -> None:
    x = ferro.ones(200, requires_grad=True)
    drawn: list = []

    def function(x: Any) -> Any:
        noise = ferro.rand(200)
        drawn.append(noise)
        return (x * noise).sin()

    out = checkpoint(function, x, use_reentrant=reentrant)
    ferro.manual_seed(99)
    before = ferro.get_rng_state()
    out.sum().backward()
    assert ferro.equal(drawn[0], drawn[1])
    assert ferro.equal(ferro.get_rng_state(), before)  # the stream of now goes on as if nothing had been drawn
    checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=False).sum().backward()
    assert not ferro.equal(drawn[2], drawn[3])


def test_a_generator_among_the_arguments_is_restored() -> None:
    x, g = ferro.ones(50, requires_grad=True), ferro.Generator().manual_seed(5)
    drawn: list = []

    def function(x: Any, options: dict) -> Any:
        drawn.append(ferro.rand(50, generator=options["g"]))
        return (x * drawn[-1]).exp()

    checkpoint(function, x, {"g": g}, use_reentrant=False).sum().backward()
    assert ferro.equal(drawn[0], drawn[1])
    assert not ferro.equal(ferro.rand(50, generator=g), drawn[0])


# -- errors ------------------------------------------------------------------------------------------------------------


def changing(first: Any, later: Any) -> Counted:
    def function(x: Any) -> Any:
        return first(x) if run.begun == 1 else later(x)

    run = Counted(function)
    return run


def test_another_number_of_saved_tensors_is_an_error_that_names_the_first_difference() -> None:
    x = leaf(0.5, 0.2)
    fewer = changing(lambda x: x.exp().sin().cos(), lambda x: x.exp().cos())
    with pytest.raises(
        module.CheckpointError,
        match=r"during forward: 3\n.*during recomputation: 2(.|\n)*position 1: forward saved .*'sin'.*'cos'",
    ):
        checkpoint(fewer, x, use_reentrant=False).sum().backward()
    more = changing(lambda x: x.exp(), lambda x: x.sin().exp())
    with pytest.raises(
        module.CheckpointError, match=r"save more tensors(.|\n)*position 0: forward saved .*'exp', .*'sin'"
    ):
        checkpoint(more, x, use_reentrant=False, early_stop=False).sum().backward()


def test_other_shapes_or_dtypes_are_an_error_that_shows_both() -> None:
    x = leaf(0.5, 0.2)
    other = changing(lambda x: x.exp(), lambda x: x[:1].exp())
    with pytest.raises(
        module.CheckpointError,
        match=r"position 0:\nsaved metadata: {shape: \[2\], .*float64.*\nrecomputed metadata: {shape: \[1\]",
    ):
        checkpoint(other, x, use_reentrant=False).sum().backward()
    other = changing(lambda x: x.exp(), lambda x: x.float().exp())
    with pytest.raises(module.CheckpointError, match=r"float64(.|\n)*float32"):
        checkpoint(other, x, use_reentrant=False).sum().backward()
    other = changing(lambda x: x.exp(), lambda x: (x + 1).exp())
    checkpoint(other, x, use_reentrant=False, determinism_check="none").sum().backward()
    assert ferro.allclose(x.grad, (x + 1).exp())


def test_debug_shows_the_operations_of_both_runs_with_their_lines() -> None:
    x = leaf(0.5, 0.2)
    other = changing(lambda x: x.exp().sin(), lambda x: x.exp())
    with pytest.raises(module.CheckpointError) as error:
        checkpoint(other, x, use_reentrant=False, debug=True).sum().backward()
    forward, again = str(error.value).split("Operations of the recomputation:")
    assert "exp([2]) at" in forward
    assert "sin([2]) at" in forward
    assert "test_checkpoint.py:" in forward
    assert "exp([2]) at" in again
    assert "sin([2]) at" not in again
    with (
        module.set_checkpoint_debug_enabled(True),
        pytest.raises(ValueError, match="incompatible with non-default context_fn"),
    ):
        checkpoint(other, x, use_reentrant=False, context_fn=lambda: module.noop_context_fn())


def test_an_input_changed_in_place_is_refused() -> None:
    x = leaf(0.5, 0.2)
    y = x * 1
    out = checkpoint(lambda y: y.exp(), y, use_reentrant=False)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"input of shape \[2\] of a checkpointed function .* by 'add_'"):
        out.sum().backward()
    w = leaf(1.0, 2.0)
    out = checkpoint(lambda y: y * w, x, use_reentrant=False)
    with ferro.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match=r"saved by 'mul' inside a checkpoint .* by 'mul_'"):
        out.sum().backward()


def test_arguments_are_checked() -> None:
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda x: x * 1, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: a"):
        checkpoint(lambda x: x, x, use_reentrant=True, a=1)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lambda x: x, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(ValueError, match="only supported when"):
        checkpoint(lambda x: x, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x * 1, ferro.ones(1), use_reentrant=True)


def test_the_reentrant_variant_refuses_grad_and_inputs() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad()"):
        ferro.autograd.grad(checkpoint(lambda x: x * x, x, use_reentrant=True), x)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad()"):
        checkpoint(lambda x: x * x, x, use_reentrant=True).backward(inputs=[x])


def test_the_reentrant_variant_gives_gradients_to_what_the_function_closes_over() -> None:
    layer, x = nn.Linear(3, 2), ferro.ones(4, 3, requires_grad=True)
    checkpoint(layer, x, use_reentrant=True).sum().backward()
    assert layer.weight.grad.tolist() == [[4.0] * 3] * 2


def test_exceptions_pass_and_leave_no_hook_behind() -> None:
    x = leaf(1.0)

    def function(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        checkpoint(function, x, use_reentrant=False)
    assert type((x * x).grad_fn.saved[0]) is not Packed

    @contextlib.contextmanager
    def swallowing() -> Any:
        with contextlib.suppress(KeyError):
            yield

    with pytest.raises(RuntimeError, match="suppressed an exception"):
        checkpoint(function, x, use_reentrant=False, context_fn=lambda: (swallowing(), swallowing()))
    third = changing(lambda x: x.exp(), function)
    out = checkpoint(third, x, use_reentrant=False)
    with pytest.raises(KeyError, match="mine"):
        out.backward()
    third.function = lambda x: x.exp()
    out.backward()
    assert ferro.allclose(x.grad, x.exp())


def test_no_cycle_keeps_a_checkpointed_graph_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(*range(100))
        y = x * 2
        alive = weakref.ref(y._data)
        out = checkpoint(lambda y: y.exp().sin(), y, use_reentrant=False)
        del y
        assert alive() is not None
        out.sum().backward(retain_graph=True)
        del out
        assert alive() is None
    finally:
        gc.enable()


# -- contexts and policies ---------------------------------------------------------------------------------------------


def test_context_fn_gives_one_context_for_each_run() -> None:
    x, seen = leaf(1.0), []

    @contextlib.contextmanager
    def named(name: str) -> Any:
        seen.append(name)
        yield

    out = checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=lambda: (named("forward"), named("again")))
    assert seen == ["forward"]
    out.backward()
    assert seen == ["forward", "again"]


def selective(policy: Any, **options: Any) -> Any:
    return lambda: module.create_selective_checkpoint_contexts(policy, **options)


def test_a_policy_keeps_the_results_it_names() -> None:
    x = ferro.rand(5, 5, dtype=ferro.float64, requires_grad=True)

    def function(x: Any) -> Any:
        return ((x @ x).sin() @ x).exp().sin()

    want = ferro.autograd.grad(function(x).sum(), x)[0]
    asked: list = []

    def policy(ctx: Any, op: Any, *args: Any) -> Any:
        asked.append((op.name, tuple(ctx.op_output.shape)))
        return module.CheckpointPolicy.MUST_SAVE if op.name == "mm" else module.CheckpointPolicy.PREFER_RECOMPUTE

    for chosen in (policy, ["mm"], [ferro.mm], lambda ctx, op, *args: op.name == "mm"):
        out = checkpoint(function, x, use_reentrant=False, context_fn=selective(chosen))
        assert ferro.equal(ferro.autograd.grad(out.sum(), x)[0], want)
    assert asked.count(("mm", (5, 5))) == 2


def test_kept_results_are_not_computed_again() -> None:
    x = ferro.rand(4, 4, requires_grad=True)
    calls: list = []
    op = ferro.core.op.OPS["exp"]
    forward = op.forward

    def counted(*args: Any) -> Any:
        calls.append(1)
        return forward(*args)

    op.forward = counted
    try:
        for policy, runs in ((["exp"], 1), ([], 2)):
            calls.clear()
            checkpoint(
                lambda x: x.exp().sin().sin(), x, use_reentrant=False, context_fn=selective(policy)
            ).sum().backward()
            assert len(calls) == runs
    finally:
        op.forward = forward


def test_policies_refuse_what_would_be_wrong() -> None:
    x = leaf(0.5, 0.2)
    out = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=selective(["exp"]))
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        out.sum().backward()

    def changed(x: Any) -> Any:
        y = x.cos()
        z = y.sin()
        with ferro.no_grad():
            y.mul_(2)
        return z.sin()

    out = checkpoint(changed, x, use_reentrant=False, context_fn=selective(["cos"]))
    with pytest.raises(RuntimeError, match=r"(?s)mutated|modified"):
        out.sum().backward()
    with pytest.raises(TypeError, match="either a function or a list"):
        module.create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="expected an operation"):
        module.create_selective_checkpoint_contexts([3])


def test_backwards_of_a_group_share_one_recomputation() -> None:
    x = leaf(0.4)
    function = Counted(lambda x: (x.exp(), x.sin()))
    with module.GraphExecGroup():
        a, b = checkpoint(function, x, use_reentrant=False)
        a.backward()
        b.backward()
        with pytest.raises(RuntimeError, match="cannot be nested"), module.GraphExecGroup():
            pass
    assert function.begun == 2
    a, b = checkpoint(function, x, use_reentrant=False)
    a.backward()
    b.backward()
    assert function.begun == 5


def test_a_saved_tensor_is_unpacked_once_per_backward() -> None:
    class Twice(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0] + g * ctx.saved_tensors[0]

    x = leaf(3.0)
    with pytest.raises(module.CheckpointError, match="already unpacked once"):
        checkpoint(lambda x: Twice.apply(x.exp()), x, use_reentrant=False).backward()


# -- sequences ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_checkpoint_sequential(segments: int) -> None:
    layers = [Counted(nn.Linear(4, 4)) for _ in range(5)]
    x = ferro.rand(2, 4, requires_grad=True)
    checkpoint_sequential(layers, segments, x, use_reentrant=False).sum().backward()
    size = 5 // segments
    assert [f.begun for f in layers] == [2] * (size * (segments - 1)) + [1] * (5 - size * (segments - 1))
    got = x.grad.clone()
    x.grad = None
    model = nn.Sequential(*[f.function for f in layers])
    checkpoint_sequential(model, segments, x, use_reentrant=True).sum().backward()
    assert ferro.allclose(x.grad, got)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: some"):
        checkpoint_sequential(model, 2, x, use_reentrant=False, some=1)


# -- offloading --------------------------------------------------------------------------------------------------------


def test_saved_tensors_on_disk_give_the_same_gradients_and_the_files_go(tmp_path: Path) -> None:
    x = ferro.rand(40, 50, dtype=ferro.float64, requires_grad=True)
    w = ferro.rand(50, 3, dtype=ferro.float64, requires_grad=True)

    def loss() -> Any:
        return ((x * 2).exp() @ w).softmax(1).square().sum() + (x.bool() * 1.0).sum()

    want = ferro.autograd.grad(loss(), (x, w))
    with save_on_disk(tmp_path, min_bytes=0):
        out = loss()
    files = files_in(tmp_path)
    assert len(files) >= 3
    assert sum(f.stat().st_size for f in files) >= 40 * 50 * 8
    got = ferro.autograd.grad(out, (x, w))
    assert all(ferro.allclose(a, b, rtol=1e-14) for a, b in zip(got, want, strict=True))
    assert files_in(tmp_path) == []
    with save_on_disk(tmp_path):
        out = (x * 2).exp().sum()
        assert len(files_in(tmp_path)) == 1
        small = ferro.ones(3, requires_grad=True).exp()
        assert len(files_in(tmp_path)) == 1
    del out
    assert files_in(tmp_path) == []
    small.sum().backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex128"])
def test_every_dtype_survives_the_disk(dtype: str, tmp_path: Path) -> None:
    x = ferro.rand(7, dtype=ferro.float32).to(getattr(ferro, dtype)).requires_grad_()
    want = ferro.autograd.grad((x * 2).exp().sum().real if dtype == "complex128" else (x * 2).exp().sum(), x)[0]
    with save_on_disk(tmp_path, min_bytes=0):
        y = (x * 2).exp()
    out = y.sum()
    got = ferro.autograd.grad(out.real if dtype == "complex128" else out, x)[0]
    assert ferro.equal(got, want)


def test_saved_tensors_in_bfloat16_take_less_and_gradients_are_near() -> None:
    x = ferro.rand(1000, requires_grad=True)
    w = ferro.rand(1000, requires_grad=True)
    with save_in_bfloat16():
        hidden = (x * 2).exp()
        out = (hidden * w).sum()
    (packed,) = [v for v in hidden.grad_fn.saved if type(v) is Packed]
    assert packed.value.data.nbytes == 2000
    got = ferro.autograd.grad(out, (x, w))
    want = ferro.autograd.grad(((x * 2).exp() * w).sum(), (x, w))
    assert not ferro.equal(got[1], want[1])
    assert all(np.allclose(a, b, rtol=2**-7) for a, b in zip(got, want, strict=True))
    assert got[1].dtype is ferro.float32
    with save_in_bfloat16(min_bytes=5000):
        hidden = (x * 2).exp()
    hidden.sum().backward()
    assert ferro.equal(x.grad, (2 * (x * 2).exp()).detach())


def test_a_parameter_changed_between_forward_and_backward_is_refused() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for hooks in (save_in_bfloat16(), save_on_disk(min_bytes=0)):
        with hooks:
            out = (x * w).sum()
        with ferro.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_forward_mode_over_a_checkpoint_and_over_hooks() -> None:
    forward_ad = ferro.autograd.forward_ad

    def second(function: Any) -> Any:
        x = leaf(0.3, 0.7)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, ferro.ones(2, dtype=ferro.float64))
            (g,) = ferro.autograd.grad(function(dual).sum(), x, create_graph=True)
            return forward_ad.unpack_dual(g).tangent

    def function(x: Any) -> Any:
        return (x * x).sin() * x.exp()

    want = second(function)
    assert ferro.allclose(second(lambda x: checkpoint(function, x, use_reentrant=False)), want)
    with ferro.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert ferro.allclose(second(function), want)


def test_no_cycle_keeps_a_custom_function_under_hooks_alive() -> None:
    class Exp(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        with ferro.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y, z = Exp.apply(x), x.exp()
        for out in (y, z):
            assert ferro.allclose(ferro.autograd.grad(out.sum(), x, retain_graph=True)[0], out)
        nodes = [weakref.ref(t.grad_fn) for t in (y, z)]
        del out, y, z
        assert [n() for n in nodes] == [None, None]
    finally:
        gc.enable()


def test_generators_of_gpus_have_no_states() -> None:
    for each in (module, pytest.importorskip("torch.utils.checkpoint")):
        tensors = [ferro.ones(2)] if each is module else []
        devices, states = each.get_device_states(*tensors, 3, [1])
        assert (list(devices), list(states)) == ([], [])
        each.set_device_states(devices, states)
    with pytest.raises(RuntimeError, match="no generators for the devices \\[0\\]"):
        module.set_device_states([0], [ferro.get_rng_state()])
