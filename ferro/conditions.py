"""Conditions that programs state where PyTorch's compiler sees them: an exception where one does not hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ferro.tensor import Tensor

_BARE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement "
    "request to PyTorch.)"
)


def _assert(condition: Any, message: str) -> None:
    """Python's `assert`, under the name that models use because a tracer sees it: AssertionError with `message`."""
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError with the message where a tensor of one element is zero. On the CPU that is known at once."""
    if not isinstance(input, Tensor):
        raise TypeError(f"_assert_async(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not bool(input):
        raise RuntimeError(
            "Expected Tensor with single nonzero value, but got zero" if assert_msg is None else assert_msg
        )


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError with the text that `message()` gives where `cond` is False. TypeError for anything but a bool.

    Example::

        >>> import ferro
        >>> ferro._check(ferro.ones(3).dim() == 1, lambda: "a vector is needed")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """`_check` with an IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """`_check` with a ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """`_check` with a TypeError."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """`_check` with a NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError where a number is negative, or above `max`; deprecated in PyTorch (FutureWarning)."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious.     Use _check(i >= "
        "0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0 and (max is None or i <= max), message)


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], str] | None) -> None:
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to "
                "assert that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    if not cond:
        raise error_type(_BARE if message is None else str(message()))


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """RuntimeError where not all elements of a tensor of truth values are True. TypeError for anything else."""
    if not isinstance(cond, Tensor) or str(cond.dtype) != "ferro.bool":
        given = f"a tensor of {cond.dtype}" if isinstance(cond, Tensor) else type(cond)
        raise TypeError(f"cond must be a bool tensor, but got {given}")
    _check(bool(cond.all()), message)
