"""The type promotion of the array-API standard: by dtypes alone (a 0-d array counts like any other), numbers take the array's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import TensorBase
from ferro.ops.data import tensor

KINDS = {bool: 0, int: 1, float: 2, complex: 3}  # of Python's numbers, as dtype.category


def common(x: dtypes.dtype, y: dtypes.dtype) -> dtypes.dtype:
    """The dtype of two arrays together: of one kind, the narrowest that holds both; TypeError for int64 with uint64."""
    if x is y:
        return x
    if x.category == y.category == 1:
        found = np.promote_types(x.np, y.np)
        if found.kind == "f":
            raise TypeError(
                f"result_type: no integer dtype holds both {x} and {y}; cast one of the arrays with astype()"
            )
        return dtypes.from_numpy(found)
    return dtypes.promote_types(x, y)


def beside(number: Any, x: dtypes.dtype) -> dtypes.dtype:
    """The dtype that a Python number and an array of dtype `x` have together."""
    kind = KINDS.get(type(number), 3)
    if kind <= x.category:
        return x
    return x.to_complex() if kind == 3 and x.category == 2 else dtypes.promote_types(x, _of(kind))


def _of(kind: int) -> dtypes.dtype:
    """The default dtype of a kind."""
    return (dtypes.bool_, dtypes.int64, dtypes.default(), dtypes.default().to_complex())[kind]


def result_type(*arrays_and_dtypes: Any) -> dtypes.dtype:
    """The dtype of a result that arrays, dtypes and Python numbers have together; TypeError if there is none."""
    found, numbers = None, []
    for a in arrays_and_dtypes:
        if isinstance(a, (bool, int, float, complex)):
            numbers.append(a)
            continue
        if not isinstance(a, (TensorBase, dtypes.dtype)):
            raise TypeError(f"result_type: expected arrays, dtypes and numbers, got {type(a).__name__}")
        d: Any = a.dtype if isinstance(a, TensorBase) else a  # type: ignore[attr-defined]
        found = d if found is None else common(found, d)
    if found is None:
        raise ValueError("result_type: at least one array or dtype is needed")
    for number in numbers:
        found = beside(number, found)
    return found


def promoted(*xs: Any) -> list:
    """Arrays and numbers as tensors of their common dtype."""
    d = result_type(*xs)
    return [x.to(d) if isinstance(x, TensorBase) else tensor(x, dtype=d) for x in xs]  # type: ignore[attr-defined]
