"""Directions in which derivatives are compared: real degrees of freedom, random and unit ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core.backend import beside, on_host
from ferro.core.base import wrap
from ferro.core.dtypes import COMPLEX


def _random(like: Any, rng: np.random.Generator) -> Any:
    data = rng.standard_normal(like._data.shape)
    if like._data.dtype in COMPLEX:
        data = data + 1j * rng.standard_normal(like._data.shape)
    return wrap(beside(like._data, np.asarray(data).astype(like._data.dtype)))


def _unit(like: Any, rng: np.random.Generator) -> Any:
    """A random array of norm 1."""
    v = on_host(_random(like, rng)._data)
    return np.asarray(v / max(float(np.linalg.norm(v)), 1e-30))


def _projected(a: Any, b: Any) -> Any:
    """The real inner product of two arrays, as a matrix of one element."""
    return np.array([[float(np.sum(_flat(a) * _flat(b)))]])


def _tolerance(atol: float, u: Any, v: Any) -> float:
    """That of v^T J u: below double precision, where differences are noise, what `atol` in each element of J comes to."""
    double = all(a.dtype.char in "dD" for a in (u, v))
    return atol * (1.0 if double else float(np.abs(_flat(u)).sum() * np.abs(_flat(v)).sum()))


def _element(i: int, t: Any) -> str:
    """The name of a real degree of freedom of a tensor."""
    complex_ = t._data.dtype in COMPLEX
    index = tuple(map(int, np.unravel_index(i // 2 if complex_ else i, t._data.shape or (1,))))
    part = (" (real part)", " (imaginary part)")[i % 2] if complex_ else ""
    return f"{index[0] if len(index) == 1 else index}{part}"


def _flat(a: Any) -> Any:
    """The real degrees of freedom of an array: real and imaginary parts in turn."""
    a = np.ascontiguousarray(on_host(a))
    if a.dtype.kind == "c":
        a = a.astype(np.complex128).view(np.float64)
    return a.astype(np.float64).reshape(-1)
