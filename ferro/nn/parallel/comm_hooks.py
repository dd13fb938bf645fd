"""A bucket that a communication hook of the program's makes the mean of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.backend import is_host
from ferro.core.base import TensorBase, wrap
from ferro.distributed.grad_bucket import GradBucket
from ferro.futures import Future

from .buckets import Bucket


class Hooked:
    """The hook's exchange: calls it, and writes what its Future gives into the bucket."""

    def __init__(self, bucket: Bucket, hook: Callable[[Any, Any], Any], state: Any, is_last: bool) -> None:
        self._flat = bucket.sent[: bucket.size]
        views, start = [], 0
        for p in bucket.parameters:
            views.append(wrap(self._flat[start : start + p._data.size].reshape(p._data.shape)))
            start += p._data.size
        future = hook(state, GradBucket(bucket.index, wrap(self._flat), views, bucket.parameters, is_last))
        if not isinstance(future, Future):
            raise TypeError(
                f"DistributedDataParallel: a communication hook returns a Future (`Work.get_future()`, `.then`), got {type(future).__name__}"
            )
        self._future = future

    def done(self) -> bool:
        """Whether there is a result."""
        return self._future.done()

    def wait(self) -> None:
        """Waits for it, and takes it."""
        found: Any = self._future.wait()
        if isinstance(found, (list, tuple)) and len(found) == 1:
            found = found[0]
        if not isinstance(found, TensorBase) or found._data.size != self._flat.size:
            raise RuntimeError(
                f"DistributedDataParallel: a communication hook gives a tensor of {self._flat.size} elements, got {found!r:.100}"
            )
        data = found._data.reshape(-1)
        is_there = data.dtype is self._flat.dtype and (
            data is self._flat or (is_host(data) and np.shares_memory(data, self._flat))
        )
        if not is_there:
            self._flat[...] = data
