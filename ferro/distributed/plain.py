"""Plain data as JSON and as bytes, and back, exactly: reading them executes nothing, so they may be anybody's.

Note [Plain data]
    Lists, texts, truth values, None, whole numbers and finite floats stand for themselves. Anything else is an object with one name,
    which says what it is: ``{"tuple": [1, 2]}``. What has elements lies behind the text as memory; the text has its dtype, its shape and
    where it begins. Exact types alone are taken, since an instance of a subclass would come back as something else. Of a tensor come
    elements, dtype, device and `requires_grad`, as a Tensor or Parameter of its own; attributes and gradients do not.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import LEAF, wrap
from ferro.core.device import device
from ferro.core.layout import strided
from ferro.core.size import Size
from ferro.nn.parameter import Parameter
from ferro.tensor import Tensor

_HEAD = 8  # bytes: how long the text is
_DTYPES = {d.name: d for d in (*dtypes.ALL, *dtypes.ABSENT)}
_NUMBERS = "biufcSU"  # kinds of NumPy's scalars whose `item` is exact, where it is one of Python's
_DICTS: dict[str, Callable[..., Any]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_MANY: dict[str, Callable[..., Any]] = {"tuple": tuple, "size": Size, "set": set, "frozenset": frozenset}
_NAMES = {kind: name for name, kind in (*_DICTS.items(), *_MANY.items())}
WHAT = "None, numbers, texts, bytes, tensors, dtypes, devices, NumPy's arrays and numbers, and lists, tuples, sets and dictionaries of them"


class NotPlain(TypeError):
    """A value that is no plain data; `kind` is its type."""

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        super().__init__(f"{self.kind} is no plain data")


class Memory:
    """What lies behind the text."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.end = 0

    def put(self, data: bytes) -> list[int]:
        """Where some bytes begin and how many they are."""
        place = [self.end, len(data)]
        self.parts.append(data)
        self.end += len(data)
        return place


def dumps(value: Any) -> bytes:
    """Plain data as bytes; NotPlain for anything else.

    >>> loads(dumps({"loss": 0.5, (1, 2): {3}}))
    {'loss': 0.5, (1, 2): {3}}
    """
    memory = Memory()
    try:
        text = json.dumps(encoded(value, memory)).encode()
    except RecursionError:
        raise TypeError("plain data lie too deep in one another, or within themselves") from None
    return b"".join((len(text).to_bytes(_HEAD, "little"), text, *memory.parts))


def loads(data: Any) -> Any:
    """What `dumps` was given; ValueError for other bytes."""
    given = memoryview(data)
    end = _HEAD + int.from_bytes(given[:_HEAD], "little")
    try:
        return decoded(json.loads(bytes(given[_HEAD:end])), given[end:])
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"these bytes are no plain data: {type(error).__name__}: {error!s:.200}") from None


# -- values as JSON -----------------------------------------------------------------------------------------------------


def encoded(value: Any, memory: Memory | None = None) -> Any:
    """Plain data as JSON, see the note; NotPlain for anything else, and for what has elements if there is no `memory` for them."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= 64 else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is str:
        return value if value.isascii() or _is_unicode(value) else {"points": [ord(c) for c in value]}
    if kind is list:
        return [encoded(v, memory) for v in value]
    if kind in _NAMES:
        name = _NAMES[kind]
        if name in _DICTS:
            return {name: [[encoded(k, memory), encoded(v, memory)] for k, v in value.items()]}
        return {name: [encoded(v, memory) for v in value]}
    return _encoded_number(value) or _encoded_name(value) or _encoded_elements(value, memory)


def _is_unicode(text: str) -> bool:
    """Whether it has no halves of surrogate pairs, two of which JSON would take for one letter."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encoded_number(value: Any) -> Any:
    if type(value) is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, np.generic) and (value.dtype in dtypes.FROM_NUMPY or value.dtype.kind in _NUMBERS):
        item = value.item()
        if type(item) in (bool, int, float, complex, str):
            return {"numpy": [_spelled(value.dtype), encoded(item)]}
    return None


def _encoded_name(value: Any) -> Any:
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    return {"device": str(value)} if type(value) is device else None


