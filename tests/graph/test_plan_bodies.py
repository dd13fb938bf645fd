"""Memory plans of branches and loops: one arena for all, places that trips take by turns, slices that are written into their stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.core.apply import apply
from ferro.core.op import Op
from ferro.graph import capture
from ferro.graph.compare import same_bits
from ferro.graph.errors import PlanError
from ferro.graph.planning import replays
from ferro.graph.planning.plan import Plan
from ferro.native.arena import refusal
from tests.graph.test_plan import operation

pytestmark = pytest.mark.skipif(bool(refusal()), reason=f"no arenas here: {refusal()}")

N = 1000
BYTES = 4 * N


def planned(function: Callable, *given: Any, **options: Any) -> Plan:
    """The plan of a function, after runs that have eager's bits, in an arena full of nan."""
    graph = capture(function, *given).optimise()
    made = graph.plan(**options)
    made.verify()
    want = function(*given)
    want = [t.detach() for t in (want if isinstance(want, tuple) else (want,))]
    for poison in (True, False, True):
        found = made.run(*given, poison=poison)
        assert [same_bits(x._data, y._data) for x, y in zip(found, want, strict=True)] == [True] * len(want)
    return made


def loop(body: Callable, count: int) -> Callable:
    """A loop that carries `count` arrays of its own beside a counter."""

    def function(x: Any, n: Any) -> Any:
        first = [x.sin() + k for k in range(count)]
        *found, _ = ferro.while_loop(lambda *c: c[-1] < n, lambda *c: (*body(*c[:-1]), c[-1] + 1), (*first, n * 0))
        total = found[0]
        for k, t in enumerate(found[1:], 2):
            total = total + k * t
        return total.sum()

    return function


def keeping(name: str, kept: list) -> Op:
    """An operation that keeps an array which it makes on the way, if the list is not empty."""

    def forward(xp: Any, x: Any) -> Any:
        y = x * 2
        if kept:
            kept.append(y)
        return y + 1

    return operation(name, forward)


CARRIED = {  # the body of a loop, and how many places the arrays need that it makes
    "swap": (lambda a, b: (b, a), 2, 0),
    "sum of two": (lambda a, b: (b, a + b), 2, 2),
    "no sum in place": (lambda a, b: (b, a.cumsum(0) / 9 + b), 2, 2),
    "ring": (lambda a, b, c: (b, c, a * 1.5), 3, 3),
    "in place": (lambda a: (a * 1.5,), 1, 1),
    "before the result": (lambda a: ((a.cumsum(0) / 9).sin(),), 1, 1),
    "read behind the result": (lambda a: (a.cumsum(0) / (1 + (a.cumsum(0) / 9).abs().max()) + a.flip(0),), 1, 1),
    "read by all": (lambda a, b: (a.cumsum(0) / 9, b + a), 2, 3),
}


