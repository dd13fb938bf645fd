"""A stand-in for CuPy over NumPy, for tests without a GPU: strict where CuPy is, and without what CuPy has not.

Its arrays refuse `np.asarray`, and to be mixed with NumPy's arrays, those of no dimension too. It has the names and parameters that
cupy_names.txt lists, which write_names.py wrote from CuPy itself. What was seen on a GPU with CuPy 14.2 and differs from NumPy is
here: no results that are scalars, results in C order, an index beyond the end that wraps around, missing methods of ufuncs.
"""

from __future__ import annotations

import ctypes
import operator
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.special

from ferro.core import capsules
from tests.cuda import emulated, stand_in_blas, stand_in_device, stand_in_nccl
from tests.cuda.stand_in_device import DEVICE

NAMES: dict[str, list[str] | None] = {}  # parameters by dotted name; None where they are not known
for _line in Path(__file__).with_name("cupy_names.txt").read_text().splitlines()[1:]:
    _name, _, _given = _line.rstrip(")").partition("(")
    NAMES[_name] = _given.split() if "(" in _line else None
VERSION = Path(__file__).with_name("cupy_names.txt").read_text().split()[2]


class Pointer:
    """Where an array lies: an address that may be moved."""

    def __init__(self, near: np.ndarray, start: int = 0, owner: Any = None) -> None:
        self.near, self.start, self.owner, self.held = near, start, owner, _memory_at(_root(near))

    @property
    def ptr(self) -> int:
        return self.near.__array_interface__["data"][0] + self.start

    def __add__(self, start: int) -> Pointer:
        return Pointer(self.near, self.start + start, self.owner)

    @property
    def mem(self) -> Any:
        """The memory that it points into."""
        return self.owner or self.held


