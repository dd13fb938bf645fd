"""A tensor's memory: its storage, memory from files, and in-place methods that exchange or rewrite it without a derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import device as _device
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, sizes
from ferro.core.backend import accelerator, address, beside, is_host, is_pinned, new_array, xp_of
from ferro.core.base import LEAF, Version, bump, is_inference, meta_of, new
from ferro.core.determinism import unset, unset_array
from ferro.core.dtypes import FROM_NUMPY, default, to_numpy
from ferro.core.held_memory import is_lent
from ferro.core.history import history
from ferro.core.inplace import check
from ferro.core.layout import (
    channels_last,
    channels_last_3d,
    geometry,
    over,
    preserve_format,
    reach,
    steps,
    storage_bytes,
)
from ferro.core.mode import is_grad_enabled, is_inference_mode_enabled
from ferro.core.node import next_sequence
from ferro.core.primitives import PIN
from ferro.core.storage import UntypedStorage, storage_of
from ferro.core.typed_storage import LegacyMeta, TypedStorage, deprecated, elements_as
from ferro.ops.creation import placed

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _fits(name: str, shape: tuple, width: int) -> None:
    """Refuses sizes whose number of elements, strides or bytes nobody could count in 64 bits."""
    if math.prod([max(n, 1) for n in shape[1:]]) > _MOST:
        raise RuntimeError(f"{name}: Stride calculation overflowed with sizes={list(shape)}")
    if math.prod(shape) > _MOST:
        raise RuntimeError(f"{name}: numel: integer multiplication overflow with sizes={list(shape)}")
    if math.prod(shape) * width > _MOST:
        raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(shape)}")


_MOST = 2**63 - 1


def _move(self: Any, data: Any, name: str) -> None:
    """Gives the tensor other memory: it leaves its base and its views, and what was saved of it counts as changed."""
    before = 0 if self._counter is None else self._counter.n
    self._data = data
    if self._node is LEAF:
        meta_of(self).moves += (next_sequence(),)
    self._counter = new(Version if self._counter is None else type(self._counter))
    self._counter.n = before
    if self._meta is not None and self._meta.view is not None:
        self._meta.view = None
    bump(self, name)


def _plain(self: Any, name: str) -> None:
    if history(self) is not None and not (is_inference(self) and is_inference_mode_enabled()):
        raise RuntimeError(
            f"cannot resize variables that require grad ({name}); detach() the tensor, or take a view of it"
        )
    if is_inference(self) and not is_inference_mode_enabled():
        check(self, name, writes=False)


def _may_set(self: Any, source: Any) -> None:
    if is_grad_enabled():
        if history(self) is LEAF:
            check(self, "set_", writes=False)
        if history(self) is not None or (source is not None and history(source) is not None):
            raise RuntimeError(
                "set_: the derivative of set_ is not implemented: detach() the tensors, or call it under no_grad()"
            )
    elif is_inference(self):
        check(self, "set_", writes=False)


def _same_device(self: Any, source: Any) -> None:
    """Refuses the memory of another device."""
    if source.device != self.device:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device "{source.device}".  '
            "This is no longer allowed; the devices must match."
        )


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage, an UntypedStorage or a TypedStorage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return (
        need_tensor("is_same_size", "input", input)._data.shape
        == need_tensor("is_same_size", "other", other)._data.shape
    )


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A one-dimensional tensor of the first `size` elements of a file, mapped into memory.

    - `filename` (str): the path
    - `shared` (bool, default None): whether what is written reaches the file, which is made, or grows, as needed; else
      it must be long enough, and stays as it is
    - `size` (int, default 0): how many elements
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): only "cpu", where the file is mapped (else NotImplementedError)
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    FileNotFoundError for a file that is not there, RuntimeError for one that is too short.

    Example::

        >>> import ferro
        >>> import tempfile, pathlib
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name) / "data"
        >>> _ = path.write_bytes(bytes([1, 2, 3]))
        >>> ferro.from_file(str(path), size=3, dtype=ferro.uint8)
        tensor([1, 2, 3], dtype=ferro.uint8)
        >>> folder.cleanup()
    """
    if device is not None and (to := _device.known(device)).type != "cpu":
        raise NotImplementedError(
            f"from_file: a file is mapped into memory of the CPU, not of {str(to)!r}: use from_file(...).to({to.type!r}), a copy"
        )
    d = FROM_NUMPY[default().np if dtype is None else to_numpy(dtype)]
    held = UntypedStorage.from_file(filename, bool(shared), size * d.itemsize)
    return placed("from_file", elements_as("from_file", held, d.np), requires_grad, device)


def _rewritten(self: Any, name: str, others: tuple) -> None:
    for t in (self, *others):
        if history(t) is not None:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    check(self, name)


