"""Results with named fields: tuples such as ``max(x, dim)`` returns, with `values` and `indices`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any


class ReturnType(tuple):
    """A tuple whose elements also have names; made from a sequence."""

    __slots__ = ()
    fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has the fields {', '.join(self.fields)}, not {name!r}")

    def __repr__(self) -> str:
        lines = [f"{name}={value!r}" for name, value in zip(self.fields, self, strict=True)]
        return f"ferro.return_types.{type(self).__name__}(\n" + ",\n".join(lines) + ")"


def return_type(name: str, *fields: str) -> Any:
    """The class of the results of one operation."""
    body: dict[str, Any] = {
        "__slots__": (),
        "__module__": __name__,
        "__doc__": f"What {name} returns: {', '.join(fields)}.",
    }
    body.update({field: property(itemgetter(i)) for i, field in enumerate(fields)})
    return type(name, (ReturnType,), {**body, "fields": fields})


_lu_with_info = return_type("_lu_with_info", "LU", "pivots", "info")
aminmax = return_type("aminmax", "min", "max")
cummax = return_type("cummax", "values", "indices")
cummin = return_type("cummin", "values", "indices")
geqrf = return_type("geqrf", "a", "tau")
histogram = return_type("histogram", "hist", "bin_edges")
histogramdd = return_type("histogramdd", "hist", "bin_edges")
kthvalue = return_type("kthvalue", "values", "indices")
linalg_cholesky_ex = return_type("linalg_cholesky_ex", "L", "info")
linalg_eig = return_type("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = return_type("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_inv_ex = return_type("linalg_inv_ex", "inverse", "info")
linalg_ldl_factor = return_type("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = return_type("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lstsq = return_type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = return_type("linalg_lu", "P", "L", "U")
linalg_lu_factor = return_type("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = return_type("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_qr = return_type("linalg_qr", "Q", "R")
linalg_slogdet = return_type("linalg_slogdet", "sign", "logabsdet")
linalg_solve_ex = return_type("linalg_solve_ex", "result", "info")
linalg_svd = return_type("linalg_svd", "U", "S", "Vh")
lu_unpack = return_type("lu_unpack", "P", "L", "U")
max = return_type("max", "values", "indices")
median = return_type("median", "values", "indices")
min = return_type("min", "values", "indices")
mode = return_type("mode", "values", "indices")
nanmedian = return_type("nanmedian", "values", "indices")
qr = return_type("qr", "Q", "R")
slogdet = return_type("slogdet", "sign", "logabsdet")
sort = return_type("sort", "values", "indices")
svd = return_type("svd", "U", "S", "V")
topk = return_type("topk", "values", "indices")
triangular_solve = return_type("triangular_solve", "solution", "cloned_coefficient")
