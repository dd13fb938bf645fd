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


aminmax = return_type("aminmax", "min", "max")
cummax = return_type("cummax", "values", "indices")
cummin = return_type("cummin", "values", "indices")
histogram = return_type("histogram", "hist", "bin_edges")
histogramdd = return_type("histogramdd", "hist", "bin_edges")
kthvalue = return_type("kthvalue", "values", "indices")
max = return_type("max", "values", "indices")
median = return_type("median", "values", "indices")
min = return_type("min", "values", "indices")
mode = return_type("mode", "values", "indices")
nanmedian = return_type("nanmedian", "values", "indices")
sort = return_type("sort", "values", "indices")
topk = return_type("topk", "values", "indices")
