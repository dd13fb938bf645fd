"""The random state of ferro's default generator, as torch.random has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ferro.core.random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
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

    enabled: False does nothing. `devices` and `device_type` name GPUs in PyTorch; the CPU's generator is always restored.

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
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
