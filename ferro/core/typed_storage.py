"""TypedStorage: memory read as numbers of one dtype; and the old classes FloatStorage, LongStorage, ... which make them."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.dtypes import FOLLOWERS, type_name
from ferro.core.notices import warn_once
from ferro.core.storage import UntypedStorage
from ferro.core.storage_elements import StorageCasts, element_index, elements


def deprecated(stacklevel: int = 2) -> None:
    """PyTorch's warning, once in a process."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
        "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
        "tensor.untyped_storage() instead of tensor.storage()",
        stacklevel=stacklevel + 1,
    )


class TypedStorage(StorageCasts):
    """The memory of a tensor as numbers of a dtype: ``TypedStorage(size, dtype=...)``, ``TypedStorage([numbers], dtype=...)`` or
    ``TypedStorage(wrap_storage=untyped, dtype=...)``.  PyTorch has deprecated it; use ``tensor.untyped_storage()``.

    - `*args` (int or sequence): a number of elements, or the elements
    - `wrap_storage` (UntypedStorage, default None): memory that is there
    - `dtype` (dtype, default None): of the elements; None: the default dtype
    - `device` (device, default None): where the memory is; None: the CPU

    Example::

        >>> import ferro
        >>> ferro.tensor([1.0, 2.0])._typed_storage().tolist()
        [1.0, 2.0]
    """

    dtype: dtypes.dtype
    _untyped_storage: UntypedStorage
    is_sparse = False

    def __new__(cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None) -> Any:
        deprecated()
        if dtype is None and wrap_storage is None:
            dtype = dtypes.default()
        if not isinstance(dtype, dtypes.dtype):
            raise _refused(
                cls,
                "Argument 'dtype' must be specified"
                if dtype is None
                else f"Argument 'dtype' must be torch.dtype, not {type(dtype)}",
            )
        made = _made(cls, args, wrap_storage, dtype)
        return made if device is None else made.to(device=device)

    @classmethod
    def _around(cls, untyped: UntypedStorage, dtype: dtypes.dtype) -> Self:
        storage = object.__new__(cls)
        storage._untyped_storage, storage.dtype = untyped, dtype
        return storage

    @classmethod
    def _of(cls, array: Any, dtype: dtypes.dtype) -> Self:
        """The storage of a new one-dimensional array."""
        return cls._around(UntypedStorage._around(array), dtype)

    # -- what it is ----------------------------------------------------------------------------------------------------

    def untyped(self) -> UntypedStorage:
        """The memory as bytes."""
        return self._untyped_storage

    def size(self) -> int:
        """The number of elements."""
        return len(elements(self))

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        return self._untyped_storage.data_ptr()

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def filename(self) -> str | None:
        """The file that is mapped, if other processes see what is written."""
        return self._untyped_storage.filename

    def get_device(self) -> int:
        """The number of the GPU; -1 for memory of the CPU."""
        return self._untyped_storage.get_device()

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return self._untyped_storage.is_cuda

    def type(self, dtype: Any = None) -> Any:
        """The name of the old class of this dtype, ``'torch.FloatStorage'``; with a dtype or such a name, a copy as that."""
        if dtype is None:
            return f"torch.{type_name(self.dtype)}Storage"
        if isinstance(dtype, str):
            named = [d for d in dtypes.ALL if dtype in (f"torch.{type_name(d)}Storage", f"ferro.{type_name(d)}Storage")]
            if not named:
                raise ValueError(f"invalid type: {dtype!r}; expected a name such as 'torch.FloatStorage'")
            dtype = named[0]
        elif isinstance(dtype, LegacyMeta):
            dtype = dtype.dtype
        if not isinstance(dtype, dtypes.dtype):
            raise TypeError(f"type: expected a dtype or the name of a storage class, got {dtype!r}")
        return self if dtype is self.dtype else self._cast(dtype)

    def share_memory_(self) -> Self:
        """Moves the memory to where other processes see what is written: see :meth:`ferro.UntypedStorage.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes see what is written."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is pinned for a GPU: never."""
        return False

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        rows = "".join([f" {item}\n" for item in self.tolist()])
        return f"{rows}[ferro.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __iter__(self) -> Any:
        return iter(self.tolist())

    # -- elements ------------------------------------------------------------------------------------------------------

    def tolist(self) -> list:
        """The elements as a list of numbers."""
        held = elements(self)
        return (held.astype(np.float32) if held.dtype in dtypes.HALF else held).tolist()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError(
                "slices are only supported in UntypedStorage.__getitem__; of a TypedStorage take untyped()[...]"
            )
        at = element_index(self, index, len(self))
        return self._part(slice(at, at + 1))[0]

    def _part(self, which: slice) -> list:
        held = elements(self)[which]
        return (held.astype(np.float32) if held.dtype in dtypes.HALF else held).tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            index = element_index(self, index, len(self))
        value = elements(value) if isinstance(value, (TypedStorage, UntypedStorage)) else np.asarray(value)
        self._untyped_storage._written()
        elements(self)[index] = backend.moved(value.astype(self.dtype.np), self.device)

    def fill_(self, value: Any) -> Self:
        """Writes one number to every element."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Self:
        """Copies the elements of a storage of the same length, of any dtype."""
        given = elements(source)
        if len(given) != len(self):
            raise RuntimeError(f"copy_: size does not match, self has {len(self)} elements but src has {len(given)}")
        self[:] = source
        return self

    # -- copies --------------------------------------------------------------------------------------------------------

    def clone(self) -> Self:
        """A copy, in memory of its own."""
        return self._around(self._untyped_storage.clone(), self.dtype)

    __copy__ = clone

    def __deepcopy__(self, memo: dict) -> Self:
        return self._around(self._untyped_storage.__deepcopy__(memo), self.dtype)

    def __reduce__(self) -> tuple:
        return TypedStorage._around, (self._untyped_storage, self.dtype)

    def new(self) -> Self:
        """An empty storage of the same dtype."""
        return self._around(self._untyped_storage.new(), self.dtype)

    def cpu(self) -> Self:
        """The storage on the CPU: itself, or a copy of one that lies elsewhere."""
        return self.to(device="cpu")

    def to(self, *, device: Any, non_blocking: bool = False) -> Self:
        """The storage on a device: itself, or a copy of one that lies elsewhere."""
        moved = self._untyped_storage.to(device=device)
        return self if moved is self._untyped_storage else self._around(moved, self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Self:
        """The storage on a GPU; RuntimeError, where there is none."""
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self, device: Any = None) -> Self:
        """Refused: memory is pinned for a GPU, and there is none."""
        self._untyped_storage.pin_memory()
        return self

    # -- other sizes, from elsewhere -----------------------------------------------------------------------------------

    def resizable(self) -> bool:
        """Whether resize_() can move everybody who looks at the memory: see :meth:`UntypedStorage.resizable`."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> Self:
        """Makes the storage `size` elements long: see :meth:`UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, **kwargs: Any) -> TypedStorage:
        """A copy of what a buffer holds: see :meth:`UntypedStorage.from_buffer`."""
        d = getattr(cls, "dtype", None) or dtype or dtypes.default()
        return TypedStorage._around(UntypedStorage.from_buffer(*args, dtype=d, **kwargs), d)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first `size` elements of a file, mapped into memory: see :meth:`UntypedStorage.from_file`."""
        d = getattr(cls, "dtype", None)
        if d is None:
            raise RuntimeError(
                "from_file can only be called on derived classes, such as FloatStorage: a dtype is needed"
            )
        return TypedStorage._around(UntypedStorage.from_file(filename, shared, size * d.itemsize), d)


