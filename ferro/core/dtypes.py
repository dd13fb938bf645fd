"""Data types: ferro's dtype objects, type promotion and the default dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ferro.core.naming import called

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class dtype:
    """A data type such as ``ferro.float32``; compare with ``is`` or ``==``, hashable, printed as in PyTorch."""

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np")

    def __init__(self, name: str, np_dtype: Any, category: int) -> None:
        self.name = name
        self.np = np.dtype(np_dtype)
        self.category = category  # 0 bool, 1 integer, 2 floating, 3 complex: the order of promotion
        self.is_floating_point = category == 2
        self.is_complex = category == 3
        self.is_signed = category >= 2 or (category == 1 and not name.startswith("u"))
        self.itemsize = self.np.itemsize

    def __repr__(self) -> str:
        return called(self.name)

    def __reduce__(self) -> tuple:
        return (_by_name, (self.name,))

    def to_real(self) -> dtype:
        """The dtype of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose real part has this dtype."""
        return {"float64": complex128, "complex128": complex128}.get(self.name, complex64)


bool_ = dtype("bool", np.bool_, 0)
uint8 = dtype("uint8", np.uint8, 1)
int8 = dtype("int8", np.int8, 1)
int16 = dtype("int16", np.int16, 1)
int32 = dtype("int32", np.int32, 1)
int64 = dtype("int64", np.int64, 1)
uint16 = dtype("uint16", np.uint16, 1)
uint32 = dtype("uint32", np.uint32, 1)
uint64 = dtype("uint64", np.uint64, 1)
float16 = dtype("float16", np.float16, 2)
bfloat16 = dtype("bfloat16", BFLOAT16, 2)
float32 = dtype("float32", np.float32, 2)
float64 = dtype("float64", np.float64, 2)
complex64 = dtype("complex64", np.complex64, 3)
complex128 = dtype("complex128", np.complex128, 3)


class Absent(dtype):
    """A dtype of PyTorch's that ferro knows by name only: programs may compare with it, tensors cannot have it."""

    __slots__ = ("why",)

    def __init__(self, name: str, itemsize: int, category: int, why: str) -> None:
        self.name, self.itemsize, self.category, self.why = name, itemsize, category, why
        self.is_floating_point, self.is_complex = category == 2, category == 3

    @property
    def np(self) -> Any:  # type: ignore[override]
        """There is none: NotImplementedError says why."""
        raise NotImplementedError(f"{self} is not supported: {self.why}")

    @property
    def is_signed(self) -> bool:  # type: ignore[override]
        """True of floating and complex numbers; RuntimeError of quantised ones, as in PyTorch."""
        if self.category < 2:
            raise RuntimeError(f"isSignedType not supported for quantized types, such as {self}")
        return True

    def to_real(self) -> dtype:
        return float16 if self.category == 3 else self

    def to_complex(self) -> dtype:
        return self if self.category == 3 else complex64


complex32 = Absent("complex32", 4, 3, "it is moved and cast only; use complex64, or cfloat()")  # see complex_half.py
qint8, quint8, qint32, quint4x2, quint2x4 = [
    Absent(name, size, 1, "ferro has no quantised tensors")
    for name, size in (("qint8", 1), ("quint8", 1), ("qint32", 4), ("quint4x2", 1), ("quint2x4", 1))
]
float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz = [
    Absent(name, 1, 2, "ferro computes with no numbers of 8 bits; use bfloat16 or float16")
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
]
ABSENT = (
    complex32,
    qint8,
    quint8,
    qint32,
    quint4x2,
    quint2x4,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
)

ALL = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
FROM_NUMPY: dict[Any, dtype] = {d.np: d for d in ALL}
INEXACT = frozenset(d.np for d in ALL if d.category >= 2)
COMPLEX = frozenset(d.np for d in ALL if d.category == 3)
HALF = frozenset((float16.np, BFLOAT16))


_TYPE_NAMES = {
    float64: "Double",
    float32: "Float",
    float16: "Half",
    bfloat16: "BFloat16",
    int64: "Long",
    int32: "Int",
    int16: "Short",
    int8: "Char",
    uint8: "Byte",
    uint16: "UInt16",
    uint32: "UInt32",
    uint64: "UInt64",
    bool_: "Bool",
    complex64: "ComplexFloat",
    complex128: "ComplexDouble",
}


