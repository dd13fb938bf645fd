"""Hostile cases: functions of the user's that run in the middle of backward and pull the graph from under it.

Afterwards ferro works, its modes are what they were, and nothing of the graph is left; what changes no numbers
changes none.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ferro
from ferro.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from ferro.core import mode
from ferro.core.graph_task import STATE
from ferro.utils.checkpoint import checkpoint
from tests.hostile.child import Options, Raised, outcome

X = np.linspace(0.5, 1.5, 6, dtype="f4").reshape(2, 3)
WANT = 2 * (np.exp(2 * X) * (2 * np.sin(2 * X) + 2 * np.cos(2 * X)))  # of 2 Σ exp(2x) sin(2x)


class State:
    """What the user knows of the graph: its tensors, nodes and hooks, and how often the function was called."""

    def __init__(self) -> None:
        self.x = ferro.tensor(X).requires_grad_()
        self.held: list[Any] = []
        self.handles: list[Any] = []
        self.loss: Any = None
        self.act: Callable[[State, Any], Any] = nothing
        self.called, self.reached = 0, False
        self.busy = False

    def __call__(self, *args: Any) -> Any:
        """The hook: does its worst the first three times."""
        self.called += 1
        self.reached = True
        return self.act(self, args[0]) if self.called <= 3 else None


# -- what it does -------------------------------------------------------------------------------------------------------


def nothing(s: State, g: Any) -> None:
    pass


def drops(s: State, g: Any) -> None:
    """Lets go of every tensor and node."""
    s.held.clear()
    s.handles.clear()
    s.loss = None
    gc.collect()


def collects(s: State, g: Any) -> None:
    gc.collect()


def once(function: Callable[[State], Any]) -> Callable[[State, Any], None]:
    """A function that calls backward, which must not call itself without end."""

    def act(s: State, g: Any) -> None:
        if not s.busy:
            s.busy = True
            try:
                function(s)
            finally:
                s.busy = False

    return act


def for_ever(s: State, g: Any) -> None:
    s.called = 0
    s.loss.backward(retain_graph=True)


def of_another(s: State) -> None:
    with ferro.enable_grad():
        y = ferro.tensor(X).requires_grad_()
        (y.sin() * y).sum().backward()


def in_a_thread(s: State) -> None:
    thread = threading.Thread(target=of_another, args=(s,))
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "a thread that runs another backward inside a hook does not end"


def the_same_in_a_thread(s: State) -> None:
    def work() -> None:
        with contextlib.suppress(RuntimeError):
            s.loss.backward(retain_graph=True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "a thread that runs the same backward inside a hook does not end"


def removes(s: State, g: Any) -> None:
    for handle in s.handles:
        handle.remove()


def adds(s: State, g: Any) -> None:
    for t in s.held:
        if isinstance(t, ferro.Tensor) and t.requires_grad:
            t.register_hook(lambda g: None)
            if t.grad_fn is not None:
                t.grad_fn.register_hook(lambda a, b: None)
                t.grad_fn.register_prehook(lambda a: None)


def writes(s: State, g: Any) -> None:
    with ferro.no_grad():
        for t in s.held:
            t.add_(1) if isinstance(t, ferro.Tensor) else None


def writes_data(s: State, g: Any) -> None:
    for t in (*s.held, s.x):
        if isinstance(t, ferro.Tensor):
            t.data = ferro.ones(5, dtype=ferro.float64)


def writes_gradient(s: State, g: Any) -> None:
    if isinstance(g, ferro.Tensor):
        g.zero_()
        g.resize_(7)


def detaches(s: State, g: Any) -> None:
    for t in s.held:
        if isinstance(t, ferro.Tensor) and not t.is_leaf:
            t.detach_()


def freezes(s: State, g: Any) -> None:
    s.x.requires_grad_(False)


def sets_grad(s: State, g: Any) -> None:
    s.x.grad = None if s.x.grad is not None else ferro.zeros(2, 3)


def leaves_modes(s: State, g: Any) -> None:
    ferro.set_grad_enabled(True)
    ferro.inference_mode().__enter__()
    ferro.no_grad().__enter__()


def packs(s: State, g: Any) -> None:
    saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def forks(s: State, g: Any) -> None:
    child = os.fork()
    if child == 0:
        try:
            of_another(s)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a child forked in a hook does not compute"


def resurrects(s: State, g: Any) -> None:
    back: list[Any] = []

    class Phoenix:
        def __init__(self, *held: Any) -> None:
            self.held, self.me = held, self

        def __del__(self) -> None:
            back.append(self.held)
            of_another(s)

    Phoenix(*s.held, s.loss)
    s.held.clear()
    gc.collect()
    assert back
    s.held.extend(back.pop())


def raises(kind: type[BaseException]) -> Callable[[State, Any], None]:
    def act(s: State, g: Any) -> None:
        raise kind

    return act


def gives(value: Any) -> Callable[[State, Any], Any]:
    return lambda s, g: value() if callable(value) else value


# What a function does, and whether it changes no numbers.
ACTS: dict[str, tuple[Callable[[State, Any], Any], bool]] = {
    "nothing": (nothing, True),
    "drops all": (drops, True),
    "runs backward again": (once(lambda s: s.loss.backward(retain_graph=True)), False),
    "frees the graph": (once(lambda s: s.loss.backward()), False),
    "asks for gradients": (once(lambda s: ferro.autograd.grad(s.loss, s.x, retain_graph=True)), False),
    "asks for second gradients": (
        once(lambda s: ferro.autograd.grad(s.loss, s.x, create_graph=True)[0].sum().backward(retain_graph=True)),
        False,
    ),
    "runs backward for ever": (for_ever, False),
    "runs another backward": (once(of_another), True),
    "runs another in a thread": (once(in_a_thread), True),
    "runs the same in a thread": (once(the_same_in_a_thread), False),
    "removes hooks": (removes, True),
    "adds hooks": (adds, True),
    "writes in place": (writes, False),
    "sets data": (writes_data, False),
    "resizes the gradient": (writes_gradient, False),
    "detaches": (detaches, False),
    "freezes the leaf": (freezes, False),
    "sets the gradient": (sets_grad, False),
    "leaves modes on": (leaves_modes, True),
    "leaves saved-tensor hooks on": (packs, True),
    "forks": (forks, True),
    "resurrects": (resurrects, True),
    "collects": (collects, True),
    "raises ValueError": (raises(ValueError), False),
    "raises KeyboardInterrupt": (raises(KeyboardInterrupt), False),
    "raises SystemExit": (raises(SystemExit), False),
    "raises GeneratorExit": (raises(GeneratorExit), False),
    "raises MemoryError": (raises(MemoryError), False),
    "raises RecursionError": (raises(RecursionError), False),
    "raises StopIteration": (raises(StopIteration), False),
    "gives 5": (gives(5), False),
    "gives ()": (gives(()), False),
    "gives (None,) * 9": (gives((None,) * 9), False),
    "gives another shape": (gives(lambda: ferro.ones(7)), False),
    "gives a tuple of text": (gives(("a", "b")), False),
    "gives half a tensor": (gives(lambda: object.__new__(ferro.Tensor)), False),
    "gives a tuple of half a tensor": (gives(lambda: (object.__new__(ferro.Tensor),) * 2), False),
    "gives another dtype": (gives(lambda: ferro.ones(2, 3, dtype=ferro.int64)), False),
    "gives the leaf": (lambda s, g: s.x, False),
    "gives a type": (gives(lambda: int), False),
}


# What is not harmless in a function of a checkpoint, for it computes or saves something else than at first.
DIFFERENT = (
    "runs another backward",
    "runs another in a thread",
    "leaves modes on",
    "leaves saved-tensor hooks on",
    "forks",
    "resurrects",
)


# -- where it is --------------------------------------------------------------------------------------------------------


def formula(s: State, double: Callable = lambda x: x * 2) -> None:
    """Makes the graph of 2 Σ exp(2x) sin(2x)."""
    y = double(s.x)
    a, b = y.exp(), y.sin()
    z = a * b
    s.held[:] = [y, a, b, z, y.grad_fn, z.grad_fn]
    s.loss = z.sum() * 2


def on_tensor(s: State) -> None:
    formula(s)
    s.handles = [s.held[0].register_hook(s), s.held[3].register_hook(s)]


def on_leaf(s: State) -> None:
    formula(s)
    s.handles = [s.x.register_hook(s)]


def after_leaf(s: State) -> None:
    formula(s)
    s.handles = [s.x.register_post_accumulate_grad_hook(s)]


def after_node(s: State) -> None:
    formula(s)
    s.handles = [s.held[3].grad_fn.register_hook(s), s.held[1].grad_fn.register_hook(s)]


def before_node(s: State) -> None:
    formula(s)
    s.handles = [s.held[3].grad_fn.register_prehook(s), s.held[0].grad_fn.register_prehook(s)]


def on_several(s: State) -> None:
    formula(s)
    s.handles = [register_multi_grad_hook(s.held[:3], s)]


def unpacking(s: State) -> None:
    with saved_tensors_hooks(lambda t: t, lambda t: given if (given := s(t)) is not None else t):
        formula(s)


def own_formula(s: State) -> None:
    class Double(ferro.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.exp() / x.exp() * x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (_,) = ctx.saved_tensors
            given = s(g)
            return g * 2 if given is None else given

    formula(s, Double.apply)


def recomputed(s: State) -> None:
    calls: list[None] = []

    def double(x: Any) -> Any:
        calls.append(None)
        given = s(x) if len(calls) > 1 else None
        return (x * 2).exp().log() if given is None else given

    formula(s, lambda x: checkpoint(double, x, use_reentrant=False))


PLACES: dict[str, Callable[[State], None]] = {
    "a hook of tensors": on_tensor,
    "a hook of the leaf": on_leaf,
    "a hook after the leaf": after_leaf,
    "a hook of nodes": after_node,
    "a hook before nodes": before_node,
    "a hook of several tensors": on_several,
    "an unpack hook": unpacking,
    "a backward of the user's": own_formula,
    "a checkpoint": recomputed,
}


# -- how backward is called ---------------------------------------------------------------------------------------------


def plainly(loss: list, x: Any) -> Any:
    loss.pop().backward()
    return x.grad


def retaining(loss: list, x: Any) -> Any:
    loss.pop().backward(retain_graph=True)
    return x.grad


def threaded(loss: list, x: Any) -> Any:
    ferro.autograd.backward(loss.pop(), num_threads=2)
    return x.grad


def captured(loss: list, x: Any) -> Any:
    return ferro.autograd.grad(loss.pop(), x)[0]


def recorded(loss: list, x: Any) -> Any:
    return ferro.autograd.grad(loss.pop(), x, create_graph=True)[0]


WAYS: dict[str, Callable[[list, Any], Any]] = {
    "backward()": plainly,
    "backward(retain_graph=True)": retaining,
    "backward(num_threads=2)": threaded,
    "grad()": captured,
    "grad(create_graph=True)": recorded,
}


def worked() -> None:
    """ferro works as ever."""
    s = State()
    formula(s)
    s.loss.backward()
    np.testing.assert_allclose(s.x.grad.numpy(), WANT, rtol=1e-4)


def pulled(place: str, way: str) -> None:
    """Everything that a function may do, at one place of one backward."""
    for name, (act, harmless) in ACTS.items():
        said = f"{way}, {place} {name}"
        if PLACES[place] is after_leaf and name == "runs the same in a thread":
            continue  # it would wait for the leaf's turn, which is this hook's until it ends (as in PyTorch)
        s = State()
        s.act = act
        before = mode.MODE.get(), sys.gettrace()
        PLACES[place](s)
        watched = [weakref.ref(t) for t in s.held if isinstance(t, ferro.Tensor)]
        result = outcome(said, interruptible, WAYS[way], [s.loss], s.x)
        assert STATE.run is None, f"{said}: the thread is in a backward for ever"
        if act in (leaves_modes, packs):  # (what a hook switches on and leaves on is undone by its backward)
            assert ferro.is_grad_enabled(), f"{said}: recording is off"
        assert (mode.MODE.get(), sys.gettrace()) == before, f"{said}: the mode is {mode.MODE.get()}"
        assert s.reached, f"{said}: was not called"
        if harmless and not (place == "a checkpoint" and name in DIFFERENT):
            assert not isinstance(result, Raised), f"{said}: {result}"
            np.testing.assert_allclose(result.detach().numpy(), WANT, rtol=1e-4, err_msg=said)
        worked()
        s.__dict__.clear()
        del s, result
        gc.collect()
        left = [w for w in watched if w() is not None]
        assert not left, f"{said}: {len(left)} tensors of the graph stay alive"


def interruptible(function: Callable, *args: Any) -> Any:
    """The call, whose result may be an exception of any kind."""
    try:
        return function(*args)
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as e:
        return Raised(e.with_traceback(None))  # type: ignore[arg-type]


def cases(options: Options) -> Iterator[tuple[str, Callable]]:
    """The cases: every place of every backward."""
    for place in PLACES:
        for way in WAYS:
            if (place, way) != ("a hook after the leaf", "grad()") and (place, way) != (
                "a hook after the leaf",
                "grad(create_graph=True)",
            ):
                yield f"{way}, {place}", lambda place=place, way=way: pulled(place, way)