@pytest.mark.parametrize("order", ["serial", "any"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("name", CARRIED)
def test_nothing_that_trips_carry_is_copied(name: str, trips: int, order: str) -> None:
    body, count, places = CARRIED[name]
    x, n = ferro.rand(N), ferro.tensor(trips)
    made = planned(loop(body, count), x, n, order=order)
    (inner,) = made.inners.values()
    large = [place for store in inner.stores for j, place in store.places.items() if j < count]
    assert sum(turns for *_, turns in large) == places
    copied = planned(loop(body, count), x, n, order=order, rotate=False)
    if order == "serial":  # (otherwise what begins is held until the loop has ended)
        assert made.copied == 0
        assert (
            made.outside <= 8 or trips < count
        )  # (an argument that comes out itself holds a place that is planned for others)
    per_trip = count * BYTES + 8
    assert copied.copied - made.copied in (trips * per_trip, trips * per_trip - made.copied)


def test_what_begins_a_loop_is_one_place_with_what_it_carries_unless_it_is_read_afterwards() -> None:
    def alone(x: Any, n: Any) -> Any:
        return ferro.while_loop(lambda a, i: i < n, lambda a, i: ((a.sin() * 2).cos(), i + 1), (x.exp(), n * 0))[
            0
        ].sum()

    def read(x: Any, n: Any) -> Any:
        y = x.exp()
        z = ferro.while_loop(lambda a, i: i < n, lambda a, i: ((a.sin() * 2).cos(), i + 1), (y, n * 0))[0]
        return (z - y).sum()

    for function, shared in ((alone, True), (read, False)):
        made = planned(function, ferro.rand(N), ferro.tensor(3))
        table = {row.name: row for row in made.table()}
        first = next(row for row in table.values() if row.kind == "arena" and row.bytes == BYTES)
        carried = next(row for row in table.values() if row.kind == "carried" and row.shape == (N,))
        assert (first.offset == carried.offset) is shared
        assert carried.folded is shared
        assert first.address is not None
    apart = planned(alone, ferro.rand(N), ferro.tensor(3), fold=False)
    rows = [row.offset for row in apart.table() if row.kind in ("arena", "carried") and row.shape == (N,)]
    assert len(set(rows)) == 2


def test_branches_share_their_memory_and_one_that_would_raise_does_not_run() -> None:
    armed: list = []

    def raising(xp: Any, x: Any) -> Any:
        if armed:
            raise ValueError("planted")
        return x * 2

    op = operation("tests.bodies.raising", raising)

    def first(x: Any) -> Any:
        return ((x.cumsum(0) * 2).sin().cumsum(0) + x).cos()

    def second(x: Any) -> Any:
        return ferro.cat([x, x * 2]).cumsum(0)[:N].sin()

    def both(x: Any) -> Any:
        return ferro.cond(x.sum() > 0, first, second, (x * 2,)).exp().sum()

    def one(branch: Callable) -> Callable:
        return lambda x: ferro.cond(x.sum() > 0, branch, lambda x: x * 1.0, (x * 2,)).exp().sum()

    x = ferro.rand(N)
    sizes = [next(iter(planned(f, x).inners.values())).size for f in (both, one(first), one(second))]
    assert max(sizes[1:]) <= sizes[0] <= max(sizes[1:]) + 64 * 8 < sum(sizes[1:])
    made = planned(both, x)
    assert made.outside <= 8
    assert same_bits(made.run(-x, poison=True)[0]._data, both(-x)._data)
    assert made.outside <= 8
    guarded = planned(lambda x: ferro.cond(x.sum() < 0, lambda x: apply(op, (x,)), first, (x * 2,)).sum(), x)
    armed.append(True)
    with pytest.raises(ValueError, match="planted"):
        guarded.run(-x)
    assert same_bits(guarded.run(x, poison=True)[0]._data, first(x * 2).sum()._data)


def test_the_backward_of_a_branch_runs_in_the_same_arena() -> None:
    w = ferro.rand(N, requires_grad=True)

    def step(x: Any) -> Any:
        y = ferro.cond(x.sum() > 0, lambda x: (x * w).sin() * w, lambda x: (x + w).tanh(), (x * 2,))
        (g,) = ferro.autograd.grad((y * y).sum(), w)
        return (g * 2).sum()

    for x in (ferro.rand(N), -ferro.rand(N)):
        made = planned(step, x)
        assert [n.function for n in made.graph.nodes if n.graphs] == ["cond", "control.branch"]
        kept = [a.size for a in made.inners[next(iter(made.inners))].bodies[0].allocations if a.reason]
        assert made.outside <= sum(kept) + 2 * BYTES


NESTED = {
    "loops in a loop": lambda x, w, n: ferro.while_loop(
        lambda i, y: i < n,
        lambda i, y: (
            i + 1,
            ferro.while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, (z * w).sin() + z), (i * 0, y * 2))[1] * w + x,
        ),
        (n * 0, x),
    )[1],
    "cond in a loop": lambda x, w, n: ferro.while_loop(
        lambda i, y: i < n,
        lambda i, y: (i + 1, ferro.cond(y.sum() > 0, lambda y: (y * w).sin() - x, lambda y: (y + w).tanh() * w, (y,))),
        (n * 0, x),
    )[1],
    "scan in a loop": lambda x, w, n: ferro.while_loop(
        lambda i, y: i < n,
        lambda i, y: (i + 1, ferro.scan(lambda c, r: ((c + r).tanh(), c * r), y, x.outer(w)[:5])[1].sum(0) + y / 2),
        (n * 0, x),
    )[1],
}


