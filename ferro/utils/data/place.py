"""Where an iteration over a DataLoader stands, and how another one goes on there."""

from __future__ import annotations

from typing import Any

from ferro.core.random import default

from .dataset import IterableDataset


class Place:
    """What one iteration notes: the random numbers that it began with, and how many batches were given."""

    def __init__(self, loader: Any, resumed: dict[str, Any] | None) -> None:
        self.resumed = resumed
        self._is_own = loader.generator is not None
        self._is_stream = isinstance(loader.dataset, IterableDataset)
        self.ended, self.given = False, 0
        self._generator = loader.generator or default()
        self._now = None
        if resumed is not None:  # the order is drawn as it was drawn then
            self._now = self._generator.get_state()
            self._generator.set_state(resumed["start"])
        self.start = self._generator.get_state()
        self.before = 0 if resumed is None else resumed["given"]  # batches of iterations that this one goes on from

    def skip(self, indices: Any) -> None:
        """Leaves out what was given, without fetching it."""
        resumed = self.resumed
        if resumed is None:
            return
        if resumed["begin"] < 0 and not self._is_stream:
            for _ in range(resumed["given"]):
                next(indices, None)
        if not self._is_own:  # (one of the loader's own is where it was, now)
            self._generator.set_state(self._now)

    def skip_stream(self, iterator: Any) -> None:
        """The same with a stream, which has to give it."""
        if self.resumed is not None and self._is_stream:
            for _ in range(self.resumed["given"]):
                next(iterator, None)
            self.given = 0

    def state(self, loader: Any) -> dict[str, Any]:
        """Where it stands."""
        begin = None
        if hasattr(loader.sampler, "state_dict") and _is_divided(loader):
            begin = loader.sampler.state_dict(self.given * (loader.batch_size or 1))
        return _state(self.before + self.given, self.start, begin)


def state_of(loader: Any, place: Place | None) -> dict[str, Any]:
    """Where the last iteration over a loader stands; of one that has ended, that none has begun. The same keys in any case."""
    if place is None or place.ended:
        return _state(-1, (loader.generator or default()).get_state(), None)
    return place.state(loader)


def _state(given: int, start: Any, sampler: dict[str, int] | None) -> dict[str, Any]:
    return {"given": given, "start": start, "epoch": -1, "begin": -1, **(sampler or {})}


def _is_divided(loader: Any) -> bool:
    """Whether the loader's own batches are of the sampler's indices."""
    return loader.batch_size is not None or loader.batch_sampler is None
