"""What a thread, a task or a worker of backward sees of the modes: grad mode, inference, hooks, forward levels, default dtype.

What PyTorch does too runs with either library (`lib`).  PyTorch's modes belong to the thread, ferro's to the context: to the
thread, and inside of it to the asyncio task.  Anomaly mode and forward levels, which PyTorch has once for the process, too.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ferro
from ferro import cpu
from ferro.autograd import forward_ad, graph
from ferro.core import engine, mode

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["ferro", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    """Either library."""
    return ferro if request.param == "ferro" else pytest.importorskip("torch", exc_type=ImportError)


def in_thread(function: Callable) -> Any:
    """What `function` returns (or raises) in a new thread."""
    found: list = []

    def body() -> None:
        try:
            found.append(function())
        except Exception as e:  # noqa: BLE001 (what comes is what is looked at)
            found.append(e)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(timeout=30)
    assert not thread.is_alive()
    return found[0]


def state(lib: Any) -> tuple:
    """Grad mode, inference mode, and whether a product is recorded."""
    x = lib.ones(2, requires_grad=True)
    return lib.is_grad_enabled(), lib.is_inference_mode_enabled(), (x * x).requires_grad


CONTEXTS: dict[str, Callable] = {
    "no_grad": lambda lib: lib.no_grad(),
    "set_grad_enabled": lambda lib: lib.set_grad_enabled(False),
    "inference_mode": lambda lib: lib.inference_mode(),
    "anomaly": lambda lib: lib.autograd.detect_anomaly(),
}


# -- new threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_new_thread_records_whatever_its_maker_does(lib: Any, name: str) -> None:
    with CONTEXTS[name](lib):
        assert in_thread(lambda: state(lib)) == (True, False, True)


@pytest.mark.parametrize("name", ["no_grad", "set_grad_enabled", "inference_mode"])
def test_what_a_thread_switches_is_its_own(lib: Any, name: str) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> tuple:
        with CONTEXTS[name](lib):
            inside.set()
            leave.wait(timeout=20)
            return lib.is_grad_enabled(), lib.is_inference_mode_enabled()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        assert inside.wait(timeout=20)
        assert state(lib) == (True, False, True)
        leave.set()
        assert future.result(timeout=20) == (False, name == "inference_mode")
    assert state(lib) == (True, False, True)


def test_a_mode_left_switched_ends_with_its_thread(lib: Any) -> None:
    assert in_thread(lambda: (lib.set_grad_enabled(False), lib.is_grad_enabled())[1]) is False
    assert in_thread(lib.is_grad_enabled)
    assert lib.is_grad_enabled()


def test_saved_tensor_hooks_are_those_of_their_thread(lib: Any) -> None:
    packed: list = []
    x = lib.ones(2, requires_grad=True)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        in_thread(lambda: x.exp())
        assert not packed
        x.exp()
        assert packed


def test_hooks_may_be_used_in_a_thread_whose_maker_has_them_disabled(lib: Any) -> None:
    def use() -> str:
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return "used"

    with lib.autograd.graph.disable_saved_tensors_hooks("not here"):
        assert in_thread(use) == "used"
        with pytest.raises(RuntimeError, match="not here"):
            use()


def test_a_new_thread_has_no_forward_level() -> None:
    """In PyTorch the level is one for the whole process; ferro's is the thread's, as its other modes are."""
    x = ferro.ones(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        assert forward_ad.unpack_dual(dual * 2).tangent is not None
        assert in_thread(lambda: forward_ad.unpack_dual(dual * 2).tangent) is None
        assert isinstance(in_thread(lambda: forward_ad.make_dual(x, x)), RuntimeError)


def test_threads_enter_and_exit_forward_levels_of_their_own() -> None:
    first = forward_ad.enter_dual_level()
    try:
        assert isinstance(in_thread(forward_ad.exit_dual_level), RuntimeError)
        other = in_thread(lambda: (forward_ad.enter_dual_level(), forward_ad.exit_dual_level())[0])
        assert other == first == 0  # the number of the outermost, in every thread
        assert forward_ad.unpack_dual(forward_ad.make_dual(ferro.ones(1), ferro.ones(1))).tangent is not None
    finally:
        forward_ad.exit_dual_level(level=first)


def test_observers_see_what_their_own_thread_does() -> None:
    with ferro.autograd.profiler.profile() as prof, ferro.debug.nan_guard():
        nothing = in_thread(lambda: (ferro.zeros(1) - 1).log().isnan().item())
        ferro.ones(1).exp()
    assert nothing is True
    assert [e.name for e in prof.function_events if e.kind == "forward"] == ["aten::exp"]


def test_the_default_dtype_is_that_of_the_process(lib: Any) -> None:
    lib.set_default_dtype(lib.float64)
    try:
        assert in_thread(lambda: lib.ones(1).dtype) is lib.float64
        in_thread(lambda: lib.set_default_dtype(lib.float32))
        assert lib.ones(1).dtype is lib.float32
    finally:
        lib.set_default_dtype(lib.float32)


# -- decorators, generators and coroutines in several threads -----------------------------------------------------------


def test_a_decorated_function_runs_in_many_threads_at_once(lib: Any) -> None:
    barrier = threading.Barrier(4)

    @lib.no_grad()
    def inside() -> bool:
        barrier.wait(timeout=20)
        return lib.is_grad_enabled()

    def work(i: int) -> tuple:
        with lib.set_grad_enabled(i % 2 == 0):
            return inside(), lib.is_grad_enabled()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [(False, i % 2 == 0) for i in range(4)]


def test_a_generator_under_no_grad_may_be_continued_in_another_thread(lib: Any) -> None:
    @lib.no_grad()
    def numbers() -> Any:
        while True:
            yield lib.is_grad_enabled()

    g = numbers()
    assert [next(g), lib.is_grad_enabled()] == [False, True]
    assert in_thread(lambda: (next(g), lib.is_grad_enabled())) == (False, True)


# -- contexts: tasks and executors ------------------------------------------------------------------------------------------


def test_a_task_keeps_its_mode_while_others_run_between() -> None:
    """PyTorch's modes belong to the thread: there a task that awaits inside no_grad switches recording off for all."""
    seen: list = []

    async def quiet(turn: asyncio.Event) -> None:
        with ferro.no_grad():
            turn.set()
            await asyncio.sleep(0.01)
            seen.append(("quiet", ferro.is_grad_enabled()))

    async def loud(turn: asyncio.Event) -> None:
        await turn.wait()
        x = ferro.ones(1, requires_grad=True)
        seen.append(("loud", (x * x).requires_grad))

    async def main() -> None:
        turn = asyncio.Event()
        await asyncio.gather(quiet(turn), loud(turn))

    asyncio.run(main())
    assert seen == [("loud", True), ("quiet", False)]


