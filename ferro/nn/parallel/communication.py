"""What the communication of gradients has cost: bytes, time and overlap with backward, by bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class OfBucket:
    """One bucket: its bytes, and nanoseconds over all steps from its beginning to its end, and of these within backward."""

    bytes: int
    time: int = 0
    within: int = 0

    @property
    def overlap(self) -> float:
        """The share of its time that lay within backward."""
        return self.within / self.time if self.time else 0.0


class Communication:
    """Bytes, time and overlap of each bucket since the buckets were made, as `DistributedDataParallel.communication` gives them.

    A bucket's time goes from its beginning to its end (as it is noticed: at the next gradient, or after backward); what lay before the end of
    this rank's backward is within. `time` and `overlap` are of all buckets together, from the first beginning to the last end.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.begin([])

    def begin(self, sizes: Sequence[int]) -> None:
        """Begins anew, with buckets of so many bytes."""
        self.buckets = [OfBucket(size) for size in sizes]
        self.steps = self._time = self._within = 0

    def step(self, buckets: Sequence[Any], over: int) -> None:
        """Adds a step: when each bucket has begun and ended, and when backward was over."""
        if not buckets:
            return
        self.steps += 1
        for found, bucket in zip(self.buckets, buckets, strict=True):
            found.time += bucket.ended - bucket.begun
            found.within += _within(bucket.begun, bucket.ended, over)
        first, last = min(b.begun for b in buckets), max(b.ended for b in buckets)
        self._time += last - first
        self._within += _within(first, last, over)

    @property
    def bytes(self) -> int:
        """Of gradients, in each step."""
        return sum(b.bytes for b in self.buckets)

    @property
    def time(self) -> float:
        """Seconds of communication, in all steps."""
        return self._time / 1e9

    @property
    def overlap(self) -> float:
        """The share of this time that lay within backward."""
        return self._within / self._time if self._time else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.steps} steps on {self.ranks} ranks",
            f"{'bucket':>8}{'bytes':>12}{'ms a step':>12}{'within backward':>18}",
        ]
        steps = max(self.steps, 1)
        for i, b in enumerate(self.buckets):
            lines.append(f"{i:8}{b.bytes:12,}{b.time / 1e6 / steps:12.3f}{b.overlap:18.0%}")
        lines.append(f"{'all':>8}{self.bytes:12,}{self._time / 1e6 / steps:12.3f}{self.overlap:18.0%}")
        return "\n".join(lines)

    __repr__ = __str__


def _within(begun: int, ended: int, over: int) -> int:
    return max(0, min(ended, over) - begun)
