"""Random numbers in graphs: nodes that draw from eager's generators, in the program's order.

While a graph is captured, ``generator.stream`` is a `Drawing` for the thread that captures (core/random.py asks for it), whose
draws are nodes ``random.uniform(generator, ...)``. A replay asks the same generator for its stream then, so it gives
the numbers that eager would give, and leaves the state that eager would leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.random import Generator, default, stream_of
from ferro.graph.ir import Held
from ferro.graph.there import as_array

METHODS = (
    *("any_integers", "binomial", "cauchy", "coins", "exponential", "gamma", "geometric"),
    *("integers", "log_normal", "normal", "permutation", "poisson", "uniform"),
)


def generator_of(held: Held | None) -> Generator:
    """The generator that a node names."""
    return default() if held is None else held.thing


def _draw(name: str) -> Callable:
    def draw(held: Held | None, *args: Any, **kwargs: Any) -> Any:
        generator = generator_of(held)
        return as_array(getattr(stream_of(generator, generator.device), name)(*args, **kwargs))

    return draw


def _get_state(held: Held | None) -> Any:
    return generator_of(held).get_state()._data


def _set_state(held: Held | None, state: Any) -> None:
    generator = generator_of(held)
    generator._seed = generator.stream.continue_from(np.ascontiguousarray(state).reshape(-1))


def _manual_seed(held: Held | None, seed: int) -> None:
    generator_of(held).manual_seed(seed)


DRAWS: dict[str, Callable] = {
    **{name: _draw(name) for name in METHODS},
    "get_state": _get_state,
    "set_state": _set_state,
    "manual_seed": _manual_seed,
}
