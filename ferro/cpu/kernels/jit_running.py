"""Entries of scans of small arrays and of their products (see native/jit_entries.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.native.jit import device
from ferro.native.jit_arrays import INT64, elements, is_plain, length, like, reduced, size_of
from ferro.native.jit_fields import (
    array_type,
    bool_type,
    class_of,
    int_type,
    load64,
    ndim_of,
    shape_of,
    the_none,
    the_true,
)
from ferro.native.jit_interpreter import as_long, description, new_array, pair
from ferro.native.thresholds import ENTRY_MOST, SMALL

f64 = np.float64


def entries(dtype: Any) -> dict[str, Any]:
    """The entries of these functions of ferro.cpu, by name."""
    return {
        "cumsum": _scan(dtype, lambda total, v: total + v, 0.0),
        "cumprod": _scan(dtype, lambda total, v: total * v, 1.0),
        "cummax": _extrema(dtype, lambda v, best: v >= best),
        "cummin": _extrema(dtype, lambda v, best: v <= best),
        "prod": _prod(dtype),
    }


@device
def _along(x, dim, number, most):
    """Whether x is an array as kernels read it, with some numbers, but not many, and the dimension one of its own."""
    if not is_plain(x, number) or class_of(dim) != int_type() or not 0 <= as_long(dim) < ndim_of(x):
        return False
    return 0 < size_of(x) <= most


def _scan(dtype: Any, combine: Any, start: float) -> Any:
    """What combines all numbers up to each place, in double precision."""
    number, both = np.dtype(dtype).num, device(combine)

    @device
    def run(x, out):
        for a in range(x.shape[0]):
            for i in range(x.shape[2]):
                total = f64(start)
                for j in range(x.shape[1]):
                    total = both(total, f64(x[a, j, i]))
                    out[a, j, i] = total

    def entry(objects, count):
        if count != 2:
            return 0
        x, dim = load64(objects), load64(objects + 8)
        if not _along(x, dim, number, SMALL - 1):
            return 0
        d = as_long(dim)
        out = like(x, True)
        if out == 0:
            return -1
        shape = length(x, 0, d), length(x, d, d + 1), length(x, d + 1, ndim_of(x))
        run(elements(dtype, x, *shape), elements(dtype, out, *shape))
        return out

    return entry


def _extrema(dtype: Any, better: Any) -> Any:
    """The extreme number up to each place, and where it is last; nan stays."""
    number, no_worse = np.dtype(dtype).num, device(better)

    @device
    def run(x, out, places):
        for a in range(x.shape[0]):
            for i in range(x.shape[2]):
                best, place = x[a, 0, i], 0
                for j in range(x.shape[1]):
                    v = x[a, j, i]
                    if no_worse(v, best) or v != v:  # noqa: PLR0124 (nan)
                        best, place = v, j
                    out[a, j, i] = best
                    places[a, j, i] = place

    def entry(objects, count):
        if count != 2:
            return 0
        x, dim = load64(objects), load64(objects + 8)
        if not _along(x, dim, number, ENTRY_MOST):
            return 0
        d = as_long(dim)
        out, places = like(x, True), new_array(array_type(), description(INT64), ndim_of(x), shape_of(x), 0, 0, 0, 0)
        found = pair(out, places)
        if found == 0:
            return -1
        shape = length(x, 0, d), length(x, d, d + 1), length(x, d + 1, ndim_of(x))
        run(elements(dtype, x, *shape), elements(dtype, out, *shape), elements(np.int64, places, *shape))
        return found

    return entry


def _prod(dtype: Any) -> Any:
    number = np.dtype(dtype).num

    @device
    def run(x, out):
        for a in range(x.shape[0]):
            for i in range(x.shape[2]):
                p = q = r = s = f64(1)  # four, for each waits for the one before
                whole = x.shape[1] // 4 * 4
                for j in range(0, whole, 4):
                    p, q = p * f64(x[a, j, i]), q * f64(x[a, j + 1, i])
                    r, s = r * f64(x[a, j + 2, i]), s * f64(x[a, j + 3, i])
                for j in range(whole, x.shape[1]):
                    p *= f64(x[a, j, i])
                out[a, i] = (p * q) * (r * s)

    def entry(objects, count):
        if count != 3:
            return 0
        x, dim, keep = load64(objects), load64(objects + 8), load64(objects + 16)
        if class_of(keep) != bool_type():
            return 0
        whole = dim == the_none()
        if whole:
            if not is_plain(x, number) or not 0 < size_of(x) <= ENTRY_MOST:
                return 0
        elif not _along(x, dim, number, ENTRY_MOST):
            return 0
        first, stop = (0, ndim_of(x)) if whole else (as_long(dim), as_long(dim) + 1)
        out = reduced(x, first, stop, keep == the_true(), False)
        if out == 0:
            return -1
        before, n, behind = length(x, 0, first), length(x, first, stop), length(x, stop, ndim_of(x))
        run(elements(dtype, x, before, n, behind), elements(dtype, out, before, behind))
        return out

    return entry
