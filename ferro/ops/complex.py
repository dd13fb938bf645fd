"""Complex numbers: conjugate, real and imaginary part, and their views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferro.core.apply import apply, unary
from ferro.core.dtypes import COMPLEX
from ferro.core.op import LINEAR, Op
from ferro.core.samples import points_complex

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["conj", "real"]


def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned as it is."""
    return unary(CONJ, input) if input._data.dtype in COMPLEX else input


CONJ = Op("conj", lambda xp, x: xp.conj(x), kind=LINEAR, x=lambda xp, g: g.conj(), samples=points_complex(), complex=True)


def real(input: Tensor) -> Tensor:
    """The real part, a view; a real tensor is returned as it is."""
    return apply(REAL, (input,)) if input._data.dtype in COMPLEX else input


# The cotangent is real and becomes complex by the engine's rule for dtypes.
REAL = Op("real", lambda xp, x: xp.real(x), kind=LINEAR, view=True, x=lambda xp, g: g, samples=points_complex(), complex=True)


class ComplexMethods:
    """Methods of Tensor."""

    __slots__ = ()
    conj = conj
