"""The graphs of a derivative, optimised together: what `forward` passes on to `backward` is passed on once, and only if it is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ferro.graph.ir import CAPTURED, CONSTANT, Value
from ferro.graph.passes import PASSES, chosen, finished, run
from ferro.graph.passes.program import Program
from ferro.graph.passes.twins import of_backward, of_forward

CAPTURES = "captures"
DEFAULT = (*PASSES, CAPTURES)


class _Pair:
    """The programs of both graphs, and which value of `forward` each input of `backward` behind the cotangents is."""

    def __init__(self, gradient: Any) -> None:
        self.real = gradient.real_outputs
        self.forward = Program(gradient.forward, False)
        self.backward = Program(gradient.backward, False)
        self.cotangents = len(gradient.cotangents)
        given = [*self.forward.inputs, *self.forward.bound]
        self.captured = [given[i] for i in gradient.captured_inputs]
        self.captured += [self.forward.outputs[i] for i in gradient.captured_outputs]
        self.before = list(self.captured)
        self.steps = {node: self.forward.nodes[node.of] for node in self.backward.nodes if node.of is not None}

    def captures(self) -> int:
        """Drops captured values that are others, constants, or not read; returns how many."""
        forward, backward = self.forward, self.backward
        self.captured = [forward.now(v) for v in self.captured]
        read = {*backward.outputs, *[v for node in backward.nodes for v in node.operands]}
        first: dict[Value, Value] = {}
        kept: list[tuple[Value, Value]] = []
        for value, taken in zip(self.captured, backward.inputs[self.cotangents :], strict=True):
            if value.kind == CONSTANT and not value.written and value.array is not None:
                backward.replace(taken, backward.constant(value.array))
            elif first.setdefault(value, taken) is not taken:
                backward.replace(taken, first[value])
            elif taken in read:
                kept.append((value, taken))
            else:
                del first[value]
        count = len(self.captured) - len(kept)
        order = self._put_in_order(kept)
        backward.keep(backward.nodes)
        self._pass_on([v for v in self.captured if v not in order])
        return count

    def _put_in_order(self, kept: list[tuple[Value, Value]]) -> dict[Value, int]:
        """Puts captured values, and the inputs of `backward` that they are, in order: inputs of `forward` first. Returns these."""
        order = self._positions()
        kept.sort(key=lambda pair: order.get(pair[0], len(order)))
        self.captured = [value for value, _ in kept]
        self.backward.inputs = [*self.backward.inputs[: self.cotangents], *[taken for _, taken in kept]]
        return order

    def _positions(self) -> dict[Value, int]:
        """Of the inputs of `forward` and its bound values, their first places."""
        return {v: i for i, v in reversed(list(enumerate([*self.forward.inputs, *self.forward.bound])))}

    def _pass_on(self, computed: list[Value]) -> None:
        """Has `forward` give these values behind its own outputs."""
        forward = self.forward
        own = forward.outputs[: self.real]
        more = [v for v in computed if v not in own]
        forward.outputs = [*own, *more]
        forward.histories = [*forward.histories[: self.real], *[CAPTURED] * len(more)]

    def run(self, passes: dict, captures: bool, debug: bool) -> tuple[dict, dict]:
        """Runs passes on both until none finds anything; returns what each found in `forward` and in `backward`."""
        counts = dict.fromkeys(passes, 0), dict.fromkeys((*passes, CAPTURES) if captures else passes, 0)
        while True:
            found = 0
            for program, count in zip((self.forward, self.backward), counts, strict=True):
                for name, number in run(program, passes, debug).items():
                    count[name] += number
                    found += number
            if captures:
                dropped = self.captures()
                counts[1][CAPTURES] += dropped
                found += dropped
            if not found:
                return counts

    def finish(self, made: Any, gradient: Any) -> None:
        """Enters both graphs, and the lists of what passes between them, into a Gradient."""
        number = self.forward.numbers()
        for node, of in self.steps.items():
            node.of = number(of)
        self.backward.forward = {}
        taken = self.backward.inputs[self.cotangents :]
        order = self._put_in_order([(self.forward.now(v), t) for v, t in zip(self.captured, taken, strict=True)])
        made.captured_inputs = [order[v] for v in self.captured if v in order]
        made.captured_outputs = [self.forward.outputs.index(v) for v in self.captured if v not in order]
        made.forward = self.forward.graph(type(gradient.forward))
        made.backward = self.backward.graph(type(gradient.backward))
        made.forward.again, made.backward.again = self._twins(gradient)

    def _twins(self, gradient: Any) -> tuple[Callable, Callable]:
        """What `differentiate` takes in the place of both graphs: what there was before, with the captured values of these."""
        places = dict(zip(self.captured, range(len(self.captured)), strict=True))
        values = list(map(self.forward.now, self.before))
        passed = [places.get(v, v if v.kind == CONSTANT and not v.written else None) for v in values]
        inputs = len(gradient.captured_inputs)
        number = dict(reversed(list(zip(values[inputs:], gradient.captured_outputs, strict=True))))
        numbers = [number[v] for v in self.forward.outputs[self.real :]]

        @cache
        def forward() -> Any:
            graph = gradient.forward
            return of_forward(graph if graph.again is None else graph.again(), self.real, numbers)

        @cache
        def backward() -> Any:
            return of_backward(gradient.backward.again(), self.cotangents, passed)

        return forward, backward


def optimised_pair(gradient: Any, passes: Any, fast: bool, debug: bool) -> Any:
    """See Gradient.optimise."""
    known = (*PASSES, CAPTURES)
    wanted = [passes] if isinstance(passes, str) else list(passes)
    found = chosen(wanted, known, fast)
    joint = Program(gradient.joint, False)
    graph = finished(joint, gradient.joint, found, debug)
    values = set(graph.values())

    def now(value: Value | None) -> Value | None:
        return None if value is None else joint.now(joint.became[value])

    completed = {
        v: c._replace(gradient=now(c.gradient), seed=now(c.seed), node=now(c.gradient).node)  # type: ignore[union-attr]
        for v, c in gradient.completed.items()
        if now(c.gradient) in values
    }
    made = type(gradient)(completed)
    made.joint = graph
    pair = _Pair(gradient)
    counts = pair.run(found, CAPTURES in wanted, debug)
    pair.finish(made, gradient)
    made.forward.optimised, made.backward.optimised = counts
    made.cotangents, made.gradients, made.real_outputs = gradient.cotangents, gradient.gradients, gradient.real_outputs
    return made
