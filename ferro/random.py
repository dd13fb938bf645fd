"""The random state of ferro's default generator, as torch.random has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ferro.core.random import (
    GENERATORS,
    all_states,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    restore,
    seed,
    set_rng_state,
    use_fast_streams,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "use_fast_streams",
]


@contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A block whose random numbers leave no trace: after it, the default generator goes on where it was before.

    - `devices` (iterable, default None): the GPUs whose generators are restored; None: that which is used
    - `enabled` (bool, default True): False does nothing
    - `device_type` (str, default "cuda"): of which type these devices are

    The CPU's generator is always restored.

    Example::

        >>> import ferro
        >>> before = ferro.get_rng_state()
        >>> with ferro.random.fork_rng():
        ...     _ = ferro.rand(3)
        >>> bool((ferro.get_rng_state() == before).all())
        True
    """
    if not enabled:
        yield
        return
    states = all_states()
    if device_type not in GENERATORS or (devices is not None and not list(devices)):
        del states[1:]
    try:
        yield
    finally:
        restore(states)
