"""Backwards of loops: a graph for a trip, which adds to the gradients of invariants and hands those of carried values on.

Note [Phases].  Which carried values have a gradient may differ from trip to trip: in the last one those of the results that got one, before
it those that the last one reads. So there is a graph for each set, in the order in which they follow each other, and sets that come
again are not made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ferro.core import backend
from ferro.graph.array import Traced
from ferro.graph.control.building import Builder, derived, packing
from ferro.graph.control.derivatives import body_taped, differentiable, padded, recorded, results, run
from ferro.graph.control.looping import reversed_loop
from ferro.graph.formulas import Cotangents
from ferro.graph.graph import Graph
from ferro.graph.ir import GRAD, Value
from ferro.graph.operands import arguments, operands_of


def prepared_body(body: Graph, count: int, varying: int) -> tuple[Graph, list]:
    """The captured body of a loop that keeps what its backward needs, and which results have a gradient: of `count` carried values also
    those that have one where no trip is made. `varying` inputs are others in each trip.
    """
    graded = [h == GRAD or (j < count and body.inputs[j].requires_grad) for j, h in enumerate(body.histories)]
    if not any(graded):
        return body, graded
    body, gradient = differentiable(body)
    kept: list[Value] = []
    if gradient is not None:
        kept = [body.inputs[i] for i in gradient.captured_inputs if i < varying] + gradient._passed[1]
    return packing(body, kept), graded


class _Phase(NamedTuple):
    """A trip backwards: of which results there are cotangents, and to which invariants gradients have come."""

    present: tuple
    begun: frozenset


class Reversed(NamedTuple):
    """The graphs of trips, which follows the last, the inputs whose gradients go through all trips, those of slices, and those read."""

    phases: tuple
    back: int
    states: list
    slices: list
    reads: list


def reversed_trips(body: Graph, count: int, slices: int, first: _Phase, wanted: tuple) -> Reversed:
    """The backward of the body of a loop that carries `count` values."""
    key = "reversed", first, wanted
    if key not in body.derived:
        body.derived[key] = _reversed(body, count, slices, first, wanted)
    return body.derived[key]


def _reversed(body: Graph, count: int, slices: int, phase: _Phase, wanted: tuple) -> Reversed:
    inputs = body.inputs
    carried = [j for j in range(count) if inputs[j].requires_grad]
    some = [i for i in range(count, len(inputs)) if wanted[i] and inputs[i].requires_grad]
    pieces, others = [i for i in some if i < count + slices], [i for i in some if i >= count + slices]
    want = tuple([i in {*carried, *some} for i in range(len(inputs))])
    seen: dict[_Phase, Any] = {}
    while phase not in seen:
        seen[phase] = gradient = derived(body, phase.present, want, tuple(sorted(phase.begun)))
        came = _came(gradient, [*carried, *some])
        carries = tuple([j in came for j in range(count)])
        phase = _Phase((*carries, *phase.present[count:]), phase.begun | came.intersection(others))
    reads = sorted({i for g in seen.values() if g is not None for i in g.captured_inputs if i >= count + slices})
    graphs = [_trip(body, count, p, g, Reversed((), 0, [*carried, *others], pieces, reads)) for p, g in seen.items()]
    return Reversed(tuple(graphs), list(seen).index(phase), [*carried, *others], pieces, reads)


def _came(gradient: Any, wrts: Sequence[int]) -> set:
    """The inputs to whose gradients something came."""
    if gradient is None:
        return set()
    return {i for i, n in zip(sorted(wrts), gradient.counts, strict=True) if n}


def _trip(body: Graph, count: int, phase: _Phase, gradient: Any, like: Reversed) -> Graph:
    """The graph of a trip."""
    inputs = body.inputs
    all_present = tuple([j in like.states for j in range(count)]) + phase.present[count:]
    builder = Builder(body, all_present, like.reads)
    invariants = [i for i in like.states if i >= count]
    sums = {i: builder.input(inputs[i]) for i in invariants}
    place = sum(j < count for j in like.states)
    builder.inputs[place:place] = sums.values()
    found = iter(builder.contributions(gradient, phase.present, [sums[i] for i in sorted(phase.begun)]))
    parts: dict[int, list] = {i: next(found, []) for i in sorted([*like.states, *like.slices])}
    outputs = [builder.total(parts[i]) if parts[i] else builder.absent(inputs[i]) for i in like.states]
    outputs += [builder.total(parts[i]) if parts[i] else builder.absent(inputs[i], 0.0) for i in like.slices]
    return builder.graph(outputs, "")


def loop_vjp(
    g: tuple, needs: Sequence[bool], xs: Sequence, out: tuple, body: Graph, count: int, slices: int, reverse: bool
) -> list:
    """The gradients by the operands of a loop. Those of invariants begin with what there is already, if `g` or the capture says so."""
    varying = count + slices
    xs, needs = operands_of(xs, varying), operands_of(needs, varying)
    gs, saved = results(g, out, body)
    known = g.begun if isinstance(g, Cotangents) else saved[0].recorder.gathered if isinstance(saved[0], Traced) else {}
    begun = operands_of([known.get(i) for i in range(len(xs))], varying)
    present = tuple([x is not None for x in gs])
    there = frozenset([i for i, b in enumerate(begun) if b is not None and i >= varying])
    made = reversed_trips(body, count, slices, _Phase(present, there), tuple(needs))
    begins = {i: gs[i] if i < count else begun[i] for i in made.states}
    given = [b for b in begins.values() if b is not None]
    numbers = iter(range(len(given)))
    slots = tuple(
        [(body.inputs[i].shape, body.inputs[i].dtype) if b is None else next(numbers) for i, b in begins.items()]
    )
    stacked = [x for x in gs[count:] if x is not None]
    given += [*stacked, *[xs[i] for i in made.reads]]
    length = xs[count].shape[0] if slices else 0
    found = run(reversed_loop, *saved, given, made.phases, made.back, slots, len(stacked), length, reverse)
    grads = dict(zip([*made.states, *made.slices], found, strict=True))
    return list(arguments([grads.get(i) if need else None for i, need in enumerate(needs)], varying))


def while_vjp(
    xp: Any, g: tuple, needs: Sequence[bool], xs: Sequence, out: tuple, condition: Graph, body: Graph, count: int
) -> list:
    """The gradients by the operands of a loop with a condition."""
    needs = padded(needs, xs)
    if xp is backend.functional:
        return recorded(while_taped, g, needs, xs, condition, body, count)
    return loop_vjp(g, needs, xs, out, body, count, 0, False)


def scan_vjp(
    xp: Any,
    g: tuple,
    needs: Sequence[bool],
    xs: Sequence,
    out: tuple,
    body: Graph,
    count: int,
    slices: int,
    reverse: bool,
) -> list:
    """The gradients by the operands of a scan."""
    needs = padded(needs, xs)
    if xp is backend.functional:
        return recorded(scan_taped, g, needs, xs, body, count, slices, reverse)
    return loop_vjp(g, needs, xs, out, body, count, slices, reverse)


# -- on the tape -------------------------------------------------------------------------------------------------------


def while_taped(xs: Sequence, condition: Graph, body: Graph, count: int) -> list:
    """The results of a loop, as tensors of the tape."""
    xs = operands_of(xs, count)
    carried, others = list(map(_aliased, xs[:count])), xs[count:]
    while body_taped(condition, [*carried, *others])[0].item():
        carried = body_taped(body, [*carried, *others])[:count]
    return carried


def scan_taped(xs: Sequence, body: Graph, count: int, slices: int, reverse: bool) -> list:
    """The results of a scan, as tensors of the tape."""
    functional = backend.functional
    xs = operands_of(xs, count + slices)
    carried, others = list(map(_aliased, xs[:count])), xs[count + slices :]
    parts = [functional.unbind(x, 0) for x in xs[count : count + slices]]
    end = len(body.outputs) - (body.outputs[-1].node is not None and body.outputs[-1].node.function == "control.pack")
    ys: list = []
    trips = list(zip(*parts, strict=True))
    for slice_ in reversed(trips) if reverse else trips:
        made = body_taped(body, [*carried, *slice_, *others])
        carried = made[:count]
        ys.append(made[count:end])
    ys = ys[::-1] if reverse else ys
    return [*carried, *[functional.stack(y) for y in zip(*ys, strict=True)]]


def _aliased(t: Any) -> Any:
    return t if t._node is None else t.view_as(t)
