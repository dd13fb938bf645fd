"""Results with named fields: tuples such as ``max(x, dim)`` returns, with `values` and `indices`."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class ReturnType(tuple["Tensor", ...]):
    """A tuple whose elements also have names, those of the annotations of a subclass; made from a sequence."""

    __slots__ = ()
    fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.fields = tuple(cls.__annotations__)
        cls.__doc__ = f"The result of {cls.__name__}: {', '.join(cls.fields)}."
        for i, field in enumerate(cls.fields):
            setattr(cls, field, property(itemgetter(i)))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise AttributeError(f"{type(self).__name__} has the fields {', '.join(self.fields)}, not {name!r}")

    def __repr__(self) -> str:
        lines = [f"{name}={value!r}" for name, value in zip(self.fields, self, strict=True)]
        return f"ferro.return_types.{type(self).__name__}(\n" + ",\n".join(lines) + ")"


class _lu_with_info(ReturnType):
    __slots__ = ()
    LU: Tensor
    pivots: Tensor
    info: Tensor


class aminmax(ReturnType):
    __slots__ = ()
    min: Tensor
    max: Tensor


class cummax(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class cummin(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class frexp(ReturnType):
    __slots__ = ()
    mantissa: Tensor
    exponent: Tensor


class geqrf(ReturnType):
    __slots__ = ()
    a: Tensor
    tau: Tensor


class histogram(ReturnType):
    __slots__ = ()
    hist: Tensor
    bin_edges: Tensor


class histogramdd(ReturnType):
    __slots__ = ()
    hist: Tensor
    bin_edges: Any  # (a tuple of tensors)


class kthvalue(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class linalg_cholesky_ex(ReturnType):
    __slots__ = ()
    L: Tensor
    info: Tensor


class linalg_eig(ReturnType):
    __slots__ = ()
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eigh(ReturnType):
    __slots__ = ()
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_inv_ex(ReturnType):
    __slots__ = ()
    inverse: Tensor
    info: Tensor


class linalg_ldl_factor(ReturnType):
    __slots__ = ()
    LD: Tensor
    pivots: Tensor


class linalg_ldl_factor_ex(ReturnType):
    __slots__ = ()
    LD: Tensor
    pivots: Tensor
    info: Tensor


class linalg_lstsq(ReturnType):
    __slots__ = ()
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_lu(ReturnType):
    __slots__ = ()
    P: Tensor
    L: Tensor
    U: Tensor


class linalg_lu_factor(ReturnType):
    __slots__ = ()
    LU: Tensor
    pivots: Tensor


class linalg_lu_factor_ex(ReturnType):
    __slots__ = ()
    LU: Tensor
    pivots: Tensor
    info: Tensor


class linalg_qr(ReturnType):
    __slots__ = ()
    Q: Tensor
    R: Tensor


class linalg_slogdet(ReturnType):
    __slots__ = ()
    sign: Tensor
    logabsdet: Tensor


class linalg_solve_ex(ReturnType):
    __slots__ = ()
    result: Tensor
    info: Tensor


class linalg_svd(ReturnType):
    __slots__ = ()
    U: Tensor
    S: Tensor
    Vh: Tensor


class lu_unpack(ReturnType):
    __slots__ = ()
    P: Tensor
    L: Tensor
    U: Tensor


class max(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class median(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class min(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class mode(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class nanmedian(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class qr(ReturnType):
    __slots__ = ()
    Q: Tensor
    R: Tensor


class slogdet(ReturnType):
    __slots__ = ()
    sign: Tensor
    logabsdet: Tensor


class sort(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class svd(ReturnType):
    __slots__ = ()
    U: Tensor
    S: Tensor
    V: Tensor


class topk(ReturnType):
    __slots__ = ()
    values: Tensor
    indices: Tensor


class triangular_solve(ReturnType):
    __slots__ = ()
    solution: Tensor
    cloned_coefficient: Tensor