def type_name(dtype: dtype) -> str:
    """PyTorch's old name of a dtype: Float, Long, Byte, ComplexDouble."""
    return _TYPE_NAMES[dtype]


C_NAMES = {
    float64: "double",
    float32: "float",
    float16: "c10::Half",
    bfloat16: "c10::BFloat16",
    int64: "int64_t",
    int32: "int",
    int16: "int16_t",
    int8: "int8_t",
    uint8: "uint8_t",
    uint16: "uint16_t",
    uint32: "uint32_t",
    uint64: "uint64_t",
    bool_: "bool",
    complex64: "c10::complex<float>",
    complex128: "c10::complex<double>",
}


META_NAMES = {  # as PyTorch's checks of `out=` and masks say them
    **C_NAMES,
    int64: "long int",
    int16: "short int",
    int8: "signed char",
    uint8: "unsigned char",
    uint16: "short unsigned int",
    uint32: "unsigned int",
    uint64: "long unsigned int",
}


_MOST = {d.np: float(ml_dtypes.finfo(d.to_real().np).max) for d in ALL if d.category >= 2}


def largest(d: Any) -> float:
    """The largest finite number of a floating NumPy dtype."""
    return _MOST[d]


def check_number(name: str, value: Any, d: Any) -> None:
    """RuntimeError if a NumPy dtype cannot hold a Python number, but as an infinity or wrapped around."""
    kind = d.kind
    if kind in "iuf" and isinstance(value, complex) and value.imag:
        held = False
    elif kind in "iu":
        most = np.iinfo(d).max
        held = (
            (-most if kind == "u" else np.iinfo(d).min) <= (value.real if isinstance(value, complex) else value) <= most
        )
    elif kind == "b":
        return
    else:
        try:
            held = abs(value.real) <= _MOST[d] or not math.isfinite(value.real)
            if isinstance(value, complex):
                held = held and (abs(value.imag) <= _MOST[d] or not math.isfinite(value.imag))
        except OverflowError:  # an integer that no float holds
            held = False
    if not held:
        raise RuntimeError(
            f"{name}: value cannot be converted to type {C_NAMES[FROM_NUMPY[d]]} without overflow: {value}"
        )


def refuse_gradient(name: str, d: dtype) -> None:
    """RuntimeError: tensors of this dtype have no gradients."""
    raise RuntimeError(f"{name}: Only Tensors of floating point and complex dtype can require gradients, got {d}")


def _by_name(name: str) -> dtype:
    return next(d for d in (*ALL, *ABSENT) if d.name == name)


def from_numpy(np_dtype: Any) -> dtype:
    """The ferro dtype of a NumPy dtype; TypeError for one that ferro has not."""
    try:
        return FROM_NUMPY[np_dtype]
    except KeyError:
        if not np.dtype(np_dtype).isnative:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently "
                f"not supported: bring {np_dtype!r} to {np.dtype(np_dtype).newbyteorder('=')!r} with astype() first"
            ) from None
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(np_dtype).type.__name__}. The only supported types are: float64, float32, "
            "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool. (And ml_dtypes.bfloat16; "
            f"ferro has no dtype for NumPy's {np_dtype!r}.)"
        ) from None


def own(array: Any) -> Any:
    """An array of the program with NumPy's one object for its dtype: what comes out of a pickle has another, equal one.

    So dtypes of tensors may be compared by `is`. TypeError for a dtype that ferro has not.
    """
    d = from_numpy(array.dtype).np
    return array if array.dtype is d else array.view(d)


def to_numpy(given: Any) -> Any:
    """The NumPy dtype of a ferro dtype, Python type or NumPy dtype."""
    if isinstance(given, dtype):
        return given.np
    if given is float:
        return float64.np
    if given is complex:
        return complex128.np
    if given is int:
        return int64.np
    if given is bool:
        return bool_.np
    try:
        return from_numpy(np.dtype(given)).np
    except TypeError:
        raise TypeError(f"expected a ferro dtype such as ferro.float32, got {given!r}") from None


_default = float32


def default() -> dtype:
    """The current default floating dtype."""
    return _default


def get_default_dtype() -> dtype:
    """The floating dtype of new tensors made from Python floats (``ferro.float32`` unless set)."""
    return _default


