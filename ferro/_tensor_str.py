"""The text of tensors, under the names that libraries take from PyTorch's inside."""

from __future__ import annotations

from typing import Any

from ferro import printing

__all__ = ["PRINT_OPTS"]


class _Options:
    """The options in force, as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return printing.get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"there is no option {name!r} of printing") from None


PRINT_OPTS = _Options()


def _tensor_str(self: Any, indent: int) -> str:
    """The numbers of a tensor in their brackets, further lines indented.

    >>> import ferro
    >>> ferro._tensor_str._tensor_str(ferro.ones(2), 0)
    '[1., 1.]'
    """
    return printing.numbers(self.detach().numpy(), indent)
