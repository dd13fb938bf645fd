"""Tensors from data of the program: numbers, nested sequences, arrays, buffers, DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, capsules, dtypes
from ferro.core import device as _device
from ferro.core.base import TensorBase, history, wrap
from ferro.core.dtypes import type_name
from ferro.core.notices import warn_once
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage, elements_as
from ferro.ops.creation import finish

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "frombuffer", "tensor"]

NUMBERS = (bool, int, float, complex)
SEQUENCES = (list, tuple, range)
MOST_DIMENSIONS = 64  # NumPy's


def to_array(name: str, data: Any, dtype: Any) -> Any:
    """NumPy array of anything `tensor` accepts, with PyTorch's dtype rules."""
    wanted = None if dtype is None else dtypes.to_numpy(dtype)
    if isinstance(data, TensorBase):
        return data._data if wanted is None else data._data.astype(wanted, copy=False)
    if isinstance(data, (np.ndarray, np.generic)):
        a = np.asarray(data)
        return dtypes.own(a if wanted is None else a.astype(wanted, copy=False))
    if isinstance(data, NUMBERS):
        return _of_numbers(name, np.array(data), {type(data)}, set(), wanted)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        own = data.dtype if isinstance(data, TypedStorage) else dtypes.int64
        return elements_as(name, data, wanted or own.np)
    if hasattr(data, "__array__") and not isinstance(data, SEQUENCES):
        return to_array(name, np.asarray(data), dtype)
    return _of_sequence(name, _listed(name, data), wanted)


def _listed(name: str, data: Any) -> Any:
    """Any sequence as one of Python's own; TypeError or RuntimeError for what is none, and no number either."""
    if isinstance(data, SEQUENCES):
        return data
    kind = type(data).__name__
    if isinstance(data, (str, bytes)):
        raise TypeError(
            f"{name}: new(): invalid data type '{kind}'; expected numbers, (nested) sequences of numbers, arrays or tensors"
        )
    if isinstance(data, (dict, set, frozenset)) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise RuntimeError(
            f"{name}: Could not infer dtype of {kind}; expected numbers, (nested) sequences of numbers, arrays or tensors"
        )
    try:
        return [data[i] for i in range(len(data))]
    except Exception as e:
        raise ValueError(f"{name}: could not determine the shape of object type '{kind}'") from e


def _of_sequence(name: str, data: Any, wanted: Any) -> Any:
    """The array of a nested sequence of numbers, arrays and tensors of one element; nothing else refers to it."""
    if set(map(type, data)) == {float} and (wanted is None or wanted.kind == "f"):  # the most frequent case, straight
        with np.errstate(over="ignore"):
            return np.array(data, wanted or dtypes.default().np)
    kinds: set[type] = set()  # of Python's numbers
    own: set[Any] = set()  # dtypes that come with elements

    def listed(x: Any, outer: tuple) -> Any:
        found = set(map(type, x))
        if found.issubset(NUMBERS):
            kinds.update(found)
            return x
        if len(outer) == MOST_DIMENSIONS:
            raise ValueError(f"{name}: too many dimensions '{type(x).__name__}': more than {MOST_DIMENSIONS}")
        return [element(y, (*outer, x)) for y in x]

    def element(y: Any, outer: tuple) -> Any:
        if isinstance(y, TensorBase):
            own.add(y._data.dtype)
            return y.__index__() if y._data.dtype.kind in "iu" else y._one()  # type: ignore[attr-defined]
        if isinstance(y, (np.ndarray, np.generic)):
            y = dtypes.own(np.asarray(y))
            own.add(y.dtype)
            return y
        for kind in NUMBERS:
            if isinstance(y, kind):
                kinds.add(kind)
                return y
        if any(y is x for x in outer):
            raise TypeError(f"{name}: new(): self-referential lists are incompatible with tensors")
        return listed(_listed(name, y), outer)

    nested = listed(data, ())
    if any(isinstance(x, np.ndarray) and x.ndim for x in data):
        warn_once("Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single "
                  "numpy.ndarray with numpy.array() before converting to a tensor.")  # fmt: skip
    try:
        a = np.array(nested)
    except ValueError:
        shape, first = [], nested
        while isinstance(first, SEQUENCES) or (isinstance(first, np.ndarray) and first.ndim):
            shape.append(len(first))
            first = first[0] if len(first) else None
        _refuse_ragged(name, nested, tuple(shape), 0)
        raise
    return _of_numbers(name, a, kinds, own, wanted)


