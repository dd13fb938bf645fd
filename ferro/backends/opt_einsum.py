"""opt_einsum, a package that orders contractions: ferro's einsum contracts from left to right, and does not use it."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    enabled: bool
    strategy: str | None

__all__ = ["flags", "get_opt_einsum", "is_available"]


def is_available() -> bool:
    """Whether einsum orders its contractions by opt_einsum: never.

    Example::

        >>> import ferro
        >>> ferro.backends.opt_einsum.is_available()
        False
    """
    return False


def get_opt_einsum() -> Any:
    """The package, if einsum uses it: None."""
    return None


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """The settings for a while: there is nothing but "not enabled", so whatever asks for more is a ValueError."""
    module: Any = sys.modules[__name__]
    if enabled is not None:
        module.enabled = enabled
    if strategy is not None:
        module.strategy = strategy
    yield


class _OptEinsum(types.ModuleType):
    @property
    def enabled(self) -> bool:
        return False

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            raise ValueError(
                f"opt_einsum is not available, so setting `enabled` to {value} will not reap the benefits of calculating an "
                "optimal path for einsum. ferro's einsum contracts from left to right."
            )

    @property
    def strategy(self) -> None:
        return None

    @strategy.setter
    def strategy(self, value: str | None) -> None:
        if value is not None:
            raise ValueError(
                f"opt_einsum is not available, so setting `strategy` to {value} will not be meaningful. ferro's einsum "
                "contracts from left to right."
            )


sys.modules[__name__].__class__ = _OptEinsum
