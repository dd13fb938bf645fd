"""Tensors from data of the program: numbers, nested sequences, arrays."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core import device as _device
from ferro.core.base import TensorBase, wrap
from ferro.core.notices import warn_once
from ferro.core.origins import note
from ferro.core.storage import UntypedStorage
from ferro.core.typed_storage import TypedStorage, elements_as
from ferro.ops.creation import finish, placed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["as_tensor", "tensor"]

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
        if isinstance(y, str) and y is outer[-1][0]:  # (further on, only the type is said)
            raise ValueError(
                f"{name}: too many dimensions '{type(y).__name__}'; its elements must be numbers, not text"
            )
        return listed(_listed(name, y), outer)

    nested = listed(data, ())
    if any(isinstance(x, np.ndarray) and x.ndim for x in data):
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single "
            "numpy.ndarray with numpy.array() before converting to a tensor."
        )
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


NOTHING: Any = object()


def tensor(
    data: Any = NOTHING,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of `data`.

    - `data` (Any): a number, nested sequences, a NumPy array or a tensor
    - `dtype` (dtype, default None): None: the default dtype for Python floats, int64 for ints, bool for bools; arrays
      and tensors keep theirs, also as elements of a sequence, where tensors are of one element
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where a tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `pin_memory` (bool, default False): no effect on the CPU

    ValueError for sequences of different lengths, and an error for numbers that an integer dtype does not hold.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]], dtype=ferro.float64)
        tensor([[1., 2.],
                [3., 4.]], dtype=ferro.float64)
    """
    if data is NOTHING:
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    if dtype is dtypes.complex32:
        return tensor(data, dtype=dtypes.complex64, device=device)._complex_half(requires_grad)
    if isinstance(data, TensorBase):
        _advise_clone("torch.tensor(sourceTensor)")
        if type(data._data) in backend.DEVICES:
            copy: Any = data.detach().to(data.dtype if dtype is None else dtype, copy=True)  # type: ignore[attr-defined]
            return placed("tensor", copy._data, requires_grad, _device.wanted(device))
    a = to_array("tensor", data, dtype)
    fresh = type(data) in (list, tuple, float, int, bool)
    return finish("tensor", a if fresh else np.array(a, order="C", copy=True), requires_grad, device)


def _advise_clone(call: str) -> None:
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
        f"or sourceTensor.detach().clone().requires_grad_(True), rather than {call}.",
        stacklevel=3,
    )


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A new leaf with a copy of `data` and this tensor's dtype.

    - `self` (Tensor): has the dtype
    - `data` (Any): what :func:`tensor` takes
    - `dtype` (dtype, default None): another dtype
    - `device` (device, default None): where it lies; None: where this tensor does
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients
    - `**ignored` (Any): arguments without a meaning on the CPU, such as `pin_memory`

    Example::

        >>> import ferro
        >>> ferro.tensor([1.0]).new_tensor([2, 3])
        tensor([2., 3.])
    """
    if isinstance(data, TensorBase):
        _advise_clone("tensor.new_tensor(sourceTensor)")
        data = backend.on_host(data._data)
    place = backend.device_of(self._data) if device is None else device
    return tensor(data, dtype=dtype or self.dtype, device=place, requires_grad=requires_grad)


# An array of the program is taken as a view of it: a shape or dtype that it is given later is not that of the tensor.
view, plain = np.ndarray.view, np.ndarray


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy and with its history where it is one already.

    - `data` (Any): what :func:`tensor` takes; the memory of NumPy arrays is shared, and that of arrays of a GPU, which have
      ``__cuda_array_interface__``
    - `dtype` (dtype, default None): None: that of the data
    - `device` (device, default None): where it lies; None: the default one if one was chosen, else where a tensor does

    Example::

        >>> import ferro
        >>> x = ferro.ones(2)
        >>> ferro.as_tensor(x) is x, ferro.as_tensor([1.0, 2.0])
        (True, tensor([1., 2.]))
    """
    device = _device.wanted(device)
    place = _device.known(device)
    if isinstance(data, TensorBase):
        found: Any = data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
        return found if device is None else found.to(place)
    if hasattr(data, "__cuda_array_interface__"):
        found = wrap(backend.on_device("__cuda_array_interface__").from_interface(data))
        found = found if dtype is None else found.to(dtype)
        return found if device is None else found.to(place)
    a = to_array("as_tensor", data, dtype)
    found = wrap(backend.moved(a if isinstance(data, (*NUMBERS, *SEQUENCES)) else view(a, plain), place))
    if backend.DEVICES:
        note(found._data, "as_tensor")
    return found


class DataMethods:
    """Methods of Tensor."""

    __slots__ = ()
    new_tensor = new_tensor
