"""A second backend for the tests: arrays on the far side of a wall, which are computed on by the backend's functions alone.

`Far` holds a NumPy array as a library for another device holds its memory. It lets nobody read that as a NumPy array
(`np.asarray` and NumPy's functions are refused) and computes with none: what lies here must be brought there first.
"""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ferro import cpu
from ferro.core import backend


class Far:
    """An array beyond the wall."""

    __slots__ = ("near",)
    __array_ufunc__ = None  # NumPy's ufuncs and operators refuse it
    __hash__ = object.__hash__

    def __init__(self, near: np.ndarray) -> None:
        assert type(near) is np.ndarray
        self.near = near

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("a far array was read as one of NumPy's")

    def __array_function__(self, function: Any, *args: Any) -> NoReturn:
        raise TypeError(f"a far array was given to numpy.{function.__name__}")

    def __bool__(self) -> bool:
        return bool(self.near)

    def __int__(self) -> int:
        return int(self.near)

    def __float__(self) -> float:
        return float(self.near)

    def __len__(self) -> int:
        return len(self.near)

    def __repr__(self) -> str:
        return f"Far({self.near!r})"

    def __getitem__(self, key: Any) -> Far:
        return _there(self.near[_here(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.near[_here(key)] = _here(value)

    shape = property(lambda self: self.near.shape)
    dtype = property(lambda self: self.near.dtype)
    ndim = property(lambda self: self.near.ndim)
    size = property(lambda self: self.near.size)
    itemsize = property(lambda self: self.near.itemsize)
    nbytes = property(lambda self: self.near.nbytes)
    flags = property(lambda self: self.near.flags)
    strides = property(lambda self: self.near.strides)
    base = property(
        lambda self: None if self.near.base is None else True
    )  # (whose it is, only `may_share_memory` says)
    real = property(lambda self: Far(self.near.real))
    imag = property(lambda self: Far(self.near.imag))
    T = property(lambda self: Far(self.near.T))

    def geometry(self) -> tuple:
        """Shape, strides and offset in the storage, in elements."""
        return cpu.geometry(self.near)

    def storage_bytes(self) -> int:
        """Bytes of the storage."""
        return cpu.storage_bytes(self.near)


def _here(value: Any) -> Any:
    """What a function computes on: the memory behind far arrays. Near arrays are refused."""
    if type(value) is Far:
        return value.near
    if type(value) in (tuple, list):
        return type(value)([_here(v) for v in value])
    if isinstance(value, np.ndarray) and value.ndim:  # (a 0-d array is a number)
        raise TypeError("a function of far arrays was given one of NumPy's")
    return value


def _there(value: Any) -> Any:
    """What a function gives, beyond the wall."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Far(np.asarray(value))
    if type(value) in (tuple, list):
        return type(value)([_there(v) for v in value])
    return value


def _method(function: Any) -> Any:
    """The function of far arrays; what it returns unchanged is the same far array again, as ownership asks for."""

    def through(*args: Any, **kwargs: Any) -> Any:
        found = function(*_here(args), **kwargs)
        for a in args:
            if type(a) is Far and a.near is found:
                return a
        return _there(found)

    return through


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul"]:
    _f = getattr(operator, f"__{_name}__")
    setattr(Far, f"__{_name}__", _method(_f))
    setattr(Far, f"__r{_name}__", _method(lambda x, y, f=_f: f(y, x)))
for _name in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert", "abs"]:
    setattr(Far, f"__{_name}__", _method(getattr(operator, f"__{_name}__")))
for _name in [
    "all",
    "any",
    "astype",
    "conj",
    "copy",
    "fill",
    "item",
    "max",
    "min",
    "nonzero",
    "reshape",
    "sum",
    "swapaxes",
    "tolist",
    "transpose",
    "view",
]:
    setattr(Far, _name, _method(getattr(np.ndarray, _name)))


class Functions(SimpleNamespace):
    """The module of functions of far arrays: those of `ferro.cpu`, each let through the wall and its result put back."""

    device = "privateuseone"
    from_host = staticmethod(lambda array: Far(np.array(array)))
    to_host = staticmethod(lambda array: array.near)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(cpu, name):
            raise AttributeError(name)
        function = _method(getattr(cpu, name))
        setattr(self, name, function)
        return function


functions = Functions()


def register() -> None:
    """Registers the backend, once in a process: it stays, as any backend does, and changes nothing for other arrays."""
    if backend.module_of(Far) is None:
        backend.register(Far, functions)
