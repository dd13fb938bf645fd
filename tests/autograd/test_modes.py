"""Grad modes and inference mode: as contexts and decorators, nested, in threads, with exceptions, and their errors."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import ferro
from tests.autograd.both import both, error, leaf


def state(T: Any) -> tuple:
    """What is switched on."""
    return T.is_grad_enabled(), T.is_inference_mode_enabled()


# -- contexts ---------------------------------------------------------------------------------------------------------------


@both
def test_contexts_nest_and_return(T: Any) -> Any:
    seen = [state(T)]
    with T.no_grad():
        seen.append(state(T))
        with T.enable_grad():
            seen.append(state(T))
            with T.set_grad_enabled(False):
                seen.append(state(T))
            seen.append(state(T))
        with T.inference_mode(False):
            seen.append(state(T))
        seen.append(state(T))
    with T.inference_mode():
        seen.append(state(T))
        for inner in (T.enable_grad(), T.no_grad(), T.inference_mode(False), T.inference_mode(mode=True)):
            with inner:
                seen.append(state(T))
        with T.set_grad_enabled(True):
            seen.append(state(T))
        T.set_grad_enabled(True)
        seen.append(state(T))
    return [*seen, state(T)]


@both
def test_contexts_return_after_exceptions(T: Any) -> Any:
    seen = []
    for mode in (T.no_grad, T.inference_mode, lambda: T.set_grad_enabled(False)):
        try:
            with mode():
                raise KeyError(1)
        except KeyError:
            seen.append(state(T))

        @mode()
        def failing() -> None:
            raise KeyError(2)

        try:
            failing()
        except KeyError:
            seen.append(state(T))
    return seen


@both
def test_set_grad_enabled_holds_from_the_call(T: Any) -> Any:
    seen = []
    T.set_grad_enabled(False)
    seen.append(state(T))
    T.set_grad_enabled(mode=True)
    seen.append(state(T))
    with T.set_grad_enabled(False):
        T.set_grad_enabled(True)
        seen.append(state(T))
    again = T.set_grad_enabled(False)
    with again:
        seen.append(state(T))
    seen.append(state(T))
    with again:
        seen.append(state(T))
    seen.append(state(T))

    @T.set_grad_enabled(False)
    def function() -> Any:
        return state(T)

    return (
        seen,
        state(T),
        function(),
        state(T),
        error(lambda: T.set_grad_enabled("x"), "must be bool"),
        error(lambda: T.set_grad_enabled(1)),
    )


def test_one_context_may_be_entered_again_inside_itself() -> None:
    # PyTorch forgets the outer state and leaves recording off.
    context = ferro.no_grad()
    with context:
        with context:
            pass
        assert not ferro.is_grad_enabled()
    assert ferro.is_grad_enabled()


@both
def test_names(T: Any) -> Any:
    modes = T.autograd.grad_mode
    names = ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled")
    return [
        (getattr(modes, n) is getattr(T.autograd, n), getattr(T, n, None) in (None, getattr(modes, n))) for n in names
    ]


@both
def test_modes_of_threads_are_their_own(T: Any) -> Any:
    seen = []
    x = leaf(T, 1.0)

    def work() -> None:
        seen.append((state(T), (x * 2).requires_grad, T.ones(1).is_inference()))
        T.set_grad_enabled(False)

    for mode in (T.no_grad, T.inference_mode, T.enable_grad):
        with mode():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            seen.append(state(T))
    return seen


@both
def test_multithreading_may_be_forbidden(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    with T.autograd.set_multithreading_enabled(False):
        (x * x).sum().backward()

    @T.autograd.set_multithreading_enabled(False)
    def function() -> Any:
        (x * x).sum().backward()
        return x.grad

    T.autograd.set_multithreading_enabled(False)
    T.autograd.set_multithreading_enabled(True)
    return x.grad.clone(), function()


def test_forbidden_threads_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferro.core import engine, parallel

    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    calls: list = []
    execute = parallel.execute
    monkeypatch.setattr(parallel, "execute", lambda run, ready: calls.append(1) or execute(run, ready))
    x = leaf(ferro, 1.0, 2.0)
    for allowed in (False, True):
        calls.clear()
        with ferro.autograd.set_multithreading_enabled(allowed):
            (x.sin() + x.cos()).sum().backward()
        assert bool(calls) == allowed


@both
def test_versions_may_be_preserved(T: Any) -> Any:
    x, w = leaf(T, 1.0, 2.0), T.ones(2, dtype=T.float64)
    y = (x * w).sum()
    with T.autograd._unsafe_preserve_version_counter(w):
        w.add_(1)
    with T.autograd._unsafe_preserve_version_counter((w,)):
        w.sub_(1)
    y.backward()
    with T.autograd.grad_mode._force_original_view_tracking(True):
        b = x * 1
        b[0].mul_(2)
    return x.grad, w._version, b


# -- decorators ---------------------------------------------------------------------------------------------------------------


@both
def test_functions_methods_and_callables(T: Any) -> Any:
    class Thing:
        @T.no_grad()
        def method(self, x: int, y: int = 2) -> Any:
            "A docstring."
            return state(T), x + y

        @staticmethod
        @T.no_grad()
        def static() -> Any:
            return state(T)

        @classmethod
        @T.inference_mode()
        def of_class(cls) -> Any:
            return state(T)

        @property
        @T.no_grad
        def attribute(self) -> Any:
            return state(T)

        def __call__(self) -> Any:
            return state(T)

    thing = Thing()
    return (
        thing.method(1),
        thing.method(1, y=5),
        Thing.static(),
        Thing.of_class(),
        thing.attribute,
        T.no_grad()(thing)(),
        T.no_grad()(lambda: state(T))(),
        Thing.method.__name__,
        Thing.method.__doc__,
        str(inspect.signature(Thing.method)),
        state(T),
    )


@both
def test_every_mode_decorates(T: Any) -> Any:
    def function() -> Any:
        return state(T)

    found = [
        mode(function)()
        for mode in (
            T.no_grad,
            T.no_grad(),
            T.enable_grad,
            T.enable_grad(),
            T.inference_mode,
            T.inference_mode(),
            T.inference_mode(False),
            T.inference_mode(mode=True),
            T.set_grad_enabled(False),
        )
    ]
    with T.no_grad():
        found += [T.enable_grad()(function)(), T.inference_mode(False)(function)()]
    return [*found, T.no_grad()(T.enable_grad()(function))(), T.enable_grad()(T.no_grad()(function))(), state(T)]


@both
def test_a_generator_runs_in_the_mode_and_its_consumer_in_its_own(T: Any) -> Any:
    log: list = []

    @T.no_grad()
    def numbers() -> Any:
        try:
            got = yield state(T)
            log.append((got, state(T)))
            try:
                yield 1
            except ValueError as e:
                log.append(("caught", str(e), state(T)))
                with T.enable_grad():
                    yield state(T)
        finally:
            log.append(("finally", state(T)))
        return 5

    generator = numbers()
    log += [next(generator), state(T), generator.send(4), state(T), generator.throw(ValueError("a")), state(T)]
    try:
        next(generator)
    except StopIteration as stop:
        log.append(stop.value)
    closed = numbers()
    next(closed)
    closed.close()
    return [
        *log,
        state(T),
        inspect.isgeneratorfunction(numbers),
        [v for _, v in zip(range(1), T.inference_mode()(numbers)())],
    ]


def test_coroutines_and_asynchronous_generators_run_in_the_mode() -> None:
    # In PyTorch only the call that makes them does.
    log: list = []

    @ferro.no_grad()
    async def coroutine() -> int:
        log.append(ferro.is_grad_enabled())
        await asyncio.sleep(0)
        log.append(ferro.is_grad_enabled())
        return 3

    @ferro.no_grad()
    async def numbers() -> Any:
        try:
            got = yield ferro.is_grad_enabled()
            log.append((got, ferro.is_grad_enabled()))
            try:
                yield 1
            except ValueError:
                yield "caught", ferro.is_grad_enabled()
        finally:
            log.append(("finally", ferro.is_grad_enabled()))

    async def other() -> None:
        for _ in range(3):
            assert ferro.is_grad_enabled()
            await asyncio.sleep(0)

    async def main() -> None:
        result, _ = await asyncio.gather(coroutine(), other())
        log.append(result)
        generator = numbers()
        log.append(await anext(generator))
        assert ferro.is_grad_enabled()
        log.append(await generator.asend(4))
        log.append(await generator.athrow(ValueError()))
        assert ferro.is_grad_enabled()
        await generator.aclose()
        log.append([v async for v in numbers() if not isinstance(v, int) or v is True])

    asyncio.run(main())
    assert inspect.iscoroutinefunction(coroutine)
    assert log[:3] == [False, False, 3]
    assert log[3:8] == [False, (4, False), 1, ("caught", False), ("finally", False)]
    assert ferro.is_grad_enabled()


@both
def test_decorating_a_class_warns_and_gives_a_function(T: Any) -> Any:
    found = []
    for mode in (T.no_grad(), T.no_grad, T.inference_mode(), T.set_grad_enabled(False)):

        class Thing:
            def __init__(self) -> None:
                self.made = state(T)

            def method(self) -> Any:
                return state(T)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            decorated = mode(Thing)
        found.append(
            (
                [w.category.__name__ for w in caught],
                "Decorating classes is deprecated" in str(caught[0].message),
                isinstance(decorated, type),
                decorated().made,
                decorated().method(),
            )
        )
    return found


# -- what is made without recording -------------------------------------------------------------------------------------------


@both
def test_factories_under_no_grad_may_ask_for_a_gradient(T: Any) -> Any:
    with T.no_grad():
        x = T.ones(2, requires_grad=True)
        y = x * 2
    return x.requires_grad, x.is_leaf, y.requires_grad, (x * 2).requires_grad


@both
def test_a_view_made_under_no_grad_says_that_its_base_requires_grad(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    y = x * 2
    with T.no_grad():
        views = [x[:2], x.view(3), x.chunk(2)[0], y[0], y.t(), x.detach(), x.clone(), x * 1]
        whole = x.view(T.int64)
    plain = T.zeros(3)
    late = plain[:2]
    plain.requires_grad_()
    first = views[0]
    first.retain_grad()
    first.register_hook(lambda g: g)
    return (
        [(v.requires_grad, v.is_leaf, v.grad_fn is None) for v in (*views, late)],
        whole.requires_grad,
        repr(first).replace("torch", "ferro"),
        first.requires_grad_(False).requires_grad,
    )


def test_no_gradient_flows_through_a_view_made_under_no_grad() -> None:
    # PyTorch records operations on it, into a graph that leads nowhere; here backward says where the history was lost.
    x = leaf(ferro, 1.0, 2.0, 3.0)
    with ferro.no_grad():
        v = x[:2]
    with pytest.raises(RuntimeError, match=r"does not require grad.*no_grad.*test_modes"):
        (v * 2).sum().backward()
    with ferro.no_grad():
        x.mul_(2)
        v.add_(1)
    assert v.grad_fn is None
    assert not (v * 2).requires_grad
    assert x.tolist() == [3.0, 5.0, 6.0]


def test_a_view_made_under_no_grad_follows_what_is_recorded_afterwards() -> None:
    # PyTorch calls this ambiguous and refuses; the content has one history only, that of the base.
    w = leaf(ferro, 1.0, 2.0, 3.0)
    base = ferro.ones(3, dtype=ferro.float64)
    with ferro.no_grad():
        v = base[:2]
    base.mul_(w)
    assert v.grad_fn is not None
    (v * v).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 0.0]


@both
def test_writing_to_a_view_made_without_recording_is_refused(T: Any) -> Any:
    found = []
    for mode, words in ((T.no_grad, "no_grad mode"), (T.inference_mode, "inference mode")):
        x = leaf(T, 1.0, 2.0, 3.0)
        base, plain = x * 1, x.detach().clone()
        with mode():
            v, u = base[:2], plain[:2]
        found.append(error(lambda v=v: v.add_(1), "view was created in", words, "modified inplace"))
        found.append(error(lambda u=u, x=x: u.mul_(x[:2]), "view was created in", words))
        with T.no_grad():
            v.add_(1)
        found.append((base, u.add_(1), plain))
    return found


# -- inference mode -------------------------------------------------------------------------------------------------------------


def made(T: Any, n: int = 3) -> Any:
    """An inference tensor."""
    with T.inference_mode():
        return T.ones(n)


@both
def test_what_is_an_inference_tensor(T: Any) -> Any:
    i, x = made(T), T.ones(4)
    with T.inference_mode():
        inside = [
            x * 2,
            x.sum(),
            x.clone(),
            T.arange(3),
            x.max(0).values,
            T.cat([x, x]),
            T.rand(2),
            T.tensor([1.0]),
            i[0],
            x > 0,
            T.nn.functional.relu(x),
            T.zeros_like(x),
        ]
        views = [
            x[:2],
            x.view(2, 2),
            x.view(2, 2)[0],
            x.detach(),
            x.unbind()[0],
            *x.chunk(2),
            x.expand(2, 4),
            x.add_(0),
        ]
        with T.inference_mode(False):
            normal = [T.ones(1), i * 1]
    outside = [i * 2, i[0], i.view(3), i.clone(), i.detach(), i.data, i.t(), copy.deepcopy(i)]
    return (
        [[t.is_inference() for t in group] for group in (inside, views, normal, outside)],
        T.is_inference(i),
        T.is_inference(x),
        [v._is_view() for v in views[:3]],
    )


@both
def test_recording_inside_inference_mode(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0)
    with T.inference_mode():
        quiet = x * 2
        with T.enable_grad():
            loud = x * 2
        own = T.ones(2, requires_grad=True)
    return [(t.requires_grad, t.is_leaf, t.is_inference()) for t in (quiet, loud, own)]


@both
def test_inference_tensors_must_not_change_outside(T: Any) -> Any:
    words = ("Inplace update to inference tensor outside InferenceMode is not allowed",)
    i = made(T)
    found = [
        error(lambda f=f: f(), *words)
        for f in (
            lambda: i.add_(1),
            lambda: i[0].add_(1),
            lambda: i.zero_(),
            lambda: i.__setitem__(0, 2.0),
            lambda: T.add(T.ones(3), 1, out=i),
            lambda: i.copy_(T.zeros(3)),
        )
    ]
    with T.no_grad():
        found.append(error(lambda: i.add_(1), *words))
    with T.inference_mode():
        i.add_(1)
        i[0] = 5.0
    return found, i


def test_nor_through_detach_or_data_nor_their_shape() -> None:
    # PyTorch lets the first two pass, and raises after it has changed the shape.
    i = made(ferro)
    for change in (lambda: i.detach().mul_(2), lambda: i.data.add_(1), lambda: i.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            change()
    assert i.tolist() == [1.0, 1.0, 1.0]


@both
def test_inference_tensors_have_no_version_and_cannot_become_leaves(T: Any) -> Any:
    i = made(T)
    with T.inference_mode():
        inside = T.ones(2).requires_grad_().requires_grad
    return (
        error(lambda: i._version, "do not track version counter"),
        error(lambda: i[0]._version, "do not track version counter"),
        error(
            lambda: i.requires_grad_(),
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed",
        ),
        error(lambda: setattr(i, "requires_grad", True), "outside InferenceMode"),
        i.requires_grad_(False).requires_grad,
        inside,
    )


@both
def test_inference_tensors_cannot_be_saved_for_backward(T: Any) -> Any:
    class Saving(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, i: Any) -> Any:
            ctx.save_for_backward(i)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None

    x, i = T.ones(3, requires_grad=True), made(T)
    words = ("Inference tensors cannot be saved for backward", "clone")
    return (
        [
            error(lambda f=f: f(), *words)
            for f in (lambda: x * i, lambda: x * i[0], lambda: x @ i, lambda: Saving.apply(x, i))
        ],
        (x + i).requires_grad,
        (x * i.clone()).requires_grad,
        (x * 1).copy_(i),
        (x * 1).add_(i).requires_grad,
    )


@both
def test_normal_tensors_may_change_in_inference_mode(T: Any) -> Any:
    x = T.ones(3)
    p = T.ones(3, requires_grad=True)
    (p * p).sum().backward()
    with T.inference_mode():
        x.add_(1)
        v = x[0]
        v.add_(1)
        p.sub_(p.grad, alpha=0.5)
    w = T.ones(3)
    y = (p * w).sum()
    with T.inference_mode():
        w.add_(1)
    return x, v, x._version, p, p.is_leaf, p._version, error(lambda: y.backward(), "modified by an inplace operation")


@both
def test_arguments_of_the_modes(T: Any) -> Any:
    return [
        error(lambda v=v: T.inference_mode(v).__enter__()).split(":")[0].replace("AttributeError", "TypeError")
        for v in ("x", 0, None)
    ]


def test_inference_mode_as_a_decorator_of_inference() -> None:
    layer = ferro.nn.Linear(2, 2)

    @ferro.inference_mode()
    def predict(x: Any) -> Any:
        return layer(x)

    y = predict(ferro.ones(1, 2))
    assert y.is_inference()
    assert not y.requires_grad
    np.testing.assert_array_equal(y.numpy(), layer(ferro.ones(1, 2)).detach().numpy())
    assert not layer.weight.is_inference()


@both
def test_an_inference_tensor_has_no_views(T: Any) -> Any:
    found = []
    for grad in (True, False):
        with T.inference_mode():
            c = T.ones(1, 2, 3, requires_grad=grad)
            inside = c.view(-1), c.unbind(1)[0], c[0].t()
            c.add_(2)
            c.transpose_(0, 1)
            c.resize_(2, 2)
        outside = c.view(-1), c.unbind(0)[0], c[0].reshape(2)
        found.append(
            ([(t.is_inference(), t.requires_grad, t._is_view(), t.is_leaf) for t in (*inside, *outside, c)], c.shape)
        )
    return found


@both
def test_a_view_made_in_inference_mode_ends_with_a_change_of_its_base(T: Any) -> Any:
    x = leaf(T, 1.0, 2.0, 3.0)
    base = x * 1
    with T.inference_mode():
        v = base[:2]
        base.transpose_(0, 0)
        kept = base.requires_grad
    base.add_(1)
    return kept, error(
        lambda: v.grad_fn,
        "view was created in inference mode and its base or another view of its base has been modified inplace",
    )


@both
def test_the_words_for_views_that_must_not_be_changed(T: Any) -> Any:
    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = leaf(T, 1.0, 2.0)
    changed = x * 1
    same = Same.apply(changed)
    changed.add_(1)
    y = T.ones(2)
    with T.no_grad():
        z = y.view(2)
    z.requires_grad_()
    return (
        error(
            lambda: (x * 1).unbind()[1].add_(1),
            "Output 1 of Unbind is a view and is being modified inplace. This view is the output of a "
            "function that returns multiple views. Such functions do not allow the output views to be modified inplace.",
        ),
        error(
            lambda: Same.apply(x * 1).add_(1),
            "Output 0 of Same is a view and is being modified inplace. This view was created inside a "
            "custom Function (or because an input was returned as-is)",
        ),
        error(
            lambda: same.grad_fn,
            "Output 0 of Same is a view and its base or another view of its base has been modified inplace.",
        ),
        error(
            lambda: z.view(2).add_(1),
            "is a view of a view which was created in no_grad mode and is being modified inplace",
        ),
    )
