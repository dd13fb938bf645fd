"""What runs in the middle of ferro without having been called by it: signal handlers, finalisers, forks; and threads without a GIL.

A signal handler runs between two bytecodes: after a call, at the beginning of a function, at a jump back.  `Interrupter`
calls a function at such a place, one after the other, so nothing here depends on a clock.
"""

from __future__ import annotations

import dis
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core import accumulate, accumulate_grad, base
from ferro.core import graph_task as run_module
from ferro.native import locks

pytestmark = pytest.mark.timeout(120)


MODULES = (accumulate, accumulate_grad, run_module, locks)


def _codes(thing: Any) -> Any:
    """The code objects of the functions of a module or class."""
    for value in list(vars(thing).values()):
        if getattr(value, "__module__", None) == getattr(thing, "__module__", thing.__name__):
            if isinstance(value, type):
                yield from _codes(value)
            elif hasattr(value, "__code__"):
                yield value.__code__


NAMES = {c: {i.offset: i.opname for i in dis.get_instructions(c)} for m in MODULES for c in _codes(m)}


class Interrupter:
    """Calls `handler` at the place number `at` of those where a signal handler can run while `body` runs in some files."""

    def __init__(self, at: int, handler: Callable) -> None:
        self.at, self.handler = at, handler
        self.count, self.called = 0, False
        self.last: dict = {}

    def run(self, body: Callable) -> bool:
        """Runs `body`; whether it was interrupted."""
        if hasattr(sys, "monitoring"):
            return self._by_monitoring(body)
        outer = sys.gettrace()
        sys.settrace(self._enter)
        try:
            body()
        finally:
            sys.settrace(outer)
        return self.called

    def _by_monitoring(self, body: Callable) -> bool:
        """The same from CPython 3.12 on, where tracing sees the instructions of a function from its second call on."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        monitoring.use_tool_id(4, "interrupter")
        try:
            monitoring.register_callback(4, monitoring.events.INSTRUCTION, self._look)
            for code in NAMES:
                monitoring.set_local_events(4, code, monitoring.events.INSTRUCTION)
            body()
        finally:
            for code in NAMES:
                monitoring.set_local_events(4, code, 0)
            monitoring.free_tool_id(4)
        return self.called

    def _look(self, code: Any, offset: int) -> None:
        """Before an instruction."""
        before = self.last.get(code, "")
        self.last[code] = NAMES[code].get(offset, "")
        if before.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
            if self.count == self.at and not self.called:
                self.called = True
                sys.settrace(None)
                self.handler()
            self.count += 1

    def _enter(self, frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code not in NAMES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def look(frame: Any, event: str, arg: Any) -> Any:
            if event == "opcode":
                self._look(frame.f_code, frame.f_lasti)
            return look

        return look


def leaf(size: int) -> Any:
    return ferro.ones(size, requires_grad=True)


def _with_post_hook(x: Any) -> Any:
    x.register_post_accumulate_grad_hook(lambda t: None)
    return x


def _with_grad(x: Any) -> Any:
    x.grad = ferro.ones(*x.shape)
    return x


LEAVES: dict[str, Callable] = {
    "small": lambda: leaf(3),
    "small with a gradient": lambda: _with_grad(leaf(3)),
    "large": lambda: leaf(70_000),
    "large with a gradient": lambda: _with_grad(leaf(70_000)),
    "with a hook": lambda: _with_post_hook(leaf(3)),
    "with a hook and a gradient": lambda: _with_grad(_with_post_hook(leaf(3))),
}


def _interrupted(at: int, kind: str, record: bool) -> bool:
    """Interrupts one backward at place number `at`, and looks at the gradient; whether there was such a place."""
    x = LEAVES[kind]()
    start = 0.0 if x.grad is None else 1.0
    seen: list = []

    def handler() -> None:
        seen.append(ferro.is_grad_enabled())
        with ferro.enable_grad():
            (x * 2).sum().backward()

    y = (x * 4).sum()
    interrupted = Interrupter(at, handler).run(lambda: y.backward(create_graph=record))
    want = start + (6.0 if interrupted else 4.0)
    assert (x.grad.detach().numpy() == want).all(), (at, x.grad)
    if "hook" not in kind:  # (in a hook recording is off, as in PyTorch)
        assert seen == [True] * interrupted
    x.grad = None
    return interrupted


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("kind", sorted(LEAVES))
def test_a_handler_that_runs_backward_loses_no_gradient_and_sees_the_mode_of_the_program(
    kind: str, record: bool
) -> None:
    at, interrupted = 0, True
    while interrupted:
        interrupted = _interrupted(at, kind, record)
        at += 1
    assert at > 5


def test_the_mode_of_a_program_that_does_not_record_is_what_a_handler_sees_too() -> None:
    seen: list = []
    x = leaf(3)
    y = (x * 4).sum()
    with ferro.no_grad():
        assert Interrupter(3, lambda: seen.append(ferro.is_grad_enabled())).run(y.backward)
    assert seen == [False]


def test_hooks_and_custom_functions_run_without_recording() -> None:
    seen: list = []

    class Twice(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ferro.is_grad_enabled())
            return g * 2

    def look(*args: Any) -> None:
        seen.append(ferro.is_grad_enabled())

    x = leaf(3)
    x.register_hook(look)
    x.register_post_accumulate_grad_hook(look)
    with ferro.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: (look(), t)[1]):
        z = x.exp()
    y = Twice.apply(z)
    for call in (
        y.grad_fn.register_hook,
        y.grad_fn.register_prehook,
        y.register_hook,
        x.grad_fn or z.grad_fn.register_hook,
    ):
        call(look)
    y.sum().backward()
    assert len(seen) == 8
    assert not any(seen)
    assert ferro.is_grad_enabled()


def test_finalisers_of_two_threads_that_add_to_each_others_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is interrupted while it holds the lock of its leaf, and adds to the leaf of the other."""
    a, b = (_with_grad(leaf(70_000)) for _ in range(2))
    monkeypatch.setattr(accumulate, "id", lambda t: 0 if t is a else 64, raising=False)
    both, inside = threading.Barrier(2, timeout=30), threading.local()
    right = accumulate.cpu.add_

    def add(total: Any, gx: Any) -> None:
        if not getattr(inside, "depth", 0):
            inside.depth = 1
            both.wait()
            inside.other.sum().backward()
        right(total, gx)

    monkeypatch.setattr(accumulate.cpu, "add_", add)
    g = np.ones(70_000, np.float32)

    def work(mine: Any, other: Any) -> None:
        inside.other = other
        accumulate.accumulate(mine, g.copy(), False, True, None)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((a, b), (b, a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert (a.grad.numpy() == 3).all()
    assert (b.grad.numpy() == 3).all()
    assert not accumulate.LEAF_LOCKS.held


def run(program: str, *flags: str) -> str:
    """What a program prints in a process of its own, which must end well within a minute."""
    environment = {**os.environ, "FERRO_KERNELS": "off"}
    done = subprocess.run(
        [sys.executable, *flags, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HANDLER = """
import signal, ferro
x = ferro.ones(3, requires_grad=True)
x.grad = ferro.zeros(3)
seen = []
def handler(*_):
    seen.append(ferro.is_grad_enabled())
    with ferro.enable_grad():
        (x * 2).sum().backward()
signal.signal(signal.SIGUSR1, handler)
y = x * 4
x.register_post_accumulate_grad_hook(lambda t: signal.raise_signal(signal.SIGUSR1) if not seen else None)
y.sum().backward()
print(x.grad.tolist(), len(seen))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals")
def test_a_real_signal_in_the_turn_of_a_leaf() -> None:
    assert run(HANDLER).split("\n")[0] == "[6.0, 6.0, 6.0] 1"


FORK = """
import os, signal, threading, ferro
from ferro.native import locks, workers
from ferro.utils.data import DataLoader
x = ferro.ones(3, requires_grad=True)
x.register_post_accumulate_grad_hook(lambda t: None)
v = ferro.ones(4, requires_grad=True).clone()
w = v[1:]
(x * x).sum().backward()
loader = DataLoader(list(range(80)), 2, num_workers=2, persistent_workers=True)
begun = iter(loader)
next(begun)
held, done = threading.Event(), threading.Event()
def hold():
    for lock in list(locks._known):
        lock.acquire()
    held.set()
    done.wait(50)
thread = threading.Thread(target=hold)
thread.start()
held.wait(50)
child = os.fork()
if not child:
    signal.alarm(30)
    ferro.randn(3)
    (x * x).sum().backward()
    v.mul_(2)
    w.sum().backward()
    a = ferro.randn(300, 300, requires_grad=True)
    (a @ a).sum().backward(create_graph=False)
    assert [b.tolist() for b in loader] == [[i, i + 1] for i in range(0, 80, 2)]
    try:
        list(begun)
        os._exit(8)
    except RuntimeError as e:
        assert "forked" in str(e)
    ferro.autograd.backward([(a.sin() * a).sum(), a.exp().sum()], num_threads=4)
    with ferro.no_grad():
        pass
    os._exit(0 if x.grad.tolist() == [4.0, 4.0, 4.0] else 7)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
thread.join()
print(code, len(locks._known) > 66)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_finds_every_lock_open() -> None:
    assert run(FORK, "-Wignore::DeprecationWarning").strip() == "0 True"


HOLDER = """
import os, signal, ferro
x = ferro.ones(3, requires_grad=True)
codes = []
def hook(t):
    child = os.fork()
    if not child:
        signal.alarm(30)
        with ferro.enable_grad():
            (x.detach().requires_grad_() * 2).sum().backward()
        return
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
handle = x.register_post_accumulate_grad_hook(hook)
(x * 2).sum().backward()
handle.remove()
(x * 2).sum().backward()
if not codes:
    os._exit(0 if x.grad.tolist() == [4.0] * 3 else 7)
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_in_a_hook_gives_back_the_locks_that_it_holds() -> None:
    assert run(HOLDER, "-Wignore::DeprecationWarning").strip() == "[0]"


WITHOUT_GIL = """
import sys, threading
sys._is_gil_enabled = lambda: False
import ferro
from ferro.core import base, node
from ferro.native import locks
assert locks.GUARDED
x = ferro.ones(3, requires_grad=True)
called = []
def work(i):
    x.register_hook(lambda g: called.append(i))
    for _ in range(50):
        (x * 2).sum().backward()
        x.detach().add_(0)
    y = (x * 2).sum()
    y.backward(create_graph=True)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
numbers = [node.next_sequence() for _ in range(3)]
print(x.grad.tolist(), x._version, sorted(set(called)), numbers == sorted(set(numbers)))
"""


def test_without_a_lock_of_the_interpreter_what_is_made_once_is_guarded() -> None:
    assert run(WITHOUT_GIL, "-Wignore").strip() == "[408.0, 408.0, 408.0] 200 [0, 1, 2, 3] True"


@pytest.mark.parametrize("guarded", [False, True])
def test_of_two_that_make_the_same_one_is_kept(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "GUARDED", guarded)
    x = leaf(3)
    assert base.meta_of(x) is base.meta_of(x)
    assert base.version_of(x) is base.version_of(x)
    y = x.exp()
    assert y.grad_fn.metadata is y.grad_fn.metadata
    meta = base.meta_of(x)
    assert locks.once(meta, "turn", None, first := locks.new()) is first
    assert locks.once(meta, "turn", None, locks.new()) is first
    with ferro.no_grad():
        x.add_(1)
    assert x._version == 1
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
