"""What runs the bodies of loops, forwards and backwards, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.graph import interpreter
from ferro.graph.control.running import absent, entered, pack
from ferro.graph.ir import copy_of
from ferro.graph.literals import SAVED


def while_loop(given: Sequence, condition: Any, body: Any, count: int) -> tuple:
    """The last of `count` carried arrays, behind which invariants stand in `given`; and what the trips kept, if the body keeps anything."""
    carried, others = list(given[:count]), given[count:]
    keeps = len(body.outputs) > count
    kept: list = []
    while interpreter.execute(condition, [*carried, *others])[0].item():
        made = interpreter.execute(body, [*carried, *others])
        carried = made[:count]
        kept += made[count:]
    found = _own(carried, given)
    return (*found, pack(*kept)) if keeps else tuple(found)


def scan(given: Sequence, body: Any, count: int, slices: int, reverse: bool) -> tuple:
    """The last of `count` carried arrays, and what the trips give, stacked; each trip gets one slice of each of `slices` arrays behind these."""
    carried, xs, others = list(given[:count]), given[count : count + slices], given[count + slices :]
    keeps = body.outputs[-1].dtype == SAVED
    trips = range(len(xs[0]))
    ys: list = []
    kept: list = []
    for t in reversed(trips) if reverse else trips:
        made = interpreter.execute(body, [*carried, *[x[t] for x in xs], *others])
        carried = made[:count]
        kept += made[-1:] if keeps else []
        ys.append(made[count : len(made) - keeps])
    ys = ys[::-1] if reverse else ys
    found = [*_own(carried, given), *[np.stack(y) for y in zip(*ys, strict=True)]]
    return (*found, pack(*kept)) if keeps else tuple(found)


def _own(arrays: Sequence, given: Sequence) -> list:
    """Arrays, copied if they share memory with what was given, or with another one."""
    found: list = []
    for a in arrays:
        found.append(copy_of(a) if any(np.may_share_memory(a, x) for x in (*given, *found)) else a)
    return found


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
    first = sum(type(s) is int for s in slots)
    states = [given[s] if type(s) is int else absent(*s) for s in slots]
    gs, others = given[first : first + stacked], given[first + stacked :]
    trips = saved[()]
    parts: list = [None] * len(trips)
    phase = 0
    for t in range(len(trips) - 1, -1, -1):
        at = len(trips) - 1 - t if reverse else t
        made = interpreter.execute(phases[phase], [*states, *[g[at] for g in gs], *others, trips[t]])
        states, parts[at] = made[: len(slots)], made[len(slots) :]
        phase = phase + 1 if phase + 1 < len(phases) else back
    return (*_own(states, given), *[np.stack(p) for p in zip(*parts, strict=True)])
