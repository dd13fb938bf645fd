"""class ComplexHalf: tensors of complex32, complex numbers of two float16. NumPy has none: they are moved as bits, computed as complex64.

As in PyTorch, support is experimental: what is not in the lists below refuses, gradients among it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ferro import functional as F
from ferro.core import dtypes
from ferro.core.base import wrap
from ferro.core.device import device as Device
from ferro.core.dtypes import bfloat16, complex32, complex64, float16, float32, uint32
from ferro.core.mode import is_grad_enabled
from ferro.core.notices import warn_once
from ferro.ops import creation, likes, random_likes, uninitialised
from ferro.overrides import DisableTorchFunctionSubclass
from ferro.tensor import Tensor

RULES: dict[str, Callable] = {}


class ComplexHalf(Tensor):
    """A tensor of complex32. `bits` is a tensor of uint32 of the same shape: the two halves of each number."""

    bits: Any

    def __new__(cls, bits: Any) -> Any:
        warn_once("ComplexHalf support is experimental and many operators don't support it yet.", stacklevel=3)
        self = object.__new__(cls)
        self._node = self._counter = self._meta = None
        self.__dict__["bits"] = bits
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        rule = RULES.get(getattr(func, "__name__", ""))
        if rule is None:
            raise _unsupported(getattr(func, "__name__", "an operation"))
        with DisableTorchFunctionSubclass():
            return rule(*args, **(kwargs or {}))

    @property
    def _data(self) -> NoReturn:
        raise _unsupported("an operation")

    shape = property(lambda self: self.bits.shape)
    ndim = property(lambda self: self.bits.ndim)
    dtype = property(lambda self: complex32)
    device = property(lambda self: self.bits.device)
    requires_grad = property(lambda self: False, lambda self, value: self.requires_grad_(value))
    is_leaf = property(lambda self: True)
    grad = grad_fn = property(lambda self: None)
    T = property(lambda self: ComplexHalf(self.bits.T))
    real = property(lambda self: wrap(self.halves()[..., 0]), doc="The real parts, float16, in the same memory.")
    imag = property(lambda self: wrap(self.halves()[..., 1]), doc="The imaginary parts, float16, in the same memory.")

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Refused: nothing on complex32 records."""
        if requires_grad:
            raise _unsupported("requires_grad_")
        return self

    def halves(self) -> Any:
        """The numbers as an array of float16 with one more dimension of two, in the same memory."""
        return self.bits._data[..., None].view(np.float16)

    def wide(self) -> Any:
        """The numbers as complex64."""
        return wrap(self.halves().astype(np.float32).copy("C").view(np.complex64)[..., 0])

    def __repr__(self) -> str:
        return f"{repr(self.wide())[:-1]}, dtype={complex32})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return ComplexHalf, (self.bits,)

    def __deepcopy__(self, memo: dict) -> Any:
        return memo.setdefault(id(self), ComplexHalf(self.bits.clone()))


def rounded(x: Any) -> ComplexHalf:
    """A tensor of any dtype, rounded to complex32."""
    if x.requires_grad and is_grad_enabled():
        raise _unsupported("the gradient of a cast")
    parts = x.detach().to(complex64)._data.copy("C")[..., None].view(np.float32)
    with np.errstate(over="ignore"):  # beyond 65504 is infinity
        return ComplexHalf(wrap(parts.astype(np.float16).view(np.uint32)[..., 0]))


def _unsupported(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"\"{name}\" not implemented for 'ComplexHalf': complex32 is computed with in few operations; use cfloat()"
    )


