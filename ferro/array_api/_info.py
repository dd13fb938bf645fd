"""What the array-API standard asks of a namespace: its capabilities, devices and dtypes."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.array_api._arrays import KINDS, isdtype

DTYPES = {d.name: d for kind in ("bool", "integral", "real floating", "complex floating") for d in KINDS[kind]}


class Info:
    """The object that ``__array_namespace_info__()`` returns."""

    def capabilities(self) -> dict[str, Any]:
        """Masks select elements, and shapes may depend on data; NumPy's arrays have at most 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device on which arrays are made."""
        return ferro.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that arrays get if none is given."""
        floating = ferro.get_default_dtype()
        return {
            "real floating": floating,
            "complex floating": floating.to_complex(),
            "integral": ferro.int64,
            "indexing": ferro.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name, all or those of a kind (or of a tuple of kinds)."""
        return {name: d for name, d in DTYPES.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> list:
        """All devices."""
        return [ferro.device("cpu")]


def __array_namespace_info__() -> Info:
    """What the namespace can do: its capabilities, devices and dtypes."""
    return Info()
