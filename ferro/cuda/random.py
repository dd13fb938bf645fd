"""The default generator of the GPU: its seed and its state. Seeds given without a GPU are kept until there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferro.cuda.devices import checked, device_count, needs_gpu
from ferro.cuda.generator import default_generator

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seeds the generator of the GPU, and no other."""
    default_generator.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """The same: there is one."""
    default_generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the generator of the GPU from the operating system."""
    default_generator.seed()


def seed_all() -> None:
    """The same: there is one."""
    default_generator.seed()


@needs_gpu
def initial_seed() -> int:
    """The seed that the generator was started from."""
    return default_generator.initial_seed()


@needs_gpu
def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the generator as a uint8 tensor on the CPU: 16 bytes, the seed and how many words have been drawn."""
    checked(device)
    return default_generator.get_state()


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all GPUs: of the one that is used, or none."""
    return [default_generator.get_state()] if device_count() else []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continues the generator from a state; nothing without a GPU."""
    if device_count():
        checked(device)
        default_generator.set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """The same with one state for each GPU."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)
