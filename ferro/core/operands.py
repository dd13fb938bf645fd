"""Operands of operations: numbers and arrays beside tensors, and their common dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import LIBRARIES, SERVING, device_type
from ferro.batched.array import plain as _inner
from ferro.core import backend, dtypes
from ferro.core.backend import HOST
from ferro.core.base import TensorBase, Version, not_a_tensor, wrap
from ferro.core.dtypes import INEXACT
from ferro.core.history import history
from ferro.core.mode import ACTIVE, MODE
from ferro.core.origins import two_devices
from ferro.core.primitives import CAST

asarray = np.asarray
_constants: dict[tuple, Any] = {}
_NUMBER = (
    Version()
)  # of what stands for a Python number on a device, whose arrays cannot be marked as read-only; it never changes
_NUMBER.n = 0
NUMBERS = (int, float, complex, bool)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def constant(value: Any, dtype: Any) -> Any:
    """A 0-d tensor for a Python number, kept for the next use (never shown to the user, never changed)."""
    if type(value) not in NUMBERS and (noted := getattr(value, "constant", None)) is not None:
        array = noted(dtype)  # a number of a graph that is captured
        if array is not None:
            return wrap(array)
        value = float.__float__(value)
    key = (value, dtype.num) if value else (str(value), dtype.num)  # 0.0 and -0.0 would be equal keys
    t = _constants.get(key)
    if t is None:
        if len(_constants) > 4096:
            _constants.clear()
        try:
            data = asarray(value, dtype)
        except OverflowError:  # an integer out of range wraps around
            data = asarray(value).astype(dtype)
        data.flags.writeable = False
        t = _constants[key] = wrap(data)
    return t


SCALING = ("mul", "div")  # beside half precision these take a number that it does not hold in float32, as PyTorch's do


def is_held(number: float, dtype: Any) -> bool:
    """Whether half precision holds a number exactly."""
    with np.errstate(over="ignore"):
        try:
            return float(dtype.type(number)) == number
        except OverflowError:
            return False


def in_single(function: Any, x: Any) -> Any:
    """A function of a tensor of half precision, computed in float32."""
    found = function(backend.apply(CAST, (x,), (_FLOAT32,)))
    return backend.apply(CAST, (found,), (x._data.dtype,)) if found._data.dtype == _FLOAT32 else found


def is_constant(t: Any) -> bool:
    """Whether a 0-d tensor stands for a Python number; such tensors are no business of the user's hooks."""
    return isinstance(t, TensorBase) and t._node is None and (t._counter is _NUMBER or not backend.is_writable(t._data))


_EXACT = frozenset((int, float, complex, bool, type(None), str, tuple, list, np.ndarray, np.dtype))


def plain(params: tuple) -> tuple:
    """Parameters with Python's numbers in the place of NumPy's and of classes that come from float: those would widen a result."""
    for p in params:
        if type(p) not in _EXACT:
            return tuple([p if type(p) in _EXACT else _plain(p) for p in params])
    return params


def _plain(p: Any) -> Any:
    if isinstance(p, np.generic):
        return p.item() if p.dtype.kind in "fiucb" else p
    return float.__float__(p) if isinstance(p, float) else p


_OF_NUMBERS = ("add", "sub", "mul", "div", "floor_divide")  # defined for two numbers, too; the result is a 0-d tensor


