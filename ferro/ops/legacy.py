"""The old ways to make tensors: FloatTensor, LongTensor, ..., Tensor(...) and Tensor.new(), and their names for dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import device as _device
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import type_name
from ferro.core.layout import strided
from ferro.core.naming import called
from ferro.core.notices import warn_once
from ferro.core.size import Size
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage, elements_as
from ferro.ops.data import to_array
from ferro.ops.structure import to
from ferro.ops.uninitialised import empty

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["set_default_tensor_type"]

_CHOICES = (
    "(*, torch.device device = None)",
    "(torch.Storage storage)",
    "(Tensor other)",
    "(tuple of ints size, *, torch.device device = None)",
    "(object data, *, torch.device device = None)",
)


def _combination(args: tuple, kwargs: dict) -> TypeError:
    given = ", ".join([type(a).__name__ for a in args])
    given += ", " * bool(args and kwargs) + "".join([f"{k}={type(v).__name__}, " for k, v in kwargs.items()])
    shown = "".join([f"\n * {choice}" for choice in _CHOICES])
    return TypeError(
        f"new() received an invalid combination of arguments - got ({given}), "
        f"but expected one of:{shown}\nUse tensor() for data and empty() for sizes."
    )


def legacy(dtype: dtypes.dtype | None, args: tuple, kwargs: dict, cls: Any = None) -> Any:
    """A tensor of class `cls` as the old constructors make it: from sizes, a sequence, a tensor or a storage.

    dtype: that of the numbers, of the tensor and of the storage; None: the default one, and that of a tensor that is given.
    """
    kwargs = dict(kwargs)
    place = kwargs.pop("device", None)
    if place is not None and _device.device(place).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {_device.device(place).type} was passed"
        )
    if not args and len(kwargs) == 1 and next(iter(kwargs)) in ("size", "data", "other", "storage"):
        name, given = kwargs.popitem()
        args = (Size(given),) if name == "size" else (given,)
    if kwargs:
        raise _combination(args, kwargs)
    if len(args) == 1 and not _is_size(args[0]):
        return _of_data(dtype, args[0], cls)
    if not all(map(_is_size, args)) or (len(args) > 1 and any(isinstance(a, Size) for a in args)):
        raise _combination(args, kwargs)
    shape = args[0] if args and isinstance(args[0], Size) else args or (0,)
    return wrap(empty(*shape, dtype=dtype or dtypes.default(), device=_device.CPU)._data, None, cls)


def _is_size(given: Any) -> bool:
    """Whether an argument is a size, or all of them."""
    return isinstance(given, (Size, int, np.integer)) and not isinstance(given, bool)


def _of_data(dtype: dtypes.dtype | None, given: Any, cls: Any) -> Any:
    if isinstance(given, TensorBase):
        return _of_tensor(dtype, given, cls)
    wanted = dtype or dtypes.default()
    if isinstance(given, (UntypedStorage, TypedStorage)):
        return wrap(elements_as("new", given, wanted.np), None, cls)
    if isinstance(given, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(given).__name__}); for one number use tensor()")
    return wrap(np.array(to_array("new", given, wanted), order="C"), None, cls)


def _of_tensor(dtype: dtypes.dtype | None, given: Any, cls: Any) -> Any:
    """Another name of a tensor, which shares its memory and its history."""
    if dtype is not None and given.dtype is not dtype:
        names = [d.name for d in (dtype, given.dtype)]
        raise TypeError(
            f"new(): expected TensorOptions(dtype={names[0]}, device=cpu, layout=Strided) "
            f"(got TensorOptions(dtype={names[1]}, device=cpu, layout=Strided)); cast it with .to()"
        )
    alias = given[...]
    if cls is None or cls is type(alias):
        return alias
    found = wrap(alias._data, alias._node, cls)
    found._counter, found._meta = alias._counter, alias._meta
    return found


class TensorType(type):
    """The class of the old tensor types: they make tensors, and tensors of their dtype are instances."""

    dtype: dtypes.dtype
    layout = strided
    is_cuda = is_sparse = False

    def __new__(cls, name: str, bases: tuple, namespace: dict) -> Any:
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type; derive from Tensor")
        return super().__new__(cls, name, bases, namespace)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TensorBase) and instance.layout is strided and instance._data.dtype is cls.dtype.np  # type: ignore[attr-defined]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy(cls.dtype, args, kwargs)

    def __repr__(cls) -> str:
        return f"<class '{called(cls.__name__)}'>"


def _type_of(dtype: dtypes.dtype) -> Any:
    name = f"{type_name(dtype)}Tensor"
    doc = f"An old name: ``{name}(...)`` makes a tensor of {dtype}, and such tensors are instances. Use ferro.tensor and ferro.empty."
    return TensorType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "ferro"})


DoubleTensor, FloatTensor = _type_of(dtypes.float64), _type_of(dtypes.float32)
HalfTensor, BFloat16Tensor = _type_of(dtypes.float16), _type_of(dtypes.bfloat16)
LongTensor, IntTensor, ShortTensor = _type_of(dtypes.int64), _type_of(dtypes.int32), _type_of(dtypes.int16)
CharTensor, ByteTensor, BoolTensor = _type_of(dtypes.int8), _type_of(dtypes.uint8), _type_of(dtypes.bool_)
_TYPES = {f"{module}.{type_name(d)}Tensor": d for d in dtypes.ALL for module in ("torch", "ferro")}

__all__ += ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
            "LongTensor", "ShortTensor"]  # fmt: skip


def _on_gpu(given: Any) -> bool:
    """Whether an old type, or the name of one, is of tensors on a GPU."""
    return (
        given.startswith(("torch.cuda.", "ferro.cuda."))
        if isinstance(given, str)
        else getattr(given, "is_cuda", False) is True
    )


def dtype_named(given: Any) -> Any:
    """The dtype that a name such as 'torch.FloatTensor' or an old type means; anything else as it is."""
    if isinstance(given, str):
        if given in ("torch.Tensor", "ferro.Tensor"):
            return dtypes.default()
        if given not in _TYPES:
            raise ValueError(f"invalid type: {given!r}; expected a dtype, or a name such as 'torch.FloatTensor'")
        return _TYPES[given]
    if given is backend.tensor_class:
        return dtypes.default()
    return given.dtype if isinstance(given, TensorType) else given


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by the name of an old type, ``"torch.DoubleTensor"``, or by the type; use set_default_dtype.

    Example::

        >>> import ferro, warnings
        >>> with warnings.catch_warnings(action="ignore"):  # it is deprecated
        ...     ferro.set_default_tensor_type("torch.FloatTensor")
        >>> ferro.ones(1).dtype
        ferro.float32
    """
    if _on_gpu(t):
        name = t if isinstance(t, str) else f"torch.cuda.{t.__name__}"
        raise TypeError(f"type {name} not available. Torch not compiled with CUDA enabled.")
    dtype = dtype_named(t) if isinstance(t, (str, TensorType)) or t is backend.tensor_class else None
    if dtype is None or not dtype.is_floating_point:
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type, got {t!r}")
    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    dtypes.set_default_dtype(dtype)


