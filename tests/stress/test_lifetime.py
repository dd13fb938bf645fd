"""Lifetime: whatever a program does with the tape, reference counts alone take all of it away again; deep graphs too."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from ferro.autograd import forward_ad, functional
from ferro.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from ferro.core import engine, operands
from ferro.core.base import Meta, TensorBase, Version, View
from ferro.core.graph_task import Run, queue_callback
from ferro.core.node import Handle, Node, NodeMeta, OutputRef
from ferro.core.saved_values import Packed
from ferro.utils.checkpoint import checkpoint, checkpoint_sequential
from ferro.utils.data import DataLoader, TensorDataset
from ferro.utils.offload import save_in_bfloat16, save_on_disk

pytestmark = pytest.mark.timeout(120)
KINDS = (TensorBase, Node, OutputRef, NodeMeta, Meta, Version, View, Packed, Handle, Run)
DEPTH = 100_000


def census() -> Counter:
    """How many objects of the tape there are, by kind, and how many arrays own memory (cached constants not counted)."""
    operands._constants.clear()
    counts = Counter({kind.__name__: 0 for kind in KINDS})
    for o in gc.get_objects():
        for kind in KINDS:
            if issubclass(type(o), kind):
                counts[kind.__name__] += 1
                break
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    counts["arrays"] = len(tracemalloc.take_snapshot().filter_traces([domain]).traces)
    return counts


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The cycle collector stays off: what only it would find is a leak."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*shape: int) -> Any:
    return ferro.full(shape, 0.5, dtype=ferro.float64).requires_grad_()


# -- what programs do ---------------------------------------------------------------------------------------------------


def model() -> Any:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def training_steps(make: Callable) -> Callable:
    def scenario() -> None:
        net = model()
        optimizer = make(net.parameters())
        for _ in range(3):

            def closure() -> Any:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(ferro.ones(5, 4)), ferro.zeros(5, dtype=ferro.int64))
                loss.backward()
                return loss

            optimizer.step(closure)

    return scenario


def data_loader(workers: int) -> Callable:
    def scenario() -> None:
        loader = DataLoader(TensorDataset(ferro.rand(12, 4), ferro.rand(12, 3)), batch_size=4, num_workers=workers)
        net = model()
        for x, y in loader:
            (net(x) - y).square().sum().backward()
        for x, _ in loader:
            net(x)
            break  # left early

    return scenario


def left_without_backward() -> None:
    x = leaf(3)
    y = (x * x).exp()
    y.retain_grad()
    del x


class Cube(ferro.autograd.Function):
    """Saves an input and an output, and keeps a tensor on ctx."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        (x,) = inputs
        ctx.save_for_backward(x, output)
        ctx.kept = x.detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, out = ctx.saved_tensors
        return g * (3 * x * x + 0 * out)


class Broken(ferro.autograd.Function):
    """Raises where it is told to."""

    @staticmethod
    def forward(x: Any, where: str) -> Any:
        if where == "forward":
            raise ValueError("forward")
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise ValueError("backward")


def custom_function() -> None:
    x = leaf(3)
    Cube.apply(x).sum().backward()
    (g,) = ferro.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    Cube.apply(x)


def failing(where: str, threads: int) -> Callable:
    """An exception in forward, in a formula, in hooks of every kind, in unpack; on a worker too."""

    def fail(*args: Any) -> None:
        raise ValueError(where)

    def scenario() -> None:
        x = leaf(4)
        y = x.sin()
        if where in ("forward", "formula"):
            with contextlib.suppress(ValueError):
                y = Broken.apply(y, where)
        if where == "shapes":
            with contextlib.suppress(RuntimeError):
                y @ leaf(5, 5)
        if where == "hook":
            y.register_hook(fail)
        if where == "node hook":
            y.grad_fn.register_hook(fail)
        if where == "prehook":
            y.grad_fn.register_prehook(fail)
        if where == "leaf hook":
            x.register_hook(fail)
        if where == "post hook":
            x.register_post_accumulate_grad_hook(fail)
        if where == "multi hook":
            register_multi_grad_hook([x, y], fail)
        if where == "callback":
            y.register_hook(lambda g: queue_callback(fail))
        with saved_tensors_hooks(lambda t: t, fail) if where == "unpack" else contextlib.nullcontext():
            y = y * y
        if where == "pack":
            with contextlib.suppress(ValueError), saved_tensors_hooks(fail, lambda t: t):
                y = y * y
        if where == "recomputation":
            calls: list = []
            y = checkpoint(lambda y: y.exp() if not calls and not calls.append(1) else fail(), y, use_reentrant=False)
        loss = (y.exp() + y.cos() + x.sum()).sum()
        with contextlib.suppress(ValueError):
            ferro.autograd.backward(loss, num_threads=threads)

    return scenario