def operands(name: str, *given: Any) -> list:
    """Tensors for the operands of an elementwise operation: Python numbers take part in type promotion as such."""
    tensors = [g for g in given if isinstance(g, TensorBase)]
    for t in tensors:
        if not hasattr(t, "_data"):
            raise not_a_tensor(name, t)
    if len(tensors) == len(given):
        return tensors
    found = []
    for g in given:
        if isinstance(g, (TensorBase, *NUMBERS)):
            found.append(g)
        elif isinstance(g, np.generic):
            found.append(of_array(name, g))
        elif isinstance(g, HOST):
            raise TypeError(
                f"{name}(): argument {'input' if not found else 'other'!r} (position {len(found) + 1}) must be Tensor, not "
                "numpy.ndarray; from_numpy(array) makes one of it"
            )
        else:
            raise TypeError(f"{name}: expected a tensor or a number, got {type(g).__name__}")
    if not tensors and not any(isinstance(g, TensorBase) for g in found):
        if name not in _OF_NUMBERS:
            raise TypeError(f"{name}(): expected at least one Tensor, got only numbers: {', '.join(map(repr, given))}")
        dtype = dtypes.result_np(found)
        return [constant(g, dtype) for g in found]
    if len(tensors) == 1 and len(given) == 2:
        dtype = (
            dtype_with(tensors[0]._data, next(g for g in found if not isinstance(g, TensorBase)))
            if not isinstance(found[0], TensorBase) or not isinstance(found[1], TensorBase)
            else None
        )
    else:
        dtype = dtypes.result_np([g._data if isinstance(g, TensorBase) else g for g in found])
    return [g if isinstance(g, TensorBase) else constant(g, dtype) for g in found]


def of_array(name: str, a: Any) -> Any:
    """An array beside a tensor in an operator, as a tensor; a number of NumPy's anywhere."""
    a = asarray(a)
    if a.dtype not in dtypes.FROM_NUMPY:  # (named here: dtypes.own does not know the operation)
        raise TypeError(f"{name}: an operand is an array of NumPy's {a.dtype!r}, which ferro has no dtype for")
    return wrap(dtypes.own(a))


def dtype_with(a: Any, number: Any) -> Any:
    """The dtype of array (op) Python number."""
    d, kind = a.dtype, type(number)
    if kind is int and d.kind in "iu":
        return d
    inexact = d is _FLOAT32 or d is _FLOAT64 or d in INEXACT
    if inexact and (kind is float or kind is int or kind is bool or d.kind == "c"):
        return d
    return dtypes.result_np([a, number])


def promote(*xs: Any) -> list:
    """The tensors cast (recorded) to their common dtype by PyTorch's rules."""
    dtype = xs[0]._data.dtype
    for x in xs:
        if x._data.dtype is not dtype:
            break
    else:
        return list(xs)
    if len(xs) == 2 and (xs[0]._data.ndim == 0) is (xs[1]._data.ndim == 0):
        dtype = dtypes._promote_np(xs[0]._data.dtype, xs[1]._data.dtype)
    else:
        dtype = dtypes.result_np([x._data for x in xs])
    plain = not ACTIVE or (mode := MODE.get()) is None or mode.silent
    found = []
    for x in xs:
        if x._data.dtype is dtype:
            found.append(x)
        elif plain and x._node is None and x._meta is None:  # nothing to record, nothing to mark
            found.append(wrap(cpu.cast(x._data, dtype)))
        else:
            found.append(backend.apply(CAST, (x,), (dtype,)))
    return found


def together(op: Any, xp: Any, xs: tuple, arrays: list) -> tuple:
    """Tensors and arrays of which some are of the backend xp: numbers among them are brought to its device."""
    if LIBRARIES and (kind := device_type(arrays)) is not None:  # (what is batched may lie there, too)
        xp = SERVING[kind]
    bring = getattr(xp, "from_host", None)
    if bring is None or all(a is None or not backend.is_host(_inner(a)) for a in arrays):
        return xs, arrays
    xs = tuple(xs)
    for i, a in enumerate(arrays):
        if a is not None and backend.is_host(_inner(a)):
            if not backend.is_host(a) or a.ndim or history(xs[i]) is not None:
                other = next(k for k, b in enumerate(arrays) if b is not None and not backend.is_host(_inner(b)))
                raise two_devices(op.name, *[(backend.device_of(arrays[k]), xs[k], arrays[k]) for k in (other, i)])
            arrays[i] = bring(a)
            brought = wrap(arrays[i])
            if is_constant(xs[i]):
                brought._counter = _NUMBER
            xs = (*xs[:i], brought, *xs[i + 1 :])
    return xs, arrays


def in_floats(x: Any) -> Any:
    """A tensor of integers or bools as one of the default dtype, any other as it is."""
    return x if x._data.dtype in INEXACT else wrap(x._data.astype(dtypes.default().np))
