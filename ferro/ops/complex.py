"""Complex numbers: conjugate, real and imaginary part, their views, polar form and angle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import COMPLEX, INEXACT, type_name
from ferro.core.inplace import in_place
from ferro.core.into import into, unary_into
from ferro.core.layout import ITERATED, geometry
from ferro.core.op import ELEMENTWISE, LINEAR, Op
from ferro.core.samples import Arg, Sample, declare, points_complex, unary_samples

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["angle", "complex", "conj", "conj_physical", "conj_physical_", "imag", "is_complex", "is_conj",
           "is_floating_point", "is_neg", "is_nonzero", "is_signed", "polar", "real", "resolve_conj", "resolve_neg",
           "view_as_complex", "view_as_real"]  # fmt: skip


def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned as it is."""
    return unary(CONJ, input) if need_tensor("conj", "input", input)._data.dtype in COMPLEX else input


CONJ = Op(
    "conj", lambda xp, x: xp.conj(x), kind=LINEAR, x=lambda xp, g: g.conj(), samples=points_complex(), complex=True
)


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate, computed at once (as all conjugates are here); a real tensor is returned as it is."""
    return into("conj_physical", out, conj(input))


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are never postponed here."""
    return need_tensor("resolve_conj", "input", input)


def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negations are never postponed here."""
    return need_tensor("resolve_neg", "input", input)


for _name in ("conj_physical", "resolve_conj", "resolve_neg"):
    declare(_name, points_complex(), complex=True)


def real(input: Tensor) -> Tensor:
    """The real part, a view; a real tensor is returned as it is."""
    return apply(REAL, (input,)) if need_tensor("real", "input", input)._data.dtype in COMPLEX else input


# The cotangent is real and becomes complex by the engine's rule for dtypes.
REAL = Op(
    "real", lambda xp, x: xp.real(x), kind=LINEAR, view=True, x=lambda xp, g: g, samples=points_complex(), complex=True
)


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, a view."""
    if need_tensor("imag", "input", input)._data.dtype not in COMPLEX:
        raise RuntimeError(f"imag: imag is not implemented for tensors with non-complex dtypes. It has {input.dtype}")
    return apply(IMAG, (input,))


IMAG = Op("imag", lambda xp, x: xp.imag(x), kind=LINEAR, view=True, x=lambda xp, g: g * 1j)
PAIRS_OF_SHAPES = [((), ()), ((3, 4), (3, 4)), ((3, 1), (4,)), ((0,), (1,))]


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i imag, of two real floating tensors of one dtype."""
    return _complex_into("complex", out, apply(MAKE_COMPLEX, two_reals("complex", real, imag, ("real", "imag"))))


MAKE_COMPLEX = Op(
    "complex",
    lambda xp, x, y: xp.complex(x, y),
    kind=LINEAR,
    x=lambda xp, g: xp.real(g),
    y=lambda xp, g: xp.imag(g),
    samples=[Sample(Arg(*a), Arg(*b)) for a, b in PAIRS_OF_SHAPES],
    layout=ITERATED,
)


@in_full_precision
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """r e^(iφ), the complex number with absolute value r and angle φ.  d = e^(iφ) dr + i r e^(iφ) dφ."""
    return _complex_into("polar", out, apply(POLAR, two_reals("polar", abs, angle, ("abs", "angle"))))


POLAR = Op(
    "polar",
    lambda xp, x, y: xp.polar(x, y),
    kind=ELEMENTWISE,
    weight=8.0,
    x=lambda xp, g, y: xp.real(g) * xp.cos(y) + xp.imag(g) * xp.sin(y),
    y=lambda xp, g, out: xp.imag(g * out.conj()),
    samples=[Sample(Arg(*a, low=0.2), Arg(*b)) for a, b in PAIRS_OF_SHAPES],
)


def _complex_into(name: str, out: Any, result: Any) -> Any:
    """The result, or `out` with it, which must have its dtype."""
    if out is not None and need_tensor(name, "out", out)._data.dtype is not result._data.dtype:
        raise RuntimeError(
            f"{name}: Expected object of scalar type {type_name(result.dtype)} but got scalar type {type_name(out.dtype)} "
            "for argument 'out'"
        )
    return into(name, out, result)


def two_reals(name: str, x: Any, y: Any, arguments: tuple) -> tuple:
    """Two real floating tensors of one dtype."""
    given = tuple(zip(arguments, (x, y), strict=True))
    for argument, t in given:
        need_tensor(name, argument, t)
    for argument, t in given:
        if t._data.dtype not in PARTS:
            raise RuntimeError(
                f"{name}: Expected both inputs to be Half, Float or Double tensors but got {type_name(x.dtype)} and "
                f"{type_name(y.dtype)}: {argument} has dtype {t.dtype}"
            )
    if x._data.dtype is not y._data.dtype:
        raise RuntimeError(
            f"{name}: Expected object of scalar type {type_name(x.dtype)} but got scalar type {type_name(y.dtype)} for "
            "second argument: both inputs must have the same dtype"
        )
    return x, y


PARTS = frozenset(d.np for d in (dtypes.float16, dtypes.float32, dtypes.float64))


def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of z in (-π, π]; for real x: π where x < 0, else 0, nan for nan.

    d = Im(conj(z) dz) / |z|², and 0 at 0; for real x 0 everywhere.
    """
    a = need_tensor("angle", "input", input)._data
    if a.dtype.kind == "c":
        return into("angle", out, apply(ANGLE, (input,)), input)
    return unary(ANGLE_REAL, input) if out is None else unary_into("angle", out, ANGLE_REAL, input)