class _Memory:
    """The memory of arrays: what they hold, so that its references tell how many they are."""

    __slots__ = ("__weakref__", "ptr", "root", "size")

    def __init__(self, root: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(root)
        self.root, self.ptr, self.size = root, low, high - low


_MEMORIES: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()


def _memory_at(root: np.ndarray) -> _Memory:
    found = _MEMORIES.get(id(root))
    if found is None:
        found = _MEMORIES[id(root)] = _Memory(root)
    return found


class UnownedMemory:
    """Memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner = ptr, size, owner


def _empty_pinned(shape: Any, dtype: Any) -> np.ndarray:
    """cupyx.empty_pinned: an array over memory that NumPy did not make."""
    count = int(np.prod(shape, dtype=int))
    return np.frombuffer(bytearray(max(count, 1) * np.dtype(dtype).itemsize), dtype, count).reshape(shape)


def _memory_pointer(memory: UnownedMemory, start: int) -> Pointer:
    raw = memoryview((ctypes.c_uint8 * memory.size).from_address(memory.ptr))
    return Pointer(np.frombuffer(raw, np.uint8), start, memory)


class Flags:
    """The flags that CuPy's arrays have: neither writeable nor aligned."""

    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.forc, self.fnc, self.owndata = flags.forc, flags.fnc, flags.owndata


_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


class Array:
    """cupy.ndarray."""

    __slots__ = ("__weakref__", "_near", "_pointer", "base", "owner")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> Any:
        self = object.__new__(cls)
        self.base, self.owner = None, getattr(memptr, "owner", None)
        if memptr is None:
            self.near = np.full(shape, 77, dtype) if np.dtype(dtype).kind != "b" else np.ones(shape, dtype)
            _made(self.near)
            return self
        dtype, shape = np.dtype(dtype), tuple(np.atleast_1d(shape).tolist()) if np.ndim(shape) else (int(shape),)
        if shape == () or isinstance(shape, tuple):
            lengths = [(n - 1) * s for n, s in zip(shape, strides or (), strict=True)] if strides is not None else [0]
            low = sum([n for n in lengths if n < 0])
            high = sum([n for n in lengths if n > 0]) + dtype.itemsize
            bounds = np.lib.array_utils.byte_bounds(_root(memptr.near))
            if 0 not in shape:
                assert bounds[0] <= memptr.ptr + low, "a view begins before its memory"
                assert memptr.ptr + high <= bounds[1], "a view ends behind its memory"
        first = memptr.near.__array_interface__["data"][0]
        raw = np.lib.stride_tricks.as_strided(_bytes_from(memptr), (dtype.itemsize,), (1,))
        one = raw.view(dtype).reshape(())
        assert first is not None
        self.near = np.lib.stride_tricks.as_strided(
            one, shape, strides if strides is not None else _steps(shape, dtype)
        )
        return self  # (its base is None: seen with CuPy 14.2)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method == "__call__" and len(args) == 2 and not kwargs and isinstance(args[0], (np.generic, np.ndarray)):
            if args[0].ndim or (isinstance(args[0], np.ndarray) and ufunc not in _COMPARISONS):
                raise TypeError("Unsupported type <class 'numpy.ndarray'>")
            return there(ufunc(args[0], args[1].near))  # a number of NumPy's before an operator
        raise TypeError(f"an array of the GPU was given to numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, *args: Any) -> NoReturn:
        raise TypeError(f"an array of the GPU was given to numpy.{function.__name__}")

    def __bool__(self) -> bool:
        return bool(_read(self))

    def __int__(self) -> int:
        return int(_read(self))

    def __index__(self) -> int:
        return operator.index(_read(self))

    def __float__(self) -> float:
        return float(_read(self))

    def __complex__(self) -> complex:
        return complex(_read(self))

    def __len__(self) -> int:
        return len(self.near)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"cupy({self.near!r})"

    def __getitem__(self, key: Any) -> Any:
        def work() -> Any:
            return self.near[_index(self.near, key)]

        found = work()
        if _shares(np.asarray(found), self.near):
            return _view(self, np.asarray(found))
        here(self)
        for k in key if isinstance(key, tuple) else (key,):
            if type(k) is Array:  # (the places of a mask are counted first, for which the host waits)
                _read(k) if k.dtype.kind == "b" else here(k)
        result = there(np.ascontiguousarray(found).reshape(np.shape(found)))
        _repeated(result, work)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")

        def write() -> None:
            self.near[_index(self.near, key)] = here(value) if not isinstance(value, np.ndarray) else value

        write()
        _changed(self, write)

    @property
    def near(self) -> np.ndarray:
        """NumPy's array behind it, when all has ended that the current stream waits for."""
        stand_in_device.settle()
        return self._near

    @near.setter
    def near(self, to: np.ndarray) -> None:
        self._near, self._pointer = to, Pointer(to)

    shape = property(lambda self: self._near.shape, lambda self, to: setattr(self.near, "shape", to))
    dtype = property(lambda self: self._near.dtype)
    ndim = property(lambda self: self._near.ndim)
    size = property(lambda self: self._near.size)
    itemsize = property(lambda self: self._near.itemsize)
    nbytes = property(lambda self: self._near.nbytes)
    strides = property(lambda self: self._near.strides)
    flags = property(lambda self: Flags(self._near.flags))

    @property
    def data(self) -> Pointer:
        """Where it begins."""
        self._pointer.owner = self.owner
        return self._pointer

    real = property(
        lambda self: _view(self, self.near.real) if self.near.dtype.kind == "c" else self,
        lambda self, to: self.real.__setitem__(..., to),
    )
    imag = property(
        lambda self: _view(self, self.near.imag) if self.near.dtype.kind == "c" else there(np.zeros_like(self.near)),
        lambda self, to: self.imag.__setitem__(..., to),
    )
    T = property(lambda self: _view(self, self.near.T))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        assert stream is None or type(stream) is int
        if copy:
            raise BufferError("copy=True only supported for copy to CPU.")
        capsule = self.near.__dlpack__(max_version=max_version, copy=copy)
        capsules.kind_of(capsule).value = 2  # (which NumPy does not take)
        return capsule

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        start, flags = self.near.__array_interface__["data"][0], self.near.flags
        steps = None if flags.c_contiguous else self.near.strides
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (start, False), "strides": steps, "version": 3}

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        """Copies NumPy's numbers of the same dtype and shape; from pinned memory while the host goes on."""
        assert (arr.dtype, arr.shape) == (self.near.dtype, self.near.shape)
        np.copyto(self.near, arr)
        _accessed(self, True)

    def get(self) -> np.ndarray:
        """A copy in NumPy's memory, for which the host waits."""
        _accessed(self, False)
        stand_in_device.current().synchronize()
        return np.array(self.near, order="C")


def _read(array: Array) -> np.ndarray:
    """The numbers, for which the host waits: which it cannot while they are only recorded."""
    assert stand_in_device.current().captured is None, "a stream that is recorded cannot be waited for"
    return array.near


def _root(near: np.ndarray) -> np.ndarray:
    while isinstance(near.base, np.ndarray) or isinstance(getattr(near.base, "base", None), np.ndarray):
        near = near.base if isinstance(near.base, np.ndarray) else near.base.base
    return near


def _shares(found: np.ndarray, near: np.ndarray) -> bool:
    """Whether an array is a view of another, of nothing too."""
    return np.may_share_memory(found, near) or (not found.size and _root(found) is _root(near))


def _bytes_from(pointer: Pointer) -> np.ndarray:
    root = _root(pointer.near)
    low, high = np.lib.array_utils.byte_bounds(root)
    if low == high or not root.size:
        return np.zeros(64, np.uint8)
    flat = np.lib.stride_tricks.as_strided(
        root[(slice(0, 1),) * root.ndim].reshape(1).view(np.uint8), (high - low,), (1,)
    )
    return flat[pointer.ptr - root.__array_interface__["data"][0] :]


def _steps(shape: tuple, dtype: Any) -> tuple:
    return np.empty(shape, dtype).strides


def here(value: Any) -> Any:
    """What the stand-in computes on; NumPy's arrays are refused."""
    if type(value) is Array:
        _accessed(value, False)
        return value.near
    if type(value) in (tuple, list):
        return type(value)([here(v) for v in value])
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def there(value: Any) -> Any:
    """What a function gives: arrays, never scalars."""
    if isinstance(value, (np.ndarray, np.generic)):
        made = object.__new__(Array)
        made.near, made.base, made.owner = np.asarray(value), None, None
        _made(made.near)
        return made
    if isinstance(value, (tuple, list)):
        return tuple([there(v) for v in value])
    return value


def _made(near: np.ndarray) -> None:
    """Notes memory of the device that has been written."""
    if DEVICE.is_watched and near.nbytes:
        stand_in_device.accessed(_root(near), True)


def _accessed(array: Array, writes: bool) -> None:
    """Notes that the current stream reads or writes an array."""
    if DEVICE.is_watched and array.near.nbytes:
        stand_in_device.accessed(_root(array.near), writes)


def _repeated(result: Array, work: Callable) -> None:
    """Notes work that gives a new array, where the current stream is being recorded."""

    def again() -> None:
        np.copyto(result.near, work())
        _accessed(result, True)

    stand_in_device.captured(again)


def _changed(array: Array, work: Callable) -> None:
    """Notes work that has changed an array."""

    def again() -> None:
        work()
        _accessed(array, True)

    _accessed(array, True)
    stand_in_device.captured(again)


def _view(of: Array, near: np.ndarray) -> Array:
    made = object.__new__(Array)
    near.flags.writeable = True  # (what is expanded may be written there; unasked, since NumPy warns of the question)
    made.near, made.owner = near, of.owner
    made.base = of if of.base is None else of.base if isinstance(of.base, Array) else of
    return made


def _index(near: np.ndarray, key: Any) -> Any:
    """A key of NumPy's; numbers of an index beyond the end wrap around, as on a GPU."""
    keys = key if isinstance(key, tuple) else (key,)
    found, at = [], 0
    plain = [k for k in keys if k is not None and k is not Ellipsis]
    used = sum([k.ndim if type(k) is Array and k.dtype.kind == "b" else 1 for k in plain])
    for k in keys:
        if k is None:
            found.append(k)
            continue
        if k is Ellipsis:
            at += near.ndim - used
            found.append(k)
            continue
        if type(k) is Array and k.dtype.kind in "iu" and near.ndim > at:
            k = k.near % max(near.shape[at], 1) if k.size else k.near
        elif type(k) is Array:
            at += k.ndim - 1 if k.dtype.kind == "b" else 0
            k = k.near
        elif isinstance(k, np.ndarray):
            k = np.asarray(k)  # (CuPy brings an index of NumPy's along)
        found.append(k)
        at += 1
    return tuple(found) if isinstance(key, tuple) else found[0]


# What gives an array back as it is where nothing is to be done, and writes into none.
_READ = frozenset(("asarray", "ascontiguousarray", "astype", "conj", "conjugate", "ravel", "real"))


def _passed(name: str, function: Callable) -> Callable:
    """The function through the wall, with the parameters that CuPy's has; what it returns unchanged is the same array again."""
    known = NAMES.get(name)

    def through(*args: Any, **kwargs: Any) -> Any:
        if known is not None and not any(p.startswith("*") for p in known):
            assert len(args) <= len(known), f"{name} takes {known}"
            unknown = set(kwargs) - set(known)
            assert not unknown, f"{name} has no parameters {sorted(unknown)}: {known}"

        def work() -> Any:
            with np.errstate(all="ignore"):  # (a GPU warns of nothing)
                return function(*here(args), **{k: here(v) for k, v in kwargs.items()})

        found = work()
        for a in (*args, *kwargs.values()):
            if type(a) is Array and a.near is found:
                if name.rpartition(".")[2] not in _READ:
                    _changed(a, work)
                return a
        first = args[0] if args else None
        if (
            type(first) is Array
            and isinstance(found, np.ndarray)
            and found.base is not None
            and _shares(found, first.near)
        ):
            return _view(first, found)
        result = there(found)
        if type(result) is Array:
            _repeated(result, work)
        elif found is None and isinstance(first, Array):  # (fill, sort)
            _changed(first, work)
        return result

    through.__name__ = name
    return through


def _in_c_order(function: Callable) -> Callable:
    """An elementwise function whose new results lie in C order: seen with CuPy 14.2."""

    def run(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if kwargs.get("out") is not None:
            return found
        if isinstance(found, tuple):
            return tuple([np.asarray(f, order="C") for f in found])
        return np.asarray(found, order="C") if isinstance(found, np.ndarray) and found.flags.owndata else found

    return run


_KEEPING = frozenset(("copy", "empty_like", "full_like", "ones_like", "zeros_like"))  # the order of what they are given


def _operator(name: str, f: Callable) -> Callable:
    """An operator; beside what NumPy's ufuncs know, but CuPy does not, it is the ufunc (so CuPy: see test_names.py)."""
    through = _passed(f"operator.{name}", f if name == "matmul" else _in_c_order(f))
    ufunc = getattr(np, _UFUNCS.get(name, name), None)

    def run(*args: Any) -> Any:
        other = next((a for a in args if type(a) is not Array), None)
        if hasattr(other, "__array_ufunc__") and not isinstance(other, (np.ndarray, np.generic)):
            return other.__array_ufunc__(ufunc, "__call__", *args)
        return through(*args)

    return run


_UFUNCS = {
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
}
_UFUNCS |= {"pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift"}
_UFUNCS |= {
    "rshift": "right_shift",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
}
_UFUNCS |= {"ge": "greater_equal"}
for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "matmul",
]:
    _f = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _operator(_name, _f))
    setattr(Array, f"__r{_name}__", _passed(f"operator.r{_name}", _in_c_order(lambda x, y, f=_f: f(y, x))))
    _i = getattr(operator, f"__i{_name}__", None)

    def _in_place(self: Any, other: Any, f: Any = _i) -> Any:
        def work() -> None:
            with np.errstate(all="ignore"):
                f(self.near, here(other))

        work()
        _changed(self, work)
        return self

    setattr(Array, f"__i{_name}__", _in_place)
