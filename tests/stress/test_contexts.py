"""Every context manager that switches a mode: entered again inside itself, by several threads, and left in another order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro import debug, profiler
from ferro.autograd import forward_ad, graph
from ferro.core import mode
from ferro.utils import checkpoint

pytestmark = pytest.mark.timeout(60)

CONTEXTS: dict[str, Callable[[], Any]] = {
    "no_grad": ferro.no_grad,
    "enable_grad": ferro.enable_grad,
    "inference_mode": ferro.inference_mode,
    "inference_mode off": lambda: ferro.inference_mode(False),
    "saved_tensors_hooks": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "save_on_cpu": graph.save_on_cpu,
    "disable_saved_tensors_hooks": lambda: graph.disable_saved_tensors_hooks("not here"),
    "detect_anomaly": ferro.autograd.detect_anomaly,
    "dual_level": forward_ad.dual_level,
    "profile": ferro.autograd.profiler.profile,
    "nan_guard": debug.nan_guard,
    "record_function": lambda: ferro.autograd.profiler.record_function("mine"),
    "profiler": profiler.profile,
    "checkpoint early stop": lambda: checkpoint.set_checkpoint_early_stop(False),
    "checkpoint debug": lambda: checkpoint.set_checkpoint_debug_enabled(True),
}
ONCE = {"profiler", "checkpoint early stop", "checkpoint debug"}  # of these each is entered once
# These change something from the call on, until the block that they head is left.
CALLED: dict[str, Callable[[], Any]] = {
    "set_grad_enabled": lambda: ferro.set_grad_enabled(False),
    "set_multithreading_enabled": lambda: ferro.autograd.set_multithreading_enabled(False),
    "set_detect_anomaly": lambda: ferro.autograd.set_detect_anomaly(True),
}
again = pytest.mark.parametrize("name", sorted(CONTEXTS.keys() - ONCE))
every = pytest.mark.parametrize("name", sorted(CONTEXTS))


def state() -> tuple:
    """All that a context may have switched, in this thread."""
    now = mode.current()
    x = ferro.ones(1, requires_grad=True)
    switches = checkpoint._switches
    return (
        now.grad,
        now.inference,
        now.level,
        len(now.pack),
        now.anomaly is not None,
        len(now.observers),
        now.barred,
        now.threads,
        (x * 1).requires_grad,
        ferro.is_anomaly_enabled(),
        switches.early_stop[-1][0],
        switches.debug[-1][0],
    )


def in_threads(*bodies: Callable) -> list:
    """What the bodies return or raise, each in a thread of its own."""
    found: dict = {}

    def run(i: int) -> None:
        try:
            found[i] = bodies[i]()
        except Exception as e:  # noqa: BLE001 (what comes is what is looked at)
            found[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return [found.get(i) for i in range(len(bodies))]


@again
def test_entered_again_inside_itself(name: str) -> None:
    before, active = state(), len(mode.ACTIVE)
    context = CONTEXTS[name]()
    with context:
        inside = state()
        if name == "dual_level":  # refused, as in PyTorch, and nothing has changed
            with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"), context:
                pass
        else:
            with context, context:
                pass
        assert state() == inside
    assert (state(), len(mode.ACTIVE)) == (before, active)


def test_saved_tensors_hooks_entered_again_inside_their_own_unpack_hook() -> None:
    def unpack(t: Any) -> Any:
        with hooks:
            return t

    hooks = graph.saved_tensors_hooks(lambda t: t, unpack)
    x = ferro.tensor([2.0], requires_grad=True)
    with hooks:
        y = (x * x).exp()
    before = state()
    y.backward()
    assert state() == before
    assert x.grad.item() == pytest.approx(4 * 2.718281828459045**4, rel=1e-6)


# Anomaly mode and the switches of checkpoint hold in the process or the thread, whatever runs there.
@pytest.mark.parametrize(
    "name", sorted({**CONTEXTS, **CALLED}.keys() - {"detect_anomaly", "set_detect_anomaly", *ONCE})
)
def test_what_a_hook_has_entered_and_not_left_ends_with_backward(name: str) -> None:
    before, active = state(), len(mode.ACTIVE)
    kept: list = []

    def hook(g: Any) -> None:
        context = {**CONTEXTS, **CALLED}[name]()
        context.__enter__()
        kept.append(context)

    x = ferro.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert (state(), len(mode.ACTIVE)) == (before, active)
    kept.pop().__exit__(None, None, None)
    assert state() == before


@every
def test_two_generators_that_take_turns(name: str) -> None:
    """Contexts are left in the order in which they were entered: the later ones hold on, and nothing is left behind."""

    def numbers(make: Callable) -> Any:
        with make():
            yield state()

    before, active = state(), len(mode.ACTIVE)
    make = CONTEXTS[name]
    outer, inner = numbers(make), numbers(ferro.no_grad)
    next(outer)
    next(inner)
    outer.close()
    assert state()[:2] == (False, False)
    assert state()[2:] == (*before[2:8], False, *before[9:])
    inner.close()
    assert (state(), len(mode.ACTIVE)) == (before, active)


@pytest.mark.parametrize("name", sorted(CONTEXTS.keys() - ONCE))
def test_one_context_in_two_threads_at_once(name: str) -> None:
    """The second thread enters under another mode than the first, and leaves after it."""
    before, active, context = state(), len(mode.ACTIVE), CONTEXTS[name]()
    entered, left = threading.Event(), threading.Event()

    def first() -> tuple:
        mine = state()
        with context:
            entered.set()
            left.wait(20)
        return mine[:9], state()[:9]

    def second() -> tuple:
        with ferro.no_grad():
            mine = state()
            entered.wait(20)
            with context:
                left.set()
            return mine[:9], state()[:9]

    for was, now in in_threads(first, second):
        assert now == was
    assert (state(), len(mode.ACTIVE)) == (before, active)


@every
def test_entered_in_one_thread_and_left_in_another(name: str) -> None:
    before = state()
    context = CONTEXTS[name]()
    in_threads(context.__enter__)
    with ferro.no_grad():
        inside = state()
        context.__exit__(None, None, None)
        assert state()[:8] == inside[:8]
    assert state() == before


@pytest.mark.parametrize("name", sorted(CALLED))
def test_what_holds_from_the_call_on(name: str) -> None:
    before, active = state(), len(mode.ACTIVE)
    with CALLED[name]():
        inside = state()
        assert inside != before
        with CALLED[name]():
            pass
        assert state() == inside
    assert (state(), len(mode.ACTIVE)) == (before, active)


@pytest.mark.parametrize("name", ["set_grad_enabled", "set_multithreading_enabled"])
def test_what_holds_from_the_call_on_is_entered_again_and_elsewhere(name: str) -> None:
    before = state()
    context = CALLED[name]()
    with context:
        inside = state()
        with context:
            pass
        assert state() == inside
    assert state() == before
    with context:
        assert state() == inside

    def elsewhere() -> tuple:
        was = state()
        with context:
            now = state()
        return was == state() == before, now == inside

    assert in_threads(elsewhere) == [(True, True)]
    assert state() == before


def test_calls_without_a_block_leave_no_more_behind_than_one() -> None:
    active = len(mode.ACTIVE)
    for _ in range(100):
        ferro.set_grad_enabled(False)
        ferro.autograd.set_detect_anomaly(False)
    assert len(mode.ACTIVE) <= active + 1
    ferro.set_grad_enabled(True)
    assert len(mode.ACTIVE) == active


def test_recording_switched_on_for_good_inside_a_block_under_one_that_is_off_for_good() -> None:
    x = ferro.ones(1, requires_grad=True)
    ferro.set_grad_enabled(False)
    with ferro.enable_grad():
        ferro.set_grad_enabled(True)
    assert (ferro.is_grad_enabled(), (x * x).requires_grad) == (False, False)
    ferro.set_grad_enabled(True)


def test_a_task_made_under_no_grad_records_nothing_after_its_maker_has_left() -> None:
    x = ferro.ones(1, requires_grad=True)

    async def look() -> tuple:
        return ferro.is_grad_enabled(), (x * x).requires_grad

    async def main() -> tuple:
        with ferro.no_grad():
            task = asyncio.create_task(look())
        return await task

    assert asyncio.run(main()) == (False, False)


def test_anomaly_mode_of_two_threads_that_leave_in_the_order_in_which_they_came() -> None:
    """In PyTorch the second, which returns to what it found, leaves it switched on."""
    first, second = threading.Event(), threading.Event()

    def one() -> None:
        with ferro.autograd.detect_anomaly():
            first.set()
            second.wait(20)

    def two() -> None:
        first.wait(20)
        with ferro.autograd.detect_anomaly():
            second.set()
            thread.join(20)

    thread = threading.Thread(target=one)
    thread.start()
    in_threads(two)
    assert not ferro.is_anomaly_enabled()


def test_a_program_may_end_inside_of_a_context() -> None:
    program = "import ferro; ferro.set_grad_enabled(False); c = ferro.inference_mode(); c.__enter__(); ferro.autograd.detect_anomaly().__enter__()"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