def _angle_x(xp: Any, g: Any, x: Any) -> Any:
    squares = xp.real(x * x.conj())
    return xp.where(squares == 0, 0.0, g * 1j * x / squares)


ANGLE = Op(
    "angle",
    lambda xp, x: xp.angle(x),
    x=_angle_x,
    weight=8.0,
    samples=unary_samples(-2, 2, 0.0, -0.0, smooth=False),
    complex=True,
)
ANGLE_REAL = Op(
    "angle_real", lambda xp, x: xp.angle(x), floats=True, kind=ELEMENTWISE, x=lambda xp, g: xp.zeros_like(g)
)


def view_as_real(input: Tensor) -> Tensor:
    """A view of a complex tensor with a last dimension of 2: real and imaginary parts."""
    if need_tensor("view_as_real", "input", input)._data.dtype not in COMPLEX:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {input.dtype}")
    return apply(VIEW_AS_REAL, (input,))


VIEW_AS_REAL = Op(
    "view_as_real", lambda xp, x: xp.view_as_real(x), kind=LINEAR, view=True, x=lambda xp, g: xp.as_complex(g)
)


@in_full_precision
def view_as_complex(input: Tensor) -> Tensor:
    """A complex view of a real tensor whose last dimension holds real and imaginary parts."""
    a = need_tensor("view_as_complex", "input", input)._data
    if a.dtype not in PARTS:
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {type_name(input.dtype)}"
        )
    if a.ndim == 0:
        raise RuntimeError("view_as_complex: Input tensor must have one or more dimensions")
    if a.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, got the shape {list(a.shape)}"
        )
    strides = geometry(a)[1]
    if a.size and strides[-1] != 1:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension with stride 1, got the strides {list(strides)}; make it "
            "contiguous() first"
        )
    if a.size and any(s % 2 for n, s in zip(a.shape, strides[:-1], strict=False) if n > 1):
        raise RuntimeError(
            "view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension, got the strides "
            f"{list(strides)}; make it contiguous() first"
        )
    return apply(VIEW_AS_COMPLEX, (input,))


VIEW_AS_COMPLEX = Op(
    "view_as_complex", lambda xp, x: xp.view_as_complex(x), kind=LINEAR, view=True, x=lambda xp, g: xp.view_as_real(g)
)


def as_complex(input: Tensor) -> Tensor:
    """The complex numbers with the parts in the last dimension, whatever its strides."""
    return apply(AS_COMPLEX, (input,))


# A cotangent may have any strides, so that a view is not always possible.
AS_COMPLEX = Op("as_complex", lambda xp, x: xp.as_complex(x), kind=LINEAR, x=lambda xp, g: xp.view_as_real(g))


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return need_tensor("is_complex", "input", input)._data.dtype in COMPLEX


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating one."""
    dtype = need_tensor("is_floating_point", "input", input)._data.dtype
    return dtype in INEXACT and dtype not in COMPLEX


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return need_tensor("is_signed", "input", input).dtype.is_signed


def is_conj(input: Tensor) -> bool:
    """False: conjugates are never postponed here."""
    need_tensor("is_conj", "input", input)
    return False


def is_neg(input: Tensor) -> bool:
    """False: negations are never postponed here."""
    need_tensor("is_neg", "input", input)
    return False


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element of the tensor is not zero."""
    return bool(need_tensor("is_nonzero", "input", input))


def set_part(part: Any) -> Any:
    """The setter of ``x.real`` or ``x.imag``: writes through the view."""

    def write(self: Tensor, value: Any) -> None:
        part(self).copy_(value)

    return write


# In-place forms that torch has as functions too.
conj_physical_ = in_place(conj_physical)


class ComplexMethods:
    """Methods of Tensor."""

    __slots__ = ()
    conj = conj
    conj_physical = conj_physical
    conj_physical_ = conj_physical_
    resolve_conj, resolve_neg = resolve_conj, resolve_neg
    if TYPE_CHECKING:  # (pyright knows properties by their decorator)

        @property
        def real(self) -> Tensor: ...
        @real.setter
        def real(self, value: Any) -> None: ...
        @property
        def imag(self) -> Tensor: ...
        @imag.setter
        def imag(self, value: Any) -> None: ...
    else:
        real = property(real, set_part(real))
        imag = property(imag, set_part(imag))
    angle = angle
    is_complex, is_floating_point, is_conj, is_neg, is_nonzero, is_signed = (
        is_complex,
        is_floating_point,
        is_conj,
        is_neg,
        is_nonzero,
        is_signed,
    )