for _name in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs"]:
    setattr(Array, f"__{_name}__", _operator(_name, getattr(operator, f"__{_name}__")))
_METHODS = "all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot fill flatten max mean min "
_METHODS += "nonzero prod ravel repeat reshape round searchsorted sort squeeze sum swapaxes take trace transpose view"
for _name in _METHODS.split():
    assert f"cupy.ndarray.{_name}" in NAMES
    setattr(Array, _name, _passed(f"cupy.ndarray.{_name}", getattr(np.ndarray, _name)))
for _name in ("tolist", "item"):
    setattr(Array, _name, lambda self, *args, f=_name: getattr(self.near, f)(*args))


class Ufunc:
    """cupy.ufunc: only `add` and its like can be reduced, accumulated, or added at places, and of some dtypes alone."""

    def __init__(self, name: str) -> None:
        self.__name__, self._near = name, getattr(np, name)
        self._call = _passed(f"operator.{name}", _in_c_order(self._near))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert set(kwargs) <= {"out", "dtype", "casting"}, kwargs
        return self._call(*args, **kwargs)

    def at(self, out: Array, index: Any, src: Any) -> None:
        if self.__name__ not in ("add", "maximum", "minimum"):
            raise NotImplementedError(f"`cupy_{self.__name__}.at` is not supported yet")
        if out.dtype.char not in "ilqILQefd":
            raise TypeError(
                "cupy.add.at only supports int32, int64, float16, float32, float64, uint32, uint64 as data type"
            )
        self._near.at(out.near, _index(out.near, index), here(src))