@pytest.mark.parametrize("order", ["serial", "any"])
@pytest.mark.parametrize("name", NESTED)
def test_bodies_have_no_arena_of_their_own(name: str, order: str) -> None:
    x, w = ferro.rand(N), ferro.rand(N)
    made = planned(lambda x, n: NESTED[name](x, w, n).sum(), x, ferro.tensor(4), order=order)
    few, many = ferro.tensor(4), ferro.tensor(40)
    made.run(x, few)
    before = made.outside
    want = NESTED[name](x, w, many).sum()
    assert same_bits(made.run(x, many, poison=True)[0]._data, want._data)
    inside = [row for row in made.table() if row.kind == "inside"]
    assert len(inside) >= 4
    assert all(row.offset is not None and 0 <= row.offset < made.arena_bytes for row in inside)
    # Outside lie the results, and what a trip carries that comes out of a loop in it; 40 trips make no more of it than 4 of theirs.
    assert made.outside <= 12 * before
    assert made.arena_bytes <= made.lower_bound + 64 * 2 * len(made.table())


@pytest.mark.parametrize("name", NESTED)
def test_gradients_of_loops_run_by_plan(name: str) -> None:
    w = ferro.rand(N, requires_grad=True)

    def step(x: Any, n: Any) -> Any:
        y = NESTED[name](x, w, n)
        return ferro.autograd.grad((y * y).sum(), w)[0] * 2

    x, n = ferro.rand(N), ferro.tensor(3)
    graph = capture(step, x, n).optimise()
    for order in ("serial", "any"):
        made = graph.plan(order=order)
        made.verify()
        for some in (x, x * 2, -x):
            assert same_bits(made.run(some, n, poison=True)[0]._data, graph.interpret(some, n)[0]._data)


def test_memory_does_not_grow_by_trips_that_keep_nothing() -> None:
    function = loop(lambda a, b: ((a * b).cumsum(0).sin(), a + 1), 2)
    made = planned(function, ferro.rand(N), ferro.tensor(2))
    outside = []
    for trips in (2, 20, 200):
        made.run(ferro.rand(N), ferro.tensor(trips))
        outside.append(made.outside)
    assert outside[0] == outside[1] == outside[2] <= 8


def test_slices_are_read_and_written_in_place() -> None:
    w = ferro.rand(20, 20, requires_grad=True)

    def forward(x: Any) -> Any:
        last, ys = ferro.scan(lambda h, x: ((h @ w + x).tanh(), h.sin()), x[0], x)
        return (ys * 2).sum() + last.sum()

    def step(x: Any) -> Any:  # each slice is kept for backward and carried, too
        _, ys = ferro.scan(lambda h, x: ((h := (h @ w + x).tanh()), h), x[0], x)
        return ferro.autograd.grad((ys * ys).sum(), w)[0].sum()

    x = ferro.rand(50, 8, 20)
    for function, order in ((forward, "serial"), (forward, "any"), (step, "serial"), (step, "any")):
        made = planned(function, x, order=order)
        names = [n.function for n in made.graph.nodes]
        assert not any("cat" in name or "stack" in name for name in names)
        assert made.copied <= 2 * 8 * 20 * 4  # (the last carried one lies in the stack)
    without = planned(forward, x)
    inner = next(iter(without.inners.values()))
    inner.slices[0].clear()
    without._retire()
    assert same_bits(without.run(x)[0]._data, forward(x)._data)
    assert without.copied >= 50 * 8 * 20 * 4