def test_a_task_begins_with_the_mode_of_its_maker() -> None:
    async def mode_of() -> bool:
        return ferro.is_grad_enabled()

    async def main() -> list:
        with ferro.no_grad():
            task = asyncio.create_task(mode_of())
            in_a_thread = await asyncio.to_thread(ferro.is_grad_enabled)  # (which copies the context; in PyTorch: True)
        return [await task, in_a_thread, await asyncio.create_task(mode_of())]

    assert asyncio.run(main()) == [False, False, True]


def test_an_executor_records_and_a_copied_context_does_not(lib: Any) -> None:
    with lib.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lib.is_grad_enabled).result(timeout=20) is True
        copied = pool.submit(contextvars.copy_context().run, ferro.is_grad_enabled).result(timeout=20)
    assert copied is (lib is not ferro)


def test_a_cancelled_task_leaves_no_mode_behind() -> None:
    async def waits() -> None:
        with ferro.no_grad(), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            await asyncio.sleep(60)

    async def main() -> tuple:
        task = asyncio.create_task(waits())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ferro.is_grad_enabled(), mode.current().pack

    before = len(mode.ACTIVE)
    assert asyncio.run(main()) == (True, ())
    assert len(mode.ACTIVE) == before


# -- what runs inside of backward ---------------------------------------------------------------------------------------------