class Module(types.ModuleType):
    """A module that has what the list has, and NumPy's function behind it."""

    def __init__(self, name: str, behind: Any, **own: Any) -> None:
        super().__init__(name)
        self.__dict__["_behind"] = behind
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if f"{self.__name__}.{name}" not in NAMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        given = getattr(self._behind, name)
        if isinstance(given, np.ufunc) and self._behind is np:
            found: Any = Ufunc(name)
        elif callable(given) and not isinstance(given, type):
            is_made = self._behind is np and name not in _KEEPING
            found = _passed(f"{self.__name__}.{name}", _in_c_order(given) if is_made else given)
        else:
            found = given
        self.__dict__[name] = found
        return found


class _Interface:
    """The memory of an array of another library."""

    def __init__(self, array: Any) -> None:
        self.held, self.__array_interface__ = array, array.__cuda_array_interface__


class _Exported:
    """What NumPy takes a capsule from, as if it lay on the host."""

    def __init__(self, capsule: Any) -> None:
        assert capsules.kind_of(capsule).value == 2
        capsules.kind_of(capsule).value = 1
        self._capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule


def _from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> Any:
    if hasattr(array, "__dlpack_device__"):
        assert array.__dlpack_device__()[0] == 2
        array = array.__dlpack__(stream=1, max_version=(1, 0), copy=copy)
    is_old = capsules.name(array) == b"dltensor"
    found = np.from_dlpack(_Exported(array))
    return there(np.asarray(capsules._Writable(found)) if is_old else found)


