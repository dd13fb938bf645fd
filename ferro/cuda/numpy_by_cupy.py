"""NumPy's names as the formulas of `ferro.cpu` use them, computed by CuPy: what stands in the place of ``np`` in their twins.

Most names are CuPy's own. Here are those that CuPy lacks or does otherwise (seen with CuPy 14.2): reductions and scans that are
methods of ufuncs, errstate, the dtypes of sums at places, arrays of no dimension beside arrays.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

import numpy as np

from ferro.cuda.by_hand.scatter import add_at
from ferro.cuda.driver import cupy, module
from ferro.cuda.missing import Lacking
from ferro.cuda.printer import STORED

_ADDED = frozenset("ilqILQefd")  # dtypes that CuPy adds at places; others are added in one of these


class Ufunc:
    """A ufunc of CuPy's with the methods of NumPy's that formulas use."""

    def __init__(self, name: str, reduce: str = "", accumulate: str = "") -> None:
        self.__name__, self._reduce, self._accumulate = name, reduce, accumulate

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(cupy(), self.__name__)(*args, **kwargs)

    def reduce(
        self, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None
    ) -> Any:
        """The reduction over `axis` (None for all), which begins with `initial`."""
        if not self._reduce:
            raise Lacking(f"a reduction by {self.__name__}")
        function = getattr(cupy(), self._reduce)
        if self._reduce in ("sum", "prod"):
            return function(x, axis, dtype, out, keepdims)
        if initial is not None and not x.size:
            return cupy().full(np.zeros(x.shape).sum(axis, keepdims=keepdims).shape, initial, x.dtype)
        return function(x, axis, out, keepdims)

    def accumulate(self, x: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """The results up to each place along `axis`: by CuPy, else in steps of 1, 2, 4, ... places."""
        axis %= x.ndim
        if self._accumulate:
            found = getattr(cupy(), self._accumulate)(x, axis, dtype)
        else:
            found, step, before = x.astype(x.dtype if dtype is None else dtype), 1, (slice(None),) * axis
            while step < x.shape[axis]:
                near, far = found[(*before, slice(step, None))], found[(*before, slice(None, -step))]
                found[(*before, slice(step, None))] = self(near, far)
                step *= 2
        if out is None:
            return found
        out[...] = found
        return out

    def at(self, out: Any, index: Any, src: Any) -> None:
        """out[index] = function(out[index], src), one element after the other."""
        if self.__name__ not in ("add", "maximum", "minimum"):
            raise Lacking(f"{self.__name__} at places that an index names")
        ufunc = getattr(cupy(), self.__name__)
        if out.dtype.kind == "c":
            for part in ("real", "imag"):
                self.at(getattr(out, part), index, getattr(cupy().asarray(src, out.dtype), part))
        elif self.__name__ == "add" and out.dtype.name in STORED and out.ndim:
            _add_in_order(out, index, cupy().asarray(src, out.dtype))
        elif out.dtype.char in _ADDED:
            ufunc.at(out, index, cupy().asarray(src, out.dtype))
        else:
            wide = out.astype(np.float32 if out.dtype.kind in "fV" else np.int64)
            ufunc.at(wide, index, cupy().asarray(src).astype(wide.dtype))
            out[...] = wide


def _add_in_order(out: Any, index: Any, src: Any) -> None:
    """out[index] += src by kernels without atomics; any other key than integers names flat places."""
    if isinstance(index, cupy().ndarray) and index.dtype.kind in "iu":
        rest = out.shape[1:]
        rows = cupy().broadcast_to(src, (*index.shape, *rest))
        add_at(out, index.reshape(-1), rows.reshape(index.size, *rest))
        return
    places = cupy().arange(out.size).reshape(out.shape)[index]
    flat = out.reshape(-1)
    add_at(flat, places.reshape(-1), cupy().broadcast_to(src, places.shape).reshape(-1))
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


class _ErrState(ContextDecorator):
    """np.errstate: a GPU warns of nothing."""

    def __init__(self, **kwargs: str) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


def _asarray(value: Any, dtype: Any = None, order: Any = None, **kwargs: Any) -> Any:
    return cupy().asarray(value, dtype, order)


def _where(condition: Any, *choices: Any) -> Any:
    """np.where, of which numbers do not widen an array, and bfloat16 stays what it is."""
    if not choices:
        return cupy().where(condition)
    x, y = choices
    kinds = [c.dtype for c in choices if hasattr(c, "dtype") and getattr(c, "ndim", 0)] or [
        c.dtype for c in choices if hasattr(c, "dtype")
    ]
    found = cupy().where(condition, x, y)
    if kinds and kinds[0].kind == "V" and all(kind == kinds[0] for kind in kinds):
        return found.astype(kinds[0])
    return found


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if not x.size:
        return cupy().zeros(minlength, np.int64 if weights is None else np.float64)
    if weights is None or weights.dtype.name not in STORED:
        return cupy().bincount(x, weights, minlength)
    found = cupy().zeros(max(minlength, int(x.max()) + 1), np.float64)
    add_at(found, x, weights.astype(np.float64))
    return found


def _maximum_of(name: str) -> Any:
    def function(x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        return OWN["maximum" if name == "max" else "minimum"].reduce(x, axis, None, out, keepdims, initial)

    return function


OWN: dict[str, Any] = {
    "add": Ufunc("add", "sum", "cumsum"),
    "multiply": Ufunc("multiply", "prod", "cumprod"),
    "maximum": Ufunc("maximum", "max"),
    "minimum": Ufunc("minimum", "min"),
    "logical_and": Ufunc("logical_and", "all"),
    "logical_or": Ufunc("logical_or", "any"),
    "logaddexp": Ufunc("logaddexp"),
    "errstate": _ErrState,
    "asarray": _asarray,
    "where": _where,
    "bincount": _bincount,
    "max": _maximum_of("max"),
    "min": _maximum_of("min"),
    "broadcast_shapes": np.broadcast_shapes,
    "result_type": np.result_type,
    "dtype": np.dtype,
    "finfo": np.finfo,
    "iinfo": np.iinfo,
    "ogrid": np.ogrid,
}


class Numpy:
    """The namespace."""

    def __getattr__(self, name: str) -> Any:
        if name in OWN:
            found = OWN[name]
        elif name == "linalg":
            found = Part("linalg")
        else:
            given = getattr(np, name)
            if isinstance(given, (float, type(None))) or (isinstance(given, type) and issubclass(given, np.generic)):
                found = given  # dtypes, pi, inf, newaxis
            else:
                found = getattr(cupy(), name, None)
                if found is None:
                    raise Lacking(name)
        setattr(self, name, found)
        return found


class Part:
    """A namespace of functions of CuPy's below the first, such as ``linalg``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "LinAlgError":
            return np.linalg.LinAlgError
        found = getattr(getattr(cupy(), self._name), name, None)
        if found is None:
            raise Lacking(f"{self._name}.{name}")
        return found


def special(name: str) -> Any:
    """The function of scipy.special, by CuPy."""
    found = getattr(module("cupyx.scipy.special"), name, None)
    if found is None:
        raise Lacking(f"the special function {name}")
    return found


numpy = Numpy()
