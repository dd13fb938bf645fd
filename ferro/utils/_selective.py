"""Selective checkpointing: a policy says which operations keep their results and which are computed again."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Sequence
from typing import Any, Self

from ferro.autograd._observer import Observer, outputs_of
from ferro.core.apply import watched
from ferro.core.base import version_of
from ferro.core.op import Op


class CheckpointPolicy(enum.Enum):
    """What becomes of an operation's result.  On the CPU, offloading to the CPU means to keep it."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy is told besides the operation and its arguments."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """What `forward` of an operation returned, with the versions of the tensors that share its memory."""

    def __init__(self, raw: Any, tensors: tuple) -> None:
        self.raw = raw
        self.versions = [(v, v.n) for v in (version_of(t) for t in tensors)]


def _with_forward(op: Op, forward: Callable) -> Op:
    """The operation with another forward function; what it records is that of `op`."""
    stand_in = copy.copy(op)
    stand_in.forward = forward
    stand_in.plan = op.plan  # type: ignore[method-assign]
    return stand_in


class _Counting(Observer):
    """Numbers the calls of each operation.  Views are never kept: computing them again costs nothing."""

    def __init__(self, storage: dict) -> None:
        self.storage = storage
        self.counts: dict[str, int] = {}

    def __enter__(self) -> Self:
        self.counts.clear()
        return super().__enter__()

    def forward(self, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs one operation, numbered."""
        if op.view or mode.level:
            return watched(op, xs, params, mode)
        number = self.counts[op.name] = self.counts.get(op.name, -1) + 1
        return self.numbered((op.name, number), op, xs, params, mode)

    def numbered(self, key: tuple, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        """Runs the operation that `key` names."""
        raise NotImplementedError


class _Keep(_Counting):
    """Forward: keeps the results that the policy wants kept."""

    def __init__(self, policy: Callable, storage: dict) -> None:
        super().__init__(storage)
        self.policy = policy

    def numbered(self, key: tuple, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        raw: list = []

        def forward(*args: Any) -> Any:
            raw[:] = [op.forward(*args)]
            return raw[0]

        result = watched(_with_forward(op, forward), xs, params, mode)
        policy = self.policy(SelectiveCheckpointContext(is_recompute=False, op_output=result), op, *xs, *params)
        keep = policy if isinstance(policy, bool) else policy not in _RECOMPUTE
        self.storage[key] = _Kept(raw[0], outputs_of(op, result)) if keep else None
        return result


class _Reuse(_Counting):
    """Recomputation: hands out what was kept."""

    def __init__(self, storage: dict, allow_mutation: bool) -> None:
        super().__init__(storage)
        self.allow_mutation = allow_mutation

    def numbered(self, key: tuple, op: Op, xs: tuple, params: tuple, mode: Any) -> Any:
        if key not in self.storage:
            raise RuntimeError(
                f"{op.name}: call number {key[1]} was encountered during backward but not found in storage: the checkpointed "
                "function did something else in forward."
            )
        kept = self.storage[key]
        if kept is None:
            return watched(op, xs, params, mode)
        if kept is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        changed = [v for v, n in kept.versions if v.n != n]
        if changed and not self.allow_mutation:
            raise RuntimeError(
                f"Tensor cached during selective activation checkpoint has been mutated: the result of '{op.name}' was changed "
                f"by '{changed[0].culprit}'. Pass allow_cache_entry_mutation=True if that is meant."
            )
        self.storage[key] = _CONSUMED
        return watched(_with_forward(op, lambda *args: kept.raw), xs, params, mode)


_CONSUMED: Any = object()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The contexts for ``checkpoint(..., context_fn=lambda: create_selective_checkpoint_contexts(policy))``.

    policy_fn_or_list: ``policy(ctx, op, *args)`` returns a CheckpointPolicy (or True to save), where `op` has a `name`;
    or a list of operations, by name ("matmul") or as functions (ferro.matmul), whose results are kept.
    """
    if not callable(policy_fn_or_list) and (
        isinstance(policy_fn_or_list, str) or not isinstance(policy_fn_or_list, Sequence)
    ):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    policy = policy_fn_or_list if callable(policy_fn_or_list) else _keeps({_name(op) for op in policy_fn_or_list})
    storage: dict = {}
    return _Keep(policy, storage), _Reuse(storage, allow_cache_entry_mutation)


def _keeps(names: set[str]) -> Callable:
    """The policy that keeps the results of the operations with these names."""
    return lambda ctx, op, *args: CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE


def _name(op: Any) -> str:
    name = op if isinstance(op, str) else getattr(op, "name", None) or getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(
            f"expected an operation in the list (its name, or the function), got {op!r} of type {type(op).__name__}"
        )
    return name