def _refuse_ragged(name: str, x: Any, shape: tuple, dim: int) -> None:
    """Says where a nested sequence is not of the shape that its first elements have."""
    is_sequence = isinstance(x, SEQUENCES) or (isinstance(x, np.ndarray) and bool(x.ndim))
    expected = f"{name}: expected nested sequences of equal lengths"
    if dim == len(shape):
        if is_sequence:
            raise TypeError(
                f"{expected}: '{type(x).__name__}' object cannot be interpreted as an integer, nor as another number"
            )
        return
    if not is_sequence:
        raise TypeError(f"{expected}: not a sequence: {x!r}")
    if len(x) != shape[dim]:
        raise ValueError(f"{expected}; expected sequence of length {shape[dim]} at dim {dim} (got {len(x)})")
    for y in x:
        _refuse_ragged(name, y, shape, dim + 1)


def _of_numbers(name: str, a: Any, kinds: set, own: set, wanted: Any) -> Any:
    """An array that NumPy made of numbers, as PyTorch has it.

    kinds: of Python's numbers that are in it; own: dtypes that came with elements; wanted: the dtype asked for.
    """
    if wanted is None:
        d = None
        for kind in kinds or (() if own else (float,)):
            d = _higher(d, dtypes.scalar_dtype(kind(0)))
        for other in own:
            d = _higher(d, other)
    else:
        d = wanted
    if a.dtype is d:
        return a
    if a.dtype.kind == "c" and d.kind not in "cb":
        raise TypeError(f"{name}: must be real number, not complex, for {dtypes.from_numpy(d)}")
    if d.kind in "iu" and a.size:
        _refuse_overflow(name, a, d, wanted is None)
    with np.errstate(all="ignore"):
        return a.astype(d)


def _higher(d: Any, other: Any) -> Any:
    return other if d is None else dtypes.promote_types(dtypes.FROM_NUMPY[d], dtypes.FROM_NUMPY[other]).np


def _refuse_overflow(name: str, a: Any, d: Any, inferred: bool) -> None:
    """Refuses numbers that an integer dtype does not hold; those of an unsigned one may be negative, and wrap around."""
    most = np.iinfo(d).max
    least = -most if d.kind == "u" else np.iinfo(d).min
    for number in (a.max(), a.min()):
        number = number.item() if isinstance(number, np.generic) else number
        if not least <= number <= most:
            if inferred:
                raise ValueError(f"{name}: Overflow when unpacking long long: {number}")
            raise RuntimeError(
                f"{name}: value cannot be converted to type {dtypes.from_numpy(d).name} without overflow: {number}"
            )


_NOTHING: Any = object()


def tensor(
    data: Any = _NOTHING,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of `data`.

    - `data` (Any, default <object object at 0x7f9c243a7370>): a number, nested sequences, a NumPy array or a tensor
    - `dtype` (dtype, default None): None: the default dtype for Python floats, int64 for ints, bool for bools; arrays
      and tensors keep theirs, also as elements of a sequence, where tensors are of one element
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    ValueError for sequences of different lengths, and an error for numbers that an integer dtype does not hold.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]], dtype=ferro.float64)
        tensor([[1., 2.],
                [3., 4.]], dtype=ferro.float64)
    """
    if data is _NOTHING:
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    if dtype is dtypes.complex32:
        return backend.complex_half(tensor(data, dtype=dtypes.complex64, device=device), requires_grad)
    a = to_array("tensor", data, dtype)
    fresh = type(data) in (list, tuple, float, int, bool)
    return finish("tensor", a if fresh else np.array(a, order="C", copy=True), requires_grad, device)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A new leaf with a copy of `data` and this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `data` (Any): what :func:`tensor` takes
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): only "cpu"
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1.0]).new_tensor([2, 3])
        tensor([2., 3.])
    """
    return tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


