"""Forward-mode automatic differentiation: dual tensors, which carry a tangent along with their value."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from ferro import absent
from ferro.core import backend
from ferro.core import mode as _mode
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT, from_numpy
from ferro.core.forward_mode import OWN, end_level, laid_out_like, set_tangent, tangents_of, without


class UnpackedDualTensor(NamedTuple):
    """The value and the tangent of a dual tensor."""

    primal: Any
    tangent: Any


_next_level = count(1).__next__


class dual_level:
    """A level of forward mode: tangents made inside end with it.

    ``as`` gives the number of the level, 0.  RuntimeError inside of another one; func.jvp and its like nest.

    Example::

        >>> import ferro
        >>> import ferro.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(ferro.tensor(3.0), ferro.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """

    nests = False

    def __enter__(self) -> int:
        if not self.nests and _innermost() >= 0:
            raise RuntimeError(
                "Nested forward mode AD is not supported at the moment: a dual level is entered. For derivatives of derivatives use "
                "func.jvp or func.jacfwd, which may stand inside of one another and of a dual level."
            )
        # tangents know their level by a number that is never used again, so that none outlives its level
        self.level = _next_level()
        _mode.push(self, {"level": self.level})
        return _innermost()

    def __exit__(self, *exc: object) -> None:
        changes = _mode.pull(self)  # (that of the innermost entry, where there are several)
        end_level(self.level if changes is None else changes["level"])


class transform_level(dual_level):
    """The level of a transform of functions, which may stand inside of others; the user's levels do not count it."""

    nests = True


def _innermost() -> int:
    """The number of the level that the user has entered, -1 outside."""
    return len(_mode.entered(dual_level)) - 1


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # a variable of PyTorch's module
        return _innermost()
    return absent.missing(__name__, name)


def _key(level: int | None) -> int:
    """By which key tensors keep their tangents at the level of a number (None: at the innermost one); 0 if there is none."""
    if level is None:
        return _mode.current().level
    levels = _mode.entered(dual_level)
    return levels[-1 - level].changes["level"] if 0 <= level < len(levels) else 0


def enter_dual_level() -> int:
    """Enters a level and returns its number; exit_dual_level() must follow."""
    return dual_level().__enter__()


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level entered last (RuntimeError if `level` is the number of another, or there is none)."""
    levels = _mode.entered(dual_level)
    if not levels:
        raise RuntimeError("exit_dual_level: no dual level was entered")
    if level is not None and level != len(levels) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported. (exit_dual_level: "
            f"the level given is {level}, the last one {len(levels) - 1})"
        )
    levels[0].owner.__exit__()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor with the value of `tensor` that carries `tangent`: a view of it, differentiable in both.

    The tangent has the shape and dtype of the tensor (RuntimeError otherwise), floating or complex (ValueError).  One whose
    elements lie otherwise in memory is copied, so that every view of the tensor has a counterpart in its tangent.
    """
    key = _key(level)
    if key <= 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first "
            "(no dual level exists here: with forward_ad.dual_level(): ...)."
        )
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(t, TensorBase):
            raise TypeError(f"make_dual: expected the {what} to be a Tensor, got {type(t).__name__}")
        if t._data.dtype not in INEXACT:
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {from_numpy(t._data.dtype)}")
    if tensor._data.shape != tangent._data.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
            f"Tensor is of size {list(tensor._data.shape)} while the given forward gradient is of size "
            f"{list(tangent._data.shape)}."
        )
    if tensor._data.dtype is not tangent._data.dtype:
        raise RuntimeError(
            f"make_dual: Expected tensor and tangent to have the same dtype, got {tensor.dtype} and {tangent.dtype}"
        )
    if key in tangents_of(tensor):
        raise RuntimeError(
            f"make_dual: Making a dual Tensor based on a Tensor that already has a forward gradient at the same level {_innermost()} "
            "is not supported. Take its primal first, with unpack_dual()."
        )
    if key in tangents_of(tangent):
        raise RuntimeError(
            f"make_dual: Setting a forward grad that itself has a forward gradient at the same level {_innermost()} is not supported. "
            "Take its primal first, with unpack_dual()."
        )
    dual = backend.functional.reshape(tensor, tensor._data.shape)
    if dual._meta is not None and dual._meta.view is not None:
        dual._meta.view.dual = OWN
    set_tangent(dual, key, laid_out_like(tangent, tensor._data))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent (None: none) of a tensor at a level, as a named tuple (primal, tangent)."""
    key = _key(level)
    if key <= 0:
        return UnpackedDualTensor(tensor, None)
    tangent = tangents_of(tensor).get(key)
    return UnpackedDualTensor(tensor if tangent is None else without(tensor, key), tangent)
