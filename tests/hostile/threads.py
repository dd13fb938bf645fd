"""Hostile cases: threads that look at, change and drop what others compute with."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ferro
from ferro import nn
from ferro.utils.data import DataLoader, Dataset
from tests.hostile.child import Options, note
from tests.hostile.failures import PROGRAMS, forgotten, numbers, same, settled
from tests.hostile.tampered import every_recorder, leaf

X = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)


def together(*functions: Callable, rounds: int) -> None:
    """Run functions of the round at once, each in a thread of its own, which changes as often as it can."""
    interval, wrong = sys.getswitchinterval(), []
    sys.setswitchinterval(1e-6)
    gate = threading.Barrier(len(functions))

    def work(function: Callable) -> None:
        try:
            gate.wait()
            for k in range(rounds):
                function(k)
        except BaseException as e:  # noqa: BLE001 (told by the main thread)
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sys.setswitchinterval(interval)
    if wrong:
        raise wrong[0]


def ordinary(call: Callable) -> None:
    """A call that may raise, but no error of the interpreter."""
    try:
        call()
    except SystemError:
        raise
    except Exception:  # noqa: BLE001 (a race may be refused)
        pass


def look(k: int) -> None:
    """What people do to list the tensors that are alive."""
    for o in gc.get_objects():
        if isinstance(o, ferro.Tensor):
            ordinary(lambda o=o: o * 2)
            ordinary(lambda o=o: o.sum())
            ordinary(lambda o=o: (o.shape, o.requires_grad, o.grad_fn))


def right(name: str) -> Callable:
    """A program whose numbers must be right whatever the others do."""
    function, x = PROGRAMS[name], ferro.tensor(X).requires_grad_()
    want = numbers(function(x))

    def check(k: int) -> None:
        got = numbers(function(ferro.tensor(X).requires_grad_()))
        assert same(got, want), f"{name}: gave {got}, expected {want}"

    return check


def looked_at(rounds: int) -> None:
    together(look, right("chain"), right("network"), right("parts"), rounds=rounds)


def computed(text: str, function: Callable, rounds: int) -> None:
    """One call into machine code while another thread looks at all objects."""
    note(text)
    together(lambda k: [ordinary(lambda: function(leaf())) for _ in range(30)], look, rounds=max(1, rounds // 4))


def written(rounds: int) -> None:
    """Writes in place race with backward: an error or some number, and afterwards everything works."""
    for _ in range(rounds):
        x = ferro.tensor(X).requires_grad_()
        y = x * 1
        z = y.exp() * y.sin()
        together(
            lambda k, y=y: ordinary(lambda: y.add_(1)),
            lambda k, z=z, y=y: ordinary(lambda: (z * y).sum().backward(retain_graph=True)),
            lambda k, y=y: ordinary(lambda: y[0].zero_()),
            lambda k, x=x: ordinary(lambda: setattr(x, "data", ferro.tensor(X))),
            rounds=4,
        )
    right("written")(0)


def resized(rounds: int) -> None:
    """The arrays of tensors are changed outside while operations read them."""
    a = np.ones((64, 64), "f4")
    x = ferro.from_numpy(a).requires_grad_()
    together(
        lambda k: ordinary(lambda: (x @ x).softmax(1).sum().backward()),
        lambda k: a.__setitem__(slice(None), k),
        lambda k: ordinary(lambda: x.detach().resize_(32, 32)),
        rounds=rounds * 4,
    )


def counted(rounds: int) -> None:
    """The number of threads changes while kernels run; every sum stays what it is."""
    x = ferro.from_numpy(np.ones((512, 512), "f4")).requires_grad_()
    before = ferro.get_num_threads()

    def compute(k: int) -> None:
        y = (x * 2).exp().sum()
        assert abs(y.item() - 512 * 512 * np.exp(2)) < 30
        (g,) = ferro.autograd.grad((x * x).sum(), x)
        assert (g.numpy() == 2).all()

    together(compute, compute, lambda k: ferro.set_num_threads(k % 4 + 1), rounds=rounds * 4)
    ferro.set_num_threads(before)


def ended(rounds: int) -> None:
    """Threads end in the middle of a mode, of a backward, of a generator; what they leave is taken away."""

    def leave(k: int) -> None:
        def work() -> None:
            context = ferro.no_grad()
            context.__enter__()
            x = ferro.tensor(X).requires_grad_()
            x.register_hook(lambda g: sys.exit())
            ferro.enable_grad().__enter__()
            ordinary(lambda: (x.sin() * x).sum().backward())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with contextlib.suppress(SystemExit):
        together(leave, right("chain"), right("twice"), rounds=rounds)
    settled()
    forgotten()
    right("branched")(0)


def shared(rounds: int) -> None:
    """Backward of several threads into one leaf: nothing is lost, nothing is counted twice."""
    x = ferro.tensor(X).requires_grad_()
    net = nn.Linear(3, 3)
    together(*[lambda k: net(x).sum().backward()] * 4, rounds=rounds)
    want = net.weight.detach().numpy().sum(0) * 4 * rounds
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(want, (2, 3)), rtol=1e-4)


def watched(switch: Callable, rounds: int) -> None:
    """Trace and profile functions are set, in all threads, that look at every local variable."""

    switch(look_around)
    try:
        together(right("chain"), right("network"), rounds=rounds)
        right("written")(0)
    finally:
        switch(None)


class Computed(Dataset):
    """Samples that are gradients, computed where they are asked for."""

    def __init__(self, switch: Callable | None = None) -> None:
        self.switch = switch  # what sets a trace or profile function in the worker

    def __len__(self) -> int:
        return 12

    def __getitem__(self, k: int) -> Any:
        if self.switch is not None:
            self.switch(look_around)
        x = ferro.tensor(X).requires_grad_()
        (x.sin() * k).sum().backward()
        return x.grad


def look_around(frame: Any, event: str, arg: Any) -> Any:
    """A trace function that looks at every local variable."""
    for value in frame.f_locals.values():
        if isinstance(value, ferro.Tensor):
            ordinary(lambda value=value: value._data.shape)
    return look_around


def loaded(switch: Callable, inside: bool) -> None:
    """Workers of a DataLoader compute under a trace or profile function, set by the program or by themselves."""
    if not inside:
        switch(look_around)
    try:
        loader = DataLoader(Computed(switch if inside else None), batch_size=3, num_workers=2)
        for _ in range(2):
            found = np.concatenate([batch.numpy() for batch in loader])
            np.testing.assert_allclose(found, np.cos(X) * np.arange(12)[:, None, None], rtol=1e-5)
    finally:
        if not inside:
            switch(None)


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases."""
    rounds = 200 * options.rounds if options.long else 4
    for f in (looked_at, written, resized, counted, ended, shared):
        yield f.__name__, lambda f=f: f(rounds)
    for text, function in every_recorder().items():
        yield (
            f"{text} while all tensors are looked at",
            lambda text=text, function=function: computed(text, function, rounds),
        )
    for name in ("settrace", "setprofile"):
        yield f"sys.{name}", lambda name=name: watched(getattr(sys, name), max(1, rounds // 4))
        yield f"threading.{name}", lambda name=name: watched(getattr(threading, name), max(1, rounds // 4))
        yield f"threading.{name} and a DataLoader", lambda name=name: loaded(getattr(threading, name), inside=False)
        yield f"sys.{name} in workers of a DataLoader", lambda name=name: loaded(getattr(sys, name), inside=True)
    if hasattr(sys, "monitoring"):
        yield "sys.monitoring", lambda: monitored(rounds)
        yield "sys.monitoring and a DataLoader", lambda: monitored(1, load=True)
    else:
        print("not tried: sys.monitoring, which begins with Python 3.12", flush=True)


def monitored(rounds: int, load: bool = False) -> None:
    """A tool of sys.monitoring hears of every event; `load`: in workers of a DataLoader."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    monitoring.use_tool_id(2, "hostile")
    events = monitoring.events
    for event in (events.PY_START, events.PY_RETURN, events.CALL, events.C_RETURN, events.RAISE, events.LINE):
        monitoring.register_callback(2, event, lambda *args: None)
    monitoring.set_events(2, events.PY_START | events.PY_RETURN | events.CALL | events.RAISE | events.LINE)
    if load:
        loaded(lambda function: None, inside=False)
    else:
        together(right("chain"), right("network"), rounds=rounds)
    monitoring.set_events(2, 0)
    monitoring.free_tool_id(2)
