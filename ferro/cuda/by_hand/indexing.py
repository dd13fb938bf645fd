"""Slices added at the places that an index names, by the kernels of scatter.py: one sort of the index, however long the slices."""

from __future__ import annotations

from typing import Any

from ferro.cpu import indexing
from ferro.cuda.by_hand.fallback import or_twin
from ferro.cuda.by_hand.launching import is_float
from ferro.cuda.by_hand.scatter import add_at
from ferro.cuda.driver import cupy

__all__ = ["index_add_"]


@or_twin(indexing.index_add_)
def index_add_(out: Any, dim: int, index: Any, src: Any) -> Any:
    """Adds the slices of src along `dim` to those of `out` that `index` names."""
    if not is_float(out, src) or index.ndim != 1 or src.ndim != out.ndim:
        return NotImplemented
    if not dim:
        add_at(out, index, src)
        return out
    whole = cupy().ascontiguousarray(cupy().moveaxis(out, dim, 0))
    add_at(whole, index, cupy().moveaxis(src, dim, 0))
    out[...] = cupy().moveaxis(whole, 0, dim)
    return out