def _filled(self: Any, name: str, others: tuple, function: Callable) -> Any:
    """Writes function(element, elements of others...) over every element."""
    _rewritten(self, name, others)
    data = self._data
    for i, t in enumerate(others):
        if t._data.dtype is not data.dtype:
            raise TypeError(f"{name}: expected {FROM_NUMPY[data.dtype]} for argument {i + 1}, got {t.dtype}")
    try:
        columns = [np.broadcast_to(t._data, data.shape) for t in others]
    except ValueError:
        raise RuntimeError(
            f"{name}: the expanded size of the tensor {list(data.shape)} must match the existing sizes "
            f"{[list(t._data.shape) for t in others]}"
        ) from None
    try:
        numbers = map(function, *[column.astype(object).ravel().tolist() for column in (data, *columns)])
        data[...] = np.array(list(numbers), data.dtype).reshape(data.shape)
    except ValueError as e:
        raise TypeError(f"{name}: the function must return numbers: {e}") from None
    finally:
        bump(self, name)
    return self


class StorageMethods:
    """Methods of Tensor."""

    __slots__ = ()

    is_same_size = is_same_size

    def untyped_storage(self: Any) -> UntypedStorage:
        """The memory that the tensor looks at, which its views share, as bytes: see :class:`ferro.UntypedStorage`."""
        return storage_of(self)

    def storage(self: Any) -> TypedStorage:
        """The memory as numbers of the tensor's dtype; deprecated as in PyTorch: use untyped_storage()."""
        deprecated()
        return self._typed_storage()

    def _typed_storage(self: Any) -> TypedStorage:
        return TypedStorage._around(storage_of(self), self.dtype)

    def storage_type(self: Any) -> Any:
        """The class of the tensor's storage, ``FloatStorage`` and the like; deprecated as in PyTorch."""
        return LegacyMeta.of(self.storage().dtype)

    def is_shared(self: Any) -> bool:
        """Whether other processes see what is written: after `share_memory_`, or where a file is mapped and shared."""
        return storage_of(self).is_shared()

    def share_memory_(self: Any) -> Tensor:
        """Moves the tensor's memory to where other processes see what is written; its views and its base move along.

        What has been forked since sees it, and those to whom `multiprocessing` sends the tensor.  NumPy's arrays stay with the
        old memory.

        Example::

            >>> import ferro
            >>> ferro.zeros(3).share_memory_().is_shared()
            True
        """
        storage_of(self).share_memory_()
        return self

    def is_pinned(self: Any, device: Any = None) -> bool:
        """Whether the tensor lies in memory of the processor that `pin_memory` made, for copies to a GPU."""
        return is_pinned(self._data)

    def pin_memory(self: Any, device: Any = None) -> Tensor:
        """A copy in page-locked memory, from which ``to("cuda", non_blocking=True)`` copies while the program goes on; itself if it
        lies there. RuntimeError without a GPU, and for a tensor on it.
        """
        module = accelerator()
        if module is None:
            raise RuntimeError(
                "pin_memory: Cannot access accelerator device when none is available. Pinned memory serves copies to a device; "
                "on the CPU leave it out"
            )
        if not is_host(self._data):
            raise RuntimeError(f"cannot pin '{self.type()}': only dense CPU tensors can be pinned")
        return self if is_pinned(self._data) else apply(PIN, (self,), (module,))

    def record_stream(self: Any, stream: Any) -> None:
        """Lets memory of a GPU live until a stream has done what it was given before the tensor died; RuntimeError on the CPU.

        - `stream` (cuda.Stream): one that reads the tensor, which was made in another stream
        """
        record = getattr(xp_of(self._data), "record_stream", None)
        if record is None:
            raise RuntimeError(
                "record_stream: the tensor is on the CPU, where work is done when a call returns: leave it out"
            )
        record(self, stream)

    def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Makes the tensor one more name of the memory of `source`, seen with a given geometry.

        - `self` (Tensor): changed and returned
        - `source` (Tensor or storage, default None): has the memory; None: no memory
        - `storage_offset` (int, default 0): where to begin, in elements
        - `size`, `stride` (ints, default None): the geometry; None: that of `source`

        A storage that is too small for a new geometry grows. Versions are counted separately, as in PyTorch: a change
        through one of the two tensors is not seen by what was saved of the other. RuntimeError for tensors that require
        grad: there is no derivative (detach() the source).

        Example::

            >>> import ferro
            >>> ferro.zeros(2).set_(ferro.arange(4.0), 1, (2,), (2,))
            tensor([1., 3.])
        """
        if isinstance(source, (UntypedStorage, TypedStorage)):
            return self._set_storage(source, storage_offset, size, stride)
        if source is None:
            data = new_array(self._data, (0,), np.empty, self._data.dtype)
        else:
            data = need_tensor("set_", "source", source)._data
        if data.dtype is not self._data.dtype:
            raise RuntimeError(f"set_: Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}")
        _may_set(self, source)
        if source is not None:
            _same_device(self, source)
        if size is not None:
            shape = sizes("set_", (size,))
            strides = steps("set_", shape) if stride is None else sizes("set_", (stride,))
            data = source.detach().as_strided(shape, strides, storage_offset)._data
        _move(self, data, "set_")
        return self

    def _set_storage(self: Any, storage: Any, offset: int, size: Any, stride: Any) -> Tensor:
        """set_ to a storage; of one that tensors know already, the tensor becomes one more of them."""
        d = self._data.dtype
        _same_device(self, storage)
        there = len(elements_as("set_", storage, d))
        _may_set(self, None)
        shape = (there,) if size is None else sizes("set_", (size,))
        strides = steps("set_", shape) if stride is None else sizes("set_", (stride,))
        if len(shape) != len(strides) or offset < 0 or any(n < 0 for n in (*shape, *strides)):
            raise RuntimeError(
                f"set_: sizes {list(shape)}, strides {list(strides)} and storage offset {offset} must be non-negative, and as "
                "many strides as sizes"
            )
        need = reach(shape, strides, offset)
        if need > there:
            if (shape, strides) == geometry(self._data)[:2]:
                raise RuntimeError(
                    f"set_: setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize "
                    f"{d.itemsize} requiring a storage size of {need * d.itemsize} are out of bounds for storage of size "
                    f"{storage.nbytes()}"
                )
            storage.untyped().resize_(need * d.itemsize)
        held, start = elements_as("set_", storage, d), offset * d.itemsize if 0 not in shape else 0
        _move(self, over(held.view(np.uint8), shape, d, start, tuple([s * d.itemsize for s in strides])), "set_")
        return self

    def is_set_to(self: Any, tensor: Tensor) -> bool:
        """Whether both tensors show the same memory with the same geometry."""
        a, b = self._data, need_tensor("is_set_to", "tensor", tensor)._data
        return a.dtype is b.dtype and (address(a), geometry(a)[:2]) == (address(b), geometry(b)[:2])

    def resize_(self: Any, *size: Any, memory_format: Any = None) -> Tensor:
        """Changes the shape, keeping elements in the order of memory.

        Where the storage is too small the tensor moves to a larger one, filled up with zeros; unlike PyTorch's, other
        tensors that shared the old storage do not move along.  RuntimeError for a tensor that requires grad.
        """
        if not size:
            raise TypeError('resize_() missing 1 required positional argument: "size"')
        _plain(self, "resize_")
        shape = sizes("resize_", size)
        if any(n < 0 for n in shape):
            raise RuntimeError(f"resize_: sizes must be non-negative, got {list(shape)}")
        if memory_format is preserve_format:
            raise RuntimeError(f"resize_: Unsupported memory format {memory_format}")
        strides = steps("resize_", shape, memory_format)
        if shape == self._data.shape and memory_format is None:
            return self
        where, width = geometry(self._data), self._data.dtype.itemsize
        before = storage_bytes(self._data) // width
        _fits("resize_", shape, width)
        room = storage_bytes(self._data) // width - where[2]
        if prod(shape) > room and storage_of(self).resizable():
            storage_of(self).resize_((where[2] + prod(shape)) * width)
            elements_as("resize_", storage_of(self), self._data.dtype)[before:] = unset(self._data.dtype)
            room = prod(shape)
        if prod(shape) <= room:
            return self.as_strided_(shape, strides, where[2])
        if is_lent(self._data):
            raise RuntimeError(
                "resize_: Trying to resize storage that is not resizable: the program has been given an array of its memory "
                "by numpy(), which cannot move along"
            )
        grown, xp = beside(self._data, unset_array(prod(shape), self._data.dtype)), xp_of(self._data)
        grown[:room] = xp.as_strided(self._data, (room,), (1,), where[2], where)
        _move(self, xp.as_strided(grown, shape, strides, 0, geometry(grown)), "resize_")
        return self

    def resize_as_(self: Any, other: Tensor, *, memory_format: Any = None) -> Tensor:
        """resize_ to the shape of another tensor; memory_format=preserve_format: and to its order in memory."""
        need_tensor("resize_as_", "other", other)
        if memory_format is preserve_format:
            formats = (channels_last, channels_last_3d)
            found = [f for f in formats if not other.is_contiguous() and other.is_contiguous(memory_format=f)]
            memory_format = found[0] if found else None
        return self.resize_(other._data.shape, memory_format=memory_format)

    def apply_(self: Any, callable: Callable) -> Tensor:
        """Replaces every element by ``callable(element)``; slow, and without derivative."""
        return _filled(self, "apply_", (), callable)

    def map_(self: Any, tensor: Tensor, callable: Callable) -> Tensor:
        """Replaces every element a by ``callable(a, b)`` with b from `tensor`, which is expanded."""
        return _filled(self, "map_", (need_tensor("map_", "tensor", tensor),), callable)

    def map2_(self: Any, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
        """Replaces every element a by ``callable(a, b, c)`` with b and c from `x` and `y`."""
        return _filled(self, "map2_", (need_tensor("map2_", "x", x), need_tensor("map2_", "y", y)), callable)
