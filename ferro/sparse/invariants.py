"""Whether sparse tensors are checked for what no operation can see at a glance: indices in order, none of them twice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_ENABLED: ContextVar[bool] = ContextVar("check_sparse_tensor_invariants", default=False)


def checked(check_invariants: bool | None) -> bool:
    """What a constructor does that was given this argument."""
    return _ENABLED.get() if check_invariants is None else bool(check_invariants)


class check_sparse_tensor_invariants:
    """Context manager and decorator: inside, constructors check all invariants unless told otherwise (or not, with False).

    That indices lie within the size is checked always.

    >>> import ferro
    >>> ferro.sparse.check_sparse_tensor_invariants.is_enabled()
    False
    >>> with ferro.sparse.check_sparse_tensor_invariants():
    ...     ferro.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    Traceback (most recent call last):
    RuntimeError: sparse_csr_tensor: `col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., ...
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = bool(enable)
        self.saved: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether constructors check all invariants."""
        return _ENABLED.get()

    @staticmethod
    def enable() -> None:
        """Lets constructors check all invariants from now on."""
        _ENABLED.set(True)

    @staticmethod
    def disable() -> None:
        """Lets constructors check only that indices lie within the size."""
        _ENABLED.set(False)

    def __enter__(self) -> None:
        self.saved.append(_ENABLED.get())
        _ENABLED.set(self.state)

    def __exit__(self, *exc: object) -> None:
        _ENABLED.set(self.saved.pop())

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return inside