def hooks() -> None:
    x = leaf(3)
    y = x.sin()
    handles = [
        y.register_hook(lambda g: g * 2),
        x.register_hook(lambda g: None),
        y.grad_fn.register_hook(lambda gi, go: None),
        y.grad_fn.register_prehook(lambda go: None),
        x.register_post_accumulate_grad_hook(lambda t: None),
        register_multi_grad_hook([x, y], lambda gs: None),
        register_multi_grad_hook([x, y], lambda g: None, mode="any"),
    ]
    y.retain_grad()
    y.grad_fn.metadata["note"] = x
    y.sum().backward()
    handles[0].remove()
    y = None


def double_backward() -> None:
    x = leaf(3)
    y = (x.sin() * x.exp()).softmax(0).cumsum(0)
    (g,) = ferro.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ferro.autograd.grad(g.square().sum(), x, create_graph=True)
    h.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).sum().backward(create_graph=True)
    x.grad = None  # as PyTorch warns: a leaf and a gradient with a graph that leads to it are a cycle


def checkpoints(reentrant: bool) -> Callable:
    def scenario() -> None:
        x = leaf(3)

        def inner(x: Any) -> Any:
            return x.sin().exp()

        out = checkpoint(lambda x: checkpoint(inner, x, use_reentrant=reentrant) * x, x, use_reentrant=reentrant)
        out.sum().backward()
        checkpoint(inner, x, use_reentrant=reentrant)
        checkpoint_sequential([nn.Tanh(), nn.Tanh(), nn.Tanh()], 2, x, use_reentrant=reentrant).sum().backward()

    return scenario


def packed() -> None:
    x = leaf(3)
    for context in (saved_tensors_hooks(lambda t: t, lambda t: t), save_on_disk(min_bytes=0), save_in_bfloat16()):
        with context:
            y = Cube.apply(x.exp() * x).sum()
        y.backward(retain_graph=True)
        ferro.autograd.grad(y, x, create_graph=True)
        with context:
            x.exp()


def forward_mode() -> None:
    x = leaf(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, ferro.ones(3, dtype=ferro.float64))
        y = (dual.sin() * dual).softmax(0).clone()
        y[0] = dual.sum()
        forward_ad.unpack_dual(y).tangent.sum().backward()
    ferro.func.jvp(lambda a: ferro.func.jvp(lambda b: b.exp() * a, (a,), (a,))[1], (x,), (x.detach(),))


def views_and_writes() -> None:
    x = leaf(4)
    y = x.clone()
    v = y.view(2, 2)[0]
    v.mul_(2)
    y[1:] += x[:3]
    a, b = y.chunk(2)
    v.retain_grad()
    (v.exp().sum() + (a * b).sum()).backward()
    z = x.clone()
    w = z[:2]
    z.exp_()
    (w * w).sum().backward()
    with contextlib.suppress(RuntimeError):
        z = x.exp()
        saved = z.sum() + (z * z).sum()
        z.add_(1)
        saved.backward()


def functional_api() -> None:
    x = ferro.rand(3, dtype=ferro.float64)

    def f(x: Any) -> Any:
        return (x.sin() * x).sum()

    functional.jacobian(lambda x: x.exp() * x.sum(), x)
    functional.hessian(f, x)
    functional.vjp(f, x)
    functional.jvp(f, x, x)
    functional.hvp(f, x, x)
    functional.vhp(f, x, x)
    ferro.autograd.gradcheck(f, (x.clone().requires_grad_(),))
    ferro.autograd.gradgradcheck(f, (x.clone().requires_grad_(),))


def func_api() -> None:
    x = ferro.rand(3, dtype=ferro.float64)

    def f(x: Any) -> Any:
        return (x.sin() * x).sum()

    ferro.func.grad(f)(x)
    ferro.func.grad(ferro.func.grad(lambda s: s.sin() * s))(x[0])
    ferro.func.grad_and_value(f)(x)
    ferro.func.vjp(f, x)[1](ferro.ones((), dtype=ferro.float64))
    ferro.func.jvp(f, (x,), (x,))
    ferro.func.jacrev(lambda x: x.exp() * x.sum())(x)
    ferro.func.jacfwd(lambda x: x.exp() * x.sum())(x)
    ferro.func.hessian(f)(x)
    with contextlib.suppress(ValueError):
        ferro.func.grad(lambda x: Broken.apply(x, "formula").sum())(x)