class Looks(ferro.autograd.Function):
    """Notes the thread and the modes in which its backward runs."""

    @staticmethod
    def forward(ctx: Any, x: Any, seen: list) -> Any:
        ctx.seen = seen
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        now = mode.current()
        x = ferro.ones(1, requires_grad=True)
        ctx.seen.append(
            (
                threading.get_ident(),
                now.grad,
                now.inference,
                now.level,
                len(now.pack),
                len(now.observers),
                now.anomaly is not None,
                (x * x).requires_grad,
            )
        )
        return g * 1, None


@pytest.fixture
def workers_must_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calling thread runs no formula of cos until a worker has run something of the user's."""
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)


@pytest.mark.parametrize("name", ["plain", "no_grad", "hooks", "observer", "anomaly"])
@pytest.mark.usefixtures("workers_must_help")
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_workers_of_backward_see_the_modes_of_the_calling_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, seen = threading.get_ident(), []
    helped, right = threading.Event(), cpu.cos

    def cos(a: Any) -> Any:
        if threading.get_ident() == caller:
            assert helped.wait(timeout=20)
        else:
            helped.set()
        return right(a)

    x = ferro.ones(4, requires_grad=True)
    total = sum((Looks.apply((x * float(i)).sin(), seen).sum() for i in range(12)), start=x.sum())
    context = {
        "plain": ferro.enable_grad,
        "no_grad": ferro.no_grad,
        "observer": ferro.autograd.profiler.profile,
        "hooks": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        "anomaly": ferro.autograd.detect_anomaly,
    }[name]
    with context():
        monkeypatch.setattr(cpu, "cos", cos)  # the derivative of sin
        ferro.autograd.backward(total, num_threads=3)
    assert len(seen) == 12
    assert {s[1:] for s in seen} == {
        (False, False, 0, int(name == "hooks"), int(name == "observer"), name == "anomaly", False)
    }


@pytest.mark.usefixtures("workers_must_help")
def test_workers_of_backward_are_barred_from_hooks_where_the_calling_thread_is() -> None:
    seen: list = []
    caller = threading.get_ident()
    on_worker = threading.Event()

    def hook(g: Any) -> None:
        try:
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                seen.append("used")
        except RuntimeError as e:
            seen.append(str(e))
        if threading.get_ident() != caller:
            on_worker.set()

    right = cpu.cos

    def cos(a: Any) -> Any:
        if threading.get_ident() == caller:
            assert on_worker.wait(timeout=20)
        return right(a)

    x = ferro.ones(4, requires_grad=True)
    total = x.sum()
    for i in range(12):
        y = (x * float(i)).sin()
        y.register_hook(hook)
        total = total + y.sum()
    cpu.cos = cos
    try:
        with graph.disable_saved_tensors_hooks("not here"):
            ferro.autograd.backward(total, num_threads=3)
    finally:
        cpu.cos = right
    assert seen == ["not here"] * 12


def test_backward_in_one_thread_of_a_graph_made_in_another(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    with lib.no_grad():
        y = in_thread(lambda: (x * x).sum())  # recorded: the other thread has its own mode
    assert y.requires_grad
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_anomaly_mode_explains_from_whichever_thread_an_error_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    for threads in (1, 3):
        x = ferro.zeros(4, requires_grad=True)
        with ferro.autograd.detect_anomaly():
            total = sum(((x - i).square().sum() for i in range(6)), start=(x.sqrt() * 0).sum())  # 0 * inf
            with (
                pytest.warns(UserWarning, match=r"test_thread_modes"),
                pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"),
            ):
                ferro.autograd.backward(total, num_threads=threads)
