"""Tensors that share the memory of other objects: arrays, buffers, DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, capsules, dtypes
from ferro.core import device as _device
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import type_name
from ferro.core.history import history
from ferro.core.notices import warn_once
from ferro.core.origins import note
from ferro.ops.creation import finish, placed
from ferro.ops.data import NOTHING, plain, to_array, view

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["asarray", "from_dlpack", "from_numpy", "frombuffer"]

READ_ONLY = (
    "The given {} is not writable, and PyTorch does not support non-writable tensors; ferro does, and refuses to write "
    "to them. You may want to copy the {} to protect its data or make it writable before converting it to a tensor."
)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array; TypeError for anything else, and for dtypes that no tensor has.

    Example::

        >>> import ferro
        >>> import numpy as np
        >>> array = np.zeros(3, dtype=np.float32)
        >>> x = ferro.from_numpy(array)
        >>> array[0] = 7
        >>> x
        tensor([7., 0., 0.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__})")
    array = dtypes.own(ndarray)
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "from_numpy: given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
            f"reallocate the memory: the strides are {array.strides} bytes, an element has {array.itemsize}"
        )
    if not ndarray.flags.writeable:
        warn_once(READ_ONLY.format("NumPy array", "array"))
    found = wrap(view(array, plain))
    if backend.DEVICES:
        note(found._data, "from_numpy")
    return found


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor, sharing memory where possible.

    - `obj` (Any): a tensor, an array, a DLPack capsule, a buffer (whose bytes are read as the dtype, the default dtype
      if none is given), a number or a sequence
    - `dtype` (dtype, default None): None: that of `obj`
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where a tensor does
    - `copy` (bool, default None): True always copies, False never (ValueError if needed), None where it must
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    Example::

        >>> import ferro
        >>> ferro.asarray(bytearray(b"abcd"), dtype=ferro.uint8)
        tensor([ 97,  98,  99, 100], dtype=ferro.uint8)
    """
    device = _device.wanted(device)
    place = None if device is None else _device.known(device)
    if isinstance(obj, np.generic) and copy is False:
        raise RuntimeError(
            "asarray: can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. A scalar cannot change."
        )
    if isinstance(obj, TensorBase):
        given: Any = obj
    elif isinstance(obj, np.ndarray):
        given = from_numpy(obj)
    elif capsules.name(obj) is not None:
        given = from_dlpack(obj)
    elif _is_buffer(obj):
        given = frombuffer(obj, dtype=dtype or dtypes.default())
    else:
        if copy is False:
            raise ValueError(f"asarray: can't alias arbitrary sequence into a tensor, such as {type(obj).__name__}")
        return finish("asarray", view(to_array("asarray", obj, dtype), plain), requires_grad, place)
    if place is not None and given.device.type != place.type:
        if copy is False:
            raise ValueError(
                f"asarray: can't alias a tensor on {given.device} on {place}: a copy is needed, but copy=False"
            )
        given = given.to(place)
    d = given._data.dtype if dtype is None else dtypes.to_numpy(dtype)
    if d is not given._data.dtype and copy is False:
        raise ValueError(
            f"asarray: can't alias tensor with dtype '{type_name(given.dtype)}' into dtype "
            f"'{type_name(dtypes.FROM_NUMPY[d])}': a copy is needed, but copy=False"
        )
    if given is obj and not copy and d is given._data.dtype and (history(given) is not None) == requires_grad:
        return given
    given = given.to(dtypes.FROM_NUMPY[d], copy=bool(copy))
    if not requires_grad:
        return given.detach() if history(given) is not None else given
    return given if history(given) is not None else given.detach().requires_grad_()


def _is_buffer(obj: Any) -> bool:
    """Whether an object has the buffer protocol (a NumPy scalar is a number)."""
    if isinstance(obj, np.generic):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def frombuffer(
    buffer: Any, *, dtype: Any = NOTHING, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor that shares the memory of an object with the buffer protocol.

    - `buffer` (Any): bytes, a bytearray, an array, ...
    - `dtype` (dtype): of the elements; must be given
    - `count` (int, default -1): how many elements; -1: all that there are
    - `offset` (int, default 0): how many bytes to leave out before
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError where there are no elements, fewer than asked for, or bytes that end within an element.

    Example::

        >>> import ferro
        >>> ferro.frombuffer(bytearray(b"abcd"), dtype=ferro.uint8, offset=2)
        tensor([ 99, 100], dtype=ferro.uint8)
    """
    if dtype is NOTHING:
        raise TypeError('frombuffer() missing 1 required positional arguments: "dtype"')
    d = dtypes.to_numpy(dtype)
    try:
        memory = memoryview(buffer)
    except TypeError:
        raise ValueError(
            f"frombuffer: object does not implement Python buffer protocol: {type(buffer).__name__}"
        ) from None
    length = memory.nbytes
    if length == 0 or count == 0:
        raise ValueError(f"frombuffer: both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"frombuffer: offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % d.itemsize:
        raise ValueError(
            f"frombuffer: buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({d.itemsize})"
        )
    if count > 0 and offset + count * d.itemsize > length:
        raise ValueError(
            f"frombuffer: requested buffer length ({count} * {d.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({length} bytes)"
        )
    if memory.readonly:
        warn_once(READ_ONLY.format("buffer", "buffer"))
    return placed("frombuffer", np.frombuffer(buffer, d, count, offset), requires_grad)


_HOST_KINDS = (1, 3)  # kDLCPU, kDLCUDAHost


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object of another library through DLPack, or of a capsule that one gave.

    - `ext_tensor` (Any): an array, or a capsule
    - `device` (device, default None): where the tensor is to lie; None: where the array does, of a GPU for instance
    - `copy` (bool, default None): True: a copy; False: never one, BufferError where one is needed; None: one where it is needed

    RuntimeError for a capsule that has been used.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2)
        >>> ferro.from_dlpack(x.__dlpack__())[0] = 1
        >>> x
        tensor([1., 0.])
    """
    place = None if device is None else _device.known(device)
    name = capsules.name(ext_tensor)
    if name not in capsules.NAMES if name is not None else not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might "
            f"have already constructed a tensor from it once. Given: {type(ext_tensor).__name__}"
        )
    where = getattr(ext_tensor, "__dlpack_device__", None)
    kind = capsules.kind_of(ext_tensor).value if name is not None else 1 if where is None else int(where()[0])
    if kind not in _HOST_KINDS:
        data = backend.on_device("from_dlpack").from_dlpack(ext_tensor, copy)
    else:
        data = dtypes.own(capsules.taken(ext_tensor, copy))
    if place is not None and (at := backend.device_of(data)).type != place.type:
        if copy is False:
            raise BufferError(f"from_dlpack: what lies on {at} comes to {place} by a copy, but copy=False")
        data = backend.moved(data, place)
    found = wrap(data)
    if backend.DEVICES:
        note(found._data, "from_dlpack")
    return found