@overload
def type_(self: Any, dtype: None = None, non_blocking: bool = False) -> str: ...


@overload
def type_(self: Any, dtype: Any, non_blocking: bool = False) -> Tensor: ...


def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor as a dtype, or as the old type of a name; without one, that name: ``'torch.FloatTensor'``."""
    if dtype is None:
        return f"torch.{type_name(dtypes.FROM_NUMPY[self._data.dtype])}Tensor"
    if _on_gpu(dtype):
        raise RuntimeError(
            f"Cannot initialize CUDA without ATen_cuda library: type({dtype!r}): ferro computes on the CPU, leave "
            "`cuda` out"
        )
    if dtype in (int, float, bool, complex):
        raise ValueError(f"invalid type: {dtype.__name__!r}; expected a dtype, or a name such as 'torch.FloatTensor'")
    if not isinstance(dtype, (str, type, dtypes.dtype)):
        raise TypeError(f"dtype must be a type, str, or dtype object, not {type(dtype).__name__}")
    return to(self, dtype_named(dtype))


class LegacyMethods:
    """Methods of Tensor."""

    __slots__ = ()
    type = type_

    def new(self: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        """A tensor of this one's dtype as the old constructors make it; use new_tensor() and new_empty().

        ``new()`` is empty; ``new(2, 3)`` and ``new(size=(2, 3))`` have sizes, ``new([2, 3])`` or ``new(data=[2, 3])`` data;
        ``new(other)`` and ``new(storage)`` give another name of the memory of a tensor or a storage. `device` is that of this one.
        TypeError for anything else, which names these forms; RuntimeError for another device.

        Example::

            >>> import ferro
            >>> ferro.tensor([1.0]).new([2, 3])
            tensor([2., 3.])
        """
        dtype = dtypes.FROM_NUMPY[self._data.dtype]
        if type(self._data) not in backend.DEVICES:
            return legacy(dtype, args, {"device": device, **kwargs})
        if device is not None and _device.device(device).type != self.device.type:
            raise RuntimeError(
                f"legacy constructor expects device type: {self.device.type} but device type: {device} was passed"
            )
        return legacy(dtype, args, kwargs).to(self.device)