StorageCasts._typed = TypedStorage


def _refused(cls: type, why: str) -> RuntimeError:
    named = f"torch.{cls.__name__}"
    choices = ("no arguments", "(int size)", "(Sequence data)", "(*, UntypedStorage wrap_storage)")
    shown = "".join([f"\n * {choice}" for choice in choices])
    return RuntimeError(
        f"<class {named!r}>.__new__ received an invalid combination of arguments. Expected one of:{shown}\n{why}"
    )


def _made(cls: type, args: tuple, wrap_storage: Any, dtype: dtypes.dtype) -> TypedStorage:
    """A storage of a dtype from the arguments of a class."""
    if wrap_storage is not None:
        if args:
            raise _refused(cls, "No positional arguments should be given when using 'wrap_storage'")
        if not isinstance(wrap_storage, UntypedStorage):
            error = _refused(cls, f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            raise TypeError(str(error))
        return TypedStorage._around(wrap_storage, dtype)
    if len(args) > 1:
        raise _refused(cls, "Too many positional arguments")
    given = args[0] if args else 0
    d = dtype.np
    if isinstance(given, (int, np.integer)):
        if given < 0:
            raise RuntimeError(f"{cls.__name__}(): Trying to create a storage with negative size {given}")
        return TypedStorage._of(np.zeros(int(given), d), dtype)
    if isinstance(given, str):
        raise TypeError(f"{cls.__name__}: new(): invalid data type 'str'")
    if isinstance(given, (TypedStorage, UntypedStorage)):
        return TypedStorage._of(elements(given).astype(d), dtype)
    if not isinstance(given, (list, tuple, range)):
        error = _refused(cls, f"Argument type not recognized: {type(given)}")
        raise TypeError(str(error))
    return TypedStorage._of(np.array(list(given)).reshape(len(given)).astype(d), dtype)


class LegacyMeta(type):
    """The class of the old storage classes: a TypedStorage of the right dtype is an instance."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    @staticmethod
    def of(dtype: dtypes.dtype) -> Any:
        """The old storage class of a dtype."""
        return globals()[f"{type_name(dtype)}Storage"]

    def __call__(cls, *args: Any, wrap_storage: Any = None, **kwargs: Any) -> TypedStorage:
        deprecated()
        for given in ("device", "dtype"):
            if given in kwargs:
                raise _refused(cls, f"Keyword argument '{given}' cannot be specified")
        if kwargs:
            raise TypeError(f"{cls.__name__}.__new__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        return _made(cls, args, wrap_storage, cls.dtype)


def _legacy(dtype: dtypes.dtype) -> Any:
    name = f"{type_name(dtype)}Storage"
    doc = f"An old name: ``{name}(...)`` makes a TypedStorage of {dtype}, and such storages are instances."
    return LegacyMeta(name, (TypedStorage,), {"dtype": dtype, "__doc__": doc, "__module__": "ferro"})


DoubleStorage, FloatStorage = _legacy(dtypes.float64), _legacy(dtypes.float32)
HalfStorage, BFloat16Storage = _legacy(dtypes.float16), _legacy(dtypes.bfloat16)
LongStorage, IntStorage, ShortStorage = _legacy(dtypes.int64), _legacy(dtypes.int32), _legacy(dtypes.int16)
CharStorage, ByteStorage, BoolStorage = _legacy(dtypes.int8), _legacy(dtypes.uint8), _legacy(dtypes.bool_)
ComplexFloatStorage, ComplexDoubleStorage = _legacy(dtypes.complex64), _legacy(dtypes.complex128)


@FOLLOWERS.append
def _follow(dtype: dtypes.dtype) -> None:
    """Makes PyTorch's name ``Storage`` that of the storages of the default dtype."""
    sys.modules["ferro"].Storage = globals()[f"{type_name(dtype)}Storage"]  # type: ignore[attr-defined]


def elements_as(name: str, storage: Any, wanted: Any) -> Any:
    """The memory of a storage as an array of a NumPy dtype: its own, or whatever is wanted of an untyped one."""
    if isinstance(storage, TypedStorage):
        if storage.dtype.np is not wanted:
            raise RuntimeError(
                f"{name}: Expected a Storage of type {type_name(dtypes.FROM_NUMPY[wanted])} or an UntypedStorage, "
                f"but got type {type_name(storage.dtype)} for argument 1 'storage'"
            )
        return elements(storage)
    held = storage.bytes()
    return held[: len(held) // wanted.itemsize * wanted.itemsize].view(wanted)
