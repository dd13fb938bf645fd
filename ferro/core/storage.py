"""UntypedStorage: the memory that tensors look at, as bytes."""

from __future__ import annotations

import operator
import os
import sys
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.base import TensorBase
from ferro.core.device import CPU, device, known
from ferro.core.held_memory import _LENT, copied, mapped, mapping
from ferro.core.inplace import announce
from ferro.core.naming import called
from ferro.core.storage_elements import StorageCasts, _byte, _name, element_index
from ferro.cpu.shape import memory_bytes, memory_of

_OF_MEMORY: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by the id of the array that owns the memory


class UntypedStorage(StorageCasts):
    """The memory that one tensor, or several that view one another, look at: bytes, without dtype or shape.

    ``UntypedStorage(nbytes)`` makes memory, ``UntypedStorage([1, 2])`` fills it; ``tensor.untyped_storage()`` gives the memory of a
    tensor: one object for all its views, as long as somebody holds that object.  What is written through a storage is seen by all
    its tensors, but not by autograd.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0])
        >>> x.untyped_storage().nbytes(), x[1:].untyped_storage() is x.untyped_storage()
        (8, True)
    """

    _memory: Any  # the array that owns the memory; of a slice, bytes of such an array
    _tensors: WeakValueDictionary  # those that are known to look at it, by their id (== compares elements)
    is_sparse = is_sparse_csr = False

    def __new__(cls, given: Any = None, *, device: Any = None) -> Self:
        to = known(device) if device is not None else CPU
        return cls._around(backend.moved(cls._new(given), to))

    @classmethod
    def _new(cls, given: Any) -> Any:
        if given is None:
            return np.empty(0, np.uint8)
        if isinstance(given, UntypedStorage):
            return given._memory
        if isinstance(given, (int, np.integer)):
            if given < 0:
                raise RuntimeError(
                    f"{_name(cls)}(): Trying to create a storage with negative size: {given} bytes were asked for"
                )
            return np.zeros(int(given), np.uint8)
        try:
            items = list(given)
        except TypeError:
            raise TypeError(
                f"{_name(cls)}(): expected a number of bytes or a sequence of numbers, got {type(given).__name__}"
            ) from None
        return np.array([_byte(cls, item, given) for item in items], np.uint8)

    @classmethod
    def _around(cls, memory: Any) -> Self:
        storage = object.__new__(cls)
        storage._memory, storage._tensors = memory, WeakValueDictionary()
        return storage

    @classmethod
    def _of_memory(cls, memory: Any) -> UntypedStorage:
        """The storage of an array that owns its memory: the one that somebody holds, or a new one."""
        found = _OF_MEMORY.get(id(memory))
        if found is None or found._memory is not memory:
            found = _OF_MEMORY[id(memory)] = UntypedStorage._around(memory)
        return found

    # -- what it is ----------------------------------------------------------------------------------------------------

    def bytes(self) -> Any:
        """The memory as an array of bytes, which shares it."""
        return memory_bytes(self._memory)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self.bytes().size

    size = __len__ = nbytes

    def element_size(self) -> int:
        """Bytes per element: 1."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte; 0 if there is none."""
        return backend.address(self.bytes())

    @property
    def _cdata(self) -> int:
        """What tells one piece of memory from another."""
        return id(self._memory)

    @property
    def device(self) -> device:
        """Where the memory is."""
        return backend.device_of(self._memory)

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The number of the GPU; -1 for memory of the CPU."""
        return -1 if self.device == CPU else self.device.index or 0

    def type(self) -> str:
        """The name of the type, as PyTorch has it."""
        return "torch.storage.UntypedStorage"

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    @property
    def filename(self) -> str | None:
        """The file that is mapped, if other processes see what is written."""
        return getattr(mapping(self._memory), "filename", None)

    def is_shared(self) -> bool:
        """Whether other processes see what is written: after `share_memory_`, or in a mapped file that is shared; True on a GPU."""
        found = mapping(self._memory)
        return self.device != CPU or getattr(found, "is_shared", False) or getattr(found, "filename", None) is not None

    def share_memory_(self) -> Self:
        """Moves the memory to where other processes see what is written, with all tensors that look at it.

        What has been forked since sees it, and those to whom `multiprocessing` sends the storage or its tensors.  NumPy's arrays
        stay with the old memory.
        """
        from ferro.core.shared_memory import share

        if self.device == CPU:  # (of a GPU nothing is to be done, as in PyTorch)
            share(self)
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is pinned for a GPU: never."""
        return False

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __repr__(self) -> str:
        rows = "".join([f" {item}\n" for item in self])
        return f"{rows}[{called('storage.UntypedStorage')}(device={self.device}) of size {len(self)}]"

    def __iter__(self) -> Any:
        return iter(self.tolist())

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def tolist(self) -> list[int]:
        """The bytes as a list of numbers."""
        return self.bytes().tolist()

    def __getitem__(self, index: Any) -> Any:
        held = self.bytes()
        if isinstance(index, slice):
            start, stop, step = index.indices(len(held))
            if step != 1:
                raise RuntimeError(
                    f"{_name(self)}: Trying to slice with a step of {step}, but only a step of 1 is supported"
                )
            return type(self)._around(held[start : max(start, stop)])
        return int(held[element_index(self, index, len(held))])

    def __setitem__(self, index: Any, value: Any) -> None:
        held = self._written()
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(
                    f"{_name(self)}: Trying to slice with a step of {index.step}, but only a step of 1 is supported"
                )
            held[index] = _byte(type(self), value, None)
        else:
            held[element_index(self, index, len(held))] = _byte(type(self), value, None)

    def fill_(self, value: int) -> Self:
        """Writes one number to every byte."""
        self._written()[...] = _byte(type(self), value, None)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> Self:
        """Copies the bytes of a storage of the same size."""
        held, given = self.bytes(), source.untyped().bytes()
        if len(held) != len(given):
            raise RuntimeError(f"copy_: size does not match, self was {len(held)} bytes but src was {len(given)} bytes")
        self._written()[...] = backend.moved(given, self.device)
        return self

    def _written(self) -> Any:
        """The bytes, which are about to be written."""
        held = self.bytes()
        if not backend.is_writable(held):
            raise RuntimeError("storage: the memory belongs to a read-only NumPy array; clone() the storage first")
        announce(held)
        return held

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Reverses the bytes of each number, the memory taken as numbers of `dtype` (of both parts of complex ones)."""
        held = self._written()
        width = dtypes.to_numpy(dtype.to_real() if isinstance(dtype, dtypes.dtype) else dtype).itemsize
        if len(held) % width:
            raise RuntimeError(f"byteswap: {len(held)} bytes are no whole number of elements of {dtype}")
        numbers = held.reshape(-1, width)
        numbers[...] = numbers[:, ::-1].copy()

    # -- copies --------------------------------------------------------------------------------------------------------

    def clone(self) -> Self:
        """A copy, in memory of its own."""
        return type(self)._around(self.bytes().copy())

    __copy__ = clone

    def __deepcopy__(self, memo: dict) -> UntypedStorage:
        if id(self) not in memo:
            memo[id(self)] = storage_around(copied(self._memory, memo))
        return memo[id(self)]

    def __reduce__(self) -> tuple:
        held = backend.on_host(self.bytes()).tobytes()
        return _rebuilt, (held,) if self.device == CPU else (held, self.device)

    def new(self) -> Self:
        """An empty storage."""
        return type(self)(device=self.device)

    def cpu(self) -> Self:
        """The storage on the CPU: itself, or a copy of one that lies elsewhere."""
        return self.to(device=CPU)

    def to(self, *, device: Any, non_blocking: bool = False) -> Self:
        """The storage on a device: itself, or a copy of one that lies elsewhere."""
        to = known(device) if device is not None else CPU
        return self if to.type == self.device.type else type(self)._around(backend.moved(self.bytes(), to))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Self:
        """The storage on a GPU; RuntimeError, where there is none."""
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self, device: Any = None) -> Self:
        """Refused: memory is pinned for a GPU, and there is none."""
        raise RuntimeError(
            "pin_memory: Cannot access accelerator device when none is available: ferro computes on the CPU"
        )

    # -- other sizes ---------------------------------------------------------------------------------------------------

    def _holders(self) -> list | None:
        """The tensors that look at the memory; None if there are arrays or tensors among those who do that nobody knows.

        What NumPy makes of an array holds the array that owns the memory, so references say how many there are.
        """
        # (at memory of a GPU more may look than has a reference: streams, graphs that are recorded)
        if self.device != CPU or not self._memory.flags.owndata or id(self._memory) in _LENT:
            return None
        tensors = [t for t in self._tensors.values() if memory_of(t._data) is self._memory]
        owners, views = 0, {}
        for t in tensors:
            if t._data is self._memory:
                owners += 1
            else:
                views.setdefault(id(t._data), []).append(t)
        for same in views.values():
            # the slots of the tensors and the argument of getrefcount
            if same[0]._data.base is not self._memory or sys.getrefcount(same[0]._data) != len(same) + 1:
                return None
        return tensors if sys.getrefcount(self._memory) == owners + len(views) + 2 else None

    def resizable(self) -> bool:
        """Whether resize_() can move everybody who looks at the memory: False while tensors unknown to it do, or once NumPy was given it."""
        return self._holders() is not None

    def resize_(self, size: int) -> Self:
        """Makes the storage `size` bytes long; what is new holds 0. Tensors that look at it move along.

        RuntimeError where the memory is not ferro's own or arrays or unknown tensors look at it (see :meth:`resizable`), and,
        unlike PyTorch, if a tensor would look beyond the end.
        """
        size = operator.index(size)
        if size < 0:
            raise RuntimeError(f"resize_: a storage cannot have a negative number of bytes, got {size}")
        if size == self.nbytes():
            return self
        tensors = self._holders()
        if tensors is None:
            raise RuntimeError(
                "resize_: Trying to resize storage that is not resizable: NumPy arrays, other tensors or values saved for "
                "backward look at its memory and cannot move along; clone() the storage instead"
            )
        start = self.data_ptr()
        places = [t._data.ctypes.data - start if t._data.size else 0 for t in tensors]
        for t, where in zip(tensors, places, strict=True):
            last = where + sum((n - 1) * s for n, s in zip(t._data.shape, t._data.strides, strict=True))
            if t._data.size and last + t._data.itemsize > size:
                raise RuntimeError(
                    f"resize_: a tensor of shape {list(t._data.shape)} looks beyond the first {size} bytes of the "
                    "storage; make it smaller first, or delete it"
                )
        fresh = np.zeros(size, np.uint8)
        kept = min(size, self.nbytes())
        fresh[:kept] = self.bytes()[:kept]
        for t, where in zip(tensors, places, strict=True):
            data = t._data
            t._data = np.ndarray(data.shape, data.dtype, fresh, where, data.strides)
        self._rest_on(fresh)
        return self

    def _rest_on(self, fresh: Any) -> None:
        """Takes other memory for its own."""
        _OF_MEMORY.pop(id(self._memory), None)
        self._memory = fresh
        _OF_MEMORY[id(fresh)] = self

    # -- from elsewhere ------------------------------------------------------------------------------------------------

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, *, dtype: Any = dtypes.uint8, count: int = -1, offset: int = 0
    ) -> Self:
        """A copy of the bytes of a buffer that holds numbers of `dtype` in a byte order: "big", "little" or "native".

        count: how many numbers (-1: all there are), from the byte `offset` on.
        """
        d = dtypes.to_numpy(dtype)
        if byte_order is None and d.itemsize > 1:
            raise RuntimeError(
                f"from_buffer(): function missing required argument 'byte_order' (pos 2), which numbers of {dtype} need"
            )
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(
                f"from_buffer(): invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')"
            )
        given = np.frombuffer(buffer, np.uint8)
        if not 0 <= offset <= len(given):
            raise ValueError(
                f"from_buffer(): offset must be non-negative and no greater than buffer length ({len(given)}), but got {offset}"
            )
        given = given[offset:]
        if count < 0:
            if len(given) % d.itemsize:
                raise ValueError(
                    f"from_buffer(): buffer size ({len(given)}) must be a multiple of element size ({d.itemsize})"
                )
            count = len(given) // d.itemsize
        if count * d.itemsize > len(given):
            raise ValueError(
                f"from_buffer(): buffer has only {len(given) // d.itemsize} elements after offset {offset}, but "
                f"specified a size of {count}"
            )
        storage = cls._around(given[: count * d.itemsize].copy())
        if d == np.bool_:
            storage._memory[...] = storage._memory != 0
        if byte_order not in (None, "native", sys.byteorder):
            storage.byteswap(dtypes.FROM_NUMPY[d])
        return storage

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, mapped into memory. shared: what is written reaches the file, which is made or grows as needed."""
        mapping = mapped(os.fspath(filename), shared, nbytes)
        return cls() if mapping is None else storage_around(np.frombuffer(mapping, np.uint8))


storage_around = UntypedStorage._of_memory


def storage_of(t: TensorBase) -> UntypedStorage:
    """The storage that a tensor looks at."""
    storage = storage_around(memory_of(t._data))
    storage._tensors[id(t)] = t
    return storage


def forget(t: TensorBase) -> None:
    """Takes a tensor from those that its storage knows."""
    found = _OF_MEMORY.get(id(memory_of(t._data)))
    if found is not None:
        found._tensors.pop(id(t), None)


def _rebuilt(held: bytes, on: device = CPU) -> UntypedStorage:
    """A pickled storage."""
    return UntypedStorage._around(backend.moved(np.frombuffer(held, np.uint8).copy(), known(on)))
