"""A line search that ends where the loss is lower enough and the slope small (the strong Wolfe conditions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ferro.tensor import Tensor

# The constants of the two conditions, and how often the search may evaluate: PyTorch's.
DECREASE = 1e-4
CURVATURE = 0.9
MAX_STEPS = 25
SMALLEST_CHANGE = 1e-9


class Point(NamedTuple):
    """What is known at a distance t along the direction: the loss, its gradient, and its slope along the direction."""

    t: float
    loss: float
    grad: Tensor
    slope: float


def strong_wolfe(probe: Callable[[float], Point], start: Point, t: float, scale: float) -> tuple[Point, int]:
    """A point that satisfies the strong Wolfe conditions, or the best found, and the number of evaluations.

    First steps grow until they enclose such a point, then the enclosure shrinks (Nocedal and Wright, algorithms 3.5
    and 3.6), both by cubic interpolation. `scale` is the largest component of the direction.
    """
    previous, here = start, probe(t)
    steps = 0
    ends: tuple[Point, Point] | None = None
    while steps < MAX_STEPS:
        if not _decreases(here, start) or (steps > 1 and here.loss >= previous.loss):
            ends = previous, here
            break
        if abs(here.slope) <= -CURVATURE * start.slope:
            return here, steps + 1
        if here.slope >= 0:
            ends = previous, here
            break
        shortest, longest = here.t + 0.01 * (here.t - previous.t), here.t * 10
        t = _cubic_minimum(previous, here, (shortest, longest))
        previous, here = here, probe(t)
        steps += 1
    if ends is None:
        ends = start, here
    low, zoom_steps = _zoom(probe, start, ends, MAX_STEPS - steps, scale)
    return low, steps + 1 + zoom_steps


def _zoom(
    probe: Callable[[float], Point], start: Point, ends: tuple[Point, Point], budget: int, scale: float
) -> tuple[Point, int]:
    """Shrink an enclosure, keeping its end with the lower loss, until that end satisfies the conditions."""
    low, high = ends if ends[0].loss <= ends[1].loss else (ends[1], ends[0])
    stalled = False
    for used in range(budget):
        if abs(high.t - low.t) * scale < SMALLEST_CHANGE:
            return low, used
        left, right = (low, high) if low.t <= high.t else (high, low)
        t = _cubic_minimum(left, right, (left.t, right.t))
        # Twice in a row close to an end, or on it, is no progress: go a tenth of the length inside.
        margin = 0.1 * (right.t - left.t)
        if min(right.t - t, t - left.t) < margin:
            if stalled or t >= right.t or t <= left.t:
                t = right.t - margin if abs(t - right.t) < abs(t - left.t) else left.t + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        here = probe(t)
        if not _decreases(here, start) or here.loss >= low.loss:
            low, high = (low, here) if low.loss <= here.loss else (here, low)
            continue
        if abs(here.slope) <= -CURVATURE * start.slope:
            return here, used + 1
        if here.slope * (high.t - low.t) >= 0:
            high = low
        low = here
    return low, budget


def _decreases(here: Point, start: Point) -> bool:
    return here.loss <= start.loss + DECREASE * here.t * start.slope


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """Where the cubic through the losses and slopes of two points is least, kept in bounds (ibid., equation 3.59)."""
    low, high = bounds
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if a.t <= b.t:
        t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        t = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(t, low), high)
