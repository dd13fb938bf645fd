"""What runs the bodies of loops, forwards and backwards, on arrays."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.core.owners import is_alone
from ferro.graph import interpreter
from ferro.graph.control.running import absent, entered, listed, pack
from ferro.graph.ir import copy_of
from ferro.graph.literals import SAVED
from ferro.graph.seats import SEATS


def while_loop(given: Sequence, condition: Any, body: Any, count: int) -> tuple:
    """The last of `count` carried arrays, behind which invariants stand in `given`; and what the trips kept, if the body keeps anything."""
    given = listed(given)
    lent = Lent(given)
    carried, others = given[:count], given[count:]
    given.clear()
    keeps = len(body.outputs) > count
    kept: list = []
    trip = 0
    while interpreter.taken(condition, [*carried, *others])[0].item():
        arrays = [*carried, *others]
        carried.clear()
        made = interpreter.taken(body, arrays, trip)
        carried = handed_on(made[:count])
        kept += made[count:]
        made.clear()
        trip += 1
    found = lent.own(carried)
    return (*found, pack(*kept)) if keeps else tuple(found)


def scan(given: Sequence, body: Any, count: int, slices: int, reverse: bool) -> tuple:
    """The last of `count` carried arrays, and what the trips give, stacked; each trip gets one slice of each of `slices` arrays behind these."""
    given = listed(given)
    lent = Lent(given)
    carried, xs, others = given[:count], given[count : count + slices], given[count + slices :]
    given.clear()
    keeps = body.outputs[-1].dtype == SAVED
    trips = range(len(xs[0]))
    stacks = Stacks(body, count, len(body.outputs) - keeps, len(trips))
    kept: list = []
    for trip, t in enumerate(reversed(trips) if reverse else trips):
        arrays = [*carried, *[x[t] for x in xs], *others]
        carried.clear()
        stacks.aim(body, trip, t)
        made = interpreter.taken(body, arrays, trip)
        carried = handed_on(made[:count])
        kept += made[-1:] if keeps else []
        stacks.fill(t, made)
        made.clear()
    found = [*lent.own(carried, stacks.arrays), *stacks.arrays]
    return (*found, pack(*kept, stacks=stacks.arrays)) if keeps else tuple(found)


class Stacks:
    """Results number `first` to `end` of the trips of a loop, stacked: where a plan allows it, trips make their slices there."""

    def __init__(self, body: Any, first: int, end: int, length: int) -> None:
        self._first, self._end, self._room = first, end, SEATS.node
        self.arrays = [np.empty((length, *v.shape), v.dtype) for v in body.outputs[first:end]]
        self._lent = [self._room is not None and self._room.lend(a) for a in self.arrays]
        self._aimed: list[int] = []

    def _place(self, k: int, t: int) -> int:
        return self.arrays[k].__array_interface__["data"][0] + t * self.arrays[k].strides[0]

    def aim(self, graph: Any, trip: int, t: int) -> None:
        """The next trip makes slices number t."""
        if self._room is not None:
            places = {self._first + k: self._place(k, t) if lent else 0 for k, lent in enumerate(self._lent)}
            self._aimed = self._room.aim(graph, trip, places)

    def fill(self, t: int, made: list) -> None:
        """Enters what a trip gave, if it does not lie there."""
        for k, y in enumerate(made[self._first : self._end]):
            if y.__array_interface__["data"][0] == self._place(k, t):
                continue
            if self._first + k in self._aimed:
                # Another array may lie there, against the plan: the stack is given up, and nothing is lent any more.
                self.arrays[k], self._lent[k] = self.arrays[k].copy(), False
            self.arrays[k][t] = y
            SEATS.copied += y.nbytes


def handed_on(carried: list) -> list:
    """What the next trip is given."""
    return carried if SEATS.node is None else SEATS.node.handed_on(carried)


class Lent:
    """Arrays that a loop was given, of which somebody else may hold some: no result shares memory with these."""

    def __init__(self, given: Sequence) -> None:
        self._given = [weakref.ref(a) for a in given]

    def own(self, arrays: list, stacks: Sequence = ()) -> list:
        """The arrays, copied if they share memory with one that was given and is there still, with stacks, or with each other."""
        for i in range(len(arrays)):
            a, arrays[i] = arrays[i], None
            alone = is_alone(a)  # (an array that was given, and that nobody else holds any more)
            if self._shares(a, alone, (*arrays, *stacks)):
                a = copy_of(a)
                SEATS.copied += a.nbytes
            arrays[i] = a
        return arrays

    def _shares(self, a: Any, alone: bool, others: Sequence) -> bool:
        some = [x for x in (*[ref() for ref in self._given], *others) if x is not None and not (alone and x is a)]
        return any(np.may_share_memory(a, x) for x in some)


def _like_reversed(
    saved: Any, given: Sequence, phases: tuple, back: int, slots: tuple, stacked: int, length: int, reverse: bool
) -> tuple:
    states = [np.zeros(v.shape, v.dtype) for v in phases[0].outputs[: len(slots)]]
    return (*states, *[np.zeros((length, *v.shape), v.dtype) for v in phases[0].outputs[len(slots) :]])


@entered(_like_reversed)
def reversed_loop(
    saved: Any, given: Sequence, phases: tuple, back: int, slots: tuple, stacked: int, length: int, reverse: bool
) -> tuple:
    """The backward of a loop: as many trips as there were, from the last to the first.

    Each trip runs the next of `phases`, and the one at `back` behind the last of them, of (gradients so far, slices of
    stacked cotangents, operands, what was kept) -> (gradients so far, slices of gradients). `slots` say where each of the
    gradients begins: with one that is given, or with none, of that shape and dtype. `stacked` arrays, of `length` slices, are given
    in slices; reverse: the trips went from their ends.
    """
    given = listed(given)
    lent = Lent(given)
    first = sum(type(s) is int for s in slots)
    states = [given[s] if type(s) is int else absent(*s) for s in slots]
    gs, others = given[first : first + stacked], given[first + stacked :]
    given.clear()
    trips = saved[()][0]
    stacks = Stacks(phases[0], len(slots), len(phases[0].outputs), length)
    phase = 0
    for t in range(len(trips) - 1, -1, -1):
        at = len(trips) - 1 - t if reverse else t
        arrays = [*states, *[g[at] for g in gs], *others, trips[t]]
        states.clear()
        trip = len(trips) - 1 - t
        stacks.aim(phases[phase], trip, at)
        made = interpreter.taken(phases[phase], arrays, trip)
        states = handed_on(made[: len(slots)])
        stacks.fill(at, made)
        made.clear()
        phase = phase + 1 if phase + 1 < len(phases) else back
    return (*lent.own(states, stacks.arrays), *stacks.arrays)
