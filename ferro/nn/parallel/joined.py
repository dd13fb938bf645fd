"""What a rank does in a `join`: while it has batches it says so, and when it has none it takes part in the steps of the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.distributed.algorithms.join import Join, JoinHook, summed
from ferro.distributed.process_group import ReduceOp


class Joined(JoinHook):
    """The hook of a DistributedDataParallel, which is the `model`."""

    def __init__(self, model: Any, by_all: bool) -> None:
        self.model, self.by_all = model, by_all
        self._active = float(model.process_group.size())
        if model._reducer is not None:
            model._reducer.ranks = None if by_all else lambda: self._active

    def forward_begins(self, recorded: bool, buffers: bool) -> int:
        """Says that this rank has a batch; returns the first rank that has one, whose buffers go to all."""
        work = Join.notify_join_context(self.model)
        if work is not None:
            work.wait()
        return self._agreed(recorded, buffers, True)[2]

    def _agreed(self, recorded: bool, buffers: bool, is_active: bool) -> tuple[bool, bool, int]:
        """Whether those that have batches record, whether they exchange buffers, and which rank is the first of them."""
        group = self.model.process_group
        told = np.zeros(group.size() + 2, np.int32)
        told[group.rank()], told[-2], told[-1] = is_active, recorded, buffers
        summed(group, told, ReduceOp.SUM)
        self._active = float(told[:-2].sum())
        return bool(told[-2]), bool(told[-1]), int(told[:-2].argmax())

    def main_hook(self) -> None:
        """A step of the others."""
        recorded, buffers, first = self._agreed(False, False, False)
        if buffers:
            self.model._send_from(first, False)
        if recorded and self.model._reducer is not None:
            self.model._reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All have left: the parameters and buffers of a rank that was among the last go to all."""
        group = self.model.process_group
        told = np.array([group.rank() if is_last_joiner else -1], np.int32)
        summed(group, told, ReduceOp.MAX)
        self.model._send_from(int(told[0]))
        if self.model._reducer is not None:
            self.model._reducer.ranks = None