def _encoded_elements(value: Any, memory: Memory | None) -> Any:
    kind: Any = type(value)
    if memory is not None:
        if kind in (bytes, bytearray):
            return {kind.__name__: memory.put(bytes(value))}
        if kind is np.ndarray and not value.dtype.hasobject:
            return {"array": [_spelled(value.dtype), list(value.shape), memory.put(value.tobytes())[0]]}
        if issubclass(kind, np.generic) and not value.dtype.hasobject:
            return {"element": encoded(np.array(value), memory)}
        if kind in (Tensor, Parameter) and value.layout is strided:
            place, data = str(value.device), value.detach().cpu()._data
            what = [value.dtype.name, list(data.shape), memory.put(data.tobytes())[0], place]
            return {"tensor": [*what, value.requires_grad, kind is Parameter]}
    raise NotPlain(value)


def _spelled(dtype: Any) -> Any:
    """A dtype of NumPy's as JSON: ferro's name, or what files of NumPy's say."""
    known = dtypes.FROM_NUMPY.get(dtype)
    if known is not None:
        return known.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (of dtypes that do not come back, which are refused here)
        found = np.lib.format.dtype_to_descr(dtype)
        if np.lib.format.descr_to_dtype(found) != dtype:
            raise NotPlain(dtype)
    return encoded(found)


# -- and back -----------------------------------------------------------------------------------------------------------


def decoded(found: Any, memory: Any = b"") -> Any:
    """What `encoded` was given; raises some error for what is none of it."""
    if type(found) is list:
        return [decoded(v, memory) for v in found]
    if type(found) is not dict:
        return found
    ((name, inner),) = found.items()
    if name in _DICTS:
        return _DICTS[name]({decoded(k, memory): decoded(v, memory) for k, v in inner})
    if name in _MANY:
        return _MANY[name]([decoded(v, memory) for v in inner])
    if name in ("bytes", "bytearray"):
        start, count = inner
        return (bytes if name == "bytes" else bytearray)(_array(np.dtype(np.uint8), [count], start, memory).tobytes())
    if name == "array":
        spelled, shape, start = inner
        return _array(_dtype(spelled), shape, start, memory)
    if name == "element":
        return decoded(inner, memory)[()]
    return _tensor(memory, *inner) if name == "tensor" else _SIMPLE[name](inner)


def _scalar(inner: Any) -> Any:
    spelled, item = inner
    dtype = _dtype(spelled)
    if dtype not in dtypes.FROM_NUMPY and dtype.kind not in _NUMBERS:
        raise ValueError(f"there are no numbers of {dtype}")
    return dtype.type(decoded(item))


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "int": lambda digits: int(digits, 16),
    "float": lambda text: float(str(text)),
    "complex": lambda parts: complex(*map(float, parts)),
    "points": lambda numbers: "".join(map(chr, numbers)),
    "dtype": lambda name: _DTYPES[name],
    "device": lambda name: device(str(name)),
    "numpy": _scalar,
}


def _dtype(spelled: Any) -> np.dtype:
    if type(spelled) is str and spelled in _DTYPES:
        return _DTYPES[spelled].np
    found = np.lib.format.descr_to_dtype(decoded(spelled))
    if found.hasobject:
        raise ValueError(f"{found} refers to objects")
    return found


def _array(dtype: np.dtype, shape: list[int], start: int, memory: Any) -> np.ndarray:
    """Some elements, in memory of their own."""
    if min(start, *shape, 0) < 0:  # (NumPy makes arrays of negative sizes from memory)
        raise ValueError(f"there is no memory from {start} on of shape {shape}")
    return np.ndarray(tuple(shape), dtype, memory[start:] if math.prod(shape) else b"").copy()


def _tensor(memory: Any, name: Any, shape: Any, start: Any, place: Any, requires_grad: Any, is_parameter: Any) -> Any:
    dtype = _DTYPES[name]
    if requires_grad and dtype.category < 2:
        raise ValueError(f"a tensor of {dtype} has no gradient")
    data = wrap(_array(dtype.np, shape, start, memory), None, Tensor)
    moved: Any = data if place == "cpu" else data.to(device(str(place)))
    return wrap(moved._data, LEAF if requires_grad else None, Parameter if is_parameter else Tensor)