def _asarray(a: Any, dtype: Any = None, order: Any = None, **kwargs: Any) -> Any:
    if type(a) is not Array and hasattr(a, "__cuda_array_interface__"):
        return there(np.asarray(_Interface(a)))
    if type(a) is Array and (dtype is None or a.dtype == dtype) and order is None:
        return a
    if isinstance(a, np.ndarray):  # (of other orders CuPy knows Fortran's alone)
        order = order or ("F" if a.flags.fnc else "C")
    return there(np.array(a.near if type(a) is Array else a, dtype, copy=type(a) is not Array or None, order=order))


def _array(a: Any, dtype: Any = None, copy: Any = True, order: Any = "K", **kwargs: Any) -> Any:
    if isinstance(a, (list, tuple)) and a and type(a[0]) is Array:
        return there(np.array([x.near for x in a], dtype, order=order))
    return there(np.array(a.near if type(a) is Array else a, dtype, order=order))


def _reduced(name: str) -> Callable:
    """max and min, which CuPy has without `initial`."""

    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return there(getattr(np, name)(a.near, axis, here(out), keepdims=keepdims))

    return function


def _wraps_around(near: Any, index: Any, axis: Any = None) -> Any:
    n = near.size if axis is None else near.shape[axis]
    return near.take(np.asarray(index) % max(n, 1), axis)


def _where(condition: Any, *choices: Any) -> Any:
    found = np.where(here(condition), *[here(c) for c in choices])
    if choices and found.dtype.kind == "V":
        found = found.astype(np.float32)  # as CuPy's
    return there(np.ascontiguousarray(found).reshape(found.shape)) if choices else there(found)


def _nothing_raised(name: str) -> Callable:
    """A factor of LAPACK, whose results are nan where cuSOLVER refuses a matrix."""

    def function(a: Any, *rest: Any) -> Any:
        stack = a.near.reshape(-1, *a.shape[-2:])
        found = []
        for k, one in enumerate(stack):
            more = [r.near.reshape(-1, *r.shape[-2:])[k] if type(r) is Array else r for r in rest]
            try:
                found.append(getattr(np.linalg, name)(one, *more))
            except np.linalg.LinAlgError:
                found.append(np.full((more[0] if more else one).shape, np.nan, one.dtype))
        shape = rest[0].shape if rest else a.shape
        return there(np.array(found).reshape(shape).astype(a.dtype))

    return function


class RawModule:
    """Kernels compiled from their text: here by g++, see emulated.py."""

    def __init__(self, code: str, options: tuple = ()) -> None:
        self._text = code

    def get_function(self, name: str) -> Any:
        return _launched(emulated.Kernel(self._text, name))


