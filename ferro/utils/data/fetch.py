"""Fetching: from the indices of a batch to the batch, for datasets with keys and for streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ExhaustedError(Exception):
    """A stream has no more samples."""


class MapFetcher:
    """Takes samples by key; an error gets a note that says which sample it came from."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], auto_collation: bool, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        """The batch of a list of indices; without batching, the sample of one index."""
        if not self.auto_collation:
            return self.collate_fn(self._sample(index))
        at_once = getattr(self.dataset, "__getitems__", None)
        if callable(at_once):
            samples = noting(f"samples {index} of {type(self.dataset).__name__}", at_once, index)
        else:
            samples = [self._sample(i) for i in index]
        return noting(f"the batch of samples {index}", self.collate_fn, samples)

    def _sample(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(_note(f"sample {index!r} of {type(self.dataset).__name__}"))
            raise


class IterableFetcher:
    """Takes samples as they come; an error gets a note that says after how many samples it came."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], auto_collation: bool, drop_last: bool) -> None:
        self.iterator = iter(dataset)
        self.name = type(dataset).__name__
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.taken = 0
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch of as many samples as there are indices (none of which means anything), or the next sample."""
        samples: list[Any] = []
        wanted = len(index) if self.auto_collation else 1
        while len(samples) < wanted and not self.ended:
            try:
                samples.append(next(self.iterator))
            except StopIteration:
                self.ended = True
            except Exception as error:
                error.add_note(_note(f"sample {self.taken} of the stream {self.name}"))
                raise
            else:
                self.taken += 1
        if not samples or (self.drop_last and len(samples) < wanted):
            raise ExhaustedError
        return noting(
            f"the batch that ends with sample {self.taken - 1} of the stream {self.name}",
            self.collate_fn,
            samples if self.auto_collation else samples[0],
        )


def noting(what: str, function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function; an error that it raises gets a note that says what was being fetched."""
    try:
        return function(argument)
    except Exception as error:
        error.add_note(_note(what))
        raise


def _note(what: str) -> str:
    return f"The DataLoader was fetching {what}."