# An array of the program is taken as a view of it: a shape or dtype that it is given later is not that of the tensor.
view, plain = np.ndarray.view, np.ndarray


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy and with its history where it is one already."""
    place = _device.known(device)
    if isinstance(data, TensorBase):
        found: Any = data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
        return found if device is None else found.to(place)
    a = to_array("as_tensor", data, dtype)
    return wrap(backend.moved(a if isinstance(data, (*NUMBERS, *SEQUENCES)) else view(a, plain), place))


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
        raise ValueError("from_numpy: given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                         f"reallocate the memory: the strides are {array.strides} bytes, an element has {array.itemsize}")  # fmt: skip
    if not ndarray.flags.writeable:
        warn_once(READ_ONLY.format("NumPy array", "array"))
    return wrap(view(array, plain))


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor, sharing memory where possible.

    - `obj` (Any): a tensor, an array, a DLPack capsule, a buffer (whose bytes are read as the dtype, the default dtype
      if none is given), a number or a sequence
    - `dtype` (dtype, default None): None: that of `obj`
    - `device` (device, default None): only "cpu"
    - `copy` (bool, default None): True always copies, False never (ValueError if needed), None where it must
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    Example::

        >>> import ferro
        >>> ferro.asarray(bytearray(b"abcd"), dtype=ferro.uint8)
        tensor([ 97,  98,  99, 100], dtype=ferro.uint8)
    """
    _device.check(device)
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
        return finish("asarray", view(to_array("asarray", obj, dtype), plain), requires_grad)
    d = given._data.dtype if dtype is None else dtypes.to_numpy(dtype)
    if d is not given._data.dtype and copy is False:
        raise ValueError(f"asarray: can't alias tensor with dtype '{type_name(given.dtype)}' into dtype "
                         f"'{type_name(dtypes.FROM_NUMPY[d])}': a copy is needed, but copy=False")  # fmt: skip
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
    buffer: Any, *, dtype: Any = _NOTHING, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor that shares the memory of an object with the buffer protocol.

    - `buffer` (Any): bytes, a bytearray, an array, ...
    - `dtype` (dtype, default <object object at 0x7f9c243a7370>): of the elements; must be given
    - `count` (int, default -1): how many elements; -1: all that there are
    - `offset` (int, default 0): how many bytes to leave out before
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    ValueError where there are no elements, fewer than asked for, or bytes that end within an element.

    Example::

        >>> import ferro
        >>> ferro.frombuffer(bytearray(b"abcd"), dtype=ferro.uint8, offset=2)
        tensor([ 99, 100], dtype=ferro.uint8)
    """
    if dtype is _NOTHING:
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
        raise ValueError(f"frombuffer: buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                         f"size ({d.itemsize})")  # fmt: skip
    if count > 0 and offset + count * d.itemsize > length:
        raise ValueError(f"frombuffer: requested buffer length ({count} * {d.itemsize} bytes) after offset ({offset} bytes) must not be "
                         f"greater than actual buffer length ({length} bytes)")  # fmt: skip
    if memory.readonly:
        warn_once(READ_ONLY.format("buffer", "buffer"))
    return finish("frombuffer", np.frombuffer(buffer, d, count, offset), requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object of another library through DLPack, or of a capsule that one gave.

    RuntimeError for a capsule that has been used.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2)
        >>> ferro.from_dlpack(x.__dlpack__())[0] = 1
        >>> x
        tensor([1., 0.])
    """
    _device.check(device)
    name = capsules.name(ext_tensor)
    if name not in capsules.NAMES if name is not None else not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might "
                           f"have already constructed a tensor from it once. Given: {type(ext_tensor).__name__}")  # fmt: skip
    return wrap(dtypes.own(capsules.taken(ext_tensor, copy)))


class DataMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_tensor = new_tensor
