"""FlopCounterMode, which is not there: libraries make one and read its zeros before they count anything."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """A counter of floating-point operations that has counted none, and cannot.

    Raises: NotImplementedError when its block is entered.

    >>> from ferro.utils.flop_counter import FlopCounterMode
    >>> FlopCounterMode(display=False).get_total_flops()
    0
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.depth, self.display = depth, display

    def get_total_flops(self) -> int:
        """The number of operations that were counted: 0."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The counts by module and operation: none."""
        return {}

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "FlopCounterMode counts what PyTorch's dispatcher is given, and ferro has none. `profiler.profile(record_shapes=True)` lists "
            "the operations with their shapes and times"
        )

    def __exit__(self, *error: object) -> None:
        """It is never entered."""