def _launched(kernel: emulated.Kernel) -> Callable:
    """A kernel whose launches are noted."""

    def launch(grid: tuple, block: tuple, args: tuple, **options: Any) -> None:
        def work() -> None:
            kernel.max_dynamic_shared_size_bytes = vars(launch)["max_dynamic_shared_size_bytes"]
            kernel(grid, block, args, **options)
            for word, value in zip(kernel._words, args, strict=True):
                if type(value) is Array:
                    _accessed(value, "const" not in word)

        work()
        stand_in_device.captured(work)

    vars(launch)["max_dynamic_shared_size_bytes"] = kernel.max_dynamic_shared_size_bytes
    return launch


def _noted(function: Callable) -> Callable:
    """A function that gives a new array, noted where the stream is being recorded."""

    def through(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if type(result) is Array and result is not args[0]:
            _repeated(result, lambda: function(*args, **kwargs).near)
        return result

    return through


def _matmul(x: Any, y: Any, out: Any = None) -> Any:
    """Products, of 16-bit floats added in float32 as cuBLAS adds them."""
    if x.dtype.itemsize == 2 and x.dtype.kind in "fV":
        return there((here(x).astype(np.float32) @ here(y).astype(np.float32)).astype(x.dtype))
    return there(np.asarray(np.matmul(here(x), here(y))))


def _no_sort_of_bfloat16(name: str) -> Callable:
    def function(a: Any, axis: int = -1, kind: Any = None) -> Any:
        if a.dtype.kind == "V":
            raise NotImplementedError("Sorting arrays with dtype 'bfloat16' is not supported")
        return there(getattr(np, name)(here(a), axis, kind=kind))

    return function


def modules() -> dict[str, Any]:
    """The modules of CuPy by their names."""
    properties = {"name": b"stand-in", "major": 9, "minor": 0, "totalGlobalMem": 1 << 30, "multiProcessorCount": 1}
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda index: dict(properties),
        memGetInfo=lambda: (1 << 29, 1 << 30),
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
    )
    linalg = Module(
        "cupy.linalg",
        np.linalg,
        cholesky=_nothing_raised("cholesky"),
        solve=_nothing_raised("solve"),
        inv=_nothing_raised("inv"),
    )
    tricks = types.SimpleNamespace(as_strided=lambda x, shape, strides: Array(shape, x.dtype, x.data, strides))
    cupy = Module(
        "cupy",
        np,
        __version__=VERSION,
        ndarray=Array,
        asarray=_asarray,
        from_dlpack=_from_dlpack,
        array=_noted(_array),
        max=_noted(_reduced("max")),
        min=_noted(_reduced("min")),
        where=_noted(_where),
        matmul=_noted(_matmul),
        sort=_noted(_no_sort_of_bfloat16("sort")),
        argsort=_noted(_no_sort_of_bfloat16("argsort")),
        linalg=linalg,
        fft=Module("cupy.fft", np.fft),
        RawModule=RawModule,
        cuda=stand_in_device.modules(runtime),
        lib=types.SimpleNamespace(stride_tricks=tricks),
        get_default_memory_pool=lambda: stand_in_device.POOL,
    )
    cupy.cuda.UnownedMemory, cupy.cuda.MemoryPointer = UnownedMemory, _memory_pointer
    cupy.cuda.get_cublas_handle = lambda: stand_in_blas.HANDLE
    special = Module("cupyx.scipy.special", scipy.special)
    return {
        "cupy": cupy,
        "cupy.cuda.nccl": stand_in_nccl.module(),
        "cupy_backends.cuda.libs.cublas": stand_in_blas.MODULE,
        "cupyx": types.SimpleNamespace(empty_pinned=_empty_pinned),
        "cupyx.scipy": types.ModuleType("cupyx.scipy"),
        "cupyx.scipy.special": special,
    }


def install() -> Callable[[], None]:
    """Puts the stand-in where CuPy would be; gives the function that takes it away again."""
    made = modules()
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)

    def remove() -> None:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module

    return remove


for _name in ("max", "min"):
    setattr(
        Array, _name, lambda self, axis=None, out=None, keepdims=False, f=_name: _reduced(f)(self, axis, out, keepdims)
    )
Array.take = _passed("cupy.ndarray.take", _wraps_around)  # type: ignore[attr-defined]