# Called with each new default dtype.
FOLLOWERS: list[Callable[[dtype], None]] = []


def set_default_dtype(d: dtype) -> None:
    """Sets the floating dtype of new tensors made from Python floats."""
    global _default  # noqa: PLW0603 (PyTorch's default dtype is process-wide)
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"set_default_dtype: only floating-point types are supported as the default type, got {d!r}")
    _default = d
    for follow in FOLLOWERS:
        follow(d)


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype to which both can be cast as PyTorch does it.

    Example::

        >>> import ferro
        >>> ferro.promote_types(ferro.int64, ferro.float16)
        ferro.float16
    """
    if a is complex32 or b is complex32:
        return _beside_complex_half(b if a is complex32 else a)
    return FROM_NUMPY[_promote_np(a.np, b.np)]


def _beside_complex_half(d: dtype) -> dtype:
    """The dtype of complex32 and another."""
    if d in (float64, complex128):
        return complex128
    return complex64 if d in (float32, bfloat16, complex64) else complex32


_promotions: dict[tuple, Any] = {}


def _promote_np(a: Any, b: Any) -> Any:
    """promote_types on NumPy dtypes, memoised."""
    if a is b:
        return a
    try:
        return _promotions[a, b]
    except KeyError:
        result = _promotions[a, b] = _promote(from_numpy(a), from_numpy(b)).np
        return result


def _promote(a: dtype, b: dtype) -> dtype:
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.is_complex and low is float64:
            return complex128
        return high
    if a.category == 2:
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if a.itemsize >= b.itemsize else b
    if a.category == 1:
        if {a, b} == {uint8, int8}:
            return int16
        wide, narrow = (a, b) if a.itemsize >= b.itemsize else (b, a)
        if not wide.is_signed and narrow.is_signed:
            if wide.itemsize == 1:
                return int16
            raise RuntimeError(f"promotion of {a} and {b} is not supported")
        return wide
    return a if a.itemsize >= b.itemsize else b


def scalar_dtype(value: Any) -> Any:
    """The NumPy dtype that a Python number has as a tensor of its own."""
    if isinstance(value, bool):
        return bool_.np
    if isinstance(value, int):
        return int64.np
    if isinstance(value, float):
        return _default.np
    if isinstance(value, complex):
        return _default.to_complex().np
    raise TypeError(f"expected a number, got {type(value).__name__}")


def result_np(operands: Any) -> Any:
    """PyTorch's result dtype, as a NumPy dtype, of arrays, 0-d arrays and Python numbers together.

    A dtype of a higher category always counts; within a category arrays with dimensions dominate 0-d arrays,
    and these dominate Python numbers.
    """
    levels: list[Any] = [None, None, None]
    for x in operands:
        if isinstance(x, (bool, int, float, complex)):
            level, d = 2, scalar_dtype(x)
        else:
            level, d = (0 if x.ndim else 1), x.dtype
        have = levels[level]
        levels[level] = d if have is None else _promote_np(have, d)
    result = None
    for d in levels:
        if d is None:
            continue
        if result is None:
            result = d
        elif from_numpy(d).category > from_numpy(result).category:
            high = FROM_NUMPY[d]
            # a complex or floating scalar raises the category; the precision stays the array's
            if high.is_complex and FROM_NUMPY[result].is_floating_point:
                result = FROM_NUMPY[result].to_complex().np
            else:
                result = d
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place result of dtype `from_` may be written into `to` (the category may not fall)."""
    return from_.category <= to.category


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, type: dtype | None = None) -> None:
        d = type or _default
        if d.category < 2:
            raise TypeError(f"finfo: expected a floating-point dtype, got {d}; use iinfo")
        real = d.to_real()
        info: Any = ml_dtypes.finfo(getattr(ml_dtypes, real.name) if isinstance(real, Absent) else real.np)
        self.bits = info.bits
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = 10.0 ** -int(-math.log10(self.eps))
        self.dtype = d.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: dtype) -> None:
        if type.category != 1:
            raise TypeError(f"iinfo: expected an integer dtype, got {type}; use finfo")
        info = np.iinfo(type.np)
        self.bits, self.max, self.min, self.dtype = info.bits, int(info.max), int(info.min), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