def observed() -> None:
    x = leaf(3)
    with (
        ferro.autograd.profiler.profile(record_shapes=True, with_stack=True) as prof,
        ferro.autograd.profiler.record_function("mine"),
    ):
        (x.exp() * x).sum().backward()
    prof.table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(RuntimeError), ferro.autograd.detect_anomaly():
            y = (x * 0).sqrt() * 0
            y.sum().backward()
        with contextlib.suppress(ferro.debug.NonFiniteError), ferro.debug.nan_guard():
            (x - 1).log().sum().backward()
        with ferro.debug.nan_guard():
            (x + 1).log().sum().backward()
    loss = (x.exp() * x).sum()
    ferro.debug.memory(loss)
    ferro.debug.graph(loss)


def modes() -> None:
    x = leaf(3)
    with ferro.no_grad():
        y = x * 2
    with ferro.inference_mode():
        y = x * 2
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            (x * y).sum().backward()
    x.detach().sum()
    x.data.mul_(2)


PLACES = [
    "forward",
    "shapes",
    "formula",
    "hook",
    "node hook",
    "prehook",
    "leaf hook",
    "post hook",
    "multi hook",
    "callback",
    "pack",
    "unpack",
    "recomputation",
]
SCENARIOS: dict[str, Callable] = {
    "sgd": training_steps(lambda p: ferro.optim.SGD(p, 0.1, momentum=0.9)),
    "adam": training_steps(lambda p: ferro.optim.Adam(p, 0.1)),
    "adamw": training_steps(lambda p: ferro.optim.AdamW(p, 0.1)),
    "lbfgs": training_steps(lambda p: ferro.optim.LBFGS(p, 0.1, max_iter=3)),
    "data loader": data_loader(0),
    "data loader with threads": data_loader(2),
    "left without backward": left_without_backward,
    "custom function": custom_function,
    "hooks": hooks,
    "double backward": double_backward,
    "checkpoint": checkpoints(False),
    "reentrant checkpoint": checkpoints(True),
    "saved-tensor hooks": packed,
    "forward mode": forward_mode,
    "views and writes": views_and_writes,
    "functional": functional_api,
    "func": func_api,
    "profiler, anomaly mode, nan_guard": observed,
    "modes": modes,
    **{f"exception in {where}": failing(where, 1) for where in PLACES},
    **{f"exception in {where}, threads": failing(where, 4) for where in PLACES},
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_program_makes_dies_by_reference_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    scenario = SCENARIOS[name]
    for _ in range(2):  # what is made once stays: constants, compiled kernels, the pool's threads
        scenario()
    gc.collect()
    tracemalloc.start(1)
    try:
        scenario()
        before = census()
        for _ in range(3):
            scenario()
        after = census()
    finally:
        tracemalloc.stop()
    grown = {kind: (before[kind], after[kind]) for kind in after if after[kind] != before[kind]}
    assert not grown


def test_the_census_sees_a_leak() -> None:
    tracemalloc.start(1)
    try:
        before = census()
        x = leaf(3)
        kept = x.sin()
        kept.register_hook(lambda g: None)
        kept[:2]
        grown = census() - before
    finally:
        tracemalloc.stop()
    assert grown["Node"] == 1
    assert grown["arrays"] == 2
    assert min(grown[kind] for kind in ("TensorBase", "NodeMeta", "Version")) >= 1


# -- weak references ------------------------------------------------------------------------------------------------------


def watched(x: Any) -> tuple[Any, list]:
    """A loss of x over several kinds of nodes, and weak references to what its graph is made of."""
    y = x.sin()
    a, b = (y * x).chunk(2)
    c = Cube.apply(a * b)
    d = checkpoint(lambda c: c.exp(), c, use_reentrant=False)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        e = d.square()
    d = d.view(-1)
    loss = (e + d).sum()
    return loss, [weakref.ref(v) for t in (y, a, c, d, e) for v in (t, t.grad_fn)]


def alive(refs: list) -> list:
    return [r() for r in refs if r() is not None]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("retain", [False, True])
def test_a_graph_dies_with_its_loss_and_its_saved_values_with_backward(retain: bool) -> None:
    x = leaf(4)
    loss, refs = watched(x)
    assert len(alive(refs)) == 5 + 2  # the nodes, and what nodes have saved: the tensors y and c are inputs of others
    loss.backward(retain_graph=retain)
    kept = [r for r in alive(refs) if isinstance(r, TensorBase)]
    assert bool(kept) == retain
    nodes = [r for r in refs if isinstance(r(), Node)]
    assert len(nodes) == 5  # the nodes stay as long as the loss
    del kept
    del loss
    assert not alive(refs)
    assert x.grad is not None


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("threads", [1, 4])
def test_a_graph_lives_no_longer_than_the_exception_that_left_backward(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "worth_sharing", lambda *_: True)
    x = leaf(4)
    loss, refs = watched(x)

    def fail(g: Any) -> None:
        raise ValueError("hook")

    x.register_hook(fail)
    try:
        ferro.autograd.backward(loss, num_threads=threads)
    except ValueError as e:
        kept = e
    assert kept.__traceback__ is not None
    del loss
    # the traceback holds frames, as every traceback does; what it holds goes with it
    kept = None
    assert not alive(refs)


@pytest.mark.usefixtures("no_collector")
def test_arrays_of_a_chain_are_let_go_of_while_backward_runs() -> None:
    """Backward frees as it goes: at the leaf's hook nothing that was saved further up is alive."""
    x = leaf(8)
    y = x * 1
    refs = []
    z = y
    for _ in range(10):
        z = z.sin()
        refs.append(weakref.ref(z))
    loss = z.sum()
    del z
    assert len(alive(refs)) == 9  # each but the last is saved by the next
    seen = []
    y.register_hook(lambda g: seen.append(len(alive(refs))))
    del y
    loss.backward()
    assert seen == [0]


# -- deep graphs -------------------------------------------------------------------------------------------------------------


class Same(ferro.autograd.Function):
    """Keeps its input on ctx: a chain of nodes that hold tensors that hold nodes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = x
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def hooked(x: Any) -> Any:
    """A node with a hook that holds the tensor before."""
    y = x.sin()
    y.register_hook(lambda g, before=x: None)
    return y


def noted(x: Any) -> Any:
    """A node whose metadata hold the tensor before."""
    y = -x
    y.grad_fn.metadata["before"] = x
    return y


def written(x: Any) -> Any:
    """The same base, changed once more through a view."""
    x[:1].mul_(1.0)
    return x


def behind_hooks(x: Any) -> Any:
    """A node whose saved values are in the hands of hooks."""
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        return x.sin()


# one link of a chain, and how many links (a fraction of DEPTH where one takes long)
LINKS: dict[str, tuple[Callable, int]] = {
    "edges": (lambda x: -x, 1),
    "saved": (lambda x: x.sin(), 1),
    "picks": (lambda x: (-x).chunk(1)[0], 4),
    "writes": (written, 4),
    "packed": (behind_hooks, 8),
    "functions": (Same.apply, 8),
    "hooks": (hooked, 4),
    "metadata": (noted, 4),
    "checkpoints": (lambda x: checkpoint(lambda x: x.sin(), x, use_reentrant=False), 50),
}


def chain(x: Any, kind: str, depth: int = DEPTH) -> Any:
    """A chain of nodes that are tied to each other in one way or another."""
    link, fraction = LINKS[kind]
    if kind == "writes":
        x = x.clone()
    for _ in range(depth // fraction):
        x = link(x)
    return x


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("way", ["del", "backward", "exception", "kept graph", "recorded backward"])
def test_a_deep_graph_is_freed_without_recursion(way: str, kind: str) -> None:
    x = leaf(2)
    y = x * 1
    fail = [way == "exception"]

    def hook(g: Any) -> None:
        if fail[0]:
            raise ValueError("at the far end")

    y.register_hook(hook)
    loss = chain(y, kind, DEPTH // 10 if way == "recorded backward" else DEPTH).sum()
    first = weakref.ref(y.grad_fn)
    del y
    if way == "exception":
        with contextlib.suppress(ValueError):
            loss.backward()
    elif way == "recorded backward":
        (g,) = ferro.autograd.grad(loss, x, create_graph=True)
        del g
    elif way != "del":
        loss.backward(retain_graph=way == "kept graph")
        assert x.grad is not None
    del loss
    assert first() is None


@pytest.mark.parametrize("kind", ["edges", "saved", "functions"])
@pytest.mark.parametrize("knot", ["hook", "ctx", "metadata", "recorded gradient"])
def test_a_deep_graph_in_a_cycle_is_freed_by_the_collector(knot: str, kind: str) -> None:
    gc.collect()
    x = leaf(2)
    y = Same.apply(x * 1)
    z = chain(y, kind, DEPTH if knot != "recorded gradient" else DEPTH // 10)
    first = weakref.ref(y.grad_fn)
    if knot == "hook":
        y.register_hook(lambda g, z=z: None)
    elif knot == "ctx":
        y.grad_fn.kept = z
    elif knot == "metadata":
        y.grad_fn.metadata["end"] = z
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (z * z).sum().backward(create_graph=True)
    del x, y
    gc.disable()
    try:
        z = None  # type: ignore[assignment]
        assert first() is not None
        gc.collect()
        assert first() is None
    finally:
        gc.enable()