def test_a_stack_is_given_up_where_a_trip_makes_its_arrays_in_another_order() -> None:
    kept: list = []

    def varying(xp: Any, x: Any) -> Any:
        if kept:
            kept.append(x + 100)  # (the size of the result, and it stays)
        return x * 2

    op = operation("tests.bodies.varying", varying)

    def function(x: Any) -> Any:
        return ferro.scan(lambda c, r: (c + 1, apply(op, (r,))), x[0], x)[1].exp().sum()

    x = ferro.rand(6, 300)
    made = planned(function, x)
    kept.append(None)
    for _ in range(3):
        assert same_bits(made.run(x, poison=True)[0]._data, (x * 2).exp().sum()._data)
    found = kept[1:]
    assert len(found) == 18
    for k, y in enumerate(found):
        assert same_bits(y, (x[k % 6] + 100)._data)


def test_what_a_body_leaks_is_not_written_over() -> None:
    kept: list = []

    op = keeping("tests.bodies.keeping", kept)
    function = loop(lambda a, b: (apply(op, (b,)).sin(), (a + 1) * 2), 2)
    x, n = ferro.rand(N), ferro.tensor(7)
    want = function(x, n)
    made = planned(function, x, n)
    kept.append(None)
    for _ in range(3):
        assert same_bits(made.run(x, n, poison=True)[0]._data, want._data)
    found = [y.copy() for y in kept[1:]]
    want_kept, kept[:] = kept[1:], [None]
    function(x, n)
    assert [same_bits(a, b) for a, b in zip(found, kept[1:] * 3, strict=True)] == [True] * 21
    assert len(want_kept) == 21


def test_what_a_body_leaks_is_not_written_over_by_a_loop_in_place() -> None:
    kept: list = []

    op = keeping("tests.bodies.keeping_twice", kept)

    def function(x: Any, n: Any) -> Any:
        y = ferro.cond(x.sum() > 0, lambda x: apply(op, (apply(op, (x,)).sin(),)).sin(), lambda x: x * 2, (x + 1,))
        z = ferro.while_loop(lambda z, i: i < n, lambda z, i: (z * 1.5, i + 1), (y.exp(), n * 0))[0]
        return z.sum()

    x, n = ferro.rand(N), ferro.tensor(3)
    made = capture(function, x, n).optimise().plan()
    store = next(a for a in made.allocations if a.store is not None and a.folded is not None)
    block = next(a for a in made.allocations if a.inner is not None)
    leaked = next(a for a in block.inner.bodies[0].allocations if not a.values and a.size == BYTES)
    store.offset = store.folded.offset = block.offset + leaked.offset + 64  # in what is leaked
    made.arena_bytes += 2 * BYTES
    for _ in range(2):
        kept[:] = [None]
        found = made.run(x, n)[0]
        got = [y.copy() for y in kept[1:]]
        kept[:] = [None]
        assert same_bits(found._data, function(x, n)._data)
        assert len(got) == 2
        assert all(map(same_bits, got, kept[1:]))


def test_an_error_in_a_trip_leaves_the_next_run_right() -> None:
    fails = [0]

    def failing(xp: Any, x: Any) -> Any:
        if fails[0]:
            fails[0] -= 1
            if not fails[0]:
                raise ValueError("planted")
        return x + 1

    op = operation("tests.bodies.failing", failing)

    def function(x: Any, n: Any) -> Any:
        a, ys = ferro.scan(lambda c, r: ((apply(op, (c,)) * r).sin(), c + r), x[0] * 2, x)
        b = ferro.while_loop(lambda y, i: i < n, lambda y, i: (apply(op, (y,)) / 2, i + 1), (a * 2, n * 0))[0]
        return (ys * b).sum()

    x, n = ferro.rand(9, 300), ferro.tensor(6)
    want = function(x, n)
    for order in ("serial", "any"):
        made = planned(function, x, n, order=order)
        for k in (3, 12):
            fails[0] = k
            with pytest.raises(ValueError, match="planted") as caught:
                made.run(x, n)
            fails[0] = 0
            for _ in range(2):  # (the traceback still holds arrays of the run before)
                assert same_bits(made.run(x, n, poison=True)[0]._data, want._data)
            del caught
            assert same_bits(made.run(x, n, poison=True)[0]._data, want._data)