def rule(*names: str) -> Callable:
    """Registers a function as what operations with these names do."""

    def register(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


# -- what moves numbers or asks for their places -------------------------------------------------------------------------


def _on_bits(name: str) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        taken = [_bits(a) for a in args]
        return _from_bits(getattr(Tensor, name)(*taken, **kwargs))

    return function


def _bits(x: Any) -> Any:
    return [_bits(a) for a in x] if isinstance(x, list) else x.bits if isinstance(x, ComplexHalf) else x


def _from_bits(x: Any) -> Any:
    if isinstance(x, tuple) and any(isinstance(a, Tensor) for a in x):
        return tuple([_from_bits(a) for a in x])
    return ComplexHalf(x) if isinstance(x, Tensor) and x.dtype is uint32 else x


for _name in (
    "clone",
    "contiguous",
    "detach",
    "t",
    "transpose",
    "permute",
    "reshape",
    "view",
    "flatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "select",
    "narrow",
    "unbind",
    "chunk",
    "split",
    "flip",
    "__getitem__",
    "dim",
    "ndimension",
    "size",
    "numel",
    "nelement",
    "stride",
    "is_contiguous",
    "storage_offset",
    "data_ptr",
    "element_size",
    "__len__",
    "untyped_storage",
):
    RULES[_name] = _on_bits(_name)


@rule("is_complex", "is_signed")
def yes(input: Any) -> bool:
    """Complex and with negative numbers they are."""
    return True


@rule("is_floating_point", "is_conj", "is_neg", "is_inference")
def no(input: Any) -> bool:
    """Floating numbers they are not; nor are they conjugated, or anything else, lazily."""
    return False


@rule("resolve_conj", "resolve_neg", "to_dense")
def itself(input: Any) -> Any:
    """The tensor itself."""
    return input


def _with_bits(self: Any, bits: Any) -> Any:
    return self if bits is self.bits else ComplexHalf(bits)


for _name in ("cpu", "cuda"):
    RULES[_name] = lambda self, *args, _name=_name, **kwargs: _with_bits(
        self, getattr(self.bits, _name)(*args, **kwargs)
    )


@rule("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Writes numbers of another dtype, or into a tensor of another dtype."""
    if isinstance(self, ComplexHalf):
        self.bits.copy_((src if isinstance(src, ComplexHalf) else rounded(src)).bits)
        return self
    return self.copy_(src.wide())


@rule("fill_")
def fill_(self: Any, value: Any) -> Any:
    """Writes one number everywhere."""
    self.bits.copy_(rounded(F.full((), value, dtype=complex64, device="cpu")).bits)
    return self


@rule("zero_")
def zero_(self: Any) -> Any:
    """Writes zeros."""
    self.bits.zero_()
    return self


@rule("to", "type")
def to(
    self: Any,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    """The numbers in another dtype, or on another device."""
    given = [a.dtype if isinstance(a, Tensor) else a for a in args]
    asked = [a for a in given if isinstance(a, dtypes.dtype) or a in (float, int, bool, complex)] or [
        dtype or complex32
    ]
    if not isinstance(self, ComplexHalf):  # the other tensor of x.to(y) is of complex32
        return rounded(self.to(next(a.device for a in args if isinstance(a, ComplexHalf))))
    places = [a.device if isinstance(a, Tensor) else a for a in args if isinstance(a, (Tensor, str, Device))]
    here = self if not (places := [*places, device])[0] else _with_bits(self, self.bits.to(places[0]))
    if asked[0] is complex32:
        return ComplexHalf(here.bits.clone()) if copy and here is self else here
    return here.wide().to(asked[0], memory_format=memory_format)


def _cast(name: str) -> Callable:
    return lambda self, memory_format=None: getattr(self.wide(), name)()


for _name in (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
    "tolist",
    "item",
    "__complex__",
    "__bool__",
):
    RULES[_name] = (
        _cast(_name)
        if _name not in ("tolist", "item", "__complex__", "__bool__")
        else (lambda self, _name=_name: getattr(self.wide(), _name)())
    )
RULES["chalf"] = lambda self, memory_format=None: self


@rule("view_as_real")
def view_as_real(input: Any) -> Any:
    """The two halves along a last dimension, in the same memory."""
    return wrap(input.halves())


# -- new ones like others ----------------------------------------------------------------------------------------------


def _like(make: Callable) -> Callable:
    def function(input: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if not isinstance(input, ComplexHalf):
            raise _unsupported(make.__name__)
        made = make(input.wide(), *args, dtype=complex64 if dtype in (None, complex32) else dtype, **kwargs)
        return rounded(made) if dtype in (None, complex32) else made

    return function


for _make in (
    uninitialised.empty_like,
    creation.full_like,
    likes.zeros_like,
    likes.ones_like,
    random_likes.rand_like,
    random_likes.randn_like,
):
    RULES[_make.__name__] = _like(_make)


# -- what is computed, in complex64 --------------------------------------------------------------------------------------


def result_type(*operands: Any) -> Any:
    """The dtype of an operation of tensors of complex32 with others and with numbers."""
    wide = [x.wide() if isinstance(x, ComplexHalf) else x for x in operands]
    found = F.result_type(*wide)
    if found is not complex64:
        return found
    others = [x for x in wide if isinstance(x, Tensor)]
    most = max(x.ndim > 0 for x in others)
    needs = [
        o
        for o, x in zip(operands, wide, strict=True)
        if isinstance(x, Tensor) and (x.ndim > 0) == most and not isinstance(o, ComplexHalf)
    ]
    return complex64 if any(o.dtype in (float32, bfloat16, complex64) for o in needs) else complex32


def _computed(name: str) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            raise _unsupported(f"{name}(out=)")
        found = getattr(F, name)(*[x.wide() if isinstance(x, ComplexHalf) else x for x in args], **kwargs)
        return rounded(found) if result_type(*args[:2]) is complex32 else found

    return function


def _compared(name: str) -> Callable:
    return lambda *args, **kwargs: getattr(F, name)(
        *[x.wide() if isinstance(x, ComplexHalf) else x for x in args], **kwargs
    )


for _name in ("add", "sub", "mul", "multiply", "div", "true_divide", "subtract"):
    RULES[_name] = _computed(_name)
for _name in ("neg", "conj", "conj_physical"):
    RULES[_name] = lambda input, _name=_name: rounded(getattr(F, _name)(input.wide()))
RULES["__rsub__"] = lambda self, other: RULES["sub"](other, self)
for _name in ("eq", "ne", "equal", "isclose", "allclose", "isnan", "isinf", "isfinite", "__eq__", "__ne__"):
    RULES[_name] = _compared(_name.strip("_"))
RULES["abs"] = lambda input: F.abs(input.wide()).to(float16)
RULES["result_type"] = result_type
