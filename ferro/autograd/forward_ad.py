"""Forward-mode automatic differentiation: dual tensors, which carry a tangent along with their value."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any, NamedTuple

from ferro.core import mode as _mode
from ferro.core import worlds
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT
from ferro.core.forward import OWN, end_level, set_tangent, tangents_of, without


class UnpackedDualTensor(NamedTuple):
    """The value and the tangent of a dual tensor."""

    primal: Any
    tangent: Any


def _level(level: int | None) -> int:
    level = _mode.current().level if level is None else level
    if level <= 0:
        raise RuntimeError("Trying to create or unpack a dual Tensor but no dual level exists, make sure to enter_dual_level() first "
                           "(with forward_ad.dual_level(): ...).")  # fmt: skip
    return level


_next_level = count(1).__next__


class dual_level:
    """A level of forward mode: tangents made inside end with it.

    Example::

        >>> import ferro
        >>> import ferro.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(ferro.tensor(3.0), ferro.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """

    def __enter__(self) -> int:
        level = self.level = _next_level()  # never used again, so that no tangent outlives its level
        _mode.push(self, {"level": level})
        return level

    def __exit__(self, *exc: object) -> None:
        changes = _mode.pull(self)  # (that of the innermost entry, where there are several)
        end_level(self.level if changes is None else changes["level"])


class _Entered(threading.local):
    def __init__(self) -> None:
        self.levels: list[dual_level] = []


_entered = _Entered()


def enter_dual_level() -> int:
    """Enters a level; exit_dual_level() must follow."""
    level = dual_level()
    _entered.levels.append(level)
    return level.__enter__()


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level entered last."""
    if not _entered.levels:
        raise RuntimeError("exit_dual_level: no dual level was entered")
    if level is not None and level != _entered.levels[-1].level:
        raise RuntimeError(
            f"exit_dual_level: trying to exit level {level}, but the innermost one is {_entered.levels[-1].level}"
        )
    _entered.levels.pop().__exit__()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with the value of `tensor` that carries `tangent`: a view of it, differentiable in both."""
    level = _level(level)
    for what, t in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(t, TensorBase):
            raise TypeError(f"make_dual: expected {what} to be a Tensor, got {type(t).__name__}")
        if t._data.dtype not in INEXACT:
            raise ValueError(
                f"Expected {'primal' if what == 'tensor' else what} to be floating point or complex, but got: {t._data.dtype}"
            )
    if tensor._data.shape != tangent._data.shape:
        raise RuntimeError(f"make_dual: Expected tensor and tangent to have the same shape, got {list(tensor._data.shape)} and "
                           f"{list(tangent._data.shape)}")  # fmt: skip
    if tensor._data.dtype is not tangent._data.dtype:
        raise RuntimeError(
            f"make_dual: Expected tensor and tangent to have the same dtype, got {tensor.dtype} and {tangent.dtype}"
        )
    if level in tangents_of(tensor):
        raise RuntimeError(f"make_dual: Making a dual Tensor based on a Tensor that already has a forward gradient at the same level {level} is "
                           "not supported. Take its primal first, with unpack_dual().")  # fmt: skip
    dual = worlds.functional.reshape(tensor, tensor._data.shape)
    if dual._meta is not None and dual._meta.view is not None:
        dual._meta.view.dual = OWN
    set_tangent(dual, level, tangent)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent (None: none) of a tensor at a level, as a named tuple (primal, tangent)."""
    level = _mode.current().level if level is None else level
    if level <= 0:
        return UnpackedDualTensor(tensor, None)
    tangent = tangents_of(tensor).get(level)
    return UnpackedDualTensor(tensor if tangent is None else without(tensor, level), tangent)