def test_a_branch_writes_where_the_caller_says() -> None:
    graph = capture(
        lambda x: ferro.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,)), ferro.rand(N)
    ).optimise()
    made = graph.plan()
    for x in (ferro.rand(N), -ferro.rand(N)):
        out = ferro.empty(N)
        assert made.run(x, out=[out])[0] is out
        assert same_bits(out._data, graph.interpret(x)[0]._data)
        assert made.outside <= 8


def test_a_run_behind_one_that_wrote_elsewhere_makes_results_of_its_own() -> None:
    def function(x: Any) -> Any:
        return ferro.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))

    for order in ("serial", "any"):
        made, x, out = capture(function, ferro.rand(N)).optimise().plan(order=order), ferro.rand(N), ferro.empty(N)
        made.run(x)
        made.run(x, out=[out])
        (found,) = made.run(x * 2)
        assert same_bits(out._data, x.sin()._data)
        assert same_bits(found._data, (x * 2).sin()._data)
        assert not np.shares_memory(found._data, out._data)


def test_planted_errors_in_bodies_are_found() -> None:
    def made() -> Plan:
        function = loop(lambda a, b: ((a * b).cumsum(0).sin() + (a.exp() * b).cumsum(0), (a + 1) * 2), 2)
        found = capture(function, ferro.rand(N), ferro.tensor(2)).optimise().plan()
        found.verify()
        return found

    def plant(change: Callable, said: str) -> None:
        some = made()
        (inner,) = some.inners.values()
        change(inner)
        with pytest.raises(PlanError, match=said):
            some.verify()

    def placed(inner: Any) -> list:
        return [a for a in inner.bodies[0].allocations if a.offset is not None and a.size >= BYTES and not a.folded]

    def together(inner: Any) -> None:
        a, b = next((a, b) for a in placed(inner) for b in placed(inner) if a.node < b.node <= a.last)
        b.offset = a.offset

    def fewer(inner: Any) -> None:
        store = next(s for s in inner.stores if max(n for *_, n in s.places.values()) > 1)
        j = next(j for j, (*_, n) in store.places.items() if n > 1)
        at, step, n = store.places[j]
        store.places[j] = at, step, n - 1

    def moved(inner: Any, name: int, by: int) -> None:
        store = inner.stores[0]
        j = next(iter(store.places))
        place = list(store.places[j])
        place[name] += by
        store.places[j] = tuple(place)

    plant(together, "the same place at the same time")
    plant(fewer, "written over before it was read")
    plant(lambda inner: setattr(placed(inner)[0], "offset", inner.size), "does not lie within")
    plant(lambda inner: setattr(placed(inner)[0], "offset", placed(inner)[0].offset + 4), "cache line")
    plant(lambda inner: moved(inner, 0, 4), "cache lines|overlap")
    plant(lambda inner: moved(inner, 1, -128), "bytes, its places")


def test_compiled_functions_with_loops_run_by_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    w = ferro.rand(200, 200, requires_grad=True)

    def function(x: Any) -> Any:
        _, ys = ferro.scan(lambda h, x: ((h := (h @ w / 9 + x).tanh()), h * 2), x[0], x)
        return (ys * ys).sum()

    monkeypatch.setattr(replays, "PLAN_LEAST", 0)
    compiled, x = ferro.compile(function), ferro.rand(30, 20, 200)
    grads = []
    for f in (*[compiled] * 6, function):
        w.grad = None
        f(x).backward()
        grads.append(w.grad)
    assert all(np.allclose(g._data, grads[-1]._data, rtol=1e-5) for g in grads)
    plans = compiled.explain().plans
    assert len(plans) == 2
    assert "of branches and loops" in plans[0].report()
