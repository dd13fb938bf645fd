"""Memory that several processes share: storages move into it, and tensors in it are sent to other processes by name.

Note [Shared memory].  The memory is a file without a name (`memfd`, or a temporary file that is deleted at once), mapped by
every process that has its descriptor.  A forked process inherits the mapping.  To others `multiprocessing` sends the
descriptor, which Python's own `reduction.DupFd` duplicates; the receiver maps it once, and finds it again by the file's
number.  When the last process has dropped it, it is gone: nothing is left behind by a process that is killed.
"""

from __future__ import annotations

import gc
import mmap
import os
import stat
import tempfile
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.base import TensorBase, wrap
from ferro.core.held_memory import mapping
from ferro.core.history import history
from ferro.core.layout import strided
from ferro.cpu.shape import memory_of

_ATTACHED: WeakValueDictionary[tuple[int, int], Any] = (
    WeakValueDictionary()
)  # memory of this process by the file's number


class Segment(mmap.mmap):
    """A mapped file that several processes share; closes its descriptor when nobody looks at the memory any more."""

    descriptor: int
    is_shared = True


def _mapped(descriptor: int, size: int) -> Any:
    """The bytes of a file, which the descriptor belongs to from now on: the same array for the same file."""
    found = os.fstat(descriptor)
    held = _ATTACHED.get((found.st_dev, found.st_ino))
    if held is not None:
        os.close(descriptor)
        return held
    segment = Segment(descriptor, max(size, 1))
    segment.descriptor = descriptor
    finalize(segment, os.close, descriptor)
    held = _ATTACHED[found.st_dev, found.st_ino] = np.frombuffer(segment, np.uint8, size)
    return held


def _fresh(size: int) -> Any:
    """New shared memory."""
    if not hasattr(mmap, "MAP_SHARED"):
        raise RuntimeError(
            "share_memory_: shared memory needs file descriptors, which this system has not: send copies of tensors"
        )
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ferro")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, max(size, 1))
    return _mapped(descriptor, size)


def offered(size: int) -> tuple[Any, int]:
    """New shared memory, zeros, and its descriptor, under which other processes find it (`found`) as long as it is held here."""
    memory = _fresh(size)
    return memory, mapping(memory).descriptor


def found(process: int, descriptor: int, size: int) -> Any:
    """The shared memory that a process of this machine has offered; OSError if it has none of that size under that descriptor."""
    path = f"/proc/{int(process)}/fd/{int(descriptor)}"
    own = os.open(
        path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    )  # (it may be something else, such as a pipe)
    status = os.fstat(own)
    if not stat.S_ISREG(status.st_mode) or status.st_size != max(size, 1):
        os.close(own)
        raise FileNotFoundError(f"{path} is no shared memory of {size} bytes")
    return _mapped(own, size)


def share(*storages: Any) -> None:
    """Moves storages into shared memory, with all tensors that look at them; arrays of NumPy's stay with the old memory."""
    register(*{type(s) for s in storages})
    if any(memory_of(s._memory) is not s._memory for s in storages):
        raise RuntimeError("share_memory_: a slice of a storage is moved with the whole of it only: share that")
    waiting = []
    for storage in {id(s): s for s in storages if not s.is_shared()}.values():
        tensors = storage._holders()
        if tensors is None:  # tensors that the storage does not know, or arrays
            waiting.append(storage)
        else:
            _move(storage, tensors)
    if waiting:
        looking: dict[int, list[TensorBase]] = {id(memory_of(s._memory)): [] for s in waiting}
        for t in [found for found in gc.get_objects() if issubclass(type(found), TensorBase)]:
            data = getattr(t, "_data", None) if t.layout is strided else None
            if type(data) is backend.HOST and id(memory_of(data)) in looking:
                looking[id(memory_of(data))].append(t)
        for storage in waiting:
            _move(storage, looking[id(memory_of(storage._memory))])


def _move(storage: Any, tensors: list[Any]) -> None:
    held = storage.bytes()
    fresh = _fresh(len(held))
    fresh[...] = held
    start = held.ctypes.data
    for t in tensors:
        data = t._data
        where = data.ctypes.data - start if data.size else 0
        t._data = np.ndarray(data.shape, data.dtype, fresh, where, data.strides)
    storage._rest_on(fresh)


# -- sent to other processes --------------------------------------------------------------------------------------------


def register(*storages: type) -> None:
    """From now on `multiprocessing` sends tensors, and storages of these classes, as this file says."""
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(backend.tensor_class, _reduce_tensor)
    for cls in storages:
        ForkingPickler.register(cls, _reduce_storage)


def _reduce_storage(storage: Any) -> Any:
    from multiprocessing import reduction

    segment = mapping(storage._memory)
    if not isinstance(segment, Segment) or memory_of(storage._memory) is not storage._memory:
        return storage.__reduce__()
    return _attached, (type(storage), reduction.DupFd(segment.descriptor), len(storage))  # type: ignore[attr-defined]


def _attached(cls: Any, descriptor: Any, size: int) -> Any:
    return cls._of_memory(_mapped(descriptor.detach(), size))


def _reduce_tensor(t: Any) -> Any:
    if history(t) is not None and not t.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    if type(t._data) is not backend.HOST or not isinstance(mapping(t._data), Segment):
        return t.__reduce_ex__(2)
    data, storage = t._data, t.untyped_storage()
    where = data.ctypes.data - storage.data_ptr() if data.size else 0
    return _tensor, (storage, dtypes.FROM_NUMPY[data.dtype], data.shape, data.strides, where, t.requires_grad)


def _tensor(storage: Any, dtype: Any, shape: tuple, strides: tuple, where: int, requires_grad: bool) -> Any:
    data = np.ndarray(shape, dtype.np, storage._memory, where, strides)
    return wrap(data).requires_grad_(requires_grad)
