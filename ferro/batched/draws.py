"""Random numbers under vmap: an error, the same for all slices, or other ones for each, as the vmap's `randomness` says."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.batched.array import batch, has, levels_of, top
from ferro.batched.levels import Level
from ferro.batched.rules import sliced, stacked

ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or "
    "perform the randomness operation out of vmap"
)
ERROR_OF_ROWS = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of vmap as a "
    "workaround (gradients or tangents are being computed for several rows at once)"
)
SAME_OF_BATCHED = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch (the numbers "
    "are drawn with parameters that differ from slice to slice)"
)
IN_PLACE = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If this is "
    "necessary for your usage, please file an issue with functorch."
)


def drawing(numbers: Any, levels: tuple[Level, ...]) -> Any:
    """What draws from NumPy's generator `numbers` in a function that runs at these levels."""
    for level in levels:
        if level.randomness == "error":
            raise RuntimeError(ERROR if level.transform else ERROR_OF_ROWS)
        numbers = Draws(numbers, level)
    return numbers


class Draws:
    """A generator's methods, with one draw for all slices of a level or one for each."""

    mask = None  # (a device's, which is no array)

    def __init__(self, numbers: Any, level: Level) -> None:
        self.numbers, self.level = numbers, level

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.numbers, name)
        if not callable(method):
            return method

        def draw(*args: Any, **kwargs: Any) -> Any:
            return self._draw(method, args, kwargs)

        return draw

    def _draw(self, method: Any, args: tuple, kwargs: dict) -> Any:
        level = self.level
        parameters = (*args, *kwargs.values())
        batched = top(parameters) is level or any(level in levels_of(p) for p in parameters)
        if level.randomness == "same":
            if batched:
                raise RuntimeError(SAME_OF_BATCHED)
            return method(*args, **kwargs)
        results = [method(*sliced(args, level, i), **sliced(kwargs, level, i)) for i in range(level.size)]
        return (
            stacked("random", [np.asarray(r) if np.isscalar(r) else r for r in results], level)
            if results
            else batch(np.empty((0, *np.shape(method(*args, **kwargs)))), level)
        )


def check_unbatched(array: Any, levels: tuple[Level, ...]) -> None:
    """RuntimeError for numbers that are to be written into an array of which the slices have not one each."""
    for level in levels:
        if level.randomness == "different" and not has(array, level) and level not in levels_of(array):
            raise RuntimeError(IN_PLACE)
