"""Join: ranks that have no more batches take part in the exchanges of those that have.

Note [How ranks join]
    Before its exchanges of a step, a rank that has a batch adds 1 to a sum over all ranks; one that has none adds 0, and does, if the sum is not
    0, what the hooks say: the exchanges of a step, with zeros. Where the sum is 0 all have left.

Example::

    >>> import ferro
    >>> import ferro.distributed as dist
    >>> from ferro.distributed.algorithms.join import Join
    >>> from ferro.nn.parallel import DistributedDataParallel
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = DistributedDataParallel(ferro.nn.Linear(1, 1, bias=False))
    >>> with Join([model]):
    ...     for batch in ferro.ones(2, 3, 1):
    ...         model(batch).sum().backward()
    >>> model.module.weight.grad
    tensor([[6.]])
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ferro.core.base import wrap

from ..process_group import ReduceOp
from ..work import Work

__all__ = ["Join", "JoinHook", "Joinable"]

MANY = 1000  # steps after which a rank that has left says so


class JoinHook:
    """What a rank does that has left: `main_hook` at each step of the others, `post_hook` when all have left."""

    def main_hook(self) -> None:
        """The exchanges of one step, with zeros."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once, when all have left; whether this rank was among the last."""


class _Config(NamedTuple):
    enable: bool
    throws: bool
    is_first: bool


class Joinable:
    """What can be given to `Join`: has `join_hook`, `join_device` and `join_process_group`, and calls `Join.notify_join_context`."""

    def __init__(self) -> None:
        self._join_config = _Config(False, False, False)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this rank does when it has left."""
        raise NotImplementedError(f"{type(self).__name__}: a Joinable has a method join_hook")

    @property
    def join_device(self) -> Any:
        """The device of the exchanges."""
        raise NotImplementedError(f"{type(self).__name__}: a Joinable has a property join_device")

    @property
    def join_process_group(self) -> Any:
        """The group of the ranks."""
        raise NotImplementedError(f"{type(self).__name__}: a Joinable has a property join_process_group")


class Join:
    """A context in which ranks may have different numbers of batches.

    - `joinables` (list of Joinable): what exchanges in a step, in this order; ValueError unless all have one group
    - `enable` (bool, default True): False changes nothing
    - `throw_on_early_termination` (bool, default False): RuntimeError on all ranks when one has no more batches
    - `kwargs`: for each `join_hook`
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = [j.join_process_group for j in joinables]
        if any(g is not groups[0] for g in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throws = joinables, enable, throw_on_early_termination
        self._group = groups[0]
        self._hooks = [j.join_hook(**kwargs) for j in joinables] if enable else []

    def __enter__(self) -> None:
        for i, joinable in enumerate(self._joinables if self._enable else []):
            joinable._join_config = _Config(True, self._throws, i == 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for joinable in self._joinables if self._enable else ():
            joinable._join_config = _Config(False, False, False)
        if not self._enable or kind is not None:
            return
        steps, is_last = 0, True
        while _sum(self._group, 0.0):
            if self._throws:
                _sum(self._group, 1.0)
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            steps, is_last = steps + 1, False
            if steps == MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {MANY}. Rank {self._group.rank()} has taken part in so many "
                    "steps with zeros: divide the data more evenly",
                    stacklevel=2,
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Says that this rank has a batch: called before the exchanges of a step. The Work of a sum over ranks, or None.

        Outside of a `Join`, and for all joinables but the first, None. RuntimeError with `throw_on_early_termination` when a rank
        has no more batches.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first:
            return None
        group = joinable.join_process_group
        if not config.throws:
            told = np.ones(1)
            return Work([wrap(told)], group.reduce_numbers(told, ReduceOp.SUM))
        active = _sum(group, 1.0)
        if active < group.size() and _sum(group, 0.0):
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return None


def _sum(group: Any, number: float) -> float:
    told = np.full(1, number)
    summed(group, told, ReduceOp.SUM)
    return float(told[0])


def summed(group: Any, numbers: np.ndarray, op: ReduceOp) -> None:
    """Reduces small arrays of the processor into everyone's; NCCL moves none of them."""
    pending = group.reduce_numbers(numbers, op)
    if pending is not None:
        pending.wait()
